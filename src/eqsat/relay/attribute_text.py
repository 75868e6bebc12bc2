"""The text form of the attributes of calls and functions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from eqsat.relay.attrs import freeze
from eqsat.relay.expr import Call, Op
from eqsat.relay.literal import key_text
from eqsat.relay.metadata import MetadataWriter
from eqsat.relay.op.op import REQUIRED


def call_attributes(call: Call, metadata: MetadataWriter) -> list[str]:
    """Return the attributes of a call as they stand among its arguments, ``key=value``, but for defaults.

    Values that have no literal go into the metadata.
    """
    attrs, op = call.attrs, call.op
    if attrs is None:
        return ["attrs_type_key=None"] if isinstance(op, Op) and op.fields else []
    schema = Op.find(attrs.type_key)
    if schema is None or set(attrs) != {field.name for field in schema.fields}:
        return [metadata.reference(attrs)]
    untold = _untold(schema)
    told = [
        attribute_text(name, value, metadata)
        for name, value in attrs.items()
        if name not in untold or freeze(value) != untold[name]
    ]
    return told if op is schema else [*told, attribute_text("attrs_type_key", schema.name, metadata)]


def attribute_text(name: str, value: Any, metadata: MetadataWriter) -> str:
    """Return the text of one attribute: ``key=value``."""
    return f"{key_text(name)}={metadata.attribute(value)}"


@cache
def _untold(op: Op) -> dict[str, object]:
    """Return, for each attribute that may be left out, the frozen value at which it is.

    As in Relay that is the default as it is declared, before it is converted: padding (0, 0), which is stored as
    (0, 0, 0, 0), is not left out.
    """
    untold: dict[str, object] = {}
    for field in op.fields:
        if field.default is REQUIRED or field.told or (field.kind == "dtype" and field.default):
            continue  # Relay declares no dtype a default
        declared = freeze(replace(field, convert=None)(field.default))
        if declared == freeze(field(field.default)):
            untold[field.name] = declared
    return untold
