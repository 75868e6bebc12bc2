"""EliminateCommonSubexpr: equal calls are computed only once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.visitor import rewrite_post_order


def EliminateCommonSubexpr(fskip: Callable[[Expr], bool] | None = None) -> Pass:
    """Replace a call of an operator by an earlier one of the same operator, attributes and arguments.

    Arguments are the same when they are one expression, equal scalar constants, or tuples of such.

    Args:
        fskip: A function that returns whether to skip an expression; by default, none is skipped.
    """
    return FunctionPass(
        lambda function, mod, context: rewrite_post_order(function, _Sharer(fskip).visit),
        PassInfo(3, "EliminateCommonSubexpr"),
    )


class _Sharer:
    def __init__(self, skip: Callable[[Expr], bool] | None):
        self.skip = skip
        self.first: dict[Hashable, Expr] = {}
        self.keys: dict[Expr, Hashable] = {}
        self.numbers: dict[Hashable, int] = {}

    def visit(self, old: Expr, new: Expr) -> Expr:
        key = self._key(new)
        if key is None or self._is_skipped(new):
            return new
        return self.first.setdefault(key, new)

    def _key(self, node: Expr) -> Hashable:
        """Equal for nodes that compute the same; None for those never shared."""
        if isinstance(node, TupleGetItem):
            return ("projection", node.tuple_value, node.index)
        if isinstance(node, Call) and isinstance(node.op, Op) and node.args:
            if node.op.get_attr("TOpIsStateful"):
                return None
            attrs = None if node.attrs is None else node.attrs.key
            return ("call", node.op, attrs, *map(self._operand, node.args))
        return None

    def _operand(self, node: Expr) -> int:
        """A number that is the same for operands that count as the same."""
        if node not in self.keys:
            self.keys[node] = self._operand_key(node)
        return self.numbers.setdefault(self.keys[node], len(self.numbers))

    def _operand_key(self, node: Expr) -> Hashable:
        if isinstance(node, Constant) and node.data.shape == ():
            return ("scalar", node.data.digest())
        if isinstance(node, Tuple):
            return ("tuple", *map(self._operand, node.fields))
        return node

    def _is_skipped(self, node: Expr) -> bool:
        if self.skip is None:
            return False
        answer = self.skip(node)
        if not isinstance(answer, (bool, int)):
            raise PassError(f"the fskip of EliminateCommonSubexpr must give a bool, not {answer!r}")
        return bool(answer)
