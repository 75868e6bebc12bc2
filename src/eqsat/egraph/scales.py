"""Which floating-point numbers may be factors that constants make, or that move past other factors."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray as Array

BESIDE = 1 / 16
"""A shift beside which a scale may vanish: even the greatest number times the least one is 64 roundings of it."""


def is_scale(scale: Array[Any], shift: Array[Any] | None, dtype: np.dtype[Any]) -> bool:
    """Whether a product with numbers loses nothing where they are rounded to a dtype.

    They do not overflow, nor come near 0 without being 0, unless a shift is added, beside which the product is nothing.

    Args:
        scale: The numbers, in double precision or before they are rounded.
        shift: What is added to the product, if anything is.
        dtype: Of floating-point numbers.
    """
    size, limits = np.abs(scale.astype(np.float64)), finfo(dtype)
    fits = (size >= float(limits.tiny)) | (size == 0)
    if shift is not None:
        fits = fits | (np.abs(shift.astype(np.float64)) >= BESIDE)
    return bool(np.all(fits) and np.all(size <= float(limits.max)))


def is_moderate(scale: Array[Any]) -> bool:
    """Whether numbers are no floats, or their exponents are in the middle fourth of their dtype's (half of float16's).

    Scalars that are not moderate do not leave products: what they leave would overflow where the product does not.
    """
    if scale.dtype.kind in "iub":
        return True
    part = 0.5 if scale.dtype == np.float16 else 0.25
    limits, size = finfo(scale.dtype), np.abs(scale.astype(np.float64))
    return bool(np.all((size > float(limits.tiny) ** part) & (size < float(limits.max) ** part)))
