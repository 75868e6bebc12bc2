"""FoldScaleAxis: scales of channels become part of the weights of convolutions and dense layers.

A scale is an operand of ``multiply`` with one value for each channel. *Backward*, one that follows a product (a
convolution or dense layer) moves up to it; *forward*, one that precedes products moves down to them. On the way it
passes ``nn.relu`` and ``nn.leaky_relu`` when it is positive, and sums, whose other operand it multiplies or divides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from math import prod
from typing import Any

import numpy as np

from eqsat.relay.expr import Call, Constant, Expr, Function
from eqsat.relay.op import broadcast_to, reshape, squeeze
from eqsat.relay.op.types import axis_index
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.transform.fold_constant import FoldConstant
from eqsat.relay.transform.simplify.rule import op_name, tensor_type
from eqsat.relay.transform.write_out import along_axis
from eqsat.relay.ty import Dim
from eqsat.relay.visitor import post_order, rebuild


def FoldScaleAxis() -> Pass:
    """:func:`BackwardFoldScaleAxis`, then :func:`ForwardFoldScaleAxis`, then :func:`FoldConstant`."""
    backward, forward, fold = BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()
    return Pass(lambda mod, context: fold(forward(backward(mod))), PassInfo(3, "FoldScaleAxis"))


def BackwardFoldScaleAxis() -> Pass:
    """Fold scales into the products before them if nothing else uses the values between; up to rounding."""
    info = PassInfo(3, "BackwardFoldScaleAxis")
    return FunctionPass(lambda function, mod, context: _Backward(function).run(), info, typed=True)


def ForwardFoldScaleAxis() -> Pass:
    """Fold scales into the products after them if all uses lead to products; up to rounding."""
    info = PassInfo(3, "ForwardFoldScaleAxis")
    return FunctionPass(lambda function, mod, context: _Forward(function).run(), info, typed=True)


# ---- what takes a scale


class Need(Flag):
    """What must hold of a scale, which must be constant then: numbers can be divided by it; it is positive."""

    DIVISOR = auto()
    POSITIVE = auto()

    def is_met_by(self, scale: Expr) -> bool:
        if not self:
            return True
        while isinstance(scale, Call) and op_name(scale) in _SHAPE_ONLY:
            scale = scale.args[0]
        if not isinstance(scale, Constant):
            return False
        values = scale.data.numpy()
        # numbers up to 1 / limit can be divided by what is above the limit without overflow
        limit = np.sqrt(np.finfo(values.dtype).tiny) if Need.DIVISOR in self else 0
        return bool(np.all((values if Need.POSITIVE in self else np.abs(values)) > limit))


ANY_SCALE = Need(0)
_SHAPE_ONLY = ("expand_dims", "reshape", "squeeze", "transpose")


@dataclass(frozen=True)
class Taker:
    """How a node takes a scale.

    Args:
        axes: the axes of the channels, counted from the front: one, and in layouts with blocks that within the blocks.
        need: what the scale must be.
        through: the arguments that pass it on; none of a product.
        weight_axes: of a product, the axes of its weight that are scaled.
    """

    axes: tuple[int, ...]
    need: Need = ANY_SCALE
    through: tuple[int, ...] = ()
    weight_axes: tuple[int, ...] = ()

    @property
    def source(self) -> int:
        """The first argument that may come scaled."""
        return self.through[0] if self.through else 0


_FLOATS = ("float16", "float32", "float64")
_PRODUCTS = ("nn.conv2d", "nn.conv3d", "nn.dense")
_KEEP_POSITIVE_FACTORS = ("nn.leaky_relu", "nn.relu")
_SUMS = ("add", "nn.bias_add", "subtract")


def _of_product(call: Call, of_data: bool) -> Taker | None:
    """How a product takes a scale of its data or of its result.

    It is a product of floats, whose weight has as many indices along its axes as there are channels.
    """
    if op_name(call) not in _PRODUCTS:
        return None
    attrs: Any = call.attrs
    scaled = call.args[0] if of_data else call
    shape, weight = tensor_type(scaled).shape, tensor_type(call.args[1]).shape
    axes: tuple[int, ...] = (len(shape) - 1,)
    weight_axes: tuple[int, ...] = (int(of_data),)
    if op_name(call) != "nn.dense":
        axes = _axes("C", attrs.data_layout if of_data else attrs.out_layout or attrs.data_layout)
        # depthwise convolutions have filters for each channel; with other groups an index of I is one of several ones
        if of_data and attrs.groups not in (1, _count(shape, axes)):
            return None
        weight_axes = _axes("I" if of_data and attrs.groups == 1 else "O", attrs.kernel_layout)
    dtypes = {tensor_type(expr).dtype for expr in (call, *call.args)}
    fits = len(axes) == len(weight_axes) and _count(shape, axes) == _count(weight, weight_axes) is not None
    if len(dtypes) > 1 or not dtypes.issubset(_FLOATS) or not fits:
        return None
    return Taker(axes, weight_axes=weight_axes)


def _count(shape: Sequence[Dim], axes: Sequence[int]) -> int | None:
    """How many channels there are along ``axes``, None when a size is not known."""
    sizes = [shape[axis] for axis in axes]
    return prod([size for size in sizes if isinstance(size, int)]) if all(isinstance(s, int) for s in sizes) else None


def _axes(letter: str, layout: str) -> tuple[int, ...]:
    """The place of an axis in a layout, and that within its blocks if it has any."""
    letters = [each for each in layout if each.isalpha()]
    return tuple([letters.index(each) for each in (letter, letter.lower()) if each in letters])


def _has_channels_of(call: Call, index: int, axes: tuple[int, ...]) -> bool:
    """Whether argument ``index`` of two gives the channels along ``axes``, and the other one value for each."""
    if op_name(call) == "nn.bias_add":
        attrs: Any = call.attrs
        return index == 0 and (axis_index(attrs.axis, len(tensor_type(call).shape)),) == axes
    padded, data = _padded(call, 1 - index), tensor_type(call.args[index]).shape
    return padded == [size if at in axes else 1 for at, size in enumerate(data)]


def _is_scaled(call: Call, index: int, axes: tuple[int, ...]) -> bool:
    """Whether a multiply scales the channels of argument ``index``: each, those of a block alike, or all alike."""
    blocks = [1 if at in axes[1:] else size for at, size in enumerate(_padded(call, index))]
    alike = [size if at in axes else 1 for at, size in enumerate(blocks)] == _padded(call, 1 - index)
    return _has_channels_of(call, index, axes) or alike or not tensor_type(call.args[1 - index]).shape


def _padded(call: Call, index: int) -> list[Dim]:
    """The shape of argument ``index``, with a 1 for each axis of the call that it lacks."""
    own = tensor_type(call.args[index]).shape
    return [1] * (len(tensor_type(call).shape) - len(own)) + list(own)


def _scaled_operand(call: Call, takers: Sequence[Taker | None]) -> int | None:
    """Which operand of a multiply is scaled by the other, as the taker beside it in ``takers`` asks."""
    if op_name(call) == "multiply":
        for index, taker in enumerate(takers):
            if taker and _is_scaled(call, index, taker.axes) and taker.need.is_met_by(call.args[1 - index]):
                return index
    return None


def _squeezed(scale: Expr, call: Call, index: int, axes: tuple[int, ...]) -> Any:
    """``scale``, which stands for argument ``index`` of a multiply, with no axes but those of the channels."""
    shape, own = tensor_type(call).shape, len(tensor_type(call.args[index]).shape)
    others = [axis - len(shape) + own for axis in range(len(shape) - own, len(shape)) if axis not in axes]
    vector = squeeze(scale, axis=others) if others else scale
    padded, channels = _padded(call, index), [shape[axis] for axis in axes]
    return vector if [padded[axis] for axis in axes] == channels else broadcast_to(vector, channels)


def _broadcast(scale: Expr, axes: tuple[int, ...], shape: Sequence[Dim]) -> Any:
    """``scale``, which has the axes of the channels only, shaped to broadcast along ``axes`` of ``shape``."""
    if len(axes) == 1:
        return along_axis(scale, axes[0], len(shape))
    return reshape(scale, [size if axis in axes else 1 for axis, size in enumerate(shape)])


def _over(call: Call, args: Sequence[Expr], taker: Taker, scale: Expr, unscaled: Callable[..., Expr]) -> Expr:
    """``call`` over its new ``args``, taking ``scale`` as ``taker`` says.

    The arguments that the scale goes through are given without it; the others of a sum become
    ``unscaled(argument, scale)``.
    """
    args = list(args)
    if not taker.through:
        args[1] = args[1] * _broadcast(scale, taker.weight_axes, tensor_type(call.args[1]).shape)
    for index in range(len(args)):
        if taker.through and index not in taker.through:
            shape = tensor_type(call.args[taker.source]).shape
            fitted = scale if op_name(call) == "nn.bias_add" else _broadcast(scale, taker.axes, shape)
            args[index] = unscaled(args[index], fitted)
    return call.with_children([call.op, *args])


# ---- backward


class _Backward:
    """Takers that only one node uses are found operands first, scales handed to them users first."""

    def __init__(self, function: Function):
        self.function = function
        self.order = post_order(function)
        self.uses = Counter(child for node in self.order for child in node.children())
        self.takers: dict[Expr, Taker] = {}
        self.scales: dict[Expr, Call] = {}  # what comes scaled -> the multiply that does it
        self.folded: dict[Expr, int] = {}  # such a multiply -> which operand it scales

    def run(self) -> Expr:
        for node in self.order:
            taker = self._taker(node) if isinstance(node, Call) and self.uses[node] == 1 else None
            if taker is not None:
                self.takers[node] = taker
        for node in reversed(self.order):
            if isinstance(node, Call):
                self._hand_on(node)
        return self._rebuilt()

    def _taker(self, call: Call) -> Taker | None:
        if op_name(call) in _KEEP_POSITIVE_FACTORS:
            below = self.takers.get(call.args[0])
            return below and Taker(below.axes, below.need | Need.POSITIVE, (0,))
        return self._of_sum(call) if op_name(call) in _SUMS else _of_product(call, of_data=False)

    def _of_sum(self, call: Call) -> Taker | None:
        below = [self.takers.get(arg) for arg in call.args]
        for index, taker in enumerate(below):
            if taker is not None and _has_channels_of(call, index, taker.axes):
                return Taker(taker.axes, taker.need, (index,))
        left, right = below
        same_type = call.args[0].checked_type == call.args[1].checked_type
        if left is None or right is None or left.axes != right.axes or not same_type:
            return None
        return Taker(left.axes, left.need | right.need, (0, 1))

    def _hand_on(self, call: Call) -> None:
        if call in self.scales:
            for index in self.takers[call].through:
                self.scales[call.args[index]] = self.scales[call]
            return
        scaled = _scaled_operand(call, [self.takers.get(arg) for arg in call.args])
        if scaled is not None:
            self.folded[call] = scaled
            self.scales[call.args[scaled]] = call

    def _rebuilt(self) -> Expr:
        new: dict[Expr, Expr] = {}
        scales: dict[Call, Expr] = {}
        # a scale may be listed after what takes it, though it cannot depend on that
        with_scales = post_order(self.function, children=lambda node: (*node.children(), *self._scale_of(node)))
        for node in with_scales:
            if isinstance(node, Call) and node in self.folded:
                new[node] = new[node.args[self.folded[node]]]
            elif isinstance(node, Call) and node in self.scales:
                taker, by = self.takers[node], self.scales[node]
                if by not in scales:
                    index = 1 - self.folded[by]
                    scales[by] = _squeezed(new[by.args[index]], by, index, taker.axes)
                new[node] = _over(node, [new[arg] for arg in node.args], taker, scales[by], lambda arg, by: arg * by)
            else:
                new[node] = rebuild(node, new)
        return new[self.function]

    def _scale_of(self, node: Expr) -> tuple[Expr, ...]:
        by = self.scales.get(node)
        return () if by is None else (by.args[1 - self.folded[by]],)


# ---- forward


class _Forward:
    """What all users of a value take is found users first, scales are handed on operands first."""

    def __init__(self, function: Function):
        self.function = function
        self.order = post_order(function)
        self.takers: dict[Expr, Taker] = {}
        self.wanted: dict[Expr, Taker | None] = {}
        self.scales: dict[Expr, Expr] = {}

    def run(self) -> Expr:
        for node in reversed(self.order):
            taker = self._taker(node) if isinstance(node, Call) else None
            if taker is not None:
                self.takers[node] = taker
            for position, child in enumerate(node.children()):
                is_passed = taker is not None and position == 1 + taker.source
                self._want(child, taker if is_passed else None)
        new: dict[Expr, Expr] = {}
        for node in self.order:
            new[node] = self._rebuilt(node, new) if isinstance(node, Call) else rebuild(node, new)
        return new[self.function]

    def _taker(self, call: Call) -> Taker | None:
        wanted = self.wanted.get(call)
        if wanted and op_name(call) in _KEEP_POSITIVE_FACTORS:
            return Taker(wanted.axes, wanted.need | Need.POSITIVE, (0,))
        if wanted and op_name(call) in _SUMS:
            for index in range(2):
                if _has_channels_of(call, index, wanted.axes):
                    return Taker(wanted.axes, wanted.need | Need.DIVISOR, (index,))
        return _of_product(call, of_data=True)

    def _want(self, node: Expr, taker: Taker | None) -> None:
        """Of what several users want, the common axes and all the needs are kept."""
        other = self.wanted.get(node, taker)
        agreed = None
        if taker is not None and other is not None and taker.axes == other.axes:
            agreed = Taker(taker.axes, taker.need | other.need)
        self.wanted[node] = agreed

    def _rebuilt(self, call: Call, new: dict[Expr, Expr]) -> Expr:
        wanted = self.wanted.get(call)
        index = _scaled_operand(call, [wanted, wanted])
        if index is not None and wanted is not None:
            self.scales[call] = _squeezed(new[call.args[1 - index]], call, 1 - index, wanted.axes)
            return new[call.args[index]]
        taker = self.takers.get(call)
        scale = None if taker is None else self.scales.get(call.args[taker.source])
        if taker is None or scale is None:
            return rebuild(call, new)
        if taker.through:
            self.scales[call] = scale
        return _over(call, [new[arg] for arg in call.args], taker, scale, lambda arg, by: arg / by)
