"""eqsat: equality saturation for tensor-compiler graphs, with Relay's pattern language."""

from eqsat import nd, relay
from eqsat.errors import EqsatError
from eqsat.relay import IRModule

TVMError = EqsatError
"""The name that programs written for TVM catch."""

__all__ = ["EqsatError", "IRModule", "TVMError", "nd", "relay"]
