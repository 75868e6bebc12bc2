"""The page about many models that were optimized one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.extraction.costs import as_tuple, figures
from eqsat.markup import Cell, Markup, facts, section, table
from eqsat.report_page.document import document


def render_models(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """The page about what became of each model of a folder, as HTML that loads nothing.

    Args:
        rows: what `eqsat optimize-all --json` prints of each model; ``source`` is the name that the page tells.
        title: what it is about, such as the folder.
    """
    failed = [row for row in rows if row["status"] == "failed"]
    parts = [_models([row for row in rows if row["status"] != "failed"])]
    if failed:
        parts.insert(0, _reasons(failed))
    return document(title, "models optimized", _summary(rows), parts)


def _summary(rows: Sequence[Mapping[str, Any]]) -> Markup:
    counts = Counter(row["status"] for row in rows)
    told = ", ".join(f"{counts[status]:,} {status}" for status in ("done", "skipped", "failed"))
    made = [row["facts"] for row in rows if row["facts"]]
    before, after = (sum(each["nodes"][when] for each in made) for when in ("before", "after"))
    costs = sorted({_told_cost(each["cost"]) for each in made})
    proved = sum(each["cost"]["optimal"] for each in made)
    pairs: list[tuple[str, object]] = [
        ("Models", f"{len(rows):,}: {told}"),
        ("ONNX nodes", f"{before:,} → {after:,}, Constants left out"),
        ("Cost by", "; ".join(costs) or "nothing"),
        ("Choice", f"proved optimal among all that the rules found for {proved:,} of {len(made):,}"),
        ("Seconds", sum(row["seconds"] for row in rows)),
    ]
    return facts(pairs)


def _told_cost(cost: Mapping[str, Any]) -> str:
    return f"{cost['model']}: {cost['unit']}" if cost["unit"] else str(cost["model"])


def _reasons(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Why models failed."""
    cells = [[row["source"], row["error"], row["seconds"]] for row in rows]
    return section("failed", "Failed", table("Models that failed", ["model", "why", "seconds"], cells))


def _models(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """What was made of models."""
    heads = ["model", "", "nodes before", "after", "cost before", "after", "saturation", "seconds"]
    return section("models", "Models", table("Models that were optimized", heads, map(_cells, rows)))


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    nodes, cost = row["facts"]["nodes"], row["facts"]["cost"]
    status = (
        f"{row['status']}, nothing proved" if row["facts"].get("verified", {}).get("proves_nothing") else row["status"]
    )
    costs = [_cost(cost[when]) for when in ("before", "after")]
    return [
        row["source"],
        status,
        nodes["before"],
        nodes["after"],
        *costs,
        row["facts"]["stop_reason"],
        row["seconds"],
    ]


def _cost(cost: Any) -> Cell:
    """A cost as a number where it is one, by which rows can be sorted."""
    numbers = as_tuple(cost)
    return numbers[0] if len(numbers) == 1 else figures(numbers)
