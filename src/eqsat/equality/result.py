"""The result of a comparison of two graphs."""

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
    """A node of one of the graphs.

    Attributes:
        expr: The node.
        node: The corresponding node in :attr:`Equality.roots`, where equal nodes of a graph are one node.
        place: Where the node comes from, according to its span; empty if the span does not say it.
        value: The value of the node on the input on which the graphs differ; None if it is not known.
        origin: The span that ``place`` describes: the span of the node, or of the first node computed from it that has
            one.
    """

    expr: Expr
    place: str
    node: Expr = field(compare=False)
    value: Any = field(default=None, compare=False)
    origin: Any = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.expr.brief(1)}{f' (at {self.place})' if self.place else ''}"


class Pair(NamedTuple):
    """A node of the first graph and the corresponding node of the second graph; None if there is no such node."""

    first: Part | None
    second: Part | None

    def __str__(self) -> str:
        return " and ".join("nothing" if part is None else str(part) for part in (self.first, self.second))


@dataclass(frozen=True)
class Difference:
    """An input on which the graphs differ.

    Attributes:
        inputs: Name of each variable -> its value.
        results: The results of both graphs for this input.
        output: The number of the result that exceeds its bound most.
        difference: The largest absolute difference of an element of that result.
        bound: The difference that rounding may cause there. It is a multiple of the largest change that was observed
            when each operand was disturbed by noise of the size of a rounding error.
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
    """A constant of one graph that was taken for a computation from constants in the other graph.

    Attributes:
        constant: The constant.
        size: Its number of elements.
        differing: The number of elements that differ from the computed ones.
        difference: The largest absolute difference of an element.
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
    """The result of :func:`eqsat.equal`. It is true in conditions if the graphs are equal.

    Attributes:
        answer: ``equal``, ``different`` or ``unknown``.
        rules: Name of each rule of the proof -> its soundness. It is empty if the proof needs no rule.
        rounded: The constants that the proof takes for computations of the other graph, from which they differ by
            rounding. A constant with a wrong last bit cannot be distinguished from them.
        difference: An input on which the graphs differ; None unless the answer is ``different``.
        pairs: Where the graphs differ. If the answer is ``different``, these are the first nodes that have no equal
            node in the other graph although all their operands have one. Otherwise they are the smallest pairs of nodes
            that agree on all inputs and could not be proved equal.
        proved: The number of nodes of the second graph that are proved equal to a node of the first.
        nodes: The number of nodes of the second graph.
        samples: The number of inputs on which the graphs were evaluated.
        reason: Why the answer is not a different one; empty if the graphs are proved equal.
        needed: If the answer is ``unknown``: the rules of a proof that holds if all intermediate values are finite.
        seconds: Phase -> time in seconds.
        roots: Both graphs over the same variables.
        partners: Node of the second graph -> the node of the first graph that it is proved equal to.
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
        """The weakest soundness of a rule of the proof; None without a proof."""
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
        """Return the result as plain data for JSON, without arrays."""
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
