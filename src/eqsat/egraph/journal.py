"""What rules equated, one ground equation for each match: kept when a run is to be explained.

Terms are built over handles, which name a class as it was when a rule matched. So every equation holds by its
rule alone, given those before it, whatever was merged later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from eqsat.egraph.engine import Engine, put
from eqsat.egraph.query import MatchedNode, Query
from eqsat.egraph.symbols import Interner, Symbol
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.relay.visitor import children_first

Term: TypeAlias = tuple[int, ...]
"""Symbol, atom and the numbers of the terms that are its children."""

Terms: TypeAlias = Interner[Term]
"""Terms by number."""


class Equation(NamedTuple):
    """The rule that says so, and the numbers of two terms."""

    rule: str
    left: int
    right: int


class Made(NamedTuple):
    """An e-node of a right side: its variable, symbol, atom (an id or a variable), variables of its children."""

    variable: str
    symbol: int
    atom: str
    children: tuple[str, ...]

    @property
    def has_known_atom(self) -> bool:
        """Whether the atom is an id."""
        return self.atom.lstrip("-").isdigit()


@dataclass(frozen=True)
class Log:
    """The matches of one alternative of a rule, for :class:`Journal`: rows of handles and atoms.

    Args:
        rule: its name.
        table: where the engine puts the rows.
        query: how it matched.
        made: the right side's e-nodes, children first.
        pairs: variables of the roots and of what they equal.
    """

    rule: str
    table: str
    query: Query
    made: Sequence[Made]
    pairs: Sequence[tuple[str, str]]

    @cached_property
    def heads(self) -> dict[str, MatchedNode]:
        """Variable of a class -> the e-node that matched in it."""
        return self.query.heads

    @cached_property
    def leaves(self) -> list[str]:
        """Variables of classes of which the match says no more."""
        return [variable for variable in self.query.class_variables if variable not in self.heads]

    @cached_property
    def columns(self) -> dict[str, str]:
        """Variables and their sorts: the leaves' handles, then atoms of matched e-nodes, then atoms of those made."""
        handles = [f"h_{leaf}" for leaf in self.leaves]
        return dict.fromkeys([*handles, *self.atoms], "i64")

    @property
    def atoms(self) -> list[str]:
        """Variables of atoms: of matched e-nodes, then of those made."""
        return [*self.query.atom_variables, *[each.atom for each in self.made if not each.has_known_atom]]

    @property
    def premises(self) -> list[str]:
        """Facts that bind the leaves' handles."""
        return [f"(= h_{leaf} (hd {leaf}))" for leaf in self.leaves]

    @property
    def action(self) -> str:
        """The action that puts a row aside."""
        return put(f"({self.table} {' '.join(self.columns)})")


class Journal:
    """The equations of a run, in the order of its iterations.

    Args:
        vocabulary: Of the e-graph, whose handles have e-nodes that :meth:`name` is told of.

    Attributes:
        equations: What rules equated, in order.
        together: Of equations that one match of several left sides made, all that it made.
        logs: Of each alternative of a rule, where the engine puts its matches.
        folded: The terms over constants that were computed, with what they gave.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.equations: dict[Equation, None] = {}
        self.together: dict[Equation, tuple[Equation, ...]] = {}
        self.terms: Terms = Interner()
        self.of_handle: dict[int, int] = {}
        self.logs: list[Log] = []
        self.folded: list[tuple[int, int]] = []

    def name(self, nodes: Iterable[tuple[int, int, int, Sequence[int]]]) -> None:
        """Learn the e-nodes of handles: handle, symbol, atom, children's handles; children first."""
        for handle, symbol, atom, children in nodes:
            self.of_handle[handle] = self.term(symbol, atom, [self.of_handle[child] for child in children])

    def term(self, symbol: int, atom: int, children: Iterable[int] = ()) -> int:
        """The number of a term."""
        key = (symbol, atom, *children)
        return self.terms.intern(key, key)

    def equate(self, rule: str, left: int, right: int) -> None:
        """Take an equation between terms down."""
        self.equations[Equation(rule, left, right)] = None

    def fold(self, rule: str, symbol: int, atom: int, ids: Sequence[int], result: int) -> None:
        """An e-node over constants (ids of atoms) equals a constant, or a tuple of some."""
        left = self.term(symbol, atom, [self._constant(index) for index in ids])
        right = self._constant(result)
        self.equate(rule, left, right)
        self.folded.append((left, right))

    def watch(
        self, engine: Engine, rule: str, name: str, query: Query, made: Sequence[Made], pairs: Sequence[tuple[str, str]]
    ) -> Log:
        """Read the matches of a rule that the engine puts into a table, whose name begins with ``name``."""
        log = Log(rule, f"{name}_log", query, made, pairs)
        engine.relation(log.table, *log.columns.values())
        self.logs.append(log)
        return log

    def collect(self, engine: Engine) -> None:
        """Read the matches that are new."""
        for log in self.logs:
            for row in engine.new_integers(log.table):
                self._equate_match(log, row)

    def _equate_match(self, log: Log, row: Sequence[int]) -> None:
        values = dict(zip(log.columns, row, strict=True))
        terms = {leaf: self.of_handle[values[f"h_{leaf}"]] for leaf in log.leaves}
        self._build_heads(log, values, terms)
        for made in log.made:
            atom = values[made.atom] if made.atom in values else int(made.atom)
            terms[made.variable] = self.term(made.symbol, atom, [terms[child] for child in made.children])
        found = [Equation(log.rule, terms[root], terms[result]) for root, result in log.pairs]
        for equation in found:
            self.equations[equation] = None
            if len(found) > 1:
                self.together.setdefault(equation, tuple(found))

    def _build_heads(self, log: Log, values: dict[str, int], terms: dict[str, int]) -> None:
        heads = log.heads
        for variable in children_first(list(heads), lambda one: heads[one].children if one in heads else ()):
            if variable not in terms:
                head = heads[variable]
                children = [terms[child] for child in head.children]
                terms[variable] = self.term(head.symbol, values[head.atom], children)
                if head.swapped:
                    self.equate("commute", terms[variable], self.term(head.symbol, values[head.atom], children[::-1]))

    def _constant(self, index: int) -> int:
        atom = self.vocabulary.atoms[index]
        if atom.kind == "tuple value":
            fields = [self._constant(field) for field in atom.value]
            symbol = self.vocabulary.symbol(Symbol("tuple", None, len(fields)))
            return self.term(symbol, self.vocabulary.tuple_atom, fields)
        return self.term(self.vocabulary.symbol(Symbol("constant", None, 0)), index)
