"""Parts of an e-graph that are the same but for the atoms in them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from functools import cached_property

from eqsat.egraph.snapshot import Snapshot


class ClassGraph:
    """The e-nodes of a snapshot by class."""

    def __init__(self, snapshot: Snapshot):
        self.snapshot = snapshot
        self.symbol = snapshot.node_symbol.tolist()
        self.atom = snapshot.node_atom.tolist()
        self.type = snapshot.class_type_index.tolist()
        self.children = snapshot.child_lists()

    @cached_property
    def nodes(self) -> list[list[int]]:
        """The e-nodes of each class."""
        nodes: list[list[int]] = [[] for _ in range(self.snapshot.class_count)]
        for node, of in enumerate(self.snapshot.node_class.tolist()):
            nodes[of].append(node)
        return nodes

    def reach(self, roots: Iterable[int], stop: Iterable[int]) -> list[int]:
        """The classes that are needed for some classes in some way, without those beyond others."""
        seen = set(stop)
        found: list[int] = []
        stack = [*roots]
        while stack:
            of = stack.pop()
            if of not in seen:
                seen.add(of)
                found.append(of)
                for node in self.nodes[of]:
                    stack += self.children[node]
        return found

    def children_of(self, classes: Iterable[int]) -> set[int]:
        """The classes that e-nodes of some classes have as children."""
        return {child for of in classes for node in self.nodes[of] for child in self.children[node]}

    def has_leaf(self, of: int, atoms: Container[int]) -> bool:
        """Whether one of some constants and variables is in a class."""
        return any(not self.children[node] and self.atom[node] in atoms for node in self.nodes[of])

    def likeness(
        self,
        part: Collection[int],
        other: Collection[int],
        known: Mapping[int, int],
        atoms: Mapping[int, int],
        edge: Collection[int] = (),
        other_edge: Collection[int] = (),
    ) -> dict[int, int] | None:
        """Which class of one part is which of another; None where the two are not the same.

        Each e-node of one has its like in the other, and there are no more: the same symbol, the atom that takes the
        place of its own, and the likes of its children, in the like of its class, which has the same type.

        Args:
            part, other: the classes of each.
            known: likes of classes of the part and of all that it is computed from.
            atoms: atoms that others take the place of.
            edge, other_edge: classes that each part is computed from. They need not be the same, but where e-nodes of
                them are, these tell which class is the like of which; or else their types, if no two are of one type.
        """
        like = dict(known)
        there = {self._key(node): of for of in (*other_edge, *other) for node in self.nodes[of]}
        waiting: dict[int, list[int]] = {}
        home = {node: of for of in part for node in self.nodes[of]}
        at_edge = {node: of for of in edge for node in self.nodes[of]}
        ready = [*home, *at_edge]
        done = 0
        while ready:
            node = ready.pop()
            symbol, atom, *children = self._key(node)
            missing = next((child for child in children if child not in like), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(node)
            else:
                found = there.get((symbol, atoms.get(atom, atom), *[like[child] for child in children]))
                if found is not None or node in home:
                    done += node in home
                    of = home[node] if node in home else at_edge[node]
                    if found is None or like.setdefault(of, found) != found:
                        return None
                    ready += waiting.pop(of, ())
            if not ready and done < len(home):
                told = self._of_one_type({*edge}.difference(like), {*other_edge}.difference(like.values()))
                like |= told
                ready = [node for of in told for node in waiting.pop(of, ())]
        if done < len(home) or len(set(like.values())) < len(like):
            return None
        same = all(
            len(self.nodes[of]) == len(self.nodes[like[of]]) and self.type[of] == self.type[like[of]] for of in part
        )
        return like if same else None

    def _of_one_type(self, ones: Iterable[int], others: Iterable[int]) -> dict[int, int]:
        """Classes -> those among others that have the same type, where there is one of either alone."""
        of_type: dict[int, tuple[list[int], list[int]]] = {}
        for side, classes in enumerate((ones, others)):
            for of in classes:
                of_type.setdefault(self.type[of], ([], []))[side].append(of)
        return {one[0]: other[0] for one, other in of_type.values() if len(one) == len(other) == 1}

    def _key(self, node: int) -> tuple[int, ...]:
        return (self.symbol[node], self.atom[node], *self.children[node])
