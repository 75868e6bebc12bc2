"""Local search on a choice with reference counts: switches of one class's node, and repriced rebuilds of a region."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        self.base = cost - least[problem.node_class]  # where a class has negative costs, those above the least of them
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

    def descend(self, deadline: Deadline) -> None:
        """Switch single classes while that saves something."""
        pending = [c for c, count in enumerate(self.uses) if count and len(self.options[c]) > 1]
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
                for near in self._neighbours(index, old):
                    if not queued[near] and self.uses[near] and len(self.options[near]) > 1:
                        queued[near] = 1
                        pending.append(near)

    def _neighbours(self, index: int, old: int) -> list[int]:
        """Classes whose best node may have changed: those that can need what is newly used or unused."""
        changed = [index, *self.children[old], *self.children[self.choice[index]]]
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
        """Rebuild under other node costs and descend; keep the outcome unless it is dearer. Whether it saved."""
        kept = (self.choice, self.uses, self.cost)
        better = False
        try:
            self.start(cheapest_trees(self.problem, weights)[0])
            self.descend(deadline)
            better = self.cost <= kept[2] + self.slack
        finally:  # also where Ctrl-C strikes
            if not better:
                self.choice, self.uses, self.cost = kept
        return self.cost < kept[2] - self.slack

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

    def random_prices(self) -> list[float]:
        """Node costs in which a random region is repriced.

        What is in use outside the region counts as paid for. Inside, some classes are made dear and some free, so
        that several classes move together to share what none would start to use alone.
        """
        prices: list[float] = self.base.tolist()
        for index, count in enumerate(self.uses):
            if count:
                prices[self.choice[index]] = 0.0
        for index in self._region():
            factor = self.random.choice((0.0, 0.0, 0.5, 2.0, 8.0))
            for node in self.options[index]:
                prices[node] = self.base.item(node) * factor * self.random.uniform(0.8, 1.25)
        return prices
