"""The command `eqsat show`: print a graph as text or as a picture."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from eqsat.cli.options import PATH, STREAM, json_option
from eqsat.cli.schemas import print_json
from eqsat.cli.terminal import read_standard_input
from eqsat.errors import EqsatError, ModelError
from eqsat.relay import IRModule, viz
from eqsat.relay.expr import Call, Op
from eqsat.relay.visitor import post_order


@click.command(short_help="Print a graph as text or as a picture.")
@click.argument("file", type=PATH)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "svg", "dot"]),
    default="text",
    show_default=True,
    help="Relay text without weights, or a picture.",
)
@json_option
def show(file: Path, form: str, as_json: bool) -> None:
    """Print the graph of FILE, an ONNX model or Relay text; - is standard input."""
    module, opaque = _read(file)
    if as_json:
        print_json(_summary(module, opaque))
    elif form == "text":
        click.echo(module.astext(show_meta_data=False))
    else:
        click.echo(getattr(viz(module), form))


def _read(file: Path) -> tuple[IRModule, dict[str, Any]]:
    """Return the graph as a module, and the ONNX operators that are not understood, with the reasons."""
    try:
        data = read_standard_input() if file == STREAM else file.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {file}: {error.strerror or error}") from None
    text = _relay_text(data)
    if text is not None:
        from eqsat.parser import fromtext

        try:
            graph = fromtext(text)
        except EqsatError as error:
            raise ModelError(f"{file} is neither an ONNX model nor Relay text: {error}") from None
        return graph if isinstance(graph, IRModule) else IRModule.from_expr(graph), {}
    from eqsat import onnx

    model = onnx.from_bytes(data, "standard input") if file == STREAM else onnx.load(file)
    imported = onnx.import_model(model)
    return IRModule.from_expr(imported.function), imported.opaque


def _relay_text(data: bytes) -> str | None:
    """Return the text if the data is text; a model in protobuf contains bytes that no text contains."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    printable = all(character.isprintable() or character.isspace() for character in text)
    return text if printable and text.strip() else None


def _summary(module: IRModule, opaque: dict[str, Any]) -> dict[str, Any]:
    functions = {}
    for variable, function in module.functions.items():
        called = (node.op for node in post_order(function) if isinstance(node, Call))
        operators = Counter(op.name if isinstance(op, Op) else type(op).__name__ for op in called)
        functions[variable.name_hint] = {
            "parameters": {param.name_hint: str(param.type_annotation) for param in function.params},
            "operators": dict(sorted(operators.items())),
        }
    return {"functions": functions, "opaque": opaque}
