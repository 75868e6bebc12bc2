"""The two greedy extractors: cheapest tree, and cheapest set of classes one class at a time."""

from __future__ import annotations

import math
import time
from heapq import heappop, heappush

import numpy as np
from numpy.typing import ArrayLike

from .components import components
from .problem import Floats, Problem
from .solution import Result, finish


def tree(problem: Problem, *, seconds: float = math.inf, seed: int = 0, incumbent: ArrayLike | None = None) -> Result:
    """Cheapest tree (a class reached twice is paid twice): exact for trees where no cost is negative.

    Knuth's generalisation of Dijkstra's algorithm, O(E log N). `seconds` and `seed` change nothing.
    """
    started = time.perf_counter()
    choice, _ = cheapest_trees(problem)
    return finish(problem, choice, method="tree", started=started, incumbent=incumbent)


def dag(problem: Problem, *, seconds: float = math.inf, seed: int = 0, incumbent: ArrayLike | None = None) -> Result:
    """Greedy on sets: each class takes the node whose set of needed classes is cheapest, shared ones paid once.

    Classes are settled in the order in which their cheapest trees are, so a choice never runs in a cycle; a second
    round settles them in order of the sets' costs. `seconds` and `seed` change nothing.
    """
    started = time.perf_counter()
    choice, order = cheapest_trees(problem)
    choice, set_cost = cheapest_sets(problem, choice, order)
    first = finish(problem, choice, method="dag", started=started, incumbent=incumbent)
    if min(problem.costs) < 0:
        return first  # the order of costs need not put children before parents
    order.sort(key=set_cost.__getitem__)
    choice, _ = cheapest_sets(problem, choice, order)
    return finish(problem, choice, method="dag", started=started, incumbent=first.choice)


def cheapest_trees(problem: Problem) -> tuple[list[int], list[int]]:
    """For every class its node of least tree cost (-1 where there is none), and the order they were settled in.

    With negative costs the strongly connected components are settled one after another, so the result is exact
    for graphs without cycles and still free of cycles otherwise.
    """
    parents, costs = problem.parents, problem.costs
    owner = problem.node_class.tolist()
    rank = components(problem) if min(costs) < 0 else [0] * problem.num_classes
    missing = np.diff(problem.child_ptr).tolist()
    for node in np.flatnonzero(problem.excluded).tolist():
        missing[node] = -1
    total = problem.cost.tolist()
    choice = [-1] * problem.num_classes
    best = [math.inf] * problem.num_classes
    order: list[int] = []
    heap = [(rank[owner[n]], total[n], n) for n, count in enumerate(missing) if not count]
    heap.sort()
    while heap:
        _, price, node = heappop(heap)
        index = owner[node]
        if choice[index] >= 0:
            continue
        choice[index] = node
        order.append(index)
        for parent in parents[index]:
            total[parent] += price
            missing[parent] -= 1
            if not missing[parent]:
                target = owner[parent]
                if choice[target] < 0 and total[parent] <= best[target]:
                    best[target] = total[parent]
                    heappush(heap, (rank[target], total[parent], parent))
    return choice, order


_WIDTH = 4096  # classes in one word of a set: wide words are fast, narrow ones share more between sets
_FEW = 24  # members up to which adding costs one by one beats unpacking a whole word

Words = list[int]


def cheapest_sets(problem: Problem, choice: list[int], order: list[int]) -> tuple[list[int], list[float]]:
    """For every class the node whose needed classes cost least together, and that cost.

    Only nodes whose children come earlier in `order` are considered; those in `choice` must be among them. Sets are
    bit words over positions in `order`; two candidates are compared by what one needs and the other does not, so
    rounding never hides a small difference.
    """
    children, costs, class_nodes = problem.children, problem.costs, problem.class_nodes
    choice = choice.copy()
    position = [len(order)] * problem.num_classes
    price = np.zeros(len(order) + _WIDTH)
    sets: list[Words] = [[]] * problem.num_classes
    set_cost = [0.0] * problem.num_classes
    for here, index in enumerate(order):
        nodes = class_nodes[index] if len(class_nodes[index]) > 1 else [choice[index]]
        best, needs = -1, [0]
        for node in _ready(nodes, here, position, problem):
            candidate = _union([sets[c] for c in children[node]])
            if best < 0 or costs[node] - costs[best] + _difference(candidate, needs, price) < 0:
                best, needs = node, candidate
        choice[index] = best
        base = max(children[best], key=set_cost.__getitem__, default=index)
        set_cost[index] = costs[best] + set_cost[base] + max(0.0, _difference(needs, sets[base], price))
        position[index] = here
        price[here] = costs[best]
        word, bit = divmod(here, _WIDTH)
        needs.extend([0] * (word + 1 - len(needs)))
        needs[word] |= 1 << bit
        sets[index] = needs
    return choice, set_cost


def _ready(nodes: list[int], here: int, position: list[int], problem: Problem) -> list[int]:
    """Nodes all of whose children are settled; of those with the same children the cheapest."""
    if len(nodes) == 1:
        return nodes
    children, costs = problem.children, problem.costs
    cheapest: dict[tuple[int, ...], int] = {}
    for node in nodes:
        places = sorted([position[c] for c in children[node]])
        if not places or places[-1] < here:
            key = tuple(places)
            if key not in cheapest or costs[node] < costs[cheapest[key]]:
                cheapest[key] = node
    return [*cheapest.values()]


def _union(sets: list[Words]) -> Words:
    """A new set; words equal to one of the given are the same object, so equal parts are stored once."""
    if not sets:
        return []
    result = max(sets, key=lambda words: len(words)).copy()
    for other in sets:
        for i, word in enumerate(other):
            kept = result[i]
            if word is not kept:
                both = word | kept
                result[i] = kept if both == kept else word if both == word else both
    return result


def _difference(left: Words, right: Words, price: Floats) -> float:
    """Cost of what only the left set holds less cost of what only the right one holds."""
    total = 0.0
    for i in range(max(len(left), len(right))):
        a = left[i] if i < len(left) else 0
        b = right[i] if i < len(right) else 0
        if a is not b and a != b:
            total += _price(a & ~b, i, price) - _price(b & ~a, i, price)
    return total


def _price(word: int, position: int, price: Floats) -> float:
    base = position * _WIDTH
    if word.bit_count() > _FEW:
        bits = np.unpackbits(np.frombuffer(word.to_bytes(_WIDTH // 8, "little"), np.uint8), bitorder="little")
        return float(price[base : base + _WIDTH] @ bits)
    total = 0.0
    while word:
        low = word & -word
        total += price.item(base + low.bit_length() - 1)
        word ^= low
    return total
