"""The parts of the page that are text, tables and charts: all but the charts read without the script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from eqsat.egraph.report import Report, RuleReport
from eqsat.equality.result import Equality, Part
from eqsat.extraction.costs import Cost, as_tuple, figure
from eqsat.markup import Cell, Markup, bar, chart, facts, section, table
from eqsat.orders.compare import OrderComparison
from eqsat.orders.rewriter import OrderRow
from eqsat.pipeline.explain import Change
from eqsat.pipeline.extract import Extraction
from eqsat.report_page.graph import Drawing

PLACES_LISTED = 3
"""Places that a row of the table of steps names."""

ORDERS_LISTED = 200
"""Rows of the table of orders: the cheapest."""


def _told(cost: Cost) -> str:
    return ", ".join(map(figure, as_tuple(cost)))


def summary(extraction: Extraction, before: Drawing, after: Drawing, counts: Mapping[str, str], unit: str) -> Markup:
    """What came of it, in a few numbers; ``unit`` is what the cost counts, if that is known."""
    report = extraction.report
    if extraction.optimal:
        proof = "proved optimal among all that the rules found"
    elif all(map(math.isfinite, as_tuple(extraction.lower_bound))):
        proof = f"no choice costs less than {_told(extraction.lower_bound)}"
    else:
        proof = "no bound is known"
    pairs: list[tuple[str, object]] = [
        ("Operators", f"{before.counts.total():,} → {after.counts.total():,} in the graph inside eqsat"),
        *counts.items(),
        ("Cost", f"{_told(extraction.input_cost)} → {_told(extraction.cost)} {unit}".rstrip()),
        ("Choice", proof),
        *_ended(report),
    ]
    return facts(pairs)


def _ended(report: Report) -> list[tuple[str, object]]:
    """How a saturation ended, and how large the e-graph was then."""
    told: list[tuple[str, object]] = [("Stopped", f"{report.stop_reason} after {len(report.iterations)} iterations")]
    last = [f"{each.nodes:,} e-nodes, {each.classes:,} classes" for each in report.iterations[-1:]]
    return [*told, *[("E-graph", size) for size in last]]


def operators(before: Drawing, after: Drawing) -> Markup:
    """Which operators there are, how many, and what they cost."""
    names = sorted(before.counts | after.counts, key=lambda name: (-before.counts[name], -after.counts[name], name))
    most = max([*before.counts.values(), *after.counts.values()], default=1)
    rows: list[list[Cell]] = [
        [
            name,
            before.counts[name],
            bar(before.counts[name] / most),
            after.counts[name],
            bar(after.counts[name] / most),
            before.costs.get(name, 0.0),
            after.costs.get(name, 0.0),
        ]
        for name in names
    ]
    heads = ["operator", "before", "", "after", "", "cost before", "cost after"]
    return section("operators", "Operators", table("Calls of each operator", heads, rows))


def size(drawing: Drawing, report: Report | None) -> Markup:
    """How large a graph is, and what a saturation of it came to."""
    pairs: list[tuple[str, object]] = [("Operators", f"{drawing.counts.total():,}")]
    return facts(pairs if report is None else [*pairs, *_ended(report)])


def rules(report: Report, made: Mapping[str, int] | None) -> Markup:
    """What each rule did, and how many nodes of a result it made, if there is one."""
    active = [rule for rule in report.rules.values() if rule.matches or rule.refusals or rule.bans]
    active.sort(key=lambda rule: (-rule.updates, -rule.matches, rule.name))
    rows = [_rule_row(rule, made) for rule in active]
    heads = ["rule", "matches", "runs that changed something", "bans", "seconds"]
    heads += ["refused"] if made is None else ["nodes of the result", "refused"]
    idle = len(report.rules) - len(active)
    told = f"{idle} more rules never matched." if idle else "Every rule matched."
    parts = [table("What each rule did", heads, rows), Markup(f"<p>{told}</p>")]
    if report.failures:
        failures = [[each.rule, each.message, each.traceback] for each in report.failures]
        parts.append(table("Rules that failed", ["rule that failed", "on what", "where"], failures))
    parts.append(table("Seconds by phase", ["phase", "seconds"], [[k, v] for k, v in report.phases.items()]))
    return section("rules", "Rules", *parts)


def _rule_row(rule: RuleReport, made: Mapping[str, int] | None) -> list[Cell]:
    refused = "\n".join(f"{count} × {reason}" for reason, count in rule.refusals.items())
    counts: list[Cell] = [] if made is None else [made.get(rule.name, 0)]
    return [rule.name, rule.matches, rule.updates, rule.bans, rule.seconds, *counts, refused]


def steps(changes: Sequence[Change]) -> Markup:
    """The rewrites that lead from the given graph to the result."""
    rows: list[list[Cell]] = [
        [
            change.rule if change.forward else f"{change.rule}, from right to left",
            change.count,
            " ".join(change.removed),
            " ".join(change.added),
            _places(change.places),
        ]
        for change in changes
    ]
    heads = ["rule", "steps", "removed", "added", "where"]
    return section("steps", "Steps", table("From the given graph to the result", heads, rows))


def _places(places: Sequence[str]) -> str:
    left_out = len(places) - PLACES_LISTED
    return "\n".join([*places[:PLACES_LISTED], *([f"and {left_out} more"] if left_out > 0 else [])])


def iterations(report: Report) -> Markup:
    """How the e-graph grew."""
    each = report.iterations
    rows = [[number, entry.nodes, entry.classes, entry.seconds] for number, entry in enumerate(each, 1)]
    return section(
        "iterations",
        "Iterations",
        Markup('<div class="charts">'),
        chart(
            "Size of the e-graph",
            "iteration",
            [
                ("e-nodes", "solid", [entry.nodes for entry in each]),
                ("classes", "solid", [entry.classes for entry in each]),
            ],
        ),
        chart("Seconds of each iteration", "iteration", [("seconds", "solid", [entry.seconds for entry in each])]),
        Markup("</div><details><summary>As numbers</summary>"),
        table("Iterations", ["iteration", "e-nodes", "classes", "seconds"], rows),
        Markup("</details>"),
    )


def orders(comparison: OrderComparison) -> Markup:
    """What rewriting in place comes to, order by order."""
    ranked = comparison.ranked
    told = (
        f"Of {len(ranked)} runs {len(comparison.ties)} reach the cost of saturation, {len(comparison.losses)} end "
        f"dearer and {len(comparison.looped)} go round in circles."
    )
    rows = [_order_row(row) for row in [comparison.saturation, *ranked[:ORDERS_LISTED]]]
    left_out = len(ranked) - ORDERS_LISTED
    return section(
        "orders",
        "Orders of rewriting",
        Markup(f"<p>{told}</p>"),
        _orders_chart(comparison),
        table("Cheapest first", ["rules in their order", "cost", "passes", "seconds", "ended"], rows),
        Markup(f"<p>{left_out} dearer ones are left out.</p>" if left_out > 0 else ""),
    )


def _orders_chart(comparison: OrderComparison) -> Markup:
    """Costs of the orders, cheapest first, on a logarithmic axis where all costs are above zero."""
    ranked = comparison.ranked

    def costs(*, settled: bool) -> list[float | None]:
        return [row.cost if (row.stop == "settled") is settled else None for row in ranked]

    series: list[tuple[str, str, Sequence[float | None]]] = [
        ("an order of rewriting", "", costs(settled=True)),
        ("one that did not settle", "", costs(settled=False)),
        ("saturation", "dashed", [comparison.saturation.cost] * len(ranked)),
        ("given graph", "dashed", [comparison.input_cost] * len(ranked)),
    ]
    return chart("Cost of the final graph by order of the rules", "orders, cheapest first", series, logarithmic=True)


def _order_row(row: OrderRow) -> list[Cell]:
    order = " › ".join(row.order)
    words = {"saturation": "all at once (saturation)", "random": f"at random: {order}"}
    return [words.get(row.kind, order), row.cost, row.passes, row.seconds, row.stop]


def passed_through(opaque: Mapping[str, Mapping[str, int]]) -> Markup:
    """Nodes of a model that no rule looks at, and why."""
    rows: list[list[Cell]] = [
        [kind, count, reason] for kind, reasons in sorted(opaque.items()) for reason, count in reasons.items()
    ]
    heads = ["operator", "nodes", "why"]
    return section("opaque", "Passed through", table("Nodes that are kept as they are", heads, rows))


def answer(equality: Equality) -> Markup:
    """Whether graphs are equal, in a few numbers."""
    pairs: list[tuple[str, object]] = [
        ("Answer", str(equality).splitlines()[0]),
        ("Proved", f"{equality.proved:,} of {equality.nodes:,} nodes of the second graph equal one of the first"),
        ("Inputs", f"evaluated on {equality.samples}" if equality.samples else "none needed"),
    ]
    return facts(pairs)


def parting(equality: Equality) -> Markup:
    """Where graphs part, or what is not proved of them."""
    rows: list[list[Cell]] = [
        [text_of for part in (pair.first, pair.second) for text_of in _node(part)] for pair in equality.pairs
    ]
    heads = ["first", "where", "second", "where"]
    what = "Where they part" if equality.difference is not None else "Not proved"
    told = table(what, heads, rows) if rows else Markup("<p>Nothing.</p>")
    return section("parting", what, told)


def _node(part: Part | None) -> tuple[str, str]:
    return ("nothing", "") if part is None else (part.expr.brief(1), part.place)


def proof(equality: Equality) -> Markup:
    """The rules of a proof."""
    rows: list[list[Cell]] = [[name, soundness.value] for name, soundness in equality.rules.items()]
    told = table("What the proof uses", ["rule", "keeps"], rows) if rows else Markup("<p>No rule was needed.</p>")
    return section("proof", "Proof", told if equality else Markup("<p>There is none.</p>"))
