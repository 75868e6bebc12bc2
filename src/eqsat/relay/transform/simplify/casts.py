"""Conversions and clips that change nothing, or nothing that a later operator does not change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.op import cast
from eqsat.relay.transform.simplify.rule import Find, any_op, op_name, rule, tensor_type


@rule(any_op("cast", "cast_like")(None))
def cast_to_same(pre: Call, post: Call, find: Find) -> Expr | None:
    """cast(x) = x where the dtype stays."""
    return post.args[0] if tensor_type(pre.args[0]).dtype == tensor_type(pre).dtype else None


_operand = wildcard()
_inner_cast = is_op("cast")(_operand) | is_op("cast_like")(_operand, wildcard())


@rule(is_op("cast")(_inner_cast) | is_op("cast_like")(_inner_cast, wildcard()))
def cast_of_cast(pre: Call, post: Call, find: Find) -> Expr | None:
    """cast(cast(x, d1), d2) = cast(x, d2) where d1 holds every value of x's dtype."""
    inner: Any = pre.args[0]
    given, between, result = (tensor_type(expr).dtype for expr in (inner.args[0], inner, pre))
    return cast(find(_operand), result) if holds_all(between, given) else None


@rule(is_op("cast")(None))
def casts_of_clip(pre: Call, post: Call, find: Find) -> Expr | None:
    """cast(... cast(clip(x, lo, hi))): casts that keep every value from lo to hi are left out."""
    dtypes, clip = _casts(post)
    if clip is None or clip.attrs is None or clip._checked_type is None:
        return None
    kept = _needed_casts(getattr(clip._checked_type, "dtype", ""), dtypes, clip.attrs.a_min, clip.attrs.a_max)
    if len(kept) == len(dtypes):
        return None
    result: Expr = clip
    for dtype in kept:
        result = cast(result, dtype)
    return result


_quantized, _scale, _zero_point = wildcard(), wildcard(), wildcard()
# float32 tells all products of a scale and an integer of these apart
_EXACT_DTYPES = ("int8", "uint8", "int16", "uint16")


@rule(any_op("argmax", "argmin", "argsort")(is_op("qnn.dequantize")(_quantized, _scale, _zero_point)))
def order_of_dequantized(pre: Call, post: Call, find: Find) -> Expr | None:
    """op(dequantize(x)) = op(x) where one positive scale makes dequantizing monotonic."""
    dequantized: Any = pre.args[0]
    scale, zero_point = find(_scale), find(_zero_point)
    single = all(isinstance(expr, Constant) and expr.data.size == 1 for expr in (scale, zero_point))
    exact = tensor_type(dequantized.args[0]).dtype in _EXACT_DTYPES
    if not exact or not single or scale.data.numpy().item() <= 0:
        return None
    return Call(post.op, (find(_quantized),), post.attrs)


@rule(is_op("clip")(None))
def clip_of_all(pre: Call, post: Call, find: Find) -> Expr | None:
    """clip(x, lo, hi) = x where every value of x's dtype lies between lo and hi."""
    if post.attrs is None or op_name(post.args[0]) in ("qnn.add", "qnn.requantize"):
        return None
    low, high = _range(tensor_type(pre).dtype)
    return post.args[0] if post.attrs.a_min <= low and high <= post.attrs.a_max else None


def _casts(call: Expr) -> tuple[list[str], Call | None]:
    """The dtypes of a chain of casts, first one first, and the clip they start from."""
    dtypes: list[str] = []
    while isinstance(call, Call) and op_name(call) == "cast" and call.attrs is not None:
        dtypes.append(call.attrs.dtype)
        call = call.args[0]
    return dtypes[::-1], call if isinstance(call, Call) and op_name(call) == "clip" else None


def _needed_casts(given: str, dtypes: Sequence[str], low: float, high: float) -> list[str]:
    """The casts of a chain that values from ``low`` to ``high`` of dtype ``given`` need."""
    kept: list[str] = []
    current = given
    for dtype, following in zip_longest(dtypes, dtypes[1:]):
        if _keeps(dtype, current, following, low, high):
            continue
        kept.append(dtype)
        current = dtype
        if not _contains(dtype, low, high):
            low, high = _range(dtype)
    return [*kept, dtypes[-1]] if current != dtypes[-1] else kept


def _keeps(dtype: str, current: str, following: str | None, low: float, high: float) -> bool:
    """Whether leaving out a cast to ``dtype`` changes nothing of what the cast to ``following`` makes."""
    if _is_integral(current):
        return _contains(dtype, low, high)
    if _is_integral(dtype):  # it cuts off fractions: another cast to integers does it as well
        return following is not None and _is_integral(following) and _contains(dtype, low, high)
    return holds_all(dtype, current)


def holds_all(dtype: str, given: str) -> bool:
    """Whether every value of dtype ``given`` is one of ``dtype``."""
    if given == dtype:
        return True
    if _is_float(given):
        return _is_float(dtype) and np.can_cast(given, dtype, "safe")
    return _is_integral(given) and _contains(dtype, *_range(given))


def _contains(dtype: str, low: float, high: float) -> bool:
    """Whether every integer from ``low`` to ``high`` is a value of ``dtype``."""
    if _is_integral(dtype):
        least, most = _range(dtype)
        return least <= low and high <= most
    return _is_float(dtype) and max(abs(low), abs(high)) <= 2 ** (np.finfo(dtype).nmant + 1)


def _range(dtype: str) -> tuple[float, float]:
    if dtype == "bool":
        return 0, 1
    if _is_integral(dtype):
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return -np.inf, np.inf


def _is_integral(dtype: str) -> bool:
    return dtype == "bool" or dtype.startswith(("int", "uint"))


def _is_float(dtype: str) -> bool:
    return dtype.startswith("float")
