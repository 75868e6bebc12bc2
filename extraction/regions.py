"""Large neighbourhoods: the cheapest choice in a region, found exactly while all other classes keep their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .costs import Term
from .deadline import Deadline
from .frontier import decide
from .problem import Problem
from .search import Search
from .simplify import simplify

_FIRST, _LARGER, _SMALLER = 20.0, 1.05, 0.8  # classes in the first region; of others by whether it could be decided
_SPREAD = 0.5, 1.5  # share of that size which a region has
_EFFORT = 1 / 16  # of deciding a whole problem, after which a region is too large


class Regions:
    """Regions of a search that grow until one in five is too large to be decided."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.size = _FIRST
        self._starts: list[int] = []

    def improve(self, deadline: Deadline) -> bool:
        """Choose anew in a random region near a class in use; whether that saved something."""
        search, starts = self.search, self._starts
        while starts and not search.uses[starts[-1]]:
            starts.pop()
        if not starts:
            starts += search.free()
            search.random.shuffle(starts)
        if not starts:
            return False
        size = int(self.size * search.random.uniform(*_SPREAD))
        return self.choose(search.region(starts.pop(), size), deadline)

    def choose(self, region: Iterable[int], deadline: Deadline) -> bool:
        """Choose anew in a region, unless that takes too long; whether that saved something."""
        search = self.search
        region = {index: None for index in region if len(search.options[index]) > 1}
        if not any(search.uses[index] for index in region):
            return False
        problem, nodes = self._part(region)
        choice = _decided(problem, deadline)
        self.size = min(self.size * (_LARGER if choice else _SMALLER), float(len(search.uses)))
        chosen = [nodes[node] for node in choice if node >= 0]
        changed = {search.owner[node]: node for node in chosen if node != search.choice[search.owner[node]]}
        return bool(changed) and search.attempt(changed, deadline)

    def _part(self, region: Mapping[int, None]) -> tuple[Problem, list[int]]:
        """The problem of choosing in a region, whose roots are what others need of it; and each node as the search's.

        What is in use anyway costs nothing. It is in the problem only where it may close a cycle.
        """
        search = self.search
        left = self._uses_left(region)
        above = self._above(region)
        order = [index for index in region if left.get(index, search.uses[index])]
        place = {index: number for number, index in enumerate(order)}
        roots = range(len(order))
        classes: list[list[tuple[Term, list[int]]]] = []
        nodes: list[int] = []
        for index in order:  # grows while it is read
            is_paid = index not in region and left.get(index, search.uses[index])
            options = search.options[index] if index in region else [search.choice[index]]
            ways = []
            for node in options:
                needed = [c for c in search.children[node] if c in above or not left.get(c, search.uses[c])]
                for child in needed:
                    if child not in place:
                        place[child] = len(place)
                        order.append(child)
                cost = search.problem.zero if is_paid else search.problem.costs[node]
                ways.append((cost, [place[child] for child in needed]))
            classes.append(ways)
            nodes += options
        return Problem.from_lists(classes, roots), nodes

    def _above(self, region: Iterable[int]) -> dict[int, None]:
        """The classes of a region, and others that need one of them in a ring by the present choice."""
        search = self.search
        above = dict.fromkeys(region)
        waiting = [*above]
        for index in waiting:  # grows while it is read
            for user in search.users[index]:
                over = search.owner[user]
                if over not in above and search.choice[over] == user and search.ring[over] == search.ring[index]:
                    above[over] = None
                    waiting.append(over)
        return above

    def _uses_left(self, region: Mapping[int, None]) -> dict[int, int]:
        """How often classes are needed without a region's nodes and all that only these need; where that differs."""
        search = self.search
        left: dict[int, int] = {}
        given_up = [search.choice[index] for index in region if search.uses[index]]
        for node in given_up:  # grows while it is read
            for child in search.children[node]:
                left[child] = left.get(child, search.uses[child]) - 1
                if not left[child] and child not in region:
                    given_up.append(search.choice[child])
        return left


def _decided(problem: Problem, deadline: Deadline) -> list[int]:
    """The cheapest choice, as the node of each class (-1 for none); an empty list where finding it takes too long."""
    stage = simplify(problem, deadline=deadline)
    choice: list[int] | None = []
    if stage.problem:
        choice = decide(stage.problem, deadline, _EFFORT)
    return [] if choice is None else stage.expand(choice).tolist()
