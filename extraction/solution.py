"""Walking, pricing and checking a choice of nodes, and the result every extractor returns."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eqsat.errors import ExtractionError

from .problem import Ints, Problem


@dataclass(frozen=True, eq=False)
class Result:
    """What an extractor found.

    Attributes
    ----------
    choice : int (C,), the chosen node of every class reached from the roots, -1 elsewhere
    cost : DAG cost, each reached class once
    tree_cost : cost of the expression written out as a tree (may overflow to infinity)
    lower_bound : no extraction has a smaller DAG cost (-inf where nothing is known)
    optimal : the cost is proved to be the smallest
    seconds : wall time spent
    method : the extractor's name
    message : what the caller should know (a solver that failed, a time limit reached); often empty
    """

    choice: Ints
    cost: float
    tree_cost: float
    lower_bound: float
    optimal: bool
    seconds: float
    method: str
    message: str = ""


def walk(problem: Problem, choice: ArrayLike) -> list[int]:
    """Classes the choice reaches from the roots, children before parents.

    Raises ExtractionError where the choice is incomplete, picks a node of another class or a subsumed one, or
    runs in a cycle.
    """
    picked = _as_choice(problem, choice)
    children = problem.children
    state = bytearray(problem.num_classes)  # 0 new, 1 open, 2 done
    order: list[int] = []
    stack = problem.roots.tolist()
    while stack:
        index = stack[-1]
        if state[index]:
            stack.pop()
            if state[index] == 1:
                state[index] = 2
                order.append(index)
            continue
        state[index] = 1
        node = picked[index]
        if node < 0:
            raise ExtractionError(f"the choice reaches {problem.class_name(index)} and has no node for it")
        for child in children[node]:
            if not state[child]:
                stack.append(child)
            elif state[child] == 1:
                raise ExtractionError(f"the choice runs in a cycle through {problem.class_name(child)}")
    return order


def use_counts(problem: Problem, choice: Sequence[int], order: Iterable[int]) -> list[int]:
    """How often a root or a chosen node needs each class; `order` is the classes that the choice reaches."""
    uses = [0] * problem.num_classes
    for root in problem.roots.tolist():
        uses[root] += 1
    for index in order:
        for child in problem.children[choice[index]]:
            uses[child] += 1
    return uses


def _as_choice(problem: Problem, choice: ArrayLike) -> list[int]:
    array = np.asarray(choice)
    if array.shape != (problem.num_classes,) or not np.issubdtype(array.dtype, np.integer):
        raise ExtractionError(f"a choice is {problem.num_classes} node numbers, one for each class, -1 for none")
    used = np.flatnonzero(array >= 0)
    nodes = array[used]
    wrong = nodes >= problem.num_nodes
    wrong[~wrong] = (problem.node_class[nodes[~wrong]] != used[~wrong]) | problem.excluded[nodes[~wrong]]
    if wrong.any():
        index = int(used[np.argmax(wrong)])
        raise ExtractionError(
            f"the choice for {problem.class_name(index)} is node {array[index]}, which is not one of its nodes"
        )
    return array.tolist()  # type: ignore[no-any-return]


def finish(
    problem: Problem,
    choice: ArrayLike,
    *,
    method: str,
    started: float,
    lower_bound: float = -math.inf,
    incumbent: ArrayLike | None = None,
    message: str = "",
) -> Result:
    """Price the choice, prefer the incumbent where that is cheaper, and wrap up.

    `started` is the `time.perf_counter()` at which the extractor began.
    """
    best, cost, tree_cost = _price(problem, choice)
    if incumbent is not None:
        kept, kept_cost, kept_tree = _price(problem, incumbent)
        if kept_cost < cost:
            best, cost, tree_cost = kept, kept_cost, kept_tree
    bound = min(max(lower_bound, trivial_bound(problem)), cost)
    optimal = cost - bound <= problem.tolerance(cost)
    seconds = time.perf_counter() - started
    return Result(best, cost, tree_cost, cost if optimal else bound, optimal, seconds, method, message)


def trivial_bound(problem: Problem) -> float:
    """Cheapest node of every root, and of every other class where that is negative."""
    cheapest = np.full(problem.num_classes, np.inf)
    np.minimum.at(cheapest, problem.node_class, problem.cost)
    must = np.zeros(problem.num_classes, bool)
    must[problem.roots] = True
    return math.fsum(cheapest[must | (cheapest < 0)].tolist())


def dag_cost(problem: Problem, choice: ArrayLike) -> float:
    """DAG cost of a choice; raises ExtractionError where it is not an extraction."""
    return _price(problem, choice)[1]


def _price(problem: Problem, choice: ArrayLike) -> tuple[Ints, float, float]:
    order = walk(problem, choice)
    picked = np.asarray(choice).astype(np.int64)
    used = np.full(problem.num_classes, -1, np.int64)
    used[order] = picked[order]
    cost, children, nodes = problem.costs, problem.children, used.tolist()
    tree = [0.0] * problem.num_classes
    for index in order:
        node = nodes[index]
        tree[index] = cost[node] + sum([tree[c] for c in children[node]])
    return used, math.fsum(problem.cost[used[order]].tolist()), sum(tree[r] for r in problem.roots.tolist())
