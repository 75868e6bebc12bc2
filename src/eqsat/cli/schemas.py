"""JSON Schemas of the output of ``--json``, created from the types in :mod:`eqsat.cli.output`."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import typing
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, get_args, get_origin

import click

DIALECT = "https://json-schema.org/draft/2020-12/schema"

OPTION = "--json-schema"
HELP = "Print the JSON Schema of the output of --json and exit."

Schema = dict[str, Any]

_SIMPLE = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}


def print_json(told: Any, err: bool = False) -> None:
    """Print plain data as JSON on standard output or error; numbers that are not finite become null."""
    click.echo(json.dumps(_finite(told), indent=1, allow_nan=False), err=err)


def _finite(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _finite(value) for key, value in told.items()}
    if isinstance(told, (list, tuple)):
        return [_finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told


def schema_of(name: str) -> Schema:
    """Return the JSON Schema of the output of a command, such as ``rules list``."""
    from eqsat.cli.output import OUTPUTS

    return {"$schema": DIALECT, "title": f"eqsat {name} --json", **_schema(OUTPUTS[name])}


def offer_schema(command: click.Command, name: str) -> None:
    """Add the option that prints the schema to a command, or to the commands in a group."""
    if isinstance(command, click.Group):
        for each, inner in command.commands.items():
            offer_schema(inner, f"{name} {each}")
        return

    def show(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
        if wanted:
            print_json(schema_of(name))
            context.exit()

    if not any(OPTION in parameter.opts for parameter in command.params):
        command.params.append(
            click.Option([OPTION], is_flag=True, is_eager=True, expose_value=False, callback=show, help=HELP)
        )


def _schema(kind: Any) -> Schema:
    """Return the schema of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if origin is NotRequired:
        return _schema(arguments[0])
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    if origin in (UnionType, typing.Union):
        return _either([_schema(each) for each in arguments])
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is tuple:
        count = len(arguments)
        return {"type": "array", "prefixItems": list(map(_schema, arguments)), "minItems": count, "items": False}
    if origin is not None:  # a mapping
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    return _record(kind)


def _either(schemas: list[Schema]) -> Schema:
    simple = all(each.keys() == {"type"} for each in schemas)
    return {"type": [each["type"] for each in schemas]} if simple else {"anyOf": schemas}


def _record(kind: Any) -> Schema:
    """Return the schema of a dataclass or a TypedDict."""
    types = typing.get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        types = {field.name: types[field.name] for field in dataclasses.fields(kind)}
    summary, fields = _documented(kind)
    return {
        "description": summary,
        "type": "object",
        "properties": {name: {**_schema(each), "description": fields[name]} for name, each in types.items()},
        "required": [name for name, each in types.items() if get_origin(each) is not NotRequired],
        "additionalProperties": False,
    }


def _documented(kind: type) -> tuple[str, dict[str, str]]:
    """Return the descriptions of a class and of its fields in its docstring."""
    summary, _, rest = cleandoc(kind.__doc__ or "").partition("\n\n")
    fields = {}
    for names, text in re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n     .*)*)", rest, re.MULTILINE):
        fields.update(dict.fromkeys(names.split(", "), _words(text)))
    return _words(summary), fields


def _words(text: str) -> str:
    """Return text of a docstring as a sentence about JSON."""
    words = re.sub(r"\bNone\b", "null", " ".join(text.replace("``", "`").split()))
    return words[:1].upper() + words[1:]
