"""Simplification: make an extraction problem smaller without changing its optimum. Every step can be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from eqsat.collector import paused_gc

from .components import strongly_connected
from .costs import Costs
from .deadline import NEVER, Deadline
from .mutable import MutableProblem, Simplified
from .necessary import bits, necessary, union
from .problem import Problem

_WIDE = 200  # nodes a class may have for all pairs of them to be compared by what they need at any depth
_STEPS = 20  # classes looked at in one round, per class: a cycle cut off from the roots would pass costs round for ever
_SIBLINGS = 16  # nodes a class may have for them to be compared whenever one changes, not once a round only
_WORTH = 0.002  # a round in whose end the problem gets smaller by no more than this share is the last
_GROWTH = 32  # child entries a step may add to remove one class


@paused_gc()
def simplify(problem: Problem, keep: Iterable[bool] | None = None, deadline: Deadline = NEVER) -> Simplified:
    """Reduce the problem until another round of all rules would change little, or the time is over.

    The rules are:

    - Nodes that cannot be derived, are not reached, or need their own class are removed.
    - A node is removed if a sibling is no dearer and needs only classes that the node needs too, directly or in
      every derivation. If some costs are negative, both must need the same classes. With several objectives, a
      sibling is no dearer if its costs cover those of the node (see `Costs.covers`).
    - Classes that every extraction needs become roots. Nodes outside a root's own cycle no longer list it among
      their children. If a root has only one node, the cost of that node is a constant and its children become roots.
    - If all nodes that need a class belong to one class, the least cost of its nodes moves up to them.
    - A class with a single node that costs nothing is replaced by that node's children.
    - A class that a single node needs is merged into that node.

    Args:
        problem: The problem to simplify.
        keep: False for nodes that are known not to be in any better extraction; bool (N,).
        deadline: When to stop.

    Raises:
        ExtractionError: No extraction remains without the nodes that `keep` excludes.
    """
    reducer = _Reducer(problem, keep, deadline)
    reducer.run()
    return reducer.result()


class _Reducer(MutableProblem):
    """Applies the rules of :func:`simplify`."""

    def __init__(self, problem: Problem, keep: Iterable[bool] | None, deadline: Deadline) -> None:
        super().__init__(problem, keep)
        self.deadline = deadline
        self.tolerances = problem.tolerances

    def run(self) -> None:
        """Apply the rules until they change little."""
        self.changed = dict.fromkeys(range(len(self.nodes)))
        is_worth_it = True
        while is_worth_it and not self.deadline.passed():
            order = self._prune()
            self._force_roots()
            for _ in range(_STEPS * len(order)):
                if not self.changed or self.deadline.passed():
                    break
                index, _ = self.changed.popitem()
                self._reduce_class(index)
            order = self._prune()
            must, size, roots = self._must(order), self._size(), len(self.roots)
            self._drop_dominated(order, must)
            self._force_must(must)
            is_worth_it = self._size() < (1 - _WORTH) * size or len(self.roots) > roots

    def _size(self) -> int:
        alive = [self.kids[n] for nodes in self.nodes for n in nodes]
        return len(alive) + sum(map(len, alive))

    # -- rules on the whole graph --------------------------------------------------------------------------------

    def _force_roots(self) -> None:
        """Remove roots from the children of other components; settle roots that have one node and no user."""
        component: list[int] = []
        stack = [*self.roots]
        while stack:
            index = stack.pop()
            if self.users[index] and not component:
                component = strongly_connected([[k for n in nodes for k in self.kids[n]] for nodes in self.nodes])
            for user in [*self.users[index]]:
                if component[self.owner[user]] != component[index]:
                    self._replace_kid(user, index, ())
            if len(self.nodes[index]) > 1:
                continue
            (node,) = self.nodes[index]
            self.constant += self.cost[node]
            self.cost[node] = self.zero
            for kid in self.kids[node]:
                if kid not in self.roots:
                    self.roots[kid] = None
                    stack.append(kid)
            if not self.users[index]:
                self.settled.append(self.origin[node])
                self._remove(node)
                del self.roots[index]

    def _must(self, order: list[int]) -> list[int]:
        """The classes that every derivation of a class contains, as bits, by position in the order."""
        self.number = {index: i for i, index in enumerate(order)}
        needs = [[self._numbers(node) for node in self.nodes[index]] for index in order]
        return necessary(needs, self.deadline)

    def _numbers(self, node: int) -> list[int]:
        """The positions of the children of a node."""
        return [self.number[kid] for kid in self.kids[node]]

    def _drop_dominated(self, order: list[int], must: list[int]) -> None:
        for index in order:
            if self.deadline.passed():
                return
            if len(self.nodes[index]) == 1:
                continue
            if len(self.nodes[index]) > _WIDE:
                self._drop_dearer_of_many(index)
                continue
            if not must:
                self._drop_dearer(index)
                continue
            own = 1 << self.number[index]
            kept: list[tuple[int, int]] = []
            for node in self._by_cost(index):
                numbers = self._numbers(node)
                needs, closure = bits(numbers), union(must, numbers)
                if self.signed:
                    rivals = [other for other, others in kept if others == needs]
                else:
                    outside = ~closure
                    rivals = [other for other, others in kept if not others & outside]
                if closure & own or self._is_no_cheaper(node, rivals):
                    self._remove(node)
                else:
                    kept.append((node, needs))

    def _force_must(self, must: list[int]) -> None:
        if not must:
            return
        forced = union(must, [self.number[root] for root in self.roots])
        for index, i in self.number.items():
            if forced >> i & 1:
                self.roots[index] = None

    # -- rules on one class --------------------------------------------------------------------------------------

    def _reduce_class(self, index: int) -> None:
        for node in [*self.nodes[index]]:
            if index in self.kids[node]:
                self._remove(node)
        if 1 < len(self.nodes[index]) <= _SIBLINGS:
            self._drop_dearer(index)
        if index in self.roots or not self.nodes[index] or not self.users[index]:
            return
        users = self.users[index]
        first = next(iter(users))
        lone = all(self.owner[u] == self.owner[first] for u in users)
        if lone and self.owner[first] != index:
            self._pull_up(index)
        if len(self.nodes[index]) == 1:
            self._inline(index)
        elif len(users) == 1 and self.owner[first] != index:
            self._merge(index, first)

    def _drop_dearer(self, index: int) -> None:
        """Remove nodes that need all that a sibling needs and are no cheaper than it."""
        kept: list[int] = []
        for node in self._by_cost(index):
            if self._is_no_cheaper(node, self._needing_no_more(node, kept)):
                self._remove(node)
            else:
                kept.append(node)

    def _drop_dearer_of_many(self, index: int) -> None:
        """The same for classes with so many nodes that comparing all pairs would take long."""
        nodes = self._by_cost(index)
        frequency = Counter([kid for node in nodes for kid in self.kids[node]])
        kept: dict[int, list[int]] = {}  # by the need that the fewest siblings have, -1 for no need
        for node in nodes:
            kids = self.kids[node]
            siblings = [other for kid in (-1, *kids) for other in kept.get(kid, ())]
            if self._is_no_cheaper(node, self._needing_no_more(node, siblings)):
                self._remove(node)
            else:
                kept.setdefault(min(kids, key=frequency.__getitem__, default=-1), []).append(node)

    def _needing_no_more(self, node: int, siblings: list[int]) -> list[int]:
        """Those siblings that need nothing that the node does not need; if some costs are negative, just as much."""
        kids, needs = self.kids, self.kids[node]
        if self.signed:
            return [other for other in siblings if kids[other] == needs]
        return [other for other in siblings if kids[other] <= needs]

    def _by_cost(self, index: int) -> list[int]:
        return sorted(self.nodes[index], key=lambda n: (self.cost[n], len(self.kids[n]), n))

    def _is_no_cheaper(self, node: int, rivals: list[int]) -> bool:
        """Whether one of some siblings, all before the node in the order of cost, is no dearer than it."""
        if len(self.tolerances) == 1:
            return bool(rivals)
        cost = self.cost[node]
        return any(self.cost[other].covers(cost, self.tolerances) for other in rivals)

    def _pull_up(self, index: int) -> None:
        """Move to the users what all nodes cost at least."""
        costs = [self.cost[n] for n in self.nodes[index]]
        least = min(costs) if len(self.tolerances) == 1 else Costs(map(min, zip(*costs, strict=True)))
        if least == self.zero:
            return
        for node in self.nodes[index]:
            self.cost[node] -= least
        for user in self.users[index]:
            self.cost[user] += least
            self.changed[self.owner[user]] = None

    def _inline(self, index: int) -> None:
        (node,) = self.nodes[index]
        users, kids = self.users[index], self.kids[node]
        if self.cost[node] != self.zero or (len(users) - 1) * (len(kids) - 1) > _GROWTH:
            return
        self.settled.append(self.origin[node])
        for user in sorted(users):
            self._replace_kid(user, index, kids)
        self._remove(node)

    def _merge(self, index: int, user: int) -> None:
        nodes, kids = self.nodes[index], self.kids[user]
        if (len(nodes) - 1) * (len(kids) - 1) > _GROWTH:
            return
        target = self.owner[user]
        rest = kids - {index}
        for node in nodes:
            origin = (self.origin[user], self.origin[node])
            self._add(target, self.cost[user] + self.cost[node], rest | self.kids[node], origin)
        for node in [*nodes]:
            self._remove(node)
        self._remove(user)
