"""Generated inputs of a model, with sizes and ranges that it accepts and for which its outputs are meaningful."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.errors import ArgumentError, ModelError
from eqsat.files import scratch_folder
from eqsat.onnx.files import Given, load
from eqsat.onnx.imported import constant_initializers
from eqsat.onnx.ranges import Range, ranges
from eqsat.onnx.sessions import reason_of, session
from eqsat.onnx.sizes import demanded_sizes, dim_name, meant_sizes, open_dims
from eqsat.onnx.types import DTYPES

_SIZES = (16, 2, 64, 224, 576)
"""Sizes to try for unknown dimensions: small ones run fast, but sequences of one or two elements hide mistakes."""
_BATCHES = (2, 1)
"""What an unknown dimension of the batch is tried as: states that go in beside the data may be of one batch only."""
_BATCH_AXES = (1, 2)
"""Before which axis unknown dimensions are tried as the batch's: states may have that of layers first."""
_INTEGERS = (257, 2)
"""Upper bounds to try for random integers whose range the graph does not determine."""
_MANY, _SMALL_INPUTS, _SMALL_WEIGHTS = 12, 1 << 11, 1 << 20
"""The batch of small models, unlike other sizes, and how many elements their inputs and weights have at most."""
_ANY_MAGNITUDE = ("waves", "large", "small")
"""Kinds in which scalars, such as thresholds or rates, have any magnitude, and grow from input to input."""
_DECKS, _MOST_ROUNDS = (16, 1 << 20), 64
"""Of how many different integers decks are, and how often one is in an input at most: others come by themselves."""

Array = np.ndarray[Any, Any]


def _waves(random: np.random.Generator, shape: Sequence[int]) -> Array:
    """Smooth along each axis as pictures and sounds are: a few sine waves of random length, and a little noise."""
    found = 0.1 * random.standard_normal(shape)
    for axis, size in enumerate(shape):
        if size > 3:
            steps = np.arange(size).reshape([-1 if each == axis else 1 for each in range(len(shape))])
            across = [1 if each == axis else extent for each, extent in enumerate(shape)]
            for _ in range(3):
                length = np.exp(random.uniform(np.log(3), np.log(max(size, 4)), [1] * len(shape)))
                found = found + np.sin(2 * np.pi * (steps / length + random.random(across)))
    return np.asarray(found)


KINDS: dict[str, Callable[[np.random.Generator, Sequence[int]], Array]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "waves": _waves,
    "unit": lambda random, shape: random.random(shape),
    "large": lambda random, shape: 8 * random.standard_normal(shape),
    "small": lambda random, shape: 0.05 * random.standard_normal(shape),
}
"""How floats are drawn, before they are scaled to the range that the model normalizes its inputs from."""


@dataclass
class Setting:
    """Sizes and ranges that a model runs on.

    Args:
        inputs: what is fed.
        sizes: of dimensions by name, or by input and axis.
        batch, size: what other dimensions are.
        batch_axes: before which axis they are the batch's.
        high: below which integers are whose range the graph does not tell.
        ranges: of the inputs whose range it tells.
        decks: integers of an input that are still to be drawn before any is drawn again: rows of tables, say.
    """

    inputs: Sequence[ir.Value]
    sizes: Mapping[str, int]
    batch: int = 2
    size: int = 16
    batch_axes: int = 1
    high: int = 257
    ranges: Mapping[str, Range] = field(default_factory=dict)
    decks: dict[str, Array] = field(default_factory=dict)

    @property
    def draws(self) -> int:
        """How many inputs tell that the model runs: some integers say which part of it does."""
        return 6 if any(each.values for each in self.ranges.values()) else 1

    def feed(self, random: np.random.Generator, kind: str = "normal") -> dict[str, Array]:
        """An array for each input; equal names of dimensions are equal sizes.

        Of dimensions of unknown size the first ``batch_axes`` are the batch's, the last axis apart.
        """
        dims = dict(self.sizes)
        try:
            feed = {value.name: self._array(value, dims, random, kind) for value in self.inputs}
        except (ValueError, MemoryError) as error:
            raise ModelError(f"cannot generate values for the inputs: {error}") from None
        if kind in _ANY_MAGNITUDE:
            names = [name for name, array in feed.items() if not array.ndim and array.dtype.kind == "f"]
            feed |= dict(zip(names, sorted(feed[name] for name in names), strict=True))
        return feed

    def _array(self, value: ir.Value, dims: dict[str, int], random: np.random.Generator, kind: str) -> Array:
        shape = self._shape(value, dims)
        if value.dtype == ir.DataType.STRING:
            return np.asarray(random.choice(np.array(["", "a", "eqsat"], object), shape), object)
        name = DTYPES.get(value.dtype)
        if name is None:
            raise ModelError(f"cannot generate a value for input {value.name!r} of type {value.dtype}")
        if name == "bool":
            return np.asarray(random.random(shape) < 0.5)
        seen = self.ranges.get(value.name)
        if "int" in name:
            return self._integers(value.name, shape, name, random)
        if not shape and kind in _ANY_MAGNITUDE:
            return np.asarray(np.exp(random.uniform(np.log(1e-2), np.log(1e4))), name)
        drawn = KINDS[kind](random, shape)
        return np.asarray(drawn if seen is None else drawn * seen.scale + seen.offset, name)

    def _integers(self, input_name: str, shape: Sequence[int], dtype: str, random: np.random.Generator) -> Array:
        seen, limits = self.ranges.get(input_name, Range()), np.iinfo(dtype)
        if seen.values:
            return np.asarray(random.choice(np.array(seen.values, dtype), shape), dtype)
        low, high = 0, min(self.high if seen.high is None else seen.high, int(limits.max))
        if limits.bits == 8 and self.high > 2:
            low, high = int(limits.min), int(limits.max) + 1
        count = int(np.prod(shape))
        if not _DECKS[0] <= high - low <= _DECKS[1] or count > _MOST_ROUNDS * (high - low):
            return np.asarray(random.integers(low, high, shape), dtype)
        deck = self.decks.get(input_name, np.empty(0, np.int64))
        rounds = [random.permutation(high - low) for _ in range(-(-(count - len(deck)) // (high - low)))]
        deck = np.concatenate([deck, *rounds])
        self.decks[input_name] = deck[count:]
        return np.asarray(deck[:count].reshape(shape) + low, dtype)

    def _shape(self, value: ir.Value, dims: dict[str, int]) -> list[int]:
        if not isinstance(value.type, ir.TensorType) or value.shape is None:
            raise ModelError(f"cannot generate a value for input {value.name!r}: it is not a tensor of known rank")
        shape = []
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, int) and dim >= 0:  # some models say -1 for unknown
                shape.append(dim)
            else:
                unknown = self.batch if axis < min(self.batch_axes, max(len(value.shape) - 1, 1)) else self.size
                shape.append(dims.setdefault(dim_name(value, axis), unknown))
        return shape


def types_told(feed: Mapping[str, Any]) -> dict[str, str]:
    """Return the type and shape of each input value, as text."""
    return {name: f"{np.asarray(array).dtype}{list(np.shape(array))}" for name, array in feed.items()}


def fed_inputs(model: ir.Model) -> list[ir.Value]:
    """Return the inputs that a caller provides, which are not constants."""
    constants = constant_initializers(model.graph, model.ir_version)
    return [value for value in model.graph.inputs if value.name not in constants]


def settings(model: ir.Model, dims: Mapping[str, int] | None = None) -> Iterator[Setting]:
    """Sizes and ranges that a model may run on, likely ones first.

    Args:
        model: the model.
        dims: The requested sizes, by name of the dimension, or of input and axis as in ``x.1``.
    """
    inputs, asked = fed_inputs(model), dict(dims or {})
    check_asked(inputs, asked)
    demanded, meant, told = demanded_sizes(model), meant_sizes(model), ranges(model)
    several = {name: size for name, size in demanded.items() if size > 1}  # one element may only be what fits, too
    likely = [{**meant, **several}, {**meant, **demanded}, demanded, meant, {}]
    known = [dict(each) for each in dict.fromkeys(tuple({**sizes, **asked}.items()) for sizes in likely)]
    names = [dim.value for value in inputs for dim in (value.shape or ())[1:] if isinstance(dim, ir.SymbolicDim)]
    totals = [None, *dict.fromkeys(name for name in names if name and name not in asked)]
    whole = {value.name for value in inputs if value.dtype is not None and value.dtype.is_integer()}
    seen = [told, {name: each for name, each in told.items() if name not in whole}] if whole & {*told} else [told]
    integers = _INTEGERS if whole else _INTEGERS[:1]
    # sizes in the outer loop: what a model does not run on may take all memory before it fails
    tried = product(seen, _SIZES, known, _BATCH_AXES, _BATCHES, totals, integers)
    for ranged, size, sizes, axes, batch, total, high in tried:
        together = sizes if total is None else {**sizes, total: 2 * size}  # past and new tokens together, say
        yield Setting(inputs, together, batch, size, axes, high, ranged)


def check_asked(inputs: Sequence[ir.Value], asked: Mapping[str, int]) -> None:
    """Raise ArgumentError if sizes are given for dimensions that no input has, or that are fixed."""
    names = dict.fromkeys(name for value in inputs for name, _ in open_dims(value))
    for name in asked:
        if name not in names:
            told = f"the dynamic ones are {', '.join(names)}" if names else "all sizes are fixed"
            raise ArgumentError(f"no input has a dynamic dimension {name!r}: {told}")


def runnable_setting(
    model: ir.Model, session: Any, random: np.random.Generator, dims: Mapping[str, int] | None = None
) -> Setting:
    """The first setting on which a model runs.

    Raises:
        ArgumentError: ``dims`` names what is no open dimension.
        ModelError: There is no such setting.
    """
    reason: Exception | None = None
    for setting in settings(model, dims):
        feeds = [setting.feed(random) for _ in range(setting.draws)]
        try:
            for feed in feeds:
                session.run(None, feed)
        except Exception as error:  # whatever the runtime runs into
            reason = reason or error
        else:
            return _larger(model, session, setting, feeds[0], random)
    told = reason_of(reason or ModelError())
    raise ModelError(
        f"the model does not run on random inputs: {told}; give the sizes of dimensions (--dim NAME=SIZE), or "
        "inputs (--inputs FILE.npz)"
    )


def _larger(
    model: ir.Model, session: Any, setting: Setting, feed: Mapping[str, Array], random: np.random.Generator
) -> Setting:
    """The same setting with a larger batch if the model is small and runs on it."""
    weights = sum(
        value.const_value.size for value in model.graph.initializers.values() if value.const_value is not None
    )
    inputs = sum(array.size for array in feed.values())
    if setting.batch < 2 or inputs > _SMALL_INPUTS or weights > _SMALL_WEIGHTS:
        return setting
    many = replace(setting, batch=_MANY, decks={})
    try:
        session.run(None, many.feed(random))
    except Exception:  # it may be of two by other inputs
        return setting
    return many


def runnable_feed(model: Given, seed: int = 0, dims: Mapping[str, int] | None = None) -> dict[str, Array]:
    """Random inputs on which a model runs in onnxruntime, of the first setting that it accepts.

    Raises:
        ArgumentError: ``dims`` names what is no open dimension.
        ModelError: onnxruntime is missing, or the model cannot be read, does not load, or runs on no such setting.
    """
    with scratch_folder() as folder:
        loaded = session(model, folder / "model.onnx", "the model as it was")
        setting = runnable_setting(load(model), loaded, np.random.default_rng(seed), dims)
    return setting.feed(np.random.default_rng(seed))


def runnable_inputs(model: ir.Model, session: Any, random: np.random.Generator) -> Iterator[dict[str, Array]]:
    """Random inputs on which a model runs, of the first setting that it accepts."""
    setting = runnable_setting(model, session, random)
    while True:
        yield setting.feed(random)
