"""What the integers in an e-graph stand for, and what Python said of them: plain data that outlives the engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.symbols import Atom, ConstantKeys, Interner, Symbol, SymbolHead
from eqsat.errors import ArgumentError
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Var
from eqsat.relay.ty import Type, is_exact, is_made_up

Answer = Callable[..., Sequence[int] | None]
"""Answers a question about some keys; None if it has no answer."""

MOST_ARGUMENTS = 2048
"""Children up to which e-nodes are taken in: a table takes memory by the square of its width, this one 3 GB."""

UNKNOWN = -1
"""The atom of a constant whose value is not known."""

WIDEST_TUPLE = 256
"""Fields up to which a tuple is one e-node. A wider one is several that are joined, which rules do not look into."""


class Inquiry(NamedTuple):
    """A question that rules may ask about any keys.

    Attributes:
        keys: What each key is: ``atom``, ``type`` or ``number``.
        kind: What the parts of the answer are: one of these, too.
        answer: Answers. It depends on nothing but the keys and holds no engine.
        of_given: Answers about expressions of the given graph, likewise.
    """

    keys: Sequence[str]
    kind: str
    answer: Answer
    of_given: Answer


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
    """The ids that satisfy a test, of objects that become more; it has a number once a rule asks the engine for it."""

    holds: Callable[[Any], bool]
    objects: list[tuple[int, Any]]
    number: int | None = None
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

    def news(self) -> list[int]:
        """The ids that were not among the news before."""
        found = list(self.ids)[self._told :]
        self._told += len(found)
        return found


class Predicates:
    """The predicates of an e-graph."""

    def __init__(self) -> None:
        self._objects: dict[str, list[tuple[int, Any]]] = {}
        self._known: dict[tuple[str, Hashable], Predicate] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the objects without the tests, which are functions."""
        return {**vars(self), "_known": {}}

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

    def news(self) -> list[tuple[int, ...]]:
        """Numbers of predicates and ids that satisfy them, of which this has not told before."""
        asked = [(each.number, each) for each in self._known.values() if each.number is not None]
        return [(number, index) for number, predicate in asked for index in predicate.news()]


_TOLD = 1 << 30
"""The least id of a type whose sizes all are numbers, or have names of the given graph."""


def places_of_types(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """The places of types, by their ids, in the order in which they were interned."""
    return np.where(ids < 0, ~ids, ids & ~_TOLD)


class TypeIds:
    """Types by id: from 0 on those whose equality means that two values have one shape, below 0 the others.

    Of equal values the type that tells most has the greatest id: sizes with names that inference made up, of which
    each stands for a value of its own, come before sizes that have names in the given graph.
    """

    def __init__(self) -> None:
        self._types: Interner[Type] = Interner()
        self._ids: list[int] = []

    def intern(self, ty: Type) -> int:
        """The id of a type."""
        index = self._types.intern(ty, ty)
        if index == len(self._ids):
            self._ids.append(~index if not is_exact(ty) else index if is_made_up(ty) else index + _TOLD)
        return self._ids[index]

    def __getitem__(self, index: int) -> Type:
        return self._types[~index if index < 0 else index & ~_TOLD]

    def all(self) -> list[Type]:
        """Types in the order in which they were interned."""
        return list(self._types)

    def __len__(self) -> int:
        return len(self._ids)


class Vocabulary:
    """The symbols, atoms, types and questions of an e-graph.

    Attributes:
        symbols: Heads of e-nodes by index.
        symbols_of: Kind and operator -> indices of the symbols that have them.
        atoms: What e-nodes say beside their children, by id.
        types: Types by id.
        inquiries: What rules may ask Python, by number.
        asked: Inquiry and keys -> the answer, of everything that was asked, in that order.
    """

    def __init__(self) -> None:
        self.symbols: Interner[Symbol] = Interner()
        self.symbols_of: dict[SymbolHead, list[int]] = {}
        self.atoms: Interner[Atom] = Interner()
        self.types = TypeIds()
        self.predicates = Predicates()
        self.inquiries: list[Inquiry] = []
        self.asked: dict[tuple[int, ...], tuple[int, ...] | None] = {}
        self._constant_keys = ConstantKeys()

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the functions that answer, which a finished run does without."""
        return {**vars(self), "inquiries": []}

    def symbol(self, symbol: Symbol) -> int:
        """The index of a symbol.

        Raises:
            ArgumentError: The symbol has more than :data:`MOST_ARGUMENTS` arguments.
        """
        if symbol.arity > MOST_ARGUMENTS:
            raise ArgumentError(
                f"a {symbol.name} of {symbol.arity} arguments is too wide for an e-graph, which takes"
                f" {MOST_ARGUMENTS}: make it of several smaller ones"
            )
        known = len(self.symbols)
        index = self.symbols.intern(symbol, symbol)
        if index == known:
            self.symbols_of.setdefault((symbol.kind, symbol.op), []).append(index)
        return index

    def atom(self, kind: str, key: Hashable, value: Any) -> int:
        """The id of an atom."""
        known = len(self.atoms)
        index = self.atoms.intern(key, Atom(kind, value))
        if index == known:
            self.predicates.add(kind, index, value)
        return index

    def attributes(self, attrs: Attrs | None) -> int:
        """The id of the atom of an operator call's attributes."""
        return self.atom("call", ("call", None if attrs is None else attrs.key), attrs)

    @property
    def tuple_atom(self) -> int:
        """The id of the atom of all tuples: those of graphs and those that rules make are equal over equal fields."""
        return self.atom("tuple", "tuple", None)

    def constant(self, constant: Constant) -> int:
        """The id of a constant's atom."""
        return self.atom("constant", self._constant_keys[constant], constant)

    def given(self, constant: Constant) -> int | None:
        """The id of a constant's atom if it has one: not that of a constant which equals it after rounding alone."""
        return self.atoms.find(self._constant_keys[constant])

    def variable(self, var: Var) -> int:
        """The id of a variable's atom."""
        return self.atom("var", ("var", var), var)

    def type_id(self, ty: Type) -> int:
        """The id of a type."""
        known = len(self.types)
        index = self.types.intern(ty)
        if len(self.types) > known:
            self.predicates.add("type", index, ty)
        return index

    def answer(self, row: tuple[int, ...], is_given: bool = False) -> tuple[int, ...] | None:
        """What the inquiry ``row[0]`` answers about the keys ``row[1:]``; it is not put down as asked.

        Args:
            row: The number of the inquiry, and the keys.
            is_given: Whether the keys are of an expression of the given graph.
        """
        inquiry = self.inquiries[row[0]]
        found = (inquiry.of_given if is_given else inquiry.answer)(*row[1:])
        return None if found is None else tuple(found)
