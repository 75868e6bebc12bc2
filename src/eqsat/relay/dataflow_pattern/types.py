"""The type of a sub-expression taken by itself, as type patterns ask for it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from eqsat.relay.expr import Expr, Var
from eqsat.relay.infer import extend_types
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order

_types: WeakKeyDictionary[Expr, Type] = WeakKeyDictionary()


def type_of(expr: Expr) -> Type:
    """The type that inference finds for ``expr`` alone, whatever its ``checked_type`` says.

    Nodes are immutable, so their types are remembered, except where a variable without annotation takes
    part: what is deduced for it depends on all its uses in ``expr``.

    Raises:
        TypeCheckError: ``expr`` does not type-check, or has a free variable without a type.
    """
    remembered = _types.get(expr)
    if remembered is not None:
        return remembered
    below = post_order(expr, children=lambda node: () if node in _types else node.children())
    types = {node: _types[node] for node in below if node in _types}
    extend_types(types, expr)
    if all(node.type_annotation is not None for node in below if isinstance(node, Var)):
        _types.update(types)
    return types[expr]
