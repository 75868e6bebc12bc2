"""The table of `benchmarks/peers.json`, as Markdown: what eqsat and its peers make of the same models.

    python benchmarks/peers_table.py

The README and the page of results show what this prints; a test compares.
"""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).with_name("peers.json")
"""What `benchmarks/peers.py --save` wrote."""


def figures() -> dict[str, Any]:
    """All figures, with date, machine and versions."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def summary() -> str:
    """A row for each tool: means over the models that it gets right."""
    rows = [
        "| tool | nodes left | latency | latency, onnxruntime's optimizer off | CPU seconds | wrong |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for tool, outcomes in figures()["tools"].items():
        right = [each for each in outcomes if not each["problem"]]
        nodes = _mean([each["nodes"] / each["before"] for each in right])
        on, off = (_mean([each[level] for each in right]) for level in ("on", "off"))
        seconds = sum(each["in_all"] for each in outcomes)
        wrong = f"{len(outcomes) - len(right)} of {len(outcomes)}"
        rows.append(f"| {tool} | {nodes:.0%} | {on:.3f} | {off:.3f} | {seconds:.1f} | {wrong} |")
    return "\n".join(rows)


def models() -> str:
    """A row for each model: the nodes and the milliseconds that each tool leaves."""
    found = figures()
    tools = found["tools"]
    rows = ["| model | given | " + " | ".join(tools) + " |", "|---|--:|" + "--:|" * len(tools)]
    for place, model in enumerate(found["models"]):
        outcomes = [each[place] for each in tools.values()]
        given = f"{outcomes[0]['before']}, {outcomes[0]['given_milliseconds']:.1f} ms"
        rows.append(f"| {model} | {given} | " + " | ".join(map(_cell, outcomes)) + " |")
    return "\n".join(rows)


def told() -> str:
    """When and on what the figures were measured."""
    found = figures()
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"Measured on {found['date']} ({found['machine']}; {versions}), in {found['rounds']} rounds."


def _cell(outcome: dict[str, Any]) -> str:
    if outcome["problem"]:
        return "wrong"
    return f"{outcome['nodes']}, {outcome['on'] * outcome['given_milliseconds']:.1f} ms"


def _mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


if __name__ == "__main__":
    print(summary(), "", models(), "", told(), sep="\n")
