"""Extraction of the cheapest graph from a saturation."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from eqsat.brief import one_line
from eqsat.collector import paused_gc
from eqsat.composites.rules import composites_among
from eqsat.cost import CostFunction
from eqsat.cost.runtimes import kernels_of
from eqsat.cost.target import TargetCost
from eqsat.egraph.build import build_expr
from eqsat.egraph.report import Report
from eqsat.errors import ArgumentError, ExtractionError
from eqsat.extraction import Result
from eqsat.extraction.costs import Cost, as_tuple, figures, total
from eqsat.notebook import lines, page
from eqsat.pipeline.explain import Explanation
from eqsat.pipeline.options import LEAST_SECONDS, ExtractKeywords, Options, takes
from eqsat.pipeline.problem import RegionProblem, region_problem
from eqsat.pipeline.provenance import Derived, derivation
from eqsat.pipeline.saturate import Region, Saturation
from eqsat.relay.expr import Call, Expr, Function
from eqsat.relay.fold import fold_constants
from eqsat.relay.module import IRModule
from eqsat.relay.structural import structural_equal
from eqsat.relay.visitor import rewrite_post_order, substitute

_log = logging.getLogger(__name__)


class Copies(NamedTuple):
    """The nodes of layers that the e-graph left out: see :mod:`eqsat.layers`. Layer 0 is the e-graph's own.

    Attributes:
        given: Node of the given graph -> the node that was lowered in its place, and the layer.
        built: Node of the chosen graph -> its e-class, and the layer.
    """

    given: Mapping[Expr, tuple[Expr, int]]
    built: Mapping[Expr, tuple[int, int]]


@dataclass
class Extraction:
    """The chosen graph, and what is known about its cost.

    Attributes:
        source: The graph that was given to :func:`eqsat.saturate`.
        problems: The extraction problem of each region.
        results: The result of the extractor for each region.
        exprs: The chosen body of each region, with constants folded.
        input_cost: The cost of the given graph under the same cost model.
        report: A copy of the report of the saturation, with the times of extraction added.
        dropped: Span of a given node that was replaced by an input or a constant -> how that came about; empty unless
            matches were recorded.
        copies: The repeated layers that the region stands for; None if no layer was left out.
    """

    source: Expr | IRModule
    problems: list[RegionProblem] = field(repr=False)
    results: list[Result]
    exprs: list[Expr]
    input_cost: Cost
    report: Report = field(repr=False)
    dropped: Mapping[Any, Derived] = field(default_factory=dict, repr=False)
    copies: Copies | None = field(default=None, repr=False)

    @property
    def regions(self) -> list[Region]:
        """The regions of the saturation, including the kernels that could be chosen."""
        return [problem.region for problem in self.problems]

    @property
    def cost(self) -> Cost:
        """DAG cost of the chosen graph, in the unit of the cost model; a tuple if the cost model returns tuples."""
        return total(result.cost for result in self.results)

    @property
    def lower_bound(self) -> Cost:
        """Lower bound of the cost: no graph in the e-graph costs less."""
        return total(result.lower_bound for result in self.results)

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no graph in the e-graph costs less than the chosen one."""
        return all(result.optimal for result in self.results)

    @property
    def explanation(self) -> Explanation:
        """How the chosen graph of the outermost region follows from the given one.

        Raises:
            ArgumentError: The graph was saturated without ``explain=True``.
        """
        return self.explanations[-1]

    @cached_property
    def explanations(self) -> list[Explanation]:
        """An explanation for each region; function literals come before the region that contains them."""
        parts = zip(self.regions, self.results, self.exprs, strict=True)
        return [Explanation(region, result.choice, expr) for region, result, expr in parts]

    def __repr__(self) -> str:
        costs = f"cost {figures(self.cost)}, was {figures(self.input_cost)}"
        proof = "proved optimal" if self.optimal else f"lower bound {figures(self.lower_bound)}"
        return one_line(f"Extraction({costs}, {proof})")

    def _repr_html_(self) -> str:
        chosen = self.module if isinstance(self.source, IRModule) else self.expr
        return page(self, repr(self), lines(str(chosen)))

    @property
    def expr(self) -> Expr:
        """The chosen graph; an expression or function, as the given one."""
        if isinstance(self.source, IRModule):
            raise ExtractionError("a module was saturated: its result is .module")
        if not self.regions:
            return self.source
        function, expr = self.regions[-1].function, self.exprs[-1]
        return expr if function is None else _rewrap(function, expr)

    @property
    def module(self) -> IRModule:
        """The chosen module; a single expression or function becomes ``main``."""
        if not isinstance(self.source, IRModule):
            return IRModule.from_expr(self.expr)
        module = self.source.copy()
        for region, expr in zip(self.regions, self.exprs, strict=True):
            if region.name is not None and region.function is not None:
                module[region.name] = _rewrap(region.function, expr)
        return module


class Extractions:
    """Costs and explanations of several extractions, such as those of a graph and of the bodies in it."""

    extractions: Sequence[Extraction]
    """The parts, in order."""

    @property
    def input_cost(self) -> Cost:
        """Cost of the given parts, each counted once."""
        return total(each.input_cost for each in self.extractions)

    @property
    def cost(self) -> Cost:
        """Cost of the chosen parts."""
        return total(each.cost for each in self.extractions)

    @property
    def lower_bound(self) -> Cost:
        """Proven lower bound on the cost."""
        return total(each.lower_bound for each in self.extractions)

    @property
    def optimal(self) -> bool:
        """Whether every part is proved to be the cheapest."""
        return all(each.optimal for each in self.extractions)

    @property
    def explanations(self) -> list[Explanation]:
        """How each part follows from what was given.

        Raises:
            ArgumentError: It was saturated without ``explain=True``.
        """
        return [explanation for each in self.extractions for explanation in each.explanations]


@takes(ExtractKeywords)
@paused_gc()
def extract(
    saturation: Saturation,
    cost_model: CostFunction | None = None,
    method: str | None = None,
    **keywords: Unpack[ExtractKeywords],
) -> Extraction:
    """Choose the cheapest graph in the e-graphs of a saturation. The saturation is not changed.

    Args:
        saturation: The result of :func:`eqsat.saturate`.
        cost_model: The cost of one e-node, by default ``OpCount()``; see :mod:`eqsat.cost.models`. For e-nodes that can
            be computed from constants alone, ``constant`` is true in the node that the cost model receives.
        method: ``tree``, ``dag``, ``local``, ``exact`` or ``auto``; the default is ``auto``.
        keywords: ``seconds``, the time limit of extraction for all functions together, in seconds; ``runtime``, whose
            kernels count; or all options as ``options``: see :class:`Options`.

    Raises:
        ExtractionError: The cost model fails, or does not return a number.
        ArgumentError, LimitError: An argument or option has a wrong value.
    """
    options = Options.of(keywords, cost_model=cost_model, method=method)
    if not isinstance(saturation, Saturation):
        raise ArgumentError(
            f"extract takes what eqsat.saturate returns, not {saturation!r}; eqsat.optimize takes a graph"
        )
    model = options.cost_model
    if not isinstance(model, TargetCost):
        model = TargetCost(model, kernels=kernels_of(options.runtime))
    problems, results, exprs = [], [], []
    dropped: dict[Any, Derived] = {}
    functions: dict[Expr, Function] = {}
    report = saturation.report.copy()
    left = options.seconds
    for waiting, region in zip(range(len(saturation.regions), 0, -1), saturation.regions, strict=True):
        start = time.perf_counter()
        posed = region_problem(region, model)
        while model.settle():  # what it was asked for is measured, all of it together
            posed = region_problem(region, model)
        solving = time.perf_counter()
        seconds = max(left, LEAST_SECONDS) / waiting
        result = posed.extract(options.method, seconds)
        building = time.perf_counter()
        left -= building - solving
        report.add_seconds("extract", building - start)
        expr, result = _built(posed, functions, result, seconds, dropped)
        if region.nested and region.function is not None:
            functions[region.function] = _rewrap(region.function, expr)
        problems.append(posed)
        exprs.append(expr)
        results.append(result)
        report.add_seconds("build", time.perf_counter() - building)
        _log.info(
            "extracted %s: cost %s, which was %s, %s after %.2f s",
            region.title,
            figures(result.cost),
            figures(posed.input_cost),
            "proved optimal" if result.optimal else "not proved optimal",
            time.perf_counter() - start,
        )
    input_cost = total(posed.input_cost for posed in problems)
    return Extraction(saturation.source, problems, results, exprs, input_cost, report, dropped)


def _built(
    posed: RegionProblem,
    functions: Mapping[Expr, Function],
    result: Result,
    seconds: float,
    dropped: dict[Any, Derived],
) -> tuple[Expr, Result]:
    """Return the graph of an extractor's result, and the result with the cost of that graph; see :class:`Extraction`.

    In the e-graph, composites may overlap. The chosen graph, with composites replaced by their bodies, and the given
    graph are each covered by composites that do not overlap, and the cheaper result is returned.
    """
    region, choices = posed.region, [result.choice, posed.incumbent]

    def graph(choice: NDArray[np.int64]) -> Expr:
        found = derivation(posed, choice)
        dropped.update(found.dropped)
        return fold_constants(build_expr(region.snapshot, choice, region.root, functions, found.spans))

    rules = composites_among(region.rules)
    if not rules:
        return graph(result.choice), result
    from eqsat.composites.cover import cover, share  # they load HiGHS

    made = frozenset(function for rule in rules for function in rule.composer.functions.values())
    graphs = [share(_written_out(graph(choice), made)) for choice in choices]
    if structural_equal(graphs[0], graphs[1]):
        graphs.pop()
    covers = [cover(each, rules, posed.composed, seconds) for each in graphs]
    index = min(range(len(covers)), key=lambda each: covers[each][1])
    expr, cost = covers[index]
    bound = min(as_tuple(result.lower_bound)[0], cost)
    optimal = math.isclose(cost, bound, rel_tol=1e-9)
    return expr, replace(result, choice=choices[index], cost=cost, lower_bound=bound, optimal=optimal)


def _written_out(expr: Expr, functions: frozenset[Function]) -> Expr:
    """Return ``expr`` with calls of ``functions`` replaced by their bodies."""

    def visit(old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call) and isinstance(new.op, Function) and new.op in functions:
            body = substitute(new.op.body, dict(zip(new.op.params, new.args, strict=True)))
            body.span = body.span or new.span
            return body
        return new

    return rewrite_post_order(expr, visit)


def _rewrap(function: Function, body: Expr) -> Function:
    if body is function.body:
        return function
    return Function(function.params, body, function.ret_type, function.type_params, function.attrs)
