"""Names of values in an exported model: unique over all scopes, and the same every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from eqsat.onnx.graphs import graphs_of


class Names:
    """Gives out names to one graph, each once.

    Args:
        known: how often each name is given in all graphs of a model (:func:`name_counts`). Those given once may
            be claimed; new names are never among them, and are added.
    """

    def __init__(self, known: Counter[str]):
        self._known = known
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def claim(self, name: str) -> bool:
        """Take ``name`` if nothing has it yet; says whether it is the caller's."""
        if not name or name in self._taken or self._known[name] > 1:  # else it might hide, or be hidden
            return False
        self._taken.add(name)
        return True

    def fresh(self, base: str) -> str:
        """A name that nothing has or had: ``base``, or with a number behind it."""
        name = base
        while name in self._known or name in self._taken:
            count = self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self._known[name] = 1
        return name


def name_counts(model: ir.Model) -> Counter[str]:
    """How many values of a model have each name: equal ones are in scopes side by side."""
    return Counter(_all_names(model))


def _all_names(model: ir.Model) -> Iterator[str]:
    for graph in graphs_of(model.graph):
        for value in dict.fromkeys([*graph.inputs, *graph.initializers.values()]):
            yield value.name or ""
        for node in graph:
            for value in node.outputs:
                yield value.name or ""
