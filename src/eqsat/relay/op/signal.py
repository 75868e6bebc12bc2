"""Windows that slide over axes, Fourier transforms, and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqsat.errors import TypeCheckError
from eqsat.relay.op.create import ones
from eqsat.relay.op.denotation import TRANSFORM
from eqsat.relay.op.nn.window import extent
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import axis_index, check_dtype, ranked, tensor, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type

# ---- windows


def _window_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    place = axis_index(attrs.axis, len(data.shape))
    slid = data.shape[place:]
    if not len(slid) == len(attrs.window_shape) == len(attrs.strides):
        raise TypeCheckError(f"window_shape and strides must have {len(slid)} numbers, for each axis from {place} on")
    counts = [
        extent(dim, length, stride, 1, 0)
        for dim, length, stride in zip(slid, attrs.window_shape, attrs.strides, strict=True)
    ]
    return TensorType((*data.shape[:place], *counts, *attrs.window_shape), data.dtype)


def _windows(attrs: Any, data: Any) -> Any:
    place = axis_index(attrs.axis, data.ndim)
    found = sliding_window_view(data, attrs.window_shape, tuple(range(place, data.ndim)))
    return found[(*[slice(None)] * place, *[slice(None, None, stride) for stride in attrs.strides])].copy()


sliding_window = define(
    "sliding_window",
    "data",
    Field("axis", "int"),
    Field("window_shape", "ints"),
    Field("strides", "ints"),
    infer=_window_type,
    kernel=_windows,
    kind=OpPattern.OPAQUE,
    traits=Trait.MOVES,
)
"""All windows over an axis and those behind it: the numbers of windows along these axes, then the axes of a window."""

# ---- Fourier transforms


def _stft_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, window = tensor(args[0]), ranked(args[1], 1, "window")
    if len(data.shape) not in (1, 2):
        raise TypeCheckError(f"data must have 1 or 2 dimensions, not {len(data.shape)}")
    if not 0 < attrs.win_length <= attrs.n_fft:
        raise TypeCheckError(f"win_length {attrs.win_length} must be positive and at most n_fft {attrs.n_fft}")
    length = window.shape[0]
    if isinstance(length, int) and length < attrs.win_length:
        raise TypeCheckError(f"a window of {length} elements is shorter than win_length {attrs.win_length}")
    frequencies = attrs.n_fft // 2 + 1 if attrs.onesided else attrs.n_fft
    frames = extent(data.shape[-1], attrs.n_fft, attrs.hop_length, 1, 0)
    return TensorType((*data.shape[:-1], frequencies, frames, 2), data.dtype)


def _stft(attrs: Any, data: Any, window: Any) -> Any:
    frames = sliding_window_view(data, attrs.n_fft, -1)[..., :: attrs.hop_length, : attrs.win_length]
    transform = np.fft.rfft if attrs.onesided else np.fft.fft
    found = np.swapaxes(transform(frames * window[: attrs.win_length], attrs.n_fft), -1, -2)
    parts = np.stack([found.real, found.imag], axis=-1)
    return (parts / np.sqrt(attrs.n_fft) if attrs.normalized else parts).astype(data.dtype)


_stft_builder = define(
    "stft",
    "data window",
    Field("n_fft", "int"),
    Field("hop_length", "int"),
    Field("win_length", "int"),
    Field("normalized", "bool", False),
    Field("onesided", "bool", True),
    infer=_stft_type,
    kernel=_stft,
    denotation=TRANSFORM,
    kind=OpPattern.OPAQUE,
)


def stft(
    data: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool = True,
) -> Any:
    """The Fourier transforms of overlapping frames of a signal, or of a batch of them: (frequency, frame, part).

    Args:
        data: the signal (length,) or signals (batch, length).
        n_fft: the length of a frame.
        hop_length: how far a frame is from the next; a quarter of its length by default.
        win_length: how many elements of a frame count; all by default.
        window: the factors of the elements of a frame; 1 by default.
        normalized: whether the result is divided by the square root of ``n_fft``.
        onesided: whether only the frequencies that are not negative are returned.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    factors = ones([n_fft], "int32") if window is None else window
    return _stft_builder(data, factors, n_fft, hop, n_fft if win_length is None else win_length, normalized, onesided)


def _dft_type(attrs: Any, args: Sequence[Type]) -> Type:
    real, imaginary = map(tensor, args)
    ranked(imaginary, len(real.shape), "im_data, as re_data,")
    if not real.shape:
        raise TypeCheckError("re_data and im_data must have at least one dimension")
    shape = [unify(a, b, "the sizes of re_data and im_data,") for a, b in zip(real.shape, imaginary.shape, strict=True)]
    result = TensorType(shape, check_dtype(real, imaginary))
    return TupleType([result, result])


def _dft(attrs: Any, real: Any, imaginary: Any) -> Any:
    if not real.shape[-1]:
        return real, imaginary
    found = (np.fft.ifft if attrs.inverse else np.fft.fft)(real + 1j * imaginary)
    return found.real.astype(real.dtype), found.imag.astype(real.dtype)


dft = define(
    "dft",
    "re_data im_data",
    Field("inverse", "bool", False, bool),
    infer=_dft_type,
    kernel=_dft,
    denotation=TRANSFORM,
    kind=OpPattern.OPAQUE,
    outputs=2,
)
"""The discrete Fourier transform along the last axis: real and imaginary parts."""

# ---- diagonals


def _diagonals(attrs: Any, rows: int, columns: int) -> list[tuple[int, int]]:
    """The offsets of the diagonals, highest first, and the length of each."""
    offsets = range(attrs.k2, attrs.k1 - 1, -1)
    return [(offset, min(rows + min(offset, 0), columns - max(offset, 0))) for offset in offsets]


def _diagonal_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, diagonal = tensor(args[0]), tensor(args[1])
    if len(data.shape) < 2:
        raise TypeCheckError("input must have at least two dimensions")
    if attrs.k1 > attrs.k2:
        raise TypeCheckError(f"the lowest diagonal {attrs.k1} must not be above the highest {attrs.k2}")
    *batch, rows, columns = data.shape
    band = () if attrs.k1 == attrs.k2 else (attrs.k2 - attrs.k1 + 1,)
    ranked(diagonal, len(batch) + len(band) + 1, "diagonal")
    for found, wanted in zip(diagonal.shape, (*batch, *band), strict=False):
        unify(found, wanted, "the sizes of diagonal and of what it is set in,")
    if isinstance(rows, int) and isinstance(columns, int):
        lengths = [length for _, length in _diagonals(attrs, rows, columns)]
        if min(lengths) < 1:
            raise TypeCheckError(f"diagonals {attrs.k1} to {attrs.k2} are not all in a matrix of {rows} x {columns}")
        unify(diagonal.shape[-1], max(lengths), "the lengths of diagonal and of the longest diagonal,")
    check_dtype(data, diagonal)
    return data


def _with_diagonals(attrs: Any, data: Any, diagonal: Any) -> Any:
    result, longest = data.copy(), diagonal.shape[-1]
    bands = diagonal[..., None, :] if attrs.k1 == attrs.k2 else diagonal
    for place, (offset, length) in enumerate(_diagonals(attrs, *data.shape[-2:])):
        right = attrs.super_diag_right_align if offset >= 0 else attrs.sub_diag_right_align
        begin = longest - length if right else 0
        steps = np.arange(length)
        result[..., steps + max(-offset, 0), steps + max(offset, 0)] = bands[..., place, begin : begin + length]
    return result


_matrix_set_diag = define(
    "matrix_set_diag",
    "input diagonal",
    Field("k1", "int", 0),
    Field("k2", "int", 0),
    Field("super_diag_right_align", "bool", True),
    Field("sub_diag_right_align", "bool", False),
    infer=_diagonal_type,
    kernel=_with_diagonals,
    kind=OpPattern.INJECTIVE,
)


def matrix_set_diag(data: Any, diagonal: Any, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT") -> Any:
    """Matrices (..., rows, columns) with other diagonals.

    Args:
        data: the matrices.
        diagonal: the elements (..., length) of the diagonal, or (..., number, length) of several, the highest first.
        k: which diagonal, counted from the main one to the right, or the lowest and the highest one.
        align: at which end shorter diagonals above and below the main one are padded: ``RIGHT`` ones at their begin.
    """
    lowest, highest = (k, k) if isinstance(k, int) else (k[0], k[-1])
    return _matrix_set_diag(data, diagonal, lowest, highest, align.startswith("RIGHT"), align.endswith("RIGHT"))


__all__ = ["dft", "matrix_set_diag", "sliding_window", "stft"]
