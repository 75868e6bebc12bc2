"""Structural equality and hashing of graphs.

Two graphs are equal if they differ in nothing but the names of bound variables. They are walked in lock step, and each
node of one corresponds to one node of the other: a node that is used twice on one side must be used twice on the other.
Only for constants, projections, operators and empty tuples does it make no difference whether they are shared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eqsat.errors import StructuralMismatchError
from eqsat.nd import NDArray, array
from eqsat.relay.adt import Constructor
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Id, Op, Tuple, TupleGetItem, Var
from eqsat.relay.generics import type_parts
from eqsat.relay.module import IRModule
from eqsat.relay.ty import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall
from eqsat.relay.visitor import post_order

FLOAT_TOLERANCE = 1e-9
"""Floats in attributes are equal when they differ by less."""


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, modules, types or attribute values are structurally equal.

    Args:
        lhs, rhs: What to compare.
        map_free_vars: Whether a free variable may correspond to another one. By default it must be the same.
    """
    return _Comparison(map_free_vars).difference(lhs, rhs) is None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Check that :func:`structural_equal` holds.

    Raises:
        StructuralMismatchError: The two differ. It is a ValueError, and its message names the first difference.
    """
    difference = _Comparison(map_free_vars).difference(lhs, rhs)
    if difference is not None:
        raise StructuralMismatchError(f"not structurally equal: {difference}")


class _Comparison:
    """One walk over two graphs in lock step.

    Attributes:
        right_of: Node or identity on the left side -> what it corresponds to on the right.
        left_of: The inverse of ``right_of``.
        type_vars: Type variable of the right side -> that of the left.
    """

    def __init__(self, map_free_vars: bool):
        self.map_free_vars = map_free_vars
        self.right_of: dict[Expr | Id, Expr | Id] = {}
        self.left_of: dict[Expr | Id, Expr | Id] = {}
        self.type_vars: dict[Type, Type] = {}

    def difference(self, lhs: Any, rhs: Any) -> str | None:
        """Describe the first difference; return None if there is none."""
        if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
            return self._modules(lhs, rhs)
        if isinstance(lhs, Expr) and isinstance(rhs, Expr):
            return self._exprs(lhs, rhs)
        return None if values_equal(lhs, rhs) else f"{lhs!r} and {rhs!r}"

    def _modules(self, lhs: IRModule, rhs: IRModule) -> str | None:
        left, right = ({variable.name_hint: variable for variable in module.get_global_vars()} for module in (lhs, rhs))
        if left.keys() != right.keys():
            return f"functions {sorted(left)} and {sorted(right)}"
        types, others = _definitions(lhs), _definitions(rhs)
        if types.keys() != others.keys():
            return f"types {sorted(types)} and {sorted(others)}"
        for name, definition in types.items():
            if not values_equal(definition, others[name]):
                return f"definitions of type {name}"
        for name, variable in left.items():
            self._pair(variable, right[name])
        for name in left:
            difference = self._exprs(lhs[name], rhs[name])
            if difference is not None:
                return f"in @{name}: {difference}"
        return None

    def _exprs(self, lhs: Expr, rhs: Expr) -> str | None:
        tasks = [(lhs, rhs)]
        while tasks:
            left, right = tasks.pop()
            if left in self.right_of or right in self.left_of:
                reason = self._shared(left, right)
            else:
                reason = self._compare(left, right, self.map_free_vars)
                lefts, rights = left.evaluated, right.evaluated
                if reason is None and len(lefts) != len(rights):
                    reason = f"{_brief(left)} has {len(lefts)} operands and {_brief(right)} has {len(rights)}"
                tasks.extend(zip(reversed(lefts), reversed(rights), strict=False))
            if reason is not None:
                return f"{reason} (node {post_order(lhs).index(left)} of the left side in post-order)"
        return None

    def _shared(self, left: Expr, right: Expr) -> str | None:
        if self.right_of.get(left) is right:
            return None
        return f"{_brief(left)} is shared on the {'left' if left in self.right_of else 'right'} only"

    def _compare(self, left: Any, right: Any, may_map: bool) -> str | None:
        """Compare two nodes but for their operands; a variable may correspond to another one if ``may_map`` is set."""
        kind, operator = type(left), _operator(left)
        if operator is not None and operator is _operator(right) and left.attrs is right.attrs:
            self._pair(left, right)  # so are most pairs
            return None
        if kind is not type(right) or operator is not _operator(right):
            return f"{_brief(left)} and {_brief(right)}"
        if kind is Function:
            self.type_vars.update(zip(right.type_params, left.type_params, strict=False))
        for (name, value), (_, other) in zip(_fields(left), _fields(right), strict=True):
            if value is not other and not values_equal(value, other, self._nested, self.type_vars):
                return f"{_brief(left)} with {name} {value} and {_brief(right)} with {name} {other}"
        if kind is GlobalVar and left is not right and not self.map_free_vars:
            return f"two variables @{left.name_hint}"
        if kind is Var and not self._same_variable(left.vid, right.vid, may_map):
            return f"variables %{left.name_hint} and %{right.name_hint}"
        for variable, other in zip(left.binds, right.binds, strict=True) if left.scopes else ():
            bound = variable in self.right_of or other in self.left_of
            reason = self._shared(variable, other) if bound else self._compare(variable, other, True)
            if reason is not None:
                return reason
        if not _is_by_value(left):
            self._pair(left, right)
        return None

    def _same_variable(self, left: Id, right: Id, may_map: bool) -> bool:
        if left not in self.right_of and right not in self.left_of and (left is right or may_map):
            self._pair(left, right)
        return self.right_of.get(left) is right

    def _pair(self, left: Expr | Id, right: Expr | Id) -> None:
        self.right_of[left] = right
        self.left_of[right] = left

    def _nested(self, left: Expr, right: Expr) -> bool:
        """Whether two expressions that are attributes' values are equal."""
        return self.right_of.get(left) is right or structural_equal(left, right, self.map_free_vars)


def _definitions(module: IRModule) -> dict[str, object]:
    """Return, for each type that a module defines, what makes two definitions equal."""
    return {
        header.name_hint: (len(definition.type_vars), [(made.name_hint, made.type) for made in definition.constructors])
        for header, definition in module.type_definitions.items()
    }


_BY_VALUE = frozenset({Constant, Constructor, TupleGetItem, Op})


def _is_by_value(node: Expr) -> bool:
    """Whether it makes no difference if a node is shared."""
    return type(node) in _BY_VALUE or (type(node) is Tuple and not node.children())


def _operator(node: Expr) -> Op | None:
    return node.op if type(node) is Call and type(node.op) is Op else None


def _fields(node: Expr) -> tuple[tuple[str, object], ...]:
    """Return what must be equal, beside operators and operands, for two nodes to be equal."""
    if isinstance(node, Call):
        return (("attributes", node.attrs), ("type arguments", () if type(node.op) is Op else node.type_args or ()))
    if isinstance(node, Function):
        numbers = (("parameters", len(node.params)), ("type parameters", len(node.type_params)))
        return (*numbers, ("result type", node.ret_type), ("attributes", node.attrs))
    if isinstance(node, Var):
        unknown = type(node.type_annotation) is IncompleteType  # which says as much as no annotation
        declared = None if unknown else node.type_annotation
        return (("type", declared), ("device", node.virtual_device_))
    return (("value", node.data if isinstance(node, Constant) else node.payload),)


def _brief(node: Expr) -> str:
    if isinstance(node, Call) and isinstance(node.op, Op):
        return f"a call of {node.op.name}"
    if isinstance(node, (Var, GlobalVar)):
        return f"variable {node.name_hint}"
    return f"a {type(node).__name__}"


def int_dtype(value: int) -> str:
    """The dtype of an integer immediate: its own, else bool, int32, or int64 when it needs more bits."""
    declared: str | None = getattr(value, "dtype", None)
    if declared is not None:
        return declared
    if isinstance(value, bool):
        return "bool"
    return "int32" if -(2**31) <= value < 2**31 else "int64"


def values_equal(
    left: Any,
    right: Any,
    same: Callable[[Expr, Expr], bool] = structural_equal,
    type_vars: Mapping[Type, Type] | None = None,
) -> bool:
    """Whether two types or attribute values are equal; kinds count (True, 1, 1.0 and an int64 1 differ).

    Args:
        left, right: What to compare.
        same: Decides on expressions among them.
        type_vars: Type variable on the right -> the one on the left that it corresponds to, if it is another one.
    """
    renamed = dict(type_vars or {})
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, Expr) and isinstance(b, Expr):
            if not same(a, b):
                return False
            continue
        parts = _value_parts(a, b, renamed)
        if parts is None:
            return False
        stack.extend(parts)
    return True


def _value_parts(a: Any, b: Any, renamed: dict[Type, Type]) -> list[tuple[Any, Any]] | None:
    """Return the pairs that must be equal for ``a`` and ``b`` to be, None if they are not.

    Enters into ``renamed`` which type variables of function types correspond to each other.
    """
    if isinstance(a, float):
        close = isinstance(b, float) and (abs(a - b) < FLOAT_TOLERANCE or a == b or (math.isnan(a) and math.isnan(b)))
        return [] if close else None
    if isinstance(a, int):
        return [] if isinstance(b, int) and int(a) == int(b) and int_dtype(a) == int_dtype(b) else None
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return list(zip(a, b, strict=True)) if len(a) == len(b) else None
    if type(a) is not type(b):
        return None
    if isinstance(a, (np.ndarray, NDArray)):
        same = (a.dtype, a.shape) == (b.dtype, b.shape) and array(a).digest() == array(b).digest()
        return [] if same else None
    if isinstance(a, Mapping):
        if isinstance(a, Attrs) and a.type_key != b.type_key:
            return None
        return [(a[name], b[name]) for name in a] if a.keys() == b.keys() else None
    if isinstance(a, TensorType):
        return [(a.shape, b.shape)] if a.dtype == b.dtype else None
    if isinstance(a, FuncType):
        renamed.update(zip(b.type_params, a.type_params, strict=False))
        return [(len(a.type_params), len(b.type_params)), (a.arg_types, b.arg_types), (a.ret_type, b.ret_type)]
    if isinstance(a, (TupleType, TypeCall, RefType)):
        heads = [(a.func, b.func)] if isinstance(a, TypeCall) else []
        return [*heads, (type_parts(a), type_parts(b))]
    return [] if a == (renamed.get(b, b) if isinstance(b, Type) else b) else None


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash, equal for what :func:`structural_equal` calls equal.

    Args:
        node: an expression, module, type or attribute value.
        map_free_vars: whether graphs that differ in free variables only shall hash alike.
    """
    if isinstance(node, IRModule):
        names = sorted(variable.name_hint for variable in node.get_global_vars())
        return _digest([(name, _hash_graph(node[name], map_free_vars)) for name in names])
    return _hash_graph(node, map_free_vars) if isinstance(node, Expr) else _digest(_hashable(node))


def _hash_graph(root: Expr, map_free_vars: bool) -> int:
    free = frozenset() if map_free_vars else frozenset(free_vars(root))
    numbers: dict[Id, int] = {}
    places: dict[Expr, int] = {}  # of a node among those that may be shared, or its digest where sharing does not count
    shareable = 0
    state = hashlib.blake2b(digest_size=8)
    for node in post_order(root):
        number = None
        if isinstance(node, Var):
            number = id(node.vid) if node in free else numbers.setdefault(node.vid, len(numbers))
        children = [places[child] for child in node.children()]
        fields = [_hashable(value) for _, value in _fields(node) if value is not None]
        described = (type(node).__name__, number, fields, children)
        if _is_by_value(node):
            places[node] = _digest(described)
        else:
            places[node] = shareable = shareable + 1
            state.update(repr(described).encode())
    state.update(repr(places[root]).encode())
    return int.from_bytes(state.digest())


def _hashable(value: Any) -> object:
    """A form whose ``repr`` is equal for equal values; floats, equal within a tolerance, all look alike."""
    if isinstance(value, float):
        return "float"
    if isinstance(value, int):
        return (int_dtype(value), int(value))
    if isinstance(value, (tuple, list)):
        return [_hashable(item) for item in value]
    if isinstance(value, Mapping):
        return [(name, _hashable(value[name])) for name in sorted(value)]
    if isinstance(value, (np.ndarray, NDArray)):
        return array(value).digest()
    if isinstance(value, TensorType):
        return (value.dtype, _hashable(value.shape))
    if isinstance(value, Type):
        return (type(value).__name__, _hashable(type_parts(value)))
    return value if value is None or isinstance(value, (str, bytes)) else type(value).__name__


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest())
