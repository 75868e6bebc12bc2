"""Rules that claim every bit, tried on narrow dtypes: on all values, or on many with extremes among them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.rule import PythonRule, Rewrite
from eqsat.errors import EqsatError, EvaluationError
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from eqsat.relay.infer import extend_types
from eqsat.relay.op.draw import Draw
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type
from eqsat.relay.visitor import post_order, rebuild
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.instances import Instance, arrays_of, draw_instances
from eqsat.rules.verify.verifier import difference

DTYPES = ("float16", "int8", "uint8")
INSTANCES = 6
"""Instances of each dtype."""
ATTEMPTS = 240
"""Instances that are drawn until so many suit."""
COMBINED = 1 << 16
"""Values of all inputs together that are tried on an instance that takes them element by element."""
FILLED = 24
"""Times that the inputs of any other instance are filled."""
EXTREMES = (0.0, 1.0, 2.0, 0.1, 1 / 3, 3.0, 5e-4, 6e-5, 6e-8, 1.2e-7, 255.0, 1025.0, 2049.0, 4e4, 65504.0, np.inf)
"""Floats of both signs at which rounding, underflow and overflow begin; NaN is among them, too."""


@dataclass(frozen=True)
class Tried:
    """What was tried of a rule.

    Args:
        every: The dtypes of which all values of all inputs were tried.
        floats: The number of inputs that were tried of each floating-point dtype: of an instance that takes its inputs
            element by element each element counts, of any other each choice of arrays. The dtype is float16 unless no
            instance of it was found.
        counterexample: A program that shows a difference, if there is one.
    """

    every: tuple[str, ...] = ()
    floats: dict[str, int] = field(default_factory=dict)
    counterexample: str = ""


class _NarrowDraw(Draw):
    """Draws small tensors, most of them of one dtype."""

    def __init__(self, rng: random.Random, dtype: str, finite: bool):
        super().__init__(rng, finite)
        self.dtype, self.special, self.dims = dtype, False, rng.choices((1, 2, 3, 4), k=3)


def every_value(dtype: str) -> NDArray[Any]:
    """Return all values of a dtype of one or two bytes."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    return np.arange(256**kind.itemsize).astype(f"uint{8 * kind.itemsize}").view(kind)


def try_bits(rule: Rewrite | PythonRule, seed: int) -> Tried:
    """Compare every bit of both sides of a rule on narrow dtypes.

    Args:
        rule: A rule that claims to be exact.
        seed: The seed of the random choices.
    """
    every: list[str] = []
    floats: Counter[str] = Counter()
    finite = isinstance(rule, Rewrite) and bool(rule.numbers)
    for dtype in DTYPES:
        rng = random.Random(f"bits {seed} {rule.name} {dtype}")
        source = np.random.default_rng(rng.getrandbits(63))
        stream = draw_instances(rule, lambda rng=rng, dtype=dtype: _NarrowDraw(rng, dtype, finite), ATTEMPTS)  # type: ignore[misc]
        try:
            batch = _chosen(stream, dtype)
            sides = right_sides(rule, batch)
        except EqsatError:
            continue
        whole = []
        for instance, others in zip(batch, sides, strict=True):
            for other in others[:1]:
                tried = _compared(instance, other, source, finite)
                if tried.counterexample:
                    return tried
                whole.append(dtype in tried.every)
                floats.update(tried.floats)
        every += [dtype] if whole and all(whole) else []
    return Tried(tuple(every), dict(floats))


def _chosen(stream: Iterator[Instance], dtype: str) -> list[Instance]:
    """Return the first instances of a dtype; of other floating-point dtypes if it is float16 and there are none."""
    found: list[Instance] = []
    others: list[Instance] = []
    for instance in stream:
        dtypes = [each.dtype for value in instance.values.values() for each in arrays_of(value)]
        if instance.module is None and dtype in dtypes:
            found.append(instance)
        elif instance.module is None and dtype == "float16" and _floating(instance):
            others.append(instance)
        if len(found) == INSTANCES:
            break
    return found or others[:INSTANCES]


def _floating(instance: Instance) -> str:
    """Return the narrowest floating-point dtype of the inputs, nothing if there is none."""
    dtypes = [each.dtype for value in instance.values.values() for each in arrays_of(value)]
    floats = [each for each in dtypes if each.kind == "f"]
    return min(floats, key=lambda each: each.itemsize).name if floats else ""


def _is_elementwise(roots: tuple[Expr, ...]) -> bool:
    """Whether no shape stands in graphs."""
    for node in post_order(Tuple(roots)):
        if isinstance(node, Constant) and node.data.numpy().size != 1:
            return False
        if isinstance(node, Var) and not isinstance(node.type_annotation, TensorType):
            return False
        if isinstance(node, Call) and not (isinstance(node.op, Op) and node.op.has(Trait.ELEMENTWISE)):
            return False
    return True


def _compared(instance: Instance, other: tuple[Expr, ...], source: np.random.Generator, finite: bool) -> Tried:
    """Return what was tried of an instance."""
    floating = _floating(instance)
    if _is_elementwise((*instance.roots, *other)):
        kinds = [var.type_annotation.dtype for var in instance.values]  # type: ignore[union-attr]
        values, complete = combined(kinds, source, finite)
        told = _vectors_differ(instance, other, values)
        if told is not None:
            return Tried(tuple({*kinds}) if complete else (), {floating: values[0].size} if floating else {}, told)
    tried = 0
    for place in range(FILLED if floating else 0):
        told = _differ(instance, other, [_filled(each, source, finite, place) for each in instance.values.values()])
        if told:
            return Tried(counterexample=told)
        tried += told is not None
    return Tried((), {floating: tried} if tried else {})


def _differ(instance: Instance, other: tuple[Expr, ...], values: Sequence[Any]) -> str | None:
    """Return a program that shows a difference, nothing if there is none, None if a side cannot be computed."""
    try:
        return difference(Instance(instance.roots, dict(zip(instance.values, values, strict=True))), other)
    except EvaluationError:
        return None


def _vectors_differ(instance: Instance, other: tuple[Expr, ...], values: list[NDArray[Any]]) -> str | None:
    """Return the same for vectors of values; a difference is shown at one element."""
    told = _differ_at(instance, other, values)
    while told and values[0].size > 1:
        middle = values[0].size // 2
        first = [each[:middle] for each in values]
        found = _differ_at(instance, other, first)
        values = first if found else [each[middle:] for each in values]
        told = found or _differ_at(instance, other, values) or told
    return told


def _differ_at(instance: Instance, other: tuple[Expr, ...], values: Sequence[NDArray[Any]]) -> str | None:
    vectors = _as_vectors(instance, other, values[0].size)
    return None if vectors is None else _differ(*vectors, values)


def combined(dtypes: Sequence[str], source: np.random.Generator, finite: bool) -> tuple[list[NDArray[Any]], bool]:
    """Return values of several inputs, and whether these are all that there are.

    Args:
        dtypes: The dtypes of the inputs.
        source: Of random values, in case that there are too many.
        finite: Whether no value is NaN or infinite.
    """
    narrow = all(np.dtype(dtype).itemsize <= 2 for dtype in dtypes)
    every = [every_value(dtype) for dtype in dtypes] if narrow else []
    complete = bool(every) and np.prod([each.size for each in every], dtype=object) <= COMBINED
    if not complete:
        each_has = max(2, int(COMBINED ** (1 / len(dtypes))))
        every = [np.unique(_some(dtype, each_has, source)) for dtype in dtypes]
    grid = [each.ravel() for each in np.meshgrid(*every, indexing="ij")]
    if not complete:
        grid = [
            np.concatenate([each, _random(dtype, COMBINED // 2, source)])
            for dtype, each in zip(dtypes, grid, strict=True)
        ]
    if finite:
        kept = np.logical_and.reduce([np.isfinite(each) for each in grid])
        grid = [each[kept] for each in grid]
    return grid, complete


def _some(dtype: str, number: int, source: np.random.Generator) -> NDArray[Any]:
    """Return so many values of a dtype, extremes first."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        first = np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1], kind)
    else:
        with np.errstate(over="ignore"):
            first = np.array([np.nan, *EXTREMES, *[-each for each in EXTREMES]]).astype(kind)
    return np.concatenate([first[:number], _random(dtype, max(number - first.size, 0), source)])


def _random(dtype: str, number: int, source: np.random.Generator) -> NDArray[Any]:
    """Return values of a dtype: half of them of any bits, half of usual size."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return source.random(number) < 0.5
    drawn = np.frombuffer(source.bytes(number * kind.itemsize), kind)
    usual = source.normal(0, 3, number)
    return np.where(source.random(number) < 0.5, drawn, np.abs(usual) if kind.kind == "u" else usual).astype(kind)


def _filled(value: Any, source: np.random.Generator, finite: bool, place: int) -> Any:
    """Return a value with other floats: of usual size, of any, or with extremes among them, in turn."""
    if isinstance(value, tuple):
        return tuple(_filled(each, source, finite, place) for each in value)
    array = np.asarray(value)
    if array.dtype.kind == "b":
        return source.random(array.shape) < 0.5
    if array.dtype.kind != "f" or not array.size:
        return array
    drawn = source.normal(0, (1, 30, 1e-3)[place // 4 % 3], array.size).astype(array.dtype)
    if place % 4 == 1:
        drawn = _random(array.dtype.name, array.size, source)
    elif place % 4 > 1:
        extremes = source.choice(_some(array.dtype.name, 33, source), array.size)
        drawn = np.where(source.random(array.size) < (0.2 if place % 4 == 2 else 1.0), extremes, drawn)
    if finite or place % 4 < 2:
        drawn = np.where(np.isfinite(drawn), drawn, array.dtype.type(1.5))
    return drawn.astype(array.dtype).reshape(array.shape)


def _as_vectors(instance: Instance, other: tuple[Expr, ...], size: int) -> tuple[Instance, tuple[Expr, ...]] | None:
    """Return an instance and its right side over vectors of so many elements, if they have types."""
    new: dict[Expr, Expr] = {
        var: Var(var.name_hint, TensorType((size,), var.type_annotation.dtype))  # type: ignore[union-attr]
        for var in instance.values
    }
    for node in post_order(Tuple((*instance.roots, *other))):
        if isinstance(node, Constant):
            new[node] = Constant(node.data.numpy().reshape(()))
        elif node not in new:
            new[node] = rebuild(node, new)
    left, right = [tuple(new[root] for root in roots) for roots in (instance.roots, other)]
    types: dict[Expr, Type] = {}
    try:
        extend_types(types, Tuple((*left, *right)))
    except EqsatError:
        return None
    for node, ty in types.items():
        node._checked_type = ty
    return Instance(left, {new[var]: value for var, value in instance.values.items()}), right  # type: ignore[misc]
