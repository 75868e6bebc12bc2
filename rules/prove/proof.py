"""What is known of a rule, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from eqsat.egraph.rule import Soundness


class Status(Enum):
    """What is known of a rule."""

    VALUES = "all values"
    """The sides are equal for all values of the inputs, at the shapes and attributes drawn."""
    TESTED = "tested"
    """The sides agree on all random instances; that they always do is not shown."""
    REFUTED = "refuted"
    """The sides differ on an instance."""
    UNKNOWN = "unknown"
    """No instance was found to which the rule applies, or the rule failed."""


@dataclass(frozen=True)
class Proof:
    """What is known of a rule, and how.

    Args:
        rule: its name.
        soundness: the class that it claims.
        status: what is known.
        exact: of what is proved, whether it is so for every bit of floating-point numbers, if sums are added up in the
            order of their indices. Otherwise it is proved over the real numbers, wherever both sides are defined.
        instances: of how many instances, each with shapes and attributes of its own.
        assumes: what must hold besides.
        detail: why there is no proof, or a counterexample as Relay text.
        seconds: time it took.
    """

    rule: str
    soundness: Soundness
    status: Status
    exact: bool = False
    instances: int = 0
    assumes: tuple[str, ...] = ()
    detail: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the rule."""
        return self.status in (Status.VALUES, Status.TESTED)


def table(proofs: Iterable[Proof]) -> str:
    """Proofs as text: a line for each rule, why there is none or a counterexample below."""
    lines = []
    for proof in proofs:
        how = "" if proof.status is not Status.VALUES else "every bit" if proof.exact else "over the reals"
        lines.append(
            f"{proof.status.value:<10} {proof.rule:<40} {how:<14} {proof.instances:>4} instances {proof.seconds:6.2f} s"
        )
        lines += [f"    {'if ' if proof.ok else ''}{each}" for each in proof.assumes]
        lines += [f"    {line}" for line in proof.detail.splitlines()]
    return "\n".join(lines)


def summary(proofs: Iterable[Proof]) -> str:
    """How much is proved, in one line."""
    listed = list(proofs)
    counts = Counter(proof.status for proof in listed)
    exact = sum(proof.exact for proof in listed)
    drawn = sum("integers are those drawn" in proof.assumes for proof in listed)
    finite = sum("no input is infinite or NaN" in proof.assumes for proof in listed)
    return (
        f"{counts[Status.VALUES]} of {len(listed)} rules proved for all values at shapes drawn ({exact} for every bit, "
        f"the others over the reals wherever both sides are defined; {drawn} of them at integers drawn, {finite} if no "
        f"input is infinite or NaN), {counts[Status.TESTED]} only tested, {counts[Status.REFUTED]} refuted, "
        f"{counts[Status.UNKNOWN]} unknown"
    )
