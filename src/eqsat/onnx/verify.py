"""Do two models compute the same? Both run in onnxruntime on random inputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.errors import ModelError
from eqsat.onnx.files import Given, load, save
from eqsat.onnx.imported import constant_initializers
from eqsat.onnx.sizes import demanded_sizes
from eqsat.onnx.types import DTYPES

_SIZES = (2, 16, 64, 224, 576)
"""What unknown dimensions are tried as, smallest first: a network may not fit small inputs."""
_BATCHES = (2, 1)
"""What an unknown dimension of the batch is tried as: states that go in beside the data may be of one batch only."""
_BATCH_AXES = (1, 2)
"""Before which axis unknown dimensions are tried as the batch's: states may have that of layers first."""
_INTEGERS = (257, 2)
"""Bounds below which random integers are tried: they may be bytes, or indices into something small."""


@dataclass
class Difference:
    """How far one output differs at most over all runs.

    Args:
        output: its name.
        absolute: largest absolute difference; infinite where shape, dtype or NaNs differ.
        relative: largest absolute difference over the largest magnitude in the same output of the same run.
    """

    output: str
    absolute: float = 0.0
    relative: float = 0.0


def verify(before: Given, after: Given, runs: int = 3, seed: int = 0) -> list[Difference]:
    """The differences of two models' outputs, one for each output, on random inputs.

    Args:
        before: a model in any form that :func:`eqsat.onnx.load` takes; it says what inputs look like.
        after: a model of the same inputs and outputs.
        runs: how many random inputs.
        seed: of the random numbers.

    Raises:
        ModelError: onnxruntime is missing, or a model cannot be read or does not run in it.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        source = load(before)
        first = _session(before, Path(folder) / "before.onnx", "the model as it was")
        differences = [Difference(output.name) for output in first.get_outputs()]
        feeds = runnable_inputs(source, first, np.random.default_rng(seed))
        asked = [next(feeds) for _ in range(runs)]
        del first, feeds  # one session at a time: each holds all weights
        second = _session(after, Path(folder) / "after.onnx", "the optimized model")
        given = {value.name for value in (*second.get_inputs(), *second.get_overridable_initializers())}
        for feed, expected in asked:
            try:
                found = second.run(None, {name: array for name, array in feed.items() if name in given})
            except Exception as error:
                raise ModelError(f"the optimized model does not run: {_reason(error)}") from None
            for difference, a, b in zip(differences, expected, found, strict=True):
                absolute, relative = compare(a, b)
                difference.absolute = max(difference.absolute, absolute)
                difference.relative = max(difference.relative, relative)
    return differences


def differing(differences: Iterable[Difference], tolerance: float) -> list[Difference]:
    """The differences that are more than ``tolerance``, relative to the output's largest value."""
    return [difference for difference in differences if not difference.relative <= tolerance]


def _session(model: Given, path: Path, what: str) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ModelError("verification needs onnxruntime: pip install onnxruntime") from None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
    else:
        save(model, path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{what} does not load in onnxruntime: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


# ---- random inputs


def runnable_inputs(model: ir.Model, session: Any, random: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Random inputs on which the model runs, with its outputs; of the first sizes and ranges that it accepts."""
    constants = constant_initializers(model.graph, model.ir_version)
    inputs = [value for value in model.graph.inputs if value.name not in constants]
    demanded, reason = demanded_sizes(model), None
    dims = [dim.value for value in inputs for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)]
    known, totals = [demanded, {}] if demanded else [{}], [None, *dict.fromkeys(filter(None, dims))]
    # sizes in the outer loop: what a model does not run on may take all memory before it fails
    for size, asked, axes, batch, total, high in product(_SIZES, known, _BATCH_AXES, _BATCHES, totals, _INTEGERS):
        sizes = asked if total is None else {**asked, total: 2 * size}  # past and new tokens together, say
        while True:
            feed = random_inputs(inputs, batch, size, high, random, axes, sizes)
            try:
                found = session.run(None, feed)
            except Exception as error:
                reason = reason or error
                break
            yield feed, found
    raise ModelError(f"the model does not run on random inputs: {_reason(reason or ModelError())}")


def random_inputs(
    inputs: Sequence[ir.Value],
    batch: int,
    size: int,
    high: int,
    random: np.random.Generator,
    batch_axes: int = 1,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """An array for each input: floats normal, integers from 0 below ``high``.

    Of dimensions of unknown size the first ``batch_axes`` are ``batch``, the last axis apart, others are ``size``;
    equal names are equal sizes either way. Those that ``sizes`` names have these: without a name, of input and axis.
    """
    dims = dict(sizes or {})

    def extent(axis: int, rank: int) -> int:
        return batch if axis < min(batch_axes, max(rank - 1, 1)) else size

    try:
        return {value.name: _random_array(value, dims, extent, high, random) for value in inputs}
    except (ValueError, MemoryError) as error:
        raise ModelError(f"cannot make up values for the inputs: {error}") from None


def _random_array(
    value: ir.Value,
    dims: dict[str, int],
    unknown: Callable[[int, int], int],
    high: int,
    random: np.random.Generator,
) -> Any:
    if not isinstance(value.type, ir.TensorType) or value.shape is None:
        raise ModelError(f"cannot make up a value for input {value.name!r}: it is no tensor of known rank")
    shape = []
    for axis, dim in enumerate(value.shape):
        if isinstance(dim, int) and dim >= 0:  # some models say -1 for unknown
            shape.append(dim)
        else:
            name = (dim.value if isinstance(dim, ir.SymbolicDim) else None) or f"{value.name}.{axis}"
            shape.append(dims.setdefault(name, unknown(axis, len(value.shape))))
    if value.dtype == ir.DataType.STRING:
        return np.asarray(random.choice(np.array(["", "a", "eqsat"], object), shape), object)
    name = DTYPES.get(value.dtype)
    if name is None:
        raise ModelError(f"cannot make up a value for input {value.name!r} of type {value.dtype}")
    if name == "bool":
        return np.asarray(random.random(shape) < 0.5)
    if "int" in name:
        return np.asarray(random.integers(0, min(high, np.iinfo(name).max), shape), name)
    return np.asarray(random.standard_normal(shape), name)


# ---- comparison


def compare(a: Any, b: Any) -> tuple[float, float]:
    """The largest absolute and relative difference of two outputs of onnxruntime."""
    if isinstance(a, list) or isinstance(b, list):
        if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
            return np.inf, np.inf
        pairs = [compare(x, y) for x, y in zip(a, b, strict=True)]
        return max((x for x, _ in pairs), default=0.0), max((y for _, y in pairs), default=0.0)
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return (0.0, 0.0) if a == b else (np.inf, np.inf)
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf, np.inf
    if a.dtype.kind in "OUS":
        return (0.0, 0.0) if np.array_equal(a, b) else (np.inf, np.inf)
    least = float(np.finfo(a.dtype).eps) * _CERTAIN if a.dtype.kind == "f" else 0.0
    return _numeric_difference(a.astype(np.float64), b.astype(np.float64), least)


_CERTAIN = 1000
"""How large an output must be for its digits to count, in roundings of 1: sigmoids far from the middle leave less."""


def _numeric_difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], least: float) -> tuple[float, float]:
    """As :func:`compare`; outputs that are smaller than ``least`` are compared as if they were as large."""
    differing = (a != b) & ~(np.isnan(a) & np.isnan(b))
    if not differing.any():
        return 0.0, 0.0
    if not np.isfinite(a[differing]).all() or not np.isfinite(b[differing]).all():
        return np.inf, np.inf
    absolute = float(np.abs(a - b)[differing].max())
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=least))
    return absolute, absolute / scale if scale else np.inf
