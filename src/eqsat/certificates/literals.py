"""Attribute values as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.relay.ty import Any as AnyDim


class NotPlain(Exception):
    """Raised if a value cannot be represented in JSON; the argument describes the value."""


def literal_of(value: Any) -> Any:
    """An attribute value as JSON holds it.

    Raises:
        NotPlain: It cannot.
    """
    if isinstance(value, AnyDim):
        if value.terms is not None:
            raise NotPlain(f"{value!r} is an expression of sizes")
        return {"size": value.name}
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Sequence):
        return [literal_of(each) for each in value]
    raise NotPlain(f"{value!r} is of class {type(value).__name__}")


def attribute_of(literal: Any) -> Any:
    """The attribute value that a literal stands for.

    Raises:
        NotPlain: It stands for none.
    """
    if isinstance(literal, (bool, int, str, type(None))):
        return literal
    if isinstance(literal, list):
        return tuple([attribute_of(each) for each in literal])
    if isinstance(literal, dict) and list(literal) == ["size"] and isinstance(literal["size"], (str, type(None))):
        return AnyDim(literal["size"])
    if isinstance(literal, dict) and list(literal) == ["float"] and isinstance(literal["float"], str):
        try:
            return float.fromhex(literal["float"])
        except ValueError:
            pass
    raise NotPlain(f"{literal!r} is not an attribute value")
