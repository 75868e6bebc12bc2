"""Proofs that nodes of two graphs are equal, by saturating one part after another, starting at the inputs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from eqsat.egraph.derivation import Congruence, Derivation
from eqsat.egraph.rule import Soundness
from eqsat.equality.constants import WITHIN_ROUNDING, computations
from eqsat.equality.forms import in_forms
from eqsat.equality.groups import FIRST, SECOND, Groups
from eqsat.equality.joining import Joined
from eqsat.equality.region import Part, cut
from eqsat.pipeline.options import Options
from eqsat.pipeline.saturate import Body, Region, saturate_bodies
from eqsat.relay.expr import Expr

WHOLE = 3000
"""Maximum number of nodes for which both graphs are first saturated as a whole."""

_SLICE = 300
"""Number of nodes of the second graph in one part."""

_MOST = 1500
"""Maximum number of nodes of the second graph in one part, including nodes that could not be proved before."""

_DEPTHS = (4, 16)
"""Number of levels below equal nodes that a part keeps, in the first and the second attempt."""

_ROUNDS = 4
"""Number of rounds in which computed constants are equated with given ones before the part is abandoned."""


@dataclass(frozen=True)
class _Proved:
    """A saturated part, and the pairs of nodes that it proves equal."""

    part: Part
    region: Region
    pairs: list[tuple[Expr, Expr]]
    taken: dict[Expr, Expr]


class Prover:
    """Proves that nodes of two graphs are equal.

    Args:
        joined: The graphs.
        options: Rules and limits.
        computed: Constants that neither graph gave, but what read it computed.
        exact_constants: Whether a constant is taken for a computation only if it is equal to it bit for bit.

    Attributes:
        groups: What is proved.
        rounded: The constants that the proof takes for computations, with these, once :meth:`rules` was asked for.
    """

    def __init__(
        self, joined: Joined, options: Options, computed: Set[Expr] = frozenset(), exact_constants: bool = False
    ):
        self.joined = joined
        self.groups = Groups(joined)
        self._computed = computed
        self._exact_constants = exact_constants
        self._options = replace(options, explain=True)
        self.rounded: dict[Expr, Expr] = {}
        self._start = time.perf_counter()
        self._taken: dict[Expr, Expr] = {}
        self._others: dict[Expr, list[Expr]] = {}
        self._proved: list[_Proved] = []
        self._open: list[tuple[Part, Region]] = []

    def prove_whole(self) -> None:
        """Saturate both graphs together if they are not too large."""
        if not self.groups.is_one and len(self.joined.nodes) <= WHOLE:
            self._attempt(self.joined.roots, None)

    def prove_parts(self, partners: Mapping[Expr, Sequence[Expr]]) -> None:
        """Saturate one part after the other.

        Args:
            partners: Node of the second graph -> nodes of the first that have its values.
        """
        groups = self.groups
        seconds = [node for node in groups.of(SECOND) if not groups.is_shared(node)]
        self._open.clear()
        waiting: list[Expr] = []
        for start in range(0, len(seconds), _SLICE):
            waiting = [node for node in (*waiting, *seconds[start : start + _SLICE]) if not groups.is_shared(node)]
            for depth in _DEPTHS:
                pairs = {node: partners[node] for node in waiting if partners.get(node) and not groups.is_shared(node)}
                if not pairs or groups.is_one:
                    break
                self._attempt([*pairs, *[first for firsts in pairs.values() for first in firsts]], depth)
            waiting = waiting[-_MOST:]

    def rules(self) -> dict[str, Soundness]:
        """Return the rules of the proof with their soundness, in the order of the parts."""
        sounds = {rule.name: rule.soundness for rule in self._options.schedule.rules}
        sounds[WITHIN_ROUNDING] = Soundness.ROUNDING
        groups = self.groups
        needed = {groups.leader(self.joined.roots[0])}
        used: list[list[str]] = []
        for proved in reversed(self._proved):
            pairs = [pair for pair in proved.pairs if groups.leader(pair[0]) in needed]
            if pairs:
                used.append([*_rules_used(proved, pairs), *[WITHIN_ROUNDING] * bool(proved.taken)])
                self.rounded |= proved.taken
                needed.update(map(groups.leader, proved.part.nodes))
        names = dict.fromkeys(name for each in reversed(used) for name in each)
        return {name: sounds.get(name, Soundness.EXACT) for name in names}

    def formed(self) -> set[Expr]:
        """Return the nodes that occur in a form of the other graph, in the last part that was not proved."""
        found: set[Expr] = set()
        for part, region in self._open:
            sides = [[node for node in part.nodes if self._is_of(node, side)] for side in (FIRST, SECOND)]
            for own, other in (sides, reversed(sides)):
                found |= in_forms(region, part, own, other)
        return found

    def _is_of(self, node: Expr, side: int) -> bool:
        return bool(self.groups.sides(node) & side) or self.groups.is_shared(node)

    # ---- one part

    def _attempt(self, roots: Iterable[Expr], depth: int | None) -> None:
        """Saturate the part that computes some nodes, repeatedly while near constants are found."""
        roots = list(roots)
        for _ in range(_ROUNDS):
            part = cut(self.groups, roots, depth, self._taken)
            region = self._saturated(part, roots)
            pairs = self._pairs(part, region)
            if pairs:
                taken = {node: self._taken[node] for node in part.nodes if node in self._taken}
                self._proved.append(_Proved(part, region, pairs, taken))
                for one, other in pairs:
                    self.groups.merge(one, other)
            if all(map(self.groups.is_shared, roots)):
                return
            found = computations(part, region, self.groups, self._taken, self._computed, self._exact_constants)
            if not found:
                found = {node: self._others.pop(node) for node in part.nodes if node in self._others}
            if not found:
                break
            self._taken.update({node: first for node, (first, *_) in found.items()})
            self._others.update({node: others for node, (_, *others) in found.items() if others})
        self._open.append((part, region))

    def _saturated(self, part: Part, roots: Sequence[Expr]) -> Region:
        options = self._options.after(time.perf_counter() - self._start)
        body = Body(None, None, False, part.root, part.types)
        goal = None
        if {*self.joined.roots} <= {*roots}:
            one, other = (part.nodes[self.groups.leader(root)] for root in self.joined.roots)
            goal = (one, other)
        saturation = saturate_bodies(part.root, [body], options, None, time.perf_counter(), part.is_whole, goal)
        (region,) = saturation.regions
        return region

    def _pairs(self, part: Part, region: Region) -> list[tuple[Expr, Expr]]:
        """Nodes that are in the class of another one in a saturated part, with the first such one."""
        class_of = region.snapshot.handle_class.tolist()
        firsts: dict[tuple[int, object], Expr] = {}
        found = []
        for node, made in part.nodes.items():
            if made in region.lowered.handles:
                of = class_of[region.lowered.handles[made]]
                first = firsts.setdefault((of, self.joined.types[node]), node)
                if first is not node:
                    found.append((node, first))
        return found


def _rules_used(proved: _Proved, pairs: Sequence[tuple[Expr, Expr]]) -> list[str]:
    """The rules by which pairs of nodes are equal, in the order of their use."""
    journal, handles, nodes = proved.region.journal, proved.region.lowered.handles, proved.part.nodes
    assert journal is not None
    terms = journal.terms
    ends = [tuple(journal.of_handle[handles[nodes[node]]] for node in pair) for pair in pairs]
    closed = Congruence(terms)
    for term in [term for pair in ends for term in pair]:
        closed.add(term)
    for equation in journal.equations:
        closed.equate(equation)
    names: dict[str, None] = {}
    for source, target in ends:
        for edge in Derivation(closed, terms, lambda key: terms.intern(key, key), source, target):
            if edge.equation is not None:
                names[edge.equation.rule] = None
    return list(names)
