"""The page as a whole."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from os import PathLike
from string import Template

from eqsat.cost import CostFunction, OpCount
from eqsat.cost.models import unit_of
from eqsat.cost.target import TargetCost
from eqsat.errors import FileError
from eqsat.files import replacing
from eqsat.markup import as_json, join, text
from eqsat.orders.compare import OrderComparison
from eqsat.pipeline.explain import Change
from eqsat.pipeline.extract import Extraction
from eqsat.relay.expr import Expr
from eqsat.relay.module import IRModule
from eqsat.report_page import sections
from eqsat.report_page.graph import draw


def write(path: str | PathLike[str], page: str) -> None:
    """Write a page that :func:`render` made: the file is there whole, or as it was before.

    Raises:
        FileError: the file cannot be written.
    """
    try:
        with replacing(path) as written:
            written.write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None


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
        cost_model: the one that chose, by default ``OpCount()``.
        made_by: node of the result -> the rule that made it, or ``input``.
        changes: the steps from what was given to the result, as ``Explanation.changes()`` has them.
        orders: rewriting by the same rules in place, to be shown beside.
        facts: more to tell at the top, by name.
        opaque: operator -> reasons why nodes of it are not understood, with their number.

    Raises:
        EqsatError: the cost model fails.
    """
    model = cost_model or OpCount()
    unit = unit_of(model.model if isinstance(model, TargetCost) else model)
    result: Expr | IRModule = extraction.module if isinstance(extraction.source, IRModule) else extraction.expr
    before, after = draw(extraction.source, model), draw(result, model, made_by)
    parts = [
        sections.operators(before, after),
        sections.rules(extraction.report, Counter((made_by or {}).values())),
        sections.iterations(extraction.report),
    ]
    if changes:
        parts.append(sections.steps(changes))
    if orders is not None:
        parts.append(sections.orders(orders))
    if opaque:
        parts.append(sections.passed_through(opaque))
    script = _asset("page.js")
    return Template(_asset("page.html")).substitute(
        title=text(title),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=_asset("page.css"),
        script=script,
        summary=sections.summary(extraction, before, after, facts or {}, unit),
        sections=join(parts),
        graphs=as_json([before.columns, after.columns]),
    )


def _asset(name: str) -> str:
    return files("eqsat.report_page").joinpath(name).read_text(encoding="utf-8")
