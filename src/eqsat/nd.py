"""Immutable n-dimensional arrays, the data of constants, under the names TVM's users know."""

from __future__ import annotations

import hashlib
import math
import mmap
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from eqsat.errors import ArgumentError
from eqsat.immutable import Immutable

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
"""The upper half of float32, which NumPy knows by name, but its functions for floats know little of."""


class NDArray(Immutable):
    """A read-only array that may be loaded on first use.

    Args:
        shape: The size of each axis; ``()`` for a scalar.
        dtype: NumPy's name of the element type, such as ``"float32"``.
        load: A function that returns the data, with that shape and dtype.
        is_kept: Whether loaded data is kept. Otherwise it is released when nothing uses it, and loaded again on demand.

    Attributes:
        shape, dtype: As above.
        nbytes: Bytes of the data.
    """

    __slots__ = ("_data", "_digest", "_few", "_is_kept", "_load", "_seen", "dtype", "nbytes", "shape")

    def __init__(
        self, shape: tuple[int, ...], dtype: str, load: Callable[[], np.ndarray[Any, Any]], is_kept: bool = True
    ):
        self.shape = shape
        self.dtype = dtype
        self.nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        self._load = load
        self._is_kept = is_kept
        self._data: np.ndarray[Any, Any] | None = None
        self._seen: weakref.ref[np.ndarray[Any, Any]] | None = None
        self._digest: bytes | None = None
        self._few: np.ndarray[Any, Any] | None = None

    def numpy(self) -> np.ndarray[Any, Any]:
        """The data as a read-only NumPy array."""
        data = self._data if self._seen is None else self._seen()
        if data is None:
            data = self._load().view()
            data.flags.writeable = False
            if self._is_kept:
                self._data = data
            else:
                self._seen = weakref.ref(data)
        return data

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    @property
    def device(self) -> Device:
        """Where the array is kept."""
        return cpu()

    def same_as(self, other: object) -> bool:
        """Whether ``other`` is this very array."""
        return self is other

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def few(self) -> np.ndarray[Any, Any]:
        """At most 128 elements from all over the array; it is not loaded again for them."""
        if self._few is None:
            data = self.numpy()
            with _read_here_and_there(data):
                self._few = data.flat[:: max(1, self.size // 64)]
        return self._few

    def has_data_of(self, other: NDArray) -> bool:
        """Whether both have the same dtype, shape and raw bytes."""
        if self is other:
            return True
        if (self.dtype, self.shape) != (other.dtype, other.shape) or self.few.tobytes() != other.few.tobytes():
            return False
        if self._digest is not None and other._digest is not None:
            return self._digest == other._digest
        return np.array_equal(bits(self.numpy()), bits(other.numpy()))

    def digest(self) -> bytes:
        """16 bytes that are equal for arrays of equal dtype, shape and raw bytes."""
        if self._digest is None:
            state = hashlib.blake2b(f"{self.dtype}{self.shape}".encode(), digest_size=16)
            state.update(np.ascontiguousarray(self.numpy()).reshape(-1).view(np.uint8).data)
            self._digest = state.digest()
        return self._digest

    def __reduce__(self) -> Any:
        return array, (self.numpy(),)

    @property
    def brief(self) -> str:
        """The value of a scalar that is in memory, otherwise the type."""
        if self.shape == () and self._data is not None:
            return str(self._data)
        return f"{self.dtype}{list(self.shape)}"

    def __repr__(self) -> str:
        return f"NDArray(shape={self.shape}, dtype={self.dtype!r})"


@contextmanager
def _read_here_and_there(array: np.ndarray[Any, Any]) -> Iterator[None]:
    """Until the block ends, a system reads of a file that is mapped what is used, not what lies behind it, too."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    can_be_told = isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_RANDOM")
    if can_be_told:
        owner.madvise(mmap.MADV_RANDOM)
    yield
    if can_be_told:
        owner.madvise(mmap.MADV_NORMAL)


def bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of the elements of an array, as integers: a view of it where there are such."""
    size = array.dtype.itemsize
    return array.view(f"u{size}") if size in (1, 2, 4, 8) else np.ascontiguousarray(array).view(np.uint8)


class Device(NamedTuple):
    """Where an array is kept. Arrays of eqsat are in the memory of the host, whichever CPU is named."""

    device_type: str
    device_id: int

    def __str__(self) -> str:
        return f"{self.device_type}({self.device_id})"


def cpu(dev_id: int = 0) -> Device:
    """Return a CPU device."""
    return Device("cpu", dev_id)


def device(dev: str, dev_id: int = 0) -> Device:
    """Return a device by its name.

    Raises:
        ArgumentError: The device is not a CPU.
    """
    if dev not in ("cpu", "llvm"):
        raise ArgumentError(f"there is no device {dev!r}: arrays are kept by the CPU; use cpu()")
    return cpu(dev_id)


def array(data: ArrayLike | NDArray, device: Device | None = None) -> NDArray:
    """Return ``data`` as an NDArray with the same dtype. The array ``data`` must not be changed afterwards.

    Args:
        data: An array, or anything that NumPy converts to an array.
        device: A CPU device; it has no effect.

    Raises:
        ArgumentError: ``device`` is not a CPU.
    """
    if device is not None and not isinstance(device, Device):
        raise ArgumentError(f"a device is what cpu() gives, not {device!r}")
    if isinstance(data, NDArray):
        return data
    values = np.asarray(data)
    made = NDArray(values.shape, _name_of(values.dtype), lambda: values)
    made.numpy()  # there is nothing to load
    return made


@lru_cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, which NumPy puts together anew each time."""
    return dtype.name
