"""Relay's layout strings: ``NCHW`` names axes, ``NCHW4c`` splits off blocks of 4 of axis C as the last axis.

A capital is an axis; a number and a small letter is a block of that size of the capital's axis. Several
blocks of one axis stand from the coarsest to the finest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import floor_divide_dims, multiply_dims
from eqsat.relay.ty import Dim


@lru_cache(maxsize=1024)
def parse_layout(layout: str) -> tuple[tuple[str, int], ...]:
    """The dimensions of ``layout``, in order: each an axis and the size of the block of it, 0 for the axis itself.

    Raises:
        TypeCheckError: It is malformed.
    """
    if not re.fullmatch(r"([A-Z]|\d+[a-z])+", layout):
        raise TypeCheckError(f"{layout!r} is no layout: expected capitals and blocks such as 4c")
    parts = tuple((letter.upper(), int(size or 0)) for size, letter in re.findall(r"(\d*)([A-Za-z])", layout))
    whole = [axis for axis, block in parts if not block]
    if len(set(whole)) < len(whole) or any(axis not in whole for axis, _ in parts):
        raise TypeCheckError(f"{layout!r} is no layout: every axis must occur once as a capital")
    return parts


@dataclass(frozen=True)
class LayoutChange:
    """How to go from one layout to another: permute, merge blocks, split blocks, permute.

    Attributes:
        gather: the source's dimensions so that those of one axis stand together, coarsest first.
        merged: for each axis, how many dimensions it has in the source.
        factors: for each axis, the block sizes of the target, coarsest first.
        scatter: from the dimensions ordered by axis to the target's order.
    """

    gather: tuple[int, ...]
    merged: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]
    scatter: tuple[int, ...]

    def shape(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape after the change; raises TypeCheckError when it does not fit."""
        split = self._split(self._merge(shape))
        return tuple(split[index] for index in self.scatter)

    def __call__(self, array: Any) -> Any:
        """The array after the change."""
        merged = self._merge(array.shape)
        whole = np.transpose(array, self.gather).reshape(merged)  # type: ignore[arg-type]
        return np.transpose(whole.reshape(self._split(merged)), self.scatter)  # type: ignore[arg-type]

    def _merge(self, shape: Sequence[Dim]) -> list[Dim]:
        if len(shape) != len(self.gather):
            raise TypeCheckError(f"{len(shape)} dimensions do not fit a layout of {len(self.gather)}")
        dims = iter([shape[index] for index in self.gather])
        return [multiply_dims(*(next(dims) for _ in range(count))) for count in self.merged]

    def _split(self, merged: Sequence[Dim]) -> list[Dim]:
        out: list[Dim] = []
        for dim, factors in zip(merged, self.factors, strict=True):
            block = prod(factors)
            if isinstance(dim, int) and dim % block:
                raise TypeCheckError(f"dimension {dim} is not divisible into blocks of {block}")
            out.append(floor_divide_dims(dim, block))
            out.extend(factors)
        return out


@lru_cache(maxsize=4096)
def layout_change(source: str, target: str) -> LayoutChange:
    """The change from layout ``source`` to ``target``, which must name the same axes."""
    before, after = parse_layout(source), parse_layout(target)
    axes = [axis for axis, block in before if not block]
    if set(axes) != {axis for axis, _ in after}:
        raise TypeCheckError(f"layouts {source!r} and {target!r} name different axes")

    def places(parts: Sequence[tuple[str, int]], axis: str) -> list[int]:
        mine = [index for index, part in enumerate(parts) if part[0] == axis]
        return sorted(mine, key=lambda index: parts[index][1] != 0)

    gather = [index for axis in axes for index in places(before, axis)]
    spread = [index for axis in axes for index in places(after, axis)]
    return LayoutChange(
        tuple(gather),
        tuple(len(places(before, axis)) for axis in axes),
        tuple(tuple(after[index][1] for index in places(after, axis)[1:]) for axis in axes),
        tuple(int(index) for index in np.argsort(spread)),
    )
