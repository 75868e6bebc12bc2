"""Random extraction problems, and the optimum by trying every choice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqsat.errors import ExtractionError
from eqsat.extraction import Problem, dag_cost, tree
from eqsat.extraction.mutable import MutableProblem

Classes = list[list[tuple[float, list[int]]]]


@st.composite
def problems(draw: st.DrawFn, least_cost: int = 0, max_classes: int = 7, max_nodes: int = 3) -> Problem:
    """E-graphs with cycles, shared classes, several roots; costs are quarters from `least_cost` to 4."""
    size = draw(st.integers(1, max_classes))
    cost = st.integers(4 * least_cost, 16).map(lambda quarters: quarters / 4)
    children: Any = st.lists(st.integers(0, size - 1), max_size=3)
    classes: Classes = draw(
        st.lists(st.lists(st.tuples(cost, children), max_size=max_nodes), min_size=size, max_size=size)
    )
    anchor = draw(st.integers(0, size - 1))
    classes[anchor] = [*classes[anchor], (draw(cost), [])]
    known = Problem.from_lists(classes, [anchor]).derivable.nonzero()[0].tolist()
    roots = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
    return Problem.from_lists(classes, roots)


@st.composite
def extractions(draw: st.DrawFn, of: st.SearchStrategy[Problem]) -> tuple[Problem, list[int]]:
    """A problem and some extraction from it: the cheapest trees under other costs."""
    problem = draw(of)
    price = st.floats(0.0, 9.0)
    costs = draw(st.lists(price, min_size=problem.num_nodes, max_size=problem.num_nodes))
    other = replace(problem, cost=np.array(costs))
    return problem, tree(other).choice.tolist()


def pruned(problem: Problem) -> Problem:
    """The problem without classes that cannot be derived, and children named twice, as solvers want it."""
    mutable = MutableProblem(problem, None)
    mutable._prune()
    small = mutable.result().problem
    assert small is not None
    return small


def choices(problem: Problem) -> Iterator[list[int]]:
    """Every choice for the roots and what it needs, which may be circular."""
    partial: list[tuple[dict[int, int], list[int]]] = [({}, problem.roots.tolist())]
    while partial:
        chosen, needed = partial.pop()
        needed = [each for each in needed if each not in chosen]
        if not needed:
            yield [chosen.get(each, -1) for each in range(len(problem.class_nodes))]
        else:
            first, *rest = needed
            partial += [
                ({**chosen, first: node}, [*rest, *problem.children[node]]) for node in problem.class_nodes[first]
            ]


def optimum(problem: Problem) -> float:
    """The least DAG cost, by trying every choice."""
    return min(costs(problem), default=math.inf)


def costs(problem: Problem) -> Iterator[Any]:
    """The DAG costs of all extractions."""
    for choice in choices(problem):
        with suppress(ExtractionError):  # it is circular
            yield dag_cost(problem, choice)


class Undecided:
    """Stands in for `Decision` where classes cannot be decided one by one."""

    def __init__(self, problem: Problem) -> None:
        pass

    def run(self, *_: object) -> None:
        pass
