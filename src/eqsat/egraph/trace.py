"""What rules matched and made, noted by the engine itself: enough to tell by which rules an e-node came about.

A journal (:mod:`eqsat.egraph.journal`) keeps terms, so that equality can be proved; for that Python reads all matches
in every iteration. A trace keeps one row of classes for each match, which the engine keeps up to date as classes become
one, and is read once, when the run is over. A *stamp* tells when the match was found: a class of a sort of its own that
is made anew for each run of rules, so that of two stamps the later one is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import Engine
from eqsat.egraph.journal import Journal, Log, Made
from eqsat.egraph.nodes import Nodes
from eqsat.egraph.query import MatchedNode, Query
from eqsat.egraph.snapshot import Snapshot, read_tables
from eqsat.relay.visitor import children_first

Key: TypeAlias = tuple[int, ...]
"""An e-node: its symbol, its atom, the classes of its children."""

UNKNOWN = -1
"""In the place of a class that has no e-node any more."""

_MATCHES = "matches"
_TICK = "tick"


class TracedLog(Log):
    """The matches of one alternative of a rule, as rows of classes and atoms."""

    @cached_property
    def columns(self) -> dict[str, str]:
        """Variables and their sorts: all classes that matched or were made, then atoms."""
        classes = [*self.query.class_variables, *[each.variable for each in self.made]]
        return {**dict.fromkeys(classes, "Expr"), **dict.fromkeys(self.atoms, "i64")}

    @property
    def premises(self) -> list[str]:
        """None: rows hold the classes themselves."""
        return []

    @property
    def action(self) -> str:
        """The action that puts a row aside, with the stamp of now."""
        return f"(set ({self.table} {' '.join(self.columns)}) (now))"

    @property
    def sorts(self) -> tuple[str, ...]:
        """The sorts of the columns."""
        return tuple(self.columns.values())


class Node(NamedTuple):
    """An e-node of a match.

    Attributes:
        of: Its class.
        key: What it is.
    """

    of: int
    key: Key


class Match(NamedTuple):
    """A match of a rule, over the classes of a snapshot.

    Attributes:
        stamp: When it was found; a later one is larger.
        rule: The rule's name.
        matched: The e-nodes that matched.
        made: Those that the rule made.
        pairs: For each root the key of the e-node that matched there, and of that which the rule equated it with; None
            where that is all that a class is.
        leaves: The classes of which the match asks no e-node.
    """

    stamp: int
    rule: str
    matched: Sequence[Node]
    made: Sequence[Node]
    pairs: Sequence[tuple[int, Key | None, Key | None]]
    leaves: Sequence[int]


@dataclass(frozen=True)
class Matches:
    """The matches that the engine noted of one alternative of a rule, over the classes of a snapshot.

    Attributes:
        log: What the columns are.
        cells: The rows.
        stamps: Of each row.
    """

    log: TracedLog
    cells: NDArray[np.int64]
    stamps: NDArray[np.int64]

    @cached_property
    def place(self) -> dict[str, int]:
        """Variable -> column."""
        return {name: column for column, name in enumerate(self.log.columns)}

    @cached_property
    def lists(self) -> list[list[int]]:
        """The rows as lists."""
        found: list[list[int]] = self.cells.tolist()
        return found

    def keys(self, made: Made) -> Iterator[Key]:
        """The key of an e-node that the rule makes, row by row."""
        columns = [self.place[child] for child in made.children]
        atom = None if made.has_known_atom else self.place[made.atom]
        number = int(made.atom) if atom is None else 0
        for row in self.lists:
            yield (made.symbol, number if atom is None else row[atom], *[row[column] for column in columns])

    def match(self, index: int) -> Match:
        """A row as a match."""
        row, place, log = self.lists[index], self.place, self.log

        def node(variable: str, symbol: int, atom: str, children: Sequence[str]) -> Node:
            value = row[place[atom]] if atom in place else int(atom)
            return Node(row[place[variable]], (symbol, value, *[row[place[child]] for child in children]))

        heads = {name: node(name, head.symbol, head.atom, head.children) for name, head in log.heads.items()}
        made = {each.variable: node(*each) for each in log.made}
        nodes = {**heads, **made}
        keys = {name: each.key for name, each in nodes.items()}
        pairs = [(row[place[root]], keys.get(root), keys.get(result)) for root, result in log.pairs]
        leaves = [row[place[leaf]] for leaf in log.leaves]
        return Match(int(self.stamps[index]), log.rule, list(heads.values()), list(made.values()), pairs, leaves)


class Noted(NamedTuple):
    """What a rule whose right side is Python did with a match; classes are told by handles.

    Attributes:
        rule: Its name.
        root: The root that matched.
        result: What the rule equated it with.
        matched: For each match that the rule took, that of the root first, its e-nodes, that of its own root last:
            symbol, atom, children. A negative child is an e-node of the same match, counted as ``~index``.
        made: The e-nodes that the rule made.
    """

    rule: str
    root: int
    result: int
    matched: Sequence[Sequence[Key]]
    made: Nodes


def matched_keys(query: Query, root: str, values: Mapping[str, int]) -> list[Key]:
    """The e-nodes of a match as :attr:`Noted.matched` has them.

    Args:
        query: How the rule matched.
        root: The variable of the root's class.
        values: Variable -> atom, or handle of a class of which the match says no more.
    """
    heads: dict[str, MatchedNode] = query.heads
    index: dict[str, int] = {}
    found: list[Key] = []
    others = [name for name in heads if name != root]
    for name in children_first([*others, root], lambda one: heads[one].children if one in heads else ()):
        if name in heads:
            head = heads[name]
            children = [~index[child] if child in index else values[child] for child in head.children]
            found.append((head.symbol, values[head.atom], *children))
            index[name] = len(found) - 1
    return found


class Traced(NamedTuple):
    """What rules matched and made in a run, over the classes of the snapshot at its end.

    Attributes:
        matches: Those of rules that the engine applies, by alternatives.
        noted: Those of rules whose right side is Python.
    """

    matches: Sequence[Matches]
    noted: Sequence[Match]


class Trace:
    """Has the engine note what rules match and make.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine):
        self.engine = engine
        self.logs: list[TracedLog] = []
        self.notes: list[Noted] = []
        self._stamped = 0  # notes that have a stamp
        self._tables: dict[tuple[str, ...], str] = {}  # of logs, by the sorts of their columns: many tables take time
        engine.declare("(sort Stamp)")
        engine.declare("(constructor now () Stamp :unextractable)")
        engine.declare(f"(ruleset {_TICK})")
        engine.rule(_TICK, "(= t (now))", "(delete (now))", _TICK)

    def watch(
        self, engine: Engine, rule: str, name: str, query: Query, made: Sequence[Made], pairs: Sequence[tuple[str, str]]
    ) -> Log:
        """Have the engine put the matches of a rule into a table, whose name begins with ``name``."""
        number = len(self.logs)
        log = TracedLog(rule, "", query, made, pairs)
        if log.sorts not in self._tables:
            table = self._tables[log.sorts] = f"trace{len(self._tables)}"
            engine.declare(f"(function {table} (i64 {' '.join(log.sorts)}) Stamp :merge old)")
        log = replace(log, table=f"{self._tables[log.sorts]} {number}")
        self.logs.append(log)
        return log

    def note(self, noted: Noted) -> None:
        """Take down what a rule whose right side is Python did."""
        self.notes.append(noted)

    @property
    def is_behind(self) -> bool:
        """Whether there are notes that have no stamp."""
        return self._stamped < len(self.notes)

    def tick(self) -> None:
        """Let matches that are found from now on have a later stamp."""
        if self.is_behind:
            if self.engine.inbox("noting", 1):
                self.engine.declare("(function noted (i64) Stamp :merge old)")
                self.engine.declare("(ruleset note)")
                self.engine.rule("note", "(noting k)", "(set (noted k) (now)) (delete (noting k))", "note")
            self.engine.insert("noting", np.arange(self._stamped, len(self.notes))[:, None])
            self.engine.run("note")
            self._stamped = len(self.notes)
        self.engine.run(_TICK)

    @property
    def tables(self) -> list[str]:
        """The tables that are read when the run is over; the first column of a log's tells its place in ``logs``."""
        return [*self._tables.values(), *(["noted"] if self._stamped else [])]


def read_trace(egraph: EGraph, trace: Trace) -> tuple[Snapshot, Traced]:
    """The e-graph now, and what rules matched and made."""
    if trace.is_behind:  # the run was ended
        trace.tick()
    snapshot, rows, number = read_tables(egraph, *trace.tables)
    number = np.append(number, UNKNOWN)
    found: dict[int, Matches] = {}
    for _, cells, stamps, _ in rows[: len(rows) - bool(trace.notes)]:
        cells = cells.reshape(len(stamps), -1 if len(stamps) else 1)
        for index in sorted(set(cells[:, 0].tolist())):  # np.unique loads masked arrays
            log, of = trace.logs[index], cells[:, 0] == index
            own = cells[of, 1:]
            classes = [place for place, sort in enumerate(log.sorts) if sort == "Expr"]
            own[:, classes] = number[np.minimum(own[:, classes], len(number) - 1)]
            found[index] = Matches(log, own, stamps[of])
    stamp_of = dict(zip(rows[-1].inputs.tolist(), rows[-1].outputs.tolist(), strict=True)) if trace.notes else {}
    node_at = {(symbol, atom, *below): of for of, symbol, atom, below in snapshot.nodes()} if trace.notes else {}
    class_of = snapshot.handle_class.tolist()
    noted = [_match(each, stamp_of[index], class_of, node_at) for index, each in enumerate(trace.notes)]
    return snapshot, Traced([found[index] for index in sorted(found)], noted)


def _match(noted: Noted, stamp: int, class_of: Sequence[int], node_at: Mapping[Key, int]) -> Match:
    root, result = class_of[noted.root], class_of[noted.result]
    made = [
        Node(class_of[handle], (symbol, atom, *[class_of[child] for child in below]))
        for handle, symbol, atom, below in noted.made
    ]
    matched: list[Node] = []
    heads, leaves = list[Key](), list[int]()
    for nodes in noted.matched:
        first = len(matched)
        for symbol, atom, *below in nodes:
            leaves += [class_of[child] for child in below if child >= 0]
            key = (symbol, atom, *[class_of[child] if child >= 0 else matched[first + ~child].of for child in below])
            matched.append(Node(node_at.get(key, UNKNOWN), key))
        heads.append(matched[-1].key)
    equal = next((each.key for each in reversed(made) if each.of == result), None)
    return Match(stamp, noted.rule, matched, made, [(root, heads[0], equal)], leaves)


Watcher: TypeAlias = Journal | Trace
"""What is told of the matches of rules."""
