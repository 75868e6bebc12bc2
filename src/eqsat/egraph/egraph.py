"""The e-graph: the engine's tables, which docs/architecture.md explains, and how rows get into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.engine import Engine, put
from eqsat.egraph.nodes import NewNodes, Nodes
from eqsat.egraph.symbols import Symbol
from eqsat.egraph.vocabulary import UNKNOWN, Answer, Inquiry, Test, Vocabulary
from eqsat.relay.traits import Trait

OnAnswer = Callable[[tuple[int, ...], tuple[int, ...]], None]
"""Told of the keys of a question and the parts of its answer."""


class Question(NamedTuple):
    """How engine rules ask a question and read its answer.

    Args:
        ask: to put the row ``(<ask> keys...)`` is to ask.
        answered: ``(<answered> keys... answers...)`` is the fact that it is answered.
        otherwise: The same for an answer of another number of parts.
    """

    ask: str
    answered: str
    otherwise: str = ""


class EGraph:
    """An e-graph that holds typed tensor expressions.

    The thread that makes it uses it and frees its memory, by :meth:`close`: ``with closing(EGraph()) as egraph``.

    Attributes:
        engine: The engine that has the tables.
        vocabulary: What the integers in the tables stand for.
        commutative: Names of the operators whose operands a rule of the run swaps: queries need not.
        has_bases: Whether a rule asks for bases, see :mod:`eqsat.egraph.bases`.
        has_known: Whether a rule asks for values that may be unknown.
        has_numbers: Whether a rule asks which classes hold real numbers, see :mod:`eqsat.egraph.numbers`.
        fold: Finds the value of an e-node over constants, where nobody asks what was computed.
        on_constness: Called when :meth:`ask_constness` is called for the first time.
    """

    def __init__(self) -> None:
        self.engine = Engine()
        self.vocabulary = Vocabulary()
        self.commutative: frozenset[str] = frozenset()
        self.has_bases = False
        self.has_known = False
        self.has_numbers = False
        self.has_uses = False  # of the given graph
        self._has_places = False
        self.fold: Callable[..., Sequence[int] | None] | None = None
        self._rows: dict[str, list[tuple[int, ...]]] = {}
        self.new_nodes = NewNodes(0)
        self.given_count = 0  # of the handles, these come first
        self._told_types: list[NDArray[np.int32]] = []
        self.on_constness: Callable[[], None] | None = None
        self._predicates = 0  # that rules asked for
        self._declared = 0  # symbols that have a table
        self._on_answer: list[OnAnswer] = []
        self._ask_tables: dict[str, None] = {}
        self._reaches: dict[Hashable, tuple[str, str]] = {}
        self._parts: dict[Hashable, str] = {}
        for command in _SCHEMA:
            self.engine.declare(command)
        self.engine.relation("isc", "Expr")
        self.engine.relation("found", "Expr", "i64")
        self.engine.inbox("un", 2)
        self.engine.inbox("holds", 2)
        self.engine.rule("load", "(un i j)", "(union (N i) (N j)) (delete (un i j))")

    def close(self) -> None:
        """Free the memory of the engine, which can no longer be used."""
        self.engine.close()
        self._told_types.clear()

    # ---- tables and facts

    def symbol(self, symbol: Symbol) -> int:
        """The index k of a symbol, whose table ``n<k>`` is declared.

        Raises:
            ArgumentError: The symbol has too many arguments.
        """
        index = self.vocabulary.symbol(symbol)
        self.declare_symbols()
        return index

    def declare_symbols(self) -> None:
        """Declare the tables of the symbols that are new in the vocabulary."""
        for index in range(self._declared, len(self.vocabulary.symbols)):
            columns = " Expr" * self.vocabulary.symbols[index].arity
            self.engine.declare(f"(constructor n{index} (i64{columns}) Expr)")
            if self._has_places:
                self._share_place(index)
        self._declared = len(self.vocabulary.symbols)

    def ask_constness(self) -> None:
        """Have ``isc`` derived: a rule asks for it."""
        hook, self.on_constness = self.on_constness, None
        if hook is not None:
            hook()

    def ask_non_constant(self) -> None:
        """Have ``varies`` derived: a rule asks for it."""
        self.ask_constness()
        if self.engine.relation("varies", "Expr"):
            self.engine.rule("facts", "(= t (ty e))", put("(varies e)"))
            self.engine.rule("facts", "(varies e) (isc e)", "(delete (varies e))")

    def ask_known(self) -> None:
        """Have ``known`` derived, the value of a constant or ``UNKNOWN``: a rule asks for it."""
        if not self.has_known:
            self.has_known = True
            self.ask_constness()
            self.engine.declare("(function known (Expr) i64 :merge (max old new))")
            self.engine.rule("facts", "(isc e)", f"(set (known e) {UNKNOWN})")
            self.engine.rule("facts", "(= v (val e))", "(set (known e) v)")

    def ask_bases(self) -> None:
        """Have bases found: a rule asks for them."""
        if not self.has_bases:
            self.has_bases = True
            self.ask_non_constant()
            # it runs after all origins: a class may be found to come from an earlier base
            self.engine.declare("(ruleset settled)")
            for table in ("level", "origin", "first"):
                self.engine.declare(f"(function {table} (Expr) i64 :merge (min old new))")
            self.engine.declare("(function linked (Expr Expr) i64 :merge (max old new))")
            for relation in ("factor", "term", "weighted", "plain", "absorbing", "bare", "own", "given"):
                self.engine.relation(relation, "Expr")

    def ask_numbers(self) -> None:
        """Have it found which classes hold real numbers: a rule asks for it."""
        if not self.has_numbers:
            self.has_numbers = True
            self.engine.declare("(function num (Expr) i64 :merge (max old new))")

    def hide(self, symbol: int, columns: str, variable: str, swapped: bool) -> str:
        """The action that hides an e-node from all rules: its atom and children are the columns.

        Args:
            variable: The e-node's class.
            swapped: Whether its children are in this order or the other.
        """
        if not swapped:
            return f"(subsume (n{symbol} {columns}))"
        table, either = f"hidden_{symbol}", self.either_order(symbol)
        if self.engine.relation(table, "i64", "Expr", "Expr", "Expr"):
            row = f"({table} a x y e)"
            for order in ("x y", "y x"):
                node = f"(n{symbol} a {order})"
                actions = f"(subsume {node}) (delete ({either} a x y e)) (delete ({either} a y x e)) (delete {row})"
                self.engine.rule("facts", f"{row} (= e {node})", actions)
        return put(f"({table} {columns} {variable})")

    def hide_nodes(self, nodes: Iterable[tuple[int, int, int, Sequence[int]]]) -> None:
        """Hide e-nodes from all rules, before any has run: handle, symbol, atom and children's handles of each."""
        for _, symbol, atom, children in nodes:
            table, columns = f"seen_no_more_{symbol}", [f"c{i}" for i in range(len(children))]
            if self.engine.inbox(table, 1 + len(children)):
                row = f"({table} a {' '.join(columns)})"
                node = f"(n{symbol} a{''.join(f' (N {child})' for child in columns)})"
                self.engine.rule("load", row, f"(subsume {node}) (delete {row})")
            self._rows.setdefault(table, []).append((atom, *children))
        self.flush()

    def hide_unless(self, symbol: int, atom: str, children: Sequence[str], others: Sequence[str], variable: str) -> str:
        """The action that hides an e-node until its children equal others, of which it then is an e-node, too.

        Args:
            symbol: The e-node's symbol, which is not commutative.
            atom: Its atom.
            children: Its children.
            others: What is to be equal to them.
            variable: Its class.
        """
        table, again, arity = f"until_{symbol}", f"again_{symbol}", len(children)
        if self.engine.relation(table, "i64", *["Expr"] * (2 * arity + 1)):
            self.engine.relation(again, "i64", *["Expr"] * (arity + 1))
            columns = " ".join(["a", *[f"c{i}" for i in range(arity)]])
            node, seen = f"(n{symbol} {columns})", f"({again} {columns} e)"
            equal = f"({table} {columns} {columns.partition(' ')[2]} e)"
            # a row that was hidden stays hidden, so it is another one that is seen again
            self.engine.rule("facts", equal, f"(delete {node}) (delete {equal}) {put(seen)}")
            self.engine.rule("facts", seen, f"(union e {node}) (delete {seen})")
        row = " ".join([table, atom, *children, *others, variable])
        return f"(subsume (n{symbol} {atom} {' '.join(children)})) {put(f'({row})')}"

    def predicate(self, test: Test) -> str:
        """What, with an id behind it, is the fact that the id satisfies a test (after :meth:`flush`)."""
        predicate = self.vocabulary.predicates.find(test)
        if predicate.number is None:
            predicate.number = self._predicates
            self._predicates += 1
        return f"holds {predicate.number}"

    # ---- rows

    def add(self, symbol: int, atom: int, children: Sequence[int] = (), type_id: int | None = None) -> int:
        """A new handle, of the class of this e-node over the classes of other handles (after :meth:`flush`)."""
        return self.new_nodes.add(self.new_nodes.head(symbol, len(children), atom, type_id), children)

    @property
    def handle_count(self) -> int:
        return self.new_nodes.first + len(self.new_nodes)

    def union(self, left: int, right: int) -> None:
        """Make the classes of two handles one (after :meth:`flush`)."""
        self._rows.setdefault("un", []).append((left, right))

    def count_uses(self, nodes: Nodes, root: int) -> None:
        """Tell how many uses the classes of the nodes of a graph have (after :meth:`flush` of them).

        What reads a value that it turns out to be equal to is no use.
        """
        self.has_uses = True
        self.engine.declare("(function uses (Expr) i64 :merge (+ old new))")
        self.engine.relation("reads", "i64", "Expr", "Expr")
        self.engine.inbox("used", 2)
        self.engine.inbox("read", 3)
        self.engine.rule("load", "(used i n)", "(set (uses (N i)) n) (delete (used i n))")
        self.engine.rule("load", "(read k i j)", f"{put('(reads k (N i) (N j))')} (delete (read k i j))")
        self.engine.rule("facts", "(reads k e e)", "(set (uses e) -1) (delete (reads k e e))")
        self._rows["used"] = sorted(Counter([*nodes.child.tolist(), root]).items())
        readers = np.repeat(np.arange(len(nodes)), np.diff(nodes.start))
        alike = np.flatnonzero(nodes.type_id[readers] == nodes.type_id[nodes.child - nodes.first])
        edges = np.column_stack([alike, nodes.first + readers[alike], nodes.child[alike]])
        self._rows["read"] = [*map(tuple, edges.tolist())]
        self.flush()

    def number_places(self, places: Iterable[tuple[int, int]]) -> None:
        """Tell the places of handles in the input graph (after :meth:`flush` of them); the first of a class counts.

        What only moves the elements of a value has its place.
        """
        self._has_places = True
        self.engine.declare("(function place (Expr) i64 :merge (min old new))")
        self.engine.declare("(ruleset places)")
        for index in range(self._declared):
            self._share_place(index)
        self.engine.inbox("placed", 2)
        self.engine.rule("load", "(placed i at)", "(set (place (N i)) at) (delete (placed i at))")
        self._rows["placed"] = [*places]
        self.flush()

    def _share_place(self, index: int) -> None:
        """Have what only moves the elements of its first operand, such as a view, share the place of that."""
        kind, op, arity = self.vocabulary.symbols[index]
        if kind == "call" and op is not None and arity and op.has(Trait.MOVES | Trait.INJECTIVE):
            node = f"(= e (n{index} a {' '.join([f'c{i}' for i in range(arity)])}))"
            for one, other in (("e", "c0"), ("c0", "e")):
                self.engine.rule("places", f"{node} (= p (place {one}))", f"(set (place {other}) p)")

    def share_places(self) -> None:
        """Give the places of the input graph to what moves the same elements, if any rule asks for places."""
        if self._has_places:
            self.engine.saturate("places")

    def flush(self) -> bool:
        """Put what was added into the engine; whether there was anything."""
        self.declare_symbols()
        if news := self.vocabulary.predicates.news():
            self._rows["holds"] = news
        if not self._rows and not self.new_nodes:
            return False
        if self.new_nodes:
            nodes = self.new_nodes.since(0)
            tables = nodes.tables(lambda index: self.vocabulary.symbols[index].arity)
            for loader, columns in [(self._loader(symbol, typed), columns) for symbol, typed, columns in tables]:
                self.engine.insert(loader, columns)
            self._told_types.append(nodes.type_id)
            self.new_nodes = NewNodes(self.handle_count)
        for table, rows in self._rows.items():
            if rows:
                self.engine.insert(table, np.asarray(rows))
        self._rows = {}
        self.engine.run("load")
        return True

    def told_types(self) -> NDArray[np.int32]:
        """The type id that each handle in the engine was added with, or ``NO_TYPE``."""
        return np.concatenate([*self._told_types, np.empty(0, dtype=np.int32)])

    def counts(self) -> tuple[int, int]:
        """How many e-nodes and classes there are."""
        sizes = self.engine.sizes()
        return sum([sizes[f"n{index}"] for index in range(self._declared)]), sizes["ty"]

    def either_order(self, symbol: int) -> str:
        """The table of the e-nodes of a commutative symbol with their operands in either order.

        Its columns: atom, one operand, the other, class.
        """
        table = f"either_{symbol}"
        if self.engine.relation(table, "i64", "Expr", "Expr", "Expr"):
            row = f"({table} a x y e)"
            both = f"{put(row)} {put(f'({table} a y x e)')}"
            self.engine.rule("facts", f"(= e (n{symbol} a x y))", both)
            self.engine.rule("facts", f"{row} (= v (val e))", f"(delete {row})")
        return table

    def part(
        self,
        premises: str,
        columns: Sequence[str],
        kinds: Sequence[str],
        ruleset: str = "facts",
        unless: Sequence[str] = (),
    ) -> str:
        """The relation of those variables in premises, of kinds ``Expr`` or ``i64``, for which the premises hold.

        Args:
            premises: The premises.
            columns: The variables.
            kinds: Of the variables.
            ruleset: What fills the relation.
            unless: Premises by each of which a row goes that came when they did not hold.
        """
        key = (premises, *columns)
        if key not in self._parts:
            table = self._parts[key] = f"part_{len(self._parts)}"
            row = f"({table} {' '.join(columns)})"
            self.engine.relation(table, *kinds)
            self.engine.rule(ruleset, premises, put(row))
            for outdated in unless:
                self.engine.rule(ruleset, f"{row} {outdated}", f"(delete {row})")
        return self._parts[key]

    def reach(self, key: Hashable) -> tuple[str, str]:
        """Two relations for a key: ``(<reach> class start)`` follows from ``(<step> class class)``.

        A class is related to each start below it, so a step should not lead everywhere.
        """
        if key not in self._reaches:
            number = len(self._reaches)
            reach, step = self._reaches[key] = f"reach_{number}", f"step_{number}"
            self.engine.relation(reach, "Expr", "Expr")
            self.engine.relation(step, "Expr", "Expr")
            self.engine.rule("facts", f"({step} x y) ({reach} y z)", put(f"({reach} x z)"))
        return self._reaches[key]

    # ---- questions that Python answers, each distinct one once

    def question(
        self,
        keys: Sequence[str],
        parts: int,
        kind: str,
        answer: Answer,
        on_answer: OnAnswer = lambda keys, found: None,
        otherwise: int | None = None,
        of_given: Answer | None = None,
    ) -> Question:
        """A question whose answer has so many parts; all keys and parts are i64.

        :meth:`settle_questions` calls ``answer(*keys)`` once for each distinct keys that a rule asked about;
        None means that there is no answer. Questions of few keys share a table, as do others of equal sizes.

        Args:
            keys: what each key is: ``atom``, ``type`` or ``number``.
            parts: of the answer.
            kind: what they are.
            answer: answers, from nothing but the keys and the vocabulary.
            on_answer: told of the keys and parts of every answer before rules see it.
            otherwise: another number of parts that answers may have.
            of_given: answers about expressions of the given graph, if more is known of these.
        """
        width = max(len(keys), _FEW_KEYS)
        ask, answered = f"ask_{width}", f"is_{width}_{parts}"
        if ask not in self._ask_tables:
            self._ask_tables[ask] = None
            row = f"({ask} q{''.join(f' k{i}' for i in range(width))})"
            self.engine.relation(ask, "i64", *["i64"] * width)
            self.engine.rule("load", row, f"(delete {row})")
        self.engine.inbox(answered, 1 + width + parts)
        number = len(self.vocabulary.inquiries)
        self.vocabulary.inquiries.append(Inquiry(keys, kind, answer, of_given or answer))
        self._on_answer.append(on_answer)
        row = f"{number}{' 0' * (width - len(keys))}"
        if otherwise is None:
            return Question(f"{ask} {row}", f"{answered} {row}")
        other = f"is_{width}_{otherwise}"
        self.engine.inbox(other, 1 + width + otherwise)
        return Question(f"{ask} {row}", f"{answered} {row}", f"{other} {row}")

    def settle_questions(self) -> bool:
        """Answer every open question; whether there was a new one."""
        asked, new = self.vocabulary.asked, False
        rows = [row for table in self._ask_tables for row in self.engine.integers(table)]
        for number, *keys in rows:
            row = number, *keys[len(keys) - len(self.vocabulary.inquiries[number].keys) :]
            if row not in asked:
                new = True
                asked[row] = found = self.vocabulary.answer(row)
                if found is not None:
                    self._on_answer[number](row[1:], found)
                    self._rows.setdefault(f"is_{len(keys)}_{len(found)}", []).append((number, *keys, *found))
        if not self.flush() and rows:
            self.engine.run("load")  # what was asked is deleted
        return new

    def _loader(self, index: int, typed: bool) -> str:
        """The table that handles, atoms, types and children's handles of e-nodes go into to be loaded."""
        table, symbol = f"{'typed' if typed else 'untyped'}_{index}", self.vocabulary.symbols[index]
        if self.engine.inbox(table, 2 + typed + symbol.arity):
            children = [f"c{i}" for i in range(symbol.arity)]
            row = f"({table} i a{' t' if typed else ''} {' '.join(children)})"
            node = f"(n{index} a{''.join(f' (N {child})' for child in children)})"
            facts = f"{'(set (ty e) t)' if typed else ''} {_LEAF_FACTS.get(symbol.kind, '')}"
            self.engine.rule("load", row, f"(let e {node}) (union (N i) e) {facts} (delete {row})")
        return table


_SCHEMA = (
    "(sort Expr)",
    "(ruleset load)",
    "(ruleset facts)",
    "(constructor N (i64) Expr :unextractable)",
    "(function ty (Expr) i64 :merge (max old new))",
    "(function val (Expr) i64 :merge (min old new))",
)

_FEW_KEYS = 5
"""Questions that have no more keys share a table, with zeros before the keys: tables are read one by one."""

_LEAF_FACTS = {"constant": f"(set (val e) a) {put('(isc e)')}"}
