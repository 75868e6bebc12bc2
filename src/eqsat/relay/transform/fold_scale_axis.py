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
from typing import Any

import numpy as np

from eqsat.relay.expr import Call, Constant, Expr, Function
from eqsat.relay.op import reshape
from eqsat.relay.op.types import axis_index
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.transform.fold_constant import FoldConstant
from eqsat.relay.transform.simplify.rule import op_name, tensor_type
from eqsat.relay.transform.write_out import along_axis
from eqsat.relay.visitor import post_order, rebuild


def FoldScaleAxis() -> Pass:
    """:func:`BackwardFoldScaleAxis`, then :func:`ForwardFoldScaleAxis`, then :func:`FoldConstant`."""
    backward, forward, fold = BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()
    return Pass(lambda mod, context: fold(forward(backward(mod))), PassInfo(3, "FoldScaleAxis"))


def BackwardFoldScaleAxis() -> Pass:
    """Fold scales into the products before them, where nothing else uses what lies between; up to rounding."""
    info = PassInfo(3, "BackwardFoldScaleAxis")
    return FunctionPass(lambda function, mod, context: _Backward(function).run(), info, typed=True)


def ForwardFoldScaleAxis() -> Pass:
    """Fold scales into the products after them, where all uses lead to such; up to rounding."""
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
        if not isinstance(scale, Constant):
            return False
        values = scale.data.numpy()
        # numbers up to 1 / limit can be divided by what is above the limit without overflow
        limit = np.sqrt(np.finfo(values.dtype).tiny) if Need.DIVISOR in self else 0
        return bool(np.all((values if Need.POSITIVE in self else np.abs(values)) > limit))


ANY_SCALE = Need(0)


@dataclass(frozen=True)
class Taker:
    """How a node takes a scale.

    Args:
        axis: the axis of the channels, counted from the front.
        need: what the scale must be.
        through: the arguments that pass it on; none of a product.
        weight_axis: of a product, the axis of its weight that is scaled.
    """

    axis: int
    need: Need = ANY_SCALE
    through: tuple[int, ...] = ()
    weight_axis: int = 0

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

    It is a product of floats, whose weight has as many indices along its axis as there are channels. In layouts with
    blocks the axes are those of the blocks, which are equal then.
    """
    if op_name(call) not in _PRODUCTS:
        return None
    attrs: Any = call.attrs
    scaled = call.args[0] if of_data else call
    if op_name(call) == "nn.dense":
        axis, weight_axis = -1, int(of_data)
    elif not of_data:
        axis, weight_axis = (attrs.out_layout or attrs.data_layout).index("C"), attrs.kernel_layout.index("O")
    else:
        axis = attrs.data_layout.index("C")
        # depthwise convolutions have filters for each channel; with other groups an index of I is one of several ones
        if attrs.groups not in (1, tensor_type(scaled).shape[axis]):
            return None
        weight_axis = attrs.kernel_layout.index("I" if attrs.groups == 1 else "O")
    dtypes = {tensor_type(expr).dtype for expr in (call, *call.args)}
    shape, weight = tensor_type(scaled).shape, tensor_type(call.args[1]).shape
    fits = isinstance(shape[axis], int) and shape[axis] == weight[weight_axis]
    if len(dtypes) > 1 or not dtypes.issubset(_FLOATS) or not fits:
        return None
    return Taker(axis_index(axis, len(shape)), weight_axis=weight_axis)


def _has_channels_of(call: Call, index: int, axis: int) -> bool:
    """Whether argument ``index`` of two gives the channels along ``axis``, and the other one value for each."""
    if op_name(call) == "nn.bias_add":
        attrs: Any = call.attrs
        return index == 0 and axis_index(attrs.axis, len(tensor_type(call).shape)) == axis
    operand, data = tensor_type(call.args[1 - index]).shape, tensor_type(call.args[index]).shape
    padded = [1] * (len(data) - len(operand)) + list(operand)
    return padded == [size if at == axis else 1 for at, size in enumerate(data)]


def _scaled_operand(call: Call, takers: Sequence[Taker | None]) -> int | None:
    """Which operand of a multiply is scaled by the other, as the taker beside it in ``takers`` asks."""
    if op_name(call) == "multiply":
        for index, taker in enumerate(takers):
            if taker and _has_channels_of(call, index, taker.axis) and taker.need.is_met_by(call.args[1 - index]):
                return index
    return None


def _over(call: Call, args: Sequence[Expr], taker: Taker, scale: Expr, unscaled: Callable[..., Expr]) -> Expr:
    """``call`` over its new ``args``, taking ``scale`` as ``taker`` says.

    The arguments that the scale goes through are given without it; the others of a sum become
    ``unscaled(argument, scale)``.
    """
    args = list(args)
    if not taker.through:
        rank = len(tensor_type(call.args[1]).shape)
        args[1] = args[1] * along_axis(reshape(scale, (-1,)), taker.weight_axis, rank)
    for index in range(len(args)):
        if taker.through and index not in taker.through:
            args[index] = unscaled(args[index], reshape(scale, (-1,)) if op_name(call) == "nn.bias_add" else scale)
    return call.with_children([call.op, *args])


# ---- backward


class _Backward:
    """Takers that only one node uses are found operands first, scales handed to them users first."""

    def __init__(self, function: Function):
        self.function = function
        self.order = post_order(function)
        self.uses = Counter(child for node in self.order for child in node.children())
        self.takers: dict[Expr, Taker] = {}
        self.scales: dict[Expr, Expr] = {}
        self.folded: dict[Expr, Expr] = {}

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
            return below and Taker(below.axis, below.need | Need.POSITIVE, (0,))
        return self._of_sum(call) if op_name(call) in _SUMS else _of_product(call, of_data=False)

    def _of_sum(self, call: Call) -> Taker | None:
        below = [self.takers.get(arg) for arg in call.args]
        for index, taker in enumerate(below):
            if taker is not None and _has_channels_of(call, index, taker.axis):
                return Taker(taker.axis, taker.need, (index,))
        left, right = below
        same_type = call.args[0].checked_type == call.args[1].checked_type
        if left is None or right is None or left.axis != right.axis or not same_type:
            return None
        return Taker(left.axis, left.need | right.need, (0, 1))

    def _hand_on(self, call: Call) -> None:
        if call in self.scales:
            for index in self.takers[call].through:
                self.scales[call.args[index]] = self.scales[call]
            return
        scaled = _scaled_operand(call, [self.takers.get(arg) for arg in call.args])
        if scaled is not None:
            self.folded[call] = call.args[scaled]
            self.scales[call.args[scaled]] = call.args[1 - scaled]

    def _rebuilt(self) -> Expr:
        new: dict[Expr, Expr] = {}
        # a scale may be listed after what takes it, though it cannot depend on that
        with_scales = post_order(self.function, children=lambda node: (*node.children(), *self._scale_of(node)))
        for node in with_scales:
            if node in self.folded:
                new[node] = new[self.folded[node]]
            elif isinstance(node, Call) and node in self.scales:
                args, scale = [new[arg] for arg in node.args], new[self.scales[node]]
                new[node] = _over(node, args, self.takers[node], scale, lambda arg, by: arg * by)
            else:
                new[node] = rebuild(node, new)
        return new[self.function]

    def _scale_of(self, node: Expr) -> tuple[Expr, ...]:
        return (self.scales[node],) if node in self.scales else ()


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
            return Taker(wanted.axis, wanted.need | Need.POSITIVE, (0,))
        if wanted and op_name(call) in _SUMS:
            for index in range(2):
                if _has_channels_of(call, index, wanted.axis):
                    return Taker(wanted.axis, wanted.need | Need.DIVISOR, (index,))
        return _of_product(call, of_data=True)

    def _want(self, node: Expr, taker: Taker | None) -> None:
        """Of what several users want, the common axis and all the needs are kept."""
        other = self.wanted.get(node, taker)
        agreed = None
        if taker is not None and other is not None and taker.axis == other.axis:
            agreed = Taker(taker.axis, taker.need | other.need)
        self.wanted[node] = agreed

    def _rebuilt(self, call: Call, new: dict[Expr, Expr]) -> Expr:
        wanted = self.wanted.get(call)
        index = _scaled_operand(call, [wanted, wanted])
        if index is not None:
            self.scales[call] = call.args[1 - index]
            return new[call.args[index]]
        taker = self.takers.get(call)
        scale = None if taker is None else self.scales.get(call.args[taker.source])
        if taker is None or scale is None:
            return rebuild(call, new)
        if taker.through:
            self.scales[call] = scale
        return _over(call, [new[arg] for arg in call.args], taker, new[scale], lambda arg, by: arg / by)
