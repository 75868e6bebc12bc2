"""What is known of two graphs: that they are equal, how they differ, or what is left to prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from eqsat.brief import one_line
from eqsat.egraph.rule import Soundness
from eqsat.extraction.costs import figure
from eqsat.notebook import lines, page
from eqsat.relay.expr import Expr
from eqsat.relay.values import Value

EQUAL, DIFFERENT, UNKNOWN = "equal", "different", "unknown"
"""The three answers."""

MOST_ROUNDED = 8
"""Constants within rounding that are told in words."""


@dataclass(frozen=True)
class Part:
    """One node of one of the graphs.

    Attributes:
        expr: The node.
        node: What it is in :attr:`Equality.roots`, where equal nodes of a graph are one.
        place: Where it is from, as its span says; empty if it says nothing.
        value: Its value on the input that is told; None where it is not known.
        origin: The span that says it, which is that of the node or of the first one computed from it that has one.
    """

    expr: Expr
    place: str
    node: Expr = field(compare=False)
    value: Any = field(default=None, compare=False)
    origin: Any = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.expr.brief(1)}{f' (at {self.place})' if self.place else ''}"


class Pair(NamedTuple):
    """A node of the first graph and one of the second that stands in its place; None where nothing does."""

    first: Part | None
    second: Part | None

    def __str__(self) -> str:
        return " and ".join("nothing" if part is None else str(part) for part in (self.first, self.second))


@dataclass(frozen=True)
class Difference:
    """An input on which the graphs differ.

    Attributes:
        inputs: The values of all variables by name.
        results: What the graphs give for it.
        output: The number of the result that differs most beyond its bound.
        difference: The largest difference of an element there.
        bound: How far rounding may lead there: so many times the largest change that noise of the size of a rounding
            in each operand was seen to make.
    """

    inputs: Mapping[str, Any]
    results: tuple[Any, Any]
    output: int
    difference: float
    bound: float

    def __str__(self) -> str:
        told = f"output {self.output} differs by {figure(self.difference, 3)}"
        return f"{told}, and rounding explains {figure(self.bound, 3)}"


class Rounded(NamedTuple):
    """A constant of one graph that was taken for what the other one computes of constants.

    Attributes:
        constant: It.
        size: How many elements it has.
        differing: How many of them differ from what is computed.
        difference: By how much at most.
    """

    constant: Part
    size: int
    differing: int
    difference: float

    def __str__(self) -> str:
        told = f"{self.differing} of {self.size} elements of {self.constant} differ from what the other graph computes"
        return f"{told}, by at most {figure(self.difference, 3)}"


@dataclass(frozen=True)
class Equality:
    """The answer of :func:`eqsat.equal`. It is true if the graphs are equal.

    Attributes:
        answer: ``equal``, ``different`` or ``unknown``.
        rules: The rules that the proof takes, with what each keeps. It is empty where none is needed.
        rounded: The constants that the proof takes for what the other graph computes, from which they differ by
            rounding: a wrong last bit cannot be told from that.
        difference: An input on which they differ; None unless they do.
        pairs: Where they part: of graphs that differ, the first nodes that have no equal in the other graph though
            all that they are computed from has one; else the smallest pairs of nodes that agree on all inputs and
            could not be proved equal.
        proved: How many nodes of the second graph are proved equal to one of the first.
        nodes: How many nodes the second graph has.
        samples: On how many inputs the graphs were evaluated.
        reason: What kept the answer from being another one; empty for a proof.
        needed: Where the answer is ``unknown``, the rules of a proof that holds for values that are finite on the way.
        seconds: Time of each phase.
        roots: The graphs over the same variables.
        partners: Nodes of the second graph -> what is proved equal to them in the first.
    """

    answer: str
    roots: tuple[Expr, Expr] = field(compare=False, repr=False)
    partners: Mapping[Expr, Expr] = field(default_factory=dict, compare=False, repr=False)
    rules: Mapping[str, Soundness] = field(default_factory=dict)
    rounded: tuple[Rounded, ...] = ()
    difference: Difference | None = None
    pairs: tuple[Pair, ...] = ()
    proved: int = 0
    nodes: int = 0
    samples: int = 0
    reason: str = ""
    needed: Mapping[str, Soundness] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return self.answer == EQUAL

    @property
    def soundness(self) -> Soundness | None:
        """The least that a rule of the proof keeps; None without a proof."""
        if not self:
            return None
        order = list(Soundness)
        return max([Soundness.EXACT, *self.rules.values()], key=order.index)

    def __repr__(self) -> str:
        return one_line(f"<Equality: {str(self).splitlines()[0]}>")

    def _repr_html_(self) -> str:
        return page(self, repr(self), lines(str(self)))

    def __str__(self) -> str:
        if self.soundness is not None:
            proof = [f"equal: {KEEPS[self.soundness]}, by {', '.join(self.rules) or 'structure alone'}"]
            proof += [f"within rounding: {each}" for each in self.rounded[:MOST_ROUNDED]]
            left = len(self.rounded) - MOST_ROUNDED
            return "\n".join([*proof, f"within rounding: {left} constants more"] if left > 0 else proof)
        told = [f"{self.answer}: {self.reason}" if self.difference is None else f"{self.answer}: {self.difference}"]
        if self.difference is not None:
            told += [f"on {name} = {_shown(value)}" for name, value in self.difference.inputs.items()]
        told.append(f"{self.proved} of {self.nodes} nodes of the second graph are proved equal to one of the first")
        if self.needed:
            names = [name for name, kept in self.needed.items() if kept is Soundness.FINITE]
            told.append(f"where all values are finite on the way, they are equal: by {', '.join(names)}")
        what = "part at" if self.difference is not None else "not proved:"
        for pair in self.pairs:
            told.append(f"{what} {pair}")
            told += [
                f"  {part.expr.brief(1)} = {_shown(part.value)}"
                for part in pair
                if part is not None and part.value is not None
            ]
        return "\n".join(told)

    def to_json(self) -> dict[str, Any]:
        """The answer as plain data, without arrays."""
        difference = self.difference
        return {
            "answer": self.answer,
            "keeps": None if self.soundness is None else self.soundness.value,
            "rules": {name: soundness.value for name, soundness in self.rules.items()},
            "rounded": [
                {
                    "constant": each.constant.expr.brief(1),
                    "place": each.constant.place,
                    "size": each.size,
                    "differing": each.differing,
                    "difference": each.difference,
                }
                for each in self.rounded
            ],
            "difference": None
            if difference is None
            else {
                "output": difference.output,
                "difference": difference.difference,
                "bound": difference.bound,
                "inputs": {name: _shown(value) for name, value in difference.inputs.items()},
            },
            "pairs": [
                [
                    None
                    if part is None
                    else {
                        "node": part.expr.brief(1),
                        "place": part.place,
                        "value": None if part.value is None else _shown(part.value),
                    }
                    for part in (p.first, p.second)
                ]
                for p in self.pairs
            ],
            "proved": self.proved,
            "nodes": self.nodes,
            "samples": self.samples,
            "reason": self.reason,
            "needed": {name: soundness.value for name, soundness in self.needed.items()},
            "seconds": dict(self.seconds),
        }


def _shown(value: Value) -> str:
    """A value in one line: dtype, shape, and a few of its elements."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    array = np.asarray(value)
    elements = np.array2string(array.reshape(-1), precision=6, threshold=6, separator=", ", max_line_width=1000)
    return f"{array.dtype}[{', '.join(map(str, array.shape))}] {elements}"


KEEPS = {
    Soundness.EXACT: "bit for bit",
    Soundness.ROUNDING: "up to rounding",
    Soundness.FINITE: "up to rounding, for values that are finite on the way",
}
"""What a proof by rules of some soundness says."""
