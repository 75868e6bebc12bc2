"""``einsum`` of two operands as a matrix product between transposes, which may cancel with others.

The letters of the equation are of four kinds: batch letters are in both operands and the result, row letters in the
left operand and the result, column letters in the right operand and the result, and summed letters in both operands
only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eqsat.egraph.author import attrs_of, compute, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import Compute, Refusal, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op, is_tuple
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op import reshape, transpose
from eqsat.relay.op.rearrange import einsum_terms
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType
from eqsat.rules.types import floats

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
        given, wanted = self.dims(before), self.dims(after)
        kept = [given[at : at + 1] == [dim] and dim != AnyDim() for at, dim in enumerate(wanted)]
        codes = [dim if isinstance(dim, int) else 0 if same else -1 for dim, same in zip(wanted, kept, strict=True)]
        if codes.count(-1) > 1 or (0 in wanted and not all(isinstance(dim, int) for dim in wanted)):
            return refuse("more than one dimension is not known")
        return tuple(codes)


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


def left_order(letters: Letters) -> tuple[int, ...]:
    return places(letters.batch + letters.rows + letters.summed, letters.left)


def right_order(letters: Letters) -> tuple[int, ...]:
    return places(letters.batch + letters.summed + letters.columns, letters.right)


def result_order(letters: Letters) -> tuple[int, ...]:
    return places(letters.result, letters.batch + letters.rows + letters.columns)


def left_shape(letters: Letters) -> tuple[int, ...] | Refusal:
    batch, rows, _ = letters.kinds
    return letters.reshaped(letters.batch + letters.rows + letters.summed, [*batch, *rows, letters.summed])


def right_shape(letters: Letters) -> tuple[int, ...] | Refusal:
    batch, _, columns = letters.kinds
    return letters.reshaped(letters.batch + letters.summed + letters.columns, [*batch, letters.summed, *columns])


def result_shape(letters: Letters) -> tuple[int, ...] | Refusal:
    batch, rows, columns = letters.kinds
    return letters.reshaped([*batch, *rows, *columns], letters.batch + letters.rows + letters.columns)


def is_empty(letters: Letters) -> bool:
    """Whether a dimension is 0."""
    return 0 in letters.sizes.values()


def of_letters(function: Callable[[Letters], object]) -> Compute:
    """What ``function`` computes from the letters of the matched equation."""

    def found(attrs: Attrs, left: TensorType, right: TensorType) -> object:
        letters = letters_of(attrs, left, right)
        return letters if isinstance(letters, Refusal) else function(letters)

    return compute(found, attrs_of(notation), type_of(x), type_of(y))


def is_plain(attrs: Attrs, left: TensorType, right: TensorType) -> bool:
    letters = letters_of(attrs, left, right)
    return isinstance(letters, Letters) and letters.is_plain


def is_flattened(attrs: Attrs, left: TensorType, right: TensorType) -> bool:
    """Guard: a matrix product of which a kind has no letter, or several, so that operands must be reshaped."""
    letters = letters_of(attrs, left, right)
    return isinstance(letters, Letters) and not letters.is_plain and bool(letters.summed)


left, right = transpose(x, axes=of_letters(left_order)), transpose(y, axes=of_letters(right_order))
flat_left = reshape(left, newshape=of_letters(left_shape), allowzero=of_letters(is_empty))
flat_right = reshape(right, newshape=of_letters(right_shape), allowzero=of_letters(is_empty))
flat_product = reshape(
    nn.matmul(flat_left, flat_right), newshape=of_letters(result_shape), allowzero=of_letters(is_empty)
)
about = (attrs_of(notation), type_of(x), type_of(y))


notations = RuleSet(
    "index-notation",
    [
        rewrite(
            "einsum-is-matmul",
            notation,
            transpose(nn.matmul(left, right), axes=of_letters(result_order)),
            when(is_plain, *about),
            floats(x),
            soundness=Soundness.ROUNDING,
        ),
        rewrite(
            "einsum-is-flat-matmul",
            notation,
            transpose(flat_product, axes=of_letters(result_order)),
            when(is_flattened, *about),
            floats(x),
            soundness=Soundness.ROUNDING,
        ),
    ],
)
