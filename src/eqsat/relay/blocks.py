"""Where the text form puts the line of each node: in the innermost block around all its uses."""

from __future__ import annotations

from typing import TypeAlias

from eqsat.relay.adt import Match
from eqsat.relay.expr import Expr, Let
from eqsat.relay.visitor import post_order

Rope: TypeAlias = str | list["Rope"]
"""Text in pieces, joined once at the end: nested scopes are not copied level by level."""


class Block:
    """A stretch of text between braces, or after a ``let``.

    Attributes:
        parent: The block around it.
        indent: The number of spaces before each line.
        lines: The lines in it so far.
        depth: How many blocks are around it.
        jump: A block far above. Steps over jumps find a common ancestor in logarithmically many steps.
    """

    __slots__ = ("depth", "indent", "jump", "lines", "parent")

    def __init__(self, parent: Block | None, indent: int):
        self.indent = indent
        self.lines: list[Rope] = []
        self.parent: Block = parent or self
        self.depth: int = 0 if parent is None else parent.depth + 1
        over = self.parent if parent is None else parent.jump
        even = parent is not None and parent.depth - over.depth == over.depth - over.jump.depth
        self.jump: Block = over.jump if even else self.parent

    @property
    def newline(self) -> str:
        return "\n" + " " * self.indent


class Layout:
    """The blocks of the text of ``root`` and the nodes' places in them.

    What several branches of an if or clauses of a match use is defined in the first of them.

    Attributes:
        top: The block that is the whole text.
        place: Node -> the block that its line goes to.
        inner: Node with scopes -> their blocks; of a let those of its value and its body.
    """

    def __init__(self, root: Expr):
        self.top = Block(None, 0)
        self.place: dict[Expr, Block] = {root: self.top}
        self.inner: dict[Expr, tuple[Block, ...]] = {}
        self._uses: dict[Expr, int] = {root: 0}
        self._last: set[Expr] = {root}
        for node in reversed(post_order(root)):
            here = self.place[node]
            if isinstance(node, Let):
                self._open_let(node, here)
            elif node.scopes:
                self._open(node, here)
            else:
                for child in node.children():
                    self._use(child, here)

    def is_unique(self, node: Expr) -> bool:
        """Whether a node is used at most once."""
        return self._uses[node] <= 1

    def is_last(self, node: Expr) -> bool:
        """Whether a node is the last expression of a block and is used nowhere else."""
        return node in self._last and self.is_unique(node)

    def _open(self, node: Expr, here: Block) -> None:
        for child in node.outside:
            self._use(child, here)
        indent = here.indent + (4 if isinstance(node, Match) else 2)
        blocks, block = [], here
        for variables, body in node.scopes:
            block = Block(block, indent)
            blocks.append(block)
            for variable in variables:
                self._use(variable, block)
            self._use(body, block, last=True)
        self.inner[node] = tuple(blocks)

    def _open_let(self, node: Let, here: Block) -> None:
        value = here if self.is_last(node) else Block(here, here.indent + 2)
        body = Block(value, value.indent)
        self.inner[node] = (value, body)
        self._use(node.value, value)
        self._use(node.var, body)
        self._use(node.body, body, last=True)

    def _use(self, node: Expr, block: Block, last: bool = False) -> None:
        place = self.place.get(node)
        self.place[node] = block if place is None else common_block(place, block)
        self._uses[node] = self._uses.get(node, 0) + 1
        if last:
            self._last.add(node)


def common_block(left: Block, right: Block) -> Block:
    """Return the innermost block around both."""
    if left.depth < right.depth:
        left, right = right, left
    while left.depth > right.depth:
        left = left.jump if left.jump.depth >= right.depth else left.parent
    while left is not right:
        if left.jump is right.jump:
            left, right = left.parent, right.parent
        else:
            left, right = left.jump, right.jump
    return left
