"""Composites of a target as ONNX local functions: valid, the same outputs, one function for what computes the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser

from eqsat import relay
from eqsat.cli import cli
from eqsat.errors import ArgumentError, ModelError
from eqsat.onnx import Partitioning, merge, partition, verify, with_sizes
from eqsat.onnx.files import from_proto
from eqsat.onnx.importer import import_model
from eqsat.onnx.local_functions import export_partitioned
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.op.contrib import register_pattern_table


def parsed(text: str, weights: dict[str, Sequence[int]] | None = None) -> onnx.ModelProto:
    """A model from ONNX's text form, with random weights."""
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17, "custom" : 1]> {text}')
    random = np.random.default_rng(0)
    for name, shape in (weights or {}).items():
        array = random.uniform(-0.5, 0.5, shape).astype("float32")
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def checked(model: onnx.ModelProto, done: Partitioning, runs: bool = True) -> onnx.ModelProto:
    """The partitioned model, valid and of the same outputs."""
    after = ir.to_proto(done.after)
    onnx.checker.check_model(after, full_check=True)
    if runs:
        assert max(each.relative for each in verify(from_proto(model), done.after, 2)) < 1e-4
    return after


LAYERS = parsed(
    """net (float[1,4,6,6] x) => (float[1,4,6,6] y) {
        c1 = Conv <pads=[1,1,1,1]> (x, w1, b1)
        r1 = Relu (c1)
        c2 = Conv <pads=[1,1,1,1]> (r1, w2, b2)
        r2 = Relu (c2)
        c3 = Conv (r2, w3, b3)
        y = Relu (c3)
    }""",
    {"w1": [4, 4, 3, 3], "b1": [4], "w2": [4, 4, 3, 3], "b2": [4], "w3": [4, 4, 1, 1], "b3": [4]},
)


def test_a_composite_is_a_node_of_the_target_and_weights_stay_initializers() -> None:
    after = checked(LAYERS, partition(from_proto(LAYERS), "dnnl"))
    assert [(node.domain, node.op_type) for node in after.graph.node] == [
        ("dnnl", "conv2d_bias_relu"),
        ("dnnl", "conv2d_bias_relu"),
        ("dnnl", "conv2d_bias_relu_2"),
    ]
    assert {tensor.name for tensor in after.graph.initializer} == {"w1", "b1", "w2", "b2", "w3", "b3"}
    assert {opset.domain: opset.version for opset in after.opset_import}["dnnl"] == 1


def test_composites_that_compute_the_same_share_a_function() -> None:
    after = checked(LAYERS, partition(from_proto(LAYERS), "dnnl"))
    first, second = after.functions
    assert [node.op_type for node in first.node] == ["Conv", "Relu"]
    assert [list(node.attribute[-1].ints) for node in (first.node[0], second.node[0])] != [[1, 1, 1, 1]] * 2
    assert list(first.input) == ["x0", "x1", "x2"]


def test_inputs_outputs_and_values_between_keep_their_names() -> None:
    after = checked(LAYERS, partition(from_proto(LAYERS), "dnnl"))
    assert [node.output[0] for node in after.graph.node] == ["r1", "r2", "y"]


BATCH_NORM = parsed(
    """net (float[1,3,6,6] x) => (float[1,4,6,6] y) {
        c = Conv <pads=[1,1,1,1]> (x, w)
        n = BatchNormalization (c, scale, shift, mean, variance)
        y = Relu (n)
    }""",
    {"w": [4, 3, 3, 3], "scale": [4], "shift": [4], "mean": [4]},
)
BATCH_NORM.graph.initializer.append(numpy_helper.from_array(np.full(4, 0.7, "float32"), "variance"))


def test_rules_make_composites_possible_that_the_graph_as_it_is_does_not_have() -> None:
    acting = partition(from_proto(BATCH_NORM), "dnnl")
    as_is = merge(from_proto(BATCH_NORM), "dnnl")
    checked(BATCH_NORM, acting)
    checked(BATCH_NORM, as_is)
    assert acting.composites == {"conv2d_bias_relu": 1}
    assert "conv2d_bias_relu" not in as_is.composites


def test_no_rules_cover_the_graph_as_it_is() -> None:
    done = partition(from_proto(BATCH_NORM), "tensorrt", rules=[])
    after = checked(BATCH_NORM, done)
    assert done.composites == {"nn.conv2d": 1, "nn.batch_norm": 1, "nn.relu": 1}
    norm = next(each for each in after.functions if each.name == "nn.batch_norm")
    assert len(norm.input) == 5


def test_bounds_stay_inside_as_constants() -> None:
    model = parsed(
        """net (float[2,8] x) => (float[2,4] y)
           <float low = {0.0}, float high = {6.0}> {
            m = Gemm <transB=1> (x, w, b)
            y = Clip (m, low, high)
        }""",
        {"w": [4, 8], "b": [4]},
    )
    after = checked(model, partition(from_proto(model), "tensorrt"))
    assert [node.op_type for node in after.graph.node] == ["nn.dense_bias_clip"]
    inside = [node.op_type for node in after.functions[0].node]
    assert inside.count("Constant") == 2
    assert len(after.functions[0].input) == 3


def test_arguments_that_are_tuples_are_so_many_inputs() -> None:
    model = parsed("net (float[2,3] a, float[2,5] b) => (float[2,8] y) { y = Concat <axis=1> (a, b) }")
    after = checked(model, partition(from_proto(model), "tensorrt"))
    assert [list(node.input) for node in after.graph.node] == [["a", "b"]]
    assert list(after.functions[0].input) == ["x0", "x1"]


def test_results_that_are_tuples_are_so_many_outputs() -> None:
    register_pattern_table("splitter", lambda: [("splitter.parts", is_op("split")(is_op("nn.relu")(wildcard())))])
    model = parsed(
        """net (float[2,6] x) => (float[2,3] y, float[2,3] z) {
            r = Relu (x)
            y, t = Split <axis=1> (r, halves)
            z = Tanh (t)
        }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([3, 3]), "halves"))
    after = checked(model, partition(from_proto(model), "splitter", rules=[]))
    assert [(node.op_type, len(node.output)) for node in after.graph.node] == [("parts", 2), ("Tanh", 1)]


def test_dimensions_may_be_unknown() -> None:
    model = parsed(
        "net (float[N,8] x) => (float[N,4] y) { m = MatMul (x, w) \n a = Add (m, b) \n y = Relu (a) }",
        {"w": [8, 4], "b": [4]},
    )
    after = checked(model, partition(from_proto(model), "dnnl"))
    assert len(after.functions) == 1
    assert after.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_what_is_not_understood_stays_where_it_is() -> None:
    model = parsed(
        "net (float[2,8] x) => (float[2,4] y) { m = Gemm (x, w, b) \n r = Relu (m) \n y = custom.Odd (r) }",
        {"w": [8, 4], "b": [4]},
    )
    done = partition(from_proto(model), "dnnl")
    checked(model, done, runs=False)
    assert [node.op_type for node in done.after.graph] == ["matmul_bias_relu", "Odd"]
    assert done.opaque == {"Odd": {"it is not standard": 1}}


def test_a_model_without_matches_is_left_without_functions() -> None:
    model = parsed("net (float[2] x) => (float[2] y) { y = Erf (x) }")
    done = partition(from_proto(model), "dnnl")
    assert (len(done.after.functions), done.after.ir_version, done.composites.total()) == (0, 9, 0)


OPEN = parsed(
    "net (float[N,8] x, float[M,8] z) => (float[N,4] y) { m = MatMul (x, w) \n a = Add (m, b) \n y = Relu (a) }",
    {"w": [8, 4], "b": [4]},
)


@pytest.mark.parametrize("cut", [merge, partition])
def test_shapes_that_keep_a_table_from_matching_are_told(cut: Any) -> None:
    unmatched = cut(OPEN, "tensorrt").unmatched
    assert "the shape of Tensor[(?N, 4), float32] is open" in unmatched.reason
    assert unmatched.open_sizes == ("N", "M")
    assert cut(OPEN, "dnnl").unmatched is None


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("y = Relu (x)", "no pattern of the table matches; the operators of the model are nn.relu"),
        ("y = custom.Odd (x)", "no pattern of the table matches; the operators of the model are onnx.custom.Odd"),
        ("m = MatMul (x, x) \n y = Relu (m)", "conditions refuse it for its element type, shape or layout"),
    ],
)
def test_why_a_model_has_no_composites(nodes: str, reason: str) -> None:
    unmatched = merge(parsed(f"net (double[2,2] x) => (double[2,2] y) {{ {nodes} }}"), "dnnl").unmatched
    assert unmatched is not None
    assert reason in unmatched.reason


def test_sizes_that_are_given_make_shapes_known() -> None:
    fixed = with_sizes(OPEN, {"N": 3})
    done = partition(fixed, "tensorrt")
    assert done.composites == {"add_relu": 1}
    shapes = [
        [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in OPEN.graph.input
    ]
    assert shapes == [["N", 8], ["M", 8]]
    after = checked(ir.to_proto(fixed), done)
    assert [value.type.tensor_type.shape.dim[0].dim_value for value in (*after.graph.input, *after.graph.output)] == [
        3,
        0,
        3,
    ]


@pytest.mark.parametrize(("sizes", "told"), [({"K": 1}, "the dynamic ones are N, M"), ({"N": 0}, "a number above 0")])
def test_sizes_that_cannot_be_given(sizes: dict[str, int], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        with_sizes(OPEN, sizes)


def test_functions_of_the_model_keep_their_names() -> None:
    model = onnx.ModelProto()
    model.CopyFrom(LAYERS)
    body = [helper.make_node("Neg", ["a"], ["b"])]
    theirs = helper.make_function("dnnl", "conv2d_bias_relu", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    model.functions.append(theirs)
    model.opset_import.append(helper.make_opsetid("dnnl", 1))
    after = checked(model, partition(from_proto(model), "dnnl"))
    assert [function.name for function in after.functions] == [
        "conv2d_bias_relu",
        "conv2d_bias_relu_2",
        "conv2d_bias_relu_3",
    ]
    assert [node.op_type for node in after.functions[0].node] == ["Neg"]


def test_models_of_old_ir_versions_become_models_that_can_have_functions() -> None:
    model = onnx.ModelProto()
    model.CopyFrom(LAYERS)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    after = checked(model, partition(from_proto(model), "dnnl"), runs=False)
    assert after.ir_version == 8
    assert [value.name for value in after.graph.input] == ["x"]


def test_the_same_model_comes_out_every_time() -> None:
    first, second = (
        ir.to_proto(partition(from_proto(LAYERS), "tensorrt").after).SerializeToString(deterministic=True)
        for _ in range(2)
    )
    assert first == second


def test_an_unknown_target_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ArgumentError, match=r"no pattern table for 'gpu9000'; known targets are .*dnnl.*tensorrt"):
        partition(from_proto(LAYERS), "gpu9000")


def test_a_function_literal_that_is_no_composite_cannot_be_written() -> None:
    imported = import_model(from_proto(parsed("net (float[2] x) => (float[2] y) { y = Relu (x) }")))
    (param,) = imported.function.params
    inner = relay.var("a", shape=(2,))
    called = relay.Call(relay.Function([inner], relay.nn.relu(inner)), [param])
    with pytest.raises(ModelError, match="it is not a composite"):
        export_partitioned(relay.Function([param], called), imported, "dnnl")


UNARY = st.sampled_from(["Relu", "Tanh", "Sigmoid", "Abs", "Exp", "Neg"])
BINARY = st.sampled_from(["Add", "Mul", "Sub", "Max"])


@st.composite
def elementwise_models(draw: Any) -> onnx.ModelProto:
    """Random graphs of elementwise operators with shared values and one or two outputs."""
    names = ["x", "c"]
    lines = []
    for index in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            call = f"{draw(UNARY)} ({draw(st.sampled_from(names))})"
        else:
            call = f"{draw(BINARY)} ({draw(st.sampled_from(names))}, {draw(st.sampled_from(names))})"
        names.append(f"v{index}")
        lines.append(f"v{index} = {call}")
    outputs = list(dict.fromkeys([names[-1], draw(st.sampled_from(names[2:]))]))
    results = ", ".join(f"float[2,3] {name}" for name in outputs)
    return parsed(f"net (float[2,3] x) => ({results}) {{ {chr(10).join(lines)} }}", {"c": [2, 3]})


@settings(max_examples=12, deadline=None)
@given(elementwise_models(), st.sampled_from([None, []]))
def test_any_partition_computes_the_same(model: onnx.ModelProto, rules: Any) -> None:
    checked(model, partition(from_proto(model), "tensorrt", rules=rules))
    checked(model, merge(from_proto(model), "tensorrt"))


def test_work_grows_with_the_number_of_composites_and_not_faster(count_calls: Callable[[Any], int]) -> None:
    def effort(layers: int) -> int:
        nodes = " ".join(f"m{k} = Gemm (v{k}, w, b) v{k + 1} = Relu (m{k})" for k in range(layers))
        text = f"net (float[4,4] v0) => (float[4,4] v{layers}) {{ {nodes} }}"
        model = from_proto(parsed(text, {"w": [4, 4], "b": [4]}))
        return count_calls(lambda: merge(model, "dnnl"))

    assert effort(80) < 4.5 * effort(20)


# ---- on the command line


def test_the_command_writes_a_verified_model_and_tells_what_it_found(tmp_path: Path) -> None:
    onnx.save(LAYERS, tmp_path / "in.onnx")
    arguments = ["partition", tmp_path / "in.onnx", "--target", "dnnl", tmp_path / "out.onnx", "--verify", 1, "--json"]
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert [each["output"] for each in facts.pop("differences")] == ["y"]
    assert facts.pop("verified")["proves_nothing"] == {}
    assert facts == {
        "nodes": {"before": 6, "after": 3},
        "composites": {"conv2d_bias_relu": 2, "conv2d_bias_relu_2": 1},
        "runtime": "none",
        "opaque": {},
        "folded": {"computed": {}, "left": {}},
    }
    assert len(onnx.load(tmp_path / "out.onnx").functions) == 2


def test_the_command_says_why_it_finds_nothing_and_what_to_do(tmp_path: Path) -> None:
    onnx.save(OPEN, tmp_path / "in.onnx")
    arguments = ["partition", str(tmp_path / "in.onnx"), "--target", "tensorrt", str(tmp_path / "out.onnx")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "is open, which may be why: give its size, as in --dim N=1" in result.output
    result = CliRunner().invoke(cli, [*arguments, "--dim", "N=1", "--verify", "1"])
    assert result.exit_code == 0, result.output
    assert "composites  1 of 1 kinds" in result.output
    assert onnx.load(tmp_path / "out.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1


def test_the_page_shows_composites(tmp_path: Path) -> None:
    onnx.save(LAYERS, tmp_path / "in.onnx")
    page = tmp_path / "page.html"
    arguments = ["partition", str(tmp_path / "in.onnx"), "--target", "dnnl", str(tmp_path / "out.onnx")]
    result = CliRunner().invoke(cli, [*arguments, "--report", str(page)])
    assert result.exit_code == 0, result.output
    assert "2 x conv2d_bias_relu" in page.read_text()
    result = CliRunner().invoke(cli, [*arguments, "--report", str(page), "--as-is"])
    assert isinstance(result.exception, ArgumentError)
    assert "leave out one of them" in str(result.exception)


def test_as_is_the_table_is_taken_in_its_order(tmp_path: Path) -> None:
    onnx.save(BATCH_NORM, tmp_path / "in.onnx")
    arguments = ["partition", tmp_path / "in.onnx", "--target", "tensorrt", tmp_path / "out.onnx", "--as-is"]
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert "nodes  3 -> 3" in result.output
    assert "composites  3 of 3 kinds" in result.output
