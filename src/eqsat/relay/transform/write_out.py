"""CanonicalizeOps and SimplifyInference: operators that stand for others are written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eqsat.relay.expr import Expr, TupleGetItem, const
from eqsat.relay.op import expand_dims, maximum, mean, reshape, sqrt, variance
from eqsat.relay.op import sum as sum_over
from eqsat.relay.op.types import axis_index
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.transform.simplify.rule import op_name
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import rewrite_post_order


def CanonicalizeOps() -> Pass:
    """Replace ``nn.bias_add`` by ``add`` of the bias, shaped to broadcast along its axis."""
    return _rewriting(canonical, PassInfo(3, "CanonicalizeOps"))


def SimplifyInference() -> Pass:
    """Write out batch, layer, instance, group and L2 normalization, up to rounding; drop ``nn.dropout``.

    Of batch normalization and dropout the first output is replaced; the calls stay for uses of the others.
    """
    return _rewriting(simplified, PassInfo(0, "SimplifyInference"))


def _rewriting(visit: Callable[[Expr, Expr], Expr], info: PassInfo) -> Pass:
    return FunctionPass(lambda function, mod, context: rewrite_post_order(function, visit), info, typed=True)


def canonical(old: Any, new: Any) -> Expr:
    """What CanonicalizeOps puts in the place of ``new``, of which ``old`` is the typed form."""
    return _written_out(_CANONICAL, old, new, new)


def simplified(old: Any, new: Any) -> Expr:
    """What SimplifyInference puts in the place of ``new``, of which ``old`` is the typed form."""
    if isinstance(new, TupleGetItem) and new.index == 0:
        return _written_out(_FIRST_OUTPUTS, old.tuple_value, new.tuple_value, new)
    return _written_out(_RESULTS, old, new, new)


def _written_out(rules: Mapping[str, Callable[..., Any]], old: Any, call: Any, result: Expr) -> Expr:
    """What the rule for the operator of ``call`` makes of it; ``result`` where there is none."""
    rule = rules.get(op_name(call))
    written: Expr = result if rule is None else rule(call.attrs, old.args[0].checked_type, *call.args)
    return written


def along_axis(vector: Expr, axis: int, rank: int) -> Any:
    """``vector``, of one dimension, shaped to broadcast along ``axis`` (counted from the front) of ``rank`` ones."""
    after = rank - axis - 1
    return expand_dims(vector, axis=1, num_newaxis=after) if after else vector


def _of_channels(attrs: Any, ty: TensorType, vector: Expr) -> Any:
    """``vector``, one value for each channel, shaped to broadcast along the axis of ``attrs``."""
    rank = len(ty.shape)
    return along_axis(vector, axis_index(attrs.axis, rank), rank)


def _batch_norm(attrs: Any, ty: TensorType, x: Any, gamma: Any, beta: Any, average: Any, var: Any) -> Any:
    factor = const(1, ty.dtype) / sqrt(var + const(attrs.epsilon, ty.dtype))
    if attrs.scale:
        factor = factor * gamma
    shift = -average * factor
    if attrs.center:
        shift = shift + beta
    return x * _of_channels(attrs, ty, factor) + _of_channels(attrs, ty, shift)


def _layer_norm(attrs: Any, ty: TensorType, x: Any, gamma: Any, beta: Any) -> Any:
    return _scaled(attrs, ty, _normalized(attrs, ty, x, (attrs.axis,)), gamma, beta)


def _instance_norm(attrs: Any, ty: TensorType, x: Any, gamma: Any, beta: Any) -> Any:
    rank = len(ty.shape)
    channel = axis_index(attrs.axis, rank)
    axes = [axis for axis in range(1, rank) if axis != channel]
    return _scaled(attrs, ty, _normalized(attrs, ty, x, axes), gamma, beta)


def _group_norm(attrs: Any, ty: TensorType, x: Any, gamma: Any, beta: Any) -> Any:
    rank = len(ty.shape)
    channel = axis_index(attrs.axis, rank)
    before = (0,) * channel  # reshape's codes: 0 and -2 keep dimensions, -4 splits one, -3 merges two
    grouped = reshape(x, (*before, -4, attrs.num_groups, -1, -2))
    axes = [axis for axis in range(1, rank + 1) if axis != channel]
    normalized = reshape(_normalized(attrs, ty, grouped, axes), (*before, -3, -2))
    return _scaled(attrs, ty, normalized, gamma, beta)


def _normalized(attrs: Any, ty: TensorType, x: Any, axes: Sequence[int]) -> Any:
    """x less its mean, divided by its standard deviation, over ``axes``."""
    average = mean(x, axes, keepdims=True)
    spread: Any = variance(x, axes, keepdims=True, with_mean=average)
    return (x - average) / sqrt(spread + const(attrs.epsilon, ty.dtype))


def _scaled(attrs: Any, ty: TensorType, x: Any, gamma: Any, beta: Any) -> Any:
    """x * gamma + beta along the axis, as far as ``attrs`` ask for them."""
    if attrs.scale:
        x = x * _of_channels(attrs, ty, gamma)
    return x + _of_channels(attrs, ty, beta) if attrs.center else x


def _l2_normalize(attrs: Any, ty: TensorType, x: Any) -> Any:
    squares = sum_over(x * x, attrs.axis, keepdims=True)
    return x / sqrt(maximum(squares, const(attrs.eps, ty.dtype)))


_CANONICAL: dict[str, Callable[..., Any]] = {
    "nn.bias_add": lambda attrs, ty, x, bias: x + _of_channels(attrs, ty, bias),
}
_FIRST_OUTPUTS: dict[str, Callable[..., Any]] = {
    "nn.batch_norm": _batch_norm,
    "nn.dropout": lambda attrs, ty, x: x,
}
_RESULTS: dict[str, Callable[..., Any]] = {
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.layer_norm": _layer_norm,
}
