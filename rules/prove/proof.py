"""What is known of a rule, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from eqsat.egraph.rule import Soundness
from eqsat.rules.verify.verifier import indented

PROVED_BEFORE = Path(__file__).with_name("proved.json")
"""What is proved of the shipped rules: the status of each, by name. No rule may fall below it."""


class Status(Enum):
    """What is known of a rule."""

    RANKS = "any rank"
    """The sides are equal for all values of inputs of all shapes: the rule takes them element by element."""
    SIZES = "all sizes"
    """The sides are equal for all values of inputs of all sizes above 0, at the ranks and attributes drawn."""
    VALUES = "all values"
    """The sides are equal for all values of the inputs, at the shapes and attributes drawn."""
    TESTED = "tested"
    """The sides agree on all random instances; that they always do is not shown."""
    REFUTED = "refuted"
    """The sides differ on an instance."""
    UNKNOWN = "unknown"
    """No instance was found to which the rule applies, or the rule failed."""


PROVED = (Status.RANKS, Status.SIZES, Status.VALUES)
"""What is a proof, from what says most to what says least."""


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
        general: of how many instances for all sizes.
        bits: of a rule that claims to be exact, the dtypes of which all values of all inputs were tried, element by
            element, and gave equal bits.
        floats: of a rule that claims to be exact, how many inputs of a floating-point dtype were tried, extremes among
            them, and gave equal bits. The dtype is float16 unless no instance of it was found; where the rule takes its
            inputs element by element each element counts, otherwise each choice of arrays.
        assumes: what must hold besides.
        detail: why there is no proof, or a counterexample: a Python program that prints what both sides give.
        seconds: time it took.
    """

    rule: str
    soundness: Soundness
    status: Status
    exact: bool = False
    instances: int = 0
    general: int = 0
    bits: tuple[str, ...] = ()
    floats: dict[str, int] = field(default_factory=dict)
    assumes: tuple[str, ...] = ()
    detail: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the rule."""
        return self.status in (*PROVED, Status.TESTED)


def table(proofs: Iterable[Proof]) -> str:
    """Proofs as text: a line for each rule; what it assumes, what was tried and why there is no proof stand below."""
    lines = []
    for proof in proofs:
        how = "" if proof.status not in PROVED else "every bit" if proof.exact else "over the reals"
        lines.append(
            f"{proof.status.value:<10} {proof.rule:<40} {how:<14} {proof.instances:>4} instances {proof.seconds:6.2f} s"
        )
        lines += [f"    {'if ' if proof.ok else ''}{each}" for each in proof.assumes]
        if proof.bits:
            lines.append(f"    every bit is the same for all values of {', '.join(proof.bits)}")
        lines += [f"    every bit is the same for {count:,} inputs of {dtype}" for dtype, count in proof.floats.items()]
        lines += indented(proof.detail)
    return "\n".join(lines)


def less(proofs: Iterable[Proof], expected: Mapping[str, str]) -> list[str]:
    """The rules of which less is proved than is expected, and what each is.

    Args:
        proofs: what is known.
        expected: of rules the status, by name.
    """
    order = {status.value: place for place, status in enumerate(PROVED)}
    return [
        f"{proof.rule} was proved for {expected[proof.rule]}, and is now: {proof.status.value}"
        for proof in proofs
        if proof.rule in expected and order[expected[proof.rule]] < order.get(proof.status.value, len(order))
    ]


def summary(proofs: Iterable[Proof]) -> str:
    """How much is proved, in one line."""
    listed = list(proofs)
    counts = Counter(proof.status for proof in listed)
    proved = [proof for proof in listed if proof.status in PROVED]
    exact = sum(proof.exact for proof in proved)
    drawn = sum("integers are those drawn" in proof.assumes for proof in proved)
    finite = sum("no input is infinite or NaN" in proof.assumes for proof in proved)
    return (
        f"{len(proved)} of {len(listed)} rules proved for all values: {counts[Status.RANKS]} for inputs of any rank, "
        f"{counts[Status.SIZES]} for all sizes at ranks and attributes drawn, {counts[Status.VALUES]} at shapes drawn "
        f"({exact} of them for every bit, the others over the reals wherever both sides are defined; {drawn} at "
        f"integers drawn, {finite} if no input is infinite or NaN); {counts[Status.TESTED]} only tested, "
        f"{counts[Status.REFUTED]} refuted, {counts[Status.UNKNOWN]} unknown"
    )
