"""Constants of a given value, whatever their dtype and shape: patterns on the left, templates on the right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.author import compute, refuse, type_of, when
from eqsat.egraph.rule import Compute, Guard, Refusal
from eqsat.egraph.vocabulary import is_exact
from eqsat.relay.dataflow_pattern import ConstantPattern, DFPattern, is_constant
from eqsat.relay.ty import Dim, TensorType


@dataclass(frozen=True)
class Filled:
    """Whether all elements of an array are ``value``, up to the rounding of its dtype.

    ``example`` gives the verifier such an array.
    """

    value: float

    def __call__(self, array: NDArray[Any]) -> bool:
        if array.size == 0 or array.dtype.kind == "b":
            return False
        first = array.item(0)  # decides nearly always, without reading a large array
        if array.dtype.kind in "iu":
            return bool(first == self.value and np.all(array == self.value))
        tolerance = 4 * _rounding(array.dtype) * abs(self.value)
        if abs(first - self.value) > 2 * tolerance:  # twice: the value itself is not rounded here
            return False
        return bool(np.all(np.abs(array - array.dtype.type(self.value)) <= tolerance))

    def example(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        return np.full(shape, self.value).astype(dtype)


@lru_cache
def _rounding(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number."""
    return float(np.spacing(dtype.type(1)))


def filled(value: float, label: str) -> ConstantPattern:
    """A constant all of whose elements are ``value``."""
    return is_constant(label=label, predicate=Filled(value))


zero, one, two, three = filled(0, "zero"), filled(1, "one"), filled(2, "two"), filled(3, "three")
half, minus_one = filled(0.5, "half"), filled(-1, "minus_one")


def scalar(value: float, like: DFPattern) -> Compute:
    """A scalar constant of the dtype of what ``like`` matched."""
    return compute(lambda ty: np.asarray(value).astype(ty.dtype), type_of(like))


_LONGEST = 1 << 20
"""Elements of a vector beyond which it is not made: no layer has as many channels, but a wrong shape may say so."""


def vector(value: float, length: Dim | None, dtype: str) -> NDArray[Any] | Refusal:
    """As many equal numbers as a dimension says."""
    if not isinstance(length, int):
        return refuse("how many numbers that takes is not known")
    if length > _LONGEST:
        return refuse(f"that takes {length} numbers")
    return np.full(length, value, dtype)


def is_float(*types: Any) -> bool:
    """Guard: all are tensors of floating-point numbers."""
    return all(isinstance(ty, TensorType) and ty.dtype.startswith(("float", "bfloat")) for ty in types)


def is_integer(ty: Any) -> bool:
    """Guard: a tensor of integers."""
    return isinstance(ty, TensorType) and ty.dtype.startswith(("int", "uint"))


def is_number(ty: Any) -> bool:
    """Guard: a tensor of integers or floating-point numbers."""
    return is_float(ty) or is_integer(ty)


def is_scalar(ty: Any) -> bool:
    """Guard: one element, whatever the rank."""
    return isinstance(ty, TensorType) and all(dim == 1 for dim in ty.shape)


def same_type(*types: Any) -> bool:
    """Guard: one shape, surely, and one dtype."""
    return isinstance(types[0], TensorType) and is_exact(types[0]) and all(ty == types[0] for ty in types[1:])


def same_floats(*types: Any) -> bool:
    """Guard: floating-point tensors of one type."""
    return is_float(*types) and same_type(*types)


def keeps(root: DFPattern, *parts: DFPattern) -> Guard:
    """``parts`` are numbers of the type of ``root``: nothing broadcasts, and no shape is lost on the way."""
    return when(_same_numbers, type_of(root), *map(type_of, parts))


def keeps_floats(root: DFPattern, *parts: DFPattern) -> Guard:
    """As :func:`keeps`, for floating-point numbers: laws that integers do not obey."""
    return when(same_floats, type_of(root), *map(type_of, parts))


def _same_numbers(*types: Any) -> bool:
    return is_number(types[0]) and same_type(*types)
