"""Which atoms and types satisfy what patterns ask of them; each is tested once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Test(NamedTuple):
    """What is asked of the objects of one kind.

    Args:
        kind: ``type`` or an atom's kind.
        key: tests of equal kind and key are one.
        holds: decides.
    """

    kind: str
    key: Hashable
    holds: Callable[[Any], bool]


@dataclass(eq=False)
class Predicate:
    """The ids that satisfy a test.

    Args:
        holds: the test.
        objects: id and value of all objects of the kind; grows.
        table: the engine's table of the ids, once a rule asks for it.
    """

    holds: Callable[[Any], bool]
    objects: list[tuple[int, Any]]
    table: str | None = None
    _ids: dict[int, None] = field(default_factory=dict)
    _tested: int = 0
    _told: int = 0

    @property
    def ids(self) -> dict[int, None]:
        """The ids by now."""
        for index, value in self.objects[self._tested :]:
            if self.holds(value):
                self._ids[index] = None
        self._tested = len(self.objects)
        return self._ids

    def news(self) -> list[tuple[int, ...]]:
        """Rows for the ids that were not among the news before."""
        rows: list[tuple[int, ...]] = [(index,) for index in list(self.ids)[self._told :]]
        self._told += len(rows)
        return rows


class Predicates:
    """The predicates of an e-graph."""

    def __init__(self) -> None:
        self._objects: dict[str, list[tuple[int, Any]]] = {}
        self._known: dict[tuple[str, Hashable], Predicate] = {}

    def add(self, kind: str, index: int, value: Any) -> None:
        """Take an object."""
        self._objects.setdefault(kind, []).append((index, value))

    def find(self, test: Test) -> Predicate:
        """The predicate of a test."""
        key = test[:2]
        if key not in self._known:
            self._known[key] = Predicate(test.holds, self._objects.setdefault(test.kind, []))
        return self._known[key]

    def hold_alike(self, pairs: Mapping[int, int]) -> bool:
        """Whether each predicate on atoms holds of both or of none of each pair."""
        on_atoms = [predicate.ids for (kind, _), predicate in self._known.items() if kind != "type"]
        return all((one in ids) == (other in ids) for ids in on_atoms for one, other in pairs.items())

    def news(self) -> dict[str, list[tuple[int, ...]]]:
        """Table -> rows that it lacks."""
        tables = {predicate.table: predicate for predicate in self._known.values() if predicate.table is not None}
        return {table: rows for table, predicate in tables.items() if (rows := predicate.news())}
