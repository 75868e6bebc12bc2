"""Whether every e-node has its class's type: what shows a rule that joined classes of different types."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.egraph.facts import node_type
from eqsat.egraph.runner import Runner, StopRun
from eqsat.egraph.snapshot import Snapshot, take_snapshot
from eqsat.errors import RuleError, TypeCheckError
from eqsat.relay.generics import compatible
from eqsat.relay.ty import Type


def check_types(snapshot: Snapshot, again: Callable[[], Runner]) -> None:
    """Raise RuleError when a class holds e-nodes of different types.

    Args:
        snapshot: the e-graph.
        again: makes the runner anew; the run is repeated, with a look after every rule, to name the rule.
    """
    if find_clash(snapshot) is None:
        return
    blame: list[str] = []

    def look(runner: Runner, name: str) -> None:
        clash = find_clash(take_snapshot(runner.egraph))
        if clash is not None and not blame:
            blame.append(f"rule {name} joined a class of type {clash[0]} with one of type {clash[1]} ({clash[2]})")
            raise StopRun("clash")

    runner = again()
    runner.on_rule = look
    runner.run()
    clash = find_clash(snapshot)
    message = blame[0] if blame else f"a rule joined classes of types {clash[0]} and {clash[1]}" if clash else ""
    raise RuleError(f"{message}: a rule must keep shape and dtype")


def find_clash(snapshot: Snapshot) -> tuple[Type, Type, str] | None:
    """Type of a class, type of an e-node in it that does not fit, and the e-node's name; None when all fit."""
    types = snapshot.class_type
    type_ids: dict[Type, int] = {}
    ids = [-1 if ty is None else type_ids.setdefault(ty, len(type_ids)) for ty in types]
    starts, child = snapshot.child_start.tolist(), snapshot.child.tolist()
    memo: dict[tuple[int, ...], Type | None] = {}
    rows = zip(snapshot.node_class.tolist(), snapshot.node_symbol.tolist(), snapshot.node_atom.tolist(), strict=True)
    for node, (of, symbol, atom) in enumerate(rows):
        below = child[starts[node] : starts[node + 1]]
        if not below or ids[of] < 0:
            continue
        key = (ids[of], symbol, atom, *[ids[c] for c in below])
        if key in memo:
            continue
        found = memo[key] = _type_of(snapshot, symbol, atom, [types[c] for c in below])
        expected = types[of]
        if found is not None and expected is not None and not compatible(expected, found):
            return expected, found, snapshot.symbols[symbol].name
    return None


def _type_of(snapshot: Snapshot, symbol: int, atom: int, children: list[Type | None]) -> Type | None:
    known = [ty for ty in children if ty is not None]
    if len(known) < len(children):
        return None
    try:
        return node_type(snapshot.symbols[symbol], snapshot.atoms[atom].value, known)
    except TypeCheckError:
        return None
