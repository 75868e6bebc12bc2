"""Large results of constant expressions: they are computed again when they are asked for.

A form of all weights of a model takes as much memory as the model, and rules find many forms. So what is kept of one is
how it is computed from constants that are given.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray as Array

from eqsat.egraph.exact_constants import OPERATIONS
from eqsat.nd import NDArray
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Op
from eqsat.relay.fold import leaves
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.traits import Trait

_DEPTH = 8
"""How many operators deep a result may be above what is kept: one that is deeper is kept, too."""

_RECENT = 32 << 20
"""Bytes of results that are kept because they were computed last."""

_NARROW = ("float16", "bfloat16", "float32")

_BLOCK = 1 << 15
"""Elements that are computed at once in double precision."""

_Rows: TypeAlias = Callable[[Any], Any]
"""Gives rows of an array: those of a slice, or all."""

Operand: TypeAlias = Any
"""The data of a constant, or a tuple of operands."""


class _Computation:
    """How the data of a constant is computed.

    Sums and products of narrow floats are computed in double precision and rounded once, so that their order makes no
    difference but for a few elements in billions.

    Args:
        op, attrs: The operator.
        operands: What it is called with.
        known: The computations of operands.
        nearest: The data of other operands that were rounded -> their elements in double precision.
    """

    def __init__(
        self,
        op: Op,
        attrs: Attrs | None,
        operands: Sequence[Operand],
        known: Mapping[NDArray, _Computation],
        nearest: Mapping[NDArray, Array[np.float64]],
    ):
        self._op = op
        self._attrs = attrs
        self._operands = operands
        self._known = known
        self._nearest = nearest
        given = leaves(tuple(operands))
        self.depth: int = 1 + max([known[leaf].depth for leaf in given if leaf in known], default=0)
        is_narrow = all(leaf.dtype in _NARROW for leaf in given)
        self._is_sum = is_narrow and op.name in OPERATIONS
        self._is_moved = is_narrow and op.has(Trait.MOVES)
        self.found: Array[Any] | None = None
        """What it gives, until it is taken."""

    def compute(self) -> Any:
        """The result; a tuple if the operator has several."""
        found = self._rounded() if self._is_sum else None
        if found is not None:
            return found
        self._is_sum = False
        return evaluate_op(self._op, self._attrs, [_of(operand, NDArray.numpy) for operand in self._operands])

    def load(self) -> Array[Any]:
        """The result, which is an array."""
        found, self.found = self.found, None
        return np.asarray(self.compute()) if found is None else found

    def _rounded(self) -> Array[Any] | None:
        """The result where it is computed in double precision; None if it is not finite."""
        found = np.empty(self._shape(), self._operands[0].numpy().dtype)
        size = math.prod(found.shape[1:])
        step = max(1, _BLOCK // max(1, size))
        wide = self._wide()
        with np.errstate(all="ignore"):
            for start in range(0, len(found), step):
                rows = slice(start, start + step)
                found[rows] = wide(rows)
                if not np.isfinite(found[rows]).all():
                    return None
        return found

    def _shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*[operand.shape for operand in self._operands])

    def _wide(self) -> _Rows:
        """The result in double precision, by its rows: all of it at once would be written to new memory."""
        if not self._is_sum:
            if self._is_moved:
                whole = evaluate_op(self._op, self._attrs, [_of(operand, self._widened) for operand in self._operands])
            else:
                whole = np.asarray(self.load())
            return lambda rows: whole[rows].astype(np.float64, copy=False)
        shape = self._shape()
        operation = OPERATIONS[self._op.name][1]
        parts = [
            (self._reader(operand), len(operand.shape) == len(shape) and operand.shape[0] == shape[0])
            for operand in self._operands
        ]
        return lambda rows: operation(*[read(rows if has_rows else ...) for read, has_rows in parts])

    def _reader(self, data: NDArray) -> _Rows:
        if data in self._known:
            return self._known[data]._wide()
        array = self._nearest[data] if data in self._nearest else data.numpy()
        return lambda rows: array[rows].astype(np.float64, copy=False)

    def _widened(self, data: NDArray) -> Any:
        return self._reader(data)(...)


class LargeConstants:
    """Computes large results, and keeps how.

    Args:
        nearest: The data of constants that were rounded -> their elements in double precision.
    """

    def __init__(self, nearest: Mapping[NDArray, Array[np.float64]]) -> None:
        self._nearest = nearest
        self._known: dict[NDArray, _Computation] = {}
        self._recent: deque[Array[Any]] = deque()
        self._bytes = 0

    def result(self, op: Op, attrs: Attrs | None, operands: Sequence[Operand]) -> Any:
        """A constant, or an array for each of several results.

        Raises:
            EvaluationError: The operator has no kernel, or its kernel fails.
        """
        made = _Computation(op, attrs, operands, self._known, self._nearest)
        found = made.compute()
        if isinstance(found, tuple):
            return found
        array = np.asarray(found)
        if made.depth > _DEPTH:
            return Constant(array)
        made.found = array
        data = NDArray(array.shape, array.dtype.name, made.load, is_kept=False)
        self._known[data] = made
        self._keep(data.numpy())
        return Constant(data)

    def _keep(self, array: Array[Any]) -> None:
        self._recent.append(array)
        self._bytes += array.nbytes
        while self._bytes > _RECENT:
            self._bytes -= self._recent.popleft().nbytes


def _of(operand: Operand, function: Any) -> Any:
    return tuple(_of(each, function) for each in operand) if isinstance(operand, tuple) else function(operand)
