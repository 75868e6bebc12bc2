"""eqsat: equality saturation for tensor-compiler graphs, with Relay's pattern language."""

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
    extract,
    optimize,
    saturate,
)

TVMError = EqsatError
"""The name that programs written for TVM catch."""

__all__ = [
    "EqsatError",
    "Extraction",
    "IRModule",
    "Limits",
    "OrderComparison",
    "Saturation",
    "TVMError",
    "compare_orders",
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
