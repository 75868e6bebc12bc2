"""The error that programs catch, and text of bytes, under the names of ``tvm._ffi.base``."""

from __future__ import annotations

from eqsat.errors import EqsatError

TVMError = EqsatError


def py_str(data: bytes) -> str:
    """Return bytes in UTF-8 as text."""
    return data.decode("utf-8")


__all__ = ["TVMError", "py_str"]
