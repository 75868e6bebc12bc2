"""Immutable n-dimensional arrays, the data of constants, under the names TVM's users know."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class NDArray:
    """A read-only array that may be loaded on first use.

    Args:
        shape: extent of each axis; ``()`` for a scalar.
        dtype: NumPy's name of the element type, such as ``"float32"``.
        load: gives the data, of that shape and dtype; called at most once.
    """

    __slots__ = ("_data", "_digest", "_load", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str, load: Callable[[], np.ndarray[Any, Any]]):
        self.shape = shape
        self.dtype = dtype
        self._load = load
        self._data: np.ndarray[Any, Any] | None = None
        self._digest: bytes | None = None

    def numpy(self) -> np.ndarray[Any, Any]:
        """The data as a read-only NumPy array."""
        if self._data is None:
            view = self._load().view()
            view.flags.writeable = False
            self._data = view
        return self._data

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return self.size * np.dtype(self.dtype).itemsize

    def digest(self) -> bytes:
        """16 bytes that are equal for arrays of equal dtype, shape and raw bytes."""
        if self._digest is None:
            state = hashlib.blake2b(f"{self.dtype}{self.shape}".encode(), digest_size=16)
            state.update(np.ascontiguousarray(self.numpy()).reshape(-1).view(np.uint8).data)
            self._digest = state.digest()
        return self._digest

    def __repr__(self) -> str:
        return f"NDArray(shape={self.shape}, dtype={self.dtype!r})"


def array(data: ArrayLike | NDArray) -> NDArray:
    """Wrap ``data``; its dtype is kept. The array must not be written to afterwards."""
    if isinstance(data, NDArray):
        return data
    values = np.asarray(data)
    return NDArray(values.shape, values.dtype.name, lambda: values)
