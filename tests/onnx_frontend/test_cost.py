"""What extraction counts is what the exporter writes: convolutions and products with their biases are one node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from eqsat.extraction import CostNode, OpCount
from eqsat.onnx import run, to_bytes
from eqsat.onnx.converters.target import exporter_of
from eqsat.onnx.cost import OnnxTarget, onnx_cost
from eqsat.onnx.files import from_proto
from eqsat.relay.expr import Op
from eqsat.relay.op.op import REQUIRED, make_attrs
from eqsat.relay.ty import TensorType

from .models import benchmark_module, operators, parsed, with_weights


def nodes(graph: Any) -> int:
    """Nodes but for constants, and for outputs that have a second name."""
    return sum(count for name, count in operators(graph).items() if name not in ("Constant", "Identity"))


def counted(proto: onnx.ModelProto, *rules: Any) -> Any:
    """The model optimized, of which the cost was the number of nodes."""
    done = run(from_proto(proto), rules or None, cost_model=OpCount())
    assert done.extraction.cost == nodes(done.after.graph)
    assert done.extraction.optimal
    return done


# ---- kernels of two operators

CONV_BIAS = """(float[1,2,8,8] x) => (float[1,3,6,6] y) {
    c = Conv (x, w)
    s = Add (c, b)
    y = Relu (s)
}"""


def test_a_convolution_with_its_bias_is_one_node() -> None:
    done = counted(with_weights(parsed(CONV_BIAS), w=(3, 2, 3, 3), b=(3, 1, 1)))
    assert (done.extraction.input_cost, done.extraction.cost) == (3, 2)
    assert operators(done.after.graph) == {"Conv": 1, "Relu": 1}


def test_a_given_convolution_with_bias_costs_one() -> None:
    proto = parsed("(float[1,2,8,8] x) => (float[1,3,6,6] y) { y = Conv (x, w, b) }")
    done = counted(with_weights(proto, w=(3, 2, 3, 3), b=(3,)), ())
    assert (done.extraction.input_cost, done.extraction.cost) == (1, 1)


def test_a_convolution_that_others_need_keeps_its_bias_apart() -> None:
    proto = parsed(
        """(float[1,2,8,8] x) => (float[1,3,6,6] y, float[1,3,6,6] z) {
            c = Conv (x, w)
            y = Add (c, b)
            z = Sigmoid (c)
        }"""
    )
    done = counted(with_weights(proto, w=(3, 2, 3, 3), b=(3, 1, 1)))
    assert operators(done.after.graph) == {"Conv": 1, "Add": 1, "Sigmoid": 1}


def test_a_product_takes_in_one_sum() -> None:
    proto = parsed(
        """(float[4,8] x) => (float[4,3] y) {
            one = MatMul (x, w)
            other = MatMul (x, v)
            y = Max (one, other)
            s = Add (one, b)
        }"""
    )
    proto.graph.output.append(helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [4, 3]))
    counted(with_weights(proto, w=(8, 3), v=(8, 3), b=(3,)))


def test_an_index_is_found_as_the_type_it_is_wanted() -> None:
    done = counted(parsed("(float[4,8] x) => (int64[4,1] y) { y = ArgMax <axis = 1> (x) }"))
    assert operators(done.after.graph) == {"ArgMax": 1}


@pytest.mark.parametrize("indices", ["2,1", "2,2"])
def test_places_that_are_not_known_are_taken_as_they_are(indices: str) -> None:
    """Tuples of indices, the last dimension of ONNX's and the first of the IR's, are not turned to and fro."""
    counted(parsed(f"(float[4,4] x, int64[{indices}] i) => (float[k,l] y) {{ y = GatherND (x, i) }}"))
    updates = "float[2,4] u" if indices == "2,1" else "float[2] u"
    proto = parsed(
        f"(float[4,4] x, int64[{indices}] i, {updates}) => (float[4,4] y, float[4,4] z) {{"
        ' y = ScatterND <reduction = "max"> (x, i, u) z = ScatterND <reduction = "add"> (x, i, u) }',
        opset=18,
    )
    assert operators(run(from_proto(proto)).after.graph) == {"ScatterND": 2}


# ---- what runtimes fuse

GELU = """(float[4,8] x) => (float[4,8] y) {
    root = Constant <value = float {1.41421356}> ()
    one = Constant <value = float {1}> ()
    half = Constant <value = float {0.5}> ()
    h = MatMul (x, v)
    d = Div (h, root)
    e = Erf (d)
    s = Add (e, one)
    p = Mul (h, s)
    g = Mul (p, half)
    y = MatMul (g, w)
}"""
RMS_NORM = """(float[4,8] x) => (float[4,8] y) {
    small = Constant <value = float {0.00001}> ()
    h = MatMul (x, v)
    squares = Mul (h, h)
    mean = ReduceMean <axes = [-1], keepdims = 1> (squares)
    shifted = Add (mean, small)
    root = Sqrt (shifted)
    d = Div (h, root)
    s = Mul (d, scale)
    y = MatMul (s, w)
}"""


@pytest.mark.parametrize(("text", "kernel"), [(GELU, "Gelu"), (RMS_NORM, "SimplifiedLayerNormalization")])
def test_what_onnxruntime_fuses_keeps_a_factor_that_weights_could_take(text: str, kernel: str, tmp_path: Path) -> None:
    model = from_proto(with_weights(parsed(text, opset=17), v=(8, 8), w=(8, 8), scale=(8,)))
    assert nodes(run(model).after.graph) < nodes(model.graph)
    done = run(model, runtime="onnxruntime")
    assert nodes(done.after.graph) == nodes(done.before.graph)
    assert done.extraction.cost == 3
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    onnxruntime.InferenceSession(to_bytes(done.after), options)
    assert kernel in [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]


@pytest.mark.parametrize(("opset", "expected"), [(17, 5), (23, 1)])
def test_a_normalization_without_a_scale_is_given_none(opset: int, expected: int) -> None:
    axes = "<axes = [-1]> (q)" if opset < 18 else "(q, last)"
    proto = parsed(
        f"""(float[4,8] x) => (float[4,8] y) <int64[1] last = {{-1}}, float small = {{0.001}}> {{
            q = Mul (x, x) m = ReduceMean {axes} s = Add (m, small) r = Sqrt (s) y = Div (x, r)
        }}""",
        opset,
    )
    assert nodes(run(from_proto(proto)).after.graph) == expected


# ---- the law

SIDE = 4


def _random_model(draw: st.DrawFn) -> onnx.ModelProto:
    """Matrices and images of one size each, joined by operators that kernels may be made of."""
    values = {"matrix": ["m"], "image": ["i"]}
    shapes = {"matrix": [SIDE, SIDE], "image": [1, SIDE, SIDE, SIDE]}
    written: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    random = np.random.default_rng(draw(st.integers(0, 99)))

    def weight(*shape: int) -> str:
        weights.append(numpy_helper.from_array(random.uniform(0.5, 1.5, shape).astype("f4"), f"w{len(weights)}"))
        return weights[-1].name

    def write(op: str, kind: str, inputs: list[str], **attributes: Any) -> None:
        name = f"{op}{len(written)}"
        written.append(helper.make_node(op, inputs, [name], **attributes))
        values[kind].append(name)

    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(("matrix", "image")))
        some = st.sampled_from(values[kind])
        one, other = draw(some), draw(some)
        channels = (SIDE,) if kind == "matrix" else (SIDE, 1, 1)
        match draw(st.sampled_from(("product", "product", "bias", "bias", "scale", "add", "relu", "biased"))):
            case "product" if kind == "matrix":
                write("MatMul", kind, [one, weight(SIDE, SIDE)])
            case "product":
                write("Conv", kind, [one, weight(SIDE, SIDE, 1, 1)])
            case "biased" if kind == "matrix":
                write("Gemm", kind, [one, weight(SIDE, SIDE), weight(SIDE)], transB=draw(st.integers(0, 1)))
            case "biased":
                write("Conv", kind, [one, weight(SIDE, SIDE, 1, 1), weight(SIDE)])
            case "bias":
                write("Add", kind, [one, weight(*channels)])
            case "scale":
                write("Mul", kind, [one, weight(*channels)])
            case "add":
                write("Add", kind, [one, other])
            case "relu":
                write("Relu", kind, [one])
    made = [(kind, name) for kind, names in values.items() for name in names[1:]]
    results = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    graph = helper.make_graph(
        written,
        "random",
        [helper.make_tensor_value_info(names[0], 1, shapes[kind]) for kind, names in values.items()],
        [helper.make_tensor_value_info(name, 1, shapes[kind]) for kind, name in results],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_cost_of_a_random_graph_is_the_number_of_nodes_written(data: st.DataObject) -> None:
    proto = _random_model(data.draw)
    done = counted(proto)
    assert done.extraction.cost <= done.extraction.input_cost <= nodes(proto.graph)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_the_cost_of_a_network_is_the_number_of_nodes_written(name: str) -> None:
    filled = benchmark_module("filled_models")
    counted(filled.fill_weights(onnx.load(filled.light_model(name))))


def test_a_product_of_a_tensor_of_unknown_rank_has_a_cost() -> None:
    proto = parsed("(float[2,4,3] x, y) => (z) { t = Transpose <perm = [0, 2, 1]> (x) z = MatMul (t, y) }")
    assert operators(run(from_proto(proto)).after.graph) == {"Transpose": 1, "MatMul": 1}


FITTING = {"image.resize1d", "image.resize2d", "image.resize3d", "nn.gru", "nn.lstm", "nn.pad", "nn.rnn"}
"""Operators whose attributes fit the number of their arguments or axes, which any values do not."""
EXPORTED = [name for name in Op.list_op_names() if exporter_of(Op.get(name)) is not None and name not in FITTING]
SOME = {"int": 1, "ints": (1,), "bool": False, "dtype": "float32", "str": "", "float": 1.0, "any": 1}
"""A value of an attribute of each kind."""


@pytest.mark.parametrize("type_of_arguments", [None, TensorType((2, 4), "float32")], ids=["unknown", "known"])
def test_an_operator_whose_type_is_not_known_has_a_cost(type_of_arguments: TensorType | None) -> None:
    """A limit may end a saturation before the types of the last e-nodes are found."""
    cost = onnx_cost(OpCount(), 18)
    for op in map(Op.get, EXPORTED):
        attrs = make_attrs(op, {field.name: SOME[field.kind] for field in op.fields if field.default is REQUIRED})
        assert cost(CostNode(op.name, attrs, (type_of_arguments,) * len(op.arguments or ()), None)) >= 0, op.name


# ---- element types


@pytest.mark.parametrize(
    ("dtype", "is_writable"), [("float32", True), ("float16", True), ("bool", False), ("int64", False)]
)
def test_operators_are_no_choice_on_element_types_that_they_do_not_take(dtype: str, is_writable: bool) -> None:
    pool, attrs = Op.get("nn.max_pool2d"), {"pool_size": (2, 2), "strides": (1, 1), "padding": (0, 0)}
    seen = CostNode(
        "nn.max_pool2d",
        make_attrs(pool, attrs),
        (TensorType((1, 2, 4, 4), dtype),),
        TensorType((1, 2, 3, 3), dtype),
        arg_constant=(False,),
    )
    assert (OnnxTarget(17).write(seen) is not None) is is_writable


def test_a_power_may_have_an_exponent_of_another_element_type() -> None:
    proto = parsed("(float[2,3] x, int64[3] n) => (float[2,3] y) { y = Pow (x, n) }")
    assert operators(counted(proto).after.graph) == {"Pow": 1}
