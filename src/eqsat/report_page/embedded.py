"""Pages inside notebooks: each is a document of its own in a frame, which loads and sees nothing else."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from eqsat.equality.result import Equality
from eqsat.markup import Markup, text
from eqsat.orders.compare import OrderComparison
from eqsat.pipeline.extract import Extraction
from eqsat.pipeline.saturate import Saturation
from eqsat.relay.expr import Expr
from eqsat.relay.module import IRModule
from eqsat.relay.visitor import post_order
from eqsat.report_page.page import render, render_equality, render_graph

NODES = 1500
"""Nodes of a graph that is shown in a frame. Scripts and style of a page take 180 kB, and each node some 500 bytes."""


def frame(thing: object) -> Markup | None:
    """What a notebook shows of something: its page in a frame, or None where it is too large for that."""
    if any(len(post_order(each)) > NODES for each in _graphs(thing)):
        return None
    page = _page(thing)
    escaped = page.replace("&", "&amp;").replace('"', "&quot;")
    style = "width: 100%; height: 44rem; border: 1px solid #8888; border-radius: 8px"
    return Markup(
        f'<iframe title="{text(type(thing).__name__)}" style="{style}" loading="lazy" sandbox="allow-scripts" '
        f'srcdoc="{escaped}"></iframe>'
    )


def _graphs(thing: Any) -> list[Expr]:
    """The graphs that a page shows."""
    if isinstance(thing, Equality):
        return [*thing.roots]
    if isinstance(thing, OrderComparison):
        thing = thing.extraction
    if isinstance(thing, (Extraction, Saturation)):
        thing = thing.source
    return [*thing.functions.values()] if isinstance(thing, IRModule) else [thing]


@singledispatch
def _page(thing: object) -> str:
    raise AssertionError(f"{type(thing).__name__} has no page")


@_page.register
def _(thing: Extraction) -> str:
    return render(thing, "Extraction")


@_page.register
def _(thing: OrderComparison) -> str:
    return render(thing.extraction, "Comparison of orders", orders=thing)


@_page.register
def _(thing: Saturation) -> str:
    return render_graph(thing.source, "Saturation", thing.report)


@_page.register
def _(thing: Equality) -> str:
    return render_equality(thing, "Equality")


@_page.register(Expr)
@_page.register(IRModule)
def _(thing: Expr | IRModule) -> str:
    return render_graph(thing, "Graph")
