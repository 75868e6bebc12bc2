"""Operators are read and written as each opset has them, with the same results and no node left over."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from eqsat.onnx import import_model, proved, run
from eqsat.onnx.files import from_proto
from eqsat.onnx.verification import compare

from .models import operators, optimized, parsed, round_trip, with_weights

IMAGE = "(float[1,2,4,6] x)"

MODELS = {
    "upsample with an attribute": (
        8,
        f"{IMAGE} => (float[a,b,c,d] y) {{ y = Upsample <scales=[1.0,1.0,2.0,3.0]> (x) }}",
    ),
    "upsample": (
        9,
        f'{IMAGE} => (float[a,b,c,d] y) <float[4] s = {{1,1,2,1.5}}> {{ y = Upsample <mode="linear"> (x, s) }}',
    ),
    "resize by scales, as at first": (
        10,
        f"{IMAGE} => (float[a,b,c,d] y) <float[4] s = {{1,1,2,2}}> {{ y = Resize (x, s) }}",
    ),
    "resize by scales": (
        11,
        f"{IMAGE} => (float[a,b,c,d] y) <float[0] r = {{}}, float[4] s = {{1,1,0.5,2}}>"
        ' { y = Resize <mode="cubic", coordinate_transformation_mode="align_corners"> (x, r, s) }',
    ),
    "resize by sizes": (
        13,
        f"{IMAGE} => (float[a,b,c,d] y) <int64[4] s = {{1,2,7,5}}>"
        ' { y = Resize <mode="nearest", nearest_mode="ceil"> (x, , , s) }',
    ),
    "resize of some axes": (
        18,
        f"{IMAGE} => (float[a,b,c,d] y) <int64[2] s = {{8,5}}>"
        ' { y = Resize <axes=[2,3], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"> (x, , , s) }',
    ),
    "depth to space": (
        11,
        '(float[1,8,2,2] x) => (float[a,b,c,d] y) { y = DepthToSpace <blocksize=2, mode="CRD"> (x) }',
    ),
    "space to depth": (9, f"{IMAGE} => (float[a,b,c,d] y) {{ y = SpaceToDepth <blocksize=2> (x) }}"),
    "topk of an attribute": (
        9,
        f"{IMAGE} => (float[a,b,c,d] y, int64[a,b,c,d] i) {{ y, i = TopK <axis=3, k=2> (x) }}",
    ),
    "topk": (
        11,
        f"{IMAGE} => (float[a,b,c,d] y, int64[a,b,c,d] i) <int64[1] k = {{3}}>"
        " { y, i = TopK <axis=-1, largest=0> (x, k) }",
    ),
    "running sums": (
        14,
        f"{IMAGE} => (float[1,2,4,6] y) <int64 a = {{-1}}> {{ y = CumSum <exclusive=1> (x, a) }}",
    ),
    "a triangle": (14, f"{IMAGE} => (float[1,2,4,6] y) <int64 k = {{1}}> {{ y = Trilu <upper=0> (x, k) }}"),
    "elements gathered": (
        11,
        f"{IMAGE} => (float[a,b,c,d] y) <int64[1,1,2,1] i = {{0, -1}}> {{ y = GatherElements <axis=2> (x, i) }}",
    ),
    "elements scattered, as at first": (
        9,
        f"{IMAGE} => (float[1,2,4,6] y) <int64[1,1,1,2] i = {{0, 3}}, float[1,1,1,2] u = {{7, 8}}>"
        " { y = Scatter <axis=2> (x, i, u) }",
    ),
    "elements added": (
        16,
        f"{IMAGE} => (float[1,2,4,6] y) <int64[1,1,1,2] i = {{0, 3}}, float[1,1,1,2] u = {{7, 8}}>"
        ' { y = ScatterElements <axis=2, reduction="add"> (x, i, u) }',
    ),
    "slices gathered": (
        12,
        f"{IMAGE} => (float[a,b,c] y) <int64[1,2,2] i = {{0, 1, 1, 3}}> {{ y = GatherND <batch_dims=1> (x, i) }}",
    ),
    "slices gathered at computed places": (
        11,
        "(float[2,2] x) => (float[a] y) { p = Sign (x) q = Relu (p) i = Cast <to=7> (q) y = GatherND (x, i) }",
    ),
    "slices scattered": (
        18,
        "(float[4,6] x) => (float[4,6] y) <int64[2,1] i = {3, 3}, float[2,6] u = {1,2,3,4,5,6,7,8,9,10,11,12}>"
        ' { y = ScatterND <reduction="max"> (x, i, u) }',
    ),
    "bytes": (
        10,
        f"{IMAGE} => (float[1,2,4,6] y) <float s = {{0.05}}, uint8 z = {{7}}>"
        " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
    ),
    "bytes without zero point": (
        13,
        f"{IMAGE} => (float[1,2,4,6] y) <float s = {{0.05}}> {{ q = QuantizeLinear (x, s)"
        " y = DequantizeLinear (q, s) }",
    ),
    "bytes of channels": (
        13,
        f"{IMAGE} => (int8[1,2,4,6] y) <float[2] s = {{0.05, 0.1}}, int8[2] z = {{7, -9}}>"
        " { y = QuantizeLinear <axis=1> (x, s, z) }",
    ),
    "sequences turned round": (
        10,
        "(float[3,2] x) => (float[3,2] y) <int64[2] l = {2, 3}> { y = ReverseSequence (x, l) }",
    ),
    "sums by index": (12, '(float[4,6] x) => (float[a,b] y) { y = Einsum <equation="ij,kj->ki"> (x, x) }'),
    "length": (12, f"{IMAGE} => (float[a,b,c,d] y) {{ y = ReduceL2 <axes=[-1]> (x) }}"),
    "length over axes that are an input": (
        18,
        f"{IMAGE} => (float[a,b] y) <int64[2] l = {{1,2}}> {{ y = ReduceLogSumExp <keepdims=0> (x, l) }}",
    ),
    "activations": (
        18,
        f"{IMAGE} => (float[1,2,4,6] y) {{ a = Elu <alpha=0.5> (x) b = Selu (a) c = Mish (b) d = Celu (c)"
        " e = HardSigmoid <alpha=0.3> (d) f = Softplus (e) g = Softsign (f) h = Shrink (g) y = ThresholdedRelu (h) }",
    ),
}


def outputs(proto: onnx.ModelProto) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    dtype = "float64" if given.type == "tensor(double)" else "float32"
    return session.run(None, {given.name: np.random.default_rng(0).normal(0, 2, given.shape).astype(dtype)})


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_as_it_was(name: str) -> None:
    opset, graph = MODELS[name]
    proto = parsed(graph, opset)
    assert import_model(from_proto(proto)).opaque == {}
    again = round_trip(proto)
    onnx.checker.check_model(again, full_check=True)
    assert operators(again.graph) == operators(proto.graph)
    for before, after in zip(outputs(proto), outputs(again), strict=True):
        assert before.dtype == after.dtype
        assert compare(before, after)[1] <= 1e-6


@pytest.mark.parametrize(
    ("reason", "opset", "graph"),
    [
        ("no key", 17, f"{IMAGE} => (float[1,2,4,6] y) {{ y = Mish (x) }}"),
        ("backward", 14, f"{IMAGE} => (float[1,2,4,6] y) <int64 a = {{0}}> {{ y = CumSum <reverse=1> (x, a) }}"),
        ("unsorted", 11, f"{IMAGE} => (float[a,b,c,d] y) <int64[1] k = {{3}}> {{ y, i = TopK <sorted=0> (x, k) }}"),
        ("no equation", 12, "(float[4,6] x) => (float[a,b] y) { y = Einsum (x, x) }"),
        (
            "no such reduction",
            18,
            "(float[4] x) => (float[4] y) <int64[1] i = {1}, float[1] u = {1}>"
            ' { y = ScatterElements <reduction="bogus"> (x, i, u) }',
        ),
        (
            "no such mode",
            13,
            f'{IMAGE} => (float[a,b,c,d] y) <float[4] s = {{1,1,2,1}}> {{ y = Resize <mode="bogus"> (x, , s) }}',
        ),
        (
            "rounded scale",
            13,
            f"{IMAGE} => (float[a,b,c,d] y) <float[4] s = {{1,1,1.3,1}}> {{ y = Resize (x, , s) }}",
        ),
        (
            "smoothed",
            18,
            f"{IMAGE} => (float[a,b,c,d] y) <float[4] s = {{1,1,0.5,1}}>"
            ' { y = Resize <antialias=1, mode="linear"> (x, , s) }',
        ),
    ],
)
def test_what_the_ir_cannot_say_passes_through(reason: str, opset: int, graph: str) -> None:
    proto = parsed(graph, opset)
    assert import_model(from_proto(proto)).opaque
    assert operators(round_trip(proto).graph) == operators(proto.graph)


def test_quantized_weights_stay_small() -> None:
    """Bytes that stand for weights do not become numbers, whatever that saves."""
    proto = parsed(
        """(float[1,2,4,6] x) => (float[1,2,4,6] y) <int8[2,2,1,1] w = {1,2,3,4}, float s = {0.1}, int8 z = {0}> {
            k = DequantizeLinear (w, s, z)
            y = Conv (x, k)
        }""",
        13,
    )
    assert operators(optimized(proto).graph) == {"DequantizeLinear": 1, "Conv": 1}


def test_sequences_taken_apart_at_once_are_splits() -> None:
    proto = parsed(
        """(float[4,6] x) => (float[4,4] y) <int64[3] s = {2,2,2}, int64 p = {0}, int64 q = {-1}> {
            t = SplitToSequence <axis=1> (x, s)
            a = SequenceAt (t, p)
            b = SequenceAt (t, q)
            u = SequenceConstruct (b, a)
            y = ConcatFromSequence <axis=1> (u)
        }"""
    )
    assert import_model(from_proto(proto)).opaque == {}
    again = round_trip(proto)
    assert operators(again.graph) == {"Split": 1, "Concat": 1}
    np.testing.assert_array_equal(outputs(again)[0], outputs(proto)[0])


def test_a_split_is_not_declared_to_be_the_sequence_it_is_for() -> None:
    proto = parsed(
        """(float[4,6] x) => (float[4,2] y) <int64[3] s = {2,2,2}, int64 p = {0}> {
            t = SplitToSequence <axis=1> (x, s)
            y = SequenceAt (t, p)
        }"""
    )
    part = helper.make_tensor_type_proto(TensorProto.FLOAT, [4, 2])
    proto.graph.value_info.append(helper.make_value_info("t", helper.make_sequence_type_proto(part)))
    again = round_trip(proto)
    onnx.checker.check_model(again, full_check=True)
    np.testing.assert_array_equal(outputs(again)[0], outputs(proto)[0])


def test_what_an_exporter_must_know_and_does_not_passes_through() -> None:
    """Old pools are of floats only; of what passes through nothing is known."""
    graph = "(float[1,3,8,8] x) => (y) { a = my.Op (x) y = MaxPool <kernel_shape = [2, 2]> (a) }"
    proto = parsed(graph, opset=11, domains=', "my": 1')
    assert operators(optimized(proto).graph) == operators(round_trip(proto).graph) == {"Op": 1, "MaxPool": 1}


def test_sequences_that_stay_sequences_pass_through() -> None:
    proto = parsed(
        """(float[4,6] x) => (float[4,2] y, int64 n) <int64[3] s = {2,2,2}, int64 p = {0}> {
            t = SplitToSequence <axis=1> (x, s)
            y = SequenceAt (t, p)
            n = SequenceLength (t)
        }"""
    )
    again = round_trip(proto)
    assert operators(again.graph) == operators(proto.graph)
    np.testing.assert_array_equal(outputs(again)[0], outputs(proto)[0])


def test_bytes_that_are_only_moved_stay_bytes() -> None:
    """Numbers made of bytes, moved, and made bytes again: the numbers go."""
    proto = parsed(
        """(float[1,2,4,6] x) => (float[1,4,24] y)
           <float s = {0.05}, uint8 z = {7}, int64[3] n = {1, 4, 24}> {
            q = QuantizeLinear (x, s, z)
            r = DequantizeLinear (q, s, z)
            t = Transpose <perm=[0,2,3,1]> (r)
            u = QuantizeLinear (t, s, z)
            v = DequantizeLinear (u, s, z)
            w = Concat <axis=3> (v, v)
            b = QuantizeLinear (w, s, z)
            c = DequantizeLinear (b, s, z)
            y = Reshape (c, n)
        }""",
        13,
    )
    after = optimized(proto)
    assert operators(after.graph)["QuantizeLinear"] == operators(after.graph)["DequantizeLinear"] == 1
    np.testing.assert_array_equal(outputs(after)[0], outputs(proto)[0])


def test_index_notation_becomes_a_product_whose_transposes_meet_others() -> None:
    proto = parsed(
        """(float[2,4,3] x) => (float[2,4,4] y) {
            e = Einsum <equation="bij,bkj->bki"> (x, x)
            n = Neg (e)
            t = Transpose <perm=[0,2,1]> (n)
            u = Transpose <perm=[0,2,1]> (x)
            v = MatMul (x, u)
            y = Add (t, v)
        }""",
        13,
    )
    after = optimized(proto)
    assert operators(after.graph) == {"Transpose": 1, "MatMul": 1, "Sub": 1}
    np.testing.assert_allclose(outputs(after)[0], outputs(proto)[0], rtol=1e-5)


RMS_NORM = """(float[2,5,8] x) => (float[2,5,8] y) <float two = {2}, float e = {0.00001}, int64[1] a = {-1},
       float[8] g = {1,2,3,4,5,6,7,8}> {
        p = Pow (x, two) m = ReduceMean (p, a) s = Add (m, e) r = Sqrt (s) i = Reciprocal (r)
        n = Mul (x, i) y = Mul (g, n)
    }"""
ATTENTION = """(float[2,3,5,8] x) => (float[2,3,5,8] y) <float c = {0.35355339}> {
        t = Transpose <perm=[0,1,3,2]> (x) s = MatMul (x, t) d = Mul (s, c) a = Add (d, m)
        p = Softmax <axis=-1> (a) y = MatMul (p, x)
    }"""


WEIGHTS = {"RMSNormalization": {}, "Attention": {"m": (1, 1, 5, 5)}}


@pytest.mark.parametrize(("graph", "operator"), [(RMS_NORM, "RMSNormalization"), (ATTENTION, "Attention")])
def test_what_an_opset_has_an_operator_for_is_one_node(graph: str, operator: str) -> None:
    older, newer = (with_weights(parsed(graph, opset), **WEIGHTS[operator]) for opset in (18, 23))
    assert operators(optimized(newer).graph) == {operator: 1}
    assert operator not in operators(optimized(older).graph)
    for proto in (older, newer):
        expected, found = outputs(proto)[0], outputs(optimized(proto))[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


SPLIT = "k = Reshape (z, queries) e = Transpose <perm=[0,2,1,3]> (k)"
GROUPS = """k = Reshape (z, keys) t = Transpose <perm=[0,2,1,3]> (k) u = Unsqueeze (t, two) r = Expand (u, twice)
    e = Reshape (r, grouped)"""


def test_attention_whose_keys_are_turned_once_is_one_node() -> None:
    """From what a product gives to columns, as exporters write it."""
    proto = parsed(
        """(float[B,5,16] x) => (float[B,5,16] y) <
            int64[4] split = {0, 0, 4, 4}, int64[3] joined = {0, 0, 16}, float half = {0.5}
        > {
            k = Tanh (x) v = Exp (x) a = Reshape (x, split) b = Reshape (k, split) c = Reshape (v, split)
            q = Transpose <perm=[0,2,1,3]> (a) t = Transpose <perm=[0,2,3,1]> (b) r = Transpose <perm=[0,2,1,3]> (c)
            s = MatMul (q, t) h = Mul (s, half) p = Softmax <axis=-1> (h) m = MatMul (p, r)
            o = Transpose <perm=[0,2,1,3]> (m) y = Reshape (o, joined)
        }""",
        23,
    )
    after = optimized(proto)
    assert operators(after.graph) == {"Tanh": 1, "Exp": 1, "Attention": 1}
    feed = {"x": np.random.default_rng(0).standard_normal((2, 5, 16)).astype("f4")}
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, feed) for each in (after, proto)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


ROTARY = """
    q = Reshape (x, split) t = Transpose <perm=[0,2,1,3]> (q)
    a = Slice (t, zero, half, last) b = Slice (t, half, whole, last) n = Neg (b) r = Concat <axis=-1> (n, a)
    c = Mul (t, cos) s = Mul (r, sin) e = Add (c, s)
"""
OF_PLACES = "both = Concat <axis=-1> (angles, angles) co = Cos (both) si = Sin (both) cos = Unsqueeze (co, one)"
JOINED = "o = Transpose <perm=[0,2,1,3]> (e) y = Reshape (o, joined)"


@pytest.mark.parametrize(
    ("batch", "angles", "kept"),
    [
        ("2", None, {"RotaryEmbedding": 1}),
        ("2", "signed", {"RotaryEmbedding": 1}),
        ("2", 2, {"Cos": 1, "Sin": 1, "RotaryEmbedding": 1}),
        ("B", "B", {"Cos": 1, "Sin": 1, "RotaryEmbedding": 1}),
        ("B", 1, {"Cos": 1, "Sin": 1, "RotaryEmbedding": 1, "Transpose": 2, "Reshape": 4}),
    ],
    ids=["constant", "constant, of both signs", "of each batch", "of each dynamic batch", "of all batches"],
)
def test_rotary_embeddings_written_out_are_one_node(batch: str, angles: object, kept: dict[str, int]) -> None:
    """Four heads of six elements; on both sides of the embedding they are joined."""
    is_constant = angles in (None, "signed")
    given = "" if is_constant else f", float[{angles},3,3] angles"
    rotary = ROTARY if angles != "signed" else ROTARY.replace("n = Neg (b)", "").replace("(n, a)", "(b, a)")
    proto = parsed(
        f"""(float[{batch},3,24] x{given}) => (float[{batch},3,24] y) <
            int64[4] split = {{0, 0, 4, 6}}, int64[1] zero = {{0}}, int64[1] half = {{3}}, int64[1] whole = {{6}},
            int64[1] last = {{3}}, int64[1] one = {{1}}, int64[3] joined = {{0, 0, 24}}
        > {{ {"" if is_constant else OF_PLACES + " sin = Unsqueeze (si, one)"} {rotary} {JOINED} }}""",
        23,
    )
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((2, 3, 24)).astype("f4")}
    if is_constant:
        angle = np.tile(rng.standard_normal((1, 1, 3, 3)).astype("f4"), 2)
        signs = np.repeat(np.float32([-1, 1]), 3) if angles else np.float32(1)
        for name, table in (("cos", np.cos(angle)), ("sin", np.sin(angle) * signs)):
            proto.graph.initializer.append(onnx.numpy_helper.from_array(table, name))
    else:
        feed["angles"] = rng.standard_normal((1 if angles == 1 else 2, 3, 3)).astype("f4")
    after = optimized(proto)
    assert operators(after.graph) == kept
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, feed) for each in (after, proto)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mask", ["float", "bool"])
@pytest.mark.parametrize(
    ("batch", "width", "key"),
    [("2", 16, SPLIT), ("B", 16, SPLIT), ("2", 8, GROUPS)],
    ids=["static", "dynamic", "groups"],
)
def test_heads_are_split_and_joined_by_attention(mask: str, batch: str, width: int, key: str) -> None:
    """Four heads of queries over four of keys and values, or over two that are repeated."""
    proto = parsed(
        f"""(float[{batch},3,16] x, float[{batch},5,{width}] z, {mask}[3,5] m) => (float[{batch},3,16] y) <
            int64[4] queries = {{0, 0, 4, 4}}, int64[4] keys = {{0, 0, 2, 4}}, int64[1] two = {{2}},
            int64[5] twice = {{1, 1, 2, 1, 1}}, int64[4] grouped = {{0, 4, 5, 4}}, int64[3] whole = {{0, 0, 16}}
        > {{
            q = Reshape (x, queries) s = Transpose <perm=[0,2,1,3]> (q) {key}
            a = Attention <scale = 0.5> (s, e, e, m) b = Transpose <perm=[0,2,1,3]> (a) y = Reshape (b, whole)
        }}""",
        23,
    )
    after = optimized(proto)
    assert operators(after.graph) == {"Attention": 1}
    feed = {"x": (2, 3, 16), "z": (2, 5, width)}
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(shape).astype("f4") for name, shape in feed.items()}
    inputs["m"] = np.eye(3, 5, dtype=bool) if mask == "bool" else np.eye(3, 5, dtype="f4")
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, inputs) for each in (after, proto)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "written",
    [
        "a = Add (x, three) b = Clip (a, zero, six) c = Mul (x, b) y = Div (c, six)",
        "a = Mul (x, x) b = Mul (a, x) c = Mul (b, k) d = Add (x, c) e = Mul (d, r) f = Tanh (e) g = Add (f, one)"
        " h = Mul (x, g) y = Mul (h, half)",
        "s = Constant <value_ints = [2]> () m = ReduceMean (x, s) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, s)"
        " a = Add (v, k) b = Sqrt (a) y = Div (d, b)",
    ],
    ids=["hard swish", "gelu", "instance normalization"],
)
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_operators_are_recognised_where_runtimes_have_them(written: str, dtype: str) -> None:
    """What the rules find can be run."""
    numbers = {"zero": 0, "one": 1, "three": 3, "six": 6, "half": 0.5, "k": 0.044715, "r": 0.7978845608}
    constants = ", ".join(f"{dtype} {name} = {{{value}}}" for name, value in numbers.items())
    proto = parsed(f"({dtype}[4,6,2] x) => ({dtype}[4,6,2] y) <{constants}> {{ {written} }}", 22)
    assert compare(outputs(proto)[0], outputs(optimized(proto))[0])[1] < 1e-6


def test_messages_between_nodes_of_a_graph_are_gathered_by_row() -> None:
    """As graph networks are exported: rows named by tuples of one, which sums of messages share."""
    graph = parsed(
        "(float[n,4] x, int64[e] source, int64[e] target) => (float[n,4] y, float[n,4] z) {"
        " last = Constant <value_ints = [-1]> () s = Unsqueeze (source, last) t = Unsqueeze (target, last)"
        " m = GatherND (x, s) p = Exp (m) size = Shape (x)"
        " zero = ConstantOfShape <value = float[1] {0}> (size)"
        ' y = ScatterND <reduction="add"> (zero, t, m) z = ScatterND <reduction="add"> (zero, t, p) }',
        opset=18,
    )
    found = operators(optimized(graph).graph)
    assert found == {"Gather": 1, "Exp": 1, "Shape": 1, "ConstantOfShape": 1, "Unsqueeze": 1, "ScatterND": 2}


@pytest.mark.parametrize(("width", "axes"), [(1, 4), (5, 0)])
def test_numbers_of_written_gates_have_as_many_axes_as_columns(width: int, axes: int) -> None:
    """Beside a number of fewer axes onnxruntime is slow there."""
    gelu = "a = Mul (x, x) b = Mul (a, x) d = Mul (b, k) e = Add (x, d) f = Mul (e, r) t = Tanh (f) g = Add (t, one)"
    numbers = "float k = {0.044715}, float r = {0.7978845608}, float one = {1}, float half = {0.5}"
    shape = f"float[2,3,4,{width}]"
    body = f"x = Conv (image, w) {gelu} h = Mul (x, g) y = Mul (h, half)"
    proto = with_weights(parsed(f"({shape} image) => ({shape} y) <{numbers}> {{ {body} }}"), w=(3, 3, 1, 1))
    done = run(from_proto(proto), explain=True)
    (added,) = [node for node in done.after.graph if node.op_type == "Add"]
    assert [len(value.shape) for value in added.inputs if value.is_initializer()] == [axes]
    assert not proved(done).uncovered


def test_a_size_that_scales_only_reach_rounded_stays_a_size() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 18]> g (float[1,2,6,6] x, float[1,2,14,14] w) => (float[1,2,14,14] z)
            <int64[4] s = {1, 2, 14, 14}> {
            y = Resize <coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor"> (x, , , s)
            z = Mul (y, w)
        }"""
    )
    found = optimized(model)
    (resize,) = [node for node in found.graph.node if node.op_type == "Resize"]
    assert [name != "" for name in resize.input] == [True, False, False, True]  # 6 * 2.3333333 is 13.999999
    rng = np.random.default_rng(0)
    feed = {"x": rng.random((1, 2, 6, 6), np.float32), "w": rng.random((1, 2, 14, 14), np.float32)}
    expected, got = [
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, feed)[0] for each in (model, found)
    ]
    np.testing.assert_array_equal(got, expected)


def sliced(cuts: list[tuple[int, int]]) -> onnx.ModelProto:
    """Slices of an axis of eight, of which each is one output."""
    outputs = ", ".join(f"float[4,{end - start}] y{start}" for start, end in cuts)
    places = sorted({place for cut in cuts for place in cut})
    bounds = ", ".join(f"int64[1] at{place} = {{{place}}}" for place in places)
    nodes = " ".join(f"y{start} = Slice (x, at{start}, at{end}, axis)" for start, end in cuts)
    return parsed(f"(float[4,8] x) => ({outputs}) <int64[1] axis = {{1}}, {bounds}> {{ {nodes} }}")


@pytest.mark.parametrize(
    ("cuts", "written"),
    [
        ([(0, 3), (3, 5), (5, 8)], {"Split": 1}),
        ([(6, 8), (0, 1), (1, 3), (3, 6)], {"Split": 1}),
        ([(0, 3), (3, 5), (5, 8), (2, 4)], {"Split": 1, "Slice": 1}),
        ([(0, 3), (4, 5), (5, 8)], {"Slice": 3}),
        ([(0, 3), (3, 5), (4, 8)], {"Slice": 3}),
    ],
)
def test_slices_that_divide_an_axis_are_one_split(cuts: list[tuple[int, int]], written: dict[str, int]) -> None:
    proto = sliced(cuts)
    result = optimized(proto)
    assert operators(result.graph) == written
    assert all(map(np.array_equal, outputs(result), outputs(proto)))


@pytest.mark.parametrize(("rank", "pool"), [(1, "Average"), (2, "Average"), (3, "Max")])
def test_a_pool_over_all_of_space_needs_no_view_after_it(rank: int, pool: str) -> None:
    shape = ",".join(map(str, (2, 3, *[4] * rank)))
    proto = parsed(f"(float[{shape}] x) => (float[2,3] y) {{ p = Global{pool}Pool (x) y = Flatten (p) }}")
    assert operators(optimized(proto).graph) == {{"Average": "ReduceMean", "Max": "ReduceMax"}[pool]: 1}


@pytest.mark.parametrize(
    ("rows", "taken", "scatters"),
    [("1,2,3", (1, 4), 0), ("1,2,3", (1, 3), 0), ("1,3,2", (1, 4), 1), ("0,2,1", (0, 5), 1)],
)
def test_a_slice_of_what_was_written_is_what_was_written(rows: str, taken: tuple[int, int], scatters: int) -> None:
    """As of a part that is replaced, where the same part is read again."""
    start, end = taken
    proto = parsed(
        f"""(float[5,2] x) => (float[{end - start},2] y)
        <int64[3,1] rows = {{{rows}}}, int64[3] last = {{2,3,4}},
         int64[1] start = {{{start}}}, int64[1] end = {{{end}}}>
        {{
            u = Gather (x, last)
            v = Neg (u)
            w = ScatterND (x, rows, v)
            y = Slice (w, start, end)
        }}"""
    )
    result = optimized(proto)
    assert operators(result.graph).get("ScatterND", 0) == scatters
    assert all(map(np.array_equal, outputs(result), outputs(proto)))


SHIFTED = {
    "by pairs": "w = ScatterND (ones, pairs, v) y = ScatterND (w, first, start)",
    "turned": """t = Transpose (v) o = Transpose (ones) w = ScatterND (o, rows, t) b = Transpose (w)
        y = ScatterElements <axis = 1> (b, column, start)""",
}


@pytest.mark.parametrize("written", SHIFTED.values(), ids=SHIFTED.keys())
def test_a_row_that_is_shifted_by_writing_into_others_is_a_concatenation(written: str) -> None:
    """As decoders get the tokens of what they are to give, behind the first one."""
    proto = parsed(
        f"""(float[2,3] x) => (float[2,3] y)
        <float[2,3] ones = {{1,1,1,1,1,1}}, float[2,1] start = {{7,7}}, int64[2,1] column = {{0,0}},
         int64[2,2,2] pairs = {{0,1,0,2,1,1,1,2}}, int64[2,1,2] first = {{0,0,1,0}}, int64[2,1] rows = {{1,2}},
         int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[1] one = {{1}}>
        {{ v = Slice (x, zero, two, one) {written} }}""",
        18,
    )
    result = optimized(proto)
    assert operators(result.graph) == {"Slice": 1, "Concat": 1}
    assert all(map(np.array_equal, outputs(result), outputs(proto)))


def test_what_replaces_every_row_is_what_was_written() -> None:
    proto = parsed(
        """(float[3,2] x) => (float[3,2] y) <int64[3,1] rows = {0,1,2}> {
            v = Neg (x)
            y = ScatterND (x, rows, v)
        }"""
    )
    assert operators(optimized(proto).graph) == {"Neg": 1}


@pytest.mark.parametrize(("size", "repeats", "tiles"), [("1,4", "3,1", 0), ("1,1,4", "1,3,1", 0), ("1,2", "3,2", 1)])
def test_what_repeats_axes_of_one_element_only_broadcasts(size: str, repeats: str, tiles: int) -> None:
    rank = len(repeats.split(","))
    proto = parsed(
        f"""(float[{size}] x) => (float y) <int64[{rank}] repeats = {{{repeats}}}, float[3,1] c = {{1,2,3}}> {{
            t = Tile (x, repeats)
            y = Mul (t, c)
        }}"""
    )
    result = optimized(proto)
    assert operators(result.graph) == {"Mul": 1} | ({"Tile": 1} if tiles else {})
    assert all(map(np.array_equal, outputs(result), outputs(proto)))
