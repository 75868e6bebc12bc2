"""A choice with reference counts: nodes are taken, and given up, with all that only they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Uses:
    """The classes that a choice uses, kept up to date while the choice changes node by node.

    Args:
        children: The child classes of each node.
        costs: The cost of each node.
        choice: The node of each class, also of classes that are not used: what was given up can be taken again.
        uses: The number of roots and used nodes that need each class. A class is used while it is positive.
    """

    def __init__(
        self, children: Sequence[Sequence[int]], costs: Sequence[float], choice: list[int], uses: list[int]
    ) -> None:
        self.children = children
        self.costs = costs
        self.choice = choice
        self.uses = uses

    def used(self) -> list[int]:
        """The choice, -1 for classes that are not used."""
        return [node if count else -1 for node, count in zip(self.choice, self.uses, strict=True)]

    def cost_of(self, nodes: Sequence[int]) -> float:
        """The sum of nodes' costs."""
        costs = self.costs
        return sum([costs[node] for node in nodes])

    def take(self, node: int, source: Sequence[int]) -> list[int]:
        """Use a node; it and the nodes that are used from now on. Classes not used before get those of `source`."""
        children, uses, choice = self.children, self.uses, self.choice
        taken = [node]
        for one in taken:  # grows while it is read
            for child in children[one]:
                if not uses[child]:
                    choice[child] = chosen = source[child]
                    taken.append(chosen)
                uses[child] += 1
        return taken

    def give_up(self, node: int) -> list[int]:
        """Use a node no longer; it and the nodes that are not used from now on."""
        children, uses, choice = self.children, self.uses, self.choice
        given_up = [node]
        for one in given_up:  # grows while it is read
            for child in children[one]:
                uses[child] -= 1
                if not uses[child]:
                    given_up.append(choice[child])
        return given_up

    def below(self, node: int) -> Iterator[int]:
        """The classes that the node's derivation contains, each once."""
        seen: set[int] = set()
        stack = [node]
        while stack:
            for child in self.children[stack.pop()]:
                if child not in seen:
                    seen.add(child)
                    stack.append(self.choice[child])
                    yield child
