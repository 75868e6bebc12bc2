"""What became of a rule in a run."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.relay.dataflow_pattern.explanation import Place

CHOSEN, DECLINED, ACTED, REFUSED, CUT, UNMATCHED = "chosen", "declined", "acted", "refused", "cut", "unmatched"

OUTCOMES = {
    CHOSEN: "it acted, and the chosen graph has its result",
    DECLINED: "it acted, and its result was not chosen",
    ACTED: "it acted",
    REFUSED: "its left side matches, but a condition does not hold",
    CUT: "its left side matches, but the run ended before it acted",
    UNMATCHED: "its left side matches nowhere",
}
"""What each outcome means, the best first."""


@dataclass(frozen=True)
class WhyNot:
    """What became of a rule in a run.

    Attributes:
        rule: Its name.
        outcome: ``chosen``, ``declined``, ``acted``, ``refused``, ``cut`` or ``unmatched``.
        reasons: Why, the most likely reason first.
        places: Where its left side nearly matches the given graph, the nearest place first; of several left sides the
            places of the one that fits worst.
    """

    rule: str
    outcome: str
    reasons: tuple[str, ...]
    places: tuple[Place, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.rule}: {OUTCOMES[self.outcome]}", *[f"  {reason}" for reason in self.reasons]]
        return "\n".join(lines)
