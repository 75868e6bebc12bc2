"""`eqsat optimize`: a cheaper model that computes the same."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eqsat.cli.options import PATH, STREAM, Settings, json_option, keep_apart, optimization_options, read_model
from eqsat.cli.progress import saturation_progress
from eqsat.egraph.report import Report
from eqsat.errors import ModelError
from eqsat.pipeline.explain import Change, Explanation
from eqsat.relay.expr import Call, Expr


@click.command(short_help="Write a cheaper model that computes the same.")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@optimization_options
@click.option("--report", "page", type=PATH, metavar="FILE.html", help="Also write a page that shows what was done.")
@click.option("--explain", is_flag=True, help="Tell which rule made each node, and the steps to the result.")
@click.option("--progress/--no-progress", default=None, help="Tell every iteration on stderr; so on terminals.")
@json_option
def optimize(
    source: Path,
    target: Path,
    page: Path | None,
    explain: bool,
    progress: bool | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Write to OUT a cheaper ONNX model that computes the same as IN; - stands for standard input or output."""
    with saturation_progress(progress) as tick:
        facts = optimize_file(source, target, Settings(**settings), tick, page, explain)
    to_stderr = target == STREAM
    click.echo(json.dumps(facts, indent=1), err=to_stderr) if as_json else _show(facts, Console(stderr=to_stderr))


def optimize_file(
    source: Path,
    target: Path,
    settings: Settings,
    on_iteration: Callable[[Report], None] | None = None,
    page: Path | None = None,
    explain: bool = False,
) -> dict[str, Any]:
    """Read a model, optimize it, verify it if asked to, and write it; what was found, as plain data.

    Args:
        source, target: files, or ``-``.
        settings: how.
        on_iteration: called with the report after every iteration of the saturation.
        page: where to write the report page, None for nowhere.
        explain: find out which rule made each node, and which steps lead to the result.
    """
    from eqsat import onnx

    keep_apart([page], [source, target])
    clock = time.perf_counter
    start = clock()
    given = read_model(source)
    model = settings.to_work_on(given)
    phases = {"load": clock() - start}
    done = onnx.run(model, settings.rules, settings.limits, settings.cost_model, settings.method, on_iteration, explain)
    if done.extraction.report.stop_reason == "interrupted":
        raise KeyboardInterrupt
    phases |= done.seconds
    differences = []
    if settings.runs:
        start = clock()
        differences = onnx.verify(given if source == STREAM else source, done.after, settings.runs)
        phases["verify"] = clock() - start
        if not settings.keep_differing:
            refuse_beyond(settings.tolerance, differences, lambda: to_blame(model, settings))
    facts = _facts(done, settings.cost, phases, differences)
    facts["nodes"]["before"] = node_count(given)
    explanations = done.explanations if explain else []
    made_by = _made_by(explanations)
    changes = [change for each in explanations for change in each.changes()]
    if explain:
        facts["made_by"] = dict(Counter(made_by.values()).most_common())
        facts["changes"] = list(map(asdict, changes))
    if page is not None:
        _write_page(page, source.name, done, settings, facts, made_by, changes)
    start = clock()
    write_model(done.after, target)
    phases["save"] = clock() - start
    return facts


def _made_by(explanations: Iterable[Explanation]) -> dict[Expr, str]:
    """The rule that made each operator of the result, or ``input``."""
    origins = [pair for explanation in explanations for pair in explanation.origins.items()]
    return {expr: rule for expr, rule in origins if isinstance(expr, Call)}


def _write_page(
    page: Path,
    title: str,
    done: Any,
    settings: Settings,
    facts: dict[str, Any],
    made_by: dict[Expr, str],
    changes: list[Change],
) -> None:
    from eqsat import report_page
    from eqsat.onnx.cost import OnnxCost
    from eqsat.onnx.imported import opset_of

    cost_model = OnnxCost(settings.cost_model, opset_of(done.before))
    told = {"ONNX nodes": f"{facts['nodes']['before']} → {facts['nodes']['after']}"}
    told |= {
        f"Output {each['output']}": f"differs by {_figure(each['relative'])} of its largest value"
        for each in facts["differences"]
    }
    report_page.write(
        page,
        report_page.render(
            done.extraction,
            title,
            cost_model=cost_model,
            made_by=made_by,
            changes=changes,
            facts=told,
            opaque=done.imported.opaque,
        ),
    )


def write_model(model: Any, target: Path) -> None:
    """Write a model to a file or to standard output."""
    from eqsat import onnx

    if target == STREAM:
        sys.stdout.buffer.write(onnx.to_bytes(model))
    else:
        onnx.save(model, target)


def refuse_beyond(tolerance: float, differences: list[Any], why: Callable[[], str] = str) -> None:
    """Raise ModelError when an output differs by more than ``tolerance`` of its largest value, and say why."""
    from eqsat import onnx

    for difference in onnx.differing(differences, tolerance):
        raise ModelError(
            f"output {difference.output!r} differs by {difference.relative:.3g} of its largest value, "
            f"more than {tolerance:g}: nothing is written{why()}"
        )


def to_blame(model: Any, settings: Settings, target: str | None = None) -> str:
    """The end of an error message: which rules made the difference, to the model optimized or cut for a target."""
    from eqsat import onnx

    names = onnx.blame(
        model,
        settings.rules,
        settings.limits,
        settings.cost_model,
        settings.method,
        settings.runs,
        settings.tolerance,
        target,
    )
    if names is None:
        return ""
    if not names:
        return "; no rule is to blame, it differs without any"
    told = ", ".join(map(repr, names))
    return f"; rule {told} is to blame" if len(names) == 1 else f"; rules {told} together are to blame"


def _facts(done: Any, cost: str, phases: dict[str, float], differences: list[Any]) -> dict[str, Any]:
    """All that a run found, as plain data."""
    report = done.extraction.report
    return {
        "nodes": {"before": node_count(done.before), "after": node_count(done.after)},
        "cost": {
            "model": cost,
            "before": done.input_cost,
            "after": done.cost,
            "lower_bound": _finite(done.lower_bound),
            "optimal": done.optimal,
        },
        "stop_reason": report.stop_reason,
        "iterations": len(report.iterations),
        "e_nodes": max((each.nodes for each in report.iterations), default=0),
        "rules": {
            rule.name: {"matches": rule.matches, "seconds": rule.seconds}
            for rule in report.rules.values()
            if rule.updates
        },
        "opaque": done.imported.opaque,
        "seconds": phases,
        "differences": [
            {"output": each.output, "absolute": _finite(each.absolute), "relative": _finite(each.relative)}
            for each in differences
        ],
    }


def _finite(number: float) -> float | None:
    """A number as JSON can hold it."""
    return number if math.isfinite(number) else None


def _figure(number: float | None) -> str:
    return "unbounded" if number is None else f"{number:.3g}"


def node_count(model: Any) -> int:
    """Nodes that are no constants."""
    return sum(node.op_type != "Constant" for node in model.graph.all_nodes())


def _show(facts: dict[str, Any], console: Console) -> None:
    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    nodes, cost = facts["nodes"], facts["cost"]
    line(f"nodes  {nodes['before']} -> {nodes['after']}")
    bound = cost["lower_bound"]
    proof = "proved least" if cost["optimal"] else "no bound known" if bound is None else f"at least {bound:.6g}"
    line(f"cost   {cost['before']:.6g} -> {cost['after']:.6g} ({cost['model']}, {proof})")
    line(f"ended  {facts['stop_reason']} after {facts['iterations']} iterations, {facts['e_nodes']} e-nodes")
    if facts["rules"]:
        console.print(_rule_table(facts["rules"]))
    for rule, count in facts.get("made_by", {}).items():
        line(f"made by {escape(rule)}: {count} operators")
    for change in facts.get("changes", []):
        line(f"step {escape(str(Change(**change)))}")
    for op_type, reasons in sorted(facts["opaque"].items()):
        for reason, count in reasons.items():
            line(f"passed through {count} {escape(op_type)}: {escape(reason)}")
    line("seconds  " + "  ".join(f"{phase} {seconds:.3f}" for phase, seconds in facts["seconds"].items()))
    for difference in facts["differences"]:
        line(
            f"output {escape(difference['output'])}: largest difference {_figure(difference['absolute'])}, "
            f"relative {_figure(difference['relative'])}"
        )


def _rule_table(rules: dict[str, Any]) -> Table:
    table = Table("rule", "matches", "seconds", box=None)
    for name, rule in sorted(rules.items(), key=lambda item: (-item[1]["matches"], item[0])):
        table.add_row(escape(name), str(rule["matches"]), f"{rule['seconds']:.4f}")
    return table
