"""Results of Relay v0.18 with the text it printed for them, rebuilt as expressions.

The README of the folder with the records describes the canonical form that is read here.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eqsat import relay
from eqsat.relay.op.op import make_attrs

FOLDER = Path(__file__).parents[1] / "data" / "relay_oracle"


def records(kind: str) -> Iterator[dict[str, Any]]:
    """The records of that kind that hold a text."""
    with lzma.open(FOLDER / f"{kind}.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record.get("text"):
                yield record


def rebuild(nodes: list[Any], outer: list[relay.Expr] | None = None, params: int = 0) -> list[relay.Expr]:
    """The expressions of a canonical list, one per node; the last is the root."""
    built: list[relay.Expr] = []
    for node in nodes:
        built.append(_BUILD[node[0]](node, built, outer or []))
    return built


def _call(node: Any, built: list[relay.Expr], outer: list[relay.Expr]) -> relay.Expr:
    op = relay.op.get(node[1])
    return relay.Call(op, [built[i] for i in node[2]], make_attrs(op, node[3]))


def _function(node: Any, built: list[relay.Expr], outer: list[relay.Expr]) -> relay.Expr:
    _, names, body, attrs = node
    inside = rebuild(body, built)
    params: list[Any] = inside[: len(names)]
    return relay.Function(params, inside[-1], attrs=attrs)


def _applied(node: Any, built: list[relay.Expr], outer: list[relay.Expr]) -> relay.Expr:
    return relay.Call(built[node[1]], [built[i] for i in node[2]])


def _var(node: Any, built: list[relay.Expr], outer: list[relay.Expr]) -> relay.Expr:
    return relay.var(node[1]) if node[2] is None else relay.var(node[1], shape=node[2], dtype=node[3])


_BUILD = {
    "var": _var,
    "const": lambda node, built, outer: relay.const(np.array(node[3], node[1]).reshape(node[2])),
    "call": _call,
    "callfn": _applied,
    "callexpr": _applied,
    "fn": _function,
    "op": lambda node, built, outer: relay.op.get(node[1]),
    "outer": lambda node, built, outer: outer[node[1]],
    "ref": lambda node, built, outer: built[node[1]],
    "tuple": lambda node, built, outer: relay.Tuple([built[i] for i in node[1]]),
    "tgi": lambda node, built, outer: relay.TupleGetItem(built[node[1]], node[2]),
}
