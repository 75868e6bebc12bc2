"""Random numbers: each operator takes a key and gives numbers that the key determines, and a key for the next call.

Both are in one tuple, and the functions here return the call that has it, as Relay's do: ``TupleWrapper(call, 2)``
takes it apart. Calls of equal arguments are equal: an operator holds no state.

A key is ten words of 64 bits: four words of a cipher's key, the path of splits that led here (two words), a counter
(two), and the bit of the path that the next split sets (two). The numbers are the words of path and counter, one block
of four for each number of the counter, after 20 rounds of the mixing function of Threefry (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.expr import Expr, const
from eqsat.relay.op.denotation import RANDOM
from eqsat.relay.op.op import Builder, Field, OpPattern, define, tensor_of
from eqsat.relay.op.types import ranked, tensor, unify
from eqsat.relay.ty import TensorType, TupleType, Type

KEY = TensorType((10,), "uint64")

_PARITY = np.uint64(0x1BD11BDAA9FC1A22)
_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_LEFTMOST = 1 << 63


def _mixed(key: Any, words: Any) -> Any:
    """The words (blocks, 4) after 20 rounds under a key of four words."""
    schedule = [*key, np.bitwise_xor.reduce(key) ^ _PARITY]
    a, b, c, d = np.asarray(words, np.uint64).T.copy()
    for group in range(5):
        a, b, c, d = (word + schedule[(group + i) % 5] for i, word in enumerate((a, b, c, d)))
        d = d + np.uint64(group)
        for first, second in _ROTATIONS[4 * group % 8 : 4 * group % 8 + 4]:
            a, c = a + b, c + d
            b, d = a ^ _rotated(b, first), c ^ _rotated(d, second)
            b, d = d, b
    return np.stack([a, b, c, d], axis=1)


def _rotated(words: Any, bits: int) -> Any:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _words(*values: int) -> Any:
    return np.array(values, np.uint64)


def _next_bit(high: int, low: int) -> tuple[int, int]:
    """The bit of the path behind this one; both are 128 bits in two words."""
    return divmod((high << 64 | low) >> 1, 1 << 64)


def _renewed(key: Any, high: int, low: int) -> Any:
    """A key for which another is given up: without path and counter, but for the bit that is set next."""
    return np.concatenate([key, _words(0, 0, 0, 0, high, low)])


def _generate(key: Any, count: int) -> tuple[Any, Any]:
    """The next key and ``count`` random words."""
    key = key.astype(np.uint64)
    bit = (int(key[8]), int(key[9]))
    if int(key[7]) >= (1 << 64) - 1 - count:  # no room in the counter
        if bit == (0, 0):  # nor in the path
            (fresh,) = _mixed(key[:4], [[(1 << 64) - 1] * 4])
            key = _renewed(fresh, _LEFTMOST, 0)
        else:
            path = key[4:6] | key[8:10]
            key = np.concatenate([key[:4], path, _words(0, 0, *_next_bit(*bit))])
    steps = np.arange(-(-count // 4), dtype=np.uint64)
    numbers = _mixed(key[:4], key[4:8] + steps[:, None]).reshape(-1)[:count]
    following = key.copy()
    following[6:8] = _words(0, int(key[7]) + count)
    return following, numbers


def _split(attrs: Any, key: Any) -> Any:
    key = key.astype(np.uint64)
    bit = (int(key[8]), int(key[9]))
    if bit == (0, 0):
        (fresh,) = _mixed(key[:4], key[None, 4:8])
        left = _renewed(fresh, _LEFTMOST >> 1, 0)
        right = left.copy()
        right[4] = _LEFTMOST
        return left, right
    left = np.concatenate([key[:8], _words(*_next_bit(*bit))])
    right = left.copy()
    right[4:6] |= key[8:10]
    return left, right


def _uniform(key: Any, shape: Sequence[int], dtype: str) -> tuple[Any, Any]:
    """The next key and numbers from [0, 1)."""
    bits = 52 if dtype == "float64" else 23
    following, words = _generate(key, prod(shape))
    numbers = (words >> np.uint64(64 - bits)).astype(dtype) / np.array(1 << bits, dtype)
    return following, numbers.reshape(shape)


# ---- operators


def _check_key(ty: Type) -> None:
    found = ranked(ty, 1, "key")
    unify(found.shape[0], 10, "the words of a key:")
    if found.dtype != "uint64":
        raise TypeCheckError(f"key must be uint64, not {found.dtype}; random.threefry_key makes one")


def _keyed(result: Callable[[Any, Sequence[Type]], Type]) -> Callable[[Any, Sequence[Type]], Type]:
    """The relation of an operator that takes a key first and gives a key and a ``result``."""

    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        _check_key(args[0])
        return TupleType([KEY, result(attrs, args)])

    return infer


def threefry_key(seed: int) -> Expr:
    """A constant key from a number of at most 256 bits."""
    words = np.frombuffer(seed.to_bytes(32, sys.byteorder), np.uint64)
    return const(_renewed(words, _LEFTMOST, 0))


def _numbers(attrs: Any, key: Any) -> Any:
    following, words = _generate(key, prod(attrs.out_shape))
    return following, words.reshape(attrs.out_shape)


_threefry_generate = define(
    "random.threefry_generate",
    "key",
    Field("out_shape", "ints"),
    infer=_keyed(lambda attrs, args: TensorType(attrs.out_shape, "uint64")),
    kernel=_numbers,
    kind=OpPattern.OPAQUE,
)


def threefry_generate(key: Any, shape: Sequence[int]) -> Any:
    """The next key and random words (uint64) of a shape."""
    return _threefry_generate(key, shape)


threefry_split = define(
    "random.threefry_split",
    "key",
    infer=_keyed(lambda attrs, args: KEY),
    kernel=_split,
    kind=OpPattern.OPAQUE,
)
"""Two keys that give different numbers."""


def _drawn_type(attrs: Any, args: Sequence[Type]) -> Type:
    if attrs.out_dtype not in ("float32", "float64"):
        raise TypeCheckError(f"random numbers are float32 or float64, not {attrs.out_dtype}")
    for parameter in args[1:]:
        if ranked(parameter, 0, "a parameter of the distribution").dtype != attrs.out_dtype:
            raise TypeCheckError(f"the parameters of the distribution must be {attrs.out_dtype} as the result is")
    return TensorType(attrs.out_shape, attrs.out_dtype)


def _distribution(name: str, parameters: str, kernel: Callable[..., Any]) -> Builder:
    return define(
        f"random.{name}",
        f"key {parameters}",
        Field("out_shape", "ints"),
        Field("out_dtype", "dtype"),
        infer=_keyed(_drawn_type),
        kernel=kernel,
        kind=OpPattern.OPAQUE,
    )


def _between(attrs: Any, key: Any, low: Any, high: Any) -> Any:
    following, numbers = _uniform(key, attrs.out_shape, attrs.out_dtype)
    return following, numbers * (high - low) + low


def _gaussian(attrs: Any, key: Any, mean: Any, scale: Any) -> Any:
    """By the transform of Box and Muller: each number from two uniform ones."""
    following, numbers = _uniform(key, (2, *attrs.out_shape), attrs.out_dtype)
    radius = np.sqrt(-2 * np.log(1 - numbers[0]))
    numbers = radius * np.sin(numbers.dtype.type(2 * np.pi) * numbers[1])
    return following, (numbers * scale + mean).astype(attrs.out_dtype)


_uniform_builder = _distribution("uniform", "low high", _between)
_normal_builder = _distribution("normal", "mean scale", _gaussian)


def uniform(key: Any, shape: Sequence[int], dtype: str = "float32", low: Any = 0.0, high: Any = 1.0) -> Any:
    """The next key and numbers of equal probability from [low, high)."""
    return _uniform_builder(key, tensor_of(low, dtype), tensor_of(high, dtype), shape, dtype)


def normal(key: Any, shape: Sequence[int], dtype: str = "float32", mean: Any = 0.0, scale: Any = 1.0) -> Any:
    """The next key and numbers of a normal distribution."""
    return _normal_builder(key, tensor_of(mean, dtype), tensor_of(scale, dtype), shape, dtype)


def _choices_type(attrs: Any, args: Sequence[Type]) -> Type:
    weights = tensor(args[1])
    if not weights.shape:
        raise TypeCheckError("probs must have at least one dimension")
    return TensorType((*weights.shape[:-1], attrs.num_samples), "int32")


def _choices(attrs: Any, key: Any, weights: Any) -> Any:
    """Places of the first cumulated probability above a uniform number."""
    weights = np.maximum(weights.astype(np.float32), 0)
    bounds = np.cumsum(weights / weights.sum(axis=-1, keepdims=True), axis=-1, dtype=np.float32)
    following, numbers = _uniform(key, (*weights.shape[:-1], attrs.num_samples), "float32")
    above = bounds[..., None] > numbers[..., None, :]
    return following, np.argmax(above, axis=-2).astype(np.int32)


multinomial = define(
    "random.multinomial",
    "key probs",
    Field("num_samples", "int"),
    infer=_keyed(_choices_type),
    kernel=_choices,
    denotation=RANDOM,
    kind=OpPattern.OPAQUE,
)
"""The next key and indices, each with the probability that the last dimension of ``probs`` has there, up to a factor.

Negative numbers in ``probs`` count as 0.
"""

__all__ = [
    "multinomial", "normal", "threefry_generate", "threefry_key", "threefry_split", "uniform",
]  # fmt: skip
