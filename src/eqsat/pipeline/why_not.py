"""Why a rule did not act on a graph, or why its result was not chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain, combinations
from typing import Any

import numpy as np

from eqsat import extraction
from eqsat.brief import listed, one_line
from eqsat.cost import CostFunction
from eqsat.egraph.lower import places_among
from eqsat.egraph.number_levels import ABOVE_HALF, ABOVE_LEAST, MODEST, REAL
from eqsat.egraph.report import Limits, RuleReport
from eqsat.egraph.rule import PythonRule, Ref, Refusal, Rewrite, Rule, flatten, refs_of
from eqsat.errors import ExtractionError, RuleError
from eqsat.extraction.costs import as_tuple, figure
from eqsat.pipeline.explain import Explanation
from eqsat.pipeline.extract import Extraction, extract
from eqsat.pipeline.outcome import ACTED, CHOSEN, CUT, DECLINED, OUTCOMES, REFUSED, UNMATCHED, WhyNot
from eqsat.pipeline.problem import RegionProblem
from eqsat.pipeline.saturate import Region, Saturation, saturate
from eqsat.relay.dataflow_pattern import AttrPattern, CallPattern, DFPattern
from eqsat.relay.dataflow_pattern.explanation import Mismatch, Place, where
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.mismatches import NEAREST, Laid
from eqsat.relay.expr import Call, Constant, Expr, Op, TupleGetItem
from eqsat.relay.visitor import children_first

_UNSETTLED = {
    "factor": "has a scalar factor that leaves it",
    "term": "has a scalar term that leaves it",
    "weighted": "has no weight inside that takes a scale in",
    "plain": "has a weight inside that takes a scale in",
    "given": "is not in the given graph",
    "bare": "is a product with a weight that takes the scale in",
}
"""Messages for conditions on scalars that do not hold."""

_LEVELS = {
    REAL: "real numbers",
    ABOVE_LEAST: "real numbers above the least of their dtype",
    ABOVE_HALF: "real numbers above half of the least of their dtype",
    MODEST: "modest numbers",
}


def why_not(
    saturation: Saturation, rule: str | Rule, node: Expr | None = None, cost_model: CostFunction | None = None
) -> WhyNot:
    """Return the outcome of a rule in a saturation: why it did not act, or why its result was not chosen.

    Args:
        saturation: The saturation. If it was made with ``explain=True``, the answer includes the cost of the rule's
            results.
        rule: A rule, or the name of a rule of the run.
        node: A node of the given graph that restricts the answer to matches of the left side that contain it.
        cost_model: The cost model of the extraction, by default ``OpCount()``.

    Raises:
        RuleError: The run has no such rule, or the rule has no pattern that could be matched.
        ExtractionError: The cost model fails.
    """
    extracted = cache(lambda: extract(saturation, cost_model))
    found = [
        _Inquiry(saturation, region, _rule_of(rule, region), extracted).answer(node)
        for region in reversed(saturation.regions)
        if node is None or node in region.children
    ]
    if not found:
        raise RuleError("the node is not in the given graph")
    return min(found, key=lambda each: list(OUTCOMES).index(each.outcome))


def _rule_of(rule: str | Rule, region: Region) -> Rewrite | PythonRule:
    if isinstance(rule, str):
        known = {each.name: each for each in region.rules}
        if rule not in known:
            near = [name for name in known if rule in name or name in rule]
            hint = f"; similar names are {listed(near)}" if near else ""
            raise RuleError(f"the run had no rule {rule!r}: pass the rule itself to try it on the given graph{hint}")
        rule = known[rule]
    if not isinstance(rule, (Rewrite, PythonRule)):
        (rule,) = flatten([rule])
    if not isinstance(rule, (Rewrite, PythonRule)):
        raise RuleError(f"{rule.name} has no pattern that could be matched: {rule.equation}")
    return rule


class _Inquiry:
    """The inquiry about a rule in a region."""

    def __init__(
        self,
        saturation: Saturation,
        region: Region,
        rule: Rewrite | PythonRule,
        extracted: Callable[[], Extraction],
    ):
        self.saturation = saturation
        self.region = region
        self.rule = rule
        self.extracted = extracted

    @cached_property
    def uses(self) -> Counter[Expr]:
        """Node -> the number of operators that use it; the result counts as one."""
        return Counter([*chain.from_iterable(self.region.children.values()), self.region.expr])

    def answer(self, node: Expr | None) -> WhyNot:
        acted = self._acted(node)
        return acted if acted is not None else self._refusal(node)

    # ---- what it made

    def _acted(self, node: Expr | None) -> WhyNot | None:
        name, journal = self.rule.name, self.region.journal
        told = self.saturation.report.rules.get(name, RuleReport(name))
        if journal is None:
            if node is not None or not told.updates:
                return None
            reason = f"it matched {told.matches} times; saturate with explain=True to learn what its results would cost"
            return WhyNot(name, ACTED, (reason,))
        if not any(equation.rule == name for equation in journal.equations):
            return None
        return _Made(self.extracted(), self.saturation.regions.index(self.region), name, node).answer()

    # ---- why it did not act

    def _refusal(self, node: Expr | None) -> WhyNot:
        sides = self.rule.lhs if isinstance(self.rule, Rewrite) else (self.rule.lhs,)
        graph = DataflowGraph(self.region.expr)
        worst: list[Place] = []
        for side in sides:
            laid = Laid(side, graph, self.region.types.__getitem__)
            near = self._ranked(laid.places(self.region.children))
            if node is not None:
                near = [each for each in near if node in laid.bound(each.expr).values()]
            matching = [each for each in near if each.matches]
            if not matching:
                if not worst or not near or near[0].missing > worst[0].missing:
                    worst = near[:NEAREST]
                if not near:
                    wanted = side.brief(2)
                    return WhyNot(self.rule.name, UNMATCHED, (f"nothing in the graph is like {wanted}",))
        if worst:
            return WhyNot(self.rule.name, UNMATCHED, tuple(map(str, worst)), tuple(worst))
        if len(sides) > 1:
            return self._by_engine((), "each left side matches, but not all of them together")
        reasons = [
            f"at {one_line(place.expr.brief(2), 80)}{where(place.expr)}: {reason}"
            for place in matching
            for reason in self._conditions(place.expr, laid.bound(place.expr))
        ]
        return self._by_engine(tuple(dict.fromkeys(reasons)), "")

    def _ranked(self, places: Sequence[Place]) -> list[Place]:
        """Return places, the nearest first, without mismatches where other rules found an equal call that would fit."""
        told = []
        for place in places:
            left = tuple([each for each in place.mismatches if not self._is_found(each)])
            if left and len(left) < len(place.mismatches):
                missing = max(len(left), place.missing - len(place.mismatches) + len(left))
                place = replace(place, mismatches=left, missing=missing)
            told.append(place)
        return sorted(told, key=lambda each: (each.missing, -each.fitting))

    def _is_found(self, mismatch: Mismatch) -> bool:
        """Return whether the e-class of the node contains a call of the required operator."""
        pattern, handle = mismatch.pattern, self.region.lowered.handles.get(mismatch.expr)
        bare = pattern.pattern if isinstance(pattern, AttrPattern) else pattern
        if not isinstance(bare, CallPattern) or bare.named is None or handle is None:
            return False
        return bare.named in self._operators.get(int(self.region.snapshot.handle_class[handle]), ())

    @cached_property
    def _operators(self) -> dict[int, set[Op]]:
        """E-class -> the operators that are called in it."""
        found: dict[int, set[Op]] = {}
        for of, symbol, _, _ in self.region.snapshot.nodes():
            op = self.region.snapshot.symbols[symbol].op
            if op is not None:
                found.setdefault(of, set()).add(op)
        return found

    def _by_engine(self, reasons: tuple[str, ...], otherwise: str) -> WhyNot:
        """Run the engine with the rule alone on the given graph, and return the outcome."""
        name = self.rule.name
        if reasons:
            return WhyNot(name, REFUSED, reasons[:NEAREST])
        function = self.region.function
        alone = saturate(self.region.expr if function is None else function, [self.rule], Limits(iterations=1))
        found = alone.report.rules.get(name, RuleReport(name))
        refusals = {**self.saturation.report.rules.get(name, RuleReport(name)).refusals, **found.refusals}
        if refusals:
            told = [f"refused {count} times: {reason}" for reason, count in refusals.items()]
            return WhyNot(name, REFUSED, tuple(told[:NEAREST]))
        stopped = self.saturation.stop_reason
        if found.matches and stopped != "saturated":
            return WhyNot(name, CUT, (f"the run stopped at its limit of {stopped}: give it more",))
        if found.matches:
            return WhyNot(name, ACTED, ("by itself it matches the given graph; the run had what it says already",))
        numbers = self.rule.numbers if isinstance(self.rule, Rewrite) else ()
        unknown = [f"{_name(each.pattern)} is not known to hold {_LEVELS[each.level]} only" for each in numbers]
        if isinstance(self.rule, Rewrite) and not unknown:
            unknown = [f"{_name(each.pattern)} {_UNSETTLED[each.place]}" for each in self.rule.settled]
            unknown += [f"{_name(each.operand)} itself comes from {_name(each.pattern)}" for each in self.rule.derived]
        return WhyNot(name, REFUSED if unknown else UNMATCHED, tuple(unknown) or (otherwise or "it does not apply",))

    def _conditions(self, root: Expr, bound: Mapping[DFPattern, Expr]) -> Iterator[str]:
        """Yield the conditions that do not hold for a match."""
        rule = self.rule
        if isinstance(rule, PythonRule):
            found = rule.result(root, {pattern: [expr] for pattern, expr in bound.items()})
            if isinstance(found, Refusal):
                yield found.reason
            return
        for guard in rule.when:
            try:
                held = guard.holds(*[self._value(ref, bound) for ref in guard.refs])
            except _Unknown as why:
                yield str(why)
                continue
            except Exception as error:  # whatever the guard raises: it is the rule's error
                held = Refusal(f"its condition fails: {type(error).__name__}: {error}")
            if isinstance(held, Refusal):
                yield held.reason
            elif not held:
                given = ", ".join([self._told(ref, bound) for ref in guard.refs])
                called = getattr(guard.holds, "__name__", "<lambda>")
                yield f"the condition{'' if '<' in called else f' {called}'} does not hold: {given}"
        for root_pattern, result in zip(rule.lhs, rule.rhs, strict=len(rule.rhs) > 1):
            taken, place = bound.get(result), bound.get(root_pattern)
            if taken is not None and place is not None and self.region.types[taken] != self.region.types[place]:
                types = [self.region.types[each] for each in (taken, place)]
                yield f"{_name(result)} is of type {types[0]}, and cannot take the place of what is of type {types[1]}"
        for distinct in rule.distinct:
            for one, other in combinations([each for each in distinct.patterns if each in bound], 2):
                if bound[one] is bound[other]:
                    yield f"{_name(one)} and {_name(other)} are the same value"
        for pattern in rule.varying:
            if isinstance(bound.get(pattern), Constant):
                yield f"{_name(pattern)} is a constant, and the rule is for what is none"
        for each in rule.bases:
            expr = bound.get(each.pattern)
            if isinstance(expr, Call) and any(isinstance(arg, Constant) for arg in expr.args) and _is_sum(expr):
                yield f"{_name(each.pattern)} is a sum or product with a constant, and the rule is for what is none"

    def _value(self, ref: Ref, bound: Mapping[DFPattern, Expr]) -> Any:
        expr = bound.get(ref.pattern)
        if expr is None:
            raise _Unknown(f"{_name(ref.pattern)} is on a side that was not taken")
        if ref.kind == "type":
            return self.region.types[expr]
        if ref.kind == "attrs":
            return getattr(expr, "attrs", None)
        if ref.kind == "index" and isinstance(expr, TupleGetItem):
            return expr.index
        if ref.kind == "uses":
            return self.uses[expr]
        if ref.kind == "place":
            asked = [each.pattern for each in refs_of(self.rule) if each.kind == "place"]
            return places_among(self.region.children, asked)[expr]
        if isinstance(expr, Constant):
            return expr.data.numpy()
        raise _Unknown(f"{_name(ref.pattern)} is no constant")

    def _told(self, ref: Ref, bound: Mapping[DFPattern, Expr]) -> str:
        value = self._value(ref, bound)
        name = _name(ref.pattern)
        if ref.kind == "uses":
            return f"{name} is used {value} times"
        text = ", ".join([f"{key}={each!r}" for key, each in value.items()]) if ref.kind == "attrs" and value else value
        kind = {"type": "is of type", "attrs": "has", "value": "has the value", "index": "is field"}.get(ref.kind, "is")
        return f"{name} {kind} {one_line(str(text), 100)}"


class _Unknown(Exception):
    """Raised if a condition needs something that is not known of the given graph; the argument describes it."""


def _is_sum(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.name in ("add", "subtract", "multiply", "divide")


def _name(pattern: DFPattern) -> str:
    return pattern.label or pattern.brief(1)


class _Made:
    """The results of a rule in a region, and the cost of choosing them."""

    def __init__(self, extraction: Extraction, index: int, rule: str, node: Expr | None):
        self.rule = rule
        self.node = node
        self.posed: RegionProblem = extraction.problems[index]
        self.result = extraction.results[index]
        self.explanation: Explanation = extraction.explanations[index]
        self.region = extraction.regions[index]

    def answer(self) -> WhyNot | None:
        """Return the outcome of the rule's results; None if it had none at the node."""
        choice, reached = self.result.choice, self._reached(self.result.choice)
        results = self._results()
        if not results:
            return None
        if any(choice[of] == made and of in reached for made, of in results):
            return WhyNot(self.rule, CHOSEN, ())
        extra = [found for made, of in results[:_MOST_TRIED] if (found := self._extra(made, of)) is not None]
        if not extra and all(self.posed.problem.excluded[made] for made, _ in results):
            return WhyNot(self.rule, DECLINED, ("the target has no operator for its result",))
        if not extra:
            return WhyNot(self.rule, DECLINED, ("the cheapest graph does without the value that it computes",))
        least = min(extra)
        reason = f"the result costs {figure(least)} more" if least > 0 else "another graph costs the same"
        return WhyNot(self.rule, DECLINED, (f"the cheapest graph with its result: {reason}",))

    def _results(self) -> list[tuple[int, int]]:
        """Return the e-nodes that the rule created or equated, and their classes."""
        snapshot, journal = self.region.snapshot, self.explanation.journal
        heads = zip(snapshot.node_symbol.tolist(), snapshot.node_atom.tolist(), snapshot.child_lists(), strict=True)
        node_of: dict[tuple[int, ...], int] = {}
        for number, (symbol, atom, under) in enumerate(heads):
            node_of.setdefault((symbol, atom, *under), number)
        equations = [equation for equation in journal.equations if equation.rule == self.rule]
        known: dict[int, tuple[int, int] | None] = {}
        roots = [term for equation in equations for term in (equation.left, equation.right)]
        for term in children_first(roots, lambda term: journal.terms[term][2:]):
            symbol, atom, *under = journal.terms[term]
            places = [known[child] for child in under]
            made = node_of.get((symbol, atom, *[each[1] for each in places if each is not None]))
            known[term] = None if made is None or None in places else (made, int(snapshot.node_class[made]))
        at = None
        if self.node is not None:
            at = int(snapshot.handle_class[self.region.lowered.handles[self.node]])
        found = [known[equation.right] for equation in equations]
        return list(dict.fromkeys([each for each in found if each is not None and at in (None, each[1])]))

    def _reached(self, choice: Any) -> set[int]:
        """The classes that a choice computes."""
        snapshot = self.region.snapshot
        return set(children_first([self.region.root], lambda of: snapshot.children(int(choice[of]))))

    def _extra(self, made: int, of: int) -> float | None:
        """Return the additional cost of the cheapest graph in which a class is computed by a given e-node."""
        problem = self.posed.problem
        barred = problem.excluded | ((problem.node_class == of) & (np.arange(problem.num_nodes) != made))
        try:
            found = extraction.extract(replace(problem, subsumed=barred), "auto", seconds=_SECONDS)
        except ExtractionError:  # there is no other way to compute what it needs
            return None
        if of not in self._reached(found.choice):
            return None
        return as_tuple(found.cost)[0] - as_tuple(self.result.cost)[0]


_MOST_TRIED = 8
"""Maximum number of results of a rule whose costs are compared."""

_SECONDS = 2.0
"""Time limit of each comparison, in seconds."""
