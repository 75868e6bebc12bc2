"""Comparison of rewriting in different orders of rules with saturation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, permutations
from random import Random
from typing import Any, Unpack

from eqsat.brief import listed, one_line
from eqsat.cost import CostFunction
from eqsat.egraph.as_callback import as_callback
from eqsat.egraph.report import Limits
from eqsat.egraph.rule import FoldConstants, PythonRule, Rewrite, RuleSet, flatten
from eqsat.egraph.schedule import Schedule
from eqsat.errors import ArgumentError
from eqsat.extraction.costs import as_tuple, figure
from eqsat.notebook import lines, page
from eqsat.orders.plot import draw
from eqsat.orders.rewriter import Graphs, OrderRow, Rewriter, Rewritten, Step
from eqsat.pipeline.extract import Extraction, extract
from eqsat.pipeline.options import CompareKeywords, Options, Rules, takes
from eqsat.pipeline.saturate import bodies_of, saturate, saturate_bodies
from eqsat.relay.dataflow_pattern import DFPatternCallback
from eqsat.relay.expr import Expr
from eqsat.relay.module import IRModule

ALL_LIMIT = 5040
"""Maximum number of orders that ``orders="all"`` tries: the number of orders of 7 rules."""

SHOWN = 24
"""Maximum number of rows in the printed table; the middle rows are left out."""

NAMES_SHOWN = 8
"""Maximum number of rules that a row of the table names."""


@dataclass(frozen=True)
class OrderComparison:
    """The results of rewriting in several orders, and of saturation by the same rules.

    Attributes:
        input_cost: The cost of the given graph.
        rows: One row for each order and each random run, in the order in which they were made.
        saturation: The row of saturation followed by extraction.
        extraction: The result of that extraction.
        skipped: Name of each rule that cannot be applied in place -> why.
    """

    input_cost: float
    rows: list[OrderRow]
    saturation: OrderRow
    extraction: Extraction = field(repr=False)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def ranked(self) -> list[OrderRow]:
        """The rows, cheapest first."""
        return sorted(self.rows, key=lambda row: (row.cost, row.kind, row.order))

    @property
    def best(self) -> OrderRow:
        """The order with the lowest cost; the first of several."""
        return min(self.rows, key=lambda row: row.cost)

    @property
    def worst(self) -> OrderRow:
        """The order with the highest cost; the first of several."""
        return max(self.rows, key=lambda row: row.cost)

    @property
    def ties(self) -> list[OrderRow]:
        """The orders whose cost equals that of saturation."""
        return [row for row in self.rows if _close(row.cost, self.saturation.cost)]

    @property
    def losses(self) -> list[OrderRow]:
        """The orders whose cost is higher than that of saturation."""
        least = self.saturation.cost
        return [row for row in self.rows if row.cost > least and not _close(row.cost, least)]

    @property
    def looped(self) -> list[OrderRow]:
        """The orders in which rules undo each other endlessly."""
        return [row for row in self.rows if row.stop == "loop"]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain data for JSON, without the graphs."""
        return {
            "input_cost": self.input_cost,
            "saturation": self.saturation.to_json(),
            "rows": [row.to_json() for row in self.rows],
            "ties": len(self.ties),
            "skipped": dict(self.skipped),
        }

    def plot(self, path: Any) -> None:
        """Write a plot of the costs, in ascending order, to the SVG file ``path``."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(draw(self.ranked, self.saturation.cost, self.input_cost))

    def __repr__(self) -> str:
        return one_line(f"OrderComparison({str(self).splitlines()[0]})")

    def _repr_html_(self) -> str:
        return page(self, repr(self), lines(str(self)))

    def __str__(self) -> str:
        total = len(self.rows)
        lines = [
            f"input cost {figure(self.input_cost)}, saturation {figure(self.saturation.cost)};"
            f" of {total} runs {len(self.ties)} tie, {len(self.losses)} lose, {len(self.looped)} loop",
            f"{'cost':>12} {'passes':>7} {'seconds':>9}  {'stopped':<10} order",
        ]
        ranked, half = self.ranked, SHOWN // 2
        lines.append(_line(self.saturation))
        if total <= SHOWN:
            lines += map(_line, ranked)
        else:
            lines += [*map(_line, ranked[:half]), f"{'':>12} ... {total - SHOWN} more", *map(_line, ranked[-half:])]
        for reason in dict.fromkeys(self.skipped.values()):
            names = [name for name, its in self.skipped.items() if its == reason]
            lines.append(f"skipped {listed(names)}: {reason}")
        return "\n".join(lines)


@takes(CompareKeywords)
def compare_orders(
    source: Expr | IRModule,
    rules: Rules | None = None,
    orders: str | int = "all",
    seed: int = 0,
    cost_model: CostFunction | None = None,
    limits: Limits | None = None,
    random_runs: int = 3,
    on_row: Callable[[OrderRow], None] | None = None,
    **keywords: Unpack[CompareKeywords],
) -> OrderComparison:
    """Compare rewriting in different orders of the rules with saturation by the same rules.

    Rewriting changes the graph in place, one rule after another. Constants are folded in both cases, even if no rule
    does so: after every pass of a rule, and in the e-graph.

    Args:
        source: An expression or function, or a module with one function.
        rules: The rules and Relay callbacks to put in order. If rule sets are among them, their orders are tried as
            phases: the rules of one set run until they change nothing, then those of the next set.
        orders: The number of different orders to draw, or ``"all"``.
        seed: The seed of the drawn orders and of the random runs.
        cost_model: The cost of one e-node, by default ``OpCount()``. If it returns several numbers, the first one is
            compared.
        limits: The limits of saturation; those of nodes and seconds also apply to each order.
        random_runs: The number of runs in which each next rule is chosen at random.
        on_row: A function that is called with the row of saturation, and then with the row of each order and random run
            when it is finished.
        keywords: Further options of saturation and extraction, or all of them as ``options``: see
            :class:`eqsat.Options`.

    Raises:
        ArgumentError: No rules are given, the number of orders is not positive, or ``"all"`` would mean more than 5040
            orders.
        RuleError: As for :func:`eqsat.saturate`.
        TypeCheckError: The graph is not well typed.
    """
    options = Options.of(keywords, rules=rules, cost_model=cost_model, limits=limits)
    expr, module = _single(source)
    given = options.rules.rules if isinstance(options.rules, Schedule) else options.rules
    several = list(given or ())
    skipped: dict[str, str] = {}
    units = _units(several, skipped)
    chosen = _orders(len(units), orders, seed)
    if not isinstance(random_runs, int) or random_runs < 0:
        raise ArgumentError(f"random_runs={random_runs!r}: give a whole number of at least 0")
    saturation, extraction = _saturation(source, several, options)
    if on_row is not None:
        on_row(saturation)
    rewriter, price = Rewriter(expr, module, options.limits), _Pricing(options)
    rows: list[OrderRow] = []

    def run(kind: str, names: tuple[str, ...] | None, rewrite: Callable[[], Rewritten]) -> None:
        start = time.perf_counter()
        done = rewrite()
        seconds = time.perf_counter() - start
        order = tuple(done.order) if names is None else names
        rows.append(OrderRow(kind, order, price(done.expr), done.passes, seconds, done.stop, done.expr))
        if on_row is not None:
            on_row(rows[-1])

    in_phases = any(isinstance(rule, RuleSet) for rule in several)
    for order in chosen:
        names = tuple([units[index][0] for index in order])
        phases = [units[index][1] for index in order]
        if in_phases:
            run("phases", names, partial(rewriter.in_order, phases))
        else:
            run("order", names, partial(rewriter.in_order, [[*chain.from_iterable(phases)]]))
    steps = [step for _, unit in units for step in unit]
    for number in range(random_runs):
        run("random", None, partial(rewriter.at_random, steps, Random(f"{seed} {number}")))
    return OrderComparison(as_tuple(extraction.input_cost)[0], rows, saturation, extraction, skipped)


class _Pricing:
    """Computes costs of graphs as extraction does, once for equal graphs."""

    def __init__(self, options: Options):
        self.options = replace(options, rules=(), method="tree", explain=False)
        self.graphs = Graphs()
        self.costs: dict[Expr, float] = {}

    def __call__(self, expr: Expr) -> float:
        known = self.graphs.find(expr)
        if known not in self.costs:
            found = extract(saturate(known, options=self.options), options=self.options)
            self.costs[known] = as_tuple(found.input_cost)[0]
        return self.costs[known]


def _saturation(source: Expr | IRModule, rules: list[Any], options: Options) -> tuple[OrderRow, Extraction]:
    folding = [] if any(isinstance(rule, FoldConstants) for rule in flatten(rules)) else [FoldConstants()]
    start = time.perf_counter()
    options = replace(options, rules=[*rules, *folding])
    bodies = bodies_of(source)
    saturation = saturate_bodies(source, bodies, options, None, start, traces=options.provenance)
    extraction = extract(saturation, options=options)
    seconds = time.perf_counter() - start
    report, cost = extraction.report, as_tuple(extraction.cost)[0]
    expr = _single(extraction.module)[0] if isinstance(source, IRModule) else extraction.expr
    return OrderRow("saturation", (), cost, len(report.iterations), seconds, report.stop_reason, expr), extraction


def _single(source: Any) -> tuple[Expr, IRModule | None]:
    if not isinstance(source, IRModule):
        if not isinstance(source, Expr):
            raise ArgumentError(f"compare_orders takes an expression, function or IRModule, not {source!r}")
        return source, None
    if len(source.functions) != 1:
        names = [variable.name_hint for variable in source.functions]
        raise ArgumentError(f"compare_orders takes one function: give one of mod[name], name in {names}")
    (function,) = source.functions.values()
    return function, source


def _units(rules: list[Any], skipped: dict[str, str]) -> list[tuple[str, list[Step]]]:
    """Name and rules of each rule set or single rule, which are put in order."""
    if not rules:
        raise ArgumentError("compare_orders needs rules")
    flatten(rules)  # names must be unique over all of them
    units = []
    for item in rules:
        steps = _steps(item, skipped)
        if isinstance(item, RuleSet):
            units.append((item.name, steps))
        else:
            units += [(step[0], [step]) for step in steps]
    return [unit for unit in units if unit[1]]


def _steps(item: Any, skipped: dict[str, str]) -> list[Step]:
    if isinstance(item, DFPatternCallback):
        return [(type(item).__name__, item)]
    steps: list[Step] = []
    for rule in flatten(item):
        if isinstance(rule, Rewrite) and len(rule.lhs) > 1:
            skipped[rule.name] = f"it joins {len(rule.lhs)} patterns; rewriting in place replaces one match"
        elif isinstance(rule, Rewrite) and rule.numbers:
            skipped[rule.name] = "it asks which values are real numbers, which is found in an e-graph only"
        elif isinstance(rule, (Rewrite, PythonRule)):
            steps.append((rule.name, as_callback(rule)))
    return steps


def _orders(count: int, wanted: str | int, seed: int) -> list[tuple[int, ...]]:
    total = math.factorial(count)
    if wanted == "all":
        if total > ALL_LIMIT:
            raise ArgumentError(f"{count} rules have {total} orders: give orders=20 or so to draw some of them")
        wanted = total
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise ArgumentError(f'orders={wanted!r}: give "all" or a number above 0')
    if wanted >= total:
        return list(permutations(range(count)))
    random = Random(seed)
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < wanted:
        drawn[tuple(random.sample(range(count), count))] = None
    return list(drawn)


def _close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-15)


def _line(row: OrderRow) -> str:
    return f"{figure(row.cost):>12} {row.passes:>7} {row.seconds:>9.4f}  {row.stop:<10} {_label(row)}"


def _label(row: OrderRow) -> str:
    if row.kind == "saturation":
        return "all at once (saturation)"
    shown, left_out = " > ".join(row.order[:NAMES_SHOWN]), len(row.order) - NAMES_SHOWN
    label = shown + (f" > ... {left_out} more" if left_out > 0 else "")
    return f"random: {label}" if row.kind == "random" else label
