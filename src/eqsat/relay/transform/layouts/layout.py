"""Layouts as the passes that change them reason about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TypeAlias

from eqsat.relay.op.layout import parse_layout
from eqsat.relay.ty import Dim

Part: TypeAlias = tuple[str, int]
"""An axis, and the size of the block of it; 0 for the axis itself."""


@dataclass(frozen=True)
class Layout:
    """What the dimensions of a tensor are, in order. That of a scalar is empty.

    Unlike a layout string it may hold a block without its axis: the last dimension of ``NCHW4c`` is ``4c``.
    """

    parts: tuple[Part, ...] = ()

    @staticmethod
    def parse(text: str) -> Layout:
        """The layout of a layout string; raises TypeCheckError for a malformed one."""
        return Layout(parse_layout(text) if text else ())

    @property
    def name(self) -> str:
        """The layout as a string."""
        return "".join([f"{block}{axis.lower()}" if block else axis for axis, block in self.parts])

    def __str__(self) -> str:
        return self.name

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index: int) -> Part:
        return self.parts[index]

    @property
    def axes(self) -> list[str]:
        """The axes themselves, without blocks, in order."""
        return [axis for axis, block in self.parts if not block]

    def index(self, axis: str) -> int | None:
        """Where an axis is, None where it is not."""
        return self.parts.index((axis, 0)) if (axis, 0) in self.parts else None

    def block(self, axis: str) -> int | None:
        """The size of the block of an axis, None where the axis is whole."""
        return next((block for name, block in self.parts if block and name == axis), None)

    @property
    def is_whole(self) -> bool:
        """Whether no axis is divided into blocks."""
        return not any(block for _, block in self.parts)

    def last(self, count: int) -> Layout:
        """The layout of the last dimensions alone."""
        return Layout(self.parts[len(self.parts) - count :])


Known: TypeAlias = Layout | None
"""A layout, or None where it is not known."""


def moved_axes(axes: Iterable[int], old: Layout, new: Layout) -> list[int] | None:
    """Where axes of ``old`` are in ``new``; None if one is not there as a whole."""
    found = []
    for axis in axes:
        letter, block = old[axis]
        index = new.index(letter)
        if block or index is None or new.block(letter):
            return None
        found.append(index)
    return found


def expanded(source: Layout, target: Layout) -> Layout:
    """``source`` with the axes that only ``target`` has before its own."""
    missing = [(axis, 0) for axis in target.axes if axis not in source.axes]
    return Layout((*missing, *source.parts))


def can_change(source: Layout, target: Layout) -> bool:
    """Whether a tensor can go from one layout to another, if need be with new axes of size 1."""
    if len(source.axes) < len(target.axes):
        source = expanded(source, target)
    known = [{axis for axis, _ in layout.parts} == set(layout.axes) for layout in (source, target)]
    return all(known) and set(source.axes) == set(target.axes)


def changed_like(layout: Layout, before: Layout, after: Layout) -> Known:
    """How ``layout`` changes if a tensor that it broadcasts with goes from ``before`` to ``after``.

    Dimensions correspond from the last one on. None where the axes do not correspond one by one.
    """
    if not layout.parts:
        return layout
    large, small = (before, layout) if len(before) > len(layout) else (layout, before)
    rest = {axis for axis, _ in large.parts[: len(large) - len(small)]}
    if not _alike(large.last(len(small)), small) or rest & {axis for axis, _ in large.last(len(small)).parts}:
        return None
    names: dict[str, str] = {}
    for (axis, _), (other, _) in zip(reversed(layout.parts), reversed(before.parts), strict=False):
        names[other] = axis
    for axis, _ in reversed(before.parts):
        if axis not in names:
            names[axis] = _unused(axis, {*names.values()})
    if any(axis not in names for axis, _ in after.parts):
        return None
    return Layout(tuple([(names[axis], block) for axis, block in after.parts]))


def _unused(wanted: str, used: set[str]) -> str:
    free: list[str] = [letter for letter in (wanted, *ascii_uppercase) if letter not in used]
    return free[0]


def _alike(one: Layout, other: Layout) -> bool:
    """Whether layouts differ in the names of axes only."""
    pairs = list(zip(one.parts, other.parts, strict=True))
    names = {(left, right) for (left, _), (right, _) in pairs}
    one_to_one = len(names) == len({left for left, _ in names}) == len({right for _, right in names})
    return one_to_one and all(left == right for (_, left), (_, right) in pairs)


def fitted_blocks(layout: Layout, old: Layout, shape: Sequence[Dim]) -> Layout:
    """``layout`` with blocks of 1 where the tensor, of this shape in ``old``, is of size 1 and broadcasts."""
    parts: list[Part] = []
    for axis, block in layout.parts:
        index = old.index(axis)
        is_one = index is None or (shape[index] == 1 and old.block(axis) is None)
        parts.append((axis, 1 if block and is_one else block))
    return Layout(tuple(parts))
