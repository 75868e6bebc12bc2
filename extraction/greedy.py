"""The two greedy extractors: the cheapest trees, and the cheapest sets of classes, settled one class at a time."""

from __future__ import annotations

import math
import time
from heapq import heapify, heappop, heappush
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eqsat.collector import paused_gc

from .components import components
from .contract import contracted
from .costs import Term
from .deadline import NEVER, Deadline
from .problem import Ints, Problem
from .solution import Result, finish


def tree(problem: Problem, *, seconds: float = math.inf, seed: int = 0, incumbent: ArrayLike | None = None) -> Result:
    """Extract the cheapest tree: a class that is reached twice is paid twice.

    This is exact for tree costs if no cost is negative. It uses Knuth's generalization of Dijkstra's algorithm
    (https://doi.org/10.1016/0020-0190(77)90002-3) in O(E log N). Arguments and errors are those of
    :func:`eqsat.extraction.extract`; the time and the seed are ignored.
    """
    started = time.perf_counter()
    choice, _ = cheapest_trees(problem)
    return finish(problem, choice, method="tree", started=started, incumbent=incumbent)


def dag(problem: Problem, *, seconds: float = math.inf, seed: int = 0, incumbent: ArrayLike | None = None) -> Result:
    """Extract greedily: each class takes the node whose set of needed classes is cheapest, shared classes paid once.

    Classes are settled in the order of their cheapest trees, so a choice never runs in a cycle. A second round
    settles them in the order of the sets' costs. Arguments and errors are those of :func:`tree`.
    """
    return contracted(problem, math.inf, incumbent, cheapest_dag)


@paused_gc()
def cheapest_dag(problem: Problem, deadline: Deadline = NEVER, incumbent: Ints | None = None) -> Result:
    """`dag` without contraction; classes not reached by the deadline keep the node of their cheapest tree."""
    started = time.perf_counter()
    choice, order = cheapest_trees(problem)
    sets = CheapestSets(problem, choice, order, deadline)
    sets.settle(order)
    first = finish(problem, sets.choice, method="dag", started=started, incumbent=incumbent)
    if problem.signed:
        return first  # the order of costs need not put children before parents
    order.sort(key=sets.cost.__getitem__)
    if not sets.settle(order) or deadline.passed():
        return first
    return finish(problem, sets.choice, method="dag", started=started, incumbent=first.choice)


def cheapest_trees(problem: Problem, prices: list[float] | None = None) -> tuple[list[int], list[int]]:
    """The node of least tree cost of every class (-1 where there is none), and the order in which they were settled.

    With negative costs the strongly connected components are settled one after another, so the result is exact
    for graphs without cycles, and free of cycles for others.

    Args:
        problem: The problem.
        prices: Other node costs, none of them negative.
    """
    parents, owner = problem.parents, problem.owner
    rank = components(problem) if prices is None and problem.signed else [0] * problem.num_classes
    missing = [*problem.fan]
    total: list[Term] = [*(problem.costs if prices is None else prices)]
    choice = [-1] * problem.num_classes
    order: list[int] = []
    heap = [(rank[owner[n]], total[n], n) for n, count in enumerate(missing) if not count]
    heapify(heap)
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
                if choice[target] < 0:
                    heappush(heap, (rank[target], total[parent], parent))
    return choice, order


_WIDTH = 4096  # classes in one word of a set: wide words are fast, narrow ones share more between sets
_FEW = 24  # members up to which adding costs one by one beats unpacking a whole word
_MANY = 4  # nodes beyond which those with the same children are looked for

Words = list[int]


class CheapestSets:
    """For every class, the node whose needed classes cost least together.

    Sets are bit words over positions in the first order. Two candidates are compared by the classes that only one of
    them needs, so rounding never hides a small difference.

    Attributes:
        choice: The node of each class.
        cost: The cost of the set of each class.
    """

    def __init__(self, problem: Problem, choice: list[int], order: list[int], deadline: Deadline) -> None:
        self.problem = problem
        self.deadline = deadline
        self.choice = choice.copy()
        self.cost = [0.0] * problem.num_classes
        self._bit = [0] * problem.num_classes
        for position, index in enumerate(order):
            self._bit[index] = position
        self._sets: list[Words] = [[]] * problem.num_classes
        self._price = np.zeros(len(order) + _WIDTH)
        self._ready = np.zeros(problem.num_nodes, bool)

    def settle(self, order: list[int]) -> bool:
        """Choose for each class in order among the nodes whose children come earlier; whether any choice changed.

        The nodes chosen so far must be among them. A second call looks again only where something changed.
        """
        children, class_nodes, choice = self.problem.children, self.problem.class_nodes, self.choice
        ready = self._after_children(order)
        other = np.zeros(self.problem.num_classes, bool)
        other[self.problem.node_class[ready != self._ready]] = True
        self._ready = ready
        is_ready, stale = ready.tolist(), bytearray(other.tobytes())
        changed: set[int] = set()
        for index in order:
            if self.deadline.passed():
                break
            nodes = [n for n in class_nodes[index] if is_ready[n]]
            if not stale[index] and all(changed.isdisjoint(children[n]) for n in nodes):
                continue
            node = self._choose(index, nodes)
            if stale[index] or node != choice[index] or not changed.isdisjoint(children[node]):
                changed.add(index)
            choice[index] = node
        return bool(changed)

    def _after_children(self, order: list[int]) -> NDArray[np.bool_]:
        """Which nodes have only children that come earlier in the order; bool (N,)."""
        problem = self.problem
        place = np.full(problem.num_classes, len(order))
        place[order] = np.arange(len(order))
        last = np.full(problem.num_nodes, -1)
        np.maximum.at(
            last, np.repeat(np.arange(problem.num_nodes), np.diff(problem.child_offsets)), place[problem.child]
        )
        after: NDArray[np.bool_] = last < place[problem.node_class]
        return after

    def _choose(self, index: int, nodes: list[int]) -> int:
        """The cheapest of the nodes; its set becomes that of the class."""
        children, costs = self.problem.children, self.problem.scalars
        best, needs = -1, [0]
        for node in nodes if len(nodes) <= _MANY else self._without_twins(nodes):
            candidate = self._union(children[node])
            if best < 0 or costs[node] - costs[best] + self._difference(candidate, needs) < 0:
                best, needs = node, candidate
        self._enter(index, best, needs)
        return best

    def _enter(self, index: int, node: int, needs: Words) -> None:
        kids, cost = self.problem.children[node], float(self.problem.scalars[node])
        self.cost[index] = cost
        if kids:
            base = kids[0] if len(kids) == 1 else max(kids, key=self.cost.__getitem__)
            self.cost[index] += self.cost[base] + max(0.0, self._difference(needs, self._sets[base]))
        word, bit = divmod(self._bit[index], _WIDTH)
        self._price[self._bit[index]] = cost
        needs = needs + [0] * (word + 1 - len(needs))
        needs[word] |= 1 << bit
        self._sets[index] = needs

    def _without_twins(self, nodes: list[int]) -> list[int]:
        """Of nodes with the same children only the cheapest."""
        children, costs = self.problem.children, self.problem.scalars
        cheapest: dict[tuple[int, ...], int] = {}
        for node in nodes:
            key = tuple(sorted(children[node]))
            if key not in cheapest or costs[node] < costs[cheapest[key]]:
                cheapest[key] = node
        return [*cheapest.values()]

    def _union(self, classes: list[int]) -> Words:
        """The union of the classes' sets; words equal to one of theirs are the same object: stored once."""
        sets = [self._sets[c] for c in classes]
        if len(sets) < 2:
            return sets[0] if sets else []
        longest = max(sets, key=len)
        result = longest
        for other in sets:
            for i, word in enumerate(other):
                kept = result[i]
                if word is not kept and (both := word | kept) != kept:
                    if result is longest:
                        result = longest.copy()
                    result[i] = word if both == word else both
        return result

    def _difference(self, left: Words, right: Words) -> float:
        """Cost of what only the left set holds less cost of what only the right one holds."""
        if left is right:
            return 0.0
        total = 0.0
        for i, (a, b) in enumerate(zip_longest(left, right, fillvalue=0)):
            if a is not b and a != b:
                total += self._sum(a & ~b, i) - self._sum(b & ~a, i)
        return total

    def _sum(self, word: int, position: int) -> float:
        """Cost of the classes in one word."""
        base = position * _WIDTH
        if word.bit_count() > _FEW:
            bits = np.unpackbits(np.frombuffer(word.to_bytes(_WIDTH // 8, "little"), np.uint8), bitorder="little")
            return float(self._price[base : base + _WIDTH] @ bits)
        total = 0.0
        while word:
            low = word & -word
            total += self._price.item(base + low.bit_length() - 1)
            word ^= low
        return total
