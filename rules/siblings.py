"""Sibling products, which share an operand: which of them can be merged into one product, and how."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from eqsat.egraph.author import refuse, variables
from eqsat.egraph.group_rules import GroupRule, NodeMap
from eqsat.egraph.rule import Refusal, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.expr import Call, Expr, Op, Tuple
from eqsat.relay.op import concatenate, expand_dims, squeeze, stack
from eqsat.relay.op.nn.window import has_channels_first
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import is_static
from eqsat.rules.slices import divided
from eqsat.rules.types import Shape, rank_of

x, y, v, w, b = variables("x y v w b")


# ---- siblings: products of one operand with several weights


_MOST_PARTS = 64
"""Nodes that a weight is made from at most; an operand of more is data."""


def is_joined(expr: Expr) -> bool:
    """Whether a weight is computed from a concatenation or stack, as one of these rules makes it."""
    parts = {expr: None}
    agenda = [expr]
    while agenda and len(parts) <= _MOST_PARTS:
        part = agenda.pop()
        if isinstance(part, Call) and isinstance(part.op, Op):
            if part.op.name in ("concatenate", "stack"):
                return True
            agenda += [arg for arg in part.args if arg not in parts]
            parts |= dict.fromkeys(part.args)
    return False


def weight_shape(weight: Expr) -> Shape | Refusal:
    """The shape of a weight, where it is known."""
    ty = weight._checked_type
    return ty.concrete_shape if is_static(ty) else refuse("the shape of a weight is not known")


def known_shape(weight: Any) -> Shape:
    """The shape of a weight of products that have a key: those of others are not merged."""
    shape: Shape = weight._checked_type.concrete_shape
    return shape


def joined(parts: Sequence[Expr], axis: int) -> Expr:
    result: Expr = concatenate(Tuple(parts), axis=axis)
    return result


def attrs_of_all(calls: Sequence[Call]) -> Hashable:
    """A key that is equal for calls of equal attributes."""
    return tuple([None if call.attrs is None else call.attrs.key for call in calls])


def with_attrs(call: Any, args: Sequence[Expr], **changes: Any) -> Call:
    """A call with other arguments, of as many outputs as these have, and with some attributes changed."""
    lengths = dict.fromkeys({"units", "channels"} & set(call.attrs))
    return Call(call.op, args, make_attrs(call.op, {**call.attrs, **lengths, **changes}))


Activation: TypeAlias = Callable[[DFPattern], DFPattern]


class Siblings:
    """Products ``product(x, w)`` of one ``x`` with what follows each: an optional bias, an activation.

    Args:
        product: the call pattern over ``x`` and ``w``.
        value: the product, or the pattern that adds a bias ``b`` to it.
        activation: makes the pattern of what is at the root, given the pattern before it.
        axis: the axis of the result along which weights make it longer.
    """

    soundness = Soundness.ROUNDING
    shared: tuple[DFPattern, ...] = (x,)
    weight_axis = 0
    """The axis along which weights are joined."""

    def __init__(self, product: DFPattern, value: DFPattern, activation: Activation, axis: int):
        self.product = product
        self.value = value
        self.root = activation(value)
        self.axis = axis

    @property
    def is_biased(self) -> bool:
        return self.value is not self.product

    def rule(self, name: str) -> GroupRule:
        return GroupRule(name, self.root, soundness=self.soundness, shared=self.shared, key=self.key, merge=self.merge)

    def calls(self, node_map: NodeMap) -> list[Any]:
        """The calls of a match, from the product to the root."""
        return [node_map[pattern][0] for pattern in dict.fromkeys([self.product, self.value, self.root])]

    def key(self, node_map: NodeMap) -> Hashable:
        """A key that products have in common if they can be merged, or the reason why this one cannot."""
        weight = node_map[w][0]
        if is_joined(weight):
            return refuse("it is merged already")
        shape = weight_shape(weight)
        if not isinstance(shape, tuple):
            return shape
        product, *others = self.calls(node_map)
        if self.is_biased and (others[0].attrs.axis - self.axis) % rank_of(others[0]._checked_type):
            return refuse("the bias lies along another axis than the outputs")
        found = self.product_key(product, shape)
        return found if isinstance(found, Refusal) else (found, attrs_of_all(others))

    def product_key(self, product: Any, shape: Shape) -> Hashable:
        """What products must have in common besides their weight and what follows them, or why this one has no key."""
        return attrs_of_all([with_attrs(product, product.args)]), self.across(shape)

    def across(self, shape: Shape) -> Shape:
        """The shape of a weight without the axis along which weights are joined."""
        axis = self.weight_axis % len(shape)
        return shape[:axis] + shape[axis + 1 :]

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr] | Refusal:
        """For each match the part of the one product that it equals."""
        product, *others = self.calls(node_maps[0])
        at = self.weight_axis
        lengths = [known_shape(node_map[w][0])[at] for node_map in node_maps]
        whole = self.merged_product(product, node_maps, joined(self.weights(node_maps), at))
        if self.is_biased:
            bias, *others = others
            whole = Call(bias.op, [whole, joined([node_map[b][0] for node_map in node_maps], 0)], bias.attrs)
        for call in others:
            whole = Call(call.op, [whole], call.attrs)
        return divided(whole, lengths, self.axis)

    def weights(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        return [node_map[w][0] for node_map in node_maps]

    def merged_product(self, product: Call, node_maps: Sequence[NodeMap], weight: Expr) -> Call:
        return with_attrs(product, [product.args[0], weight])


class Convolutions(Siblings):
    """Sibling convolutions of one group, of NCHW images."""

    def product_key(self, product: Any, shape: Shape) -> Hashable:
        if not has_channels_first(product.attrs) or product.attrs.groups != 1:
            return refuse("it is no convolution of NCHW images in one group")
        return super().product_key(product, shape)


class Enlarged(Convolutions):
    """Sibling convolutions whose kernels differ in height and width: the smaller kernels are padded with zeros.

    All must keep the size of the image, up to strides: kernels are odd, and images padded by half of them. Where an
    image has infinite elements, the added zeros make NaN of them.
    """

    soundness = Soundness.FINITE

    def product_key(self, product: Any, shape: Shape) -> Hashable:
        height, width = shape[2:]
        half = (height // 2, width // 2)
        if not height % 2 or not width % 2 or tuple(map(int, product.attrs.padding)) != half * 2:
            return refuse("the kernel is even or the image is not padded by half of it")
        if tuple(map(int, product.attrs.dilation)) != (1, 1):
            return refuse("the kernel is dilated")
        plain = with_attrs(product, product.args, padding=(0, 0, 0, 0), kernel_size=None)
        return super().product_key(plain, (*shape[:2], 0, 0))

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr] | Refusal:
        kernels = {known_shape(weight)[2:] for weight in super().weights(node_maps)}
        return super().merge(node_maps) if len(kernels) > 1 else refuse("the kernels are equal")

    def halves(self, node_maps: Sequence[NodeMap]) -> tuple[int, ...]:
        """Half of the height and of the width of the enlarged kernels."""
        kernels = [known_shape(weight)[2:] for weight in super().weights(node_maps)]
        return tuple(max(sizes) // 2 for sizes in zip(*kernels, strict=True))

    def weights(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        halves = self.halves(node_maps)
        return [_padded(weight, halves) for weight in super().weights(node_maps)]

    def merged_product(self, product: Call, node_maps: Sequence[NodeMap], weight: Expr) -> Call:
        padding = self.halves(node_maps) * 2
        return with_attrs(product, [product.args[0], weight], padding=padding, kernel_size=None)


def _padded(weight: Expr, halves: Sequence[int]) -> Expr:
    margins = [(half - size // 2,) * 2 for half, size in zip(halves, known_shape(weight)[2:], strict=True)]
    result: Expr = nn.pad(weight, ((0, 0), (0, 0), *margins)) if any(map(any, margins)) else weight
    return result


class Matrices(Siblings):
    """Sibling matrix products of weights that are not transposed."""

    weight_axis = -1

    def product_key(self, product: Any, shape: Shape) -> Hashable:
        if product.attrs.transpose_b or len(shape) < 2:
            return refuse("the weight is transposed, or no matrix")
        if len(shape) > 2 and self.is_biased:
            return refuse("there are several weights")
        return super().product_key(product, shape)


class BatchMatrices(Siblings):
    """Sibling products of batches of matrices, by weights that are transposed, as ``nn.batch_matmul`` has them."""

    weight_axis = -2

    def product_key(self, product: Any, shape: Shape) -> Hashable:
        return (
            super().product_key(product, shape) if product.attrs.transpose_b else refuse("the weight is not transposed")
        )


class Stacked(Siblings):
    """Sibling dense layers of one matrix and as many outputs each, as one product of a batch."""

    def product_key(self, product: Any, shape: Shape) -> Hashable:
        if rank_of(product._checked_type) != 2:
            return refuse("the operand is no matrix")
        return super().product_key(product, shape)

    def across(self, shape: Shape) -> Shape:
        return shape

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        product = self.calls(node_maps[0])[0]
        weights = stack(Tuple(self.weights(node_maps)), axis=0)
        batch = nn.batch_matmul(expand_dims(product.args[0], axis=0), weights, product.attrs.out_dtype)
        return [squeeze(part, axis=0) for part in divided(batch, [1] * len(node_maps), 0)]


# ---- gates: sums of two products, all of the same two operands


class Gates(Siblings):
    """Sums ``product(x, w) + product(y, v)``, merged into ``product(concat(x, y), weights)``.

    A product of float16 that overflows is infinite, or NaN beside another; the merged one need be neither.
    """

    soundness = Soundness.FINITE
    shared = (x, y)

    def __init__(self, activation: Activation):
        first, self.second = nn.dense(x, w), nn.dense(y, v)
        super().__init__(first, first + self.second, activation, -1)

    def key(self, node_map: NodeMap) -> Hashable:
        first, second = (node_map[pattern][0] for pattern in (w, v))
        if is_joined(first) or is_joined(second):
            return refuse("it is merged already")
        shapes = weight_shape(first), weight_shape(second)
        rows = node_map[x][0]._checked_type, node_map[y][0]._checked_type
        if not all(map(is_static, rows)) or rows[0].concrete_shape[:-1] != rows[1].concrete_shape[:-1]:  # type: ignore[union-attr]
            return refuse("the operands are not of the same rows")
        if not isinstance(shapes[0], tuple) or not isinstance(shapes[1], tuple) or shapes[0][0] != shapes[1][0]:
            return refuse("the sum broadcasts")
        product, *others = self.calls(node_map)
        keys = self.product_key(product, shapes[0]), self.product_key(node_map[self.second][0], shapes[1])
        return keys, attrs_of_all(others)

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        product, _, *others = self.calls(node_maps[0])
        lengths = [known_shape(node_map[w][0])[0] for node_map in node_maps]
        sides = [joined([node_map[side][0] for node_map in node_maps], 0) for side in (w, v)]
        whole = with_attrs(product, [joined([node_maps[0][x][0], node_maps[0][y][0]], -1), joined(sides, 1)])
        for call in others:
            whole = Call(call.op, [whole], call.attrs)
        return divided(whole, lengths, self.axis)
