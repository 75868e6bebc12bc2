"""What the rules of SimplifyExpr are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

from eqsat.relay.dataflow_pattern import DFPattern, DFPatternCallback, is_op
from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.op.types import tensor
from eqsat.relay.ty import TensorType

Find: TypeAlias = Callable[[DFPattern], Any]
"""Gives what a sub-pattern matched."""

Simplify: TypeAlias = Callable[[Call, Call, Find], Expr | None]
"""``simplify(pre, post, find)``: ``pre`` is the matched call, typed; ``post`` the same over simplified operands."""


class Rule(DFPatternCallback):
    """Replaces matches of ``pattern``, whose root is a call, by what ``simplify`` gives; None leaves them."""

    def __init__(self, pattern: DFPattern, simplify: Simplify):
        super().__init__(require_type=True)
        self.pattern = pattern
        self._simplify = simplify

    def callback(self, pre: Any, post: Any, node_map: Any) -> Expr:
        result = self._simplify(pre, post, lambda pattern: node_map[pattern][0])
        return post if result is None else result


def rule(pattern: DFPattern) -> Callable[[Simplify], Rule]:
    """Decorator: the rule that simplifies matches of ``pattern`` by the function."""
    return lambda simplify: Rule(pattern, simplify)


def any_op(*names: str) -> DFPattern:
    """One of the operators."""
    return reduce(or_, map(is_op, names))


def op_name(expr: Expr) -> str:
    """The name of the operator that ``expr`` calls, else ''."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else ""


def tensor_type(expr: Expr) -> TensorType:
    """The inferred type of ``expr``, which must be a tensor."""
    return tensor(expr.checked_type)


def scalar(expr: Expr) -> Any:
    """The value of a rank-0 constant as a NumPy scalar, else None."""
    return expr.data.numpy()[()] if isinstance(expr, Constant) and expr.data.shape == () else None
