"""Which rules have their turn when, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from eqsat.brief import one_line
from eqsat.egraph.rule import Rewrite, Rule, RuleSet, flatten, refs_of, swapped_operator
from eqsat.errors import LimitError


@dataclass(frozen=True)
class Backoff:
    """How explosive rules are held back; both figures double with each ban of a rule (egg's defaults).

    A banned rule keeps its place: what it did not match meanwhile it matches later. A run counts as saturated
    only when no rule is banned.

    Args:
        match_limit: matches in one iteration above which a rule is banned. Graphs with more nodes than this
            raise it to their number of nodes.
        ban_length: iterations that a first ban lasts.
    """

    match_limit: int = 1000
    ban_length: int = 5

    def __post_init__(self) -> None:
        for name in ("match_limit", "ban_length"):
            if not getattr(self, name) > 0:
                raise LimitError(f"back-off {name}={getattr(self, name)!r}: give a number above 0")


@dataclass(frozen=True)
class Phase:
    """Rules that run together.

    Args:
        rules: the rules, in no order.
        iterations: after how many iterations the next phase begins; None: when nothing new follows.
    """

    rules: tuple[Rule, ...]
    iterations: int | None = None

    def __repr__(self) -> str:
        return f"Phase({len(self.rules)} rules, iterations={self.iterations})"

    @staticmethod
    def of(rules: Iterable[Any], iterations: int | None = None) -> Phase:
        """A phase of any iterable of rules, rule sets and callbacks."""
        if iterations is not None and not iterations > 0:
            raise LimitError(f"a phase of {iterations!r} iterations: give a number above 0, or None to saturate")
        return Phase(tuple(flatten(rules)), iterations)


@dataclass(frozen=True)
class Schedule:
    """Phases in order, the whole repeated.

    Args:
        phases: the phases.
        repeat: how often they are gone through; it ends early when a round changes nothing.
        backoff: how explosive rules are held back; None: not at all.
    """

    phases: tuple[Phase, ...]
    repeat: int = 1
    backoff: Backoff | None = Backoff()

    def __repr__(self) -> str:
        return one_line(f"Schedule({len(self.phases)} phases of {len(self.rules)} rules, repeat={self.repeat})")

    @staticmethod
    def of(rules: Any) -> Schedule:
        """``rules`` if it is a schedule, else one phase of them that runs until it is saturated."""
        if isinstance(rules, Schedule):
            return rules
        return _of_set(rules) if isinstance(rules, RuleSet) else Schedule((Phase.of(rules),))

    def beside(self, rules: Any) -> Schedule:
        """The schedule with further rules that act in every phase."""
        phases = tuple(Phase.of([phase.rules, rules], phase.iterations) for phase in self.phases)
        return Schedule(phases, self.repeat, self.backoff)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of all phases, each once."""
        return tuple(flatten([rule for phase in self.phases for rule in phase.rules]))

    @cached_property
    def commutative(self) -> frozenset[str]:
        """The operators of which a rule is the commutative law."""
        return frozenset(filter(None, map(swapped_operator, self.rules)))

    @cached_property
    def asked(self) -> frozenset[str]:
        """The kinds of what guards are given, and ``uses`` where rules ask for settled values."""
        settles = any(isinstance(rule, Rewrite) and rule.settled for rule in self.rules)
        return frozenset(ref.kind for rule in self.rules for ref in refs_of(rule)) | ({"uses"} if settles else set())


@lru_cache(maxsize=32)
def _of_set(rules: RuleSet) -> Schedule:
    """The schedule of a rule set, made once: many graphs are saturated under the same rules."""
    return Schedule((Phase.of(rules),))
