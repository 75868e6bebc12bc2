"""Front ends: formats of models that are read into the IR, such as ``relay.frontend.from_onnx``.

They are of higher layers, which add them by :func:`register_frontend`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_REGISTERED: dict[str, Callable[..., Any]] = {}

Frontend = TypeVar("Frontend", bound=Callable[..., Any])


def register_frontend(read: Frontend) -> Frontend:
    """Let a function that reads models be found as ``relay.frontend.<its name>``; a decorator."""
    _REGISTERED[read.__name__] = read
    return read


def __getattr__(name: str) -> Any:
    """A front end that a higher layer has registered."""
    try:
        return _REGISTERED[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
