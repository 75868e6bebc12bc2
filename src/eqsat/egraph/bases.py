"""Bases: what is more than a sum or product with a constant, and which base a chain of such sums and products has.

Where ``y`` is ``x * a + b`` and ``z`` is ``y * c + d``, rules by which constants meet take ``z`` apart at the base
``x`` and not at ``y``, so that a chain of ``n`` links has ``n`` forms and not as many as it has parts. Of several
bases, one of which may be a sum or product with a constant in another form, they take the earliest.

    level(class)   of a base: its smallest handle, a large number if it has none
    origin(class)  the lowest level of the bases from which the class comes by sums and products with constants
"""

from __future__ import annotations

from eqsat.egraph.egraph import EGraph

AFFINE = ("add", "subtract", "multiply", "divide", "negative")
"""Operators that, with one operand that is no constant, scale or shift it."""

_LAST = 1 << 40


class Bases:
    """Has bases found in an e-graph, once a rule asks for them."""

    def __init__(self, egraph: EGraph):
        self.egraph = egraph
        self._seen = 0  # symbols

    def find(self) -> bool:
        """See to new bases; whether any rule asks for them."""
        if not self.egraph.has_bases:
            return False
        symbols = self.egraph.vocabulary.symbols
        for index in range(self._seen, len(symbols)):
            kind, op, arity = symbols[index]
            children = [f"c{i}" for i in range(arity)]
            node = f"(= e (n{index} a {' '.join(children)}))"
            if kind == "call" and op is not None and op.name in AFFINE:
                self._affine(node, children)
            elif kind != "constant":
                self._base(f"{node} (varies e)")
        self._seen = len(symbols)
        self.egraph.engine.run("bases")
        return True

    def _affine(self, node: str, children: list[str]) -> None:
        for child in children:
            constants = "".join(f" (isc {other})" for other in children if other != child)
            premises = f"{node}{constants} (= l (origin {child}))"
            self.egraph.engine.rule("facts", premises, "(set (origin e) l)")
        if len(children) > 1:
            self._base(node + "".join(f" (varies {child})" for child in children))

    def _base(self, premises: str) -> None:
        self.egraph.engine.rule("bases", premises, f"(set (level e) {_LAST})")
