"""Arguments are equal where an operator that loses nothing makes the same of them.

Ways to write a value meet early then. Otherwise each goes on to be transposed, reshaped and joined with each way to
write another value, before what comes of them is found to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.egraph.action import of_one_type
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.query import Query
from eqsat.egraph.rule import Injectivity
from eqsat.egraph.trace import Watcher
from eqsat.relay.dataflow_pattern import DFPattern, wildcard
from eqsat.relay.traits import Trait


class InjectivityRunner:
    """Keeps one engine rule for each injective operator in an e-graph.

    The attributes are those of :class:`eqsat.egraph.compile.RuleRunner`.
    """

    roots: tuple[DFPattern, ...] = ()
    growth = 0
    asks = False
    apply_ruleset = ""
    hide_ruleset = ""

    def __init__(self, egraph: EGraph, rule: Injectivity, index: int, watchers: Sequence[Watcher] = ()):
        self.egraph = egraph
        self.rule = rule
        self.watchers = watchers
        self.ruleset = f"rule{index}"
        self._seen = 0  # symbols of the vocabulary
        self._compiled = 0

    @property
    def is_live(self) -> bool:
        """Whether the e-graph has an injective operator."""
        return self._compiled > 0

    def update(self, prefilter: Prefilter | None) -> None:
        """Add engine rules for the operators that are new."""
        symbols = self.egraph.vocabulary.symbols
        for index in range(self._seen, len(symbols)):
            symbol = symbols[index]
            if symbol.op is not None and symbol.arity == 1 and symbol.op.has(Trait.INJECTIVE):
                self._add(index, symbol.op.has(Trait.VIEW))
        self._seen = len(symbols)

    def _add(self, symbol: int, is_view: bool) -> None:
        """A rule for an operator; what a view makes of a value of known shape does not depend on attributes."""
        self.egraph.declare_symbols()
        if not self._compiled:
            self.egraph.engine.declare(f"(ruleset {self.ruleset})")
        self._compiled += 1
        name = f"{self.ruleset}_{self._compiled}"
        atoms = ("a", "b") if is_view else ("a", "a")
        one_result = f"(= e (n{symbol} {atoms[0]} x)) (= e (n{symbol} {atoms[1]} y)) (!= x y)"
        premises = " ".join([one_result, *of_one_type("x", "y")])
        actions = "(union x y)"
        both = Query(classes={wildcard(): "x", wildcard(): "y"})
        for watcher in self.watchers:
            log = watcher.watch(self.egraph.engine, self.rule.name, name, both, (), [("x", "y")])
            premises, actions = " ".join([premises, *log.premises]), f"{actions} {log.action}"
        self.egraph.engine.rule(self.ruleset, premises, actions, name)
