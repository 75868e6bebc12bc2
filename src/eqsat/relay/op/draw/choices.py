"""The random choices that go into one drawn graph."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eqsat.errors import TypeCheckError
from eqsat.relay.expr import Constant
from eqsat.relay.ty import TensorType, TupleType, is_static

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int32", "int64", "int8", "uint8")
BYTES = ("int8", "uint8")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 300.0, -300.0)
"""Floating-point values at which laws of the real numbers tend to fail."""

Known: TypeAlias = list[Any]
"""What is known of each argument: its type, None for nothing, or for a tuple pattern a list of these."""
Drawn: TypeAlias = tuple[list[Any], dict[str, Any]]
"""For each argument its type, or the constant that it has to be to suit the others; and the attributes."""


class Draw:
    """The random choices of one graph: a few lengths, and a rank and a dtype that most of its tensors share.

    Args:
        rng: the source of randomness.
        finite: whether variables hold finite numbers only.

    Attributes:
        rank: the number of axes that most tensors have.
        dtype: the dtype that most tensors have.
        attrs: for each operator that was drawn, the attributes that all its calls share, None where they share none.
    """

    def __init__(self, rng: random.Random, finite: bool = False):
        self.rng = rng
        self.dims = rng.choices((1, 2, 3, 4, 5), k=3)
        if rng.random() < 0.1:
            self.dims[0] = 0
        self.rank = rng.choices((0, 1, 2, 3, 4), (1, 3, 6, 5, 5))[0]
        self.dtype = rng.choices((*FLOATS, *INTEGERS, "bool"), (10, 4, 2, 3, 2, 2, 1, 1))[0]
        self.special = not finite and rng.random() < 0.3
        self.positive = rng.random() < 0.3
        self.attrs: dict[str, dict[str, Any] | None] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def dim(self) -> int:
        """The length of an axis."""
        return self.rng.choice(self.dims)

    def axis(self, rank: int) -> int:
        """One of ``rank`` axes, counted from the front or the back."""
        return self.rng.randint(-rank, rank - 1) if rank else 0

    def axes(self, rank: int) -> tuple[int, ...]:
        """One or two of ``rank`` axes in ascending order, each counted from the front or the back."""
        chosen = sorted(self.rng.sample(range(rank), self.rng.randint(min(1, rank), min(rank, 2))))
        return tuple(axis - rank if self.chance(0.3) else axis for axis in chosen)

    def tensor(self, rank: int | None = None, dtype: str | None = None) -> TensorType:
        """A tensor type, which mostly has the common rank and dtype."""
        if rank is None:
            rank = self.rank if self.chance(0.85) else self.rng.randrange(5)
        return TensorType([self.dim() for _ in range(rank)], dtype or self.dtype)

    def tensor_like(self, known: Any, rank: int | None = None) -> TensorType:
        """The type of an argument: the known one, or any.

        Raises:
            TypeCheckError: what is known is not a tensor type without unknown dimensions.
        """
        if known is None:
            return self.tensor(rank)
        if not is_static(known):
            raise TypeCheckError(f"no call is drawn over {known}")
        return known

    def against(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts with ``shape``: the same, a scalar, one of its axes, or any mixture."""
        way = self.rng.random()
        if way < 0.35 or not shape:
            return tuple(shape) if way < 0.9 or len(shape) > 3 else (self.dim(), *shape)
        if way < 0.5:
            return ()
        kept = self.rng.randrange(len(shape))
        if way < 0.75:
            some = [dim if axis == kept else 1 for axis, dim in enumerate(shape)]
        else:
            some = [dim if self.chance(0.6) else 1 for dim in shape]
            kept = 0
        return tuple(some[self.rng.randint(0, kept) :])

    def array(self, ty: TensorType, special: bool = False) -> NDArray[Any]:
        """Values of a type: small numbers, and with ``special`` NaNs, infinities, zeros and extremes among them."""
        shape, dtype = ty.concrete_shape, np.dtype(ty.dtype)
        source = np.random.default_rng(self.rng.getrandbits(63))
        if dtype.kind == "b":
            return source.random(shape) < 0.5
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            low, high = (info.min, info.max) if special else (max(info.min, -4), 5)
            return np.asarray(source.integers(low, high, shape, endpoint=True), dtype)
        values = np.asarray(source.normal(0, 2, shape))
        if self.positive:
            values = np.abs(values)
        if special:
            some = source.random(shape) < 0.2
            values = np.where(some, source.choice(SPECIAL, shape), values)
        return np.asarray(values, dtype)

    def constant(self, shape: Sequence[int], dtype: str) -> Constant:
        """A constant of small numbers."""
        return Constant(self.array(TensorType(shape, dtype)))


def first_tensor(known: Known) -> TensorType | None:
    """The first tensor type that is known."""
    return next((ty for ty in known if isinstance(ty, TensorType)), None)


def fields_of(known: Any, counts: Sequence[int], draw: Draw) -> Known:
    """What is known of the fields of a tuple, of which there are as many as one of ``counts`` if nothing is known."""
    if isinstance(known, TupleType):
        return list(known.fields)
    return known if isinstance(known, list) else [None] * draw.rng.choice(counts)
