"""Branches whose results could not be used are never taken."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from .models import operators, optimized, parsed

SQUEEZED = """s = Shape (x) d = Gather (s, last) c = Equal (d, one)
    u = If (c) <
        then_branch = t () => (p) { p = Squeeze (x, last) },
        else_branch = e () => (q) { q = Identity (x) }
    >"""
"""Rank 2 or 3, by the last dimension of x."""


def lstm(middle: str, user: str = "LSTM <hidden_size = 4>") -> onnx.ModelProto:
    """A recurrent network of what ``middle`` makes of x."""
    proto = parsed(f"(float[B,3,N] x) => (y) {{ {middle} n = Unsqueeze (u, first) y = {user} (n, w, r) }}")
    random = np.random.default_rng(0)
    values = {"first": np.int64([0]), "last": np.int64([-1]), "one": np.int64([1]), "two": np.int64(2)}
    values |= {"w": random.standard_normal((1, 16, 3)), "r": random.standard_normal((1, 16, 4))}
    for name, value in values.items():
        array = value if value.dtype == np.int64 else value.astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return proto


def test_the_branch_that_fits_is_taken() -> None:
    before = lstm(SQUEEZED)
    after = optimized(before)
    assert "If" not in operators(after.graph)
    x = np.random.default_rng(0).standard_normal((5, 3, 1)).astype(np.float32)
    (a,), (b,) = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"x": x}) for m in (before, after))
    np.testing.assert_array_equal(a, b)


def test_other_conditions_follow_from_it() -> None:
    """A network whose states fit only where it is told that the data has a batch; then the data must have one."""
    middle = SQUEEZED.replace("u = If", "v = If")
    told = """k = Size (t) z = Equal (k, two) o = Not (z)
        u = If (o) <
            then_branch = a () => (i) { i = Unsqueeze (v, first) },
            else_branch = b () => (j) { j = Identity (v) }
        >
        h = If (o) <
            then_branch = f () => (k1) { k1 = Unsqueeze (state, first) },
            else_branch = g () => (k2) { k2 = Identity (state) }
        >"""
    proto = lstm(f"{middle} t = Shape (v) {told} m = Unsqueeze (h, first)")
    proto.graph.node[-1].input.extend(["", "", "m", "m"])
    proto.graph.input.append(onnx.helper.make_tensor_value_info("state", onnx.TensorProto.FLOAT, ["B", 4]))
    after = optimized(proto)
    assert "If" not in operators(after.graph)
    assert operators(after.graph)["LSTM"] == 1


def test_an_operator_that_takes_any_rank_decides_nothing() -> None:
    proto = lstm(SQUEEZED, "Max")
    assert operators(optimized(proto).graph)["If"] == 1


def test_a_user_in_a_branch_decides_nothing_outside() -> None:
    """It may not run."""
    inner = "then_branch = a () => (i) { n = Unsqueeze (u, first) i = LSTM <hidden_size = 4> (n, w, r) }"
    proto = parsed(
        f"(float[B,3,N] x, bool b, float[1,16,3] w, float[1,16,4] r) => (y) {{ {SQUEEZED}"
        f" y = If (b) <{inner}, else_branch = z () => (j) {{ j = Neg (u) }}> }}"
    )
    for name, value in (("first", 0), ("last", -1), ("one", 1)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.int64([value]), name))
    assert operators(optimized(proto).graph)["If"] == 2
