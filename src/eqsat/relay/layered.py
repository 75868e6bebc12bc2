"""A layered drawing of nested boxes: data flows downwards, boxes never overlap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from eqsat.relay.visitor import children_first

GAP_X, GAP_Y, MARGIN, TITLE = 16.0, 36.0, 12.0, 18.0
_CHARACTER, _LINE = 7.2, 16.0
_SWEEPS = 4


@dataclass(eq=False)
class Box:
    """A node, or a frame around others.

    Args:
        lines: its text; of a frame, the title.
        kind: what it stands for; decides its look.
        parent: the frame it is in, None for the whole drawing.
        hint: text shown when pointed at.

    ``x``, ``y`` (of the upper left corner), ``width`` and ``height`` are in pixels, filled in by :func:`arrange`.
    """

    lines: list[str]
    kind: str
    parent: Box | None = None
    hint: str = ""
    children: list[Box] = field(default_factory=list)
    depth: int = 0
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def __post_init__(self) -> None:
        self.width = max((len(line) for line in self.lines), default=0) * _CHARACTER + 2 * MARGIN
        self.height = len(self.lines) * _LINE + MARGIN
        if self.parent is not None:
            self.parent.children.append(self)
            self.depth = self.parent.depth + 1


class Arrow(NamedTuple):
    """Data that flows from one box to another."""

    source: Box
    target: Box
    label: str = ""


def arrange(root: Box, edges: list[Arrow]) -> list[Box]:
    """Give every box inside ``root`` its place; all boxes, frames before what they hold, are returned."""
    boxes = [root]
    for box in boxes:
        boxes.extend(box.children)
    flows: dict[Box, list[tuple[Box, Box]]] = {box: [] for box in boxes}
    for edge in edges:
        frame, source, target = _siblings(edge.source, edge.target)
        if source is not target:
            flows[frame].append((source, target))
    for box in reversed(boxes):
        if box.children:
            _fill(box, flows[box])
    for box in boxes:
        for child in box.children:
            child.x += box.x
            child.y += box.y
    return boxes


def _siblings(source: Box, target: Box) -> tuple[Box, Box, Box]:
    """The innermost frame around both, and the boxes directly in it that hold them."""
    while source.depth > target.depth and source.parent is not None:
        source = source.parent
    while target.depth > source.depth and target.parent is not None:
        target = target.parent
    while source.parent is not target.parent and source.parent is not None and target.parent is not None:
        source, target = source.parent, target.parent
    return source.parent or source, source, target


def _fill(frame: Box, flow: list[tuple[Box, Box]]) -> None:
    """Place the children of a frame relative to it, and size it."""
    before: dict[Box, list[Box]] = {box: [] for box in frame.children}
    after: dict[Box, list[Box]] = {box: [] for box in frame.children}
    for source, target in dict.fromkeys(flow):
        before[target].append(source)
        after[source].append(target)
    layers = _layers(frame.children, before, after)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _straighten(layer, before if downwards else after)
    title = TITLE if frame.lines else 0.0
    left = min(box.x for box in frame.children) - MARGIN
    y = title + MARGIN
    for layer in layers:
        for box in layer:
            box.x -= left
            box.y = y
        y += max(box.height for box in layer) + GAP_Y
    frame.width = max(frame.width, *(box.x + box.width + MARGIN for box in frame.children))
    frame.height = y - GAP_Y + MARGIN


def _layers(boxes: list[Box], before: dict[Box, list[Box]], after: dict[Box, list[Box]]) -> list[list[Box]]:
    """Each box below those it takes data from (except in circles); one that takes none stands just above its users."""
    level: dict[Box, int] = {}
    for box in children_first(boxes, before.__getitem__):
        level[box] = 1 + max((level[source] for source in before[box] if source in level), default=-1)
    for box in boxes:
        if not before[box] and after[box]:
            level[box] = max(0, min(level[target] for target in after[box]) - 1)
    layers: list[list[Box]] = [[] for _ in range(1 + max(level.values()))]
    for box in boxes:
        layers[level[box]].append(box)
    return [layer for layer in layers if layer]


def _straighten(layer: list[Box], neighbours: dict[Box, list[Box]]) -> None:
    """Order a layer by, and move its boxes to, the middle of their neighbours, as far as there is room."""
    wanted = {box: _middle(box, neighbours[box]) for box in layer}
    layer.sort(key=wanted.__getitem__)
    right = float("-inf")
    shift = 0.0
    for box in layer:
        box.x = max(wanted[box] - box.width / 2, right + GAP_X)
        shift += wanted[box] - box.width / 2 - box.x
        right = box.x + box.width
    for box in layer:
        box.x += shift / len(layer)


def _middle(box: Box, neighbours: list[Box]) -> float:
    """Where the centre of ``box`` would best be."""
    centres = [other.x + other.width / 2 for other in neighbours]
    return sum(centres) / len(centres) if centres else box.x + box.width / 2
