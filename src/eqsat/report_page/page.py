"""The pages about graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from eqsat.cost import CostFunction, OpCount
from eqsat.cost.models import unit_of
from eqsat.cost.target import TargetCost
from eqsat.egraph.report import Report
from eqsat.equality.result import Equality
from eqsat.errors import ArgumentError
from eqsat.markup import Markup, as_json, join, text
from eqsat.orders.compare import OrderComparison
from eqsat.pipeline.explain import Change
from eqsat.pipeline.extract import Extraction
from eqsat.relay.expr import Expr
from eqsat.relay.module import IRModule
from eqsat.relay.visitor import post_order
from eqsat.report_page import sections
from eqsat.report_page.document import asset, document
from eqsat.report_page.graph import draw
from eqsat.report_page.told import Told

PROVED = "proved equal"
"""What is said of a node that has an equal in the other graph."""

LIBRARIES = ["vendored/dagre/dagre.min.js", "vendored/uplot/uPlot.iife.min.js"]
SCRIPTS = ["layout.js", "data.js", "graph.js", "charts.js", "page.js"]
STYLE = "vendored/uplot/uPlot.min.css"


def render(
    extraction: Extraction,
    title: str,
    *,
    cost_model: CostFunction | None = None,
    made_by: Mapping[Expr, str] | None = None,
    changes: Sequence[Change] = (),
    orders: OrderComparison | None = None,
    facts: Mapping[str, str] | None = None,
    opaque: Mapping[str, Mapping[str, int]] | None = None,
) -> str:
    """The page about an extraction, as HTML that loads nothing.

    Args:
        extraction: what was given, what was chosen, and the report of the saturation.
        title: what it is about; a file's name, say.
        cost_model: the one that chose, where it is not the one that the extraction was asked for.
        made_by: node of the result -> the rule that made it, or ``input``.
        changes: the steps from what was given to the result, as ``Explanation.changes()`` has them.
        orders: rewriting by the same rules in place, to be shown beside.
        facts: more to tell at the top, by name.
        opaque: operator -> reasons why nodes of it are not understood, with their number.

    Raises:
        ArgumentError: ``extraction`` is no extraction.
        EqsatError: the cost model fails.
    """
    if not isinstance(extraction, Extraction):
        raise ArgumentError(f"a page is rendered of what eqsat.extract returns, not of {extraction!r}")
    posed = extraction.problems
    model = cost_model or (posed[-1].composed.model if posed else OpCount())
    unit = unit_of(model.model if isinstance(model, TargetCost) else model)
    result: Expr | IRModule = extraction.module if isinstance(extraction.source, IRModule) else extraction.expr
    told = Told(extraction, result, made_by)
    before, after = draw(extraction.source, model, told.before), draw(result, model, told.after)
    parts = [
        sections.operators(before, after),
        sections.rules(extraction.report, told.made),
        sections.iterations(extraction.report),
    ]
    if changes:
        parts.append(sections.steps(changes))
    if orders is not None:
        parts.append(sections.orders(orders))
    if opaque:
        parts.append(sections.passed_through(opaque))
    return _page(
        _Words(title, "what equality saturation did", "Before", "After", "made by", "rule", "rule"),
        sections.summary(extraction, before, after, facts or {}, unit),
        parts,
        told.columns(before, after),
    )


def render_graph(graph: Expr | IRModule, title: str, report: Report | None = None) -> str:
    """The page about one graph; its nodes have no costs.

    Args:
        graph: an expression, function or module, whose types need not be known.
        title: what it is about.
        report: what a saturation of it did, to be told as well.
    """
    drawing = draw(graph, None)
    parts = [] if report is None else [sections.rules(report, None), sections.iterations(report)]
    summary = sections.size(drawing, report)
    return _page(_Words(title, "a graph", "Graph", None, "made by", "kind", "rule"), summary, parts, [drawing.columns])


def render_equality(equality: Equality, title: str) -> str:
    """The page about an answer of :func:`eqsat.equal`: both graphs side by side, and where they part.

    Args:
        equality: the answer.
        title: what it is about; the names of files, say.
    """
    drawings = [draw(root, OpCount(), told) for root, told in zip(equality.roots, _told(equality), strict=True)]
    first, second = (drawing.exprs for drawing in drawings)
    at = {node: place for place, node in enumerate(first)}
    partners = [at.get(equality.partners.get(node, node), -1) for node in second]
    back = {partner: place for place, partner in enumerate(partners)}
    columns = [
        {**drawings[0].columns, "partner": [back.get(place, -1) for place in range(len(first))]},
        {**drawings[1].columns, "partner": partners},
    ]
    return _page(
        _Words(title, "are they equal?", "First", "Second", "found", "rule", "what was found"),
        sections.answer(equality),
        [sections.parting(equality), sections.proof(equality)],
        columns,
    )


def _told(equality: Equality) -> list[dict[Expr, str]]:
    """For each graph, what is said of its nodes."""
    parting = "they part here" if equality.difference is not None else "not proved"
    equal = {*equality.partners, *equality.partners.values()}
    found = []
    for side, root in enumerate(equality.roots):
        told = {node: PROVED if node in equal else "has no equal" for node in post_order(root)}
        for pair in equality.pairs:
            part = (pair.first, pair.second)[side]
            if part is not None:
                told[part.node] = parting
        found.append(told)
    return found


@dataclass(frozen=True)
class _Words:
    """What a page says in its frame: its title, and what its graphs and the column of rules are called.

    There is one graph where ``second`` is None.
    """

    title: str
    about: str
    first: str
    second: str | None
    rule: str
    colouring: str
    colouring_by_rule: str


def _page(words: _Words, summary: Markup, parts: Sequence[Markup], columns: Sequence[Mapping[str, Any]]) -> str:
    graphs = Template(asset("graphs.html")).substitute(
        {name: text(told or "") for name, told in vars(words).items()},
        figures=join(
            Markup(f'<figure class="graph"><figcaption>{text(name)}</figcaption></figure>')
            for name in (words.first, words.second)
            if name is not None
        ),
        columns=as_json(columns),
    )
    scripts = [*map(asset, LIBRARIES), "\n".join(map(asset, SCRIPTS))]
    return document(words.title, words.about, summary, [Markup(graphs), *parts], scripts, asset(STYLE))
