"""Loading onnx_ir without SymPy, which takes longer to load than all else that an optimization needs.

onnx_ir computes with sizes that have names by SymPy. What only reads and writes models never does.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

_NAME = "sympy"

_ONLY_CALLED = ("Max", "Min", "Mod", "floor", "sqrt")
"""What onnx_ir puts into a table when it is loaded, and calls when it reads a size that is an expression."""


class _LoadedWhenUsed(ModuleType):
    """What stands for SymPy in a module: the first use of it loads it."""

    def __getattr__(self, name: str) -> Any:
        is_loading = sys.modules.get(_NAME) is self
        if is_loading and name in _ONLY_CALLED:
            return partial(_call, name)
        _step_aside(self)
        return getattr(import_module(_NAME), name)


def _call(function: str, *arguments: Any) -> Any:
    return getattr(import_module(_NAME), function)(*arguments)


def _step_aside(module: ModuleType) -> None:
    """Let an import of SymPy find SymPy."""
    if sys.modules.get(_NAME) is module:
        del sys.modules[_NAME]


def load_without_sympy() -> None:
    """Import onnx_ir; if that was the first to import SymPy, it is loaded as late as onnx_ir uses it.

    Raises:
        ImportError: There is no onnx_ir.
    """
    if _NAME in sys.modules or "onnx_ir" in sys.modules:
        import_module("onnx_ir")
        return
    later = sys.modules[_NAME] = _LoadedWhenUsed(_NAME)
    try:
        import_module("onnx_ir")
    finally:
        _step_aside(later)
