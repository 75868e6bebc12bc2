"""What rules move through a deep graph link by link reaches its end in few iterations."""

from __future__ import annotations

import numpy as np

import eqsat
from eqsat import relay
from eqsat.egraph.report import Report
from eqsat.relay import nn


def saturated(depth: int) -> Report:
    """Saturate a view of the sum of many layers, through each of which the view can move."""
    rng = np.random.default_rng(0)
    found = relay.var("x", shape=(1, 16, 8))
    for _ in range(depth):
        weight = relay.const(rng.random((8, 8), dtype="float32"))
        found = nn.relu(nn.matmul(found, weight) + found)
    return eqsat.saturate(relay.reshape(found, (1, 4, 4, 8))).report


def test_iterations_do_not_grow_with_the_depth_that_a_view_moves_through() -> None:
    shallow, deep = saturated(20), saturated(60)
    assert shallow.stop_reason == deep.stop_reason == "saturated"
    assert len(deep.iterations) <= len(shallow.iterations) + 4
