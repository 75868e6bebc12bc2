"""Local search on a choice with reference counts: switches of one class's node, and repriced rebuilds of a region."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from random import Random

import numpy as np

from .components import components
from .deadline import Deadline
from .greedy import cheapest_trees
from .problem import Problem
from .uses import Uses

_COOLING = 0.02  # the share of the risk at first that is left at the end
_STRETCH, _REFRESHED = 128, 2048  # steps after which classes in use are listed anew, and others get their best nodes
_BRANCHES = 3  # of the walk through a region at each class


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
        self.ring = components(problem)
        self.undo: dict[int, int] = {}
        self.cost = math.inf
        cost, least = np.array(problem.scalars, np.float64), np.zeros(problem.num_classes)
        self.mean = float(np.abs(cost).sum() / max(1, np.count_nonzero(cost)))
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

    def move(self, nodes: Mapping[int, int]) -> list[int]:
        """Give classes other nodes; the classes in use whose nodes changed, and those used from now on or no longer.

        The new nodes are taken before the old ones are given up, so that what both need is not looked at.
        """
        choice, uses, owner = self.choice, self.uses, self.owner
        used = []
        for index, node in nodes.items():
            old = choice[index]
            self.undo.setdefault(index, old)
            if uses[index]:
                used.append((index, old))
            choice[index] = node
        taken = [node for index, _ in used for node in self.take(choice[index], choice)]
        given_up = [node for _, old in used for node in self.give_up(old)]
        self.cost += self.cost_of(taken) - self.cost_of(given_up)
        return [owner[node] for node in taken + given_up]

    def free(self) -> list[int]:
        """The classes in use that offer a choice."""
        return [index for index, count in enumerate(self.uses) if count and len(self.options[index]) > 1]

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
                if price < best_cost and not self._needs(node, index):
                    best, best_cost = node, price
        self.undo.setdefault(index, old)
        self.choice[index] = best
        self.cost += self.cost_of(self.take(best, self.choice)) - freed
        return best != old

    def _needs(self, node: int, index: int) -> bool:
        """Whether a class is below a node of it; what it needs in a cycle is in its own ring."""
        ring = self.ring
        here = ring[index]
        stack = [node]
        seen = set()
        while stack:
            for child in self.children[stack.pop()]:
                if child == index:
                    return True
                if ring[child] == here and child not in seen:
                    seen.add(child)
                    stack.append(self.choice[child])
        return False

    # -- annealing ------------------------------------------------------------------------------------------------

    def anneal(self, heat: float, steps: int, deadline: Deadline) -> bool:
        """Switch classes in use at random, also where that costs more, though more and more seldom.

        The cheapest choice on the way is kept. Whether it is cheaper than the one before.

        Args:
            heat: The cost that is risked at first, in mean node costs.
            steps: The number of switches to try.
            deadline: When to stop.
        """
        uniform, options = self.random.random, self.options
        before = least = self.cost
        kept = [*self.choice]
        risk, cooling = heat * self.mean, _COOLING ** (1 / steps)
        try:
            for step in range(0, steps, _STRETCH):
                if deadline.passed():
                    break
                if not step % _REFRESHED:
                    self.refresh()
                choice, uses, free = self.choice, self.uses, self.free()
                if not free:
                    break
                for _ in range(_STRETCH):
                    risk *= cooling
                    index = free[int(uniform() * len(free))]
                    if not uses[index]:
                        continue
                    old, node = choice[index], options[index][int(uniform() * len(options[index]))]
                    if node == old:
                        continue
                    saved = self.cost_of(self.give_up(old))
                    extra = self.cost_of(self.take(node, choice)) - saved
                    if extra > risk * -math.log(1.0 - uniform()) or self._needs(node, index):
                        self.give_up(node)
                        self.take(old, choice)
                        continue
                    choice[index] = node
                    self.cost += extra
                    if self.cost < least - self.slack:
                        least, kept = self.cost, [*choice]
        finally:  # also where Ctrl-C strikes
            self.start(kept)
        self.descend(deadline)
        return self.cost < before - self.slack

    # -- rebuilding a region -------------------------------------------------------------------------------------

    def try_weights(self, weights: list[float], deadline: Deadline) -> bool:
        """Rebuild all under other node costs and descend; keep the outcome unless it is dearer. Whether it saved."""
        rebuilt = cheapest_trees(self.problem, weights)[0]
        return self._try({c: node for c, node in enumerate(rebuilt) if node != self.choice[c]}, deadline)

    def kick(self, deadline: Deadline) -> bool:
        """Rebuild a random region and descend; keep the outcome unless it is dearer. Whether it saved."""
        return self.attempt(self.rebuilt(), deadline)

    def attempt(self, nodes: Mapping[int, int], deadline: Deadline) -> bool:
        """Give classes other nodes and descend; keep the outcome unless it is dearer. Whether it saved."""
        saved = self._try(nodes, deadline)
        if saved:
            self.refresh()
            self.descend(deadline)
        return saved

    def refresh(self) -> None:
        """Give classes that are not in use the nodes that add least to what is in use."""
        prices = [*self.base]
        for index, count in enumerate(self.uses):
            if count:
                for node in self.options[index]:
                    prices[node] = math.inf
                prices[self.choice[index]] = 0.0
        self.choice = cheapest_trees(self.problem, prices)[0]

    def _try(self, nodes: Mapping[int, int], deadline: Deadline) -> bool:
        before = self.cost
        self.undo = {}
        try:
            changed = self.move(nodes)
            self.descend(deadline, dict.fromkeys(changed + self._neighbours(changed)))
        except BaseException:  # Ctrl-C may have struck anywhere
            for index, node in self.undo.items():
                self.choice[index] = node
            self.start(self.choice)
            raise
        if self.cost > before + self.slack:
            self.move(self.undo.copy())
            self.cost = before
        return self.cost < before - self.slack

    def region(self, first: int, size: int) -> list[int]:
        """A class and others near it, about so many: a random walk with branches along needs and users."""
        found = {first: None}
        frontier = [first]
        while frontier and len(found) < size:
            here = frontier.pop(self.random.randrange(len(frontier)))
            near = [k for n in self.options[here] for k in self.children[n]]
            near += [self.owner[u] for u in self.users[here]]
            near = [*dict.fromkeys(near)]
            for other in self.random.sample(near, min(_BRANCHES, len(near))):
                if other not in found:
                    found[other] = None
                    frontier.append(other)
        return [*found]

    def rebuilt(self) -> dict[int, int]:
        """The nodes with the cheapest trees for a random region that is repriced, for classes where they change.

        What is in use outside the region counts as paid for. Inside, some classes are made dear and some free, so
        that several classes move together to share what none would start to use alone. Only the region and what is
        above it by the present choice are looked at, in the order of their costs: so nothing runs in a cycle.
        """
        prices: dict[int, float] = {}
        size = self.random.choice((2, 4, 8, 16, 32))
        for index in self.region(self.random.randrange(len(self.uses)), size):
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
        found = {}
        while heap and heap[0][0] < math.inf:
            price, node = heappop(heap)
            index = self.owner[node]
            if index not in affected:
                continue
            del affected[index]
            if node != self.choice[index]:
                found[index] = node
            for user in self.users[index]:
                if user in missing:
                    prices[user] += price
                    missing[user] -= 1
                    if not missing[user]:
                        heappush(heap, (prices[user], user))
        return found

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
