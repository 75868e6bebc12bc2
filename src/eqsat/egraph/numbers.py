"""Which classes hold real numbers, so that no NaN, or no infinity, is in their elements.

``num(class)`` is one of the levels of :mod:`eqsat.egraph.number_levels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.number_levels import (
    ABOVE_HALF,
    ABOVE_LEAST,
    AVERAGING,
    BOUNDED,
    CAPPED,
    DEFINED,
    LEVELS,
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
from eqsat.egraph.symbols import Symbol
from eqsat.egraph.vocabulary import Test
from eqsat.relay.expr import Constant, Op
from eqsat.relay.traits import Trait

_WIDE = Test("type", "wide floating-point numbers", holds_wide_floats)


class Numbers:
    """Finds which classes hold real numbers, once a rule asks for it.

    Args:
        has_inputs: Whether variables are inputs of a program, and not what another graph computes.
    """

    def __init__(self, egraph: EGraph, has_inputs: bool):
        self.egraph = egraph
        self.has_inputs = has_inputs
        self._seen = 0  # symbols

    @property
    def are_found(self) -> bool:
        """Whether levels were looked for."""
        return self._seen > 0

    def find(self) -> None:
        """Find the levels of all classes, if a rule asks for them."""
        if not self.egraph.has_numbers:
            return
        symbols = self.egraph.vocabulary.symbols
        if not self._seen:
            self.egraph.engine.declare("(ruleset numbers)")
            holds = self.egraph.predicate(Test("type", "whole numbers", holds_whole_numbers))
            self._rule(f"(= t (ty e)) ({holds} t)", str(WHOLE))
        for index in range(self._seen, len(symbols)):
            self._cover(index, symbols[index])
        if self._seen < len(symbols):
            self._cover_guards()
        self._seen = len(symbols)
        self.egraph.flush()
        self.egraph.engine.saturate("numbers")

    def _cover(self, index: int, symbol: Symbol) -> None:
        children = [f"c{i}" for i in range(symbol.arity)]
        node = f"(= e (n{index} {' '.join(['a', *children])}))"
        if symbol.kind == "constant":
            for level in LEVELS:
                holds = self.egraph.predicate(Test("constant", ("level", level), partial(_is_of, level)))
                self._rule(f"{node} ({holds} a)", str(level))
        elif symbol.kind == "var" and self.has_inputs:
            floats = self.egraph.predicate(Test("type", "floating-point numbers", holds_floats))
            self._rule(f"{node} (= t (ty e)) ({floats} t)", str(CAPPED))
        elif symbol.kind in ("tuple", "project"):
            self._least(node, children)
        elif symbol.kind == "call" and symbol.op is not None:
            self._cover_call(node, symbol.op, children)

    def _cover_call(self, node: str, op: Op, children: list[str]) -> None:
        wide = self.egraph.predicate(_WIDE)
        if op.name in WEIGHING:
            self._all(node, children, CAPPED, REAL)
            self._all(f"{node} (= t (ty e)) ({wide} t)", children, CAPPED, WHOLE)
        elif op.name == "add":
            self._all(node, children, CAPPED, CAPPED)
            self._all(node, children, ABOVE_LEAST, REAL)
            for modest in children:
                for level in (REAL, ABOVE_LEAST, ABOVE_HALF):
                    self._rule(f"{node}{_known(children, level)} (>= l{modest} {MODEST})", str(level))
        elif op.name in DEFINED:
            self._all(node, children, REAL, MODEST if op.name in BOUNDED else REAL)
            if op.name in BOUNDED:
                self._all(f"{node} (= t (ty e)) ({wide} t)", children, REAL, SMALL)
            if op.name == "multiply":
                for small in children:
                    self._rule(f"{node}{_known(children, WHOLE)} (>= l{small} {SMALL})", str(MODEST))
                positive = self.egraph.predicate(Test("constant", "positive numbers", _is_positive))
                for factor, data in (children, children[::-1]):
                    capped = f"{_known([data], CAPPED)} (= v (val {factor})) ({positive} v)"
                    self._rule(f"{node}{capped}", str(CAPPED))
        elif op.name in AVERAGING:
            some = self.egraph.predicate(Test("type", "not empty", holds_some))
            self._all(f"{node} (= t (ty c0)) ({some} t)", children, REAL, REAL)
        elif op.name == "where":
            self._least(node, children[1:])
        elif op.name == "nn.pad":
            self._least(node, children)
        elif op.name == "cast":
            whole = self.egraph.predicate(Test("type", "whole numbers", holds_whole_numbers))
            self._rule(f"{node} (= t (ty e)) ({wide} t) (= u (ty c0)) ({whole} u)", str(WHOLE))
        elif op.has(Trait.MOVES):
            self._least(node, children[:1])

    def _cover_guards(self) -> None:
        """See to choices of a number where a softmax is NaN, as in rows of which all is hidden; elsewhere it is known.

        Else what is behind would have to wait for a rule that tells the guard needless, layer by layer.
        """
        of = self.egraph.vocabulary.symbols_of
        choices, tests, softs = (of.get(("call", Op.get(name)), ()) for name in ("where", "isnan", "nn.softmax"))
        wide = self.egraph.predicate(_WIDE)
        for choice, test, soft in product(choices, tests, softs):
            guard = f"(= e (n{choice} a g c s)) (= g (n{test} b s)) (= s (n{soft} d x)) (= l (num c))"
            self._rule(guard, f"(min l {MODEST})")
            self._rule(f"{guard} (= t (ty e)) ({wide} t)", f"(min l {SMALL})")

    def _all(self, node: str, children: Sequence[str], least: int, level: int) -> None:
        """An e-node is of a level where all of its children are of another one or a higher one."""
        self._rule(node + _known(children, least), str(level))

    def _least(self, node: str, children: Sequence[str]) -> None:
        """An e-node is of the lowest level of its children."""
        known = "".join(f" (= l{child} (num {child}))" for child in children)
        lowest = f"l{children[0]}" if children else ""
        for child in children[1:]:
            lowest = f"(min {lowest} l{child})"
        if children:
            self._rule(node + known, lowest)

    def _rule(self, premises: str, level: str) -> None:
        self.egraph.engine.rule("numbers", premises, f"(set (num e) {level})")


def _known(children: Sequence[str], least: int) -> str:
    """Premises that children are of a level or a higher one."""
    return "".join(f" (= l{child} (num {child})) (>= l{child} {least})" for child in children)


def _is_positive(constant: Constant) -> bool:
    return are_positive(constant.data.numpy())


def _is_of(level: int, constant: Constant) -> bool:
    return level_of(constant.data.numpy()) >= level
