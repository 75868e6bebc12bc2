"""Operators: ``relay.op.add``, ``relay.op.nn.conv2d`` and so on build calls."""

from eqsat.relay.op import nn as nn
from eqsat.relay.op import op as op
from eqsat.relay.op.op import get, register_op_attr
from eqsat.relay.op.tensor import add, divide, less, multiply, sqrt, subtract, tanh

__all__ = ["add", "divide", "get", "less", "multiply", "register_op_attr", "sqrt", "subtract", "tanh"]
