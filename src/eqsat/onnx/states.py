"""Initial states of recurrent operators that are zero: the same as none."""

from __future__ import annotations

import onnx_ir as ir

from eqsat.onnx import contrib
from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.traits import Trait

_STATES = {
    ("", "LSTM"): (5, 6),
    ("", "GRU"): (5,),
    ("", "RNN"): (5,),
    (contrib.DOMAIN, "DynamicQuantizeLSTM"): (5, 6),
}
"""Domain and operator -> inputs that are zero where they are left out, as is stated for each."""

_KEEP_ZEROS = ("cast", "full", "dyn.full")
"""Operators that move no elements and whose results are zero where their first argument is."""
_ZEROS = ("zeros", "dyn.zeros", "zeros_like")
_MOST_ELEMENTS = 1 << 20


def is_needless(node: ir.Node, index: int, value: Expr) -> bool:
    """Whether a node computes the same without its input ``index``, which is ``value``."""
    return index in _STATES.get((node.domain, node.op_type), ()) and _is_zero(value)


def _is_zero(expr: Expr) -> bool:
    while isinstance(expr, Call) and isinstance(expr.op, Op):
        if expr.op.name in _ZEROS:
            return True
        if not expr.op.has(Trait.MOVES) and expr.op.name not in _KEEP_ZEROS:
            return False
        expr = expr.args[0]
    return isinstance(expr, Constant) and expr.data.size <= _MOST_ELEMENTS and not expr.data.numpy().any()
