"""The outcome of a rule in a run."""

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
"""Outcome -> its meaning, from best to worst."""


@dataclass(frozen=True)
class WhyNot:
    """The outcome of a rule in a run, with the reasons.

    Attributes:
        rule: Name of the rule.
        outcome: ``chosen``, ``declined``, ``acted``, ``refused``, ``cut`` or ``unmatched``.
        reasons: The reasons, the most likely one first.
        places: The places of the given graph that the left side nearly matches, the nearest one first. For a rule with
            several left sides, the places of the side that fits worst.
    """

    rule: str
    outcome: str
    reasons: tuple[str, ...]
    places: tuple[Place, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.rule}: {OUTCOMES[self.outcome]}", *[f"  {reason}" for reason in self.reasons]]
        return "\n".join(lines)
