"""Sizes that a graph computes in several ways, computed in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from eqsat.relay.elements import Elements
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type

_SIZES = "int64"
"""The dtype of shapes."""


class KnownSizes:
    """Gives what computes the same sizes in one form: by shapes of variables, or else as they came first.

    Args:
        types: The types of expressions; may grow.
        elements: What is known of the elements of integer tensors.
    """

    def __init__(self, types: Mapping[Expr, Type], elements: Elements):
        self._types = types
        self._elements = elements
        self._places: dict[Dim, tuple[Var, int]] = {}
        self._wholes: dict[Var, Expr] = {}
        self._forms: dict[tuple[str, tuple[int, ...], tuple[Dim, ...]], Expr] = {}

    def add(self, variables: Iterable[Var]) -> None:
        """Take note of variables, of whose shapes sizes may be parts; the first one of a name serves."""
        for variable in variables:
            ty = self._types.get(variable)
            for axis, dim in enumerate(ty.shape if isinstance(ty, TensorType) else ()):
                if isinstance(dim, AnyDim) and dim.name is not None:
                    self._places.setdefault(dim, (variable, axis))

    def form(self, expr: Call | TupleGetItem) -> Expr:
        """Return what computes the same as ``expr``, which is ``expr`` where its elements are not all known by name."""
        ty, found = self._types.get(expr), self._elements.of(expr)
        if found is None or not found.size or not isinstance(ty, TensorType):
            return expr
        dims: tuple[Dim, ...] = tuple(found.reshape(-1).tolist())
        if AnyDim() in dims:
            return expr
        key = (ty.dtype, found.shape, dims)
        if key not in self._forms:
            made = self._built(dims, found.ndim) if ty.dtype == _SIZES and not _is_shape(expr) else None
            self._forms[key] = made or expr
        return self._forms[key]

    def computed(self, dims: Sequence[Dim]) -> Expr | None:
        """Return what computes a list of sizes from shapes of variables; None where one is no part of them."""
        return None if AnyDim() in dims or not dims else self._built(tuple(dims), 1)

    def _built(self, dims: tuple[Dim, ...], rank: int) -> Expr | None:
        """Sizes as parts of shapes of variables with numbers between them; None where they are something else."""
        if rank == 0:
            return self._size(dims[0]) if dims[0] in self._places else None
        parts: list[Expr] = []
        at = 0
        while rank == 1 and at < len(dims):
            end = at + 1
            if isinstance(dims[at], int):
                while end < len(dims) and isinstance(dims[end], int):
                    end += 1
                parts.append(Constant(np.asarray(dims[at:end], np.int64)))
            elif dims[at] in self._places:
                variable, axis = self._places[dims[at]]
                shape = self._shape(variable)
                while end < len(dims) and shape[axis : axis + end + 1 - at] == dims[at : end + 1]:
                    end += 1
                parts.append(self._slice(dims[at:end]))
            else:
                return None
            at = end
        if len(parts) < 2:
            return parts[0] if parts else None
        return _call("concatenate", Tuple(parts), axis=0)

    def _shape(self, variable: Var) -> tuple[Dim, ...]:
        ty = self._types[variable]
        return ty.shape if isinstance(ty, TensorType) else ()

    def _whole(self, variable: Var) -> Expr:
        """The shape of a variable."""
        if variable not in self._wholes:
            self._wholes[variable] = _call("shape_of", variable, dtype=_SIZES)
        return self._wholes[variable]

    def _size(self, dim: Dim) -> Expr:
        """One size, as a scalar."""
        key = (_SIZES, (), (dim,))
        if key not in self._forms:
            variable, axis = self._places[dim]
            place = Constant(np.asarray(axis, np.int64))
            self._forms[key] = _call("take", self._whole(variable), place, axis=0, mode="fast")
        return self._forms[key]

    def _slice(self, dims: tuple[Dim, ...]) -> Expr:
        """Sizes that follow each other in the shape of a variable."""
        key = (_SIZES, (len(dims),), dims)
        if key not in self._forms:
            variable, axis = self._places[dims[0]]
            whole = self._whole(variable)
            if len(dims) == len(self._shape(variable)):
                self._forms[key] = whole
            elif len(dims) == 1:
                self._forms[key] = _call("expand_dims", self._size(dims[0]), axis=0)
            else:
                self._forms[key] = _call("strided_slice", whole, begin=(axis,), end=(axis + len(dims),), axes=(0,))
        return self._forms[key]


def _is_shape(expr: Expr) -> bool:
    """Whether an expression is the whole shape of something."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == "shape_of"


def _call(name: str, *args: Expr, **attrs: object) -> Call:
    op = Op.get(name)
    return Call(op, args, make_attrs(op, attrs))
