"""Proofs that nodes of two graphs are equal, by saturation of one part after the other from the inputs upward."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.egraph.derivation import Congruence, Derivation
from eqsat.egraph.journal import Journal
from eqsat.egraph.rule import Soundness
from eqsat.equality.constants import WITHIN_ROUNDING, computations
from eqsat.equality.joining import Joined
from eqsat.equality.region import Cutter, Part
from eqsat.pipeline.options import Options
from eqsat.pipeline.saturate import Body, Region, saturate_bodies
from eqsat.relay.expr import Expr

WHOLE = 3000
"""Nodes up to which both graphs are saturated whole before anything else is tried."""

_SLICE = 300
"""Nodes of the second graph in one part."""

_MOST = 1500
"""Nodes of the second graph in one part, with those that could not be proved before."""

_DEPTHS = (4, 16)
"""How many levels below equal nodes a part keeps, in its first attempt and the next one."""

_ROUNDS = 4
"""How often constants that a saturation made are taken for given ones before the part is left."""


@dataclass(frozen=True)
class _Saturated:
    """A part that was saturated, and what was proved in it."""

    part: Part
    region: Region
    found: dict[Expr, Expr]
    takes: bool


class Prover:
    """Proves nodes of the second graph equal to nodes of the first.

    Args:
        joined: The graphs.
        options: Rules and limits.
    """

    def __init__(self, joined: Joined, options: Options):
        self.joined = joined
        self.options = replace(options, explain=True)
        self.cutter = Cutter(joined)
        self._start = time.perf_counter()
        self._done: list[_Saturated] = []

    @property
    def settled(self) -> dict[Expr, Expr]:
        """Node of the second graph -> the node of the first that it equals."""
        return self.cutter.settled

    @property
    def is_proved(self) -> bool:
        """Whether the graphs are equal."""
        first, second = self.joined.roots
        return self.settled.get(second, second) is first

    def has(self, node: Expr) -> bool:
        """Whether a node of the second graph is equal to one of the first."""
        return node in self.settled or node in self.cutter.first

    def prove_whole(self) -> None:
        """Saturate both graphs as one if they are not too large."""
        if not self.is_proved and len(self.joined.nodes) <= WHOLE:
            self._attempt(self.joined.roots[:1], self.joined.roots[1:], None)

    def prove_parts(self, partners: Mapping[Expr, Sequence[Expr]]) -> None:
        """Saturate one part after the other.

        Args:
            partners: Node of the second graph -> nodes of the first that have its values.
        """
        waiting: list[Expr] = []
        seconds = self.cutter.seconds
        for start in range(0, len(seconds), _SLICE):
            waiting = [node for node in (*waiting, *seconds[start : start + _SLICE]) if node not in self.settled]
            for depth in _DEPTHS:
                open_pairs = [node for node in waiting if node not in self.settled and partners.get(node)]
                if not open_pairs or self.is_proved:
                    break
                firsts = [each for node in open_pairs for each in partners[node]]
                self._attempt(firsts, open_pairs, depth)
            waiting = waiting[-_MOST:]

    def rules(self) -> dict[str, Soundness]:
        """The rules that the proof takes, with what each keeps, in the order of the parts."""
        sounds = {rule.name: rule.soundness for rule in self.options.schedule.rules}
        needed = {self.joined.roots[1]}
        used: list[list[str]] = []
        for done in reversed(self._done):
            pairs = {node: first for node, first in done.found.items() if node in needed}
            if pairs:
                used.append(
                    _rules_used(done.region, [(done.part.seconds[n], done.part.firsts[f]) for n, f in pairs.items()])
                )
                used[-1] += [WITHIN_ROUNDING] * done.takes
                needed.update(done.part.borrowed)
        names = [name for each in reversed(used) for name in each]
        return {
            name: sounds.get(name, Soundness.ROUNDING if name == WITHIN_ROUNDING else Soundness.EXACT)
            for name in dict.fromkeys(names)
        }

    # ---- one part

    def _attempt(self, firsts: Iterable[Expr], seconds: Iterable[Expr], depth: int | None) -> None:
        firsts, seconds = list(firsts), list(seconds)
        for _ in range(_ROUNDS):
            part = self.cutter.cut(firsts, seconds, depth)
            region = self._saturated(part)
            classes = _classes(region)
            found = self._found(part, classes)
            takes = any(node in self.cutter.taken for node in (*part.firsts, *part.seconds))
            if found:
                self._done.append(_Saturated(part, region, found, takes))
                self.settled.update(found)
            if all(node in self.settled for node in seconds):
                return
            constants = computations(part, region, self.cutter)
            if not constants:
                return
            self.cutter.taken.update(constants)

    def _saturated(self, part: Part) -> Region:
        options = self.options.after(time.perf_counter() - self._start)
        body = Body(None, None, False, part.root, part.types)
        saturation = saturate_bodies(part.root, [body], options, None, time.perf_counter(), part.is_whole)
        (region,) = saturation.regions
        return region

    def _found(self, part: Part, classes: Mapping[Expr, int]) -> dict[Expr, Expr]:
        """The nodes of the second graph that are equal to one of the first in a saturated part."""
        firsts: dict[int, Expr] = {}
        types = self.joined.types
        for node, new in part.firsts.items():
            firsts.setdefault(classes[new], node)
        found = {}
        for node, new in part.seconds.items():
            other = firsts.get(classes[new])
            if other is not None and node not in self.settled and types[node] == types[other]:
                found[node] = other
        return found


def _classes(region: Region) -> dict[Expr, int]:
    """The e-class of each node of a region."""
    class_of = region.snapshot.handle_class.tolist()
    return {node: class_of[handle] for node, handle in region.lowered.handles.items()}


def _rules_used(region: Region, pairs: Sequence[tuple[Expr, Expr]]) -> list[str]:
    """The rules by which nodes of a region are equal, in the order of their use."""
    journal = region.journal
    assert isinstance(journal, Journal)
    terms, of = journal.terms, journal.of_handle
    handles = region.lowered.handles
    ends = [(of[handles[second]], of[handles[first]]) for second, first in pairs]
    closed = Congruence(terms)
    for source, target in ends:
        closed.add(source)
        closed.add(target)
    for equation in journal.equations:
        closed.equate(equation)
    names: dict[str, None] = {}
    for source, target in ends:
        for edge in Derivation(closed, terms, lambda key: terms.intern(key, key), source, target):
            if edge.equation is not None:
                names[edge.equation.rule] = None
    return list(names)
