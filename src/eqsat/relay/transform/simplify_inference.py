"""SimplifyInference: normalizations as arithmetic, and what only training needs left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqsat.relay.expr import Expr, TupleGetItem, const
from eqsat.relay.op import maximum, mean, reshape, sqrt, variance
from eqsat.relay.op import sum as sum_over
from eqsat.relay.op.types import axis_index
from eqsat.relay.transform.base import Pass, PassInfo, typed_pass
from eqsat.relay.transform.channels import along_axis
from eqsat.relay.transform.simplify.rule import op_name
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import rewrite_post_order


def SimplifyInference() -> Pass:
    """Write out batch, layer, instance, group and L2 normalization, up to rounding; drop ``nn.dropout``.

    Of batch normalization and dropout the first output is replaced; the calls stay for uses of the others.
    """
    return typed_pass(lambda function: rewrite_post_order(function, simplified), PassInfo(0, "SimplifyInference"))


def simplified(old: Any, new: Any) -> Expr:
    """What stands for ``new``, of which ``old`` is the typed form; ``new`` itself where nothing does."""
    call, rules = new, _RESULTS
    if isinstance(new, TupleGetItem) and new.index == 0:
        old, call, rules = old.tuple_value, new.tuple_value, _FIRST_OUTPUTS
    simplify = rules.get(op_name(call))
    result: Expr = new if simplify is None else simplify(call.attrs, old.args[0].checked_type, *call.args)
    return result


def _batch_norm(attrs: Any, ty: TensorType, x: Any, gamma: Any, beta: Any, average: Any, var: Any) -> Any:
    factor = const(1, ty.dtype) / sqrt(var + const(attrs.epsilon, ty.dtype))
    if attrs.scale:
        factor = factor * gamma
    shift = -average * factor
    if attrs.center:
        shift = shift + beta
    rank = len(ty.shape)
    axis = axis_index(attrs.axis, rank)
    return x * along_axis(factor, axis, rank) + along_axis(shift, axis, rank)


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
    rank = len(ty.shape)
    axis = axis_index(attrs.axis, rank)
    if attrs.scale:
        x = x * along_axis(gamma, axis, rank)
    return x + along_axis(beta, axis, rank) if attrs.center else x


def _l2_normalize(attrs: Any, ty: TensorType, x: Any) -> Any:
    squares = sum_over(x * x, attrs.axis, keepdims=True)
    return x / sqrt(maximum(squares, const(attrs.eps, ty.dtype)))


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
