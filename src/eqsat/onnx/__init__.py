"""ONNX models: read, write, optimize, verify.

What optimizing does not use is loaded on first use.

Needs the packages of the extra ``onnx``: ``pip install '.[onnx]'`` in a copy of the repository.
"""

from typing import TYPE_CHECKING, Any

from eqsat.errors import ModelError
from eqsat.lazy import load_name
from eqsat.onnx.without_sympy import load_without_sympy

try:
    import onnx as _onnx  # noqa: F401 - for the error when it is missing

    load_without_sympy()
except ImportError as error:
    raise ModelError(f"{error.name} is not installed: pip install onnx onnx-ir onnxruntime") from None

from eqsat.onnx.exporter import export_model
from eqsat.onnx.files import from_bytes, load, save, to_bytes
from eqsat.onnx.imported import Imported
from eqsat.onnx.importer import import_model
from eqsat.onnx.offer import Offer, finite_offer
from eqsat.onnx.optimize import Optimization, optimize, run
from eqsat.onnx.upgrade import at_opset

if TYPE_CHECKING:
    from eqsat.onnx.certificates import Models, Proved, certified, certify, check, proved
    from eqsat.onnx.culprits import bisect, blame
    from eqsat.onnx.equality import equal
    from eqsat.onnx.fixed_sizes import with_sizes
    from eqsat.onnx.hindrances import why_not
    from eqsat.onnx.latency import Latency, bench
    from eqsat.onnx.partitioning import Partitioning, merge, partition
    from eqsat.onnx.reasons import Why, why
    from eqsat.onnx.spellings import variants
    from eqsat.onnx.verification import Difference, Sensitivity, Verified, differing, verify

_MODULE_OF = {
    "Difference": "verification",
    "Latency": "latency",
    "Models": "certificates",
    "Partitioning": "partitioning",
    "Proved": "certificates",
    "Sensitivity": "verification",
    "Verified": "verification",
    "Why": "reasons",
    "bench": "latency",
    "bisect": "culprits",
    "blame": "culprits",
    "certified": "certificates",
    "certify": "certificates",
    "check": "certificates",
    "differing": "verification",
    "equal": "equality",
    "merge": "partitioning",
    "partition": "partitioning",
    "proved": "certificates",
    "variants": "spellings",
    "verify": "verification",
    "why": "reasons",
    "why_not": "hindrances",
    "with_sizes": "fixed_sizes",
}


def __getattr__(name: str) -> Any:
    """What is not loaded yet."""
    return load_name(__name__, _MODULE_OF, name)


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
