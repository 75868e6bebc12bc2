"""Ranges of a model's inputs, as far as its first nodes determine them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from eqsat.onnx.graphs import constant_tensor

MOVES = frozenset(
    ("Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose")
) | {"Unsqueeze"}
"""Operators whose outputs hold the values of their first input."""
_MASK = (0, 1, 1, 1)
"""Values from which the integers of a mask are drawn; most elements are unmasked."""
_COMPARISONS = frozenset(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"))
_FARTHEST = 64
"""Maximum number of nodes behind an input that are examined."""


class Range(NamedTuple):
    """The range of an input's values.

    Args:
        scale, offset: floats are these times and plus what the network sees after its preparation.
        high: integers are from 0 below it: they index an axis of this length.
        values: integers are these and their neighbours: the model compares with them.
    """

    scale: float = 1.0
    offset: float = 0.0
    high: int | None = None
    values: tuple[int, ...] = ()


def ranges(model: ir.Model) -> dict[str, Range]:
    """Return the ranges of the inputs whose first nodes determine them, by name."""
    found = {
        value.name: _integer_range(value) if _is_integer(value) else _affine(value) for value in model.graph.inputs
    }
    return {name: each for name, each in found.items() if each is not None}


def _is_integer(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer()


# ---- integers


def _integer_range(start: ir.Value) -> Range | None:
    highs, values = [], set()
    for value, node in _uses(start):
        if node.op_type == "Gather" and node.inputs[1] is value:
            length = _gathered(node)
            highs += [] if length is None else [length]
        elif node.op_type in _COMPARISONS and len(node.inputs) == 2:
            other = node.inputs[0] if node.inputs[1] is value else node.inputs[1]
            constant = _constant(other)
            if constant is not None and constant.size <= 4 and constant.dtype.kind in "iu":
                values.update(constant.ravel().tolist())
    if highs:
        return Range(high=min(highs))
    if not values and "mask" in start.name.lower():
        return Range(values=_MASK)
    return Range(values=tuple(sorted({each + step for each in values for step in (0, 1)}))) if values else None


def _uses(start: ir.Value) -> Iterator[tuple[ir.Value, ir.Node]]:
    """The nodes that use an input, or what only moves its values; in the order in which they are reached."""
    reached, seen = [start], {start}
    for value in reached:  # it grows
        for node, _ in value.uses():
            yield value, node
            if node.op_type in MOVES and node.inputs[0] is value and len(reached) < _FARTHEST:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                reached += fresh


def _gathered(node: ir.Node) -> int | None:
    """The length of the axis that a Gather takes from, if that is known."""
    data = node.inputs[0]
    if data is None or data.shape is None:
        return None
    attr = node.attributes.get("axis")
    axis = 0 if attr is None else attr.as_int()
    length = data.shape[axis] if -len(data.shape) <= axis < len(data.shape) else None
    return length if isinstance(length, int) and length > 0 else None


# ---- floats


def _affine(start: ir.Value) -> Range | None:
    """Return the scale and offset that invert the affine nodes which first use an input."""
    scale, offset, value = 1.0, 0.0, start
    for _ in range(_FARTHEST):
        uses = [*value.uses()]
        if len(uses) != 1:
            break
        node, index = uses[0]
        step = (1.0, 0.0) if node.op_type in MOVES and index == 0 else _step(node, index)
        if step is None or len(node.outputs) != 1:
            break
        scale, offset = scale * step[0], offset * step[0] + step[1]
        value = node.outputs[0]
    if (scale, offset) == (1.0, 0.0) or not np.isfinite([scale, offset]).all() or not 1e-6 < abs(scale) < 1e6:
        return None
    return Range(1 / scale, -offset / scale)


def _step(node: ir.Node, index: int) -> tuple[float, float] | None:
    """Factor and summand of a node that scales and shifts; of many, those in the middle."""
    others = [_middle(value) for place, value in enumerate(node.inputs) if place != index]
    if node.op_type == "BatchNormalization" and index == 0 and len(others) == 4:
        _, _, mean, variance = others
        if mean is None or variance is None or not variance > 0:
            return None
        return variance**-0.5, -mean * variance**-0.5
    if len(others) != 1 or others[0] is None:
        return None
    other = others[0]
    if node.op_type == "Add":
        return 1.0, other
    if node.op_type == "Sub":
        return (1.0, -other) if index == 0 else (-1.0, other)
    if node.op_type == "Mul" and other:
        return other, 0.0
    if node.op_type == "Div" and index == 0 and other:
        return 1 / other, 0.0
    return None


def _middle(value: ir.Value | None) -> float | None:
    constant = _constant(value)
    if constant is None or not 0 < constant.size <= 4096 or constant.dtype.kind not in "fiu":
        return None
    return float(np.median(constant))


def _constant(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    tensor = None if value is None else constant_tensor(value)
    return None if tensor is None or tensor.size > 4096 else tensor.numpy()
