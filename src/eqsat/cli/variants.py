"""The command `eqsat variants`: write random variants of a model that compute the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from eqsat.cli.console import Line, line_on
from eqsat.cli.options import (
    PATH,
    STREAM,
    Verification,
    check_outputs,
    json_option,
    read_model,
    rules_named,
    rules_option,
    verify_options,
)
from eqsat.cli.progress import activity
from eqsat.cli.schemas import print_json
from eqsat.cli.verified import exit_code, show_verified, verified
from eqsat.errors import FileError, ModelError
from eqsat.spellings.walk import COUNT, STEPS, Variant


@click.command(short_help="Write random variants of a model that compute the same values.")
@click.argument("source", metavar="IN", type=PATH)
@click.option("--count", type=click.IntRange(min=1), default=COUNT, show_default=True, help="Number of variants.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random choices.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=STEPS,
    show_default=True,
    help="Maximum number of rule applications for one variant.",
)
@click.option(
    "--out", type=PATH, default=Path("variants"), show_default=True, metavar="DIR", help="Folder to write to."
)
@rules_option
@verify_options
@json_option
@click.pass_context
def variants(
    context: click.Context,
    /,
    source: Path,
    count: int,
    seed: int,
    steps: int,
    out: Path,
    rules: tuple[str, ...],
    verification: Verification,
    as_json: bool,
) -> None:
    """Write models that compute the same values as the ONNX model IN in other ways.

    Rules are applied at random places, from left to right or from right to left. The same seed gives the same files.
    """
    from eqsat import onnx
    from eqsat.onnx.feeds import check_asked

    there = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise FileError(f"cannot write to {out}: {there} is not a folder")
    model = read_model(source)
    check_asked(model.graph.inputs, verification.dims)
    with activity("applying rules at random"):
        found = onnx.variants(model, count, seed, rules_named(rules), steps)
    if not found:
        raise ModelError(f"{source} has no variants, because no rule applies to it")
    name = "model" if source == STREAM else source.stem
    paths = [out / f"{name}_{number:0{len(str(count - 1))}}.onnx" for number in range(len(found))]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"cannot write to {out}: {error.strerror or error}") from None
    check_outputs(paths, [source])
    facts: dict[str, Any] = {"asked": count, "variants": []}
    for path, variant in zip(paths, found, strict=True):
        compared = verified(model, variant.graph, verification, lambda: f"; made by {', '.join(variant.rules)}")  # noqa: B023
        onnx.save(variant.graph, path)
        facts["variants"].append(_fact(path, variant) | compared)
    print_json(facts) if as_json else _show(facts, line_on())
    context.exit(max(map(exit_code, facts["variants"]), default=0))


def _fact(path: Path, variant: Variant[Any]) -> dict[str, Any]:
    from eqsat.onnx.graphs import node_count

    return {"file": str(path), "nodes": node_count(variant.graph), "rules": list(variant.rules)}


def _show(facts: dict[str, Any], line: Line) -> None:
    for each in facts["variants"]:
        line(f"{each['file']}  {each['nodes']} nodes, {len(each['rules'])} rules")
        if exit_code(each):
            show_verified(each, line)
    made, asked = len(facts["variants"]), facts["asked"]
    if made < asked:
        line(f"{made} of {asked}: no more variants were found with these rules and steps")
