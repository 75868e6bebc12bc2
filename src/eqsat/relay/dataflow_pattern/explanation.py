"""Explanations of why a pattern does not match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eqsat.brief import one_line
from eqsat.relay.expr import Expr


@dataclass(frozen=True)
class Mismatch:
    """A sub-pattern that does not fit the expression at its place.

    Attributes:
        pattern: The sub-pattern.
        expr: The expression at its place.
        wanted: What the pattern requires, in words.
        seen: What is there instead, in words.
    """

    pattern: Any
    expr: Expr
    wanted: str
    seen: str

    def __str__(self) -> str:
        return f"{self.wanted} is wanted, {self.seen} is there{where(self.expr)}"


@dataclass(frozen=True)
class Place:
    """A comparison of a pattern with a graph at one node.

    Attributes:
        expr: The node.
        mismatches: The sub-patterns that do not fit; empty if the pattern matches.
        missing: The number of sub-patterns that do not fit, including those below them.
        fitting: The number of sub-patterns that fit, without wildcards.
    """

    expr: Expr
    mismatches: tuple[Mismatch, ...]
    missing: int
    fitting: int

    @property
    def matches(self) -> bool:
        """Whether the pattern matches here."""
        return not self.mismatches

    def __str__(self) -> str:
        told = "; ".join(map(str, self.mismatches)) or "it matches"
        return f"at {one_line(self.expr.brief(2), 80)}{where(self.expr)}: {told}"


@dataclass(frozen=True)
class PatternExplanation:
    """Whether a pattern matches an expression, and if not, why.

    Attributes:
        root: The comparison of the pattern with the expression itself.
        nearest: The places inside the expression at which fewer sub-patterns do not fit, or none; the nearest first.
    """

    root: Place
    nearest: tuple[Place, ...]

    @property
    def matches(self) -> bool:
        """Whether the pattern matches the expression."""
        return self.root.matches

    def __str__(self) -> str:
        if self.matches:
            return "the pattern matches"
        lines = [f"the pattern does not match {self.root}"]
        if self.nearest:
            lines += ["nearest inside of it:", *[f"  {place}" for place in self.nearest]]
        return "\n".join(lines)


def where(expr: Expr) -> str:
    """Where a node was written, in brackets; nothing if that is not known."""
    return "" if expr.span is None else f" ({expr.span})"
