"""Type inference of expressions and modules.

A variable without annotation gets its type from an operator that it is an argument of, if the operator can deduce it
(``deduce`` in the registry). A parameter of a function that is called where it is written gets that of the argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from eqsat.relay.adt import Constructor
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Op, Var
from eqsat.relay.generics import UNKNOWN, solve
from eqsat.relay.inferencer import Inferencer, named_dims
from eqsat.relay.module import IRModule
from eqsat.relay.ty import FuncType, Type, TypeVar
from eqsat.relay.visitor import children_first, post_order, rebuild

_types_alone: WeakKeyDictionary[Expr, Type] = WeakKeyDictionary()


def infer_types(
    root: Expr,
    module: IRModule | None = None,
    env: Mapping[Var, Type] | None = None,
    names: Iterator[str] | None = None,
) -> dict[Expr, Type]:
    """Find the type of every node of a graph but operators. Nothing is written to the nodes.

    Args:
        root: The graph.
        module: The module in which GlobalVars are looked up.
        env: Types of variables that hold instead of their annotations.
        names: Names for dimensions that operators leave unknown; each is used once. None leaves the dimensions
            without names, and so does a function in the graph: what it returns differs from call to call.

    Returns:
        The type of each node.

    Raises:
        TypeCheckError: A call does not type-check, or nothing decides the type of a variable. The message names the
            operator, its arguments and their types, or the variable.
    """
    types: dict[Expr, Type] = {}
    Inferencer(types, module, env, names).run(root)
    return types


def unknown_sizes() -> Iterator[str]:
    """Give the names by which sizes that nothing decides are told apart: ``#0``, ``#1``, ..."""
    return map("#{}".format, count())


def extend_types(types: dict[Expr, Type], root: Expr) -> None:
    """Add the types of ``root`` and of all nodes below it to ``types``; nodes that are in it are not looked into.

    Raises:
        TypeCheckError: As for :func:`infer_types`.
    """
    Inferencer(types).run(root)


def type_of(expr: Expr) -> Type:
    """Find the type of an expression by itself, as type patterns ask for it, whatever its ``checked_type`` says.

    Nodes are immutable, so their types are remembered, except where a variable without annotation takes part: what is
    deduced for it depends on all its uses in ``expr``.

    Raises:
        TypeCheckError: As for :func:`infer_types`.
    """
    if expr in _types_alone:
        return _types_alone[expr]
    below = post_order(expr, children=lambda node: () if node in _types_alone else node.children())
    types = {node: _types_alone[node] for node in below if node in _types_alone}
    extend_types(types, expr)
    if all(node.type_annotation is not None for node in below if isinstance(node, Var)):
        _types_alone.update(types)
    return types[expr]


def infer_type(root: Expr, module: IRModule | None = None) -> Expr:
    """Return a copy of a graph in which every node has its type as ``checked_type``.

    Parameters are annotated with their types and functions with the types of their results. GlobalVars are looked up
    in ``module``.

    Raises:
        TypeCheckError: As for :func:`infer_types`.
    """
    return _typed_copies(infer_types(root, module))[root]


def infer_type_local(expr: Expr) -> Type:
    """Find the type of one node from the types that are known of what is below it, and write it to the node.

    Where an operand has no ``checked_type``, its type is found the same way, but not written down.

    Raises:
        TypeCheckError: As for :func:`infer_types`.
    """
    below = post_order(expr, children=lambda node: () if node._checked_type and node is not expr else node.children())
    types = {node: node._checked_type for node in below if node._checked_type is not None and node is not expr}
    extend_types(types, expr)
    expr._checked_type = types[expr]
    return types[expr]


def infer_module(module: IRModule) -> IRModule:
    """Return a copy of a module with :func:`infer_type` done to every function, to callees before their callers."""
    return infer_module_types(module)[0]


def infer_module_types(module: IRModule) -> tuple[IRModule, dict[str, dict[Expr, Type]]]:
    """Do :func:`infer_module`, and say the type of each node of the result without another inference.

    Returns:
        The typed module, and for each function by name what :func:`infer_types` gives of it with
        :func:`unknown_sizes` as names.
    """
    typed = IRModule(module.functions, module.type_definitions, module.attrs)
    types: dict[str, dict[Expr, Type]] = {}
    for name in callees_first(module):
        found = infer_types(module[name], typed)
        new: dict[Expr, Any] = _typed_copies(found)
        typed[name] = new[module[name]]
        if any(named_dims(ty, unknown_sizes()) is not ty for ty in found.values()):
            found = infer_types(module[name], typed, names=unknown_sizes())
        types[name.name_hint] = {new[node]: ty for node, ty in found.items()}
    return typed, types


def callees_first(module: IRModule) -> list[GlobalVar]:
    """Return the GlobalVars of all functions; that of a function comes after those that it calls, if none recurs."""

    def callees(name: str) -> list[str]:
        used = [node.name_hint for node in post_order(module[name]) if isinstance(node, GlobalVar)]
        return [callee for callee in used if callee in module]

    names = children_first([variable.name_hint for variable in module.functions], callees)
    return [module.get_global_var(name) for name in names]


def _typed_copies(types: Mapping[Expr, Type]) -> dict[Expr, Expr]:
    """Return a typed copy of each node; children come before what they are in."""
    new: dict[Expr, Expr] = {}
    for node in types:
        new[node] = _typed(node, types, new)
    return new


def _typed(node: Expr, types: Mapping[Expr, Type], new: dict[Expr, Expr]) -> Expr:
    """Return a copy of ``node`` with its type, over its ``new`` children, or the node if that is what it is."""
    copy, ty = rebuild(node, new), types[node]
    type_args = _type_args(node, types) if isinstance(node, Call) else ()
    as_it_was = copy is node and node._checked_type == ty and type_args == (getattr(node, "type_args", None) or ())
    if as_it_was or isinstance(node, (GlobalVar, Constructor)):
        return node
    if isinstance(copy, Var):
        copy = Var(copy.vid, ty)._carry(copy)
    elif isinstance(copy, Constant):
        copy = Constant(copy.data)._carry(copy)
    elif isinstance(copy, Function) and isinstance(ty, FuncType):
        copy = Function(copy.params, copy.body, ty.ret_type, copy.type_params, copy.attrs)._carry(copy)
    elif isinstance(copy, Call):
        copy = Call(copy.op, copy.args, copy.attrs, type_args)._carry(copy)
    elif copy is node:
        copy = node.with_children(node.children())
    copy._checked_type = ty
    return copy


def _type_args(call: Call, types: Mapping[Expr, Type]) -> tuple[Type, ...]:
    """Return the types of an operator's arguments, or what the type parameters of a function stand for."""
    args = [types[arg] for arg in call.args]
    if isinstance(call.op, Op):
        return tuple(args)
    callee = types[call.op]
    if not isinstance(callee, FuncType):
        return ()
    found: dict[TypeVar, Type] = dict.fromkeys(callee.type_params, UNKNOWN)
    for wanted, given in zip(callee.arg_types, args, strict=False):
        solve(wanted, given, found)
    return tuple(found.values())
