"""Making an extraction problem smaller without changing its optimum; every step can be undone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from eqsat.collector import paused_gc
from eqsat.errors import ExtractionError

from .components import strongly_connected
from .costs import Cost, Costs, Term
from .deadline import NEVER, Deadline
from .problem import Ints, Problem

T = TypeVar("T")

Origin = int | tuple["Origin", "Origin"]
"""A node of the original problem, or two that are chosen together."""

_MUST_LIMIT = 20_000  # classes up to which the sets of necessary classes (bits: the square of it) are kept
_WIDE = 200  # nodes a class may have for all pairs of them to be compared by what they need at any depth
_STEPS = 20  # classes looked at in one round, per class: a cycle cut off from the roots would pass costs round for ever
_SIBLINGS = 16  # nodes a class may have for them to be compared whenever one changes, not once a round only
_WORTH = 0.002  # a round that makes the problem smaller by no more than this share is the last
_GROWTH = 32  # child entries a step may add to remove one class


@dataclass(frozen=True, eq=False)
class Simplified:
    """A smaller problem and the way back.

    Attributes
    ----------
    problem : the small problem, or None where nothing is left to choose
    constant : what the large problem costs beyond the small one, under each objective
    """

    problem: Problem | None
    constant: Cost
    _original: Problem
    _origins: list[Origin]
    _settled: list[Origin]

    def expand(self, choice: Iterable[int]) -> Ints:
        """The choice in the original problem for a choice (class -> node, -1 for none) in the small one."""
        owner = self._original.node_class.tolist()
        full = np.full(self._original.num_classes, -1, np.int64)
        pending = self._settled + [self._origins[n] for n in choice if n >= 0]
        while pending:
            origin = pending.pop()
            if isinstance(origin, tuple):
                pending.extend(origin)
            else:
                full[owner[origin]] = origin
        return full


@paused_gc()
def simplify(problem: Problem, keep: Iterable[bool] | None = None, deadline: Deadline = NEVER) -> Simplified:
    """Reduce the problem until another round of all rules would change little, or the time is over.

    - nodes that cannot be derived, are not reached, or need their own class are dropped;
    - a node goes if a sibling is no dearer and needs only classes that the node needs too, directly or at the end of
      every derivation (with negative costs: only if both need the same); with several objectives no dearer means
      that `Costs.covers` it;
    - classes needed by every extraction become roots; a root is no longer a need of others, except within its
      own cycle; a root with one node is paid for and its needs become roots;
    - a class needed by nodes of one class only passes its least cost up to them;
    - a class with one node that costs nothing is replaced by that node's children;
    - a class that one node needs is merged into that node.

    `keep` may exclude nodes (bool per node) that are known not to be in any better extraction. Raises
    ExtractionError where no extraction remains without them.
    """
    reducer = (_Reducer if len(problem.objectives) == 1 else _SeveralReducer)(problem, keep, deadline)
    reducer.run()
    return reducer.result()


def necessary(needs: list[list[list[int]]], deadline: Deadline) -> list[int]:
    """For every class the classes that each of its derivations contains, itself included, as bits.

    `needs[i]` lists the children of each node of class `i`; numbering the classes in an order of derivation makes
    it fast. The greatest solution of: must(c) = {c} with the intersection over nodes of the union over children.
    Empty where there are too many classes or the time is over.
    """
    if len(needs) > _MUST_LIMIT:
        return []
    everything = (1 << len(needs)) - 1
    must = [everything] * len(needs)
    stale = True
    while stale:
        stale = False
        if deadline.passed():
            return []
        for i, nodes in enumerate(needs):
            common = everything
            for kids in nodes:
                closure = 0
                for k in kids:
                    closure |= must[k]
                common &= closure
                if not common:
                    break
            common |= 1 << i
            if common != must[i]:
                must[i] = common
                stale = True
    return must


class _Reducer:
    def __init__(self, problem: Problem, keep: Iterable[bool] | None, deadline: Deadline) -> None:
        self.original = problem
        self.deadline = deadline
        self.owner = problem.node_class.tolist()
        self.cost = [*problem.costs]
        self.zero = problem.zero
        self.kids = [set(children) for children in problem.children]
        self.nodes: list[dict[int, None]] = [dict.fromkeys(nodes) for nodes in problem.class_nodes]
        self.users: list[set[int]] = [set() for _ in self.nodes]
        self.roots = dict.fromkeys(problem.roots.tolist())
        self.origin: list[Origin] = list(range(problem.num_nodes))
        self.settled: list[Origin] = []
        self.constant = problem.zero
        self.signed = problem.signed
        self.changed: dict[int, None] = {}  # classes whose nodes or users changed
        if keep is not None:
            for node, kept in enumerate(keep):
                if not kept:
                    self.nodes[self.owner[node]].pop(node, None)
        for nodes in self.nodes:
            for node in nodes:
                for kid in self.kids[node]:
                    self.users[kid].add(node)

    def run(self) -> None:
        before, size = math.inf, float(self._size())
        self.changed = dict.fromkeys(range(len(self.nodes)))
        while size < (1 - _WORTH) * before and not self.deadline.passed():
            order = self._prune()
            self._force_roots(order)
            for _ in range(_STEPS * len(order)):
                if not self.changed or self.deadline.passed():
                    break
                index, _ = self.changed.popitem()
                self._reduce_class(index)
            order = self._prune()
            must = self._must(order)
            self._drop_dominated(order, must)
            self._force_must(must)
            before, size = size, self._size()

    def _size(self) -> int:
        alive = [self.kids[n] for nodes in self.nodes for n in nodes]
        return len(alive) + sum(map(len, alive))

    # -- editing -------------------------------------------------------------------------------------------------

    def _remove(self, node: int) -> None:
        del self.nodes[self.owner[node]][node]
        self.changed[self.owner[node]] = None
        for kid in self.kids[node]:
            self.users[kid].discard(node)
            self.changed[kid] = None

    def _replace_kid(self, node: int, old: int, new: Iterable[int]) -> None:
        kids = self.kids[node]
        kids.discard(old)
        self.users[old].discard(node)
        for kid in new:
            kids.add(kid)
            self.users[kid].add(node)
            self.changed[kid] = None
        self.changed[self.owner[node]] = None

    def _add(self, index: int, cost: Term, kids: set[int], origin: Origin) -> None:
        node = len(self.cost)
        self.owner.append(index)
        self.cost.append(cost)
        self.kids.append(kids)
        self.origin.append(origin)
        self.nodes[index][node] = None
        for kid in kids:
            self.users[kid].add(node)

    # -- rules on the whole graph --------------------------------------------------------------------------------

    def _prune(self) -> list[int]:
        """Drop what cannot be derived or reached; return the remaining classes in an order of derivation."""
        order, missing = self._derive()
        known = bytearray(len(self.nodes))
        for index in order:
            known[index] = 1
        if not all(known[root] for root in self.roots):
            raise ExtractionError("no extraction is left")
        reached = bytearray(len(self.nodes))
        stack = [*self.roots]
        while stack:
            index = stack.pop()
            if reached[index]:
                continue
            reached[index] = 1
            for node in [*self.nodes[index]]:
                if missing[node] or index in self.kids[node]:
                    self._remove(node)
                else:
                    stack.extend(self.kids[node])
        for index, nodes in enumerate(self.nodes):
            if not reached[index]:
                for node in [*nodes]:
                    self._remove(node)
        return [index for index in order if reached[index]]

    def _derive(self) -> tuple[list[int], list[int]]:
        """Classes in an order of derivation, and for each node how many of its children cannot be derived."""
        owner, users = self.owner, self.users
        missing = [-1] * len(self.cost)
        ready = []
        for nodes in self.nodes:
            for node in nodes:
                missing[node] = len(self.kids[node])
                if not missing[node]:
                    ready.append(node)
        known = bytearray(len(self.nodes))
        order = []
        for node in ready:  # grows while it is read: breadth first
            index = owner[node]
            if known[index]:
                continue
            known[index] = 1
            order.append(index)
            for user in users[index]:
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)
        return order, missing

    def _force_roots(self, order: list[int]) -> None:
        """Free other components of needing a root; settle a root that has one node and no user."""
        component: list[int] = []
        stack = [*self.roots]
        while stack:
            index = stack.pop()
            if self.users[index] and not component:
                component = self._components(order)
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

    def _components(self, order: list[int]) -> list[int]:
        successors: list[list[int]] = [[] for _ in self.nodes]
        for index in order:
            successors[index] = [k for n in self.nodes[index] for k in self.kids[n]]
        return strongly_connected(successors)

    def _must(self, order: list[int]) -> list[int]:
        """For every class, by position in the order, the classes every derivation of it contains, as bits."""
        self.number = number = {index: i for i, index in enumerate(order)}
        needs = [[[number[k] for k in self.kids[n]] for n in self.nodes[index]] for index in order]
        return necessary(needs, self.deadline)

    def _closure(self, node: int, must: list[int]) -> int:
        closure = 0
        for kid in self.kids[node]:
            closure |= must[self.number[kid]]
        return closure

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
            names: list[int] = []
            kept: list[int] = []
            closures = {node: self._closure(node, must) for node in self.nodes[index]}
            for node in self._by_cost(index):
                closure = closures[node]
                if closure & own or self._is_dominated(node, closure, self._no_dearer(node, names, kept)):
                    self._remove(node)
                else:
                    names.append(node)
                    kept.append(sum([1 << self.number[k] for k in self.kids[node]]))

    def _is_dominated(self, node: int, closure: int, rivals: list[int]) -> bool:
        """Whether one of the sets of needed classes is within what the node needs at any depth."""
        if self.signed:
            return sum([1 << self.number[k] for k in self.kids[node]]) in rivals
        outside = ~closure
        return any(not needs & outside for needs in rivals)

    def _force_must(self, must: list[int]) -> None:
        if not must:
            return
        forced = 0
        for root in self.roots:
            forced |= must[self.number[root]]
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
        """Drop nodes that need what a sibling needs, or more, and are no cheaper."""
        names: list[int] = []
        kept: list[set[int]] = []
        for node in self._by_cost(index):
            kids = self.kids[node]
            if self._needs_one_of(self._no_dearer(node, names, kept), kids):
                self._remove(node)
            else:
                names.append(node)
                kept.append(kids)

    def _drop_dearer_of_many(self, index: int) -> None:
        """The same where comparing all pairs would take long."""
        nodes = self._by_cost(index)
        frequency = Counter([kid for node in nodes for kid in self.kids[node]])
        kept: dict[int, list[int]] = {}  # by the need that the fewest siblings have, -1 for no need
        for node in nodes:
            kids = self.kids[node]
            names = [other for kid in (-1, *kids) for other in kept.get(kid, ())]
            if self._needs_one_of(self._no_dearer(node, names, [self.kids[n] for n in names]), kids):
                self._remove(node)
            else:
                kept.setdefault(min(kids, key=frequency.__getitem__, default=-1), []).append(node)

    def _needs_one_of(self, rivals: list[set[int]], kids: set[int]) -> bool:
        return kids in rivals if self.signed else any(map(kids.issuperset, rivals))

    def _by_cost(self, index: int) -> list[int]:
        return sorted(self.nodes[index], key=lambda n: (self.cost[n], len(self.kids[n]), n))

    def _no_dearer(self, node: int, names: list[int], needs: list[T]) -> list[T]:
        """The needs of those siblings, named in order of cost and before the node, that are no dearer than it."""
        return needs

    def _least(self, costs: list[Term]) -> Term:
        """The cost that can be taken off all of these."""
        return min(costs)

    def _pull_up(self, index: int) -> None:
        least = self._least([self.cost[n] for n in self.nodes[index]])
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

    # -- the outcome ---------------------------------------------------------------------------------------------

    def result(self) -> Simplified:
        alive = [index for index, nodes in enumerate(self.nodes) if nodes]
        number = {index: i for i, index in enumerate(alive)}
        nodes = [node for index in alive for node in self.nodes[index]]
        cost = np.array([self.cost[n] for n in nodes], np.float64)
        slack = 1e-13 * np.abs(cost).max(axis=0, initial=0.0)  # what is left of a - a after rounding
        cost[np.abs(cost) < slack] = 0.0
        kids = [sorted([number[k] for k in self.kids[n]]) for n in nodes]
        small = (
            Problem(
                np.array([number[self.owner[n]] for n in nodes], np.int64),
                np.cumsum([0, *map(len, kids)]),
                np.array([k for ks in kids for k in ks], np.int64),
                cost,
                np.array([number[r] for r in self.roots], np.int64),
                num_classes=len(alive),
            )
            if nodes
            else None
        )
        return Simplified(small, self.constant, self.original, [self.origin[n] for n in nodes], self.settled)


class _SeveralReducer(_Reducer):
    """The same for costs under several objectives."""

    def __init__(self, problem: Problem, keep: Iterable[bool] | None, deadline: Deadline) -> None:
        super().__init__(problem, keep, deadline)
        self.tolerances = [problem.tolerance(objective=each) for each in range(len(problem.objectives))]

    def _no_dearer(self, node: int, names: list[int], needs: list[T]) -> list[T]:
        cost = self.cost[node]
        return [
            need for other, need in zip(names, needs, strict=True) if self.cost[other].covers(cost, self.tolerances)
        ]

    def _least(self, costs: list[Term]) -> Term:
        return Costs(map(min, *costs)) if len(costs) > 1 else costs[0]
