"""ONNX models: read, write, optimize, verify.

What optimizing does not use is loaded on first use.

Needs the packages of the extra ``onnx``: ``pip install '.[onnx]'`` in a copy of the repository.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eqsat.errors import ModelError
from eqsat.onnx.without_sympy import load_without_sympy

try:
    import onnx as _onnx  # noqa: F401 - for the error when it is missing

    load_without_sympy()
except ImportError as error:
    raise ModelError(f"{error.name} is not installed: pip install onnx onnx-ir onnxruntime") from None

from eqsat.onnx.blame import bisect, blame
from eqsat.onnx.exporter import export_model
from eqsat.onnx.files import from_bytes, load, save, to_bytes
from eqsat.onnx.fixed_sizes import with_sizes
from eqsat.onnx.imported import Imported
from eqsat.onnx.importer import import_model
from eqsat.onnx.offer import Offer, finite_offer
from eqsat.onnx.optimize import Optimization, optimize, run
from eqsat.onnx.partition import Partitioning, merge, partition
from eqsat.onnx.upgrade import at_opset
from eqsat.onnx.verify import Difference, Sensitivity, Verified, differing, verify
from eqsat.onnx.why import Why, why
from eqsat.onnx.why_not import why_not

if TYPE_CHECKING:
    from eqsat.onnx.certificates import Models, Proved, certified, certify, check, proved
    from eqsat.onnx.equality import equal
    from eqsat.onnx.latency import Latency, bench
    from eqsat.onnx.spellings import variants

_MODULE_OF = {
    "Latency": "latency",
    "Models": "certificates",
    "Proved": "certificates",
    "bench": "latency",
    "certified": "certificates",
    "certify": "certificates",
    "check": "certificates",
    "equal": "equality",
    "proved": "certificates",
    "variants": "spellings",
}


def __getattr__(name: str) -> Any:
    """What is not loaded yet."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'eqsat.onnx' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"eqsat.onnx.{_MODULE_OF[name]}"), name)
    return value


__all__ = [
    "Difference",
    "Imported",
    "Latency",
    "Models",
    "Offer",
    "Optimization",
    "Partitioning",
    "Proved",
    "Sensitivity",
    "Verified",
    "Why",
    "at_opset",
    "bench",
    "bisect",
    "blame",
    "certified",
    "certify",
    "check",
    "differing",
    "equal",
    "export_model",
    "finite_offer",
    "from_bytes",
    "import_model",
    "load",
    "merge",
    "optimize",
    "partition",
    "proved",
    "run",
    "save",
    "to_bytes",
    "variants",
    "verify",
    "why",
    "why_not",
    "with_sizes",
]
