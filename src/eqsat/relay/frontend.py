"""Front ends: formats of models that are read into the IR, such as ``relay.frontend.from_onnx``.

They are of higher layers, which add them by :func:`register_frontend`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from eqsat.registry import get_global_func, register_func

Frontend = TypeVar("Frontend", bound=Callable[..., Any])


def register_frontend(read: Frontend) -> Frontend:
    """Let a function that reads models be found as ``relay.frontend.<its name>``; a decorator."""
    register_func(f"relay.frontend.{read.__name__}", read, override=True)
    return read


def __getattr__(name: str) -> Any:
    """A front end that a higher layer has registered."""
    read = None if name.startswith("__") else get_global_func(f"relay.frontend.{name}", allow_missing=True)
    if read is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return read
