"""Composites: the entries of a Relay pattern table as rules."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from eqsat.cost.kernels import COMPOSITE, CompositeCost
from eqsat.egraph.author import refuse
from eqsat.egraph.query import speaks_of_one_graph
from eqsat.egraph.rule import PythonRule, Rule, RuleSet, Soundness
from eqsat.egraph.symbols import constant_key
from eqsat.errors import ArgumentError, TypeCheckError
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.groups import Group, match_group
from eqsat.relay.dataflow_pattern.language import DFPattern
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.dataflow_pattern.partitioner import group_function, passes
from eqsat.relay.expr import Call, Constant, Expr, Function, Var
from eqsat.relay.infer import infer_type
from eqsat.relay.transform.merge_composite import PatternTable, checked_table


def composite_rules(pattern_table: PatternTable, cost: CompositeCost = None) -> RuleSet:
    """Return rules for the entries of a Relay pattern table.

    Each rule equates what the pattern of its entry matches with one call of a composite function. Extraction then
    chooses the cheapest cover of the graph by composites that do not overlap, whatever the order of the table, and
    turns each chosen match into a function as :func:`relay.transform.MergeComposite` does. If another operator uses a
    value that is computed inside a composite, that value is also computed outside of it. Of covers with equal cost, the
    one that leaves the fewest operators outside of composites is chosen. Patterns that depend on the whole graph
    (``dominates``, functions, lets) are not considered during extraction; they are matched in the extracted graph.

    Args:
        pattern_table: The entries, ``(name, pattern)`` or ``(name, pattern, check)`` as for ``MergeComposite``.
            ``check(root)`` receives the matched expression, with types.
        cost: The cost of one call of a composite, in the unit of the cost model of the extraction: a number, a function
            ``cost(name, function)`` of the composite's name and its typed function, or the cost model of another
            device, such as ``extraction.Roofline("tensorrt")``. By default, the cost model of the extraction determines
            it. A cost model receives one node that has the composite's name as ``op`` and the operators inside as
            ``body``: a kernel that is launched once and whose intermediate values stay inside.

    Raises:
        ArgumentError: An entry has neither of the two forms.
    """
    table = checked_table(pattern_table)
    seen: Counter[str] = Counter()
    rules = []
    for name, pattern, check in table:
        seen[name] += 1
        title = name if seen[name] == 1 else f"{name} ({seen[name]})"
        rules.append(_Composer(name, pattern, check).rule(title, cost))
    return RuleSet("composites", rules)


@dataclass(frozen=True)
class CompositeRule(PythonRule):
    """A rule that introduces composites.

    Args:
        composer: The object that creates the functions.
        cost: The cost of one call.
    """

    composer: Any = None
    cost: CompositeCost = None

    def __reduce__(self) -> Any:
        """As any object's.

        Raises:
            ArgumentError: The entry of the table holds a function that pickle does not take.
        """
        for what, held in (("check", self.composer.check), ("pattern", self.lhs), ("cost", self.cost)):
            try:
                pickle.dumps(held)
            except Exception as error:  # pickle lets through whatever objects raise
                raise ArgumentError(
                    f"entry {self.composer.name!r} of a pattern table cannot be pickled, nor what was made with it: "
                    f"its {what} is or holds a function that pickle does not find by name ({error}); define that "
                    "function at the top of a module, and give it arguments by functools.partial"
                ) from None
        return super().__reduce__()


def composites_among(rules: Iterable[Rule]) -> list[CompositeRule]:
    """Return the rules of pattern tables among ``rules``."""
    return [rule for rule in rules if isinstance(rule, CompositeRule)]


@dataclass
class _Composer:
    """One entry of a table."""

    name: str
    pattern: DFPattern
    check: Callable[[Expr], Any]
    functions: dict[Hashable, Function] = field(default_factory=dict)

    def rule(self, title: str, cost: CompositeCost) -> CompositeRule:
        competes = not speaks_of_one_graph(self.pattern)
        return CompositeRule(
            title, self.pattern, self._apply, Soundness.EXACT, saturates=competes, composer=self, cost=cost
        )

    def _apply(self, root: Expr, node_map: dict[DFPattern, list[Expr]]) -> Any:
        group = match_group(Matcher(self.pattern, DataflowGraph(root)), root)
        if group is None:
            return refuse("Relay's matcher, which commits to its first choices, does not match")
        if not passes(self.check, root):
            return refuse("the check of the table")
        function = self.function(group)
        return refuse("it does not type-check alone") if function is None else Call(function, group.inputs)

    def function(self, group: Group) -> Function | None:
        """Return the typed function of a group, one for all groups with equal computations; None if it has no type."""
        key = _signature(group)
        if key not in self.functions:
            try:
                self.functions[key] = self.new_function(group)
            except TypeCheckError:
                return None
        return self.functions[key]

    def new_function(self, group: Group) -> Function:
        """Return a new typed function for a group."""
        function = group_function(group, {COMPOSITE: self.name})
        call: Any = infer_type(Call(function, [Var("input", node._checked_type) for node in group.inputs]))
        return call.op  # type: ignore[no-any-return]


def _signature(group: Group) -> Hashable:
    """Return a key that is equal for groups with equal computations and input types."""
    places: dict[Expr, object] = {node: ("input", k) for k, node in enumerate(group.inputs)}
    parts = []
    for node in group.interior:
        children = [places.get(child, child) for child in node.children()]
        payload = constant_key(node) if isinstance(node, Constant) else node.payload
        parts.append((node.kind, payload, *children))
        places[node] = len(parts)
    return (*[node._checked_type for node in group.inputs], *parts)
