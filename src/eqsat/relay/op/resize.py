"""Interpolation along axes: every output element is a weighted sum of a few input elements per axis.

Coordinates as in ONNX's ``Resize``; scales are the quotients of the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.relay.op.shape import spread

_EPSILON = 1e-5  # keeps floor and ceil off rounding errors of the coordinates


def resize_array(
    data: Any,
    sizes: Sequence[int],
    method: str,
    mode: str,
    *,
    rounding: str = "",
    cubic_alpha: float = -0.5,
    exclude_outside: bool = False,
    roi: Sequence[float] | None = None,
    outside: float = 0.0,
) -> Any:
    """``data`` (N, C, spatial...) with its spatial axes resized to ``sizes``.

    Args:
        data: the array.
        sizes: the new spatial sizes.
        method: ``nearest_neighbor``, ``linear`` or ``cubic``.
        mode: one of :data:`COORDINATES`.
        rounding: for nearest, one of :data:`ROUNDINGS`; ``""`` is ``round`` for align_corners, else ``floor``.
        cubic_alpha: the coefficient of cubic interpolation.
        exclude_outside: whether cubic weights beyond the ends are dropped and the others scaled up.
        roi: for ``tf_crop_and_resize``, the begins and then the ends, from 0 to 1, of the spatial axes or of all
            axes of ``data``; all of it when there are none but zeros.
        outside: for ``tf_crop_and_resize``, the value where the region of interest leaves the data.

    Returns:
        float64 for methods that interpolate, else the data's dtype.
    """
    beyond = np.zeros((1,) * data.ndim, bool)
    for axis, size in enumerate(sizes, 2):
        dim = data.shape[axis]
        window = (0.0, 1.0)
        if mode == "tf_crop_and_resize" and roi and any(roi):
            count = len(roi) // 2
            window = (roi[axis - data.ndim - count], roi[axis - data.ndim])
        places = COORDINATES[mode](np.arange(size), dim, size, *window)
        if mode == "tf_crop_and_resize":
            beyond = beyond | spread((places < 0) | (places > dim - 1), axis, data.ndim)
        if method == "nearest_neighbor":
            chosen = ROUNDINGS[rounding or ("round" if mode == "align_corners" else "floor")](places)
            data = np.take(data, np.clip(chosen, 0, dim - 1).astype(np.int64), axis)
        elif size != dim or not np.array_equal(places, np.arange(dim)):
            data = _interpolate(data, axis, places, method, cubic_alpha, exclude_outside)
    return np.where(beyond, outside, data) if beyond.any() else data


def _interpolate(data: Any, axis: int, places: Any, method: str, alpha: float, exclude: bool) -> Any:
    dim = data.shape[axis]
    base = np.floor(places)
    offsets = (0, 1) if method == "linear" else (-1, 0, 1, 2)
    taps = [base + offset for offset in offsets]
    weights = [_weight(np.abs(places - tap), method, alpha) for tap in taps]
    if exclude and method == "cubic":
        weights = [np.where((tap < 0) | (tap >= dim), 0, weight) for tap, weight in zip(taps, weights, strict=True)]
        total = sum(weights)
        weights = [weight / total for weight in weights]
    result = 0.0
    for tap, weight in zip(taps, weights, strict=True):
        values = np.take(data, np.clip(tap, 0, dim - 1).astype(np.int64), axis)
        result = result + values * spread(weight, axis, data.ndim)
    return result


def _weight(distance: Any, method: str, alpha: float) -> Any:
    if method == "linear":
        return np.maximum(1 - distance, 0)
    near = ((alpha + 2) * distance - (alpha + 3)) * distance * distance + 1
    far = ((alpha * distance - 5 * alpha) * distance + 8 * alpha) * distance - 4 * alpha
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _crop_and_resize(x: Any, dim: int, size: int, begin: float, end: float) -> Any:
    if size == 1:
        return np.full(1, 0.5 * (begin + end) * (dim - 1))
    return begin * (dim - 1) + x * ((end - begin) * (dim - 1) / (size - 1))


COORDINATES: dict[str, Callable[[Any, int, int, float, float], Any]] = {
    "align_corners": lambda x, dim, size, *roi: x * ((dim - 1) / max(size - 1, 1)),
    "asymmetric": lambda x, dim, size, *roi: x * (dim / size),
    "half_pixel": lambda x, dim, size, *roi: (x + 0.5) * (dim / size) - 0.5,
    "pytorch_half_pixel": lambda x, dim, size, *roi: ((x + 0.5) * (dim / size) - 0.5) if size > 1 else 0.0 * x,
    "tf_crop_and_resize": _crop_and_resize,
    "tf_half_pixel_for_nn": lambda x, dim, size, *roi: (x + 0.5) * (dim / size),
}
"""From output positions to input coordinates: positions, input size, output size, region of interest."""

ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "ceil": lambda places: np.ceil(places - _EPSILON),
    "floor": lambda places: np.floor(places + _EPSILON),
    "round": np.rint,
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
    "round_prefer_floor": lambda places: np.ceil(places - 0.5),
}
