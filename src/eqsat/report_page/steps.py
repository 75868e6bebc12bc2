"""How a given graph becomes the chosen one: one value after another is computed as it is there, inputs first.

Both graphs say which of their nodes have one value. So each value may be computed in either way, whatever is done with
the others, and the graph after each step computes the same as the given one. No step leads to a circle: where a value
is computed in the new way, all that it is computed from is, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.relay.visitor import children_first
from eqsat.report_page.graph import Drawing

_RESULT = -1
"""Stands for what uses the results of the graph."""


@dataclass(frozen=True)
class Side:
    """A graph as it is drawn.

    Attributes:
        inputs: For each node, the nodes that it takes.
        values: For each node, its value, None where that is not known.
        names: For each node, what is told of it in words: its operator.
        places: For each node, where it comes from.
        kinds: For each node, what it is: an operator, a variable, ...
    """

    inputs: Sequence[Sequence[int]]
    values: Sequence[Hashable | None]
    names: Sequence[str]
    places: Sequence[str]
    kinds: Sequence[str]

    @staticmethod
    def of(drawing: Drawing, values: Sequence[Hashable | None]) -> Side:
        """The graph of a drawing."""
        columns, strings = drawing.columns, drawing.columns["strings"]
        inputs: list[list[int]] = [[] for _ in drawing.exprs]
        for source, target in zip(columns["edges"][::2], columns["edges"][1::2], strict=True):
            inputs[target].append(source)
        places, kinds = ([strings[each] for each in columns[name]] for name in ("name", "kind"))
        return Side(inputs, values, [strings[lines[0]] for lines in columns["lines"]], places, kinds)

    @property
    def results(self) -> list[int]:
        """The nodes that no other one takes."""
        used = {source for sources in self.inputs for source in sources}
        return [node for node in range(len(self.inputs)) if node not in used]

    @property
    def variables(self) -> list[int]:
        """The inputs of the graph."""
        return [node for node, kind in enumerate(self.kinds) if kind == "variable"]


def steps_between(
    before: Side, after: Side, kept: Sequence[int], rules: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """The steps from one graph to another; nodes of the second have numbers from the size of the first on.

    Args:
        before, after: The graphs.
        kept: For each node of the second graph, the node of the first that it is, or -1.
        rules: For each node of the second graph, the rules that led to it.

    Returns:
        For each step, what it tells, the nodes that it removes and adds, and for each node that is new or that takes
        something else than before, what it takes.
    """
    graph = _Graph(before, after, kept, rules)
    nodes = children_first(range(len(after.inputs)), after.inputs.__getitem__)
    steps = [step for node in nodes if (step := graph.switch(node)) is not None]
    last = graph.finish()
    return steps if last is None else [*steps, last]


class _Graph:
    """A graph that becomes another one."""

    def __init__(self, before: Side, after: Side, kept: Sequence[int], rules: Sequence[Sequence[str]]):
        self.before, self.after, self.kept, self.rules = before, after, kept, rules
        self.size = len(before.inputs)
        self.inputs: dict[int, list[int]] = {}  # of nodes that are there
        self.uses = Counter[int]()
        self.users: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self.members: defaultdict[Hashable, list[int]] = defaultdict(list)  # value -> nodes of the given graph
        for node, value in enumerate(before.values):
            if value is not None:
                self.members[value].append(node)
        self.current: dict[int, int] = {}  # node of the given graph -> what computes its value now
        self.rewired: dict[int, list[int]] = {}  # kept node -> what it takes now
        self.removed: dict[int, None] = {}
        self.added: dict[int, None] = {}
        self.changed: dict[int, None] = {}
        self._connect(_RESULT, [*before.results, *before.variables])
        self._begin()

    def _begin(self) -> None:
        self.removed, self.added, self.changed = {}, {}, {}

    def _number(self, node: int) -> int:
        """The number of a node of the second graph."""
        return self.kept[node] if self.kept[node] >= 0 else self.size + node

    def _takes(self, number: int) -> list[int]:
        """What a node takes now, or would take."""
        if number >= self.size:
            return [self._number(source) for source in self.after.inputs[number - self.size]]
        if number in self.rewired:
            return self.rewired[number]
        return [self.current.get(source, source) for source in self.before.inputs[number]]

    def _connect(self, user: int, sources: Sequence[int]) -> None:
        """Have a node take others, with all that these take."""
        todo = [(user, sources)]
        while todo:
            node, below = todo.pop()
            self.inputs[node] = [*below]
            self.changed[node] = None
            for source in below:
                self.uses[source] += 1
                self.users[source][node] = None
                if source not in self.inputs:
                    self.inputs[source] = []
                    if source in self.removed:
                        del self.removed[source]
                    else:
                        self.added[source] = None
                    todo.append((source, self._takes(source)))

    def _disconnect(self, user: int, sources: Sequence[int]) -> None:
        """Have a node no longer take others; what nothing takes any more goes."""
        todo = [(user, sources)]
        while todo:
            node, below = todo.pop()
            for source in below:
                self.uses[source] -= 1
                self.users[source].pop(node, None)
                if not self.uses[source]:
                    todo.append((source, self.inputs.pop(source)))
                    self.changed.pop(source, None)
                    if source in self.added:
                        del self.added[source]
                    else:
                        self.removed[source] = None

    def _rewire(self, user: int, sources: Sequence[int]) -> None:
        old = self.inputs[user]
        if old != sources:
            self._connect(user, sources)
            self._disconnect(user, old)
            for source in sources:
                self.users[source][user] = None

    def switch(self, node: int) -> dict[str, Any] | None:
        """Compute the value of a node of the second graph as it does; None where nothing changes by that."""
        value = self.after.values[node]
        if value is None or not self.members[value]:
            return None
        number = self._number(node)
        if number < self.size:
            wanted = [self._number(source) for source in self.after.inputs[node]]
            if wanted != self._takes(number):
                self.rewired[number] = wanted
                if number in self.inputs:
                    self._rewire(number, wanted)
        for old in self.members[value]:
            if old == number:
                continue
            self.current[old] = number
            for user in [*self.users[old]]:
                if user in self.inputs:
                    self._rewire(user, [number if source == old else source for source in self.inputs[user]])
        return self._step(node)

    def _step(self, node: int) -> dict[str, Any] | None:
        """What was done since the last step, None if nothing was."""
        removed, added = sorted(self.removed), sorted(self.added)
        told = {
            "inputs": [[each, self.inputs[each]] for each in sorted(self.changed) if each != _RESULT],
            "minus": removed,
            "plus": added,
        }
        first = next((each for each in removed if self.before.places[each]), -1)
        place = self.before.places[first] if first >= 0 else self.after.places[node] if node >= 0 else ""
        self._begin()
        if not told["inputs"] and not removed:
            return None
        makers = [each - self.size for each in added if each >= self.size] + [node] * (node >= 0)
        rules = dict.fromkeys(rule for each in makers for rule in self.rules[each])
        words = " → ".join(map(self._names, (removed, added)))
        return told | {"told": words, "place": place, "rules": [*rules]}

    def _names(self, numbers: Sequence[int]) -> str:
        """What nodes are, the most frequent first."""
        names = [self.before.names[n] if n < self.size else self.after.names[n - self.size] for n in numbers]
        counts = sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))
        return ", ".join([name if count == 1 else f"{count} {name}" for name, count in counts]) or "nothing"

    def finish(self) -> dict[str, Any] | None:
        """Make of what is there the second graph, where not all values of that are known; None if it is."""
        self._rewire(_RESULT, [*map(self._number, self.after.results), *self.before.variables])
        for node, inputs in enumerate(self.after.inputs):
            number, wanted = self._number(node), [*map(self._number, inputs)]
            if number < self.size:
                self.rewired[number] = wanted
            if number in self.inputs:
                self._rewire(number, wanted)
        return self._step(-1)
