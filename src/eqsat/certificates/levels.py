"""The condition of rules that the elements of a term are real numbers.

The levels are those of :mod:`eqsat.egraph.number_levels`, derived independently from a term alone.
"""

from __future__ import annotations

from eqsat.certificates.terms import Terms
from eqsat.egraph.number_levels import (
    ABOVE_HALF,
    ABOVE_LEAST,
    AVERAGING,
    BOUNDED,
    CAPPED,
    DEFINED,
    MODEST,
    REAL,
    SMALL,
    WEIGHING,
    WHOLE,
    are_positive,
    holds_floats,
    holds_some,
    holds_whole_numbers,
    holds_wide_floats,
    level_of,
)
from eqsat.relay.traits import Trait
from eqsat.relay.visitor import children_first


class Levels:
    """Derives what is known about the elements of terms.

    Args:
        terms: The terms.
        has_inputs: Whether variables are inputs of a program.

    Attributes:
        reasons: Term that stands for a class -> the term in it from which its level is known.
    """

    def __init__(self, terms: Terms, has_inputs: bool = True):
        self.terms = terms
        self.has_inputs = has_inputs
        self.reasons: dict[int, int] = {}
        self._levels: dict[int, int] = {}  # of classes, as far as they are known by now

    def level(self, term: int, wanted: int = SMALL) -> int:
        """Return the level of a term's elements, 0 if nothing is known; no level above ``wanted`` is derived."""
        terms, known = self.terms, self._levels

        def below(of: int) -> list[int]:
            return (
                []
                if known.get(of, 0) >= wanted
                else [find(each) for one in terms.members[of] for each in terms.children[one]]
            )

        find = terms.find
        order = children_first([find(term)], below)
        changed = True
        while changed:  # a value may be computed from itself in a class, so that once is not always enough
            changed = False
            for of in order:
                for one in terms.members[of]:
                    found = self._found(one, [known.get(find(child), 0) for child in terms.children[one]])
                    if found > known.get(of, 0):
                        known[of], self.reasons[of] = found, one
                        changed = True
        return known.get(find(term), 0)

    def _found(self, term: int, below: list[int]) -> int:
        head, ty = self.terms.heads[term], self.terms.type_of(term)
        if holds_whole_numbers(ty):
            return WHOLE
        if head.kind == "constant":
            return level_of(head.value.data.numpy())
        if head.kind == "var":
            return CAPPED if self.has_inputs and holds_floats(ty) else 0
        if head.op is None:
            return min(below, default=0)
        name, least = head.op.name, min(below, default=0)
        if name in WEIGHING:
            return 0 if least < CAPPED else WHOLE if holds_wide_floats(ty) else REAL
        if name == "add":
            if least >= REAL and max(below) >= MODEST:
                return min(least, ABOVE_HALF)
            return REAL if least >= ABOVE_LEAST else min(least, CAPPED)
        if name in DEFINED:
            if name == "multiply" and least >= WHOLE and max(below) >= SMALL:
                return MODEST
            if name == "multiply" and least < REAL and max(below) >= CAPPED:
                children = self.terms.children[term]
                scaled = zip(below, children[::-1], strict=True)
                return CAPPED if any(each >= CAPPED and self._is_positive(by) for each, by in scaled) else 0
            if least < REAL:
                return 0
            return REAL if name not in BOUNDED else SMALL if holds_wide_floats(ty) else MODEST
        if name in AVERAGING:
            of = self.terms.type_of(self.terms.children[term][0])
            return REAL if least >= REAL and holds_some(of) else 0
        if name == "where":
            return min(below[1:])
        if name == "nn.pad":
            return least
        if name == "cast":
            source = self.terms.type_of(self.terms.children[term][0])
            return WHOLE if holds_wide_floats(ty) and holds_whole_numbers(source) else 0
        return below[0] if head.op.has(Trait.MOVES) else 0

    def _is_positive(self, term: int) -> bool:
        """Whether a term is known to be a constant of positive numbers."""
        terms = self.terms
        heads = [terms.heads[one] for one in terms.members[terms.find(term)]]
        return any(head.kind == "constant" and are_positive(head.value.data.numpy()) for head in heads)
