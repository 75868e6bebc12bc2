"""Inputs on which graphs are compared: random ones of several sizes, zeros, ones, and integers at bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Var
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType, Type

Sample = dict[Var, Any]

_FIRST_SIZE = 3
"""The size of the first dynamic dimension; the others have the next sizes."""

_Drawn = Callable[[np.random.Generator, Sequence[int]], Any]

_FLOATS: Sequence[_Drawn] = (
    lambda random, shape: random.standard_normal(shape),
    lambda random, shape: random.random(shape) + 0.1,
    lambda random, shape: 30 * random.standard_normal(shape),
    lambda random, shape: np.zeros(shape),
    lambda random, shape: np.ones(shape),
    lambda random, shape: -np.abs(random.standard_normal(shape)),
    lambda random, shape: 0.01 * random.standard_normal(shape),
)
_INTEGERS = (2, 5, 2, 64, 1, 3, 9)
"""Upper bounds of integers, one for each sample; indices have to be small."""


def samples(params: Sequence[Var], types: Mapping[Any, Type], seed: int = 0) -> Iterator[Sample]:
    """Yield inputs for some variables, the most likely to succeed first."""
    random = np.random.default_rng(seed)
    sizes: dict[str, int] = {}
    for draw, high in zip(_FLOATS, _INTEGERS, strict=True):
        yield {param: _value(types[param], sizes, random, draw, high) for param in params}


def _value(ty: Type, sizes: dict[str, int], random: np.random.Generator, draw: _Drawn, high: int) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_value(each, sizes, random, draw, high) for each in ty.fields)
    if not isinstance(ty, TensorType):
        return None
    shape = [_size(dim, sizes) for dim in ty.shape]
    if ty.dtype == "bool":
        return np.asarray(random.random(shape) < 0.5)
    kind = np.dtype(ty.dtype).kind if ty.dtype != "bfloat16" else "f"
    if kind in "iu":
        low = -high if kind == "i" and high > 8 else 0
        return np.asarray(random.integers(low, high, shape)).astype(ty.dtype)
    return np.asarray(draw(random, shape)).astype("float32" if ty.dtype == "bfloat16" else ty.dtype)


def _size(dim: Any, sizes: dict[str, int]) -> int:
    if not isinstance(dim, AnyDim):
        return int(dim)
    return sizes.setdefault(str(dim.name), _FIRST_SIZE + len(sizes))


def given_samples(params: Sequence[Var], inputs: Sequence[Mapping[Any, Any]]) -> list[Sample]:
    """Inputs that a caller gave, by variable or by its name.

    Raises:
        ArgumentError: A variable has no value, or a name stands for none.
    """
    names = {param.name_hint: param for param in params}
    found = []
    for feed in inputs:
        sample: Sample = {}
        for key, value in feed.items():
            param = names.get(key) if isinstance(key, str) else key
            if param is None or param not in params:
                raise ArgumentError(f"inputs: there is no variable {key!r}; the variables are {', '.join(names)}")
            sample[param] = np.asarray(value)
        missing = [param.name_hint for param in params if param not in sample]
        if missing:
            raise ArgumentError(f"inputs: there is no value for variable {missing[0]!r}")
        found.append(sample)
    return found
