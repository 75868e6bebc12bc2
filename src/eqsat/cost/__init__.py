"""Cost models: functions that return the cost of one e-node, or of a kernel of several e-nodes."""

from eqsat.cost.devices import Device
from eqsat.cost.measured import Measured
from eqsat.cost.models import Bytes, CostFunction, CostModel, CostNode, Flops, OpCount, Roofline, Storage, ties_of

__all__ = [
    "Bytes",
    "CostFunction",
    "CostModel",
    "CostNode",
    "Device",
    "Flops",
    "Measured",
    "OpCount",
    "Roofline",
    "Storage",
    "ties_of",
]
