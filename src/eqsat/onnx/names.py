"""Names of values in an exported model: unique over all scopes, and the same every time."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir


class Names:
    """Gives out names, each once.

    Args:
        model: the model whose names may be claimed; new names are never among them.
    """

    def __init__(self, model: ir.Model):
        self._old = set(_all_names(model))
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def claim(self, name: str) -> bool:
        """Take ``name`` if nothing has it yet; says whether it is the caller's."""
        if not name or name in self._taken:
            return False
        self._taken.add(name)
        return True

    def fresh(self, base: str) -> str:
        """A name that nothing has or had: ``base``, or with a number behind it."""
        name = base
        while name in self._old or name in self._taken:
            count = self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


def _all_names(model: ir.Model) -> Iterator[str]:
    for graph in model.graphs():
        for value in [*graph.inputs, *graph.initializers.values()]:
            yield value.name or ""
        for node in graph:
            for value in node.outputs:
                yield value.name or ""
