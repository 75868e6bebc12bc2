"""What the choice of a kernel depends on, under the names of ``tvm.relay.op.strategy``."""

from eqsat.relay.op.strategy import generic

__all__ = ["generic"]
