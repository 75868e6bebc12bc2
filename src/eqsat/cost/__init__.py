"""Cost models: what an e-node, a graph of them, and a kernel of several costs."""

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
