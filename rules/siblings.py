"""Sibling products, which share an operand: which of them can be merged into one product, and how."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from eqsat.egraph.author import refuse, variables
from eqsat.egraph.group_rules import GroupRule, NodeMap
from eqsat.egraph.rule import Refusal, Soundness
from eqsat.errors import RuleError
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.expr import Call, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.op import concatenate, expand_dims, squeeze, stack
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.products import has_channels_first
from eqsat.rules.types import Shape

ROUNDING = Soundness.ROUNDING

x, y, u, v, w, b = variables("x y u v w b")


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


def known_shape(weight: Expr) -> Shape:
    """The shape of a weight of products that have a key: those of others are not merged."""
    shape = weight_shape(weight)
    if isinstance(shape, Refusal):
        raise RuleError(shape.reason)
    return shape


def joined(parts: Sequence[Expr], axis: int) -> Expr:
    result: Expr = concatenate(Tuple(parts), axis=axis)
    return result


def divided(whole: Expr, lengths: Sequence[int], axis: int) -> list[Expr]:
    """``whole`` cut into parts of these lengths."""
    cuts = tuple(accumulate(lengths))[:-1]
    parts = Call(Op.get("split"), [whole], make_attrs(Op.get("split"), {"indices_or_sections": cuts, "axis": axis}))
    return [TupleGetItem(parts, index) for index in range(len(lengths))]


def attrs_of_all(calls: Sequence[Call]) -> Hashable:
    """A key that is equal for calls of equal attributes."""
    return tuple([None if call.attrs is None else call.attrs.key for call in calls])


def with_attrs(call: Call, args: Sequence[Expr], **changes: Any) -> Call:
    """A call of the same operator with other arguments, and with some attributes changed."""
    if not isinstance(call.op, Op):
        raise RuleError(f"{call.op} is no operator: the patterns of siblings match calls of operators only")
    return Call(call.op, args, make_attrs(call.op, {**(call.attrs or {}), **changes}))


Activation: TypeAlias = Callable[[DFPattern], DFPattern]


class Siblings:
    """Products ``product(x, w)`` of one ``x`` with what follows each: an optional bias, an optional activation.

    Args:
        product: the call pattern over ``x`` and ``w``.
        biased: the pattern with a bias, over ``b``; None for none.
        activation: makes the pattern of what is at the root, given the pattern before it; None for nothing.
        axis: the axis of the result along which weights make it longer.
    """

    soundness = ROUNDING
    weight_axis = 0
    """The axis along which weights are joined."""

    def __init__(self, product: DFPattern, biased: DFPattern | None, activation: Activation | None, axis: int):
        self.product = product
        self.biased = biased
        self.axis = axis
        value = product if biased is None else biased
        self.root = value if activation is None else activation(value)

    def calls(self, node_map: NodeMap) -> list[Call]:
        """The calls of a match, from the product to the root."""
        patterns = dict.fromkeys([self.product, self.biased or self.product, self.root])
        return [call for pattern in patterns if isinstance(call := node_map[pattern][0], Call)]

    def key(self, node_map: NodeMap) -> Hashable:
        """A key that products have in common if they can be merged, or the reason why this one cannot."""
        weight = node_map[w][0]
        if is_joined(weight):
            return refuse("it is merged already")
        shape = weight_shape(weight)
        if not isinstance(shape, tuple):
            return shape
        product, *others = self.calls(node_map)
        if self.biased is not None and not self.is_along_outputs(node_map[self.biased][0]):
            return refuse("the bias lies along another axis than the outputs")
        found = self.product_key(product, shape)
        return found if isinstance(found, Refusal) else (found, attrs_of_all(others))

    def product_key(self, product: Call, shape: tuple[int, ...]) -> Hashable:
        """What products must have in common besides their weight and what follows them, or why this one has no key."""
        lengths = dict.fromkeys({"units", "channels"} & set(product.attrs or ()))
        return attrs_of_all([with_attrs(product, product.args, **lengths)]), self.across(shape)

    def is_along_outputs(self, bias: Expr) -> bool:
        """Whether a ``bias_add`` adds along the axis that weights make longer."""
        ty = bias._checked_type
        if not isinstance(bias, Call) or bias.attrs is None or not isinstance(ty, TensorType):
            return False
        return bool((bias.attrs.axis - self.axis) % len(ty.shape) == 0)

    def across(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a weight without the axis along which weights are joined."""
        axis = self.weight_axis % len(shape)
        return shape[:axis] + shape[axis + 1 :]

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr] | Refusal:
        """For each match the part of the one product that it equals."""
        product, *others = self.calls(node_maps[0])
        at = self.weight_axis
        lengths = [known_shape(node_map[w][0])[at] for node_map in node_maps]
        whole: Call = self.merged_product(product, node_maps, joined(self.weights(node_maps), at))
        for call in others:
            args: list[Expr] = [whole]
            if self.biased is not None and call is node_maps[0][self.biased][0]:
                args.append(joined([node_map[b][0] for node_map in node_maps], 0))
            whole = Call(call.op, args, call.attrs)
        return divided(whole, lengths, self.axis)

    def weights(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        return [node_map[w][0] for node_map in node_maps]

    def merged_product(self, product: Call, node_maps: Sequence[NodeMap], weight: Expr) -> Call:
        name = "units" if "units" in (product.attrs or {}) else "channels"
        return with_attrs(product, [node_maps[0][x][0], weight], **{name: None})

    def rule(self, name: str) -> GroupRule:
        return GroupRule(name, self.root, soundness=self.soundness, shared=(x,), key=self.key, merge=self.merge)


class Convolutions(Siblings):
    """Sibling convolutions of one group, of NCHW images."""

    def product_key(self, product: Call, shape: tuple[int, ...]) -> Hashable:
        attrs = product.attrs
        if attrs is None or not has_channels_first(attrs) or attrs.groups != 1:
            return refuse("it is no convolution of NCHW images in one group")
        return super().product_key(product, shape)


class Matrices(Siblings):
    """Sibling matrix products of weights that are not transposed."""

    weight_axis = -1

    def product_key(self, product: Call, shape: tuple[int, ...]) -> Hashable:
        if product.attrs is None or product.attrs.transpose_b or len(shape) < 2:
            return refuse("the weight is transposed, or no matrix")
        if len(shape) > 2 and self.biased is not None:
            return refuse("there are several weights")
        return super().product_key(product, shape)


class BatchMatrices(Siblings):
    """Sibling products of batches of matrices, by weights that are transposed, as ``nn.batch_matmul`` has them."""

    weight_axis = -2

    def product_key(self, product: Call, shape: tuple[int, ...]) -> Hashable:
        if product.attrs is None or not product.attrs.transpose_b:
            return refuse("the weight is not transposed")
        return super().product_key(product, shape)

    def merged_product(self, product: Call, node_maps: Sequence[NodeMap], weight: Expr) -> Call:
        return with_attrs(product, [node_maps[0][x][0], weight])


class Stacked(Siblings):
    """Sibling dense layers of one matrix and as many outputs each, as one product of a batch."""

    def product_key(self, product: Call, shape: tuple[int, ...]) -> Hashable:
        if not isinstance(product._checked_type, TensorType) or len(product._checked_type.shape) != 2:
            return refuse("the operand is no matrix")
        return super().product_key(product, shape)

    def across(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        product = self.calls(node_maps[0])[0]
        weights = stack(Tuple(self.weights(node_maps)), axis=0)
        out_dtype = "" if product.attrs is None else product.attrs.out_dtype
        batch = nn.batch_matmul(expand_dims(product.args[0], axis=0), weights, out_dtype)
        return [squeeze(part, axis=0) for part in divided(batch, [1] * len(node_maps), 0)]


# ---- gates: sums of two products, all of the same two operands


class Gates(Siblings):
    """Sums ``product(x, w) + product(y, v)``, merged into ``product(concat(x, y), weights)``."""

    def __init__(self, activation: Activation | None):
        second = nn.dense(y, v)
        super().__init__(nn.dense(x, w), None, None, -1)
        self.second = second
        total = self.product + second
        self.root = total if activation is None else activation(total)
        self.total = total

    def calls(self, node_map: NodeMap) -> list[Call]:
        patterns = dict.fromkeys([self.product, self.second, self.total, self.root])
        return [call for pattern in patterns if isinstance(call := node_map[pattern][0], Call)]

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
        product, other, *rest = self.calls(node_map)
        return self.product_key(product, shapes[0]), self.product_key(other, shapes[1]), attrs_of_all(rest)

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        product, _, _, *others = self.calls(node_maps[0])
        lengths = [known_shape(node_map[w][0])[0] for node_map in node_maps]
        sides = [joined([node_map[side][0] for node_map in node_maps], 0) for side in (w, v)]
        operands = joined([node_maps[0][x][0], node_maps[0][y][0]], -1)
        whole = with_attrs(product, [operands, joined(sides, 1)], units=None)
        for call in others:
            whole = Call(call.op, [whole], call.attrs)
        return divided(whole, lengths, self.axis)

    def rule(self, name: str) -> GroupRule:
        return GroupRule(name, self.root, soundness=self.soundness, shared=(x, y), key=self.key, merge=self.merge)
