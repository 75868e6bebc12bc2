"""Attributes in the text form, and its metadata section: values that have no literal, as JSON.

The section is one object, ``{kind: [entry, ...]}``; ``meta[kind][i]`` in the text stands for its
``i``-th entry. Entries by kind:

* ``relay.Constant``, ``NDArray``, ``ndarray``: ``{"dtype", "shape", "data"}``, the data as base64 of the
  bytes, little-endian and in C order;
* ``Map``: ``{key: text}``, ``Attrs``: ``{"type_key", "values": {name: text}}``, where a text is the value as
  it would be written in the program;
* ``IntImm``: ``{"dtype", "value"}``; ``Type``: the type's text;
* any other class: null, the value cannot be read back.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from eqsat.nd import NDArray, array
from eqsat.relay.attrs import Attrs, freeze
from eqsat.relay.expr import Call, Constant, GlobalVar, Op
from eqsat.relay.literal import key_text, name_text, value_text
from eqsat.relay.op.op import REQUIRED
from eqsat.relay.ty import IntImm, Type


class MetadataWriter:
    """Collects the values that a text refers to as ``meta[kind][i]``."""

    def __init__(self) -> None:
        self._entries: dict[str, list[Callable[[], Any]]] = {}
        self._references: dict[int, str] = {}
        self._kept: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def attribute(self, value: Any) -> str:
        """The text of an attribute's value."""
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(self.attribute, value))}]"
        if isinstance(value, GlobalVar):
            return f"@{name_text(value.name_hint)}"
        return value_text(value) or self.reference(value)

    def named(self, name: str, value: Any) -> str:
        """The text of an attribute: ``name=value``."""
        return f"{key_text(name)}={self.attribute(value)}"

    def reference(self, value: Any) -> str:
        """``meta[kind][i]`` for ``value``; the same for the same object."""
        known = self._references.get(id(value))
        if known is None:
            kind, entry = self._entry(value)
            entries = self._entries.setdefault(kind, [])
            known = self._references[id(value)] = f"meta[{kind}][{len(entries)}]"
            entries.append(entry)
            self._kept.append(value)
        return known

    def text(self) -> str:
        """The section's JSON."""
        section = {kind: [entry() for entry in entries] for kind, entries in self._entries.items()}
        return json.dumps(section, ensure_ascii=False)

    def _entry(self, value: Any) -> tuple[str, Callable[[], Any]]:
        if isinstance(value, Constant):
            return "relay.Constant", lambda: _encode_array(value.data)
        if isinstance(value, NDArray):
            return "NDArray", lambda: _encode_array(value)
        if isinstance(value, np.ndarray):
            return "ndarray", lambda: _encode_array(array(value))
        if isinstance(value, Type):
            return "Type", lambda: str(value)
        if type(value) is IntImm:
            return "IntImm", lambda: {"dtype": value.dtype, "value": int(value)}
        if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
            texts = {name: self.attribute(item) for name, item in value.items()}
            if isinstance(value, Attrs):
                return "Attrs", lambda: {"type_key": value.type_key, "values": texts}
            return "Map", lambda: texts
        return type(value).__name__, lambda: None


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
        metadata.named(name, value)
        for name, value in attrs.items()
        if name not in untold or freeze(value) != untold[name]
    ]
    return told if op is schema else [*told, metadata.named("attrs_type_key", schema.name)]


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


def decode(kind: str, entry: Any, read_value: Callable[[str], Any], read_type: Callable[[str], Type]) -> Any:
    """Return the value of an entry, given as JSON; raise ValueError if it is not of that kind's form.

    ``read_value`` reads the text of an attribute's value, ``read_type`` that of a type.
    """
    reader = _READERS.get(kind)
    if reader is None or entry is None:
        raise ValueError("has no readable form")
    try:
        return reader(entry, read_value, read_type)
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"is malformed ({type(error).__name__}: {error})") from None


def _encode_array(data: NDArray) -> dict[str, Any]:
    raw = base64.b64encode(np.ascontiguousarray(data.numpy()).tobytes()).decode("ascii")
    return {"dtype": data.dtype, "shape": list(data.shape), "data": raw}


def _decode_array(entry: Any) -> np.ndarray[Any, Any]:
    raw = base64.b64decode(entry["data"], validate=True)
    return np.frombuffer(raw, dtype=np.dtype(entry["dtype"])).reshape(entry["shape"])


_READERS: dict[str, Callable[[Any, Callable[[str], Any], Callable[[str], Type]], Any]] = {
    "relay.Constant": lambda entry, value, ty: Constant(_decode_array(entry)),
    "NDArray": lambda entry, value, ty: array(_decode_array(entry)),
    "ndarray": lambda entry, value, ty: _decode_array(entry),
    "Type": lambda entry, value, ty: ty(entry),
    "IntImm": lambda entry, value, ty: IntImm(entry["dtype"], int(entry["value"])),
    "Map": lambda entry, value, ty: {name: value(text) for name, text in entry.items()},
    "Attrs": lambda entry, value, ty: Attrs(
        {name: value(text) for name, text in entry["values"].items()}, entry["type_key"]
    ),
}
