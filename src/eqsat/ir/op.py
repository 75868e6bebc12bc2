"""The names that TVM's users take from ``tvm.ir.op``."""

from eqsat.relay.expr import Op
from eqsat.relay.op.op import register_op_attr

__all__ = ["Op", "register_op_attr"]
