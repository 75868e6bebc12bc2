"""SimplifyExpr: algebraic rules, applied until none changes anything."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.relay.dataflow_pattern import DFPatternCallback, rewrite
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.transform.simplify import arithmetic, binomial, casts, layouts, likes

RULES: tuple[DFPatternCallback, ...] = (
    likes.known_like,
    arithmetic.add_to_itself,
    arithmetic.divide_by_sqrt,
    arithmetic.neutral_operand,
    layouts.reshape_of_reshape,
    layouts.transpose_of_transpose,
    layouts.transpose_to_same,
    casts.cast_to_same,
    casts.cast_of_cast,
    arithmetic.filled_operand,
    arithmetic.multiply_of_add,
    arithmetic.constant_chain,
    casts.order_of_dequantized,
    casts.casts_of_clip,
    casts.clip_of_all,
    binomial.binomial,
)
"""The rules in the order in which each round tries them."""

POST_ALTER_OP_RULES: tuple[DFPatternCallback, ...] = (
    arithmetic.neutral_operand,
    layouts.reshape_of_reshape,
    casts.cast_to_same,
    casts.cast_of_cast,
    casts.casts_of_clip,
    casts.clip_of_all,
)


def SimplifyExpr() -> Pass:
    """Simplify by the rules of :data:`RULES`; some change how floats are rounded."""
    return _simplify(RULES, "SimplifyExpr")


def SimplifyExprPostAlterOp() -> Pass:
    """Simplify by the few rules that are useful after layouts were changed."""
    return _simplify(POST_ALTER_OP_RULES, "SimplifyExprPostAlterOp")


def _simplify(rules: Sequence[DFPatternCallback], name: str) -> Pass:
    return FunctionPass(lambda function, mod, context: rewrite(rules, function, mod), PassInfo(0, name))
