"""The page about the command line, generated from the help texts and from the schemas of ``--json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from eqsat import cli
from eqsat.cli.schemas import schema_of

JSON = """
With `--json` a command prints one JSON value to standard output, or to standard error if standard output is the model
(`-`). The tables below list its fields; `eqsat COMMAND --json-schema` prints them as a [JSON
Schema](https://json-schema.org). Fields in italics are present only in the cases that their descriptions mention. `[]`
stands for the items of an array, and `*` for the names in an object with arbitrary names. Numbers are always finite.

Errors are not printed as JSON: bad input ends a command with exit code 2, one line on standard error, and nothing on
standard output. `optimize-all` and `extract` continue with the other files, and their exit code is 1 if some failed;
the rows of `optimize-all` also contain the errors.
"""

ELSEWHERE = ".facts."
"""Marks fields that the table of another command lists."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    codes = [f"| {code} | {what} |" for code, what in cli.EXIT_CODES.items()]
    parts = ["# Command line\n", "| exit code | meaning |\n|---|---|", *codes, JSON]
    with click.Context(cli.cli, info_name="eqsat") as context:
        for name in cli.cli.list_commands(context):
            cli.load_command(name)
            parts += _help(cli.cli.commands[name], f"eqsat {name}", context)
    files.append(File.generated(config, "commands.md", content="\n".join(parts)))
    return files


def _help(command: click.Command, name: str, parent: click.Context) -> list[str]:
    context = click.Context(command, info_name=name, parent=None)
    parts = [f"## {name}\n", f"```text\n{command.get_help(context)}\n```\n"]
    if not isinstance(command, click.Group):
        rows = _rows(schema_of(name.removeprefix("eqsat ")), "")
        told = [f"| {' | '.join(row)} |" for row in rows if ELSEWHERE not in row[0]]
        parts += ["| field of `--json` | type | meaning |\n|---|---|---|", *told, ""]
    else:
        for each, inner in sorted(command.commands.items()):
            parts += _help(inner, f"{name} {each}", context)
    return parts


def _rows(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """The fields inside of a schema: where each is, its type, and what it means."""
    for each in schema.get("anyOf", [schema]):
        for name, inner in each.get("properties", {}).items():
            field = f"`{path}{name}`"
            shown = field if name in each["required"] else f"*{field}*"
            yield shown, _type(inner), inner["description"]
            yield from _rows(inner, f"{path}{name}.")
        for step, inner in _contained(each):
            yield from _rows(inner, f"{path.removesuffix('.')}{step}.".removeprefix("."))


def _contained(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What an array holds, or an object of any names, and how a path says so."""
    for inner in [schema.get("items"), *schema.get("prefixItems", ())[:1]]:
        if inner:
            yield "[]", inner
    if schema.get("additionalProperties"):
        yield ".*", schema["additionalProperties"]


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    kind = schema["type"]
    held = "".join(f" of {_type(inner)}" for _, inner in _contained(schema))
    return f"{kind if isinstance(kind, str) else ' or '.join(kind)}{held}"
