"""What rules share about convolutions and matrix products: where channels lie, and constants that vary along them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eqsat.egraph.author import attrs_of, compute, refuse, type_of
from eqsat.egraph.rule import Refusal
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import broadcast_to, reshape
from eqsat.relay.op.nn.window import has_channels_first
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, Type, is_static
from eqsat.rules.types import Shape, rank_of


@dataclass(frozen=True)
class WeightAxes:
    """Where the outputs and inputs of a product lie in its weight.

    Args:
        rank: the number of axes of the weight.
        outputs, inputs: the axes; None where a scale cannot be laid along them.
    """

    rank: int
    outputs: int | None
    inputs: int | None


def conv_weight(attrs: Attrs, weight: TensorType) -> WeightAxes | Refusal:
    rank = len(attrs.strides) + 2
    if not has_channels_first(attrs):
        return refuse("the channels are not axis 1")
    if attrs.groups == 1:
        return WeightAxes(rank, 0, 1)
    is_depthwise = weight.shape[1] == 1 and weight.shape[0] == attrs.groups
    return WeightAxes(rank, 0, 0 if is_depthwise else None)


def transposed_conv_weight(attrs: Attrs, weight: TensorType) -> WeightAxes | Refusal:
    if not has_channels_first(attrs, "IO") or attrs.groups != 1:
        return refuse("the channels are not axis 1, or there are groups")
    return WeightAxes(len(attrs.strides) + 2, 1, 0)


def dense_weight(attrs: Attrs, weight: TensorType) -> WeightAxes:
    return WeightAxes(2, 0, 1)


def matmul_weight(attrs: Attrs, weight: TensorType) -> WeightAxes | Refusal:
    rank = rank_of(weight)
    if rank < 2:
        return refuse("the weight is no matrix")
    rows, columns = (rank - 1, rank - 2) if attrs.transpose_b else (rank - 2, rank - 1)
    return WeightAxes(rank, columns, None if attrs.transpose_a else rows)


@dataclass(frozen=True)
class Product:
    """An operator that multiplies data by a weight; called with patterns of both it is the pattern of a call.

    Args:
        name: the operator's name.
        axis: the axis of data and result along which channels lie.
        weight: where they lie in the weight, from the attributes of a call and the type of the weight.
    """

    name: str
    axis: int
    weight: Callable[[Attrs, TensorType], WeightAxes | Refusal]

    @property
    def short(self) -> str:
        return self.name.removeprefix("nn.")

    def __call__(self, data: DFPattern, weight: DFPattern) -> DFPattern:
        return is_op(self.name)(data, weight)


CONVOLUTIONS = [Product(f"nn.conv{rank}d", 1, conv_weight) for rank in (1, 2, 3)]
TRANSPOSED = [Product(f"nn.conv{rank}d_transpose", 1, transposed_conv_weight) for rank in (1, 2, 3)]
MATRIX = [
    Product("nn.dense", -1, dense_weight),
    Product("nn.matmul", -1, matmul_weight),
    Product("nn.batch_matmul", -1, matmul_weight),
]
PRODUCTS = [*CONVOLUTIONS, *TRANSPOSED, *MATRIX]

# ---- constants that vary along the channels only


def channel_count(constant: Type, of: Type, axis: int) -> int | Refusal:
    """How many elements a constant has along the channels ``axis`` of ``of``: one for each channel, or a single one.

    A constant that varies along another axis, as it broadcasts against ``of``, is refused.
    """
    if not is_static(constant) or not isinstance(of, TensorType) or rank_of(constant) > rank_of(of):
        return refuse("the shape of the constant is not known")
    rank = rank_of(of)
    if not -rank <= axis < rank:
        return refuse("there is no such axis")
    axis %= rank
    padded = (1,) * (rank - rank_of(constant)) + constant.concrete_shape
    others = padded[:axis] + padded[axis + 1 :]
    if any(dim != 1 for dim in others) or padded[axis] not in (1, of.shape[axis]):
        return refuse("the constant varies along another axis than the channels")
    return padded[axis] or refuse("there are no channels")


def channel_vector(constant: Type, of: Type, axis: int) -> Shape | Refusal:
    """The shape of a constant that varies along the channels of ``of`` only, without its other axes."""
    count = channel_count(constant, of, axis)
    return (count,) if isinstance(count, int) else count


def bias_shape(attrs: Attrs, data: TensorType, bias: TensorType) -> Shape | Refusal:
    """The shape in which a bias broadcasts against the data."""
    if rank_of(bias) != 1 or not is_static(bias):
        return refuse("the bias is no vector of known length")
    return (*bias.concrete_shape, *[1] * (rank_of(data) - 1 - axis_index(attrs.axis, rank_of(data))))


def every_channel(of: TensorType, axis: int) -> Shape | Refusal:
    """The shape of a vector that has an element for each channel of ``of``."""
    channels = of.shape[axis] if -rank_of(of) <= axis < rank_of(of) else None
    return (channels,) if isinstance(channels, int) else refuse("the number of channels is not known")


def as_bias(constant: DFPattern, of: DFPattern, axis: int) -> DFPattern:
    """A constant that varies along the channels only, as the bias of ``of``."""
    vector = compute(lambda constant, of: channel_vector(constant, of, axis), type_of(constant), type_of(of))
    whole = compute(lambda of: every_channel(of, axis), type_of(of))
    return broadcast_to(reshape(constant, newshape=vector), shape=whole)


def as_parameter(constant: DFPattern, of: DFPattern, call: DFPattern) -> DFPattern:
    """A constant that varies along the axis of a matched ``call`` only, as a parameter of that call over ``of``."""
    vector = compute(
        lambda constant, of, attrs: channel_vector(constant, of, attrs.axis),
        type_of(constant),
        type_of(of),
        attrs_of(call),
    )
    return reshape(constant, newshape=vector)


def scaled_weight(product: Product, side: str, w: DFPattern, s: DFPattern, of: DFPattern, call: DFPattern) -> DFPattern:
    """The weight of a product that takes in a scale.

    Args:
        product: the operator.
        side: whether the scale is laid along the ``outputs`` or the ``inputs`` of the weight.
        w, s: the weight and the scale.
        of: what the scale is a factor of.
        call: the call of the operator.
    """

    def newshape(scale: Type, of: Type, attrs: Attrs, weight: TensorType) -> Shape | Refusal:
        count, axes = channel_count(scale, of, product.axis), product.weight(attrs, weight)
        if isinstance(count, Refusal):
            return count
        if isinstance(axes, Refusal):
            return axes
        axis = getattr(axes, side)
        if axis is None and count > 1:  # one for all channels may be laid over any weight
            return refuse("a scale cannot be laid over the weight")
        return tuple(count if each == axis else 1 for each in range(axes.rank))

    refs = type_of(s), type_of(of), attrs_of(call), type_of(w)
    return w * reshape(s, newshape=compute(newshape, *refs))
