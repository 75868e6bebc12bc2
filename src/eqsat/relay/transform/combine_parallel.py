"""CombineParallelConv2D, -Dense and -BatchMatmul: several products of one tensor become one product.

The weights of products that read the same tensor are joined, and so are the operands of elementwise operators that
follow each of them in the same way; the parts of the result are cut out again. In a saturation the rules of
:mod:`eqsat.rules.merge` do the same (``sibling-convs``, ``sibling-denses``, ``stacked-denses`` and
``sibling-batch-matmuls``), with the choice left to the cost model.

Only what the function computes outside of its lets, branches and inner functions is combined, since the values that are
combined must all be at hand at one place; ToGraphNormalForm removes lets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from eqsat.relay.expr import Call, Expr, Function, Op, Tuple
from eqsat.relay.op import concatenate, expand_dims, repeat, split, squeeze, stack, strided_slice
from eqsat.relay.op.layout import layout_change, parse_layout
from eqsat.relay.op.nn import batch_matmul
from eqsat.relay.op.op import make_attrs
from eqsat.relay.op.types import axis_index
from eqsat.relay.traits import Trait
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.transform.simplify.rule import op_name, tensor_type
from eqsat.relay.ty import Dim, is_static
from eqsat.relay.visitor import post_order, rebuild


def CombineParallelConv2D(min_num_branches: int = 3) -> Pass:
    """Combine convolutions of one image, without groups, that differ only in weights and numbers of channels.

    Args:
        min_num_branches: how many there must be.
    """
    return _combining(Convolutions(), min_num_branches, "CombineParallelConv2d")


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> Pass:
    """Combine dense layers with the same input.

    Args:
        min_num_branches: how many there must be.
        to_batch: Whether layers of a matrix with equal numbers of units become one ``nn.batch_matmul``, instead of one
            dense layer with all units.
    """
    return _combining(StackedDenses() if to_batch else Denses(), min_num_branches, "CombineParallelDense")


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> Pass:
    """Combine batched matrix products with the same left operand, whose right operands are transposed.

    Args:
        min_num_branches: how many there must be.
    """
    return _combining(BatchMatmuls(), min_num_branches, "CombineParallelBatchMatmul")


def _combining(products: Products, least: int, name: str) -> Pass:
    def transform(function: Function, mod: Any, context: Any) -> Expr:
        return _Combiner(function, products).run(max(least, 2))

    return FunctionPass(transform, PassInfo(4, name), typed=True)


# ---- which products, and how

Shape: TypeAlias = tuple[Dim, ...]


@dataclass(frozen=True)
class Whole:
    """What several values were combined to.

    Args:
        value: their combination.
        axis: where they are joined along an axis, this axis counted from the back, a negative number.
        lengths: the length of each along this axis.
    """

    value: Expr
    axis: int
    lengths: tuple[int, ...]


class Products(ABC):
    """Products of one kind, and how several of one first operand are combined."""

    op: str

    @abstractmethod
    def key(self, call: Any) -> Hashable:
        """Equal for products of one operand that can be combined; None of one that cannot."""

    @abstractmethod
    def combined(self, calls: Sequence[Call]) -> Whole:
        """The combination of some products of equal keys."""

    @abstractmethod
    def followed(self, whole: Whole, calls: Sequence[Call], position: int) -> Whole | None:
        """The combination of calls of one elementwise operator, or None.

        Args:
            whole: the combination of the values that are the argument at ``position`` of each.
            calls: the calls, of equal attributes.
        """

    @abstractmethod
    def parts(self, whole: Whole, calls: Sequence[Call]) -> list[Expr]:
        """The part of ``whole`` for each of the calls that it combines."""


class Joined(Products):
    """Products whose weights are joined, and with them the results along one axis."""

    all_axes = False
    """Whether slices name the axes behind the one they cut, too."""

    @abstractmethod
    def axes(self, call: Any) -> tuple[int, int]:
        """The axis along which weights are joined, and that of the results, counted from the back."""

    @abstractmethod
    def size(self, calls: Sequence[Any]) -> dict[str, object]:
        """The attributes of the combination that say its size."""

    def combined(self, calls: Sequence[Call]) -> Whole:
        weight_axis, axis = self.axes(calls[0])
        attrs = make_attrs(Op.get(self.op), {**(calls[0].attrs or {}), **self.size(calls)})
        weight = concatenate(Tuple([call.args[1] for call in calls]), axis=weight_axis)
        lengths = tuple([tensor_type(call).shape[axis] for call in calls])
        return Whole(Call(calls[0].op, [calls[0].args[0], weight], attrs), axis, lengths)  # type: ignore[arg-type]

    def followed(self, whole: Whole, calls: Sequence[Any], position: int) -> Whole | None:
        first = calls[0]
        axis, rank = whole.axis, len(tensor_type(first).shape)
        if op_name(first) == "expand_dims":
            before = rank - first.attrs.num_newaxis
            axis -= first.attrs.num_newaxis if axis_index(first.attrs.axis, before + 1) > before + axis else 0
        elif op_name(first) == "nn.bias_add":
            if axis != -1 or axis_index(first.attrs.axis, rank) != rank - 1:
                return None
        elif not first.op.has(Trait.ELEMENTWISE):
            return None
        args = []
        for index, operands in enumerate(zip(*[call.args for call in calls], strict=True)):
            operand = whole.value if index == position else self.operand(whole, operands)
            if operand is None:
                return None
            args.append(operand)
        return Whole(Call(first.op, args, first.attrs), axis, whole.lengths)

    def operand(self, whole: Whole, operands: Sequence[Expr]) -> Expr | None:
        """The other operands of an elementwise operator, joined along the axis, or None."""
        pairs = zip(operands, whole.lengths, strict=True)
        fitted = [self.fitted(operand, tensor_type(operand).shape, whole.axis, length) for operand, length in pairs]
        shapes = [shape for _, shape in fitted]
        at = len(shapes[0]) + whole.axis
        kinds = {(tensor_type(operand).dtype, len(tensor_type(operand).shape)) for operand in operands}
        others = {(shape[:at], shape[at + 1 :]) for shape in shapes}
        if at < 0 or len(kinds) > 1 or len(others) > 1 or tuple([shape[at] for shape in shapes]) != whole.lengths:
            return None
        joined: Expr = concatenate(
            Tuple([operand for operand, _ in fitted]), axis=self.operand_axis(at, len(shapes[0]))
        )
        return joined

    def operand_axis(self, at: int, rank: int) -> int:
        """The axis from the front, as concatenations of operands of this rank state it."""
        return at

    def fitted(self, operand: Expr, shape: Shape, axis: int, length: int) -> tuple[Expr, Shape]:
        """An operand with its shape, of as much of this length along the axis as it can be brought to."""
        return operand, shape

    def parts(self, whole: Whole, calls: Sequence[Call]) -> list[Expr]:
        rank = len(tensor_type(calls[0]).shape)
        at = rank + whole.axis
        count = rank if self.all_axes else at + 1
        found: list[Expr] = []
        for end, length in zip(accumulate(whole.lengths), whole.lengths, strict=True):
            begins, sizes = [0] * count, [-1] * count
            begins[at], sizes[at] = end - length, length
            found.append(strided_slice(whole.value, begins, sizes, [1] * count, slice_mode="size"))
        return found


class Convolutions(Joined):
    op = "nn.conv2d"

    def key(self, call: Any) -> Hashable:
        weight, attrs = tensor_type(call.args[1]), call.attrs
        if attrs.groups != 1 or not is_static(weight) or not is_static(tensor_type(call)):
            return None
        kernel = self.filters(call)[2:]
        return attrs.replace(channels=None, kernel_size=None), kernel, weight.dtype

    def filters(self, call: Any) -> tuple[Any, ...]:
        """The shape of the weight in the layout OIHW."""
        return layout_change(call.attrs.kernel_layout, "OIHW").shape(tensor_type(call.args[1]).shape)

    def axes(self, call: Any) -> tuple[int, int]:
        layout = call.attrs.out_layout or call.attrs.data_layout
        channels = [part for part, _ in parse_layout(layout)].index("C")
        kernels = [part for part, _ in parse_layout(call.attrs.kernel_layout)].index("O")
        return kernels, channels - len(parse_layout(layout))

    def size(self, calls: Sequence[Any]) -> dict[str, object]:
        return {"channels": sum(self.filters(call)[0] for call in calls)}


class Denses(Joined):
    op = "nn.dense"
    all_axes = True

    def key(self, call: Any) -> Hashable:
        weight = tensor_type(call.args[1])
        return (call.attrs.out_dtype, weight.dtype) if is_static(weight) else None

    def axes(self, call: Any) -> tuple[int, int]:
        return 0, -1

    def size(self, calls: Sequence[Any]) -> dict[str, object]:
        return {"units": sum(tensor_type(call.args[1]).concrete_shape[0] for call in calls)}

    def fitted(self, operand: Expr, shape: Shape, axis: int, length: int) -> tuple[Expr, Shape]:
        """Operands that broadcast along the units are repeated."""
        if axis == -1 and not shape:
            return repeat(expand_dims(operand, -1), length, 0), (length,)
        if axis == -1 and shape[-1] == 1 and length > 1:
            return repeat(operand, length, len(shape) - 1), (*shape[:-1], length)
        return operand, shape


class BatchMatmuls(Joined):
    op = "nn.batch_matmul"

    def key(self, call: Any) -> Hashable:
        weight = tensor_type(call.args[1])
        if call.attrs.transpose_a or not call.attrs.transpose_b or not is_static(weight):
            return None
        return call.attrs.out_dtype, weight.dtype, weight.shape[0]

    def axes(self, call: Any) -> tuple[int, int]:
        return 1, -1

    def size(self, calls: Sequence[Any]) -> dict[str, object]:
        return {}

    def operand_axis(self, at: int, rank: int) -> int:
        return at - rank


class StackedDenses(Products):
    """Dense layers of a matrix, as one product of a batch."""

    op = "nn.dense"

    def key(self, call: Any) -> Hashable:
        weight = tensor_type(call.args[1])
        if not is_static(weight) or len(tensor_type(call).shape) != 2:
            return None
        return call.attrs.out_dtype, weight

    def combined(self, calls: Sequence[Any]) -> Whole:
        operands = [stack(Tuple(operands), axis=0) for operands in zip(*[call.args for call in calls], strict=True)]
        return Whole(batch_matmul(*operands, calls[0].attrs.out_dtype, False, True), 0, (1,) * len(calls))

    def followed(self, whole: Whole, calls: Sequence[Any], position: int) -> Whole | None:
        first = calls[0]
        if not first.op.has(Trait.ELEMENTWISE) or any(len(tensor_type(arg).shape) > 2 for arg in first.args):
            return None
        args = []
        for index, operands in enumerate(zip(*[call.args for call in calls], strict=True)):
            if index == position:
                args.append(whole.value)
            elif len({tensor_type(operand) for operand in operands}) > 1:
                return None
            else:
                args.append(stack(Tuple([_as_matrix(operand) for operand in operands]), axis=0))
        return Whole(Call(first.op, args, first.attrs), whole.axis, whole.lengths)

    def parts(self, whole: Whole, calls: Sequence[Call]) -> list[Expr]:
        parts = split(whole.value, len(calls), 0)
        return [squeeze(parts[index], [0]) for index in range(len(calls))]


def _as_matrix(operand: Expr) -> Expr:
    """A vector or scalar with axes of size 1 before its own."""
    missing = 2 - len(tensor_type(operand).shape)
    result: Expr = expand_dims(operand, 0, missing) if missing else operand
    return result


# ---- finding and replacing them


class _Combiner:
    """Combines products, and what follows them, of one function.

    Nodes are combined only if they have the same level: the most products and elementwise operators behind a product
    that a path to the node leads through. Every path between such nodes rises, so that none depends on itself later.
    """

    def __init__(self, function: Function, products: Products):
        self.function = function
        self.products = products
        self.order = post_order(function)
        self.outside = post_order(function.body, children=lambda node: node.outside)
        users = Counter(child for node in self.order for child in node.children())
        self.only_user = {child: node for node in self.outside for child in node.outside if users[child] == 1}
        self.levels: dict[Expr, int] = {}
        for node in self.order:
            below = max([self.levels[child] for child in node.children()], default=0)
            self.levels[node] = below + (self._is_product(node) or bool(below and isinstance(node, Call)))
        self.replaced: dict[Expr, Expr] = {}
        self.claimed: set[Expr] = set()

    def _is_product(self, node: Expr) -> bool:
        return op_name(node) == self.products.op

    def run(self, least: int) -> Expr:
        groups: dict[Hashable, list[Call]] = {}
        for node in self.outside:
            if isinstance(node, Call) and self._is_product(node):
                key = self.products.key(node)
                if key is not None:
                    groups.setdefault((node.args[0], key, self.levels[node]), []).append(node)
        for calls in groups.values():
            if len(calls) >= least:
                self._combine(calls)
        new: dict[Expr, Expr] = {}
        for node in post_order(self.function, children=self._needs):
            new[node] = new[self.replaced[node]] if node in self.replaced else rebuild(node, new)
        return new[self.function]

    def _needs(self, node: Expr) -> Sequence[Expr]:
        return [self.replaced[node]] if node in self.replaced else node.children()

    def _combine(self, calls: Sequence[Call]) -> None:
        whole = self.products.combined(calls)
        while followers := self._followers(calls):
            position = followers[0].args.index(calls[0])
            longer = self.products.followed(whole, followers, position)
            if longer is None:
                break
            whole, calls = longer, followers
            self.claimed.update(calls)
        self.replaced.update(zip(calls, self.products.parts(whole, calls), strict=True))

    def _followers(self, calls: Sequence[Call]) -> list[Call]:
        """The only users of the calls, if they use them in the same way and are not yet combined; else none."""
        followers: list[Call] = []
        uses: set[Hashable] = set()
        for call in calls:
            user = self.only_user.get(call)
            if not isinstance(user, Call) or not isinstance(user.op, Op) or user in self.claimed:
                return []
            followers.append(user)
            uses.add((user.op, user.attrs, user.args.index(call), len(user.args), self.levels[user]))
        return followers if len(uses) == 1 else []
