"""Verification: random inputs that fit, and differences that are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from eqsat.errors import ModelError
from eqsat.onnx import Difference, verify
from eqsat.onnx.feeds import Setting, runnable_inputs
from eqsat.onnx.files import from_proto
from eqsat.onnx.sizes import demanded_sizes
from eqsat.onnx.verification import compare

from .models import parsed


def differences(before: str, after: str, **options: int) -> list[tuple[str, float]]:
    """Each output's relative difference."""
    found = verify(from_proto(parsed(before)), from_proto(parsed(after)), **options)
    return [(difference.output, difference.relative) for difference in found]


def test_equal_models_do_not_differ() -> None:
    graph = "(float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,4] w) { y = Add (x, z) w = Exp (x) }"
    assert differences(graph, graph) == [("y", 0.0), ("w", 0.0)]


def test_a_difference_is_told_for_the_output_that_has_it() -> None:
    before = "(float[4] x) => (float[4] y, float[4] w) { y = Abs (x) w = Exp (x) }"
    after = "(float[4] x) => (float[4] y, float[4] w) { y = Relu (x) w = Exp (x) }"
    (y, w) = differences(before, after)
    assert y[1] > 0.01
    assert w[1] == 0


def test_another_shape_or_dtype_is_an_infinite_difference() -> None:
    before = "(float[4] x) => (y) { y = Abs (x) }"
    assert differences(before, "(float[4] x) => (y) { y = Cast <to = 11> (x) }") == [("y", float("inf"))]
    flat = "(float[4] x) => (y) { y = Flatten (x) }"
    assert differences(before, flat) == [("y", float("inf"))]


def test_runs_are_seeded() -> None:
    before, after = "(float[4] x) => (float[4] y) { y = Exp (x) }", "(float[4] x) => (float[4] y) { y = Cosh (x) }"
    assert differences(before, after, seed=1) == differences(before, after, seed=1)
    assert differences(before, after, seed=1) != differences(before, after, seed=2)


def test_indices_and_unknown_sizes_are_made_to_fit() -> None:
    """Of 257 and 2 indices, two fit; of batches of 2 and 1, one."""
    gather = "(float[3,4] x, int64[N] i) => (float[N,4] y) { y = Gather (x, i) }"
    assert differences(gather, gather) == [("y", 0.0)]
    state = "(float[B,4] x, float[1,4] s) => (float[1,4] y) { a = Concat <axis = 1> (x, s) y = Slice (a, b, e, t) }"
    proto = parsed(state)
    for name, value in (("b", 0), ("e", 4), ("t", 1)):
        proto.graph.initializer.append(helper.make_tensor(name, onnx.TensorProto.INT64, [1], [value]))
    assert verify(from_proto(proto), from_proto(proto))[0].relative == 0


def test_no_larger_sizes_are_tried_than_are_needed() -> None:
    class OfOneOnly:
        """Runs batches of one."""

        def __init__(self) -> None:
            self.shapes: list[tuple[int, ...]] = []

        def run(self, _: None, feed: dict[str, np.ndarray[Any, Any]]) -> list[Any]:
            self.shapes.append(feed["x"].shape)
            if feed["x"].shape[0] != 1:
                raise ValueError("more than one")
            return []

    model = from_proto(parsed("(float[batch,frames,4] x) => (float[batch,frames,4] y) { y = Exp (x) }"))
    session = OfOneOnly()
    next(runnable_inputs(model, session, np.random.default_rng(0)))
    assert session.shapes[-1] == (1, 16, 4)
    assert max(frames for _, frames, _ in session.shapes) == 32, "twice the first size"


def test_what_dimensions_are_made() -> None:
    given = parsed("(float[B,N,3] x, int8[N] i, bool[B,M] b) => (float[B] y) { y = my.Op (x) }", domains=', "my": 1')
    given.graph.input[1].type.tensor_type.shape.dim[0].dim_value = -1  # as some models say for unknown
    made = Setting(from_proto(given).graph.inputs, {}, 2, 5, 1, 100).feed(np.random.default_rng(0))
    assert {name: array.shape for name, array in made.items()} == {"x": (2, 5, 3), "i": (2,), "b": (2, 5)}
    assert [array.dtype.name for array in made.values()] == ["float32", "int8", "bool"]


def test_states_of_several_layers_have_the_batch_second() -> None:
    step = (
        "(float[B,N] x, float[2,M,4] s) => (y) { t = Slice (s, b, e) d = Squeeze (t, b) y = Concat <axis = 1> (x, d) }"
    )
    proto = parsed(step)
    for name, value in (("b", 0), ("e", 1)):
        proto.graph.initializer.append(helper.make_tensor(name, onnx.TensorProto.INT64, [1], [value]))
    assert verify(from_proto(proto), from_proto(proto))[0].relative == 0


def test_a_length_may_be_the_sum_of_two_others() -> None:
    """Attention over cached tokens and new ones, with a mask for all."""
    model = parsed(
        """(float[batch,past,4] cache, float[batch,new,4] x, float[batch,all] mask) => (float[batch,all,4] y) {
            whole = Concat <axis = 1> (cache, x)
            axis = Constant <value_ints = [2]> ()
            column = Unsqueeze (mask, axis)
            y = Mul (whole, column)
        }"""
    )
    assert [difference.absolute for difference in verify(from_proto(model), from_proto(model), 2)] == [0.0]


@pytest.mark.parametrize("dtype", ["bool", "int64", "float", "string"])
def test_scalars_are_made_up(dtype: str) -> None:
    graph = f"({dtype} x) => ({dtype} y) {{ y = Identity (x) }}"
    assert differences(graph, graph) == [("y", 0.0)]


def test_a_model_that_does_not_run_is_told() -> None:
    broken = "(float[4] x) => (float[4] y) { y = my.Op (x) }"
    proto = from_proto(parsed(broken, domains=', "my": 1'))
    with pytest.raises(ModelError, match="the model as it was does not load in onnxruntime"):
        verify(proto, proto)
    fine = from_proto(parsed("(float[4] x) => (float[4] y) { y = Relu (x) }"))
    with pytest.raises(ModelError, match="the optimized model does not load in onnxruntime"):
        verify(fine, proto)


def test_another_number_of_outputs_is_told() -> None:
    one, two = "(float[4] x) => (y) { y = Relu (x) }", "(float[4] x) => (y, z) { y = Relu (x) z = Abs (x) }"
    with pytest.raises(ModelError, match="the optimized model has 2 outputs, not 1"):
        verify(parsed(one), parsed(two))


def test_initializers_that_are_inputs_are_given_to_both_models() -> None:
    """A caller may override them."""
    proto = parsed("(float[3] x, float[3] w) => (float[3] y) <float[3] w = {1.0, 2.0, 3.0}> { y = Mul (x, w) }")
    assert [value.name for value in proto.graph.input] == ["x", "w"]
    same, other = from_proto(proto), from_proto(parsed("(float[3] x, float[3] w) => (float[3] y) { y = Mul (w, x) }"))
    assert verify(same, other) == verify(other, same) == [Difference("y")]


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ModelError, match=r"cannot read none\.onnx"):
        verify("none.onnx", "none.onnx")


def test_a_value_that_cannot_be_made_up() -> None:
    model = from_proto(parsed("(seq(float[N]) s, int64 i) => (float[N] y) { y = SequenceAt (s, i) }"))
    with pytest.raises(ModelError, match="cannot generate a value for input 's'"):
        verify(model, model)


def test_comparison() -> None:
    nan, inf = np.nan, np.inf
    one = np.array([1.0, nan, inf], "f4")
    assert compare(one, one) == (0, 0), "equal NaNs and infinities are no difference"
    assert compare(one, np.array([1.0, 2.0, inf], "f4")) == (inf, inf)
    assert compare(np.array([1.0, 4.0]), np.array([1.5, 4.0])) == (0.5, 0.125)
    assert compare(np.array([1.0, inf, 4.0]), np.array([1.5, inf, 4.0])) == (0.5, 0.125)
    assert compare(np.array([1e-30], "f4"), np.array([2e-30], "f4"))[1] < 1e-20, "nothing is left of a number near 1"
    assert compare(np.array(["a"], object), np.array(["b"], object)) == (inf, inf)
    assert compare([one], [one]) == (0, 0)
    assert compare([one], []) == (inf, inf)


@pytest.mark.parametrize(
    ("graph", "demanded"),
    [
        ("(float[N,M] x) => (y) { y = MatMul (x, w) }", {"M": 5}),
        ("(float[N,?] x) => (y) { y = MatMul (x, w) }", {"x.1": 5}),
        ("(float[N,M] x) => (y) { c = Concat <axis = 1> (x, x, one) y = MatMul (c, w) }", {"M": 2}),
        ("(float[N,M] x) => (y) { y = Gemm <transA = 1> (x, w) }", {"N": 5}),
        ("(float[N,M,K] x) => (y) { t = Transpose <perm = [0, 2, 1]> (x) y = Reshape (t, rows) }", {"M": 30}),
        ("(float[N,M,3] x) => (y) { y = Reshape (x, rows) }", {"M": 10}),
        ("(float[N,M,H] x) => (y) { y = Conv (x, kernel) }", {"M": 3}),
        ("(float[N,S,M] x) => (y) { y = LSTM <hidden_size = 2> (x, gates, state) }", {"M": 4}),
        ("(float[N,M] x) => (y) { y = Mul (x, vector) }", {"M": 5}),
        ("(float[N,M] x) => (y) { y = Concat <axis = 0> (x, x) }", {}),
    ],
)
def test_weights_and_reshapes_demand_sizes(graph: str, demanded: dict[str, int]) -> None:
    proto = parsed(graph)
    shapes = {"w": (5, 2), "one": (7, 1), "kernel": (2, 3, 3), "gates": (1, 8, 4), "state": (1, 8, 2), "vector": (5,)}
    for name, shape in shapes.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, "f4"), name))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1, 30]), "rows"))
    assert demanded_sizes(from_proto(proto)) == demanded


def test_inputs_have_the_sizes_that_weights_demand() -> None:
    proto = parsed("(float[N,M] x) => (float[N,P] y) { y = MatMul (x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((123, 2), "f4"), "w"))
    assert verify(from_proto(proto), from_proto(proto))[0].relative == 0
