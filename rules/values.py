"""Constants: patterns of given values, templates of values, and what rules ask of the elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from eqsat.egraph.author import attrs_of, compute, refuse, type_of, value_of
from eqsat.egraph.rule import Array, Compute, Ref, Refusal
from eqsat.relay.dataflow_pattern import ConstantPattern, DFPattern, is_constant
from eqsat.relay.ty import Dim, TensorType


@dataclass(frozen=True)
class Filled:
    """Whether all elements of an array are ``value``, up to the rounding of its dtype where that does not hold it.

    ``example`` gives the verifier such an array.
    """

    value: float
    asks_each_element = True
    """So the answer for some of the elements tells most arrays that have none such."""

    def __call__(self, array: Array) -> bool:
        if array.size == 0 or array.dtype.kind == "b":
            return False
        tolerance = _tolerance(self.value, array.dtype)
        # the first element decides nearly always; twice the tolerance, as the value itself is not rounded here
        if abs(array.item(0) - self.value) > 2 * tolerance:
            return False
        if tolerance == 0.0:
            return bool(np.all(array == self.value))
        return bool(np.all(np.abs(array - array.dtype.type(self.value)) <= tolerance))

    def example(self, shape: tuple[int, ...], dtype: str) -> Array:
        return np.full(shape, self.value).astype(dtype)


@lru_cache
def _tolerance(value: float, dtype: np.dtype[Any]) -> float:
    """By how much elements of ``dtype`` may differ from ``value``: not at all where the dtype holds it, or integers."""
    if dtype.kind in "iu" or float(dtype.type(value)) == value:
        return 0.0
    return 4 * float(np.spacing(dtype.type(1))) * abs(value)


def filled(value: float, label: str) -> ConstantPattern:
    """A constant all of whose elements are ``value``."""
    return is_constant(label=label, predicate=Filled(value))


zero, one, two, three = filled(0, "zero"), filled(1, "one"), filled(2, "two"), filled(3, "three")
half, minus_one = filled(0.5, "half"), filled(-1, "minus_one")


@dataclass(frozen=True)
class Every:
    """Whether all elements of a condition are ``value``."""

    value: bool
    asks_each_element = True

    def __call__(self, array: Array) -> bool:
        return bool(array.dtype.kind == "b" and np.all(array == self.value))

    def example(self, shape: tuple[int, ...], dtype: str) -> Array:
        return np.full(shape, self.value)


@dataclass(frozen=True)
class Nowhere:
    """Whether no element of an array of numbers is ``value``."""

    value: float
    asks_each_element = True

    def __call__(self, array: Array) -> bool:
        return bool(array.dtype.kind != "b" and array.size and np.all(array != self.value))

    def example(self, shape: tuple[int, ...], dtype: str) -> Array:
        return np.full(shape, self.value + 1).astype(dtype)


@dataclass(frozen=True)
class Repeated:
    """Whether an array is one number other than ``neutral``, several times."""

    neutral: float | None = None
    asks_each_element = True

    def __call__(self, array: Array) -> bool:
        if array.size < 2 or array.dtype.kind == "b":
            return False
        first = array.item(0)
        return bool(first != self.neutral and array.item(-1) == first and np.all(array == first))

    def example(self, shape: tuple[int, ...], dtype: str) -> Array:
        return np.full(shape, 3).astype(dtype)


nonzero = is_constant(label="nonzero", predicate=Nowhere(0))


def repeated_number(neutral: float | None = None) -> ConstantPattern:
    """A constant whose elements are one number other than ``neutral``."""
    return is_constant(label="repeated", predicate=Repeated(neutral))


def number_of(repeated: DFPattern) -> Compute:
    """The number that a constant repeats, as a scalar."""
    return compute(lambda value: value.reshape(-1)[0], value_of(repeated))


all_true, all_false = (is_constant(label=f"all_{value}", predicate=Every(value)) for value in (True, False))


def scalar(value: float, like: DFPattern) -> Compute:
    """A scalar constant of the dtype of what ``like`` matched."""
    return compute(lambda ty: np.asarray(value).astype(ty.dtype), type_of(like))


def attribute(call: DFPattern, name: str) -> Compute:
    """An attribute of a matched call."""
    return compute(lambda attrs: attrs[name], attrs_of(call))


_LONGEST = 1 << 20
"""Elements of a vector beyond which it is not made: no layer has as many channels, but a wrong shape may say so."""


def vector(value: float, length: Dim | None, dtype: str) -> Array | Refusal:
    """A vector of equal numbers, as long as a dimension says."""
    if not isinstance(length, int):
        return refuse("how many numbers that takes is not known")
    if length > _LONGEST:
        return refuse(f"that takes {length} numbers")
    return np.full(length, value, dtype)


def vector_along(value: float, of: DFPattern, axis: int) -> Compute:
    """A vector of equal numbers of the dtype of what ``of`` matched, as long as its ``axis``."""

    def array(ty: TensorType) -> Array | Refusal:
        rank = len(ty.shape)
        return vector(value, ty.shape[axis] if -rank <= axis < rank else None, ty.dtype)

    return compute(array, type_of(of))


def computed_parts(function: Callable[..., tuple[object, ...] | Refusal], *refs: Ref) -> Callable[[int], Compute]:
    """Values that ``function`` finds together: the result, called with an index, is one of them as a template.

    Args:
        function: gets what ``refs`` refer to, and returns a tuple or a refusal.
        refs: what it needs of the match.
    """

    def part(index: int) -> Compute:
        def pick(*given: object) -> object:
            found = function(*given)
            return found if isinstance(found, Refusal) else found[index]

        return compute(pick, *refs)

    return part


def is_finite(*values: Array) -> bool:
    """Guard: no NaN and no infinity."""
    return all(bool(np.all(np.isfinite(value))) for value in values)


def all_positive(*values: Array) -> bool:
    """Guard: all numbers are above 0."""
    return all(bool(np.all(value > 0)) for value in values)


def keeps_order(scale: Array) -> bool:
    """Guard: finite numbers above 0: products with them are in the order of what is multiplied."""
    return all_positive(scale) and is_finite(scale)


def all_negative(*values: Array) -> bool:
    """Guard: all numbers are below 0."""
    return all(bool(np.all(value < 0)) for value in values)


def scales_safely(value: Array) -> bool:
    """Guard: numbers by which, and by whose inverse, a product loses nothing to overflow or underflow."""
    size = np.abs(value.astype(np.float64))
    return bool(np.all((size > 1e-3) & (size < 1e3)))


def is_not_one(value: Array) -> bool:
    """Guard: a constant is not what ``one`` matches, so that a product with it is another value."""
    return not Filled(1)(value)


def only_number(value: Array) -> float | Refusal:
    """The only element of a constant."""
    return float(value.flat[0]) if value.size == 1 else refuse("the constant is not one number")


def finite_number(value: Array) -> float | Refusal:
    """The only element of a constant, where it is a finite floating-point number."""
    if value.size != 1 or value.dtype.kind != "f" or not np.isfinite(value).all():
        return refuse("the constant is not one finite number")
    return float(value.flat[0])


def epsilon_of(value: Array) -> float | Refusal:
    """The only element of a constant as an epsilon, which is added to a variance."""
    number = finite_number(value)
    return refuse("the epsilon is no small number") if isinstance(number, float) and not 0 <= number < 1 else number
