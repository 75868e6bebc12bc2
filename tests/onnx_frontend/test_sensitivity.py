"""What a comparison of models can see: outputs that say something, and mistakes that it notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from eqsat.errors import ArgumentError
from eqsat.onnx import bench, differing, load, optimize, verify
from eqsat.onnx.feeds import runnable_setting, settings
from eqsat.onnx.files import from_proto
from eqsat.onnx.ranges import Range, ranges
from eqsat.onnx.sensitivity import open_weights, rounded, wrong
from eqsat.onnx.sessions import session
from eqsat.onnx.sizes import meant_sizes

from .models import benchmark_module, parsed

NETWORK = """(float[N,3,height,width] x) => (float[N,4] y) {
    a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w1, b1)
    n = BatchNormalization (a, scale, shift, mean, variance)
    r = Relu (n)
    c = Conv <strides = [2, 2]> (r, w2)
    g = GlobalAveragePool (c)
    f = Flatten (g)
    d = Gemm <transB = 1> (f, w3, b3)
    y = Softmax (d)
}"""
SHAPES = {
    "w1": (8, 3, 3, 3),
    "b1": (8,),
    **dict.fromkeys(("scale", "shift", "mean", "variance"), (8,)),
    "w2": (6, 8, 3, 3),
    "w3": (4, 6),
    "b3": (4,),
}


def weighted(graph: str, shapes: dict[str, tuple[int, ...]], **metadata: str) -> onnx.ModelProto:
    """A model with seeded weights of fan-in scale; variances are positive."""
    random, proto = np.random.default_rng(0), parsed(graph)
    for name, shape in shapes.items():
        drawn = random.normal(0, np.prod(shape[1:]) ** -0.5, shape)
        array = np.abs(drawn) + 0.5 if name == "variance" else drawn
        proto.graph.initializer.append(numpy_helper.from_array(array.astype("f4"), name))
    helper.set_model_props(proto, metadata)
    return proto


def with_tensor(proto: onnx.ModelProto, name: str, array: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """The model with another array for one initializer."""
    other = onnx.ModelProto()
    other.CopyFrom(proto)
    (tensor,) = [each for each in other.graph.initializer if each.name == name]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    tensor.CopyFrom(numpy_helper.from_array(array.astype(dtype), name))
    return other


# ---- mistakes


@pytest.mark.parametrize("whole", [True, False], ids=["a tensor", "a row"])
def test_every_wrong_weight_is_caught_and_no_good_model_refused(whole: bool) -> None:
    proto = weighted(NETWORK, SHAPES)
    assert not differing(verify(proto, optimize(proto)))
    random, missed = np.random.default_rng(1), []
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor)
        changed = 1.5 * array if whole else wrong(array, random)
        if not differing(verify(proto, with_tensor(proto, tensor.name, changed), mistakes=0)):
            missed.append(tensor.name)
    assert missed == []


def test_the_benchmark_counts_mutants(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(weighted(NETWORK, SHAPES), path)
    found = benchmark_module("mutants").count(path, 2, 4, np.random.default_rng(0))
    assert found == {"models": 1, "caught": 4, "refused": 0, "silent": 0}


def test_the_share_of_mistakes_that_are_noticed_is_told() -> None:
    """A weight behind a product with 0 is noticed by nothing."""
    proto = weighted(
        "(float[N,4] x) => (y) { a = MatMul (x, w) d = MatMul (x, dead) z = Mul (d, nil) y = Add (a, z) }",
        {"w": (4, 3), "dead": (4, 3)},
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros((), "f4"), "nil"))
    found = verify(proto, proto).sensitivity
    assert (found.tried, found.noticed, found.unnoticed, found.problem) == (2, 1, ["dead"], "")


def test_one_weight_of_each_region_is_wrong() -> None:
    nodes = "".join(f"v{number + 1} = Add (v{number}, w{number}) " for number in range(40))
    graph = f"(float[3] v0) => (float[3] v40) {{ {nodes} }}"
    proto = weighted(graph, {f"w{number}": (3,) for number in range(40)})
    assert verify(proto, proto, mistakes=10).sensitivity.tried == 10
    assert verify(proto, proto, mistakes=0).sensitivity.tried == 0


def test_time_is_bounded() -> None:
    proto = weighted(NETWORK, SHAPES)
    found = verify(proto, proto, runs=50, seconds=0)
    assert found.kinds == {"normal": 50}
    assert found.sensitivity.tried == 1
    assert found.sensitivity.problem == "time was up after 1 weights"


def test_weights_of_branches_are_weights() -> None:
    graph = """(bool c, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] a) { w = Constant <value = float[3] {1.0, 2.0, 3.0}> ()
                                                          a = Mul (x, w) },
                    else_branch = e () => (float[3] b) { w = Constant <value = float[3] {4.0, 5.0, 6.0}> ()
                                                          b = Mul (x, w) }>
    }"""
    found = verify(parsed(graph), parsed(graph)).sensitivity
    assert (found.tried, found.noticed) == (2, 2)


def test_opened_weights_are_inputs_in_the_order_of_their_use() -> None:
    proto = weighted("(float[N,4] x) => (y) { a = MatMul (x, late) y = MatMul (a, early) }", {"early": (3, 2)})
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((4, 3), "f4"), "late"))
    model = from_proto(proto)
    assert open_weights(model) == ["late", "early"]
    assert [value.name for value in model.graph.inputs] == ["x", "late", "early"]


def test_rounding_moves_by_a_step_and_leaves_infinities() -> None:
    random, array = np.random.default_rng(0), np.array([1.0, -np.inf, 3e38, np.nan] * 99, "f4")
    moved = rounded(array, random)
    assert 0 < np.abs(moved[::4] - 1).max() < 3e-7
    np.testing.assert_array_equal(moved.reshape(-1, 4)[:, 1:], array.reshape(-1, 4)[:, 1:])
    assert wrong(np.array([2.0, 0.0, -np.inf]), random).tolist() == [3.0, 0.5, -np.inf]


# ---- tolerance


def test_what_rounding_does_not_explain_is_a_difference_however_small() -> None:
    proto = parsed("(float[N,4] x) => (y) { y = Add (x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(4, "f4"), "w"))
    other = with_tensor(proto, "w", np.array([0, 0, 1e-5, 0]))
    found = verify(proto, other)
    assert 1e-6 < found[0].relative < 1e-3
    assert differing(found)
    assert not differing(found, 1e-3)


def test_where_rounding_cannot_be_seen_a_fixed_tolerance_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.onnx.sensitivity._MOST_BYTES", 0)
    proto = weighted("(float[N,4] x) => (y) { y = MatMul (x, w) }", {"w": (4, 3)})
    weight = numpy_helper.to_array(proto.graph.initializer[0])
    near, far = (with_tensor(proto, "w", weight * np.float32(factor)) for factor in (1.0005, 1.005))
    assert not differing(verify(proto, near))
    assert differing(verify(proto, far))
    assert verify(proto, proto).sensitivity.problem == "its weights are more than 0 MiB"


def test_what_rounding_makes_is_no_difference() -> None:
    """Both take the sine of large products: their roundings are all over the place."""
    wide = "(float[N,64] x) => (y) { a = MatMul (x, w) b = Mul (a, c) y = Sin (b) }"
    proto = weighted(wide, {"w": (64, 8)})
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(1e3), "c"))
    weight = numpy_helper.to_array(proto.graph.initializer[0])
    folded = parsed("(float[N,64] x) => (y) { a = MatMul (x, w) y = Sin (a) }")
    folded.graph.initializer.append(numpy_helper.from_array(weight * np.float32(1e3), "w"))
    found = verify(proto, folded)
    assert found[0].relative > 1e-5
    assert not differing(found)


def test_small_results_of_sigmoids_are_exact_to_a_rounding_of_one() -> None:
    """They are computed by one polynomial: 0.001 is as exact as 0.5."""
    left = "(float[N,16] x) => (y) { a = Sub (x, c) y = Sigmoid (a) }"
    right = "(float[N,16] x) => (y) { a = Sub (x, c) s = Sigmoid (a) t = Add (s, tiny) y = Sub (t, nil) }"
    both = [parsed(left), parsed(right)]
    for proto in both:
        for name, value in (("c", 9.0), ("tiny", 6e-8), ("nil", 0.0)):
            proto.graph.initializer.append(numpy_helper.from_array(np.float32(value), name))
    found = verify(*both, inputs=[{"x": np.ones((1, 16), "f4")}])
    assert found[0].relative > 1e-4
    assert not differing(found)


# ---- outputs that say nothing


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        ("(float[3] x) => (y) { n = Abs (x) m = Neg (n) y = Relu (m) }", "it is 0.0 everywhere"),
        ("(float[9] x) => (y) { s = Sqrt (x) y = Sub (s, s) }", "it is 0.0 or NaN everywhere"),
        ("(float[3] x) => (y) { z = Sub (x, x) y = Div (z, z) }", "it is NaN everywhere"),
        (
            "(float[3] x) => (y) { z = Sub (x, x) c = Constant <value = float[3] {1.0, 2.0, 3.0}> () y = Add (z, c) }",
            "it is the same for all inputs that were tried",
        ),
        ("(float[N,3] x) => (y) { y = Shape (x) }", ""),
        ("() => (y) { y = Constant <value = float[3] {1.0, 1.0, 1.0}> () }", ""),
        ("(float[0] x) => (y) { y = Relu (x) }", "it is empty"),
    ],
)
def test_an_output_that_says_nothing_is_told(graph: str, reason: str) -> None:
    assert verify(parsed(graph), parsed(graph)).silent == ({"y": reason} if reason else {})


def test_a_comparison_that_notices_no_mistake_proves_nothing() -> None:
    """The product is lost in what it is added to."""
    product = "a = MatMul (x, w1) b = MatMul (a, w2) c = MatMul (b, w3) z = Mul (c, nil)"
    shapes = dict.fromkeys(("w1", "w2", "w3"), (4, 4))
    proto = weighted(f"(float[N,4] x) => (y) {{ {product} y = Add (x, z) }}", shapes)
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(1e-12), "nil"))
    assert verify(proto, proto).silent == {"": "none of 3 wrong weights was noticed"}


def test_an_output_that_rounding_alone_changes_is_told() -> None:
    graph = "(float[N] x) => (y) { a = Mul (x, c) y = Sin (a) }"
    proto = parsed(graph)
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(1e9), "c"))
    assert verify(proto, proto).silent == {"y": "rounding alone changes it by more than it tells"}


# ---- inputs


def test_pictures_have_a_few_strides_of_the_coarsest_layer() -> None:
    layers = "".join(
        f"v{number + 1} = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (v{number}, w) " for number in range(5)
    )
    graph = f"(float[N,3,?,width] v0) => (v5) {{ {layers} }}"
    proto = weighted(graph, {"w": (3, 3, 3, 3)}, width="320")
    assert meant_sizes(from_proto(proto)) == {"v0.2": 128, "width": 320}
    (shape,) = verify(proto, proto, runs=1).inputs.values()
    assert shape == "float32[2, 3, 128, 320]"
    told = weighted(graph, {"w": (3, 3, 3, 3)}, imgsz="[64, 96]")
    assert meant_sizes(from_proto(told)) == {"v0.2": 64, "width": 96}


def test_windows_fit_into_what_they_move_over() -> None:
    graph = (
        "(float[N,3,H,W] x) => (y) { c = Conv <strides = [4, 4]> (x, w) y = AveragePool <kernel_shape = [20, 20]> (c) }"
    )
    assert meant_sizes(from_proto(weighted(graph, {"w": (2, 3, 4, 4)}))) == {"H": 80, "W": 80}


def test_sounds_are_long_and_sequences_longer_than_one() -> None:
    sound = "(float[N,samples] x) => (y) { y = Relu (x) }"
    assert verify(parsed(sound), parsed(sound)).inputs == {"x": "float32[2, 4096]"}
    sequence = "(float[N,steps,3] x) => (y) { y = Relu (x) }"
    assert verify(parsed(sequence), parsed(sequence)).inputs == {"x": "float32[12, 16, 3]"}


def test_a_size_of_one_is_taken_where_no_other_runs() -> None:
    proto = parsed("(float[N,steps,8] x) => (y) { t = Reshape (x, shape) y = MatMul (t, w) }")
    for name, array in (("shape", np.array([0, -1])), ("w", np.ones((8, 3), "f4"))):
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    assert verify(proto, proto, runs=1).inputs["x"].endswith(", 1, 8]")


def test_ranges_follow_from_the_first_nodes() -> None:
    graph = """(float[N,3,8,8] x, int64[N] ids, int64 rate, float[N,2] plain) => (y, z, e, p) {
        s = Sub (x, mean) y = Div (s, deviation)
        c = Cast <to = 7> (ids) u = Unsqueeze (c, one) z = Gather (table, u)
        e = Equal (rate, sixteen)
        p = Relu (plain)
    }"""
    proto = weighted(graph, {"table": (100, 4)})
    for name, array in (
        ("mean", np.full((3, 1, 1), 127.5, "f4")),
        ("deviation", np.full((3, 1, 1), 50.0, "f4")),
        ("one", np.array([1])),
        ("sixteen", np.array(16000)),
    ):
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    found = ranges(from_proto(proto))
    assert found.pop("x") == Range(pytest.approx(50.0), pytest.approx(127.5))
    assert found == {"ids": Range(high=100), "rate": Range(values=(16000, 16001))}


def test_masks_hide_some() -> None:
    proto = parsed("(int64[N,keys] attention_mask) => (y) { y = Neg (attention_mask) }")
    (mask,) = fed(proto)
    assert set(mask.ravel()) == {0, 1}
    assert mask.mean() > 0.5


def fed(proto: onnx.ModelProto) -> list[np.ndarray[Any, Any]]:
    """Inputs that are drawn for a model."""
    setting = next(settings(from_proto(proto)))
    return list(setting.feed(np.random.default_rng(0)).values())


def test_integers_are_drawn_from_their_whole_range(tmp_path: Path) -> None:
    proto = weighted(
        "(int64[N,M] i, uint8[N,M] b) => (y, c) { y = Gather (w, i) c = Cast <to = 1> (b) }", {"w": (99, 2)}
    )
    model = from_proto(proto)
    random = np.random.default_rng(0)
    setting = runnable_setting(model, session(model, tmp_path / "model.onnx", "the model"), random)
    feed = setting.feed(random)
    assert set(feed["i"].ravel()) == set(range(99)), "each row of the table, before any comes again"
    assert (feed["b"].min() < 10) & (feed["b"].max() > 245)


def test_sizes_and_inputs_may_be_given() -> None:
    proto = weighted(NETWORK, SHAPES)
    sized = verify(proto, proto, runs=1, dims={"height": 40, "width": 24})
    assert sized.inputs == {"x": "float32[2, 3, 40, 24]"}
    given = [{"x": np.ones((1, 3, 20, 20), "f4")}, {"x": np.zeros((1, 3, 9, 9), "f4")}]
    found = verify(proto, proto, inputs=given)
    assert (found.kinds, found.inputs) == ({"given": 2}, {"x": "float32[1, 3, 20, 20]"})
    with pytest.raises(
        ArgumentError, match="no input has a dynamic dimension 'depth': the dynamic ones are N, height, width"
    ):
        verify(proto, proto, dims={"depth": 3})
    with pytest.raises(ArgumentError, match="there is no array for input 'x'"):
        verify(proto, proto, inputs=[{}])
    with pytest.raises(ArgumentError, match="the model has no input 'z': it has x"):
        verify(proto, proto, inputs=[{"z": np.ones(3)}])


# ---- latency


def test_latency_is_measured_with_the_optimizer_off_and_on(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(weighted(NETWORK, SHAPES), path)
    off, on = bench(path, optimize(load(path)), seconds=0, dims={"height": 16, "width": 16})
    assert (off.optimizer, on.optimizer) == (False, True)
    for each in (off, on):
        assert each.runs == 5
        assert min(each.before, each.after) > 0
        assert each.inputs["x"].endswith("3, 16, 16]")


# ---- memory


@pytest.mark.skipif(sys.platform != "linux", reason="the most memory is read where Linux tells it")
def test_a_comparison_holds_few_copies_of_the_weights(tmp_path: Path) -> None:
    """Two while a file is read; one, that rounding moved, and what is mapped of the file of the model that runs."""
    layers, size = 12, 1024
    nodes = "".join(f"v{layer + 1} = MatMul (v{layer}, w{layer}) " for layer in range(layers))
    shapes = {f"w{layer}": (size, size) for layer in range(layers)}
    large = weighted(f"(float[1,{size}] v0) => (float[1,{size}] v{layers}) {{ {nodes} }}", shapes)
    onnx.save(large, tmp_path / "model.onnx")
    program = f"""
import sys, eqsat.onnx
def most():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
eqsat.onnx.verify({str(tmp_path / "small.onnx")!r}, {str(tmp_path / "small.onnx")!r})
before = most()
eqsat.onnx.verify(*[{str(tmp_path / "model.onnx")!r}] * 2)
print(most() - before)
"""
    onnx.save(
        weighted("(float[1,4] x) => (float[1,4] y) { y = MatMul (x, w) }", {"w": (4, 4)}), tmp_path / "small.onnx"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) * 1024 < 4 * layers * size * size * 4


# ---- few digits


def half(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inputs, outputs and weights of 16 bits."""
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("f2"), tensor.name))
    return proto


def quantized() -> onnx.ModelProto:
    """Convolutions of 8-bit weights, between quantized activations."""
    proto = parsed("""(float[N,3,16,16] x) => (float[N,4] y) {
        xq = QuantizeLinear (x, s, z)      xd = DequantizeLinear (xq, s, z)
        v1 = DequantizeLinear <axis = 0> (q1, s1, z1)
        a = Conv (xd, v1)                  r = Relu (a)
        rq = QuantizeLinear (r, s, z)      rd = DequantizeLinear (rq, s, z)
        v2 = DequantizeLinear <axis = 0> (q2, s2, z2)
        b = Conv (rd, v2)                  g = GlobalAveragePool (b)
        y = Flatten (g)
    }""")
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {"s": np.float32(0.04), "z": np.int8(0)}
    for name, shape in {"1": (8, 3, 3, 3), "2": (4, 8, 3, 3)}.items():
        arrays |= {
            f"q{name}": random.integers(-127, 128, shape).astype("i1"),
            f"s{name}": np.full(shape[0], 0.003, "f4"),
            f"z{name}": np.zeros(shape[0], "i1"),
        }
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return proto


def test_wrong_tensors_of_16_bits_are_caught_and_no_good_model_refused() -> None:
    """Of mistakes in single rows some are no more than roundings of 16 bits, and are not asked for."""
    model = half(weighted(NETWORK, SHAPES))
    found = verify(model, optimize(model))
    assert not differing(found)
    assert found.sensitivity.noticed >= 0.8 * found.sensitivity.tried > 0
    missed = []
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if not differing(verify(model, with_tensor(model, tensor.name, 1.5 * array), mistakes=0)):
            missed.append(tensor.name)
    assert missed == []


def test_wrong_weights_of_8_bits_are_caught_and_no_good_model_refused() -> None:
    """Mistakes are tried on the scales, since integers are no inputs of the changed model; integers count, too."""
    model = quantized()
    found = verify(model, optimize(model))
    assert not differing(found)
    assert found.sensitivity.noticed == found.sensitivity.tried > 1
    for name in ("q1", "q2"):
        (tensor,) = [each for each in model.graph.initializer if each.name == name]
        array = np.array(numpy_helper.to_array(tensor))
        array[0] //= 2
        assert differing(verify(model, with_tensor(model, name, array), mistakes=0)), name
