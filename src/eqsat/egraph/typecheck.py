"""Whether every e-node has its class's type: what shows a rule that joined classes of different types."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.facts import node_type
from eqsat.egraph.runner import Runner, StopRun
from eqsat.egraph.snapshot import Snapshot, take_snapshot
from eqsat.errors import RuleError, TypeCheckError
from eqsat.relay.generics import compatible
from eqsat.relay.ty import Type


def check_types(snapshot: Snapshot, again: Callable[[EGraph], Runner]) -> None:
    """Raise RuleError when a class holds e-nodes of different types.

    The run is repeated by the runner that ``again`` makes for another e-graph, with a look after every rule, to name
    the rule.
    """
    clash = find_clash(snapshot)
    if clash is None:
        return
    blame = [f"a rule joined classes of types {clash[0]} and {clash[1]}"]

    def look(runner: Runner, name: str) -> None:
        clash = find_clash(take_snapshot(runner.egraph))
        if clash is not None:
            blame.append(f"rule {name} joined a class of type {clash[0]} with one of type {clash[1]} ({clash[2]})")
            raise StopRun("clash")

    with closing(EGraph()) as egraph:
        runner = again(egraph)
        runner.on_rule = look
        runner.run()
    raise RuleError(f"{blame[-1]}: a rule must keep shape and dtype")


def find_clash(snapshot: Snapshot) -> tuple[Type, Type, str] | None:
    """Type of a class, type of an e-node in it that does not fit, and the e-node's name; None when all fit."""
    ids, known = snapshot.class_type_index, [*snapshot.types, None]
    ends = np.searchsorted(snapshot.node_symbol, np.arange(len(snapshot.symbols)), side="right").tolist()
    for index, (symbol, first, last) in enumerate(zip(snapshot.symbols, [0, *ends[:-1]], ends, strict=True)):
        if not symbol.arity or first == last:
            continue
        children = snapshot.child[snapshot.child_offsets[first] : snapshot.child_offsets[last]].reshape(
            -1, symbol.arity
        )
        nodes = slice(first, last)
        kinds = np.column_stack([ids[snapshot.node_class[nodes]], snapshot.node_atom[nodes], ids[children]])
        for of, atom, *below in _distinct_rows(kinds).tolist():
            expected = known[of]
            found = _type_of(snapshot, index, atom, [known[child] for child in below])
            if found is not None and expected is not None and not compatible(expected, found):
                return expected, found, symbol.name
    return None


def _distinct_rows(table: NDArray[np.int32]) -> NDArray[np.int32]:
    """Each different row of a table once."""
    least = table.min(axis=0)
    widths = (table.max(axis=0).astype(np.int64) - least + 1).tolist()
    if math.prod(widths) >= 1 << 62:
        return np.unique(table, axis=0)
    codes = np.zeros(len(table), dtype=np.int64)  # a row as one number: several times faster to sort
    for column, width in zip((table - least).T, widths, strict=True):
        codes = codes * width + column
    order = np.argsort(codes, kind="stable")
    return table[order[np.diff(codes[order], prepend=-1) > 0]]


def _type_of(snapshot: Snapshot, symbol: int, atom: int, children: list[Type | None]) -> Type | None:
    known = [ty for ty in children if ty is not None]
    if len(known) < len(children):
        return None
    try:
        return node_type(snapshot.symbols[symbol], snapshot.atoms[atom].value, known)
    except TypeCheckError:
        return None
