"""Elementwise and broadcasting operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.relay.op.op import OpPattern, define
from eqsat.relay.op.types import broadcast, compare, same_type

ELEMWISE, BROADCAST = OpPattern.ELEMWISE, OpPattern.BROADCAST


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel without attributes."""
    return lambda attrs, *arrays: function(*arrays)


sqrt = define("sqrt", "data", infer=same_type, kernel=_plain(np.sqrt), kind=ELEMWISE, onnx="Sqrt")
tanh = define("tanh", "data", infer=same_type, kernel=_plain(np.tanh), kind=ELEMWISE, onnx="Tanh")
add = define("add", "lhs rhs", infer=broadcast, kernel=_plain(np.add), kind=BROADCAST, onnx="Add")
subtract = define("subtract", "lhs rhs", infer=broadcast, kernel=_plain(np.subtract), kind=BROADCAST, onnx="Sub")
multiply = define("multiply", "lhs rhs", infer=broadcast, kernel=_plain(np.multiply), kind=BROADCAST, onnx="Mul")
divide = define("divide", "lhs rhs", infer=broadcast, kernel=_plain(np.divide), kind=BROADCAST, onnx="Div")
less = define("less", "lhs rhs", infer=compare, kernel=_plain(np.less), kind=BROADCAST, onnx="Less")
