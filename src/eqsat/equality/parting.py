"""Where two graphs differ: the nodes without an equal node in the other graph although all nodes below have one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from math import prod

from eqsat.egraph.lower import region_children
from eqsat.equality.alike import head, said
from eqsat.equality.fingerprints import SAME, Fingerprint, Partners
from eqsat.equality.groups import FIRST, SECOND
from eqsat.equality.joining import Joined
from eqsat.equality.proof import Prover
from eqsat.equality.result import Pair, Part
from eqsat.relay.dataflow_pattern.analysis import SWAPPED
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from eqsat.relay.traits import Trait

MOST_PAIRS = 8
"""Maximum number of pairs in a result."""

_ROUNDED = 1e-6
"""Maximum relative distance of equal nodes if one graph has a constant that the other one computes."""

_WHERE = Op.get("where")

_ROUNDS = 4
"""Number of rounds in which unproved pairs are assumed equal, to find those above them."""


class Parting:
    """Finds where two graphs part.

    Args:
        joined: The graphs.
        prover: What is proved of them.
        prints: The fingerprints of their nodes.
        place: Tells where a node of one of the graphs is from.
    """

    def __init__(
        self, joined: Joined, prover: Prover, prints: Mapping[Expr, Fingerprint], place: Callable[[Expr], str]
    ):
        self.joined = joined
        self.prover = prover
        self.groups = prover.groups
        self.prints = prints
        self.place = place
        firsts = [node for node in self.groups.of(FIRST) if node in prints]
        self._seconds = [node for node in self.groups.of(SECOND) if not self.groups.sides(node) & FIRST]
        by_shape, by_size = Partners((n, prints[n]) for n in firsts), Partners((n, _flat(prints[n])) for n in firsts)
        known = [node for node in self._seconds if node in prints]
        self.partners = {node: by_shape.of(prints[node])[:4] for node in known}
        """Node of the second graph -> nodes of the first with its values, nearest first, with their distance."""
        self._same = {node: self._nearest(node, by_size.of(_flat(prints[node]))) for node in known}
        self._near = {node for node, near in self.partners.items() if near}
        self._near.update(first for near in self.partners.values() for _, first in near)
        self._formed: set[Expr] = set()

    def different(self) -> tuple[Pair, ...]:
        """Return the first nodes that cause a difference of the results."""
        alike = self._side_by_side()
        if alike:
            return tuple([Pair(self._part(first, 0), self._part(second, 1)) for first, second in alike[:MOST_PAIRS]])
        self._formed = self.prover.formed()
        return tuple(self._between(*self.joined.roots)[:MOST_PAIRS])

    def suspected(self) -> tuple[Pair, ...]:
        """Return where graphs differ in double precision, with the lowest nodes that are near but not equal."""
        pairs = self.different()
        for first, second in self._opened():
            if self.partners[second][0][0] > SAME:
                pairs += (self._near_pair(first, second),)
        return tuple({str(pair): pair for pair in pairs}.values())[:MOST_PAIRS]

    def unproved(self) -> tuple[Pair, ...]:
        """The smallest pairs that would have to be equal for the results to be. They are taken for equal from here on.

        Those come first in which some values differ by more than rounding in double precision.
        """
        found: dict[str, Pair] = {}
        agreeing: dict[str, Pair] = {}
        for _ in range(_ROUNDS):
            self._formed = self.prover.formed()
            found |= {str(pair): pair for pair in self._between(*self.joined.roots)}
            opened = self._opened()
            pairs = [self._near_pair(first, second) for first, second in opened]
            agreeing |= {str(pair): pair for pair in pairs}
            for first, second in opened:
                self.groups.merge(first, second)
            if not opened or self.groups.is_one or len(found) >= MOST_PAIRS:
                break
            self.prover.prove_parts({node: [other for _, other in near] for node, near in self.partners.items()})
        return tuple((found | agreeing).values())[:MOST_PAIRS]

    # ---- what needs no telling

    @cached_property
    def _room(self) -> float:
        """The maximum distance of equal nodes: less than that of the results, but enough for rounded constants."""
        first, second = (self.prints.get(root) for root in self.joined.roots)
        away = SAME if first is None or second is None else first.distance(second)
        return max(SAME, min(_ROUNDED, away / 100))

    def _nearest(self, node: Expr, near: Iterable[tuple[float, Expr]]) -> Expr | None:
        """Return the node of the first graph with a node's values in any shape; zeros are common and prove little."""
        for distance, other in near:
            if distance <= self._room and (self.prints[other].sizes.any() or head(other) == head(node)):
                return other
        return None

    def _opened(self) -> list[tuple[Expr, Expr]]:
        """Return the lowest pairs that are near to each other and not proved."""
        found = []
        has_open: dict[Expr, bool] = {}
        for node in self._seconds:
            below = any(has_open.get(child, False) for child in region_children(node))
            is_told = not isinstance(node, (Constant, Tuple)) or node is self.joined.roots[1]
            is_open = is_told and not self.groups.is_shared(node) and bool(self.partners.get(node))
            if is_open and not below:
                found.append((self.partners[node][0][1], node))
            has_open[node] = below or is_open
        return found

    def _near_pair(self, first: Expr, second: Expr) -> Pair:
        """A pair of nodes that are near to each other, below the views of what the second one computes."""
        while _keeps_elements(second) and not _keeps_elements(first):
            second = region_children(second)[0]
        return Pair(self._part(first, 0), self._part(second, 1))

    # ---- where graphs of one form part

    def _side_by_side(self) -> list[tuple[Expr, Expr]]:
        """The places at which two graphs part that are alike above these; none where they are of different forms.

        Values that are equal by chance, as where a wrong node gives zeros, lead nobody astray here.
        """
        found: dict[tuple[Expr, Expr], None] = {}
        seen = {self.joined.roots}
        agenda = [self.joined.roots]
        while agenda:
            first, second = agenda.pop()
            pairs = self._aligned(first, second)
            if pairs is None:
                return []
            others = [pair for pair in pairs if not self._agree(*pair)]
            if not others and said(first) == said(second):  # what is small beside a mask shows only in a softmax
                others = [pair for pair in pairs if not self._agree(*pair, SAME)]
            ends = [pair for pair in others if self._is_end(*pair)]
            if isinstance(second, Tuple):
                found |= dict.fromkeys(ends)
            elif ends or not others:
                found[first, second] = None
                continue
            new = [pair for pair in others if pair not in ends and pair not in seen]
            seen.update(new)
            agenda += reversed(new)
        return sorted(found, key=lambda pair: self.groups.place[pair[1]])

    def _aligned(self, first: Expr, second: Expr) -> list[tuple[Expr, Expr]] | None:
        """Return the operands at the same places of two nodes; None if they cannot be determined."""
        ours, theirs = list(region_children(first)), list(region_children(second))
        if head(first) != head(second) or len(ours) != len(theirs):
            have_same = all(any(self._agree(one, other) for other in theirs) for one in ours)
            return [] if have_same and len(ours) == len(theirs) > 0 else None
        if isinstance(first, Call) and isinstance(first.op, Op) and first.op.name in SWAPPED:
            crossed = self._agree(ours[0], theirs[1]), self._agree(ours[1], theirs[0])
            straight = self._agree(ours[0], theirs[0]), self._agree(ours[1], theirs[1])
            theirs = theirs[::-1] if sum(crossed) > sum(straight) else theirs
        return list(zip(ours, theirs, strict=True))

    def _is_end(self, first: Expr, second: Expr) -> bool:
        """Whether two operands differ because of what uses them: constants, or another node of the same graph."""
        constant = self.groups.constant
        return (first in constant and second in constant) or bool(self.groups.sides(second) & FIRST)

    def _agree(self, first: Expr, second: Expr, room: float | None = None) -> bool:
        """Whether two nodes are equal, or have the same values, up to a part of their size."""
        if self.groups.leader(first) is self.groups.leader(second):
            return True
        one, other = self.prints.get(first), self.prints.get(second)
        return (
            one is not None
            and other is not None
            and one.kind == other.kind
            and one.distance(other) <= (room or self._room)
        )

    # ---- what parts

    def _between(self, first: Expr, second: Expr) -> list[Pair]:
        """Return the lowest nodes that prevent two nodes from being equal."""
        same = {node: other for node, other in self._same.items() if other is not None}
        known = {*same, *same.values(), *self._formed}
        known |= set(filter(self.groups.is_shared, self.joined.nodes))
        right = set(known)  # what is right is computed from what is right, if that is not a little wrong
        for node in reversed(self.joined.nodes):
            if node in right and not _takes_part(node):
                right.update(child for child in region_children(node) if child not in self._near)
        for explained in (right, known):
            found = self._paired(_guilty(first, explained), _guilty(second, explained), same)
            if found:
                return found
        return []

    def _paired(self, firsts: Sequence[Expr], seconds: Sequence[Expr], same: Mapping[Expr, Expr]) -> list[Pair]:
        """Guilty nodes of both graphs, together where they are computed from the same by the same operator.

        If there is one of each, they belong together.
        """
        left = list(firsts)
        pairs = []
        is_only = len(firsts) == len(seconds) == 1
        for node in seconds:
            scores = [(self._likeness(each, node, same), -place) for place, each in enumerate(left)]
            best = max(scores, default=(0, 0))
            chosen = left.pop(-best[1]) if best[0] > 0 or is_only else None
            pairs.append(Pair(self._part(chosen, 0), self._part(self._first_of(node, chosen), 1)))
        return [*pairs, *[Pair(self._part(node, 0), None) for node in left]]

    def _first_of(self, node: Expr, first: Expr | None) -> Expr:
        """The lowest node that stands in the place of one of the first graph.

        Where the second graph leaves out what that one does, as a bias, the next thing that it does is what was found,
        though views and transpositions between them are part of the first graph's way on, and not of this one's.
        """
        if first is None or head(first) == head(node) or {*region_children(first)} == {*region_children(node)}:
            return node
        if _keeps_elements(node):
            return node if _keeps_elements(first) else self._lowest(node, node)
        for user, place in self._next[first]:
            children = region_children(node)
            if head(user) == head(node) and len(children) == len(region_children(user)):
                return self._lowest(node, children[place])
        return node

    def _lowest(self, user: Expr, node: Expr) -> Expr:
        """The lowest node from one on down that has the elements of the next one; the user of it if there is none."""
        while True:
            kept = [child for child in region_children(node) if self._keeps(node, child)]
            if not kept:
                return user
            user, node = node, kept[0]

    def _keeps(self, node: Expr, child: Expr) -> bool:
        """Whether a node has the elements of one that it is computed from."""
        if _keeps_elements(node):
            return child is region_children(node)[0]
        one, other = self.prints.get(node), self.prints.get(child)
        return one is not None and other is not None and one.kind == other.kind and one.distance(other) <= SAME

    @cached_property
    def _next(self) -> Mapping[Expr, Sequence[tuple[Expr, int]]]:
        """Nodes of the first graph -> what first computes something else of each, and as which operand it takes it."""
        found: dict[Expr, list[tuple[Expr, int]]] = defaultdict(list)
        for user in reversed(self.groups.of(FIRST)):
            for place, child in enumerate(region_children(user)):
                is_kept = self._keeps(user, child) or (head(user) is _WHERE and place > 0)
                found[child] += found[user] if is_kept else [(user, place)]
        return found

    def _likeness(self, first: Expr, second: Expr, same: Mapping[Expr, Expr]) -> int:
        ours = {*region_children(first)}
        theirs = {same.get(child, child) for child in region_children(second)}
        shared = sum(not isinstance(node, Constant) for node in ours & theirs)
        return 2 * shared + (head(first) == head(second)) + (self.joined.types[first] == self.joined.types[second])

    # ---- telling

    def _part(self, node: Expr | None, side: int) -> Part | None:
        if node is None:
            return None
        origins, users = self.joined.origins[side], self._users[side]
        made_for = node  # one node of a model may be several here, of which the last has the span
        while origins.get(made_for, made_for).span is None and made_for in users:
            made_for = users[made_for]
        told = origins.get(made_for, made_for)
        return Part(origins.get(node, node), self.place(told), node, origin=told.span)

    @cached_property
    def _users(self) -> tuple[dict[Expr, Expr], dict[Expr, Expr]]:
        """For each graph, what first uses each of its nodes."""
        found: tuple[dict[Expr, Expr], dict[Expr, Expr]] = ({}, {})
        for users, side in zip(found, (FIRST, SECOND), strict=True):
            for node in self.groups.of(side):
                for child in region_children(node):
                    users.setdefault(child, node)
        return found


def _flat(known: Fingerprint) -> Fingerprint:
    """A fingerprint that tells nothing of shapes but how many elements there are."""
    assert isinstance(known.kind, tuple)
    sizes = [prod(shape) for each in known.kind[1:] for shape in each]
    return known._replace(kind=(known.kind[0], *sizes))


def _keeps_elements(node: Expr) -> bool:
    """Whether a node has the elements of its first operand and no others, perhaps in another order."""
    op = node.op if isinstance(node, Call) and isinstance(node.op, Op) else None
    return op is not None and (op.has(Trait.VIEW) or op.name == "transpose")


def _takes_part(node: Expr) -> bool:
    """Whether a node may leave out elements of what it is computed from."""
    op = node.op if isinstance(node, Call) and isinstance(node.op, Op) else None
    return isinstance(node, TupleGetItem) or (op is not None and op.has(Trait.MOVES) and not _keeps_elements(node))


def _guilty(root: Expr, explained: Set[Expr]) -> list[Expr]:
    """The nodes that are not explained, that the root's value comes from, and all of whose operands are explained."""
    found: dict[Expr, None] = {}
    agenda = _fields(root)
    seen = {*agenda}
    while agenda:
        node = agenda.pop()
        if node in explained:
            continue
        given = [part for child in region_children(node) for part in _fields(child)]
        inner = [child for child in given if child not in explained and not isinstance(child, (Constant, Var))]
        if not inner:
            found[node] = None
        for child in inner:
            if child not in seen:
                seen.add(child)
                agenda.append(child)
    return list(found)


def _fields(node: Expr) -> list[Expr]:
    """What a node takes where it takes another one: of a tuple, what is in it."""
    found, agenda = [], [node]
    while agenda:
        each = agenda.pop()
        if isinstance(each, Tuple):
            agenda += reversed(each.fields)
        else:
            found.append(each)
    return found
