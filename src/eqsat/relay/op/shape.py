"""Shape codes of ``reshape`` and bounds of slices, for static and unknown dimensions alike."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import multiply_dims, quotient
from eqsat.relay.op.types import axis_index, unify
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim


def resolve_reshape(shape: Sequence[Dim], codes: Sequence[Dim], allowzero: bool = False) -> tuple[Dim, ...]:
    """The shape that ``reshape(newshape=codes)`` gives a tensor of ``shape``.

    Codes: a positive size; 0 copies the input's dimension (with ``allowzero`` it is a size); -1 takes what is
    left over, at most once; -2 copies all remaining dimensions; -3 merges the next two; -4 splits the next
    one into the two codes that follow, one of which may be -1. A code that is not known is a size, or unnamed.

    Raises:
        TypeCheckError: the codes do not fit the shape.
    """
    out: list[Dim] = []
    infer_at: int | None = None
    source = 0

    def take() -> Dim:
        nonlocal source
        if source >= len(shape):
            raise TypeCheckError(f"newshape {tuple(codes)} uses more dimensions than {_text(shape)} has")
        source += 1
        return shape[source - 1]

    position = 0
    while position < len(codes):
        code = codes[position]
        position += 1
        if isinstance(code, AnyDim) or code > 0 or (code == 0 and allowzero):
            out.append(code)
            source += 1
        elif code == 0:
            out.append(take())
        elif code == -1:
            if infer_at is not None:
                raise TypeCheckError(f"newshape {tuple(codes)} has -1 twice")
            infer_at = len(out)
            out.append(1)
            source += 1
        elif code == -2:
            out.extend(shape[source:])
            source = max(source, len(shape))
        elif code == -3:
            out.append(multiply_dims(take(), take()))
        elif code == -4:
            if position + 2 > len(codes):
                raise TypeCheckError(f"newshape {tuple(codes)}: -4 must be followed by two sizes")
            out.extend(_split(take(), codes[position], codes[position + 1]))
            position += 2
        else:
            raise TypeCheckError(f"newshape {tuple(codes)}: {code} is no shape code")
    if infer_at is None:
        _check_sizes(shape, out)
    else:
        out[infer_at] = _left_over(shape, [*out[:infer_at], *out[infer_at + 1 :]])
    return tuple(out)


def _split(dim: Dim, first: Dim, second: Dim) -> tuple[Dim, Dim]:
    if first == -1 and second == -1:
        raise TypeCheckError("-4 may be followed by one -1, not two")
    known = second if first == -1 else first
    if isinstance(known, AnyDim) or known <= 0:
        raise TypeCheckError(f"-4 must be followed by positive sizes or one -1, not {first}, {second}")
    rest = quotient([dim], [known])
    if rest is None:
        raise TypeCheckError(f"dimension {dim} is not divisible by {known}")
    if first == -1:
        return rest, second
    return first, unify(rest, second) if second != -1 else rest


def _left_over(shape: Sequence[Dim], others: Sequence[Dim]) -> Dim:
    """What -1 stands for: elements of ``shape`` over those of ``others``."""
    if 0 in others:
        if 0 not in shape:
            raise TypeCheckError(f"{_text(shape)} cannot be reshaped to {_text(others)} and -1")
        return 0
    found = quotient(shape, others)
    if found is None:
        raise TypeCheckError(f"the size of {_text(shape)} is not divisible by {multiply_dims(*others)}")
    return found


def _check_sizes(shape: Sequence[Dim], new: Sequence[Dim]) -> None:
    known = [dim for dim in (*shape, *new) if isinstance(dim, int)]
    if len(known) == len(shape) + len(new) and prod(known[: len(shape)]) != prod(known[len(shape) :]):
        raise TypeCheckError(f"{_text(shape)} cannot be reshaped to {_text(new)}: the sizes differ")


def reshape_codes(shape: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    """How ``reshape`` makes a tensor of ``shape`` one of shape ``wanted``; None if it cannot be said."""
    codes: list[int | None] = []
    for index, dim in enumerate(wanted):
        if isinstance(dim, int):
            codes.append(dim)
        else:
            copied = dim.name is not None and index < len(shape) and shape[index] == dim
            codes.append(0 if copied else None)
    if codes.count(None) > 1:
        return None
    return tuple(-1 if code is None else code for code in codes)


def pairwise_codes(shape: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    """The same by dimensions that are kept, merged with the next one or split in two; None if they are not that.

    Nothing is left over, so that any number of dimensions may be unknown.
    """
    if 0 in shape or AnyDim() in (*shape, *wanted):
        return None
    codes: list[int] = []
    source = index = 0
    while source < len(shape) and index < len(wanted):
        dim, new = shape[source], wanted[index]
        if dim == new:
            codes.append(0)
        elif multiply_dims(*shape[source : source + 2]) == new:
            codes.append(-3)
            source += 1
        elif multiply_dims(*(parts := wanted[index : index + 2])) == dim and any(
            isinstance(part, int) for part in parts
        ):
            codes += [-4, *(part if isinstance(part, int) else -1 for part in parts)]
            index += 1
        else:
            return None
        source, index = source + 1, index + 1
    return tuple(codes) if source == len(shape) and index == len(wanted) else None


def moved_ones(shape: Sequence[Dim], codes: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """The axes of one element that a reshape takes from ``shape``, and those that its result has instead.

    None if its codes say more than that, as they do with the sizes of other axes.
    """
    gone: list[int] = []
    added: list[int] = []
    source = axis = position = 0
    while position < len(codes):
        code, dims = codes[position], shape[source : source + 2]
        if code == -3 and 1 in dims:
            gone.append(source + dims.index(1))
            source += 1
        elif code == -4 and 1 in (parts := codes[position + 1 : position + 3]):
            added.append(axis + parts.index(1))
            axis, position = axis + 1, position + 2
        elif code != 0:
            return None
        source, axis, position = source + 1, axis + 1, position + 1
    return gone, added


def _text(shape: Sequence[Dim]) -> str:
    return f"({', '.join(map(str, shape))})"


def spread(vector: Any, axis: int, rank: int) -> Any:
    """An array of one dimension, shaped to broadcast along ``axis`` of one of ``rank`` dimensions."""
    shape = [1] * rank
    shape[axis_index(axis, rank)] = -1
    return vector.reshape(shape)


FARTHEST = 10**9
"""An end of a slice from which on it is beyond any axis: TensorFlow and JAX write this, Relay writes 2**31 - 1."""


def clamp_slice(begin: int | None, end: int | None, stride: int, dim: int) -> slice:
    """The Python slice for Relay's begin and end: negative ones count from the back, then both are clamped."""
    low, high = (0, dim) if stride > 0 else (-1, dim - 1)
    first = (low if stride > 0 else high) if begin is None else begin + dim if begin < 0 else begin
    last = (high if stride > 0 else low) if end is None else end + dim if end < 0 else end
    first, last = min(max(first, low), high), min(max(last, low), high)
    return slice(first, None if last < 0 else last, stride)
