"""Sums, differences, products and quotients of constants, which are the same in whatever order they are formed.

In floats ``(a + b) + c`` and ``a + (b + c)`` are two numbers, so that the constants that rules form of ``n`` given ones
are exponentially many. Here a constant is told apart by the rational number that it stands for, and is rounded to its
dtype once. A finite float is a rational number, which is known well enough by its residues modulo a few primes: two
different constants of an e-graph agree in all of them with a probability of about 2 to the power of -93.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray as Array

from eqsat.egraph.vocabulary import Vocabulary
from eqsat.nd import BFLOAT16, NDArray
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Op
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.traits import Trait

PRIMES = np.asarray([2147483647, 2147483629, 2147483587])
"""The largest three below 2**31: a product of two residues fits into 64 bits."""
_MANTISSA, _SHORT_MANTISSA = 53, 24
"""Bits of the elements in double precision, and in 32 bits or fewer."""
_LEAST, _MOST = -1074 - 2 * _MANTISSA, 1025
"""Bounds of the exponents of two by which whole numbers of 53 bits are floats."""


def _powers() -> Array[np.int64]:
    """The powers of two from the least on, in a row for each prime."""
    found = np.asarray([[pow(2, _LEAST, prime)] for prime in PRIMES.tolist()])
    while (count := found.shape[1]) < _MOST - _LEAST:
        factor = np.asarray([[pow(2, count, prime)] for prime in PRIMES.tolist()])
        found = np.hstack([found, found * factor % PRIMES[:, None]])
    return found


_POWERS = _powers()


class _Exact(NamedTuple):
    """A constant as a rational number for each element.

    Attributes:
        residues: The residues of the elements; the first axis is that of the primes, the others are the constant's.
        nearest: The elements in double precision.
    """

    residues: Array[np.int64]
    nearest: Array[np.float64]

    def equals(self, other: _Exact) -> bool:
        return np.array_equal(self.residues, other.residues)

    def broadcastable(self, rank: int) -> Array[np.int64]:
        """The residues of a constant that broadcasts against arrays of that rank."""
        return self.residues.reshape(len(PRIMES), *[1] * (rank - self.nearest.ndim), *self.nearest.shape)


def _exactly(array: Array[Any]) -> _Exact:
    """An array of finite floats."""
    nearest, primes = np.asarray(array, dtype=np.float64), _primes(array.ndim)
    bits = _MANTISSA if array.dtype.itemsize > 4 else _SHORT_MANTISSA
    mantissa, exponent = np.frexp(nearest)
    whole = np.ldexp(mantissa, bits).astype(np.int64)
    if bits == _MANTISSA:
        whole = whole % primes  # so that the product fits
    powers = _POWERS.take(exponent - (bits + _LEAST), axis=1)  # far faster than an index
    return _Exact(whole * powers % primes, nearest)


def _is_exactly(array: Array[Any], exact: _Exact) -> bool:
    """Whether an array of finite floats is a constant. Its first element decides nearly always."""
    if not array.size:
        return True
    mantissa, exponent = math.frexp(array.item(0))
    whole, power = int(math.ldexp(mantissa, _MANTISSA)), exponent - (_MANTISSA + _LEAST)
    residues = exact.residues.reshape(len(PRIMES), -1)[:, 0].tolist()
    first = zip(_POWERS[:, power].tolist(), PRIMES.tolist(), residues, strict=True)
    return all(whole * of % prime == residue for of, prime, residue in first) and _exactly(array).equals(exact)


def _primes(rank: int) -> Array[np.int64]:
    """The primes, as they broadcast against residues of arrays of that rank."""
    return PRIMES.reshape(-1, *[1] * rank)


def _without_vanishing(product: _Exact) -> _Exact:
    """A product whose elements are nearest to 0 only where they are 0."""
    if product.nearest.all():
        return product
    vanishes = (product.nearest == 0) & np.any(product.residues, axis=0)
    least = np.copysign(_least_number(np.dtype(np.float64)), product.nearest)
    return product._replace(nearest=np.where(vanishes, least, product.nearest))


def _rounded(nearest: Array[np.float64], dtype: np.dtype[Any]) -> Array[Any]:
    """Numbers of a dtype near others; none of them is 0 where the other is not: infinity times a scale is no NaN."""
    with np.errstate(over="ignore"):
        rounded = nearest.astype(dtype)
    if rounded.all():
        return rounded
    least = np.copysign(_least_number(dtype), nearest)
    return np.where((rounded == 0) & (nearest != 0), least, rounded).astype(dtype)


@lru_cache
def _least_number(dtype: np.dtype[Any]) -> float:
    """The least number above 0."""
    return float(finfo(dtype).smallest_subnormal)


@lru_cache
def _is_float(dtype: np.dtype[Any]) -> bool:
    return np.issubdtype(dtype, np.floating) or dtype == BFLOAT16


def _inverse(residues: Array[np.int64]) -> Array[np.int64]:
    """The inverses of residues; those of 0 are 0.

    Only the product of all is inverted: the inverse of one of two factors is that of their product times the other one.
    """
    if not residues.size:
        return residues
    vanish = residues == 0
    primes = _primes(1)
    factors = [np.where(vanish, 1, residues).reshape(len(primes), -1)]
    while factors[-1].shape[1] > 1:
        level = factors[-1]
        if level.shape[1] % 2:
            level = factors[-1] = np.concatenate([level, np.ones_like(primes)], axis=1)
        factors.append(level[:, ::2] * level[:, 1::2] % primes)
    last = zip(factors.pop().ravel().tolist(), PRIMES.tolist(), strict=True)
    found = np.asarray([pow(each, -1, prime) for each, prime in last], dtype=np.int64)[:, None]
    for level in reversed(factors):
        half = level.shape[1] // 2
        pairs = level.reshape(len(primes), half, 2)[..., ::-1] * found[:, :half, None] % primes[..., None]
        found = pairs.reshape(level.shape)
    return np.where(vanish, 0, found[:, : vanish[0].size].reshape(vanish.shape))


Modular = Callable[..., Array[np.int64]]

OPERATIONS: dict[str, tuple[Modular, Callable[..., Any]]] = {
    "add": (lambda a, b: a + b, np.add),
    "subtract": (lambda a, b: a - b, np.subtract),
    "multiply": (lambda a, b: a * b, np.multiply),
    "divide": (lambda a, b: a * _inverse(b), np.divide),
    "negative": (lambda a: -a, np.negative),
}
"""Name of an operator -> how it computes residues, up to multiples of the primes, and floats."""


class ExactConstants:
    """The constants of an e-graph as rational numbers, where these are known.

    Args:
        vocabulary: Holds the constants.

    Attributes:
        nearest: The data of constants that were rounded -> their elements in double precision.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._known: dict[int, _Exact] = {}
        self._rounded: set[int] = set()
        self.nearest: dict[NDArray, Array[np.float64]] = {}

    def result(self, op: Op, attrs: Attrs | None, ids: Sequence[int]) -> int | None:
        """The atom of the value of a call of constants; None where plain evaluation is as good or all that there is.

        Args:
            op: The operator.
            attrs: The call's attributes.
            ids: The atoms of the arguments.
        """
        if op.name in OPERATIONS:
            return self._computed(op.name, ids)
        if self._rounded.issuperset(ids) and len(ids) == 1 and op.has(Trait.MOVES):
            return self._moved(op, attrs, ids[0])
        return None

    def _computed(self, name: str, ids: Sequence[int]) -> int | None:
        dtype = self._array(ids[0]).dtype
        exact = [self._exact(index) for index in ids]
        known = [each for each in exact if each is not None]
        if len(known) < len(exact) or (name == "divide" and not np.all(known[1].residues)):
            return None
        modular, operation = OPERATIONS[name]
        with np.errstate(all="ignore"):
            nearest = np.asarray(operation(*[each.nearest for each in known]))
        residues = modular(*[each.broadcastable(nearest.ndim) for each in known]) % _primes(nearest.ndim)
        exactly = _Exact(residues, nearest)
        return self._intern(_without_vanishing(exactly) if name in ("multiply", "divide") else exactly, dtype)

    def _moved(self, op: Op, attrs: Attrs | None, index: int) -> int | None:
        """The elements of a constant elsewhere."""
        of = self._known[index]
        place = np.asarray(evaluate_op(op, attrs, [np.arange(of.nearest.size).reshape(of.nearest.shape)]))
        residues = of.residues.reshape(len(PRIMES), -1)[:, place]
        return self._intern(_Exact(residues, of.nearest.reshape(-1)[place]), self._array(index).dtype)

    def _intern(self, exact: _Exact, dtype: np.dtype[Any]) -> int | None:
        rounded = _rounded(exact.nearest, dtype)
        if not np.isfinite(rounded).all():
            return None
        constant = Constant(rounded)
        if _is_exactly(rounded, exact) or np.all(rounded == 1):
            return self.vocabulary.constant(constant)
        key = ("exact", str(dtype), rounded.shape, exact.residues.tobytes())
        index = self.vocabulary.atom("constant", key, constant)
        self._known.setdefault(index, exact)
        self._rounded.add(index)
        self.nearest[self.vocabulary.atoms[index].value.data] = self._known[index].nearest
        return index

    def _exact(self, index: int) -> _Exact | None:
        """A constant as rational numbers; None where it is no array of finite floats."""
        if index not in self._known:
            array = self._array(index)
            if not _is_float(array.dtype) or not np.isfinite(array).all():
                return None
            self._known[index] = _exactly(array)
        return self._known[index]

    def _array(self, index: int) -> Array[Any]:
        array: Array[Any] = self.vocabulary.atoms[index].value.data.numpy()
        return array
