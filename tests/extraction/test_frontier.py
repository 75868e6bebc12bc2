"""Deciding class by class: exact where it answers, and it answers where few classes are open at a time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import combinations, product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings

from eqsat.extraction import Problem, dag_cost
from eqsat.extraction.deadline import Deadline
from eqsat.extraction.frontier import Decision, decide

from .strategies import Classes, optimum, problems


@settings(max_examples=150, deadline=None)
@given(problem=problems() | problems(least_cost=-2))
def test_what_is_decided_is_cheapest(problem: Problem) -> None:
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == pytest.approx(optimum(problem))


@settings(max_examples=80, deadline=None)
@given(problem=problems(max_classes=9) | problems(least_cost=-2, max_classes=9))
def test_a_decision_goes_on_from_where_it_took_too_long(problem: Problem) -> None:
    with mock.patch.multiple("eqsat.extraction.frontier", _SPARE=1, _STEPS=1, _IN_RINGS=1):
        decision, effort = Decision(problem), 1
        while (choice := decision.run(effort=effort)) is None:
            effort += 1
    assert dag_cost(problem, choice) == pytest.approx(optimum(problem))


def test_a_long_chain_with_shortcuts_is_decided() -> None:
    # a step costs 2; so does a leap over two, but it needs the class between as well
    chain: Classes = [[(1.0, [])], [(2.0, [0])]]
    chain += [[(2.0, [index - 1]), (1.0, [index - 1, index - 2]), (3.0, [index - 2])] for index in range(2, 5_000)]
    problem = Problem.from_lists(chain, [4_999])
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == 1 + 2 + 4_998


def test_many_small_parts_are_decided_one_after_another() -> None:
    # of each part either class needs what the other may share: alone 3 and 3, shared 4 in all
    part: Classes = [[(3.0, [])], [(3.0, []), (0.5, [0])], [(3.0, []), (0.5, [0])]]
    classes = [[(cost, [number + 3 * k for number in below]) for cost, below in c] for k in range(500) for c in part]
    problem = Problem.from_lists(classes, [i for i in range(1500) if i % 3])
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == 500 * 4.0


def test_rings_are_left_by_one_of_their_classes() -> None:
    # each of three classes is the next one for nothing, or something of its own
    ring: Classes = [[(0.0, [(index + 1) % 3]), (5.0 - index, [3])] for index in range(3)] + [[(1.0, [])]]
    problem = Problem.from_lists(ring, [0, 1, 2])
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == 4.0


def test_it_gives_up_where_too_many_sets_of_classes_are_open() -> None:
    # any subset of 40 shared classes may be needed below 40 choices of three
    shared: Classes = [[(1.0 + index / 100, [])] for index in range(40)]
    pairs = np.random.default_rng(0).integers(40, size=(40, 3, 3)).tolist()
    top: Classes = [[(0.0, each) for each in three] for three in pairs]
    assert decide(Problem.from_lists(shared + top, list(range(40, 80)))) is None


def crossing(size: int) -> Classes:
    """As many choices of a pair as there are classes below them, which all may share."""
    shared: Classes = [[(1.0 + index / 100, [])] for index in range(size)]
    pairs = np.random.default_rng(0).integers(size, size=(size, 3, 2)).tolist()
    return shared + [[(0.0, pair) for pair in three] for three in pairs]


def test_sets_that_need_little_more_and_save_as_much_are_left_out() -> None:
    classes = crossing(20)
    problem = Problem.from_lists(classes, list(range(20, 40)))
    choice = decide(problem)
    assert choice is not None
    pairs = [[pair for _, pair in three] for three in classes[20:]]
    subsets = np.arange(1 << 20)
    have = [subsets >> index & 1 == 1 for index in range(20)]
    enough = np.all([np.any([have[one] & have[other] for one, other in three], axis=0) for three in pairs], axis=0)
    costs = sum(having * (1.0 + index / 100) for index, having in enumerate(have))
    assert dag_cost(problem, choice) == pytest.approx(costs[enough].min())


def views(size: int) -> Classes:
    """Classes of which each is made of any other, or of one that is outside of the ring."""
    ring: Classes = [[(1.0, [other]) for other in range(size) if other != index] for index in range(size)]
    return [[*nodes, (1.0, [size + index % 3])] for index, nodes in enumerate(ring)] + [
        [(cost, [])] for cost in (7, 5, 6)
    ]


def test_large_rings_of_few_ways_are_decided() -> None:
    problem = Problem.from_lists(views(15), [0, 3, 6, 9])
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == 5 + 5  # one of another class, and all four of that


def test_rings_with_rewards_are_decided() -> None:
    classes = views(6)
    classes[4] = [(cost - 3.0, below) for cost, below in classes[4]]
    problem = Problem.from_lists(classes, [0])
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == 5 - 2 + 1


def test_it_gives_up_on_rings_that_are_left_in_too_many_ways() -> None:
    assert decide(Problem.from_lists(views(13), list(range(13)))) is None


def test_it_gives_up_inside_a_ring_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.from_lists(views(7), list(range(7)))
    assert decide(problem) is not None
    asked: list[Deadline] = []
    monkeypatch.setattr(Deadline, "passed", lambda deadline: asked.append(deadline) or len(asked) > 3)
    assert decide(problem) is None
    assert len(asked) == 4


@pytest.mark.parametrize("classes", [views(7), crossing(20)], ids=["ring", "sets"])
def test_less_effort_gives_up_earlier(classes: Classes) -> None:
    problem = Problem.from_lists(classes, [index for index, nodes in enumerate(classes) if len(nodes) > 1])
    assert decide(problem) is not None
    assert decide(problem, effort=1 / 1000) is None


def test_sets_that_differ_by_what_is_needed_in_any_case_are_one() -> None:
    # every link may share one of the parts that the last link needs all of
    count = 40
    classes: Classes = [[(1.0, [])] for _ in range(count)]
    classes.append([(0.0, list(range(count)))])
    classes += [[(1.0, [count + k]), (0.5, [count + k, k])] for k in range(count)]
    problem = Problem.from_lists(classes, [2 * count])
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == count * 1.5


def test_parts_that_have_few_much_used_classes_in_common_are_decided_one_after_another() -> None:
    # each of 60 parts needs, three times each, one of two of its ten classes, and a pair of these and of two hubs
    hubs, parts = [0, 1], 60
    random = np.random.default_rng(0)
    classes: Classes = [[(20.0, [])] for _ in hubs]
    picked: list[list[int]] = []
    for _ in range(parts):
        own = [*range(len(classes), len(classes) + 10)]
        classes += [[(float(random.integers(1, 5)), [])] for _ in own]
        options = [random.choice(own, size=(2, 1), replace=False) for _ in range(3)]
        options += [np.array([random.choice(own + hubs, 2, replace=False) for _ in range(3)]) for _ in range(3)]
        picked.append([*range(len(classes), len(classes) + 6)])
        classes += [[(float(random.integers(0, 3)), needs) for needs in each.tolist()] for each in options]
    problem = Problem.from_lists(classes, [part[number] for number in range(6) for part in picked])

    def least(part: list[int], used: set[int]) -> float:
        """The least cost of a part where some of the hubs are used."""
        price = {hub: 0.0 if hub in used else np.inf for hub in hubs}
        found = np.inf
        for nodes in product(*[classes[index] for index in part]):
            needed = {k for _, needs in nodes for k in needs}
            found = min(found, sum(cost for cost, _ in nodes) + sum(price.get(k, classes[k][0][0]) for k in needed))
        return found

    choice = decide(problem)
    assert choice is not None
    sets: list[set[int]] = [set(), {0}, {1}, {0, 1}]
    assert dag_cost(problem, choice) == min(20 * len(used) + sum(least(p, used) for p in picked) for used in sets)


def block(seed: int) -> Classes:
    """A hub, eight classes, one of them over it, six over these, and one over pairs of the six: each opens more."""
    random = np.random.default_rng(seed)
    lower: Classes = [[(float(random.integers(2, 6)), [0] if number == 0 else [])] for number in range(8)]
    middle: Classes = []
    for _ in range(6):
        halves = np.split(random.permutation(np.arange(1, 9)), 2)
        middle.append([(float(random.integers(0, 3)), half.tolist()) for half in halves])
    pairs = [(0.0, [*pair]) for pair in combinations(range(9, 15), 2)]
    return [[(0.0, [])], *lower, *middle, pairs]


def test_parts_that_open_more_and_more_classes_are_decided_one_after_another() -> None:
    count = 12
    classes = block(0)[:1]
    for number in range(count):
        above = len(classes) - 1
        for nodes in block(number)[1:]:
            classes.append([(cost, [k and k + above for k in below]) for cost, below in nodes])
    problem = Problem.from_lists(classes, [*range(15, len(classes), 15)])
    choice = decide(problem)
    assert choice is not None
    parts = [optimum(Problem.from_lists(block(number), [15])) for number in range(count)]
    assert dag_cost(problem, choice) == sum(parts)


def wide(count: int) -> Problem:
    """A class over many others, each of which may be over one that all share."""
    each: Classes = [[(2.0, []), (1.0, [0])]] * count
    return Problem.from_lists([[(1.0, [])], *each, [(0.0, [*range(1, count + 1)])]], [count + 1])


def test_a_class_over_very_many_is_decided_in_linear_work(count_calls: Callable[[Callable[[], Any]], int]) -> None:
    few, many = (count_calls(lambda: decide(wide(count))) for count in (1_000, 4_000))  # noqa: B023 - called at once
    assert many < 4.2 * few


def test_memory_grows_with_the_number_of_children_and_not_with_its_square() -> None:
    def peak(count: int) -> int:
        problem = wide(count)
        assert problem.class_nodes
        assert problem.children
        tracemalloc.start()
        choice = decide(problem)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert choice is not None
        assert choice.count(-1) == 0
        return held

    assert peak(12_000) < 5 * peak(3_000)
