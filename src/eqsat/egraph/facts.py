"""Facts that follow from e-nodes: types, constness, and values of small constant expressions.

The engine derives them by rules over ids; what an operator's own relation or kernel must decide is a
question to Python, asked once per distinct ``(operator, attributes, argument ids)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import numpy as np

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import put
from eqsat.egraph.exact_constants import ExactConstants
from eqsat.egraph.large_constants import LargeConstants
from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.symbols import Symbol, is_foldable
from eqsat.egraph.vocabulary import WIDEST_TUPLE, Test, Vocabulary
from eqsat.errors import EqsatError
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Op
from eqsat.relay.fold import LARGE, nbytes
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.relations import call_type
from eqsat.relay.traits import Trait
from eqsat.relay.ty import IncompleteType, TensorType, TupleType, Type

MAX_ARITY = 32
"""Constness is not derived through e-nodes with more children: a join that wide costs more than it tells."""


def node_type(symbol: Symbol, value: Any, children: Sequence[Type]) -> Type | None:
    """The type of an e-node from the value of its atom and its children's types, None when it cannot be told.

    Raises:
        TypeCheckError: the children do not fit the operator.
    """
    if symbol.kind == "call" and symbol.op is not None:
        ty = call_type(symbol.op, value, list(children))
        return None if isinstance(ty, IncompleteType) else ty
    if symbol.kind == "constant":
        return TensorType(value.data.shape, value.data.dtype)
    if symbol.kind == "tuple":
        return TupleType(children)
    if symbol.kind == "joined":
        return TupleType([field for child in children if isinstance(child, TupleType) for field in child.fields])
    if symbol.kind == "project":
        (of,) = children
        return of.fields[value] if isinstance(of, TupleType) and value < len(of.fields) else None
    if symbol.kind == "if":
        return children[1]
    return None


def find_types(egraph: EGraph, arity: int) -> None:
    """Have types found for the e-nodes of so many children in ``made_<arity>``, which rules made."""
    engine = egraph.engine
    if not engine.relation(f"made_{arity}", "i64", "i64", *["Expr"] * (arity + 1)) or arity > MAX_ARITY:
        return
    name, answer = f"ty{arity}", partial(_type_found, egraph.vocabulary)
    children = [f"c{i}" for i in range(arity)]
    types = " ".join(f"t{i}" for i in range(arity))
    question = egraph.question(["number", "atom", *["type"] * arity], 1, "type", answer)
    engine.relation(f"{name}_of", "Expr", *["i64"] * (2 + arity))
    known = "".join(f" (= t{i} (ty {child}))" for i, child in enumerate(children))
    row = f"({name}_of e s a {types})"
    made = f"(made_{arity} s a {' '.join(children)} e){known}"
    engine.rule("facts", made, f"{put(row)} {put(f'({question.ask} s a {types})')}")
    typed = f"{row} ({question.answered} s a {types} t)"
    engine.rule("facts", typed, f"(set (ty e) t) {put('(found e t)')}")


def _type_found(vocabulary: Vocabulary, symbol: int, atom: int, *ids: int) -> Sequence[int] | None:
    """The type id of an e-node from its symbol, its atom and its children's types; None if it has no type."""
    children = [vocabulary.types[index] for index in ids]
    try:
        ty = node_type(vocabulary.symbols[symbol], vocabulary.atoms[atom].value, children)
    except EqsatError:
        return None  # the node is ill-typed: it stays without a type and no rule that asks for one sees it
    return None if ty is None else (vocabulary.type_id(ty),)


def _vanishes(op: Op, result: Any) -> bool:
    """Whether a result is a float matrix, or more, of zeros only: a weight that was scaled by 0.

    It stays an expression: were 0 * w known to equal 0 * w * k, what is multiplied by it would equal itself times
    k, and times k * k, and so on for ever. Zeros that are moved come of zeros, and those of sums of what cancels out.
    """
    return (
        not op.has(Trait.MOVES)
        and op.name not in ("add", "subtract")
        and isinstance(result, np.ndarray)
        and result.dtype.kind == "f"
        and result.ndim > 1
        and result.size > 1
        and not result.any()
    )


class ConstantFacts:
    """Constness of classes and, with ``limit``, values of small constant expressions (constant folding).

    With ``limit``, an e-node over constants is deleted when its value is known, unless ``on_fold`` is told of it. No
    rule sees another e-node of a class with a value: 0 = 0 * k is of no use to anyone, and rules that take it for a
    product of an unknown would go on for ever.

    Args:
        limit: fold e-nodes whose result has at most this many bytes; 0 folds nothing. Larger constant
            expressions stay symbolic and are evaluated only if they are extracted.
        given: The same for expressions of the given graph, if it is more.
        on_fold: told of each e-node that was folded: symbol, atom, atoms of its constant children, result's atom.
    """

    def __init__(
        self,
        egraph: EGraph,
        limit: int,
        given: int = 0,
        on_fold: Callable[[int, int, Sequence[int], int], None] | None = None,
    ):
        self.egraph = egraph
        self.limit = limit
        self._folding = _Folding(egraph.vocabulary, limit, max(limit, given if limit else 0))
        self.on_fold = on_fold
        egraph.fold = self._folding.result if limit and on_fold is None else None
        self._covered: set[int] = set()
        self._constness: list[str] = []  # premises that it follows from, once a rule asks for it
        egraph.on_constness = self._derive_constness

    @contextmanager
    def of_given(self) -> Iterator[None]:
        """Fold expressions of the given graph for a while, whose results may be larger."""
        self._folding.forget_what_is_too_large()
        with self._folding.of_given():
            yield

    def update(self, prefilter: Prefilter | None) -> bool:
        """See to the symbols whose e-nodes may be constant now (without ``prefilter``: ever); whether any is new."""
        return self._see(
            range(len(self.egraph.vocabulary.symbols)) if prefilter is None else prefilter.constant_symbols()
        )

    def watch(self, names: Sequence[str]) -> bool:
        """See to the operators of these names; whether any is new."""
        symbols = self.egraph.vocabulary.symbols
        return self._see([i for i, symbol in enumerate(symbols) if symbol.op is not None and symbol.op.name in names])

    def _see(self, found: Iterable[int]) -> bool:
        symbols = self.egraph.vocabulary.symbols
        new = [index for index in found if index not in self._covered]
        self._covered.update(new)
        for index in new:
            if 0 < symbols[index].arity <= MAX_ARITY:
                self._cover(index, symbols[index])
        return bool(new)

    def _cover(self, index: int, symbol: Symbol) -> None:
        children = [f"c{i}" for i in range(symbol.arity)]
        row = f"(n{index} a {' '.join(children)})"
        if self.limit and symbol.kind == "call":
            self.egraph.engine.rule("facts", f"(= e {row}) (= v (val e))", f"(subsume {row})")
        if is_foldable(symbol):
            constant = "".join(f" (isc {child})" for child in children)
            self._constness.append(f"(= e {row}){constant}")
            if self.egraph.on_constness is None:
                self._derive_constness()
            if self.limit:
                self._cover_values(index, row, children)

    def _derive_constness(self) -> None:
        for premises in self._constness:
            self.egraph.engine.rule("facts", premises, put("(isc e)"))
        self._constness = []

    def _cover_values(self, index: int, row: str, children: list[str]) -> None:
        egraph = self.egraph
        values = " ".join(f"v{i}" for i in range(len(children)))
        premises = f"(= e {row})" + "".join(f" (= v{i} (val {child}))" for i, child in enumerate(children))

        def tell(keys: Sequence[int], found: Sequence[int]) -> None:
            """See to a value that was found: what is done with those of its kind is compiled with the first."""
            (result,) = found
            kind = egraph.vocabulary.atoms[result].kind
            actions = "(set (val e) v)"
            if kind == "constant":
                constant = egraph.symbol(Symbol("constant", None, 0))
                actions += f" (union e (n{constant} v)) {put('(isc e)')}"
                if self.on_fold is None:  # nobody would choose the e-node, and nobody asks what was computed
                    actions += f" (delete {row})"
            is_kind = egraph.predicate(Test(kind, "any", lambda value: True))
            answered = f"({question.answered} a {values} v) ({is_kind} v)"
            egraph.engine.rule("facts", f"{premises} {answered}", actions)
            if self.on_fold is not None:
                self.on_fold(index, keys[0], keys[1:], result)

        result = partial(self._folding.result, index)
        of_given = partial(self._folding.result_of_given, index)
        question = egraph.question(["atom"] * (1 + len(children)), 1, "atom", result, tell, of_given=of_given)
        egraph.engine.rule("facts", premises, put(f"({question.ask} a {values})"))


class _Folding:
    """Computes e-nodes over constants whose result has at most ``limit`` bytes, or ``given`` in the given graph."""

    def __init__(self, vocabulary: Vocabulary, limit: int, given: int):
        self.vocabulary = vocabulary
        self.limit = limit
        self.given = given
        self._exact = ExactConstants(vocabulary)
        self._large = LargeConstants(self._exact.nearest)
        self._found: dict[tuple[int, ...], Sequence[int] | None] = {}
        self._sizes: dict[tuple[Op, int, tuple[Type, ...]], float | None] = {}

    @contextmanager
    def of_given(self) -> Iterator[None]:
        """Compute as for the given graph for a while."""
        limit, self.limit = self.limit, self.given
        try:
            yield
        finally:
            self.limit = limit

    def forget_what_is_too_large(self) -> None:
        """Compute again what was asked for and was too large."""
        self._found = {node: atoms for node, atoms in self._found.items() if atoms is not None}

    def result(self, *node: int) -> Sequence[int] | None:
        """The atom of the value of an e-node, None if it is too large or cannot be computed.

        Args:
            node: its symbol and its atom, and the atoms of its children's values.
        """
        if node not in self._found:
            self._found[node] = self._result(*node)
        return self._found[node]

    def result_of_given(self, *node: int) -> Sequence[int] | None:
        """The same of an e-node of the given graph."""
        with self.of_given():
            return self._result(*node)

    def _result(self, index: int, atom: int, *ids: int) -> Sequence[int] | None:
        vocabulary = self.vocabulary
        symbol = vocabulary.symbols[index]
        value, arguments = vocabulary.atoms[atom].value, [vocabulary.atoms[index] for index in ids]
        if symbol.kind == "tuple":
            return (vocabulary.atom("tuple value", ("tuple value", *ids), tuple(ids)),)
        if symbol.kind == "project":
            fields = arguments[0].value
            return (fields[value],) if isinstance(fields, tuple) and value < len(fields) else None
        size = None if symbol.kind == "joined" or symbol.op is None else self._size(symbol.op, atom, ids)
        if symbol.op is None or size is None or size > self.limit:
            return None
        exact = self._exact.result(symbol.op, value, ids) if size < LARGE else None
        if exact is not None:
            return None if _vanishes(symbol.op, vocabulary.atoms[exact].value.data.numpy()) else (exact,)
        try:
            result = self._computed(symbol.op, value, ids, size)
        except EqsatError:
            return None
        is_wide = isinstance(result, tuple) and len(result) > WIDEST_TUPLE
        vanishes = _vanishes(symbol.op, result.data.numpy() if isinstance(result, Constant) else result)
        return None if result is None or is_wide or vanishes else (self._intern(result),)

    def _computed(self, op: Op, attrs: Attrs | None, ids: Sequence[int], size: float) -> Any:
        if size < LARGE:
            return evaluate_op(op, attrs, [self._array(index) for index in ids])
        return self._large.result(op, attrs, [self._data(index) for index in ids])

    def _size(self, op: Op, atom: int, ids: Sequence[int]) -> float | None:
        """The bytes of the result; None if it has no type."""
        types = tuple(map(self._type, ids))
        key = (op, atom, types)
        if key not in self._sizes:
            try:
                self._sizes[key] = nbytes(call_type(op, self.vocabulary.atoms[atom].value, [*types]))
            except EqsatError:
                self._sizes[key] = None
        return self._sizes[key]

    def _type(self, index: int) -> Type:
        atom = self.vocabulary.atoms[index]
        if atom.kind == "tuple value":
            return TupleType([self._type(field) for field in atom.value])
        return _tensor(atom.value.data.shape, atom.value.data.dtype)

    def _data(self, index: int) -> Any:
        """The data of a constant, or of those in a tuple."""
        atom = self.vocabulary.atoms[index]
        return tuple(map(self._data, atom.value)) if atom.kind == "tuple value" else atom.value.data

    def _array(self, index: int) -> Any:
        return _arrays(self._data(index))

    def _intern(self, result: Any) -> int:
        if isinstance(result, tuple):
            ids = tuple(self._intern(field) for field in result)
            return self.vocabulary.atom("tuple value", ("tuple value", *ids), ids)
        return self.vocabulary.constant(result if isinstance(result, Constant) else Constant(np.asarray(result)))


@lru_cache(maxsize=1 << 12)
def _tensor(shape: tuple[int, ...], dtype: str) -> TensorType:
    """A type that many constants have."""
    return TensorType(shape, dtype)


def _arrays(data: Any) -> Any:
    """The array of data, or those of data in a tuple."""
    return tuple(map(_arrays, data)) if isinstance(data, tuple) else data.numpy()
