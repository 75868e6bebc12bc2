"""Walking, pricing and checking a choice of nodes, and the result every extractor returns."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from eqsat.errors import ExtractionError

from .costs import Cost, as_cost
from .problem import Ints, Problem


class SolverFailure(ExtractionError):
    """HiGHS failed; what was found before is still good."""


@dataclass(frozen=True, eq=False)
class Result:
    """What an extractor found.

    Costs are floats for a problem with one objective, and tuples of K floats for one with K > 1 objectives.

    Attributes:
        choice: The chosen node of every class reached from the roots, -1 for other classes; int (C,).
        cost: The DAG cost, which counts each reached class once.
        tree_cost: The cost of the expression written out as a tree; it may overflow to infinity.
        lower_bound: No extraction has a smaller DAG cost. The bound of one objective holds for the extractions that
            are optimal under all objectives before it.
        optimal: Whether the cost is proved to be the smallest, objectives compared in order.
        seconds: Wall time spent.
        method: The extractor's name.
        message: A remark for the caller, such as a failed solver or a time limit that was reached; often empty.
    """

    choice: Ints = field(repr=False)
    cost: Cost
    tree_cost: Cost
    lower_bound: Cost
    optimal: bool
    seconds: float
    method: str
    message: str = ""


def walk(problem: Problem, choice: ArrayLike) -> list[int]:
    """The classes that a choice reaches from the roots, children before parents.

    Raises:
        ExtractionError: The choice is incomplete, picks a node of another class or a subsumed one, or runs in a cycle.
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
    """The number of roots and chosen nodes that need each class; `order` lists the classes that the choice reaches."""
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
    lower_bound: Cost = -math.inf,
    incumbent: ArrayLike | None = None,
    message: str = "",
) -> Result:
    """The result for a choice, or for the incumbent where that is cheaper.

    Args:
        problem: The problem.
        choice, incumbent: The node chosen for each class, -1 for none; int (C,).
        method, message: As in the result.
        started: The value of `time.perf_counter()` when the extractor began.
        lower_bound: What the extractor proved; a single number holds for every objective.
    """
    best, cost, tree_cost = _price(problem, choice)
    if incumbent is not None:
        kept, kept_cost, kept_tree = _price(problem, incumbent)
        if problem.is_less(kept_cost, cost):
            best, cost, tree_cost = kept, kept_cost, kept_tree
    bound, optimal = _bound(problem, cost, lower_bound)
    seconds = time.perf_counter() - started
    return Result(best, as_cost(cost), as_cost(tree_cost), as_cost(bound), optimal, seconds, method, message)


def _bound(problem: Problem, costs: tuple[float, ...], known: Cost) -> tuple[tuple[float, ...], bool]:
    """The lower bound under each objective, and whether the costs reach all of them.

    The known bound of an objective is valid only if the costs reach the bounds of all objectives before it.
    """
    bounds: list[float] = []
    optimal = True
    knowns = np.broadcast_to(known, len(costs)).tolist()
    for objective, (cost, least) in enumerate(zip(costs, knowns, strict=True)):
        bound = min(max(least if optimal else -math.inf, _trivial_bound(problem, objective)), cost)
        optimal = optimal and cost - bound <= problem.tolerance(cost, objective)
        bounds.append(cost if optimal else bound)
    return tuple(bounds), optimal


def _trivial_bound(problem: Problem, objective: int) -> float:
    """The sum of the cheapest node of every root, and of every other class whose cheapest node is negative."""
    cheapest = np.full(problem.num_classes, np.inf)
    np.minimum.at(cheapest, problem.node_class, problem.objectives[objective])
    must = np.zeros(problem.num_classes, bool)
    must[problem.roots] = True
    return math.fsum(cheapest[must | (cheapest < 0)].tolist())


def dag_cost(problem: Problem, choice: ArrayLike) -> Cost:
    """The DAG cost of a choice, as in `Result.cost`.

    Raises:
        ExtractionError: The choice is not an extraction.
    """
    return as_cost(_price(problem, choice)[1])


def _price(problem: Problem, choice: ArrayLike) -> tuple[Ints, tuple[float, ...], tuple[float, ...]]:
    """The choice restricted to the classes it reaches, and its DAG and tree costs under each objective."""
    order = walk(problem, choice)
    picked = np.asarray(choice).astype(np.int64)
    used = np.full(problem.num_classes, -1, np.int64)
    used[order] = picked[order]
    dag = tuple(math.fsum(cost[used[order]].tolist()) for cost in problem.objectives)
    return used, dag, tuple(_tree_cost(problem, cost.tolist(), order, used.tolist()) for cost in problem.objectives)


def _tree_cost(problem: Problem, cost: list[float], order: list[int], nodes: list[int]) -> float:
    children = problem.children
    tree = [0.0] * problem.num_classes
    for index in order:
        node = nodes[index]
        tree[index] = cost[node] + sum([tree[c] for c in children[node]])
    total: float = sum([tree[r] for r in problem.roots.tolist()])
    return total
