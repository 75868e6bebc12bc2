"""What is told of patterns that do not match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eqsat.brief import one_line
from eqsat.relay.expr import Expr


@dataclass(frozen=True)
class Mismatch:
    """A sub-pattern that does not fit what it is laid over.

    Attributes:
        pattern: The sub-pattern.
        expr: What is there.
        wanted: What the pattern asks for, in words.
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
    """A pattern laid over a graph at one node.

    Attributes:
        expr: The node.
        mismatches: What does not fit; nothing where the pattern matches.
        missing: How many sub-patterns do not fit, those below what does not fit included.
        fitting: How many sub-patterns fit, without wildcards.
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
        root: The pattern laid over the expression itself.
        nearest: Places inside of the expression at which fewer sub-patterns do not fit, or none; the nearest first.
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
