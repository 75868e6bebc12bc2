"""``einsum`` of two operands as a matrix product between transposes, which may cancel with others.

The letters of the equation are of four kinds: batch letters are in both operands and the result, row letters in the
left operand and the result, column letters in the right operand and the result, and summed letters in both operands
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.egraph.author import attrs_of, compute, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import Refusal, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op, is_tuple
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op import reshape, transpose
from eqsat.relay.op.rearrange import einsum_terms
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType
from eqsat.rules.shape import codes_between
from eqsat.rules.types import Shape, floats, has_zero
from eqsat.rules.values import computed_parts

x, y = variables("x y")
notation = is_op("einsum")(is_tuple([x, y]))


@dataclass(frozen=True)
class Letters:
    """The letters of an equation by kind, and the size of each."""

    left: str
    right: str
    result: str
    batch: str
    rows: str
    columns: str
    summed: str
    sizes: dict[str, Dim]

    @property
    def is_plain(self) -> bool:
        """Whether both operands are batches of matrices, or the left one has rows of several dimensions."""
        rows = len(self.rows) == 1 or (self.rows and not self.batch)
        return bool(rows) and len(self.columns) == len(self.summed) == 1

    @property
    def kinds(self) -> tuple[list[str], list[str], list[str]]:
        """For batch, rows and columns the dimensions of the product, each as the letters that it joins."""
        return list(self.batch), [self.rows] if self.batch else list(self.rows), [self.columns]

    def dims(self, kinds: Sequence[str]) -> list[Dim]:
        """The sizes of dimensions, each given by the letters that it joins."""
        return [multiply_dims(*(self.sizes[letter] for letter in kind)) for kind in kinds]

    def reshaped(self, before: Sequence[str], after: Sequence[str]) -> tuple[int, ...] | Refusal:
        """The ``newshape`` from one dimension for each kind of letters ``before`` to one for each kind ``after``."""
        return codes_between(self.dims(before), self.dims(after))


def letters_of(attrs: Attrs, left: TensorType, right: TensorType) -> Letters | Refusal:
    """The letters of a product of two operands of these types."""
    (first, second), result = einsum_terms(attrs.equation, 2)
    if any("." in term or len(set(term)) < len(term) for term in (first, second, result)):
        return refuse("it has an ellipsis or a diagonal")
    sizes: dict[str, Dim] = dict(zip(first, left.shape, strict=True))
    if any(
        sizes.setdefault(letter, dim) != dim or (dim == AnyDim() and letter in first)
        for letter, dim in zip(second, right.shape, strict=True)
    ):
        return refuse("it broadcasts, or a dimension is not known")
    alone = [letter for letter in first + second if letter not in result and (letter in first) != (letter in second)]
    if alone:
        return refuse("it sums one operand by itself")
    both = [letter for letter in result if letter in first and letter in second]
    return Letters(
        first,
        second,
        result,
        "".join(both),
        "".join(letter for letter in first if letter in result and letter not in second),
        "".join(letter for letter in second if letter in result and letter not in first),
        "".join(letter for letter in first if letter not in result),
        sizes,
    )


def places(letters: str, of: str) -> tuple[int, ...]:
    return tuple(of.index(letter) for letter in letters)


def orders(attrs: Attrs, left: TensorType, right: TensorType) -> tuple[Shape, ...] | Refusal:
    """The transposes of both operands, and of the product of what they give."""
    letters = letters_of(attrs, left, right)
    if isinstance(letters, Refusal):
        return letters
    batch, rows, columns, summed = letters.batch, letters.rows, letters.columns, letters.summed
    return (
        places(batch + rows + summed, letters.left),
        places(batch + summed + columns, letters.right),
        places(letters.result, batch + rows + columns),
    )


def shapes(attrs: Attrs, left: TensorType, right: TensorType) -> tuple[Shape, ...] | Refusal:
    """The ``newshape`` of both operands, transposed, and of their product."""
    letters = letters_of(attrs, left, right)
    if isinstance(letters, Refusal):
        return letters
    summed, (batch, rows, columns) = letters.summed, letters.kinds
    found = [
        letters.reshaped(letters.batch + letters.rows + summed, [*batch, *rows, summed]),
        letters.reshaped(letters.batch + summed + letters.columns, [*batch, summed, *columns]),
        letters.reshaped([*batch, *rows, *columns], letters.batch + letters.rows + letters.columns),
    ]
    known = tuple([shape for shape in found if isinstance(shape, tuple)])
    return known if len(known) == len(found) else refuse("more than one dimension is not known")


def is_plain(attrs: Attrs, left: TensorType, right: TensorType) -> bool:
    letters = letters_of(attrs, left, right)
    return isinstance(letters, Letters) and letters.is_plain


def is_flattened(attrs: Attrs, left: TensorType, right: TensorType) -> bool:
    """Guard: a matrix product of which a kind has no letter, or several, so that operands must be reshaped."""
    letters = letters_of(attrs, left, right)
    return isinstance(letters, Letters) and not letters.is_plain and bool(letters.summed)


about = (attrs_of(notation), type_of(x), type_of(y))
order, shape = computed_parts(orders, *about), computed_parts(shapes, *about)
left, right = transpose(x, axes=order(0)), transpose(y, axes=order(1))
is_empty = compute(lambda left, right: has_zero(left) or has_zero(right), type_of(x), type_of(y))
flat_left, flat_right = (reshape(part, newshape=shape(at), allowzero=is_empty) for at, part in enumerate((left, right)))
flat_product = reshape(nn.matmul(flat_left, flat_right), newshape=shape(2), allowzero=is_empty)

notations = RuleSet(
    "index-notation",
    [
        rewrite(
            "einsum-is-matmul",
            notation,
            transpose(nn.matmul(left, right), axes=order(2)),
            when(is_plain, *about),
            floats(x),
            soundness=Soundness.ROUNDING,
        ),
        rewrite(
            "einsum-is-flat-matmul",
            notation,
            transpose(flat_product, axes=order(2)),
            when(is_flattened, *about),
            floats(x),
            soundness=Soundness.ROUNDING,
        ),
    ],
)
