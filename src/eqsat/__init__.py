"""eqsat: equality saturation for tensor-compiler graphs, with Relay's pattern language.

Submodules are loaded on first use, because loading all of them takes a while.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from eqsat import registry as _registry
from eqsat.collector import paused_gc as _paused_gc
from eqsat.lazy import load_name as _load_name

if TYPE_CHECKING:
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
    from eqsat import extraction as extraction
    from eqsat import onnx as onnx
    from eqsat import rules as rules
    from eqsat import torch as torch
    from eqsat.certificates.functions import certify, check
    from eqsat.composites.rules import composite_rules
    from eqsat.egraph.report import Limits
    from eqsat.equality.compare import equal
    from eqsat.equality.result import Equality
    from eqsat.error import TVMError
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
    from eqsat.spellings.walk import Variant, variants

    __version__: str

_MODULE_OF = {
    "EqsatError": "errors",
    "Equality": "equality.result",
    "EqualitySaturation": "layers.optimize",
    "Extraction": "pipeline.extract",
    "IRModule": "relay",
    "Limits": "egraph.report",
    "Options": "pipeline.options",
    "OrderComparison": "orders.compare",
    "Saturation": "pipeline.saturate",
    "TVMError": "error",
    "Variant": "spellings.walk",
    "certify": "certificates.functions",
    "check": "certificates.functions",
    "compare_orders": "orders.compare",
    "composite_rules": "composites.rules",
    "cpu": "nd",
    "device": "nd",
    "equal": "equality.compare",
    "extract": "pipeline.extract",
    "get_global_func": "registry",
    "instrument": "ir",
    "optimize": "layers.optimize",
    "register_func": "registry",
    "saturate": "pipeline.saturate",
    "variants": "spellings.walk",
}
"""Where the names are that are no modules."""

_PACKAGES = ("extraction", "onnx", "rules", "torch")
_NEEDS = {"onnx": "onnx_ir", "torch": "torch"}
"""What packages of extras need, without which they are not listed: to get them is an error."""

_registry.register_later("eqsat.frontend", "relay.frontend.from_onnx")
_registry.register_later("eqsat.layers.optimize", "relay.transform.EqualitySaturation")
_registry.register_later("eqsat.relay.standard", "ir.Module_ImportFromStd")
_registry.register_later(
    "eqsat.relay.op.contrib.cmsisnn",
    "relay.ext.cmsisnn.transform.CMSISNNFusePads",
    "relay.ext.cmsisnn.transform.ExtractConstantsFromPartitionedFunction",
    "relay.ext.cmsisnn.transform.GenerateCMSISNNConstants",
    "relay.ext.cmsisnn.transform.GetEffectiveConv2DPadding",
    "relay.ext.cmsisnn.transform.ScalarToTensorConstants",
)


def __getattr__(name: str) -> Any:
    """What is not loaded yet: a module of the package, or what one defines."""
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = value = version("eqsat")
        return value
    is_module = name not in _MODULE_OF and not name.startswith("__") and find_spec(f"eqsat.{name}") is not None
    with _paused_gc():  # what is loaded stays
        return _load_name(__name__, {name: name} if is_module else _MODULE_OF, name)


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
    loaded_later = [name for name in _PACKAGES if name not in _NEEDS or find_spec(_NEEDS[name])]
    return sorted([*__all__, *loaded_later, "__version__"])
