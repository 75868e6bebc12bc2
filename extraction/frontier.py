"""The cheapest extraction by dynamic programming, if few classes at a time are needed and not yet decided.

Classes are decided from the roots down, all users of a class before it, so that what is left depends on nothing but
the set of classes that are needed from there on. What these need whatever is chosen counts as needed too, so that sets
which differ by nothing else are one. Graphs that are long and narrow, or fall into parts that share
nothing, have few such sets at each step if the order opens few classes at a time. A set is left out if another one
needs nothing else, or one class more whose price is known, and costs no more with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from heapq import heapify, heappop, heappush

from .components import components, members
from .costs import Term
from .deadline import NEVER, Deadline
from .fronts import Front, Rivals, Trail, entering, no_dearer, nodes_of
from .necessary import bits
from .problem import Problem
from .rings import Room, Way, ways

_STEPS, _SPARE = 128, 4096  # steps for each node decided so far, and beyond, after which finding it takes too long
_IN_RINGS = 1 << 15  # choices tried in rings after which it takes too long
_WINDOW = 256  # places ahead up to which what is needed in any case is told
_AT_ONCE = 1024  # places of needed classes that are looked at one by one: steps of a long set take long
_COMPARED = 64  # ways, or classes of a ring, up to which each is compared with each
_MUCH_USED = 16  # users beyond which a ring does not make one part of all that use it
_SHARE = 0.25  # of the time left, which finding it may take
_RIVALS = 100  # of the cheapest sets, with which the others are compared
_FEW = 10  # sets up to which they are not compared
_WIDEST = 2048  # sets that are left of them, with more of which there mostly is no end
_NEAR = 4096  # places ahead up to which a node is one that extra classes may take


def decide(problem: Problem, deadline: Deadline = NEVER, effort: float = 1.0) -> list[int] | None:
    """The cheapest extraction as the node of each class (-1 for none); None where finding it takes too long.

    Arguments are those of :meth:`Decision.run`.
    """
    return Decision(problem).run(deadline, effort)


class Decision:
    """The cheapest extraction of a problem, which can be sought on with more effort from where it took too long."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._roots = dict.fromkeys(problem.roots.tolist())
        self._rings = _order(problem, components(problem, self._roots))
        self._place = {index: number for number, index in enumerate([index for ring in self._rings for index in ring])}
        self._musts = _musts(problem, self._rings, self._place)
        self._enter, self._extra = entering(problem), _Extra(problem, self._place)
        self._states: dict[int, Front] = {0: [(problem.zero, None)]}  # by needed classes, the next one as lowest bit
        self._decided = self._end = 0  # the number of rings that are decided, and of classes in them
        self._allowed, self._steps, self._in_rings = float(_SPARE), 0, 0.0
        self._is_hopeless = False

    def run(self, deadline: Deadline = NEVER, effort: float = 1.0) -> list[int] | None:
        """The node of each class (-1 for none); None where finding it takes too long.

        Args:
            deadline: A quarter of the time until then may be taken.
            effort: The share of the steps after which it usually takes too long, with those of earlier runs.
        """
        deadline = deadline.within(_SHARE * deadline.left())
        while self._decided < len(self._rings):
            if self._is_hopeless or not self._decide_next(deadline, effort):
                return None
        return _choice(self.problem, _best(self.problem, self._states[0]))

    def _decide_next(self, deadline: Deadline, effort: float) -> bool:
        """Go on by a ring; False where that takes too long, and nothing is changed."""
        problem, place, enter, ring = self.problem, self._place, self._enter, self._rings[self._decided]
        size = len(ring)
        end = self._end + size
        inside = (1 << size) - 1
        always = bits([number for number, index in enumerate(ring) if index in self._roots])
        in_rings = Room(effort * _IN_RINGS - self._in_rings, deadline)
        steps = self._steps
        known: dict[int, list[Way]] = {0: [(problem.zero, 0, ())]}
        later: dict[int, Front] = {}
        for needed, front in self._states.items():
            here, rest = needed & inside | always, needed >> size
            if here not in known:
                if size == 1:
                    tried: list[Way] | None = _ways_of_one(problem, ring[0], place, end)
                else:
                    tried = ways(problem, ring, here, place, end, in_rings)
                if tried is None:
                    return False
                known[here] = _worthwhile(
                    problem, [(cost, _closed(below, self._musts, end), ns) for cost, below, ns in tried]
                )
            steps += len(known[here]) * len(front)
            if steps > effort * self._allowed:
                return False
            for cost, trail in front:
                for price, below, nodes in known[here]:
                    then, total = rest | below, cost + price
                    if then in later:
                        enter(later[then], total, nodes, trail)
                    else:
                        later[then] = [(total, (nodes, trail))]
        if deadline.passed():
            return False
        if not problem.signed and len(later) > _FEW:
            later = Rivals(problem.tolerances, _RIVALS, partial(self._extra.of, end)).without_beaten(later)
            self._is_hopeless = len(later) > _WIDEST
        self._states, self._end, self._steps = later, end, steps
        self._decided += 1
        self._allowed += _STEPS * sum([len(problem.class_nodes[index]) for index in ring])
        self._in_rings = effort * _IN_RINGS - in_rings.steps
        return True


class _Extra:
    """What one more class costs at most, where others are needed anyway: nodes of it that need no further ones.

    Args:
        problem: The problem.
        place: The place of each class, whose bit it has in sets.
    """

    def __init__(self, problem: Problem, place: Mapping[int, int]) -> None:
        self.problem = problem
        self.place = place
        self._classes = list(place)
        self._options: dict[int, list[tuple[Term, int]]] = {}

    def of(self, end: int, more: int, needed: int) -> Term | None:
        """The cost of the class ``more``, given those that are needed anyway; None where it needs others, too.

        Args:
            end: The place of the lowest bit of both sets.
            more: The class, as a set.
            needed: The classes that are needed anyway.
        """
        at = more.bit_length() - 1
        missing = ~needed >> at
        for price, below in self._nodes(end + at):
            if not below & missing:
                return price
        return None

    def _nodes(self, number: int) -> list[tuple[Term, int]]:
        """The costs of the nodes of the class at a place, in order, and what they need, as bits from that place on."""
        if number not in self._options:
            problem, place = self.problem, self.place
            found = []
            for node in problem.class_nodes[self._classes[number]]:
                below = [place[child] - number for child in problem.children[node]]
                if all(0 < distance < _NEAR for distance in below):
                    found.append((problem.costs[node], bits(below)))
            self._options[number] = sorted(found)
        return self._options[number]


def _order(problem: Problem, component: list[int]) -> list[list[int]]:
    """The rings, users before what they need, in that of two orders in which fewer are open, all in all.

    A ring is open once a ring before it may need it, until it is decided.
    """
    rings = members(component)
    needs: list[dict[int, None]] = []
    users: list[list[int]] = [[] for _ in rings]
    for number, ring in enumerate(rings):
        below = [component[k] for c in ring for node in problem.class_nodes[c] for k in problem.children[node]]
        needs.append(dict.fromkeys([other for other in below if other != number]))
        for other in needs[number]:
            users[other].append(number)
    orders = _fewest_opened_first(needs, users), _latest_first(needs, users)
    return [rings[number] for number in min(orders, key=partial(_openness, needs))]


def _openness(needs: list[dict[int, None]], order: list[int]) -> int:
    """The sum over all steps of the rings that are open."""
    opened: dict[int, int] = {}
    total = 0
    for step, number in enumerate(order):
        total += step - opened.get(number, step)
        for other in needs[number]:
            opened.setdefault(other, step)
    return total


def _latest_first(needs: list[dict[int, None]], users: list[list[int]]) -> list[int]:
    """The next ring is that whose users were all there last: what only a part of the graph needs ends with it."""
    waits = [*map(len, users)]
    ready = [number for number, users_left in enumerate(waits) if not users_left]
    order = []
    while ready:
        number = ready.pop()
        order.append(number)
        for other in needs[number]:
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return order


def _fewest_opened_first(needs: list[dict[int, None]], users: list[list[int]]) -> list[int]:
    """The next ring is that after which the fewest are open.

    Of those that leave as many open, the next one is that which has been open for longest, then that whose users were
    all there first. Parts of the graph that have nothing but a few much-used rings in common come one after another.
    """
    part = _parts(needs, users)
    waits = [*map(len, users)]
    opens = [len(others) - bool(users[number]) for number, others in enumerate(needs)]  # and is open no more itself
    first = [number for number, users_left in enumerate(waits) if not users_left]
    opened = dict.fromkeys(first, 0)
    ready = {number: place for place, number in enumerate(first)}
    heap = [(part[number], opens[number], 0, ready[number], number) for number in first]
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
                heappush(heap, (part[each], opens[each], opened[each], ready[each], each))
    return [*order]


def _parts(needs: list[dict[int, None]], users: list[list[int]]) -> list[int]:
    """For each ring the number of the part of the graph that it is in, where much-used rings connect nothing.

    These have the highest number themselves: their users are in several parts. All is one part where the largest has
    more than half of the rings.
    """
    part = [len(needs) if len(above) > _MUCH_USED else -1 for above in users]
    for number, known in enumerate(part):
        if known < 0:
            part[number] = number
            inside = [number]
            for each in inside:
                for near in (*needs[each], *users[each]):
                    if part[near] < 0:
                        part[near] = number
                        inside.append(near)
            if len(inside) > len(needs) / 2:
                return [0] * len(needs)
    return part


def _musts(problem: Problem, rings: list[list[int]], place: Mapping[int, int]) -> list[int]:
    """The classes that every derivation of a class contains, itself included, by its place.

    The lowest bit is its own. As far as they are among the next `_WINDOW` classes: the sets would else be as long as
    the graph.
    """
    found = [1] * len(place)
    window = (1 << _WINDOW) - 1
    for ring in reversed(rings):
        if len(ring) > _COMPARED:
            continue  # it would take long to find, and such a ring is hardly decided
        first = place[ring[0]]
        inside = dict.fromkeys(ring, -1)  # all classes, until something else is known
        is_stale = True
        while is_stale:
            is_stale = False
            for index in ring:
                common = -1
                for node in problem.class_nodes[index]:
                    below = 0
                    for child in problem.children[node]:
                        far = place[child] - first
                        below |= inside[child] if child in inside else found[place[child]] << far
                    common &= below
                common |= 1 << place[index] - first
                is_stale |= common != inside[index]
                inside[index] = common
        for index in ring:
            if inside[index] >= 0:  # else nothing can be chosen for it
                found[place[index]] = inside[index] >> place[index] - first & window
    return found


def _closed(needed: int, musts: list[int], end: int) -> int:
    """Needed classes, as bits from the place `end` on, and what they need whatever is chosen."""
    found = at = 0
    while needed:
        skipped = (needed & -needed).bit_length() - 1
        at += skipped
        needed >>= skipped
        some, below = needed & (1 << _AT_ONCE) - 1, 0
        while some:
            lowest = (some & -some).bit_length() - 1
            below |= musts[end + at + lowest] << lowest
            some &= some - 1
        found |= below << at
        at += _AT_ONCE
        needed >>= _AT_ONCE
    return found


def _worthwhile(problem: Problem, ways: list[Way]) -> list[Way]:
    """The ways without those that need what another one needs, and cost no less."""
    if problem.signed or len(ways) > _COMPARED:
        return ways
    kept: dict[int, Way] = {}
    for number, way in sorted(enumerate(ways), key=lambda each: each[1][1].bit_count()):
        if not any(not one[1] & ~way[1] and no_dearer(problem.tolerances, one[0], way[0]) for one in kept.values()):
            kept[number] = way
    return [kept[number] for number in sorted(kept)]


def _best(problem: Problem, front: Front) -> Trail:
    """The trail of least cost, objectives compared in order."""
    if len(front) > 1:
        for objective in range(len(problem.objectives)):
            least = min(cost[objective] for cost, _ in front)
            limit = least + problem.tolerance(least, objective)
            front = [each for each in front if each[0][objective] <= limit]
    return front[0][1]


def _ways_of_one(problem: Problem, index: int, place: Mapping[int, int], end: int) -> list[Way]:
    """The ways to choose for a class that is in no ring, unless it needs itself."""
    nodes = [node for node in problem.class_nodes[index] if index not in problem.children[node]]
    below = [bits([place[c] - end for c in problem.children[node]]) for node in nodes]
    return [(problem.costs[node], needed, (node,)) for node, needed in zip(nodes, below, strict=True)]


def _choice(problem: Problem, trail: Trail) -> list[int]:
    """The nodes of a trail, by class."""
    choice = [-1] * problem.num_classes
    for node in nodes_of(trail):
        choice[problem.owner[node]] = node
    return choice
