"""Where each node of a chosen graph comes from: nodes of the given graph, and the rules that led from them to it.

An e-node of the given graph comes from its nodes there, without a rule. Any other e-node was created by a match. It
comes from the origins of the matched e-nodes, by their rules and the rule of the match. Other nodes of the given graph
in the same e-class were replaced by it, through the matches that made them equal. If an input or a constant replaces
them, they belong to the nodes whose origins used them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.build import input_spans
from eqsat.egraph.lower import region_children
from eqsat.egraph.rule import FoldConstants
from eqsat.egraph.trace import Key, Match, Matches
from eqsat.pipeline.problem import RegionProblem
from eqsat.relay.expr import Expr
from eqsat.relay.visitor import children_first

Step = tuple[int, str]
"""When a match was found, and the name of its rule. A later match has a larger number."""

_LEAVES = ("var", "constant")
"""Kinds of e-nodes that are not operators."""


@dataclass(frozen=True)
class Derived:
    """Where an expression comes from; it replaces the expression's ``span``.

    Attributes:
        span: The span of a node of the given graph with the same value; None if there is none.
        origins: The spans of the nodes of the given graph that it comes from, in their order.
        steps: The matches that led from these to it, in order.
        maker: The rule that created it; None if it is part of the given graph.
    """

    span: Any
    origins: tuple[Any, ...]
    steps: tuple[Step, ...]
    maker: str | None = None

    def __str__(self) -> str:
        return "" if self.span is None else str(self.span)

    def __reduce__(self) -> Any:
        return type(self), (self.span, (), self.steps, self.maker)  # origins refer to all of the given graph


@dataclass
class _Parts:
    """The origin of a node: handles of given nodes, and steps."""

    origins: set[int] = field(default_factory=set)
    steps: set[Step] = field(default_factory=set)

    def __ior__(self, other: _Parts) -> _Parts:
        self.origins |= other.origins
        self.steps |= other.steps
        return self


@dataclass(frozen=True)
class _Edge:
    """Two e-nodes of one class that a match made equal; None stands for the whole former class."""

    match: Match
    ends: tuple[Key | None, Key | None]


@dataclass(frozen=True)
class Derivation:
    """The origins of a chosen graph.

    Attributes:
        spans: The span of each e-class of a choice: :class:`Derived` if matches were noted, else that of a given node.
        dropped: Span of a given node in whose place an input or a constant was chosen -> how that came about.
    """

    spans: Mapping[int, Any]
    dropped: Mapping[Any, Derived]


def derivation(posed: RegionProblem, choice: NDArray[np.int64]) -> Derivation:
    """Return the origins of the e-nodes of a choice."""
    if posed.region.traced is None:
        return Derivation(input_spans(posed.region.snapshot, posed.region.lowered), {})
    return _Derivations(posed, choice).derivation()


def owners(nodes: Sequence[Expr]) -> dict[Expr, Any]:
    """The span of each node; of one without a span that of what uses it, for which a front end made it.

    Args:
        nodes: The nodes of a graph, children first.
    """
    found: dict[Expr, Any] = {}
    for node in reversed(nodes):
        if node.span is not None:
            found[node] = node.span
        span = found.get(node)
        for child in region_children(node):
            if child.span is None and span is not None:
                found.setdefault(child, span)
    return found


class _Derivations:
    """Finds the origins of the e-nodes of one choice."""

    def __init__(self, posed: RegionProblem, choice: NDArray[np.int64]):
        self.region = posed.region
        self.snapshot = posed.region.snapshot
        self.choice = choice
        assert posed.region.traced is not None
        self.traced = posed.region.traced
        self._original = {
            placed.first_class + index: int(self.snapshot.node_class[node])
            for placed in posed.kernels
            for index, node in enumerate(placed.kernel.nodes[:-1])
        }
        class_of = self.snapshot.handle_class.tolist()
        self._key_of: dict[int, Key] = {}  # handle of the given graph -> its e-node
        self._children: dict[int, list[int]] = {}
        self._handles: dict[Key, list[int]] = {}  # of operators
        self._given: dict[int, dict[Key, None]] = {}  # class -> operators
        for handle, symbol, atom, children in self.region.lowered.nodes:
            key = (symbol, atom, *[class_of[child] for child in children])
            self._key_of[handle], self._children[handle] = key, children
            if self._is_operator(key):
                self._handles.setdefault(key, []).append(handle)
                self._given.setdefault(class_of[handle], {})[key] = None
        self._makers: dict[int, dict[Key, tuple[int, Matches | Match, int]]] = {}
        self._matches: dict[tuple[int, int], Match] = {}

    def derivation(self) -> Derivation:
        """Where the e-nodes of the choice are from."""
        chosen = self.choice.tolist()
        classes = children_first([self.region.root], lambda of: self.snapshot.children(chosen[of]))
        keys = {of: self._key(chosen[of]) for of in classes}
        absorbed: dict[int, _Parts] = {}
        firsts = input_spans(self.snapshot, self.region.lowered)
        found: dict[int, Derived] = {}
        dropped: dict[Any, Derived] = {}
        replaced = {of: [key for key in self._given.get(self._at(of), ()) if key != keys[of]] for of in classes}
        self._edges = self._edges_in({self._at(of) for of, others in replaced.items() if others})
        for of in classes:
            parts = self._replaced(self._at(of), keys[of], replaced[of])
            if not self._is_operator(keys[of]):
                absorbed[of] = parts
            else:
                parts |= self._behind([keys[of]])
                for child in self.snapshot.children(chosen[of]):
                    if child in absorbed and absorbed[child].origins and self._used(parts, replaced[child]):
                        parts |= absorbed[child]
            found[of] = self._derived(firsts.get(self._at(of)), parts, keys[of])
            if of in absorbed:
                handles = [handle for key in replaced[of] for handle in self._handles[key]]
                dropped |= {self._owner[handle]: found[of] for handle in handles if handle in self._owner}
        return Derivation(found, dropped)

    def _derived(self, span: Any, parts: _Parts, key: Key) -> Derived:
        spans = dict.fromkeys(self._owner[handle] for handle in sorted(parts.origins) if handle in self._owner)
        steps = tuple(sorted(parts.steps))
        maker = None
        if self._is_operator(key) and key not in self._handles:
            match = self._maker(key)
            maker = match.rule if match is not None else steps[-1][1] if steps else None
        return Derived(span, tuple(spans), steps, maker)

    @cached_property
    def _owner(self) -> dict[int, Any]:
        """Handle of the given graph -> span of the node that it belongs to."""
        handles = self.region.lowered.handles
        spans = owners(list(handles))
        found: dict[int, Any] = {}
        for node, handle in handles.items():
            if node in spans:
                found.setdefault(handle, spans[node])
        return found

    def _at(self, of: int) -> int:
        """Return the class of the e-graph that a kernel's own class stands for."""
        return self._original.get(of, of)

    def _key(self, node: int) -> Key:
        snapshot = self.snapshot
        children = [self._at(child) for child in snapshot.children(node)]
        return (int(snapshot.node_symbol[node]), int(snapshot.node_atom[node]), *children)

    def _is_operator(self, key: Key) -> bool:
        return self.snapshot.symbols[key[0]].kind not in _LEAVES

    # ---- what made an e-node

    def _behind(self, keys: Iterable[Key]) -> _Parts:
        """Return the origins of e-nodes."""
        parts = _Parts()
        todo, seen = list(keys), set[Key]()
        while todo:
            key = todo.pop()
            if key in seen:
                continue
            seen.add(key)
            if key in self._handles:
                parts.origins.update(self._handles[key])
            elif self._is_operator(key) and (match := self._maker(key)) is not None:
                todo += self._premises(match, parts)
        return parts

    def _premises(self, match: Match, parts: _Parts) -> list[Key]:
        """Return the e-nodes that a match depends on; add its step and the origins of its constants to ``parts``."""
        parts.steps.add((match.stamp, match.rule))
        for leaf in match.leaves:
            if self._is_constant(leaf) and leaf in self._given:
                parts |= self._folded(self._given[leaf])
        return [node.key for node in match.matched]

    def _maker(self, key: Key) -> Match | None:
        """Return the first match that created an e-node."""
        symbol = key[0]
        if symbol not in self._makers:
            self._makers[symbol] = self._makers_of(symbol)
        found = self._makers[symbol].get(key)
        if found is None:
            return None
        _, matches, row = found
        return matches if isinstance(matches, Match) else self._match(matches, row)

    def _makers_of(self, symbol: int) -> dict[Key, tuple[int, Matches | Match, int]]:
        """Return the first match that created each e-node of a symbol, and its stamp."""
        first: dict[Key, tuple[int, Matches | Match, int]] = {}
        for matches in self.traced.matches:
            made = [each for each in matches.log.made if each.symbol == symbol]
            stamps = matches.stamps.tolist() if made else []
            for each in made:
                for row, (stamp, key) in enumerate(zip(stamps, matches.keys(each), strict=True)):
                    if key not in first or stamp < first[key][0]:
                        first[key] = (stamp, matches, row)
        for match in self.traced.noted:
            for node in match.made:
                if node.key[0] == symbol and (node.key not in first or match.stamp < first[node.key][0]):
                    first[node.key] = (match.stamp, match, 0)
        return first

    def _match(self, matches: Matches, row: int) -> Match:
        place = (id(matches), row)
        if place not in self._matches:
            self._matches[place] = matches.match(row)
        return self._matches[place]

    # ---- what took the place of an e-node

    def _edges_in(self, classes: set[int]) -> dict[int, list[_Edge]]:
        """Return the equalities that matches created in some classes, earliest first."""
        found: dict[int, list[_Edge]] = {of: [] for of in classes}
        wanted = np.asarray(sorted(classes), dtype=np.int64)
        for match in [*self._noted_at(wanted), *self.traced.noted]:
            for of, root, result in match.pairs:
                if of in found and root != result:
                    found[of].append(_Edge(match, (root, result)))
        for edges in found.values():
            edges.sort(key=lambda edge: edge.match.stamp)
        return found

    def _noted_at(self, classes: NDArray[np.int64]) -> Iterator[Match]:
        """The matches whose roots are in some classes."""
        for matches in self.traced.matches:
            roots = [matches.cells[:, matches.place[root]] for root, _ in matches.log.pairs]
            is_there = np.any([np.isin(root, classes) for root in roots], axis=0)
            for row in np.flatnonzero(is_there).tolist():
                yield self._match(matches, row)

    def _replaced(self, of: int, chosen: Key, others: Sequence[Key]) -> _Parts:
        """Return the origins of given e-nodes of a class that another one replaced, and the matches that led to it."""
        parts = _Parts()
        if not others:
            return parts
        if not self._is_operator(chosen) and self._is_constant(of):
            parts |= self._folded(others)
        premises: list[Key] = []
        ways = self._ways(of, chosen)
        for key in others:
            parts.origins.update(self._handles[key])
            for match in ways(key):
                premises += self._premises(match, parts)
        parts |= self._behind(premises)
        return parts

    def _ways(self, of: int, target: Key) -> Any:
        """A function that gives the matches by which an e-node of a class is equal to another one."""
        edges: dict[Key | None, list[_Edge]] = {}
        for edge in self._edges[of]:
            for end in edge.ends:
                edges.setdefault(end, []).append(edge)
        back: dict[Key | None, tuple[Key | None, Match]] = {}
        todo = deque[Key | None]([target, None])
        while todo:
            end = todo.popleft()
            for edge in edges.get(end, ()):
                other = edge.ends[0] if edge.ends[1] == end else edge.ends[1]
                if other not in back and other is not None and other != target:
                    back[other] = (end, edge.match)
                    todo.append(other)

        def way(key: Key | None) -> Iterator[Match]:
            while key in back:
                key, match = back[key]
                yield match

        return way

    # ---- constants

    def _is_constant(self, of: int) -> bool:
        return bool(of >= 0 and self._has_constant[of])

    @cached_property
    def _has_constant(self) -> NDArray[np.bool_]:
        found = np.zeros(self.snapshot.class_count, dtype=bool)
        found[self.snapshot.node_class[self.snapshot.is_leaf]] = True
        return found

    @cached_property
    def _folding(self) -> str | None:
        return next((rule.name for rule in self.region.rules if isinstance(rule, FoldConstants)), None)

    def _folded(self, keys: Iterable[Key]) -> _Parts:
        """Return the origins of a computed constant: all given operators below it that depend only on constants."""
        parts = _Parts()
        todo = [handle for key in keys for handle in self._handles[key]]
        while todo:
            handle = todo.pop()
            of = int(self.snapshot.handle_class[handle])
            if handle in parts.origins or not self._is_operator(self._key_of[handle]) or not self.snapshot.constant[of]:
                continue
            parts.origins.add(handle)
            todo += self._children[handle]
        if parts.origins and self._folding is not None:
            parts.steps.add((0, self._folding))
        return parts

    def _used(self, parts: _Parts, keys: Sequence[Key]) -> bool:
        """Whether one of the nodes that something is from takes one of some given e-nodes."""
        wanted = {handle for key in keys for handle in self._handles[key]}
        return any(not wanted.isdisjoint(self._children[handle]) for handle in parts.origins)
