"""The type of a sub-expression taken by itself, as type patterns ask for it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from eqsat.relay.expr import Expr, Var
from eqsat.relay.infer import infer_types
from eqsat.relay.ty import Type

_types: WeakKeyDictionary[Expr, Type] = WeakKeyDictionary()


def type_of(expr: Expr) -> Type:
    """The type that inference finds for ``expr`` alone, whatever its ``checked_type`` says.

    Nodes are immutable, so types are remembered; those of the nodes below too, unless a variable's type
    was deduced from its uses in ``expr``.

    Raises:
        TypeCheckError: ``expr`` does not type-check, or has a free variable without a type.
    """
    known = _types.get(expr)
    if known is None:
        found = infer_types(expr)
        known = found[expr]
        if all(node.type_annotation is not None for node in found if isinstance(node, Var)):
            _types.update(found)
        else:
            _types[expr] = known
    return known
