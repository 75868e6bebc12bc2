"""What a saturation did: limits, and the report that is part of its result."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass, field
from typing import Any

from eqsat.errors import LimitError
from eqsat.notebook import preview, table


@dataclass(frozen=True)
class Limits:
    """When saturation stops, whichever comes first. Checked between runs of rules: a single one may go beyond.

    Args:
        iterations: rounds in which every rule has its turn.
        nodes: e-nodes.
        seconds: wall-clock time.
        memory: bytes that the whole process may hold, None for any number.

    Raises:
        LimitError: a limit that is not a positive number.
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
    """One iteration: sizes after it, and its seconds."""

    nodes: int
    classes: int
    seconds: float


@dataclass
class RuleReport:
    """One rule over the whole run. ``updates`` counts runs that changed the e-graph."""

    name: str
    matches: int = 0
    updates: int = 0
    bans: int = 0
    seconds: float = 0.0
    refusals: dict[str, int] = field(default_factory=dict)


@dataclass
class Failure:
    """A rule that failed on a match, in a run that went on: the message and where in the rule it came from."""

    rule: str
    message: str
    traceback: str


@dataclass
class Report:
    """What happened, in the order it did.

    Args:
        iterations: one entry each.
        rules: by rule name.
        phases: seconds by phase: ``lower``, ``saturate``, ``snapshot``, ``extract``, ``build``.
        stop_reason: ``saturated``, ``iterations``, ``nodes``, ``seconds``, ``memory`` or ``interrupted``.
        failures: rules that failed, in a run with ``on_error="skip"``.
    """

    iterations: list[IterationReport] = field(default_factory=list)
    rules: dict[str, RuleReport] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    stop_reason: str = ""
    failures: list[Failure] = field(default_factory=list)

    def rule(self, name: str) -> RuleReport:
        """The entry of a rule, made when it is new."""
        return self.rules.setdefault(name, RuleReport(name))

    def refuse(self, name: str, reason: str) -> None:
        """Count a refusal."""
        refusals = self.rule(name).refusals
        refusals[reason] = refusals.get(reason, 0) + 1

    def fail(self, name: str, error: Exception) -> None:
        """Take a failure of a rule down."""
        cause = error.__cause__ or error
        trace = "".join(traceback.format_exception(cause))
        self.failures.append(Failure(name, str(error), trace))

    def add_seconds(self, phase: str, seconds: float) -> None:
        """Add to the time of a phase."""
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def merge(self, other: Report) -> None:
        """Add what another run (of another function) did. The reason that is not ``saturated`` stays."""
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
        """A report that says the same, to which more can be added."""
        made = Report()
        made.merge(self)
        return made

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
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
