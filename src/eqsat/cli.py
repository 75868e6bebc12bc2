"""The command line: parse, call, show."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eqsat.errors import EqsatError, ModelError
from eqsat.extraction import EXTRACTORS

_PATH = click.Path(path_type=Path)


def main() -> None:
    """Run the command line; errors are one line on stderr and exit code 2, an interrupt is exit code 130."""
    try:
        sys.exit(cli(standalone_mode=False) or 0)
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "eqsat"
        click.echo(f"{command}: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("eqsat: interrupted, nothing is written", err=True)
        sys.exit(130)
    except EqsatError as error:
        click.echo(f"eqsat: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="eqsat")
def cli() -> None:
    """Equality saturation for tensor-compiler graphs."""


# ---- optimize


@cli.command()
@click.argument("source", metavar="IN", type=_PATH)
@click.argument("target", metavar="OUT", type=_PATH)
@click.option(
    "--rules", "rule_sets", multiple=True, metavar="SET", help="A rule set; repeat for more. See `eqsat rules list`."
)
@click.option(
    "--cost",
    type=click.Choice(["opcount", "roofline"]),
    default="opcount",
    show_default=True,
    help="What is minimized.",
)
@click.option(
    "--extract",
    "method",
    type=click.Choice(list(EXTRACTORS)),
    default="auto",
    show_default=True,
    help="How the result is chosen.",
)
@click.option("--iterations", type=int, default=30, show_default=True, help="Most rounds of all rules.")
@click.option("--nodes", type=int, default=200_000, show_default=True, help="Most e-nodes.")
@click.option("--seconds", type=float, default=30.0, show_default=True, help="Longest saturation.")
@click.option(
    "--verify", "runs", type=click.IntRange(min=0), default=0, metavar="N", help="Compare outputs on N random inputs."
)
@click.option(
    "--tolerance",
    type=float,
    default=1e-3,
    show_default=True,
    help="Relative difference beyond which nothing is written.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def optimize(
    source: Path,
    target: Path,
    rule_sets: tuple[str, ...],
    cost: str,
    method: str,
    iterations: int,
    nodes: int,
    seconds: float,
    runs: int,
    tolerance: float,
    as_json: bool,
) -> None:
    """Write to OUT a cheaper model that computes the same as IN."""
    from eqsat import onnx
    from eqsat.extraction import OpCount, Roofline
    from eqsat.stages import Limits

    limits = Limits(iterations=iterations, nodes=nodes, seconds=seconds)
    rules = _rules(rule_sets)
    start = time.perf_counter()
    model = onnx.load(source)
    loaded = time.perf_counter()
    with _progress("saturating") as tick:
        done = onnx.run(model, rules, limits, OpCount() if cost == "opcount" else Roofline(), method, on_iteration=tick)
    if done.extraction.report.stop_reason == "interrupted":
        raise KeyboardInterrupt
    phases = {"load": loaded - start, **done.seconds}
    differences = []
    if runs:
        start = time.perf_counter()
        differences = onnx.verify(source, done.after, runs)
        phases["verify"] = time.perf_counter() - start
        _refuse_beyond(tolerance, differences)
    start = time.perf_counter()
    onnx.save(done.after, target)
    phases["save"] = time.perf_counter() - start
    facts = _facts(done, cost, phases, differences)
    click.echo(json.dumps(facts, indent=1)) if as_json else _show(facts)


def _rules(names: tuple[str, ...]) -> Any:
    from eqsat.rules import sets

    unknown = [name for name in names if name not in sets]
    if unknown:
        raise click.UsageError(f"there is no rule set {unknown[0]!r}: choose from {', '.join(sets)}")
    return [sets[name] for name in names] or None


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    """A line on a terminal's stderr that tells sizes after every iteration."""
    with Console(stderr=True).status(what) as status:

        def tick(report: Any) -> None:
            last = report.iterations[-1]
            status.update(f"{what}: iteration {len(report.iterations)}, {last.nodes} e-nodes")

        yield tick


def _refuse_beyond(tolerance: float, differences: list[Any]) -> None:
    for difference in differences:
        if not difference.relative <= tolerance:
            raise ModelError(
                f"output {difference.output!r} differs by {difference.relative:.3g} of its largest value, "
                f"more than {tolerance:g}: nothing is written"
            )


def _facts(done: Any, cost: str, phases: dict[str, float], differences: list[Any]) -> dict[str, Any]:
    """All that a run found, as plain data."""
    extraction, report = done.extraction, done.extraction.report
    return {
        "nodes": {"before": _node_count(done.before), "after": _node_count(done.after)},
        "cost": {
            "model": cost,
            "before": extraction.input_cost,
            "after": extraction.cost,
            "lower_bound": extraction.lower_bound if math.isfinite(extraction.lower_bound) else None,
            "optimal": extraction.optimal,
        },
        "stop_reason": report.stop_reason,
        "iterations": len(report.iterations),
        "e_nodes": report.iterations[-1].nodes if report.iterations else 0,
        "rules": {
            rule.name: {"matches": rule.matches, "seconds": rule.seconds}
            for rule in report.rules.values()
            if rule.updates
        },
        "opaque": done.imported.opaque,
        "seconds": phases,
        "differences": [vars(difference) for difference in differences],
    }


def _node_count(model: Any) -> int:
    """Nodes that are no constants."""
    return sum(node.op_type != "Constant" for node in model.graph)


def _show(facts: dict[str, Any]) -> None:
    console = Console()
    nodes, cost = facts["nodes"], facts["cost"]
    console.print(f"nodes  {nodes['before']} -> {nodes['after']}", highlight=False)
    proof = "proved least" if cost["optimal"] else f"at least {cost['lower_bound']:.6g}"
    console.print(f"cost   {cost['before']:.6g} -> {cost['after']:.6g} ({cost['model']}, {proof})", highlight=False)
    console.print(
        f"ended  {facts['stop_reason']} after {facts['iterations']} iterations, {facts['e_nodes']} e-nodes",
        highlight=False,
    )
    console.print(_rule_table(facts["rules"]))
    for op_type, reasons in sorted(facts["opaque"].items()):
        for reason, count in reasons.items():
            console.print(f"passed through {count} {escape(op_type)}: {escape(reason)}", highlight=False)
    times = "  ".join(f"{phase} {seconds:.3f}" for phase, seconds in facts["seconds"].items())
    console.print(f"seconds  {times}", highlight=False)
    for difference in facts["differences"]:
        console.print(
            f"output {escape(difference['output'])}: largest difference {difference['absolute']:.3g}, "
            f"relative {difference['relative']:.3g}",
            highlight=False,
        )


def _rule_table(rules: dict[str, Any]) -> Table:
    table = Table("rule", "matches", "seconds", box=None)
    for name, rule in sorted(rules.items(), key=lambda item: (-item[1]["matches"], item[0])):
        table.add_row(escape(name), str(rule["matches"]), f"{rule['seconds']:.4f}")
    return table


# ---- show, rules


@cli.command()
@click.argument("file", type=_PATH)
def show(file: Path) -> None:
    """Print the graph of an ONNX model as Relay text, weights left out."""
    from eqsat import onnx
    from eqsat.relay import IRModule

    function = onnx.import_model(onnx.load(file)).function
    click.echo(IRModule.from_expr(function).astext(show_meta_data=False))


@cli.group()
def rules() -> None:
    """What the rules are."""


@rules.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def list_rules(as_json: bool) -> None:
    """Print the rule sets and their rules, with what each rule keeps of the values it rewrites."""
    from eqsat.egraph.rule import flatten
    from eqsat.rules import sets

    listed = {name: {rule.name: rule.soundness.value for rule in flatten(each)} for name, each in sets.items()}
    if as_json:
        click.echo(json.dumps(listed, indent=1))
        return
    table = Table("set", "rule", "keeps", box=None)
    for name, entries in listed.items():
        for index, (rule, soundness) in enumerate(entries.items()):
            table.add_row("" if index else name, rule, soundness)
    Console().print(table)
