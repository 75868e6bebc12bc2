"""Runtimes, and what each of them computes as one kernel.

The kernels of a runtime are a pattern table, of the kind that the partitioner takes. Its entries compete in
extraction: what an entry matches may be chosen as one kernel.
"""

from __future__ import annotations

from eqsat.cost.models import CostNode
from eqsat.errors import ArgumentError
from eqsat.relay.expr import Op
from eqsat.relay.op.contrib import onnxruntime, openvino
from eqsat.relay.transform.merge_composite import PatternTable
from eqsat.relay.ty import TensorType

NO_RUNTIME = "none"
"""The runtime of those who do not say which runs the graph: each written node is a kernel."""

CONTRIB = ("onnxruntime",)
"""The runtimes that have the operators of com.microsoft."""

LEVELS = {"onnxruntime": ("off", "basic", "extended", "all"), "openvino": ("all",)}
"""Name of a runtime that models are measured in -> the levels of its own optimizer, the highest last."""

ALL_LEVELS = tuple(dict.fromkeys(level for levels in LEVELS.values() for level in levels))
"""Those of any runtime."""

RUNTIMES: dict[str, PatternTable] = {
    NO_RUNTIME: (),
    "onnxruntime": onnxruntime.pattern_table(),
    "openvino": openvino.pattern_table(),
}
"""Name of a runtime -> the pattern table of its kernels."""


def computes(runtime: str, node: CostNode) -> bool:
    """Tell whether a runtime has a kernel for the element type of what an operator gives."""
    op = Op.find(node.op)
    lacks = None if op is None else op.get_attr(f"lacks.{runtime}")
    return lacks is None or not isinstance(node.type, TensorType) or node.type.dtype not in lacks


def kernels_of(runtime: str) -> PatternTable:
    """Return the pattern table of a runtime's kernels.

    Raises:
        ArgumentError: there is no such runtime.
    """
    if runtime not in RUNTIMES:
        raise ArgumentError(f"there is no runtime {runtime!r}; known are {', '.join(RUNTIMES)}")
    return RUNTIMES[runtime]
