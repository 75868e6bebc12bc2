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
from eqsat.relay.adt import Constructor, TypeData
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Id, Op, Tuple, TupleGetItem, Var
from eqsat.relay.generics import substitute_types, type_vars
from eqsat.relay.module import IRModule
from eqsat.relay.ty import FuncType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar
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
        tasks: Pairs of expressions that are still to compare, the next one last.
        type_vars: Type variable of the right side -> that of the left.
    """

    def __init__(self, map_free_vars: bool):
        self.map_free_vars = map_free_vars
        self.right_of: dict[Expr | Id, Expr | Id] = {}
        self.left_of: dict[Expr | Id, Expr | Id] = {}
        self.tasks: list[tuple[Expr, Expr]] = []
        self.type_vars: dict[TypeVar, Type] = {}

    def difference(self, lhs: Any, rhs: Any) -> str | None:
        """Describe the first difference; return None if there is none."""
        if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
            return self._modules(lhs, rhs)
        if isinstance(lhs, Expr) and isinstance(rhs, Expr):
            return self._exprs(lhs, rhs)
        return None if values_equal(lhs, rhs) else f"{lhs!r} and {rhs!r}"

    def _modules(self, lhs: IRModule, rhs: IRModule) -> str | None:
        left = {variable.name_hint: variable for variable in lhs.get_global_vars()}
        right = {variable.name_hint: variable for variable in rhs.get_global_vars()}
        if left.keys() != right.keys():
            return f"functions {sorted(left)} and {sorted(right)}"
        types = [{str(header): definition for header, definition in mod.type_definitions.items()} for mod in (lhs, rhs)]
        if types[0].keys() != types[1].keys():
            return f"types {sorted(types[0])} and {sorted(types[1])}"
        for name, definition in types[0].items():
            if not _same_definition(definition, types[1][name]):
                return f"definitions of type {name}"
        for name, variable in left.items():
            self._pair(variable, right[name])
        for name in left:
            difference = self._exprs(lhs[name], rhs[name])
            if difference is not None:
                return f"in @{name}: {difference}"
        return None

    def _exprs(self, lhs: Expr, rhs: Expr) -> str | None:
        self.tasks = [(lhs, rhs)]
        while self.tasks:
            left, right = self.tasks.pop()
            reason = self._compare(left, right)
            if reason is not None:
                self.tasks.clear()
                return f"{reason} (node {post_order(lhs).index(left)} of the left side in post-order)"
        return None

    def _compare(self, left: Expr, right: Expr) -> str | None:
        mapped = self.right_of.get(left)
        if mapped is not None:
            return None if mapped is right else f"{_brief(left)} is shared on the left only"
        if right in self.left_of:
            return f"{_brief(right)} is shared on the right only"
        kind = type(left)
        if kind is not type(right):
            return f"{_brief(left)} and {_brief(right)}"
        reason = _FIELDS.get(kind, _Comparison._others)(self, left, right)
        if reason is None and kind not in _BY_VALUE and not (kind is Tuple and not left.children()):
            self._pair(left, right)
        return reason

    def _pair(self, left: Expr | Id, right: Expr | Id) -> None:
        self.right_of[left] = right
        self.left_of[right] = left

    def _children(self, left: Expr, right: Expr) -> str | None:
        lefts, rights = left.children(), right.children()
        if len(lefts) != len(rights):
            return f"{_brief(left)} has {len(lefts)} operands and {_brief(right)} has {len(rights)}"
        self.tasks.extend(zip(reversed(lefts), reversed(rights), strict=True))
        return None

    def _others(self, left: Expr, right: Expr) -> str | None:
        if left.payload != right.payload:
            return f"{_brief(left)} with {left.payload} and one with {right.payload}"
        scopes = list(zip(left.scopes, right.scopes, strict=True))
        if not scopes:
            return self._children(left, right)
        for scope, other in scopes:
            for variable, counterpart in zip(scope.variables, other.variables, strict=True):
                reason = self._bind(variable, counterpart)
                if reason is not None:
                    return reason
        sides = [*zip(left.outside, right.outside, strict=True), *[(scope.body, other.body) for scope, other in scopes]]
        self.tasks.extend(reversed(sides))
        return None

    def _call(self, left: Call, right: Call) -> str | None:
        if not (left.attrs is right.attrs or values_equal(left.attrs, right.attrs, self._nested)):
            return f"{_brief(left)}: attributes {left.attrs} and {right.attrs}"
        if type(left.op) is Op and left.op is right.op and len(left.args) == len(right.args):
            self.tasks.extend(zip(reversed(left.args), reversed(right.args), strict=True))
            return None
        if type(left.op) is not Op and not self._same(left.type_args, right.type_args):
            return f"{_brief(left)}: type arguments {left.type_args} and {right.type_args}"
        if type(left.op) is Op is type(right.op) and left.op is not right.op:
            return f"{_brief(left)} and {_brief(right)}"
        return self._children(left, right)

    def _constant(self, left: Constant, right: Constant) -> str | None:
        if left is right or left.data is right.data:
            return None
        same = (left.data.dtype, left.data.shape) == (right.data.dtype, right.data.shape)
        return None if same and left.data.digest() == right.data.digest() else "constants of different value"

    def _var(self, left: Var, right: Var) -> str | None:
        return self._variables(left, right, self.map_free_vars)

    def _variables(self, left: Var, right: Var, may_map: bool) -> str | None:
        if not self._same(left.type_annotation, right.type_annotation):
            types = f"{left.type_annotation} and {right.type_annotation}"
            return f"variables %{left.name_hint} and %{right.name_hint} of types {types}"
        mapped = self.right_of.get(left.vid)
        if mapped is None and right.vid not in self.left_of and (left.vid is right.vid or may_map):
            self._pair(left.vid, right.vid)
            return None
        return None if mapped is right.vid else f"variables %{left.name_hint} and %{right.name_hint}"

    def _bind(self, left: Var, right: Var) -> str | None:
        if left in self.right_of or right in self.left_of:
            return None if self.right_of.get(left) is right else "binders of different variables"
        reason = self._variables(left, right, True)
        if reason is None:
            self._pair(left, right)
        return reason

    def _global_var(self, left: GlobalVar, right: GlobalVar) -> str | None:
        if left.name_hint == right.name_hint and (left is right or self.map_free_vars):
            return None
        return f"@{left.name_hint} and @{right.name_hint}"

    def _function(self, left: Function, right: Function) -> str | None:
        if len(left.params) != len(right.params):
            return f"functions of {len(left.params)} and {len(right.params)} parameters"
        if len(left.type_params) != len(right.type_params):
            return f"functions of {len(left.type_params)} and {len(right.type_params)} type parameters"
        self.type_vars.update(zip(right.type_params, left.type_params, strict=True))
        for param, other in zip(left.params, right.params, strict=True):
            reason = self._bind(param, other)
            if reason is not None:
                return reason
        if not self._same(left.ret_type, right.ret_type):
            return f"functions that give {left.ret_type} and {right.ret_type}"
        if not values_equal(left.attrs, right.attrs, self._nested):
            return f"functions with attributes {left.attrs} and {right.attrs}"
        self.tasks.append((left.body, right.body))
        return None

    def _same(self, left: Any, right: Any) -> bool:
        """Whether two types, absent ones or sequences of such are equal, with type variables bound around them."""
        if self.type_vars and isinstance(right, Type):
            right = substitute_types(right, self.type_vars)
        return values_equal(left, right)

    def _nested(self, left: Expr, right: Expr) -> bool:
        """Whether two expressions that are attributes' values are equal."""
        return self.right_of.get(left) is right or structural_equal(left, right, self.map_free_vars)


def _same_definition(left: TypeData, right: TypeData) -> bool:
    if len(left.type_vars) != len(right.type_vars) or len(left.constructors) != len(right.constructors):
        return False
    pairs = zip(left.constructors, right.constructors, strict=True)
    return all(a.name_hint == b.name_hint and values_equal(a.type, b.type) for a, b in pairs)


_BY_VALUE = frozenset({Constant, Constructor, TupleGetItem, Op})

_FIELDS: dict[type[Expr], Callable[[_Comparison, Any, Any], str | None]] = {
    Call: _Comparison._call,
    Constant: _Comparison._constant,
    Function: _Comparison._function,
    GlobalVar: _Comparison._global_var,
    Var: _Comparison._var,
}


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


def values_equal(left: Any, right: Any, same: Callable[[Expr, Expr], bool] = structural_equal) -> bool:
    """Whether two types or attribute values are equal; kinds count (True, 1, 1.0 and an int64 1 differ).

    ``same`` decides on expressions among them.
    """
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, Expr) and isinstance(b, Expr):
            if not same(a, b):
                return False
            continue
        parts = _value_parts(a, b)
        if parts is None:
            return False
        stack.extend(parts)
    return True


def _value_parts(a: Any, b: Any) -> list[tuple[Any, Any]] | None:
    """The pairs that must be equal for ``a`` and ``b`` to be, None when they are not."""
    if isinstance(a, float):
        close = isinstance(b, float) and (abs(a - b) < FLOAT_TOLERANCE or a == b or (math.isnan(a) and math.isnan(b)))
        return [] if close else None
    if isinstance(a, int):
        return [] if isinstance(b, int) and int(a) == int(b) and int_dtype(a) == int_dtype(b) else None
    if isinstance(a, np.ndarray):
        same = isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
        return [] if same else None
    if type(a) is not type(b):
        return None
    if isinstance(a, (tuple, list)):
        return list(zip(a, b, strict=True)) if len(a) == len(b) else None
    if isinstance(a, Mapping):
        if isinstance(a, Attrs) and a.type_key != b.type_key:
            return None
        return [(a[name], b[name]) for name in a] if a.keys() == b.keys() else None
    if isinstance(a, TensorType):
        return [(a.shape, b.shape)] if a.dtype == b.dtype else None
    if isinstance(a, TupleType):
        return [(a.fields, b.fields)]
    if isinstance(a, FuncType):
        if len(a.type_params) != len(b.type_params):
            return None
        renaming = dict(zip(b.type_params, a.type_params, strict=True))
        return [
            (a.arg_types, tuple(substitute_types(ty, renaming) for ty in b.arg_types)),
            (a.ret_type, substitute_types(b.ret_type, renaming)),
        ]
    if isinstance(a, TypeCall):
        return [(a.args, b.args)] if a.func == b.func else None
    if isinstance(a, RefType):
        return [(a.value, b.value)]
    return [] if a == b else None


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash, equal for what :func:`structural_equal` calls equal.

    Args:
        node: an expression, module, type or attribute value.
        map_free_vars: whether graphs that differ in free variables only shall hash alike.
    """
    if isinstance(node, IRModule):
        parts = [(name, _hash_graph(node[name], map_free_vars)) for name in sorted(map(_name, node.get_global_vars()))]
        return _digest(parts)
    return _hash_graph(node, map_free_vars) if isinstance(node, Expr) else _digest(_hashable(node))


def _name(variable: GlobalVar) -> str:
    return variable.name_hint


def _hash_graph(root: Expr, map_free_vars: bool) -> int:
    free = frozenset() if map_free_vars else frozenset(free_vars(root))
    numbers: dict[Id, int] = {}
    hashes: dict[Expr, int] = {}
    for node in post_order(root):
        payload: object
        if isinstance(node, Var):
            number = id(node.vid) if node in free else numbers.setdefault(node.vid, len(numbers))
            payload = (number, _hashable(node.type_annotation))
        else:
            payload = _payload(node)
        children = [hashes[child] for child in node.children()]
        hashes[node] = _digest((type(node).__name__, payload, children))
    return hashes[root]


def _payload(node: Expr) -> object:
    """A form of the node's payload that is equal for values which are equal within the tolerance."""
    if isinstance(node, Call):
        return _hashable(node.attrs)
    if isinstance(node, Function):
        return (_hashable(node.attrs), _hashable(node.ret_type))
    return node.payload


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
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes())
    if isinstance(value, Type):
        return str(substitute_types(value, dict.fromkeys(type_vars(value), _ANY_TYPE)))
    return value if value is None or isinstance(value, str) else type(value).__name__


_ANY_TYPE = TypeVar("T")


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest())
