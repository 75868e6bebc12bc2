"""What is registered as ``relay.ir.<name>``, read as ``_ffi_api.<name>``: what the libraries of a target know of it.

A pattern table asks ``_ffi_api.get_optimal_layout_for_conv(…)``, for example, where oneDNN answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqsat.registry import get_global_func


def __getattr__(name: str) -> Callable[..., Any]:
    function = None if name.startswith("__") else get_global_func(f"relay.ir.{name}", allow_missing=True)
    if function is None:
        raise AttributeError(f"no function is registered as 'relay.ir.{name}': register it by eqsat.register_func")
    return function
