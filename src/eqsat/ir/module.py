"""The names that TVM's users take from ``tvm.ir.module``."""

from eqsat.relay.module import IRModule

__all__ = ["IRModule"]
