"""Neural-network operators."""

from __future__ import annotations

import numpy as np

from eqsat.relay.op.op import OpPattern, define
from eqsat.relay.op.types import same_type

relu = define(
    "nn.relu",
    "data",
    infer=same_type,
    kernel=lambda attrs, data: np.maximum(data, data.dtype.type(0)),
    kind=OpPattern.ELEMWISE,
    onnx="Relu",
)
