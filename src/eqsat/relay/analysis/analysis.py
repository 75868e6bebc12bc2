"""Questions about graphs."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from eqsat.relay.expr import Call, Expr, Function, Op, Var
from eqsat.relay.generics import type_parts
from eqsat.relay.regions import AnnotatedRegion as AnnotatedRegion
from eqsat.relay.regions import AnnotatedRegionSet as AnnotatedRegionSet
from eqsat.relay.ty import FuncType, TensorType, Type, TypeVar
from eqsat.relay.visitor import children_first, post_order
from eqsat.relay.visitor import post_order_visit as post_order_visit


def all_vars(expr: Expr) -> list[Var]:
    """Return all variables of an expression, bound and free, in post-order."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def bound_vars(expr: Expr) -> list[Var]:
    """Return the variables that nodes of an expression bind, those of outer nodes before those of inner ones."""
    found: dict[Var, None] = {}
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            found.update(dict.fromkeys(node.binds))
            stack += reversed(node.children())
    return list(found)


def free_vars(expr: Expr) -> list[Var]:
    """Return the variables of an expression that nothing in it binds, in post-order.

    A variable is one object that one node binds, so a variable that is bound anywhere in the expression is not free.
    """
    nodes = post_order(expr)
    bound = {variable for node in nodes for variable in node.binds}
    return [node for node in nodes if isinstance(node, Var) and node not in bound]


def all_type_vars(expr: Expr | Type, mod: Any = None) -> list[TypeVar]:
    """Return all type variables of an expression or type, bound and free, each once.

    Args:
        expr: The expression or type.
        mod: Accepted as in TVM; the variables are those of ``expr`` itself.
    """
    return list(dict.fromkeys(part for part in _types_in(expr) if isinstance(part, TypeVar)))


def bound_type_vars(expr: Expr | Type, mod: Any = None) -> list[TypeVar]:
    """Return the type variables that functions and function types of an expression or type bind; see all_type_vars."""
    bound = (
        [node.type_params for node in post_order(expr) if isinstance(node, Function)] if isinstance(expr, Expr) else []
    )
    bound += [part.type_params for part in _types_in(expr) if isinstance(part, FuncType)]
    return list(dict.fromkeys(chain.from_iterable(bound)))


def free_type_vars(expr: Expr | Type, mod: Any = None) -> list[TypeVar]:
    """Return the type variables of an expression or type that nothing in it binds; see :func:`all_type_vars`."""
    bound = set(bound_type_vars(expr))
    return [variable for variable in all_type_vars(expr) if variable not in bound]


def all_dtypes(expr: Expr) -> set[str]:
    """Return the dtypes of the values of an expression whose types are inferred."""
    types = [node._checked_type for node in post_order(expr) if node._checked_type is not None]
    return {part.dtype for part in children_first(types, _type_parts) if isinstance(part, TensorType)}


def _types_in(expr: Expr | Type) -> list[Type]:
    """Return the types that an expression is written with, and what they are made of."""
    if isinstance(expr, Type):
        return children_first([expr], _type_parts)
    written: list[Type | None] = []
    for node in post_order(expr):
        if isinstance(node, Var):
            written.append(node.type_annotation)
        elif isinstance(node, Function):
            written += (*node.type_params, node.ret_type)
        elif isinstance(node, Call) and not isinstance(node.op, Op):
            written += node.type_args or ()
    return children_first([ty for ty in written if ty is not None], _type_parts)


def _type_parts(ty: Type) -> tuple[Type, ...]:
    return (*ty.type_params, *type_parts(ty)) if isinstance(ty, FuncType) else type_parts(ty)


def list_op_freqs(mod: Any) -> dict[str, int]:
    """Return how many calls of each operator there are in the functions of a module."""
    nodes = post_order(*mod.functions.values())
    return dict(Counter(node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, Op)))
