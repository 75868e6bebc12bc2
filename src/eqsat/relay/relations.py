"""Types of calls of operators, by each operator's own type relation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from eqsat.errors import OperatorError, TypeCheckError
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.generics import UNKNOWN
from eqsat.relay.op.op import make_attrs
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Dim, IncompleteType, Type


def call_type(op: Op, attrs: Attrs | None, arg_types: list[Type]) -> Type:
    """The type of a call of an operator.

    It is unknown where the type of an argument is.

    Raises:
        TypeCheckError: The arguments do not fit; the message names the operator and the types.
    """
    if any(isinstance(ty, IncompleteType) for ty in arg_types) and not op.has(Trait.FOREIGN):
        return UNKNOWN
    if op.arguments is not None and len(arg_types) != len(op.arguments):
        raise TypeCheckError(f"{op.name} takes {len(op.arguments)} arguments {op.arguments}, not {len(arg_types)}")
    try:
        relation = _related if op.has(Trait.FOREIGN) else _related_once
        return relation(op, attrs, tuple(arg_types))
    except TypeCheckError as error:
        types = ", ".join(map(str, arg_types))
        raise TypeCheckError(f"{op.name}({types}): {error}") from None


def _related(op: Op, attrs: Attrs | None, arg_types: tuple[Type, ...]) -> Type:
    """The type by the operator's own relation."""
    if op.infer is None:
        raise TypeCheckError("there is no type relation")
    attrs = complete_attrs(op, attrs)
    for field in op.fields:
        if attrs is not None and field.choices and attrs[field.name] not in field.choices:
            raise TypeCheckError(f"{field.name} must be one of {list(field.choices)}, not {attrs[field.name]!r}")
    return op.infer(attrs, arg_types)


_related_once = lru_cache(maxsize=1 << 12)(_related)
"""Layers repeat. Attributes of opaque operators hold whole graphs: they are not kept."""


def refined_type(
    op: Op, attrs: Attrs | None, arg_types: list[Type], elements: Sequence[Sequence[Dim] | None]
) -> Type | None:
    """The type of a call of ``op`` as far as elements of its arguments decide it, None where they decide nothing.

    Args:
        op, attrs, arg_types: as for :func:`call_type`, which gave no error. Of unknown types nothing is decided.
        elements: of the arguments that are lists of integers; None for the others.
    """
    if op.refine is None or all(known is None for known in elements):
        return None
    if any(isinstance(ty, IncompleteType) for ty in arg_types):
        return None
    return op.refine(complete_attrs(op, attrs), arg_types, elements)


def complete_attrs(op: Op, attrs: Attrs | None) -> Attrs | None:
    """``attrs``, or of a call that was made by hand without any the operator's defaults.

    Raises:
        TypeCheckError: An attribute has no default.
    """
    if attrs is not None or not op.fields:
        return attrs
    try:
        return make_attrs(op, {})
    except OperatorError as error:
        raise TypeCheckError(f"the call has no attributes: {error}") from None
