"""A whole model is predicted to take what its kernels take together."""

from __future__ import annotations

import onnx
import pytest

import eqsat.onnx
from eqsat.calibration import predicted
from eqsat.cost import CostNode

PER_ELEMENT = 2.0


def by_elements(node: CostNode) -> float:
    """A number for each element of a sigmoid or tanh, and nothing of others."""
    shape = getattr(node.type, "concrete_shape", (0,)) if node.op in ("sigmoid", "tanh") and node.runs else (0,)
    count = 1.0
    for size in shape:
        count *= size
    return PER_ELEMENT * count


def sized(node: CostNode) -> float:
    """As :func:`by_elements`, nothing where a size is not known."""
    return 0.0 if any(not isinstance(dim, int) for dim in getattr(node.type, "shape", ())) else by_elements(node)


def test_either_branch_of_an_if_runs_half_of_the_time() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (bool c, float[8] x) => (float[8] y) {
            t = Tanh (x)
            y = If (c) <
                then_branch = a () => (float[8] p) { u = Tanh (t) p = Sigmoid (u) },
                else_branch = b () => (float[8] q) { q = Sigmoid (t) }
            >
        }"""
    )
    assert predicted(eqsat.onnx.load(model), by_elements) == PER_ELEMENT * 8 * (1 + (2 + 1) / 2)


@pytest.mark.parametrize(("sizes", "elements"), [({"n": 3}, 3 + 4 * 3), ({}, 0)])
def test_sizes_behind_a_resize_are_found_in_a_model_with_known_inputs(sizes: dict[str, int], elements: int) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1, 1, 1, n] x) => (float[1, 1, 1, m] z)
            <float[4] scales = {1, 1, 1, 4}> {
            y = Tanh (x)
            r = Resize (y, , scales)
            z = Sigmoid (r)
        }"""
    )
    assert predicted(eqsat.onnx.load(model), sized, sizes=sizes) == PER_ELEMENT * elements
