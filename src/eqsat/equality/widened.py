"""Values of all nodes of a graph, computed in double precision whatever its float types are.

A difference in more than the last few of 53 bits is therefore not caused by rounding, and a weight that differs in its
last bit is detected. With noise, the same computation measures the effect of rounding in the float types of the graph.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.egraph.lower import region_children
from eqsat.errors import EqsatError
from eqsat.nd import BFLOAT16
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, If, Op, Tuple, TupleGetItem, Var
from eqsat.relay.fold import Foreign, is_pure
from eqsat.relay.interpreter import evaluate, evaluate_op
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type
from eqsat.relay.values import Value, truth

WIDE = "float64"
NARROW = ("float16", "bfloat16", "float32")
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
"""Half the distance from 1 to the next float, by dtype."""

HUGE = 1e15
"""Magnitude from which numbers stand for infinity, as in masks."""

Seen = Iterator[tuple[Expr, list[Value | None]]]
"""Nodes, and the value of each on every input; None where it is not known."""


class Evaluation:
    """How values are computed.

    Args:
        types: The types of all nodes.
        foreign: Computes operators that are not Relay's, in the place of their kernels.
        widens: Whether floats are computed in double precision.
    """

    def __init__(self, types: Mapping[Expr, Type], foreign: Foreign | None = None, widens: bool = True):
        self.types = types
        self.foreign = foreign
        self.widens = widens
        self._attrs: dict[tuple[Op, Attrs | None], Attrs | None] = {}

    def run(
        self,
        nodes: Sequence[Expr],
        inputs: Sequence[Mapping[Var, Any]],
        noise: Noise | None = None,
        kept: Sequence[Expr] = (),
    ) -> Seen:
        """The values of nodes in their order; each is forgotten after its last use.

        Args:
            nodes: Nodes, each after those that it is computed from.
            inputs: The values of all variables, for each input.
            noise: What is done to operands.
            kept: Nodes whose values are not forgotten, because the caller uses them again.
        """
        uses = Counter(child for node in nodes for child in region_children(node))
        uses.update(kept)
        values: dict[Expr, list[Value | None]] = {}
        constant: set[Expr] = set()
        for node in nodes:
            children = region_children(node)
            if isinstance(node, Var):
                found = [self._wide(feed.get(node)) for feed in inputs]
            elif isinstance(node, Constant):
                found = [self._wide(node.data.numpy())] * len(inputs)
                constant.add(node)
            elif children and constant.issuperset(children):
                found = [self._value(node, children, [values[child][0] for child in children], noise)] * len(inputs)
                constant.add(node)
            else:
                given = [[values[child][index] for child in children] for index in range(len(inputs))]
                found = [self._value(node, children, each, noise) for each in given]
            values[node] = found
            yield node, found
            for child in (*children, node):
                uses[child] -= child is not node
                if uses[child] <= 0:
                    values.pop(child, None)

    # ---- one node

    def _value(
        self, node: Expr, children: Sequence[Expr], given: Sequence[Value | None], noise: Noise | None
    ) -> Value | None:
        if any(each is None for each in given):
            return None
        if isinstance(node, Tuple):
            return tuple(given)
        if isinstance(node, TupleGetItem):
            (whole,) = given
            return whole[node.index] if isinstance(whole, tuple) else None
        with np.errstate(all="ignore"):
            try:
                if isinstance(node, If):
                    return given[1] if truth(given[0]) else given[2]
                if not isinstance(node, Call) or not isinstance(node.op, Op):
                    return self._wide(self._interpreted(node, children, given))
                return self._called(node, node.op, children, given, noise)
            except EqsatError:
                return None

    def _called(
        self, node: Call, op: Op, children: Sequence[Expr], given: Sequence[Value], noise: Noise | None
    ) -> Value | None:
        if op.get_attr("TOpIsStateful"):
            return None
        if op.has(Trait.FOREIGN):
            narrow = self._narrowed(children, given)
            if self.foreign is not None:
                found = self.foreign(node, narrow, sum(map(_bytes, narrow)))
                return None if found is None else self._wide(found)
            return self._wide(evaluate_op(op, node.attrs, narrow)) if is_pure(op) else None
        if noise is not None and not op.has(Trait.MOVES):
            given = noise.disturbed(op, given, [self.types[child] for child in children], self.types[node])
        if not self.widens:
            return evaluate_op(op, node.attrs, given)
        try:
            return self._wide(evaluate_op(op, self._wide_attrs(op, node.attrs), given))
        except EqsatError:  # a kernel of narrow floats alone
            return self._wide(evaluate_op(op, node.attrs, self._narrowed(children, given)))

    def _interpreted(self, node: Expr, children: Sequence[Expr], given: Sequence[Value]) -> Value:
        """The value of a node that is no call of an operator: of a call of a function, say."""
        narrow = self._narrowed(children, given)
        if isinstance(node, Call):
            stands = [Var(f"v{index}") for index in range(len(children))]
            return evaluate(node.with_children(stands), dict(zip(stands, narrow, strict=True)))
        return evaluate(node, {var: value for var, value in zip(children, narrow, strict=True) if isinstance(var, Var)})

    # ---- floats

    def _wide(self, value: Value | None) -> Value | None:
        if isinstance(value, tuple):
            return tuple(map(self._wide, value))
        is_narrow = self.widens and isinstance(value, (np.ndarray, np.generic)) and value.dtype.name in NARROW
        return value.astype(WIDE) if is_narrow else value  # type: ignore[union-attr]

    def _narrowed(self, children: Sequence[Expr], given: Sequence[Value]) -> list[Value]:
        return [narrowed(value, self.types[child]) for child, value in zip(children, given, strict=True)]

    def _wide_attrs(self, op: Op, attrs: Attrs | None) -> Attrs | None:
        key = (op, attrs)
        if key not in self._attrs:
            named = [field.name for field in op.fields if field.kind == "dtype"]
            changes = {name: WIDE for name in named if attrs is not None and attrs[name] in NARROW}
            self._attrs[key] = attrs.replace(**changes) if attrs is not None and changes else attrs
        return self._attrs[key]


class Noise:
    """What rounding may make of the operands of operators.

    Not the results but the operands are moved, so that where they cancel the result moves by as much as they did.

    Args:
        seed: Of the random numbers.
    """

    def __init__(self, seed: int):
        random = np.random.default_rng(seed)
        self._signs = random.choice([-1.0, 1.0], 1 << 16)
        self._turn = 0

    def disturbed(self, op: Op, given: Sequence[Value], types: Sequence[Type], ty: Type) -> list[Value]:
        """Operands moved by as much as rounding moves them, where each element of the result is the sum of some."""
        sizes = [value.size for value in given if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
        terms = 1.0 if op.has(Trait.ELEMENTWISE) or not sizes else self._terms(sizes, ty, given)
        moved = [self._moved(value, each, terms) for value, each in zip(given, types, strict=True)]
        if op.name == "power":  # the square of a negative number is no number if its exponent is not quite 2
            whole = np.equal(given[1], np.round(given[1]))
            moved[1] = np.where(whole, given[1], moved[1])
        return moved

    def _terms(self, sizes: Sequence[int], ty: Type, given: Sequence[Value]) -> float:
        """About how many products or elements are summed up for one element of the result."""
        results = _elements(ty) or max(sizes)
        together = math.prod([float(max(size, 1)) for size in sorted(sizes)[-2:]])
        return max(1.0, math.sqrt(together / results) if len(sizes) > 1 else together / results)

    def _moved(self, value: Value, ty: Type, terms: float) -> Value:
        if isinstance(value, tuple) and isinstance(ty, TupleType):
            return tuple(self._moved(each, part, terms) for each, part in zip(value, ty.fields, strict=True))
        unit = ROUNDOFF.get(ty.dtype) if isinstance(ty, TensorType) else None
        if unit is None or not isinstance(value, np.ndarray):
            return value
        self._turn = (self._turn * 5 + 4099) % len(self._signs)
        signs = np.resize(np.roll(self._signs, self._turn), value.shape)
        return np.where(np.abs(value) < HUGE, value * (1 + unit * math.sqrt(terms) * signs), value)


def narrowed(value: Value, ty: Type) -> Value:
    """A value in the floats of its type."""
    if isinstance(value, tuple) and isinstance(ty, TupleType):
        return tuple(map(narrowed, value, ty.fields))
    if isinstance(value, np.ndarray) and isinstance(ty, TensorType) and value.dtype.name != ty.dtype:
        return value.astype(BFLOAT16 if ty.dtype == BFLOAT16.name else ty.dtype)
    return value


def _elements(ty: Type) -> int:
    if isinstance(ty, TupleType):
        return sum(map(_elements, ty.fields))
    shape = ty.shape if isinstance(ty, TensorType) else ()
    return math.prod([dim for dim in shape if isinstance(dim, int)])


def _bytes(value: Value) -> int:
    return sum(map(_bytes, value)) if isinstance(value, tuple) else int(getattr(value, "nbytes", 0))
