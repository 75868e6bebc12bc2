"""Local search on a choice with reference counts: switches of one class's node, and repriced rebuilds of a region."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from random import Random

import numpy as np

from .deadline import Deadline
from .greedy import cheapest_trees
from .problem import Problem
from .uses import Uses


class Search(Uses):
    """A complete choice that only ever gets cheaper.

    Every derivable class has a node chosen, whether it is used or not, and the whole choice is free of cycles; so a
    class that becomes used brings a valid derivation with it.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem.children, problem.scalars, [], [])
        self.problem = problem
        self.users, self.owner, self.options = problem.parents, problem.owner, problem.class_nodes
        self.roots = problem.roots.tolist()
        self.random = Random(seed)
        self.cost = math.inf
        cost, least = np.array(problem.scalars, np.float64), np.zeros(problem.num_classes)
        np.minimum.at(least, problem.node_class, cost)
        # where a class has negative costs, those above the least of them
        self.base: list[float] = (cost - least[problem.node_class]).tolist()
        self.slack = problem.scalar_tolerance

    def start(self, choice: Sequence[int]) -> None:
        """Take over a complete choice."""
        self.choice = list(choice)
        self.uses = [0] * len(self.choice)
        self.cost = 0.0
        for root in self.roots:
            self.uses[root] += 1
            if self.uses[root] == 1:
                self.cost += self.cost_of(self.take(self.choice[root], self.choice))

    # -- switching one class -------------------------------------------------------------------------------------

    def descend(self, deadline: Deadline, starts: Iterable[int] | None = None) -> None:
        """Switch single classes while that saves something, at first those given, by default all."""
        classes = range(len(self.uses)) if starts is None else starts
        pending = [c for c in classes if self.uses[c] and len(self.options[c]) > 1]
        self.random.shuffle(pending)
        queued = bytearray(len(self.uses))
        for index in pending:
            queued[index] = 1
        while pending and not deadline.passed():
            index = pending.pop()
            queued[index] = 0
            if not self.uses[index]:
                continue
            old = self.choice[index]
            if self._improve(index):
                for near in self._neighbours([index, *self.children[old], *self.children[self.choice[index]]]):
                    if not queued[near] and self.uses[near] and len(self.options[near]) > 1:
                        queued[near] = 1
                        pending.append(near)

    def _neighbours(self, changed: list[int]) -> list[int]:
        """Classes whose best node may have changed: those that can need what is newly used or unused."""
        return [self.owner[user] for c in changed for user in self.users[c]]

    def _improve(self, index: int) -> bool:
        """Give the class its best node; whether that saved something."""
        old = self.choice[index]
        freed = self.cost_of(self.give_up(old))
        best, best_cost = old, freed - self.slack
        for node in self.options[index]:
            if node != old and self.costs[node] < best_cost:
                price = self.cost_of(self.take(node, self.choice))
                self.give_up(node)
                if price < best_cost and index not in self.below(node):
                    best, best_cost = node, price
        self.choice[index] = best
        self.cost += self.cost_of(self.take(best, self.choice)) - freed
        return best != old

    # -- rebuilding a region -------------------------------------------------------------------------------------

    def try_weights(self, weights: list[float], deadline: Deadline) -> bool:
        """Rebuild all under other node costs and descend; keep the outcome unless it is dearer. Whether it saved."""
        return self._try(cheapest_trees(self.problem, weights)[0], deadline)

    def kick(self, deadline: Deadline) -> bool:
        """Rebuild a random region and descend; keep the outcome unless it is dearer. Whether it saved."""
        saved = self._try(self.rebuilt(), deadline)
        if saved:  # classes that are not in use take nodes that share more of what is
            weights = [*self.base]
            for index, count in enumerate(self.uses):
                if count:
                    weights[self.choice[index]] = 0.0
            self.try_weights(weights, deadline)
        return saved

    def _try(self, choice: Sequence[int], deadline: Deadline) -> bool:
        kept = (self.choice, self.uses, self.cost)
        better = False
        try:
            self.start(choice)
            self.descend(deadline, self._near_changes(*kept[:2]))
            better = self.cost <= kept[2] + self.slack
        finally:  # also where Ctrl-C strikes
            if not better:
                self.choice, self.uses, self.cost = kept
        return self.cost < kept[2] - self.slack

    def _near_changes(self, choice: list[int], uses: list[int]) -> dict[int, None]:
        """The classes whose best node may not be what it was in another state."""
        states = enumerate(zip(self.choice, self.uses, choice, uses, strict=True))
        changed = [
            index for index, (node, used, old, before) in states if bool(used) != bool(before) or (used and node != old)
        ]
        return dict.fromkeys(changed + self._neighbours(changed))

    def _region(self) -> list[int]:
        """A few classes near each other: a random walk with branches along needs and users."""
        size = self.random.choice((2, 4, 8, 16, 32))
        found = {self.random.randrange(len(self.uses)): None}
        for index in found.copy():
            frontier = [index]
            while frontier and len(found) < size:
                here = frontier.pop(self.random.randrange(len(frontier)))
                near = [k for n in self.options[here] for k in self.children[n]]
                near += [self.owner[u] for u in self.users[here]]
                for other in self.random.sample(near, min(3, len(near))):
                    if other not in found:
                        found[other] = None
                        frontier.append(other)
        return [*found]

    def rebuilt(self) -> list[int]:
        """The choice with the cheapest trees for a random region that is repriced; other classes keep their nodes.

        What is in use outside the region counts as paid for. Inside, some classes are made dear and some free, so
        that several classes move together to share what none would start to use alone. Only the region and what is
        above it by the present choice are looked at, in the order of their costs: so nothing runs in a cycle.
        """
        prices: dict[int, float] = {}
        for index in self._region():
            factor = self.random.choice((0.0, 0.0, 0.5, 2.0, 8.0))
            for node in self.options[index]:
                prices[node] = self.base[node] * factor * self.random.uniform(0.8, 1.25)
        affected = dict.fromkeys([self.owner[node] for node in prices])
        above = [*affected]
        for index in above:  # grows while it is read
            for user in self.users[index]:
                over = self.owner[user]
                if self.choice[over] == user and over not in affected:
                    affected[over] = None
                    above.append(over)
                    prices[user] = 0.0 if self.uses[over] else self.base[user]
        below: dict[int, float] = {}
        missing: dict[int, int] = {}
        heap = []
        for node in prices:
            missing[node] = 0
            for child in self.children[node]:
                if child in affected:
                    missing[node] += 1
                else:
                    prices[node] += self._price_below(child, below)
            if not missing[node]:
                heap.append((prices[node], node))
        heapify(heap)
        choice = [*self.choice]
        while heap and heap[0][0] < math.inf:
            price, node = heappop(heap)
            index = self.owner[node]
            if index not in affected:
                continue
            del affected[index]
            choice[index] = node
            for user in self.users[index]:
                if user in missing:
                    prices[user] += price
                    missing[user] -= 1
                    if not missing[user]:
                        heappush(heap, (prices[user], user))
        return choice

    def _price_below(self, index: int, known: dict[int, float]) -> float:
        """What the tree of a class costs, without what is in use; infinite where the class has no node."""
        stack = [index]
        while stack:
            here = stack[-1]
            node = self.choice[here]
            if self.uses[here] or node < 0:
                known[here] = 0.0 if node >= 0 else math.inf
            if here not in known:
                fresh = [child for child in self.children[node] if child not in known]
                if fresh:
                    stack += fresh
                    continue
                known[here] = self.base[node] + sum([known[child] for child in self.children[node]])
            stack.pop()
        return known[index]
