"""eqsat: equality saturation for tensor-compiler graphs, with Relay's pattern language."""

from importlib import import_module
from typing import Any

from eqsat import ir, nd, parser, relay, tir, transform
from eqsat.errors import EqsatError
from eqsat.registry import get_global_func, register_func
from eqsat.relay import IRModule
from eqsat.stages import (
    Extraction,
    Limits,
    OrderComparison,
    Saturation,
    compare_orders,
    composite_rules,
    extract,
    optimize,
    saturate,
)

TVMError = EqsatError
"""The name that programs written for TVM catch."""


def __getattr__(name: str) -> Any:
    """Packages that are loaded on first use: ``eqsat.onnx`` needs an extra, and all the rules take a while."""
    if name in ("extraction", "onnx", "rules"):
        return import_module(f"eqsat.{name}")
    raise AttributeError(f"module 'eqsat' has no attribute {name!r}")


__all__ = [
    "EqsatError",
    "Extraction",
    "IRModule",
    "Limits",
    "OrderComparison",
    "Saturation",
    "TVMError",
    "compare_orders",
    "composite_rules",
    "extract",
    "get_global_func",
    "ir",
    "nd",
    "optimize",
    "parser",
    "register_func",
    "relay",
    "saturate",
    "tir",
    "transform",
]
