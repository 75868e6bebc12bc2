"""Rules that claim every bit, on all values of a narrow dtype, where they read one input element by element."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import numpy as np

from eqsat.egraph.rule import Rewrite
from eqsat.errors import EqsatError, EvaluationError
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from eqsat.relay.infer import extend_types
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type
from eqsat.relay.visitor import post_order, rebuild
from eqsat.rules.prove.drawing import SmallDraw
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.instances import Instance, draw_instances
from eqsat.rules.verify.verifier import difference

DTYPES = ("float16", "int8", "uint8")
INSTANCES = 4


class _NarrowDraw(SmallDraw):
    """Draws tensors of one dtype."""

    def __init__(self, rng: random.Random, dtype: str):
        super().__init__(rng)
        self.dtype = dtype


def every_value(dtype: str) -> Any:
    """All values of a dtype of one or two bytes."""
    kind = np.dtype(dtype)
    return np.arange(256**kind.itemsize).astype(f"uint{8 * kind.itemsize}").view(kind)


def all_values(rule: Rewrite, seed: int) -> tuple[list[str], str]:
    """The dtypes at all values of which the sides of a rule have equal bits, and a counterexample if there is one.

    Args:
        rule: takes its inputs element by element.
        seed: of the random choices.
    """
    same = []
    for dtype in DTYPES:
        rng = random.Random(f"bits {seed} {rule.name} {dtype}")
        stream = draw_instances(rule, lambda rng=rng, dtype=dtype: _NarrowDraw(rng, dtype), 60)  # type: ignore[misc]
        try:
            batch = [each for each in islice(stream, INSTANCES) if _is_unary(each, dtype)]
            sides = right_sides(rule, batch)
        except EqsatError:
            continue
        compared = 0
        for instance, others in zip(batch, sides, strict=True):
            for other in others:
                told = _compared(instance, other, dtype) if _is_elementwise((*instance.roots, *other)) else None
                if told:
                    return [], told
                compared += told is not None
        if compared:
            same.append(dtype)
    return same, ""


def _is_unary(instance: Instance, dtype: str) -> bool:
    types = [var.type_annotation for var in instance.values]
    constants = [node for node in post_order(Tuple(instance.roots)) if isinstance(node, Constant)]
    return (
        len(types) == 1
        and isinstance(types[0], TensorType)
        and types[0].dtype == dtype
        and all(node.data.numpy().size == 1 for node in constants)
    )


def _is_elementwise(roots: tuple[Expr, ...]) -> bool:
    """Whether no shape stands in graphs."""
    calls = [node for node in post_order(Tuple(roots)) if isinstance(node, Call)]
    return all(isinstance(call.op, Op) and call.op.has(Trait.ELEMENTWISE) for call in calls)


def _compared(instance: Instance, other: tuple[Expr, ...], dtype: str) -> str | None:
    """How the sides differ at some value of the input, nothing if they do not, None if there are no values."""
    (var,) = instance.values
    values = every_value(dtype)
    new: dict[Expr, Expr] = {var: Var(var.name_hint, TensorType(values.shape, dtype))}
    for node in post_order(Tuple((*instance.roots, *other))):
        if isinstance(node, Constant):
            new[node] = Constant(node.data.numpy().reshape(()))
        elif node not in new:
            new[node] = rebuild(node, new)
    sides = [tuple(new[root] for root in roots) for roots in (instance.roots, other)]
    types: dict[Expr, Type] = {}
    try:
        extend_types(types, Tuple((*sides[0], *sides[1])))
    except EqsatError:
        return None
    for node, ty in types.items():
        node._checked_type = ty
    renewed = new[var]
    assert isinstance(renewed, Var)
    try:
        return difference(Instance(sides[0], {renewed: values}), sides[1])
    except EvaluationError:
        return None
