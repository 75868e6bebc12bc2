"""The command `eqsat partition`: turn each composite of a target into a call of a local function of an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from eqsat.cli.console import Line, line_on, table
from eqsat.cli.named import Named, load
from eqsat.cli.optimize import (
    NODES,
    Explained,
    show_explained,
    show_folded,
    write_model,
)
from eqsat.cli.options import (
    PATH,
    STREAM,
    Settings,
    Verification,
    check_outputs,
    json_option,
    page_option,
    progress_option,
    read_model,
    shared_options,
    verify_options,
)
from eqsat.cli.progress import saturation_progress
from eqsat.cli.schemas import print_json
from eqsat.cli.verified import exit_code, show_verified, to_blame, verified
from eqsat.errors import ArgumentError
from eqsat.relay.op.contrib.register import register_pattern_table
from eqsat.relay.transform.merge_composite import PatternTable, checked_table


def _target_names() -> list[str]:
    from eqsat.onnx.partitioning import targets

    return targets()


def _table(found: Any) -> PatternTable:
    """Return a named pattern table, or the one that a named function returns."""
    try:
        table = found() if callable(found) else found
    except Exception as error:  # whatever the function raises
        raise ArgumentError(f"it does not return a pattern table: {type(error).__name__}: {error}") from error
    if not isinstance(table, Sequence):
        raise ArgumentError("it is not a pattern table: give a list of (name, pattern) or (name, pattern, check)")
    checked_table(table)
    return table


def _registered(target: str) -> str:
    """Register the table of MODULE:TABLE, and return its target according to the names of its composites."""
    if ":" not in target:
        return target
    table = _table(load(target))
    prefixes = {name.partition(".")[0] if "." in name else "" for name, *_ in table} - {""}
    name = prefixes.pop() if len(prefixes) == 1 else target.rpartition(":")[2]
    register_pattern_table(name, lambda: table)
    return name


@click.command(short_help="Partition a model for a target.")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target_file", metavar="OUT", type=PATH)
@click.option(
    "--target",
    required=True,
    metavar="T",
    type=Named("target", _target_names, _table),
    help="Pattern table to use: dnnl, tensorrt, or MODULE:TABLE, a table of your own or a function that returns one.",
)
@click.option("--as-is", is_flag=True, help="Apply no rules; accept matches in the order of the table, as Relay does.")
@shared_options
@verify_options
@page_option
@progress_option
@json_option
@click.pass_context
def partition(
    context: click.Context,
    /,
    source: Path,
    target_file: Path,
    target: str,
    as_is: bool,
    settings: Settings,
    verification: Verification,
    page: Path | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Write to OUT the model IN with each composite of a target as one call of a local function.

    Rules and the pattern table act together, and the cheapest graph that they lead to is chosen. Many targets need
    known shapes: --dim also fixes the dimension in the written model.
    """
    from eqsat import onnx
    from eqsat.onnx.graphs import node_count

    check_outputs([page], [source], target_file)
    if as_is and page is not None:
        raise ArgumentError("--report shows what rules did, and --as-is uses no rules: leave out one of them")
    options = settings.options
    target = _registered(target)
    given = read_model(source)
    model = onnx.with_sizes(given, verification.dims)
    with saturation_progress(progress) as tick:
        if as_is:
            raised = onnx.at_opset(model, options.opset, provenance=options.provenance)
            done = onnx.merge(raised, target, provenance=options.provenance)
        else:
            done = onnx.partition(model, target, on_iteration=tick, options=options)
    reference = given if source == STREAM else source
    blame = (lambda: "") if as_is else (lambda: to_blame(model, options, verification, target))
    compared = verified(reference, done.after, verification, blame)
    explained = Explained.of(done.extraction.explanations) if done.extraction is not None and options.explain else None
    if page is not None:
        _write_page(page, source.name, done, options.runtime, explained)
    write_model(done.after, target_file)
    facts = {
        "nodes": {"before": node_count(model), "after": node_count(done.after)},
        "composites": dict(done.composites.most_common()),
        "runtime": options.runtime,
        "opaque": done.opaque,
        "folded": asdict(done.folded),
        **compared,
    }
    if done.unmatched is not None:
        facts["unmatched"] = asdict(done.unmatched)
    if explained is not None:
        facts |= explained.facts
    to_stderr = target_file == STREAM
    print_json(facts, err=to_stderr) if as_json else _show(facts, line_on(to_stderr))
    context.exit(exit_code(facts))


def _write_page(page: Path, title: str, done: Any, runtime: str, explained: Explained | None) -> None:
    from eqsat import report_page

    composites = ", ".join([f"{count} x {name}" for name, count in done.composites.most_common()])
    report_page.write(
        page,
        report_page.render(
            done.extraction,
            title,
            facts={"Composites": composites or "none", "Runtime": runtime},
            opaque=done.opaque,
            **({} if explained is None else vars(explained)),
        ),
    )


def _show(facts: dict[str, Any], line: Line) -> None:
    nodes, composites = facts["nodes"], facts["composites"]
    line(f"nodes  {nodes['before']} -> {nodes['after']} ({NODES})")
    line(f"composites  {sum(composites.values())} of {len(composites)} kinds")
    line(f"kernels of runtime {facts['runtime']}")
    if "unmatched" in facts:
        reason, open_sizes = facts["unmatched"]["reason"], facts["unmatched"]["open_sizes"]
        advice = f": give its size, as in --dim {open_sizes[0]}=1" if open_sizes else ""
        line(f"none: {reason}{advice}")
    for op_type, reasons in sorted(facts["opaque"].items()) if not composites else ():
        for reason, count in reasons.items():
            line(f"passed through {count} {op_type}: {reason}")
    if composites:
        table(line, ("function", "nodes"), [(name, str(count)) for name, count in composites.items()])
    show_explained(facts, line)
    show_folded(facts, line)
    show_verified(facts, line)
