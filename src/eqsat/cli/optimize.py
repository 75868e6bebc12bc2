"""The command `eqsat optimize`: write a cheaper model that computes the same values."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from eqsat.cli.arrays import read_arrays
from eqsat.cli.console import Line, line_on, table
from eqsat.cli.options import (
    MEASURED,
    PATH,
    PROFILE,
    STREAM,
    Settings,
    Verification,
    bench_option,
    certificate_option,
    check_outputs,
    json_option,
    measure_option,
    page_option,
    progress_option,
    read_model,
    shared_options,
    verify_options,
)
from eqsat.cli.progress import saturation_progress
from eqsat.cli.schemas import print_json
from eqsat.cli.verified import (
    exit_code,
    finite,
    measured,
    milliseconds,
    show_verified,
    to_blame,
    told_number,
    told_verified,
    verified,
)
from eqsat.cost.models import unit_of
from eqsat.egraph.report import Report
from eqsat.extraction.costs import figures
from eqsat.pipeline.explain import Change, Explanation
from eqsat.pipeline.options import Options
from eqsat.relay.expr import Call, Expr


@click.command(short_help="Write a cheaper model that computes the same values.")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@shared_options
@verify_options
@bench_option
@measure_option
@page_option
@certificate_option
@progress_option
@json_option
@click.pass_context
def optimize(
    context: click.Context,
    /,
    source: Path,
    target: Path,
    settings: Settings,
    verification: Verification,
    bench: bool,
    measure: bool,
    page: Path | None,
    certificate: Path | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Write to OUT a cheaper ONNX model that computes the same values as IN; - is standard input or output."""
    with saturation_progress(progress) as tick:
        facts = optimize_file(source, target, settings, verification, page, bench, tick, certificate, measure)
    to_stderr = target == STREAM
    print_json(facts, err=to_stderr) if as_json else _show(facts, line_on(to_stderr))
    context.exit(exit_code(facts))


def optimize_file(
    source: Path,
    target: Path,
    settings: Settings,
    verification: Verification,
    page: Path | None = None,
    bench: bool = False,
    on_iteration: Callable[[Report], None] | None = None,
    certificate: Path | None = None,
    measure: bool = False,
) -> dict[str, Any]:
    """Read, optimize, verify and write a model, and return the facts about it as plain data.

    Args:
        source, target: Files, or ``-``.
        settings, verification: How to optimize, and how to compare the result with the given model.
        page: The file of the report page; None for no page.
        bench: Whether to measure the latency of both models.
        on_iteration: A function that is called with the report after every iteration of a saturation.
        certificate: The file of the certificate; None for no certificate.
        measure: Whether to run candidates and choose the fastest.
    """
    from eqsat import onnx
    from eqsat.onnx.feeds import check_asked

    check_outputs([page, certificate], [source], target)
    clock = time.perf_counter
    start = clock()
    model = read_model(source)
    check_asked(model.graph.inputs, verification.dims)
    phases = {"load": clock() - start}
    is_proved = certificate is not None or verification.wanted
    options = replace(_sized(settings, verification), explain=is_proved or settings.explain)
    start = clock()
    raced = _fastest_of(model, options, settings, verification, on_iteration) if measure else None
    done = onnx.run(model, on_iteration=on_iteration, options=options) if raced is None else raced.done
    if done.extraction.report.stop_reason == "interrupted":
        raise KeyboardInterrupt
    phases |= done.seconds
    if raced is not None:
        phases["measure"] = clock() - start - sum(done.seconds.values())
    start = clock()
    reference = model if source == STREAM else source
    compared = verified(reference, done.after, verification, lambda: to_blame(model, options, verification))
    if verification.wanted:
        phases["verify"] = clock() - start
    made = None
    if certificate is not None:
        start = clock()
        made = onnx.certified(done)
        phases["certify"] = clock() - start
        compared["certificate"] = {
            "steps": len(made.certificate.steps),
            "keeps": made.certificate.soundness,
            "rules": sorted(made.certificate.rules),
            "uncovered": made.certificate.uncovered,
        }
    if verification.wanted:
        start = clock()
        found = onnx.proved(done, made)
        compared["proved"] = {**asdict(found), "told": str(found)}
        phases["prove"] = clock() - start
    if bench:
        start = clock()
        compared |= measured(reference, done.after, verification)
        phases["bench"] = clock() - start
    if not settings.rules and settings.cost == "opcount":
        start = clock()
        offer = onnx.finite_offer(done)
        phases["offer"] = clock() - start
    else:
        offer = None
    explained = Explained.of(done.explanations) if settings.explain else None
    offered = {} if offer is None else {"offer": {"nodes": offer.nodes, "rules": offer.rules, "told": str(offer)}}
    facts = (
        _facts(done, settings, phases)
        | ({} if raced is None else _race_facts(raced))
        | compared
        | offered
        | ({} if explained is None else explained.facts)
    )
    if page is not None:
        _write_page(page, source.name, done, facts, explained)
    start = clock()
    if made is not None and certificate is not None:
        made.certificate.save(certificate)
    write_model(done.after, target)
    phases["save"] = clock() - start
    return facts


def _sized(settings: Settings, verification: Verification) -> Options:
    """Return the options; a cost model that measures uses the given sizes of dynamic dimensions."""
    options = settings.options
    if settings.cost != MEASURED and not settings.cost.endswith(PROFILE):
        return options
    return replace(options, cost_model=options.cost_model.with_sizes(verification.dims))  # type: ignore[attr-defined]


def _fastest_of(
    model: Any,
    options: Any,
    settings: Settings,
    verification: Verification,
    on_iteration: Callable[[Report], None] | None = None,
) -> Any:
    """Run candidates of a model in turn; return their times and the fastest (:class:`eqsat.calibration.Fastest`)."""
    from eqsat.calibration import fastest

    inputs = [read_arrays(path) for path in verification.inputs]
    return fastest(
        model, setup=settings.setup, dims=verification.dims, inputs=inputs, on_iteration=on_iteration, options=options
    )


def _race_facts(raced: Any) -> dict[str, Any]:
    """Return the measurements as plain data; the cost is the time of the kernels of the chosen model."""
    from eqsat.calibration import Calibrated

    given, chosen = raced.candidates[0], raced.candidates[raced.chosen]
    return {
        "cost": {
            "model": MEASURED,
            "unit": Calibrated.unit,
            "before": given.predicted,
            "after": chosen.predicted,
            "lower_bound": None,
            "optimal": False,
        },
        "kernels": asdict(raced.known) | {"told": str(raced.known)},
        "candidates": {
            "threads": raced.setup.threads,
            "level": raced.setup.level,
            "inputs": raced.inputs,
            "noise": raced.noise,
            "told": str(raced),
            "measured": [
                asdict(each) | {"chosen": place == raced.chosen} for place, each in enumerate(raced.candidates)
            ],
        },
    }


@dataclass(frozen=True)
class Explained:
    """How a result follows from a model; its attributes are arguments of :func:`eqsat.report_page.render`.

    Attributes:
        made_by: Operator of the result -> the rule that created it, or ``input``.
        changes: The steps from the model to the result.
    """

    made_by: dict[Expr, str]
    changes: list[Change]

    @staticmethod
    def of(explanations: Sequence[Explanation]) -> Explained:
        """Return all explanations of a result in one record."""
        origins = [pair for explanation in explanations for pair in explanation.origins.items()]
        made_by: dict[Expr, str] = {expr: rule for expr, rule in origins if isinstance(expr, Call)}
        return Explained(made_by, [change for each in explanations for change in each.changes()])

    @property
    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        made_by = dict(Counter(self.made_by.values()).most_common())
        return {"made_by": made_by, "changes": list(map(asdict, self.changes))}


def _write_page(page: Path, title: str, done: Any, facts: dict[str, Any], explained: Explained | None) -> None:
    from eqsat import report_page

    told = {
        "ONNX nodes": f"{facts['nodes']['before']} → {facts['nodes']['after']}, Constants left out",
        "Runtime": facts["runtime"],
    }
    told |= {"Possible savings": facts["offer"]["told"]} if "offer" in facts else {}
    told |= {
        f"Output {each['output']}": f"differs by {told_number(each['relative'])} of its largest value"
        for each in facts["differences"]
    }
    told |= {head[0].upper() + head[1:].rstrip(":"): text for head, text in told_verified(facts)}
    for op_type, count in facts["folded"]["computed"].items():
        told[f"{op_type} of constants"] = f"{count} computed"
    for op_type, reasons in facts["folded"]["left"].items():
        told[f"{op_type} of constants, left"] = "; ".join([f"{count}: {reason}" for reason, count in reasons.items()])
    report_page.write(
        page,
        report_page.render(
            done.extraction,
            title,
            cost_model=done.options.cost_model,
            facts=told,
            opaque=done.imported.opaque,
            **({} if explained is None else vars(explained)),
        ),
    )


def write_model(model: Any, target: Path) -> None:
    """Write a model to a file or to standard output."""
    from eqsat import onnx

    if target == STREAM:
        sys.stdout.buffer.write(onnx.to_bytes(model))
    else:
        onnx.save(model, target)


def _facts(done: Any, settings: Settings, phases: dict[str, float]) -> dict[str, Any]:
    """Return the facts about a run as plain data."""
    from eqsat.onnx.graphs import node_count

    report = done.extraction.report
    return {
        "nodes": {"before": node_count(done.before), "after": node_count(done.after)},
        "cost": {
            "model": settings.cost,
            "unit": unit_of(done.options.cost_model.model),
            "before": done.input_cost,
            "after": done.cost,
            "lower_bound": finite(done.lower_bound),
            "optimal": done.optimal,
        },
        **_kernels(done.options.cost_model.model),
        "runtime": settings.runtime,
        "stop_reason": report.stop_reason,
        "iterations": len(report.iterations),
        "e_nodes": max((each.nodes for each in report.iterations), default=0),
        "rules": {
            rule.name: {"matches": rule.matches, "seconds": rule.seconds}
            for rule in report.rules.values()
            if rule.updates
        },
        "opaque": done.imported.opaque,
        "folded": asdict(done.folded),
        "seconds": phases,
    }


def _kernels(model: Any) -> dict[str, Any]:
    """Return what a cost model that measures knows about the kernels that were requested."""
    if "eqsat.calibration" not in sys.modules:  # no model measures then
        return {}
    from eqsat.calibration import Calibrated

    return {"kernels": asdict(model.known) | {"told": str(model.known)}} if isinstance(model, Calibrated) else {}


NODES = "of the ONNX model, Constants left out"
"""The definition of the printed number of nodes."""


def told_cost(cost: dict[str, Any]) -> str:
    """Return the name of the cost model, and its unit if that is known."""
    return f"{cost['model']}: {cost['unit']}" if cost["unit"] else cost["model"]


def _show(facts: dict[str, Any], line: Line) -> None:
    nodes, cost = facts["nodes"], facts["cost"]
    line(f"nodes  {nodes['before']} -> {nodes['after']} ({NODES})")
    bound = cost["lower_bound"]
    proof = "proved optimal" if cost["optimal"] else "no bound known" if bound is None else f"at least {figures(bound)}"
    line(f"cost   {figures(cost['before'])} -> {figures(cost['after'])} ({told_cost(cost)}; {proof})")
    line(f"kernels of runtime {facts['runtime']}" + (f": {facts['kernels']['told']}" if "kernels" in facts else ""))
    line(f"ended  {facts['stop_reason']} after {facts['iterations']} iterations, {facts['e_nodes']} e-nodes")
    if "candidates" in facts:
        _show_candidates(facts["candidates"], line)
    if facts["rules"]:
        _show_rules(facts["rules"], line)
    if "offer" in facts:
        line(facts["offer"]["told"])
    show_explained(facts, line)
    for op_type, reasons in sorted(facts["opaque"].items()):
        for reason, count in reasons.items():
            line(f"passed through {count} {op_type}: {reason}")
    show_folded(facts, line)
    if "certificate" in facts:
        show_certificate(facts["certificate"], line)
    line("seconds  " + "  ".join(f"{phase} {seconds:.3f}" for phase, seconds in facts["seconds"].items()))
    show_verified(facts, line)


def show_explained(facts: dict[str, Any], line: Line) -> None:
    """Print how a result follows from a model, if it was requested."""
    if facts.get("made_by"):
        line("operators of the result inside eqsat; a written node may contain several:")
    for rule, count in facts.get("made_by", {}).items():
        line(f"made by {rule}: {count} operators")
    for change in facts.get("changes", []):
        line(f"step {Change(**change)}")


def show_folded(facts: dict[str, Any], line: Line) -> None:
    """Print which nodes over constants that eqsat does not understand were computed, and which were kept and why."""
    for op_type, count in sorted(facts["folded"]["computed"].items()):
        line(f"computed {count} {op_type} of constants")
    for op_type, reasons in sorted(facts["folded"]["left"].items()):
        for reason, count in reasons.items():
            line(f"left {count} {op_type} of constants: {reason}")


def _show_candidates(found: dict[str, Any], line: Line) -> None:
    """Print the times of the models that ran in turn, and the times that their kernels predicted."""
    threads = found["threads"] or "its own number of"
    inputs = ", ".join(f"{name} {told}" for name, told in found["inputs"].items())
    line(f"ran in turn on {inputs}; {threads} threads, optimizer {found['level']}")
    rows = []
    for each in found["measured"]:
        name = ("* " if each["chosen"] else "  ") + each["name"]
        took = [each["problem"], ""]
        if each["measured"] is not None:
            took = [milliseconds(each["measured"]), f"{each['ratio']:.3f}"]
        rows.append((name, str(each["nodes"]), milliseconds(each["predicted"]), *took))
    table(line, ("candidate", "nodes", "predicted", "measured", "times"), rows)
    line(found["told"])


def show_certificate(found: dict[str, Any], line: Callable[[str], None]) -> None:
    """Print what a certificate proves."""
    told = f"{found['steps']} steps by {len(found['rules'])} rules, which keep: {found['keeps']}"
    line(f"certificate of {told}" if not found["uncovered"] else f"certificate of a part of the model: {told}")
    for each in found["uncovered"]:
        line(f"not proved: {each}")


def _show_rules(rules: dict[str, Any], line: Line) -> None:
    most_first = sorted(rules.items(), key=lambda item: (-item[1]["matches"], item[0]))
    rows = [(name, str(rule["matches"]), f"{rule['seconds']:.4f}") for name, rule in most_first]
    table(line, ("rule", "matches", "seconds"), rows)
