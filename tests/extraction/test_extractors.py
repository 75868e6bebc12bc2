"""Claims about the extractors on e-graphs made for the purpose."""

from __future__ import annotations

import math
from typing import Any

import highspy
import numpy as np
import pytest

from eqsat.errors import ExtractionError
from eqsat.extraction import EXTRACTORS, Problem, auto, dag, dag_cost, exact, local, tree
from eqsat.extraction.branch_and_cut import granularity
from eqsat.extraction.cuts import Cuts
from eqsat.extraction.deadline import Deadline
from eqsat.extraction.frontier import Decision
from eqsat.extraction.relaxation import Inequality, Relaxation
from eqsat.extraction.simplify import simplify


def shared_choice(users: int) -> Problem:
    """Each user has a private leaf of cost 2, or one leaf of cost 3 that all may share."""
    private = [[(2.0, [])] for _ in range(users)]
    chooser = [[(0.0, [users + i]), (0.0, [2 * users])] for i in range(users)]
    root = [(0.0, list(range(users)))]
    return Problem.from_lists([*chooser, *private, [(3.0, [])], root], [2 * users + 1])


def chain(length: int) -> Problem:
    """Class i is class i - 1 and one more, or class i - 2 and two and a half more."""
    classes: list[Any] = [[(1.0, [])]]
    classes += [[(1.0, [i]), (2.5, [max(i - 1, 0)])] for i in range(length)]
    return Problem.from_lists(classes, [length])


def random_graph(seed: int, size: int) -> Problem:
    random = np.random.default_rng(seed)
    classes: list[Any] = []
    for index in range(size):
        low = max(0, index - 30)
        nodes = [
            (float(random.integers(1, 20)), random.integers(low, min(size, index + 3), random.integers(1, 4)).tolist())
            for _ in range(3)
        ]
        classes.append([*nodes, (150.0, [])])
    return Problem.from_lists(classes, [size - 1, size // 2])


def test_greedy_misses_a_move_over_several_classes_and_the_search_makes_it() -> None:
    problem = shared_choice(5)
    assert tree(problem).cost == dag(problem).cost == 10.0
    assert local(problem).cost == 3.0
    assert exact(problem).cost == auto(problem).cost == 3.0


def test_dag_counts_shared_classes_once_where_tree_does_not() -> None:
    # a leaf of 5 that is used twice, or a leaf of 7
    problem = Problem.from_lists([[(0.0, [1, 2]), (7.0, [])], [(5.0, [])], [(0.0, [1])]], [0])
    assert tree(problem).cost == 7.0
    assert dag(problem).cost == 5.0


@pytest.mark.parametrize("method", ["tree", "dag"])
def test_a_chain_of_many_thousand_classes(method: str) -> None:
    result = EXTRACTORS[method](chain(20_000))
    assert result.cost == 20_001.0


@pytest.mark.parametrize(("method", "length"), [("local", 5_000), ("exact", 5_000), ("auto", 20_000)])
def test_simplification_solves_the_long_chain(method: str, length: int) -> None:
    result = EXTRACTORS[method](chain(length), seconds=200.0)
    assert result.cost == length + 1.0
    assert result.optimal == (method != "local")


def test_a_class_of_many_nodes_is_simplified_without_comparing_all_pairs() -> None:
    leaves: list[Any] = [[(1.0 + i % 7, [])] for i in range(300)]
    wide = [(1.0 + i % 5, [i % 300, (7 * i + 1) % 300, (i // 300 + i) % 300]) for i in range(20_000)]
    result = exact(Problem.from_lists([*leaves, wide], [300]))
    assert result.optimal
    assert result.cost == min(price + sum({k: leaves[k][0][0] for k in kids}.values()) for price, kids in wide)


def test_trees_too_large_for_a_float_do_not_hide_the_better_node() -> None:
    # every class doubles the tree; the last offers 3 or 2 on top
    classes: list[Any] = [[(1.0, [])], *[[(1.0, [i, i])] for i in range(2000)]]
    classes.append([(3.0, [2000]), (2.0, [2000])])
    result = dag(Problem.from_lists(classes, [2001]))
    assert result.cost == 2003.0
    assert result.tree_cost == math.inf


@pytest.mark.parametrize("method", EXTRACTORS)
def test_no_extractor_is_worse_than_the_incumbent_or_greedy(method: str) -> None:
    problem = shared_choice(4)
    incumbent = exact(problem).choice
    result = EXTRACTORS[method](problem, incumbent=incumbent)
    assert result.cost == dag_cost(problem, incumbent) == 3.0
    for seed in range(5):
        graph = random_graph(seed, 60)
        greedy = min(tree(graph).cost, dag(graph).cost)
        if method not in ("tree", "dag"):
            assert EXTRACTORS[method](graph, seconds=1.0).cost <= greedy


@pytest.mark.parametrize("method", EXTRACTORS)
def test_a_bad_incumbent_is_refused(method: str) -> None:
    with pytest.raises(ExtractionError, match="has no node for it"):
        EXTRACTORS[method](shared_choice(3), incumbent=[-1] * 8)


@pytest.mark.parametrize("method", EXTRACTORS)
def test_the_seed_decides(method: str) -> None:
    problem = random_graph(0, 80)
    first, second = (EXTRACTORS[method](problem, seconds=1000.0, seed=3) for _ in range(2))
    assert first.choice.tolist() == second.choice.tolist()
    assert first.lower_bound == second.lower_bound


def test_a_bound_is_given_when_the_time_is_over() -> None:
    result = exact(random_graph(1, 1500), seconds=0.5)
    assert result.lower_bound <= result.cost
    assert result.optimal or "time limit" in result.message


def test_subsumed_nodes_are_not_chosen() -> None:
    free = Problem.from_lists([[(1.0, []), (5.0, [])]], [0])
    barred = Problem(
        free.node_class, free.child_offsets, free.child, free.cost, free.roots, subsumed=np.array([True, False])
    )
    for extractor in EXTRACTORS.values():
        assert extractor(free).cost == 1.0
        assert extractor(barred).cost == 5.0


def test_negative_costs_are_collected_only_where_the_roots_reach() -> None:
    problem = Problem.from_lists([[(1.0, [1]), (0.0, [])], [(-3.0, [])], [(-100.0, [])]], [0])
    assert exact(problem).cost == -2.0


def test_unreachable_parts_and_underivable_nodes_do_not_matter() -> None:
    problem = Problem.from_lists([[(1.0, []), (0.0, [1])], [(0.0, [1])], [(0.0, [0])], []], [0])
    for extractor in EXTRACTORS.values():
        assert extractor(problem).cost == 1.0


@pytest.mark.parametrize("size", [1.0, 1e-12, 1e15])
def test_the_scale_of_the_costs_does_not_matter(size: float) -> None:
    base = random_graph(5, 40)
    scaled = Problem(base.node_class, base.child_offsets, base.child, base.cost * size, base.roots)
    assert exact(scaled).cost == pytest.approx(exact(base).cost * size)


def test_a_solver_that_fails_leaves_the_best_so_far_and_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> None:
        raise RuntimeError("out of order")

    problem = random_graph(1, 300)
    assert simplify(problem).problem is not None
    monkeypatch.setattr(highspy.Highs, "startSolve", fail)
    result = exact(problem)
    assert not result.optimal
    assert "HiGHS failed: out of order" in result.message
    assert result.cost <= dag(problem).cost


SEARCHING = ["search.Search.rebuilt", "search.Search._improve", "search.Search.kick", "search.Search.descend"]
PROVING = ["branch_and_cut.simplify", "branch_and_cut.cheapest_dag", "cuts.Cuts.loops", "relaxation.Relaxation.add"]


@pytest.mark.parametrize(
    ("method", "phase"),
    [
        *[(method, phase) for method in ("local", "exact", "auto") for phase in SEARCHING],
        *[(method, phase) for method in ("exact", "auto") for phase in PROVING],
        ("local", "local_search.simplify"),
        ("local", "local_search.cheapest_dag"),
    ],
)
def test_an_interrupt_returns_the_best_so_far(method: str, phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    problem = random_graph(1, 300)
    monkeypatch.setattr(f"eqsat.extraction.{phase}", interrupt)
    result = EXTRACTORS[method](problem)
    assert result.message == "interrupted"
    assert result.cost <= tree(problem).cost


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_an_interrupt_while_highs_works_stops_it(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, waits = highspy.Highs.wait, []

    def interrupted_wait(self: Any, *timeout: float) -> Any:
        waits.append(timeout)
        if len(waits) == calls:
            raise KeyboardInterrupt
        return wait(self, *timeout)

    monkeypatch.setattr(highspy.Highs, "wait", interrupted_wait)
    problem = random_graph(1, 300)
    result = exact(problem)
    assert result.message == "interrupted" or len(waits) < calls
    assert result.lower_bound <= result.cost <= dag(problem).cost


def test_highs_is_stopped_when_it_is_late_and_goes_on_if_it_is_asked_again() -> None:
    relaxation = Relaxation(simplify(random_graph(1, 300)).problem, seed=0)
    assert not relaxation.solve(-1.0)  # a limit that HiGHS itself does not take
    assert relaxation.status == "Time limit reached"
    assert relaxation.solve(math.inf)
    assert relaxation.status == "Optimal"


def test_local_takes_a_cost_of_the_whole_choice() -> None:
    problem = shared_choice(3)

    def worst_leaf(choice: np.ndarray) -> float:
        return max(problem.costs[n] for n in choice.tolist() if n >= 0)

    result = local(problem, objective=worst_leaf, incumbent=exact(problem).choice)
    assert result.cost == 2.0


def test_an_objective_that_fails_is_named() -> None:
    def fail(choice: np.ndarray) -> float:
        raise ValueError("no idea")

    with pytest.raises(ExtractionError, match="the objective failed on a choice: ValueError"):
        local(shared_choice(3), objective=fail)
    with pytest.raises(ExtractionError, match="NaN"):
        local(shared_choice(3), objective=lambda choice: math.nan)


def test_granularity_is_the_step_between_costs() -> None:
    assert granularity(np.array([4.0, 6.0, 0.0])) == 2.0
    assert granularity(np.array([0.25, 1.5])) == 0.25
    assert granularity(np.array([math.pi, 1.0])) == 0.0


def test_a_solution_that_was_not_searched_for_cycles_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    over: list[Deadline] = []
    branch, loops, passed = Relaxation.branch, Cuts.loops, Deadline.passed
    branched: list[Relaxation] = []

    def noted(relaxation: Relaxation, *args: Any) -> bool:
        branched.append(relaxation)
        return branch(relaxation, *args)

    def without_time(cuts: Cuts, relaxation: Relaxation) -> list[Inequality]:
        if relaxation not in branched:
            return []
        over.append(cuts.deadline)
        return loops(cuts, relaxation)

    monkeypatch.setattr(Decision, "run", lambda *args: None)
    monkeypatch.setattr(Relaxation, "branch", noted)
    monkeypatch.setattr(Cuts, "loops", without_time)
    monkeypatch.setattr(Deadline, "passed", lambda deadline: deadline in over or passed(deadline))
    problem = random_graph(0, 80)
    assert auto(problem).cost <= dag(problem).cost
    assert over
