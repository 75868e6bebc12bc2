"""The cheapest extraction by dynamic programming, if few classes at a time are needed and not yet decided.

Classes are decided from the roots down, all users of a class before it, so that what is left depends on nothing but
the set of classes that are needed from there on. Graphs that are long and narrow, or fall into parts that share
nothing, have few such sets at each step if the order opens few classes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush

from .components import components, members
from .costs import Term
from .deadline import NEVER, Deadline
from .necessary import bits
from .problem import Problem

_STEPS, _SPARE = 128, 4096  # steps for each node decided so far, and beyond, after which finding it takes too long
_SHARE = 0.25  # of the time left, which finding it may take
_RIVALS = 10  # of the cheapest sets, which no other one that needs more and costs as much can beat
_RING = 1 << 15  # choices in part or in whole for the classes of a ring that are needed, up to which all are tried

Way = tuple[Term, int, Sequence[int]]
"""How to choose for classes of a ring: the cost, the classes needed further on as bits, and the nodes."""

Trail = tuple[Sequence[int], "Trail"] | None
"""The nodes chosen so far, the last ones first."""

Front = list[tuple[Term, Trail]]
"""Trails that lead to one set of needed classes, with their costs: the cheapest, or with several objectives all those
of which each may be the beginning of an optimum."""


def decide(problem: Problem, deadline: Deadline = NEVER) -> list[int] | None:
    """The cheapest extraction as the node of each class (-1 for none); None where finding it takes too long."""
    roots = dict.fromkeys(problem.roots.tolist())
    rings = _order(problem, components(problem, roots))
    deadline = deadline.within(_SHARE * deadline.left())
    place = {index: number for number, index in enumerate([index for ring in rings for index in ring])}
    enter = _enter if len(problem.objectives) == 1 else partial(_enter_several, problem.tolerances)
    states: dict[int, Front] = {0: [(problem.zero, None)]}  # by needed classes, the next to decide as lowest bit
    end, room = 0, _SPARE
    for ring in rings:
        size = len(ring)
        end += size
        inside = (1 << size) - 1
        always = bits([number for number, index in enumerate(ring) if index in roots])
        known: dict[int, list[Way]] = {0: [(problem.zero, 0, ())]}
        later: dict[int, Front] = {}
        for needed, front in states.items():
            here, rest = needed & inside | always, needed >> size
            ways = known.get(here)
            if ways is None:
                wanted = [index for number, index in enumerate(ring) if here >> number & 1]
                tried = _ways(problem, ring, wanted, place, end)
                if tried is None:
                    return None
                ways = known[here] = tried
            room -= len(ways) * len(front)
            if room < 0:
                return None
            for cost, trail in front:
                for price, below, nodes in ways:
                    then = rest | below
                    if then in later:
                        enter(later[then], cost + price, nodes, trail)
                    else:
                        later[then] = [(cost + price, (nodes, trail))]
        if deadline.passed():
            return None
        room += _STEPS * sum([len(problem.class_nodes[index]) for index in ring])
        states = later if problem.signed or len(later) <= _RIVALS else _without_beaten(problem.tolerances, later)
    return _choice(problem, _best(problem, states[0]))


def _order(problem: Problem, component: list[int]) -> list[list[int]]:
    """The rings, users before what they need; the next one is that which opens the fewest rings.

    A ring is open once a ring before it may need it. Of those that open as many, the next one is that which has been
    open for longest, then that whose users were all there first.
    """
    rings = members(component)
    needs: list[dict[int, None]] = []
    users: list[list[int]] = [[] for _ in rings]
    for number, ring in enumerate(rings):
        below = [component[k] for c in ring for node in problem.class_nodes[c] for k in problem.children[node]]
        needs.append(dict.fromkeys([other for other in below if other != number]))
        for other in needs[number]:
            users[other].append(number)
    opens, waits = [*map(len, needs)], [*map(len, users)]
    first = [number for number, users_left in enumerate(waits) if not users_left]
    opened = dict.fromkeys(first, 0)
    ready = {number: place for place, number in enumerate(first)}
    heap = [(opens[number], 0, ready[number], number) for number in first]
    heapify(heap)
    order: dict[int, None] = {}
    while heap:
        number = heappop(heap)[-1]
        if number in order:  # it was put in again when it came to open fewer
            continue
        order[number] = None
        for other in needs[number]:
            fresh = [other] if waits[other] == 1 else []
            waits[other] -= 1
            if fresh:
                ready[other] = len(ready)
            if other not in opened:
                opened[other] = len(order)
                for user in users[other]:
                    opens[user] -= 1
                fresh += [user for user in users[other] if user in ready and user not in order]
            for each in fresh:
                heappush(heap, (opens[each], opened[each], ready[each], each))
    return [rings[number] for number in order]


def _without_beaten(tolerances: Sequence[float], states: dict[int, Front]) -> dict[int, Front]:
    """The sets without those that include one of the cheapest sets and cost as much: to need more saves nothing."""
    several = len(tolerances) > 1
    rivals: list[tuple[int, Term]] = []
    kept = {}
    for needed, front in sorted(states.items(), key=lambda state: (state[1][0][0], state[0].bit_count())):
        beaten = any(
            not less & ~needed and (not several or all(least.covers(cost, tolerances) for cost, _ in front))
            for less, least in rivals
        )
        if not beaten:
            kept[needed] = front
            if len(rivals) < _RIVALS:
                rivals.append((needed, front[0][0]))
    return kept


def _enter(front: Front, cost: Term, nodes: Sequence[int], trail: Trail) -> None:
    """Keep the cheaper of what is known and what is new."""
    if cost < front[0][0]:
        front[0] = (cost, (nodes, trail))


def _enter_several(tolerances: Sequence[float], front: Front, cost: Term, nodes: Sequence[int], trail: Trail) -> None:
    """Keep all that may be part of an optimum."""
    if not any(known.covers(cost, tolerances) for known, _ in front):
        front[:] = [each for each in front if not cost.covers(each[0], tolerances)]
        front.append((cost, (nodes, trail)))


def _best(problem: Problem, front: Front) -> Trail:
    """The trail of least cost, objectives compared in order."""
    if len(front) > 1:
        for objective in range(len(problem.objectives)):
            least = min(cost[objective] for cost, _ in front)
            limit = least + problem.tolerance(least, objective)
            front = [each for each in front if each[0][objective] <= limit]
    return front[0][1]


def _ways(problem: Problem, ring: list[int], wanted: list[int], place: Mapping[int, int], end: int) -> list[Way] | None:
    """The ways to choose for classes of a ring, and for those of it that these need, without a cycle.

    The bits are those of `place`, from `end` on. None where there is too much to try.
    """
    children, costs = problem.children, problem.costs
    if len(ring) == 1:
        nodes = [node for node in problem.class_nodes[ring[0]] if ring[0] not in children[node]]
        return [(costs[node], bits([place[c] - end for c in children[node]]), (node,)) for node in nodes]
    found: list[Way] = []
    inside = set(ring)
    pending: list[tuple[list[int], dict[int, int]]] = [(wanted, {})]
    for still, chosen in pending:  # grows while it is read
        if len(pending) > _RING:
            return None
        if still:
            for node in problem.class_nodes[still[0]]:
                if not _closes_cycle(chosen, still[0], node, children):
                    then = {**chosen, still[0]: node}
                    near = dict.fromkeys([*still, *children[node]])
                    pending.append(([c for c in near if c in inside and c not in then], then))
        else:
            below = bits([place[c] - end for node in chosen.values() for c in children[node] if c not in chosen])
            cost = sum([costs[node] for node in chosen.values()], problem.zero)
            found.append((cost, below, [*chosen.values()]))
    return found


def _closes_cycle(chosen: Mapping[int, int], index: int, node: int, children: list[list[int]]) -> bool:
    """Whether a node of a class needs that class by what was chosen for others."""
    seen = dict.fromkeys(children[node])
    todo = [*seen]
    for needed in todo:  # grows while it is read
        if needed == index:
            return True
        if needed in chosen:
            fresh = [c for c in children[chosen[needed]] if c not in seen]
            seen |= dict.fromkeys(fresh)
            todo += fresh
    return False


def _choice(problem: Problem, trail: Trail) -> list[int]:
    """The nodes of a trail, by class."""
    choice = [-1] * problem.num_classes
    while trail is not None:
        nodes, trail = trail
        for node in nodes:
            choice[problem.owner[node]] = node
    return choice
