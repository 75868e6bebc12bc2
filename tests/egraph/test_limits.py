"""Runs that would never end are ended, and what was found so far is a valid graph."""

from __future__ import annotations

import math
import os
import signal
from itertools import pairwise

import pytest

import eqsat
from eqsat import relay
from eqsat.egraph.report import Report
from eqsat.egraph.schedule import Backoff, Phase, Schedule
from eqsat.egraph.vocabulary import MOST_ARGUMENTS
from eqsat.errors import ArgumentError, LimitError
from eqsat.ir import structural_equal
from eqsat.memory import resident_bytes
from eqsat.relay.expr import Expr
from eqsat.rules import RuleSet, rewrite, variables

a, b, c = variables("a b c")

EXPLODING = RuleSet(
    "exploding",
    [
        rewrite("commute", a + b, b + a),
        rewrite("associate", (a + b) + c, a + (b + c)),
        rewrite("grow", relay.tanh(a), relay.tanh(relay.negative(relay.negative(a)))),
        rewrite("relu-twice", relay.nn.relu(relay.nn.relu(a)), relay.nn.relu(a)),
    ],
)


def leaves(count: int) -> Expr:
    """relu(relu(tanh(v0 + v1 + ...)))"""
    total: Expr = relay.var("v0", shape=(3,))
    for index in range(1, count):
        total = total + relay.var(f"v{index}", shape=(3,))
    return relay.nn.relu(relay.nn.relu(relay.tanh(total)))


GRAPH = leaves(12)
BETTER = GRAPH.args[0]


def saturate(limits: eqsat.Limits, on_iteration=None, backoff: Backoff | None = None) -> eqsat.Saturation:
    schedule = Schedule((Phase.of(EXPLODING),), backoff=backoff)
    return eqsat.saturate(GRAPH, schedule, limits, on_iteration)


def assert_best_so_far(saturation: eqsat.Saturation) -> None:
    extraction = eqsat.extract(saturation, method="dag")
    assert extraction.cost == extraction.input_cost - 1
    assert set(relay.analysis.free_vars(extraction.expr)) == set(relay.analysis.free_vars(GRAPH))


def test_iterations() -> None:
    saturation = saturate(eqsat.Limits(iterations=3))
    assert saturation.stop_reason == "iterations"
    assert len(saturation.report.iterations) == 3
    assert_best_so_far(saturation)


def test_nodes() -> None:
    saturation = saturate(eqsat.Limits(iterations=1000, nodes=2000))
    assert saturation.stop_reason == "nodes"
    assert 2000 < saturation.node_count < 10_000
    assert_best_so_far(saturation)


def test_seconds() -> None:
    saturation = saturate(eqsat.Limits(iterations=1000, nodes=10**9, seconds=0.05))
    assert saturation.stop_reason == "seconds"
    assert_best_so_far(saturation)


def test_memory() -> None:
    saturation = saturate(eqsat.Limits(iterations=1000, nodes=10**9, memory=resident_bytes() + (1 << 20)))
    assert saturation.stop_reason == "memory"
    assert_best_so_far(saturation)


def test_an_interrupt_ends_the_run_and_offers_what_there_is() -> None:
    def interrupt(report: Report) -> None:
        if len(report.iterations) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    saturation = saturate(eqsat.Limits(iterations=1000), interrupt)
    assert saturation.stop_reason == "interrupted"
    assert len(saturation.report.iterations) <= 3
    assert_best_so_far(saturation)


def test_progress_is_reported_after_each_iteration() -> None:
    sizes: list[int] = []
    saturation = saturate(eqsat.Limits(iterations=4), lambda report: sizes.append(report.iterations[-1].nodes))
    assert sizes == [iteration.nodes for iteration in saturation.report.iterations]
    assert all(small < large for small, large in pairwise(sizes))


def test_back_off_holds_an_explosion_back() -> None:
    free = saturate(eqsat.Limits(iterations=5))
    held = saturate(eqsat.Limits(iterations=5), backoff=Backoff(match_limit=100, ban_length=5))
    assert held.node_count < free.node_count / 4
    assert any(rule.bans for rule in held.report.rules.values())
    assert_best_so_far(held)


@pytest.mark.parametrize("field", ["iterations", "nodes", "seconds", "memory"])
@pytest.mark.parametrize("value", [0, -1, math.nan, "many"])
def test_a_limit_that_makes_no_sense(field: str, value: object) -> None:
    with pytest.raises(LimitError, match=f"limit {field}="):
        eqsat.Limits(**{field: value})


class TestSchedules:
    """Which rules have their turn when, as plain data."""

    x = relay.var("x", shape=(3,))
    grow = rewrite("grow", relay.tanh(a), relay.tanh(relay.negative(relay.negative(a))))
    shrink = rewrite("shrink", relay.negative(relay.negative(a)), a)

    def test_a_phase_ends_after_its_iterations(self) -> None:
        saturation = eqsat.saturate(relay.tanh(self.x), Schedule((Phase.of([self.grow], 3), Phase.of([self.shrink]))))
        assert saturation.stop_reason == "saturated"
        assert saturation.report.rules["grow"].matches == 3

    def test_the_whole_is_repeated_until_nothing_changes(self) -> None:
        phases = (Phase.of([self.shrink]), Phase.of([rewrite("out", relay.exp(a), relay.negative(relay.negative(a)))]))
        graph = relay.exp(self.x)
        once = eqsat.extract(eqsat.saturate(graph, Schedule(phases)))
        twice = eqsat.extract(eqsat.saturate(graph, Schedule(phases, repeat=5)))
        assert structural_equal(once.expr, graph)
        assert structural_equal(twice.expr, self.x)

    def test_a_phase_of_no_iterations_is_refused(self) -> None:
        with pytest.raises(LimitError, match="a phase of 0 iterations"):
            Phase.of([self.grow], 0)


def test_a_node_that_is_too_wide_is_refused_before_it_takes_all_memory() -> None:
    function = relay.Function(
        [], relay.Tuple([relay.var(f"x{index}", shape=(2,)) for index in range(MOST_ARGUMENTS + 1)])
    )
    with pytest.raises(
        ArgumentError, match=r"function of 2049 arguments is too wide .* make it of several smaller ones"
    ):
        eqsat.saturate(relay.Call(function, []))


def test_shuffled_rules_end_at_the_same_graph() -> None:
    shuffled = RuleSet("shuffled", list(EXPLODING)[::-1])
    small = leaves(5)
    without = [each.without("grow") for each in (EXPLODING, shuffled)]
    first, second = (eqsat.extract(eqsat.saturate(small, each)) for each in without)
    assert structural_equal(first.expr, second.expr)


def test_repeated_layers_add_the_same_number_of_nodes_each() -> None:
    def layers(count: int) -> int:
        value: Expr = relay.var("x", shape=(4, 4))
        for index in range(count):
            inner = relay.nn.dense(value, relay.var(f"w{index}", shape=(4, 4)))
            value = relay.transpose(relay.transpose(inner)) * relay.const(1.0) + value
        return eqsat.saturate(value).node_count

    six, twelve, more = layers(6), layers(12), layers(24)
    assert more - twelve == 2 * (twelve - six)
