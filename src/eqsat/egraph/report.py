"""The limits of a saturation, and the report about it."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass, field
from typing import Any

from eqsat.errors import LimitError
from eqsat.notebook import preview, table


@dataclass(frozen=True)
class Limits:
    """Limits of a saturation, which stops at the first one that is reached.

    They are checked between runs of rules, so one run of a rule may exceed them.

    Args:
        iterations: Maximum number of iterations; each iteration applies every rule once.
        nodes: Maximum number of e-nodes.
        seconds: Maximum wall-clock time, in seconds.
        memory: Maximum memory of the whole process, in bytes; None for no limit.

    Raises:
        LimitError: A limit is not a positive number.
    """

    iterations: int = 30
    nodes: int = 200_000
    seconds: float = 30.0
    memory: int | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name == "memory" and value is None:
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
                raise LimitError(f"limit {name}={value!r}: give a number above 0")


@dataclass
class IterationReport:
    """The size of the e-graph after one iteration, and the time of the iteration in seconds."""

    nodes: int
    classes: int
    seconds: float


@dataclass
class RuleReport:
    """What one rule did in the whole run; ``updates`` counts the runs of the rule that changed the e-graph."""

    name: str
    matches: int = 0
    updates: int = 0
    bans: int = 0
    seconds: float = 0.0
    refusals: dict[str, int] = field(default_factory=dict)


@dataclass
class Failure:
    """A failure of a rule on a match, in a run that continued: the message, and the place in the rule."""

    rule: str
    message: str
    traceback: str


@dataclass
class Report:
    """What happened during a saturation, in order.

    Args:
        iterations: One entry for each iteration.
        rules: Name of each rule -> its entry.
        phases: Phase -> time in seconds; the phases are ``lower``, ``saturate``, ``snapshot``, ``extract`` and
            ``build``.
        stop_reason: Why the run stopped: ``saturated``, ``iterations``, ``nodes``, ``seconds``, ``memory`` or
            ``interrupted``.
        failures: The failures of rules, in a run with ``on_error="skip"``.
    """

    iterations: list[IterationReport] = field(default_factory=list)
    rules: dict[str, RuleReport] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    stop_reason: str = ""
    failures: list[Failure] = field(default_factory=list)

    def rule(self, name: str) -> RuleReport:
        """Return the entry of a rule; it is created if there is none."""
        entry = self.rules.get(name)
        if entry is None:
            entry = self.rules[name] = RuleReport(name)
        return entry

    def refuse(self, name: str, reason: str) -> None:
        """Count a refusal."""
        refusals = self.rule(name).refusals
        refusals[reason] = refusals.get(reason, 0) + 1

    def fail(self, name: str, error: Exception) -> None:
        """Add a failure of a rule."""
        cause = error.__cause__ or error
        trace = "".join(traceback.format_exception(cause))
        self.failures.append(Failure(name, str(error), trace))

    def add_seconds(self, phase: str, seconds: float) -> None:
        """Add to the time of a phase."""
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def merge(self, other: Report) -> None:
        """Add the report of another run, of another function. A stop reason other than ``saturated`` is kept."""
        self.iterations += other.iterations
        for name, theirs in other.rules.items():
            mine = self.rule(name)
            mine.matches += theirs.matches
            mine.updates += theirs.updates
            mine.bans += theirs.bans
            mine.seconds += theirs.seconds
            for reason, count in theirs.refusals.items():
                mine.refusals[reason] = mine.refusals.get(reason, 0) + count
        for phase, seconds in other.phases.items():
            self.add_seconds(phase, seconds)
        self.failures += other.failures
        if self.stop_reason in ("", "saturated"):
            self.stop_reason = other.stop_reason

    def copy(self) -> Report:
        """Return a copy, which can be changed independently."""
        made = Report()
        made.merge(self)
        return made

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        size = f", {self.iterations[-1].nodes} e-nodes" if self.iterations else ""
        seconds = sum(self.phases.values())
        return f"Report({self.stop_reason or 'not run'} after {len(self.iterations)} iterations{size}, {seconds:.3f} s)"

    def _repr_html_(self) -> str:
        ranked = sorted(self.rules.values(), key=lambda rule: (-rule.matches, rule.name))
        rows = [(rule.name, rule.matches, rule.seconds) for rule in ranked if rule.matches or rule.refusals]
        phases = table(("phase", "seconds"), list(self.phases.items()))
        return preview(repr(self), phases, table(("rule", "matches", "seconds"), rows))

    def __str__(self) -> str:
        lines = [f"stopped: {self.stop_reason} after {len(self.iterations)} iterations"]
        if self.iterations:
            last = self.iterations[-1]
            lines.append(f"e-nodes {last.nodes}, e-classes {last.classes}")
        lines.append("  ".join(f"{phase} {seconds:.3f} s" for phase, seconds in self.phases.items()))
        active = [rule for rule in self.rules.values() if rule.matches or rule.refusals]
        for rule in sorted(active, key=lambda rule: (-rule.matches, rule.name)):
            refused = "".join(f"; refused {count}: {reason}" for reason, count in rule.refusals.items())
            lines.append(f"  {rule.name:<32} {rule.matches:>8} matches {rule.seconds:9.4f} s{refused}")
        lines += [f"  failed: {failure.message}" for failure in self.failures]
        return "\n".join(lines)
