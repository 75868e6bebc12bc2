"""Questions of order, asked before dequantizing instead of after."""

from __future__ import annotations

from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.transform.simplify.rule import Find, Rule, array_of, rule, tensor_type

# float32 tells all products of a scale and an integer of these apart
_EXACT_DTYPES = ("int8", "uint8", "int16", "uint16")


def _of_dequantized(name: str) -> Rule:
    x, scale, zero_point = wildcard(), wildcard(), wildcard()

    @rule(is_op(name)(is_op("qnn.dequantize")(x, scale, zero_point)))
    def order_of_dequantized(pre: Call, post: Call, find: Find) -> Expr | None:
        """op(dequantize(x)) = op(x) where one positive scale makes dequantizing monotonic."""
        ty = tensor_type(pre.args[0].args[0])  # type: ignore[attr-defined]
        single = _is_single(find(scale)) and _is_single(find(zero_point))
        if ty is None or ty.dtype not in _EXACT_DTYPES or not single or float(array_of(find(scale)).item()) <= 0:
            return None
        return Call(post.op, (find(x),), post.attrs)

    return order_of_dequantized


def _is_single(expr: Expr) -> bool:
    return isinstance(expr, Constant) and expr.data.size == 1


argmax_of_dequantized = _of_dequantized("argmax")
argmin_of_dequantized = _of_dequantized("argmin")
argsort_of_dequantized = _of_dequantized("argsort")
