"""The names that TVM's users take from ``tvm.tir``."""

from eqsat.relay.ty import Any, IntImm

__all__ = ["Any", "IntImm"]
