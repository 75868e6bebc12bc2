"""Initial states of zeros are left out, others are kept."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from .models import operators, optimized, parsed


def recurrent(state: str) -> onnx.ModelProto:
    """A GRU of five steps; ``state`` makes its initial state, ``h``, from the sound ``x``."""
    proto = parsed(
        f"""(float[5,batch,3] x) => (float[5,1,batch,4] y)
            <float zero = {{0.0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] four = {{4}}>
        {{
            sizes = Shape (x)
            batch_size = Slice (sizes, one, two)
            shape = Concat <axis = 0> (one, batch_size, four)
            {state}
            y = GRU <hidden_size = 4> (x, w, r, , , h)
        }}"""
    )
    random = np.random.default_rng(0)
    for name, shape in {"w": (1, 12, 3), "r": (1, 12, 4)}.items():
        proto.graph.initializer.append(numpy_helper.from_array(random.standard_normal(shape).astype("f4"), name))
    return proto


def results(proto: onnx.ModelProto) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(1).standard_normal((5, 2, 3)).astype("f4")})[0]


@pytest.mark.parametrize(
    "state",
    [
        "h = ConstantOfShape (shape)",
        "h = Expand (zero, shape)",
        "more = Concat <axis = 0> (two, batch_size, four) both = ConstantOfShape (more) h = Slice (both, one, two)",
    ],
)
def test_a_state_of_zeros_is_left_out(state: str) -> None:
    before = recurrent(state)
    after = optimized(before)
    assert operators(after.graph) == {"GRU": 1}
    assert not any(after.graph.node[0].input[3:])
    np.testing.assert_array_equal(results(after), results(before))


def test_another_state_is_kept() -> None:
    before = recurrent("h = ConstantOfShape <value = float[1] {0.5}> (shape)")
    after = optimized(before)
    assert operators(after.graph)["GRU"] == 1
    assert len(after.graph.node) > 1
    np.testing.assert_allclose(results(after), results(before), rtol=1e-6)
