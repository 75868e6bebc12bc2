"""InferType: every function of the module with its types."""

from __future__ import annotations

from eqsat.relay.infer import infer_module
from eqsat.relay.transform.base import Pass, PassInfo


def InferType() -> Pass:
    """Infer types: ``checked_type`` on every node, annotations on parameters, result types on functions."""
    return Pass(lambda mod, context: infer_module(mod), PassInfo(0, "InferType"))
