"""Comparison of two models by running them in onnxruntime on several kinds of inputs, also with injected mistakes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.collector import collect
from eqsat.errors import ArgumentError, ModelError
from eqsat.extraction.costs import figure
from eqsat.files import scratch_folder
from eqsat.onnx.feeds import KINDS, fed_inputs, runnable_setting, types_told
from eqsat.onnx.files import Given, load, weight_bytes
from eqsat.onnx.graphs import attributes_of, captured_values, nodes_of
from eqsat.onnx.ranges import MOVES
from eqsat.onnx.sensitivity import Probe, rounded, types_of
from eqsat.onnx.sessions import run_session, session

Array = np.ndarray[Any, Any]

LARGEST_TOLERANCE = 1e-3
"""Largest relative difference that is attributed to rounding without an observed effect of that size."""
_ROUNDINGS = 8
"""Allowed difference as a multiple of the effect of rounding weights and inputs, because other nodes round too."""
_LEAST_ROUNDINGS = 16
"""Smallest allowed difference, in roundings of the output's largest value."""
_SPEECHLESS = 0.1
"""Relative effect of rounding beyond which the comparison of an output proves nothing."""
_JITTERS = 2
_FEW = 3
"""Number of mistakes of which some should be noticed; a single one may have no effect on the outputs."""
_FLOATS = {ir.DataType.FLOAT: "f4", ir.DataType.DOUBLE: "f8", ir.DataType.FLOAT16: "f2", ir.DataType.BFLOAT16: "f2"}
_STEPS = frozenset(("QuantizeLinear", "DynamicQuantizeLinear", "Round", "Ceil", "Floor", "ArgMax", "ArgMin", "TopK"))
"""Operators with discontinuous results: the effect of rounding may be visible only for some inputs."""
_CURVES = frozenset(("Sigmoid", "Tanh", "Erf"))
"""Operators that kernels approximate by polynomials whose absolute error is the same even for small results."""
_OF_SHAPE = frozenset(("Shape", "Size"))


@dataclass
class Difference:
    """The largest difference of one output over all runs.

    Args:
        output: The name of the output.
        absolute: The largest absolute difference of an element; infinite if the shapes, dtypes or positions of NaNs
            differ.
        relative: The largest absolute difference divided by the largest magnitude of the output in the same run, or in
            the first run if that is larger: small inputs do not make intermediate rounding errors smaller.
        excess: The largest relative difference as a multiple of the difference that rounding explains in the same run.
        silent: Why the comparison of this output proves nothing; empty if it proves something.
    """

    output: str
    absolute: float = 0.0
    relative: float = 0.0
    excess: float = field(default=0.0, compare=False)
    silent: str = field(default="", compare=False)


@dataclass
class Sensitivity:
    """How many injected mistakes a comparison notices.

    Args:
        tried: The number of weights that were changed, one at a time, each in another region of the model.
        unnoticed: The names of the changed weights that made no output differ.
        problem: Why no weights, or not all, were tried; empty if all were.
    """

    tried: int = 0
    unnoticed: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def noticed(self) -> int:
        """The number of mistakes that made an output differ."""
        return self.tried - len(self.unnoticed)


class Verified(list[Difference]):
    """The differences of the outputs of two models, one for each output, and how they were measured.

    Attributes:
        inputs: Name of each input -> its type and shape, as text.
        kinds: Kind of input (how floats were drawn) -> number of inputs of this kind.
        seed: The seed of the random numbers.
        sensitivity: How many mistakes the comparison notices.
        seconds, most_seconds: The time of the comparison, and the time limit of its optional part, in seconds.
    """

    def __init__(self, differences: Iterable[Difference] = ()):
        super().__init__(differences)
        self.inputs: dict[str, str] = {}
        self.kinds: dict[str, int] = {}
        self.seed = 0
        self.most_seconds = 0.0
        self.sensitivity = Sensitivity()
        self.seconds = 0.0

    @property
    def silent(self) -> dict[str, str]:
        """Output -> why its comparison proves nothing; the empty name stands for all outputs together."""
        found = {each.output: each.silent for each in self if each.silent}
        mistakes = self.sensitivity
        if mistakes.tried >= _FEW and not mistakes.noticed and len(found) < len(self):
            found[""] = f"none of {mistakes.tried} wrong weights was noticed"
        return found

    def __repr__(self) -> str:
        worst = max((each.relative for each in self), default=0.0)
        told = f"{len(self)} outputs, largest relative difference {figure(worst, 3)}"
        return f"<Verified {told}, {self.sensitivity.noticed} of {self.sensitivity.tried} mistakes noticed>"


def verify(
    before: Given,
    after: Given,
    runs: int = 3,
    seed: int = 0,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: Sequence[Mapping[str, Array]] = (),
    mistakes: int = 24,
    seconds: float = 10.0,
) -> Verified:
    """Run two models on the same inputs and return the differences of their outputs, one for each output.

    Args:
        before: A model in any form that :func:`eqsat.onnx.load` takes; inputs are generated for it.
        after: A model with the same inputs and outputs.
        runs: The number of random inputs of each kind.
        seed: The seed of the random numbers.
        dims: The sizes of dynamic dimensions, by name, or by input and axis as in ``x.1``. Other sizes are generated.
        inputs: The inputs to use instead of random ones; each is a mapping from input names to arrays.
        mistakes: The number of regions of ``after`` in each of which one weight is changed, to measure whether the
            comparison notices mistakes.
        seconds: The time after which no more mistakes are tried, and only random inputs of the first kind are still
            run, in seconds.

    Raises:
        ArgumentError: ``dims`` or ``inputs`` do not fit the model.
        ModelError: onnxruntime is missing, or a model cannot be read or does not run in it.
    """
    start = time.perf_counter()
    random = np.random.default_rng(seed)
    with scratch_folder() as folder:
        source = load(before)
        first = session(before, folder / "before.onnx", "the model as it was")
        outputs = [output.name for output in first.get_outputs()]
        asked = _asked(source, first, runs, random, dims, inputs, start + seconds / 3)
        least, curves, varied = _floor(source), _curves(source), _values_of_inputs(source)
        curved = [value in curves for value in source.graph.outputs]
        of_inputs = [value in varied for value in source.graph.outputs]
        held = weight_bytes(source)
        del source, first, curves, varied
        collect(held)  # one model at a time: each holds all weights, and the nodes of one refer to each other
        second = session(after, folder / "after.onnx", "the optimized model")
        for case in asked:
            case.found = run_session(second, case.feed, "the optimized model")
            if len(case.found) != len(outputs):
                raise ModelError(f"the optimized model has {len(case.found)} outputs, not {len(outputs)}")
        del second
        file = Path(after) if isinstance(after, (str, os.PathLike)) else folder / "after.onnx"
        scales = list(map(_scale, asked[0].expected))
        probe: Probe | None = None
        problem = ""
        try:
            probe = Probe(file, folder / "probe.onnx")
            noise = _noise(probe, asked, scales, random, start + 2 * seconds / 3)
        except ModelError as error:
            probe, problem, noise = None, str(error), {}
        floor = LARGEST_TOLERANCE if probe is None else least
        for case in asked:
            seen = noise.get(case.kind, [0.0] * len(outputs))
            case.allowed = [
                _allowed(each, max(floor, _of_curve(value, scale) if curve else 0.0))
                for each, value, scale, curve in zip(seen, case.expected, scales, curved, strict=True)
            ]
        done = Verified(_differences(outputs, asked, scales))
        _find_silent(of_inputs, done, asked)
        if probe is not None and mistakes:
            done.sensitivity = _sensitivity(probe, asked, scales, mistakes, random, start + seconds)
        elif problem:
            done.sensitivity.problem = problem
    done.inputs = types_told(asked[0].feed)
    for case in asked:
        done.kinds[case.kind] = done.kinds.get(case.kind, 0) + 1
    done.seed, done.seconds, done.most_seconds = seed, time.perf_counter() - start, seconds
    return done


def differing(differences: Iterable[Difference], tolerance: float | None = None) -> list[Difference]:
    """Return the differences that are larger than rounding explains.

    Args:
        differences: The differences of outputs.
        tolerance: The largest relative difference to allow, instead of the one that rounding explains.
    """
    if tolerance is None:
        return [difference for difference in differences if not difference.excess <= 1]
    return [difference for difference in differences if not difference.relative <= tolerance]


# ---- what is run


@dataclass
class _Case:
    """One run of both models.

    Args:
        kind: how its inputs were drawn.
        feed: its inputs.
        expected, found: outputs of the model as it was, and of the other one.
        allowed: for each output, the relative difference that rounding explains; None if that is more than it tells.
    """

    kind: str
    feed: dict[str, Array]
    expected: list[Any]
    found: list[Any] = field(default_factory=list)
    allowed: list[float | None] = field(default_factory=list)


def _asked(
    model: ir.Model,
    first: Any,
    runs: int,
    random: np.random.Generator,
    dims: Mapping[str, int] | None,
    inputs: Sequence[Mapping[str, Array]],
    end: float,
) -> list[_Case]:
    if inputs:
        feeds = [_given(model, arrays) for arrays in inputs]
        return [_Case("given", feed, run_session(first, feed, "the model as it was")) for feed in feeds]
    setting = runnable_setting(model, first, random, dims)
    floating = any(value.dtype is not None and value.dtype.is_floating_point() for value in setting.inputs)
    cases: list[_Case] = []
    failing: set[str] = set()
    for _ in range(max(runs, 1)):
        for kind in KINDS if floating else ["normal"] * (1 if cases and time.perf_counter() > end else len(KINDS)):
            if kind in failing or (cases and kind != "normal" and time.perf_counter() > end):
                continue
            feed = setting.feed(random, kind)
            try:
                cases.append(_Case(kind, feed, run_session(first, feed, "the model as it was")))
            except ModelError:  # indices may come from floats
                if kind == "normal":
                    raise
                failing.add(kind)
    return cases


def _given(model: ir.Model, arrays: Mapping[str, Array]) -> dict[str, Array]:
    wanted = {value.name: value for value in fed_inputs(model)}
    for name in arrays:
        if name not in wanted:
            raise ArgumentError(f"inputs: the model has no input {name!r}: it has {', '.join(wanted)}")
    missing = [name for name, value in wanted.items() if name not in arrays and value.const_value is None]
    if missing:
        raise ArgumentError(f"inputs: there is no array for input {missing[0]!r}")
    return {name: np.asarray(array) for name, array in arrays.items()}


# ---- what rounding explains


def _noise(
    probe: Probe, asked: Sequence[_Case], scales: Sequence[float], random: np.random.Generator, end: float
) -> dict[str, list[float]]:
    """For each kind of inputs, how far each output moves when weights and inputs do so as by rounding."""
    firsts: dict[str, _Case] = {}
    for case in asked:
        firsts.setdefault(case.kind, case)
    noise = {kind: [0.0] * len(case.found) for kind, case in firsts.items()}
    for number in range(_JITTERS):
        if number and time.perf_counter() > end:
            break
        weights = probe.rounded(random)
        for kind, case in firsts.items():
            feed = {name: rounded(array, random) for name, array in case.feed.items()} | weights
            moved = run_session(probe.session, feed, "it")
            found = [compare(a, b, scale)[1] for a, b, scale in zip(case.found, moved, scales, strict=True)]
            noise[kind] = list(map(max, noise[kind], found))
        del weights, feed  # before there are others as large
    return noise


def _floor(model: ir.Model) -> float:
    """The relative difference that is allowed wherever rounding was seen to explain less."""
    if any(node.op_type in _STEPS or "Quant" in node.op_type for node in nodes_of(model.graph)):
        return LARGEST_TOLERANCE
    coarse = [float(np.finfo(_FLOATS[dtype]).eps) for dtype in types_of(model) if dtype in _FLOATS]
    return min(_LEAST_ROUNDINGS * max(coarse, default=float(np.finfo("f4").eps)), LARGEST_TOLERANCE)


def _curves(model: ir.Model) -> set[ir.Value]:
    """Results of sigmoids and the like, and what is picked of them or averaged."""
    found: set[ir.Value] = set()
    for node in model.graph:
        of_curve = node.op_type in MOVES | {"ReduceMean"} and node.inputs[0] in found
        if node.op_type in _CURVES or of_curve:
            found.update(node.outputs)
    return found


def _of_curve(value: Any, least: float) -> float:
    """The relative difference that is allowed for a result of a sigmoid: they are exact to a rounding of 1."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return 0.0
    step = float(np.finfo(value.dtype).eps)
    return 2 * step / max(_scale(value), least, _CERTAIN * step)


def _scale(value: Any) -> float:
    """The largest magnitude of an output."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        return 0.0
    return float(np.abs(value[np.isfinite(value)].astype(np.float64)).max(initial=0.0))


def _allowed(noise: float, floor: float) -> float | None:
    allowed = max(_ROUNDINGS * noise, floor)
    return allowed if allowed <= _SPEECHLESS else None


# ---- what was found


def _differences(outputs: Sequence[str], asked: Sequence[_Case], scales: Sequence[float]) -> list[Difference]:
    found = [Difference(name) for name in outputs]
    for case in asked:
        for index, difference in enumerate(found):
            absolute, relative = compare(case.expected[index], case.found[index], scales[index])
            difference.absolute = max(difference.absolute, absolute)
            difference.relative = max(difference.relative, relative)
            difference.excess = max(difference.excess, _excess(case, index, case.found[index], relative))
    return found


def _excess(case: _Case, index: int, found: Any, relative: float) -> float:
    """A relative difference as a multiple of what is allowed."""
    if _form(case.expected[index]) != _form(found):
        return np.inf
    allowed = case.allowed[index]
    return 0.0 if allowed is None or not relative else relative / allowed


def _form(value: Any) -> object:
    return (value.dtype, value.ndim) if isinstance(value, np.ndarray) else type(value)


def _find_silent(of_inputs: Sequence[bool], done: Sequence[Difference], asked: Sequence[_Case]) -> None:
    """Say of each output that depends on what is in the inputs whether it proves nothing, and why."""
    for index, (difference, depends) in enumerate(zip(done, of_inputs, strict=True)):
        if depends:
            expected, allowed = [case.expected[index] for case in asked], [case.allowed[index] for case in asked]
            difference.silent = _silence(expected, allowed)


def _silence(values: Sequence[Any], allowed: Sequence[float | None]) -> str:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if len(arrays) < len(values):
        return ""
    flat = np.concatenate([array.ravel() for array in arrays])
    if not flat.size:
        return "it is empty"
    known = flat[~np.isnan(flat)] if flat.dtype.kind == "f" else flat
    if not known.size:
        return "it is NaN everywhere"
    if flat.size > 1 and (known == known[0]).all():
        return f"it is {known[0]} {'or NaN ' if known.size < flat.size else ''}everywhere"
    if len(arrays) > 1 and all(np.array_equal(array, arrays[0]) for array in arrays):
        return "it is the same for all inputs that were tried"
    if flat.dtype.kind == "f" and np.abs(known).max() < np.finfo(flat.dtype).eps:
        return f"it is less than a rounding of 1 everywhere, {np.abs(known).max():.1g} at most"
    if all(each is None for each in allowed):
        return "rounding alone changes it by more than it tells"
    return ""


def _values_of_inputs(model: ir.Model) -> set[ir.Value]:
    """The values that depend on what is in the inputs, not on their shapes alone."""
    found: set[ir.Value] = set(fed_inputs(model))
    for node in model.graph:
        taken = (*node.inputs, *captured_values(attributes_of(node)))
        if node.op_type not in _OF_SHAPE and any(value in found for value in taken if value is not None):
            found.update(node.outputs)
    return found


# ---- mistakes


def _sensitivity(
    probe: Probe,
    asked: Sequence[_Case],
    scales: Sequence[float],
    count: int,
    random: np.random.Generator,
    end: float,
) -> Sensitivity:
    done = Sensitivity()
    for name, array in probe.mistakes(count, random):
        if done.tried and time.perf_counter() > end:
            done.problem = f"time was up after {done.tried} weights"
            break
        done.tried += 1
        if not any(_notices(probe, case, scales, {name: array}) for case in asked):
            done.unnoticed.append(name)
    return done


def _notices(probe: Probe, case: _Case, scales: Sequence[float], weights: Mapping[str, Array]) -> bool:
    try:
        found = run_session(probe.session, {**case.feed, **weights}, "it")
    except ModelError:  # it no longer runs
        return True
    pairs = enumerate(zip(case.expected, found, scales, strict=True))
    return any(_excess(case, index, b, compare(a, b, scale)[1]) > 1 for index, (a, b, scale) in pairs)


# ---- comparison


def compare(a: Any, b: Any, scale: float = 0.0) -> tuple[float, float]:
    """The largest absolute and relative difference of two outputs of onnxruntime.

    Args:
        a, b: the outputs.
        scale: the magnitude that the difference is relative to, unless that of ``a`` is larger.
    """
    if isinstance(a, list) or isinstance(b, list):
        if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
            return np.inf, np.inf
        pairs = [compare(x, y, scale) for x, y in zip(a, b, strict=True)]
        return max((x for x, _ in pairs), default=0.0), max((y for _, y in pairs), default=0.0)
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return (0.0, 0.0) if a == b else (np.inf, np.inf)
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf, np.inf
    if a.dtype.kind in "OUS":
        return (0.0, 0.0) if np.array_equal(a, b) else (np.inf, np.inf)
    least = float(np.finfo(a.dtype).eps) * _CERTAIN if a.dtype.kind == "f" else 0.0
    return _numeric_difference(a.astype(np.float64), b.astype(np.float64), max(least, scale))


_CERTAIN = 1000
"""How large an output must be for its digits to count, in roundings of 1: sigmoids far from the middle leave less."""


def _numeric_difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], least: float) -> tuple[float, float]:
    """As :func:`compare`; outputs that are smaller than ``least`` are compared as if they were as large."""
    differing = (a != b) & ~(np.isnan(a) & np.isnan(b))
    if not differing.any():
        return 0.0, 0.0
    if not np.isfinite(a[differing]).all() or not np.isfinite(b[differing]).all():
        return np.inf, np.inf
    absolute = float(np.abs(a[differing] - b[differing]).max())  # not of equal infinities
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=least))
    return absolute, absolute / scale if scale else np.inf
