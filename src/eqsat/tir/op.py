"""The operators, under the name of ``tvm.tir.op``."""

from eqsat.relay.expr import Op

__all__ = ["Op"]
