"""Quantized operators: ``relay.qnn.op.conv2d`` or, shorter, ``relay.qnn.conv2d``."""

from eqsat.relay.op.qnn import op as op
from eqsat.relay.op.qnn.op import *  # noqa: F403 - its list of operators

__all__ = ["op"]
__all__ += op.__all__
