"""eqsat: equality saturation for tensor-compiler graphs, with Relay's pattern language."""

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from eqsat import _ffi as _ffi
from eqsat import (
    contrib,
    cost,
    error,
    errors,
    frontend,
    ir,
    nd,
    parser,
    relay,
    runtime,
    support,
    target,
    te,
    tir,
    transform,
)
from eqsat.composites.rules import composite_rules
from eqsat.egraph.report import Limits
from eqsat.errors import EqsatError
from eqsat.ir import instrument
from eqsat.layers.optimize import EqualitySaturation, optimize
from eqsat.nd import cpu, device
from eqsat.orders.compare import OrderComparison, compare_orders
from eqsat.pipeline.extract import Extraction, extract
from eqsat.pipeline.options import Options
from eqsat.pipeline.saturate import Saturation, saturate
from eqsat.registry import get_global_func, register_func
from eqsat.relay import IRModule

if TYPE_CHECKING:
    from eqsat import extraction as extraction
    from eqsat import onnx as onnx
    from eqsat import rules as rules
    from eqsat import torch as torch
    from eqsat.certificates.functions import certify, check
    from eqsat.equality.compare import equal
    from eqsat.equality.result import Equality
    from eqsat.spellings.walk import Variant, variants

    __version__: str

TVMError = EqsatError
"""The name that programs written for TVM catch."""

_LOADED_LATER = ("extraction", "onnx", "rules", "torch")
_NEEDS = {"onnx": "onnx_ir", "torch": "torch"}
"""What packages of extras need, without which they are not listed: to get them is an error."""

_IN_MODULES_LOADED_LATER = {
    "Equality": "equality.result",
    "Variant": "spellings.walk",
    "certify": "certificates.functions",
    "check": "certificates.functions",
    "equal": "equality.compare",
    "variants": "spellings.walk",
}


def __getattr__(name: str) -> Any:
    """What is loaded on first use: ``eqsat.onnx`` needs an extra, and all the rules take a while."""
    if name in _LOADED_LATER:
        return import_module(f"eqsat.{name}")
    if name == "__version__":
        return version("eqsat")
    if name in _IN_MODULES_LOADED_LATER:
        return getattr(import_module(f"eqsat.{_IN_MODULES_LOADED_LATER[name]}"), name)
    raise AttributeError(f"module 'eqsat' has no attribute {name!r}")


__all__ = [
    "EqsatError",
    "Equality",
    "EqualitySaturation",
    "Extraction",
    "IRModule",
    "Limits",
    "Options",
    "OrderComparison",
    "Saturation",
    "TVMError",
    "Variant",
    "certify",
    "check",
    "compare_orders",
    "composite_rules",
    "contrib",
    "cost",
    "cpu",
    "device",
    "equal",
    "error",
    "errors",
    "extract",
    "frontend",
    "get_global_func",
    "instrument",
    "ir",
    "nd",
    "optimize",
    "parser",
    "register_func",
    "relay",
    "runtime",
    "saturate",
    "support",
    "target",
    "te",
    "tir",
    "transform",
    "variants",
]


def __dir__() -> list[str]:
    """What is meant for users, loaded or not, and not every module of the package that happens to be loaded."""
    loaded_later = [name for name in _LOADED_LATER if name not in _NEEDS or find_spec(_NEEDS[name])]
    return sorted([*__all__, *loaded_later, "__version__"])
