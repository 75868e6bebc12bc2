"""Import and export keep all that they do not change: what comes out reads as what went in."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from eqsat.onnx import export_model, import_model, load, run, save
from eqsat.onnx.files import from_proto, to_proto
from eqsat.relay.expr import Tuple
from eqsat.relay.visitor import post_order
from eqsat.rules import sets

from .models import conv_batch_norm, operators, optimized, parsed, round_trip

KEPT = {
    "names": """(float[N,3,H,W] image, float[3] scale) => (float[N,3,H,W] y) {
        [first] a = Mul (image, image)
        [second] y = Sigmoid (a)
    }""",
    "a custom operator, with all kinds of attributes": """(float[N] x) => (float[N] y) {
        a = my.Magic <f: float = 1.5, s: string = "s", i: ints = [1, 2], t: tensor = float[2] {1.0, 2.0}> (x, , x)
        y = Relu (a)
    }""",
    "several outputs": """(float[N] x) => (float[N] y, float[N] z) {
        a, b = my.Two (x)
        y = Relu (b)
        z = Add (a, b)
    }""",
    "branches over outer values": """(bool c, float[N] x) => (float[N] y) {
        a = Neg (x)
        y = If (c) <
            then_branch = t () => (float[N] p) { p = Relu (a) },
            else_branch = e () => (float[N] q) { q = Abs (x) }
        >
    }""",
    "a branch in a branch": """(bool c, bool d, float[N] x) => (float[N] y) {
        y = If (c) <
            then_branch = t () => (float[N] p) {
                p = If (d) <
                    then_branch = u () => (float[N] o) { o = Sin (x) },
                    else_branch = v () => (float[N] r) { r = Abs (x) }
                >
            },
            else_branch = e () => (float[N] q) { q = Neg (x) }
        >
    }""",
    "a loop": """(int64 m, float[N] x) => (float[N] y) {
        a = Neg (x)
        y = Loop (m, , x) <
            body = b (int64 i, bool go, float[N] s) => (bool more, float[N] t) { t = Add (s, a) more = Identity (go) }
        >
    }""",
    "a scan": """(float[N] x, float[T,N] xs) => (float[N] y, float[T,N] ys) {
        y, ys = Scan <
            body = b (float[N] s, float[N] e) => (float[N] n, float[N] o) { n = Add (s, e) o = Identity (n) },
            num_scan_inputs = 1
        > (x, xs)
    }""",
    "sequences": "(seq(float[N]) s, int64 i) => (float[N] y) { y = SequenceAt (s, i) }",
    "optionals": "(optional(float[N]) s) => (float[N] y) { y = OptionalGetElement (s) }",
    "strings": "(string[N] s) => (bool[N] y) { y = my.IsEmpty (s) }",
    "machine learning operators": """(float[1,4] x) => (float[1,4] y) {
        y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)
    }""",
    "quantized tensors": """(float[N] x, float s, int8 z) => (float[N] y) {
        q = QuantizeLinear (x, s, z)
        y = DequantizeLinear (q, s, z)
    }""",
    "an initializer that callers may override": """(float[2] x, float[2] w) => (float[2] y)
        <float[2] w = {1.0, 2.0}>
    { y = Mul (x, w) }""",
    "no nodes": "(float[N] x) => (float[N] x) { }",
    "a constant that is a result and is used": """(float[2] x) => (float[2] y, float[2] z) {
        [given] y = Constant <value = float[2] {1.0, 2.0}> ()
        z = Add (x, y)
    }""",
    "equal outputs": "(float[2] x) => (float[2] y, float[2] z) { y = Relu (x) z = Identity (y) }",
}
DOMAINS = ', "my": 3, "ai.onnx.ml": 3'


@pytest.mark.parametrize("graph", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("way", [round_trip, optimized])
def test_what_is_not_changed_is_kept(way: object, graph: str) -> None:
    proto = parsed(graph, opset=18, domains=DOMAINS)
    after = way(proto)  # type: ignore[operator]
    assert onnx.printer.to_text(after) == onnx.printer.to_text(proto)
    onnx.checker.check_model(after)


@pytest.mark.parametrize("way", [round_trip, optimized])
def test_local_functions_are_kept(way: object) -> None:
    functions = '<domain: "local", opset_import: ["": 17]> twice (x) => (y) { y = Add (x, x) }'
    proto = parsed("(float[N] x) => (float[N] y) { y = local.twice (x) }", domains=', "local": 1', functions=functions)
    after = way(proto)  # type: ignore[operator]
    assert onnx.printer.to_text(after) == onnx.printer.to_text(proto)


def test_documentation_and_metadata_are_kept() -> None:
    proto = parsed(
        "(float[N,2] x) => (float[N,2] y, float[N,2] z) <float[2] w = {1.0, 2.0}> { [one] y = Relu (x) z = Add (y, w) }"
    )
    proto.producer_name, proto.producer_version, proto.domain = "producer", "1.2", "org.example"
    proto.model_version, proto.doc_string = 7, "the model"
    proto.graph.doc_string, proto.graph.name = "the graph", "its name"
    proto.graph.input[0].doc_string, proto.graph.output[0].doc_string = "what goes in", "what comes out"
    proto.graph.node[0].doc_string = "the node"
    helper.set_model_props(proto, {"author": "somebody"})
    proto.graph.node[0].metadata_props.add(key="layer", value="3")
    as_read = ir.to_proto(from_proto(proto))  # fields that are there and empty are left out
    assert round_trip(proto) == ir.to_proto(run(proto, provenance=False).after) == as_read
    proto.graph.initializer[0].metadata_props.add(key="layer", value="4")
    for after in (round_trip(proto), optimized(proto)):
        assert after.graph.initializer[0].metadata_props == proto.graph.initializer[0].metadata_props


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float8e4m3fn", "complex64", "string"])
def test_weights_of_types_beyond_the_ir_are_kept(dtype: str) -> None:
    value = {"complex64": None, "string": '{"a", "b"}', "float8e4m3fn": None}.get(dtype, "{1, 2}")
    proto = parsed(f"({dtype}[2] x) => (float[2] y) {{ y = my.Mix (x, w) }}", 21, 10, ', "my": 1')
    if value is None:
        kind = onnx.TensorProto.COMPLEX64 if dtype == "complex64" else onnx.TensorProto.FLOAT8E4M3FN
        size = {"complex64": 16, "float8e4m3fn": 2}[dtype]
        proto.graph.initializer.append(helper.make_tensor("w", kind, [2], bytes(range(size)), raw=True))
    else:
        text = f"({dtype}[2] x) => (float[2] y) <{dtype}[2] w = {value}> {{ y = my.Mix (x, w) }}"
        proto = parsed(text, 21, 10, ', "my": 1')
    after = optimized(proto)
    assert [tensor.SerializeToString() for tensor in after.graph.initializer] == [
        tensor.SerializeToString() for tensor in proto.graph.initializer
    ]
    assert after.graph.node[0].input == ["x", "w"]


def test_initializers_that_are_inputs_stay_inputs_in_ir_version_3() -> None:
    """They are constants all the same, so they may be folded; new ones are listed as inputs too."""
    proto = conv_batch_norm()
    proto.ir_version = 3
    proto.opset_import[0].version = 9
    for tensor in proto.graph.initializer:
        proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    after = optimized(proto)
    onnx.checker.check_model(after)
    assert operators(after.graph) == {"Conv": 1, "Relu": 1}
    assert {tensor.name for tensor in after.graph.initializer} < {value.name for value in after.graph.input}
    assert after.ir_version == 3


def test_an_initializer_that_is_an_output_stays_one() -> None:
    proto = parsed("(float[2] x) => (float[2] y, float[2] w) <float[2] w = {1.0, 2.0}> { y = Add (x, w) }")
    after = round_trip(proto)
    onnx.checker.check_model(after)
    assert [value.name for value in after.graph.output] == ["y", "w"]
    assert [node.input for node in after.graph.node] == [["x", "w"]]


@pytest.mark.parametrize("output", ["y", "x", "w"])
def test_one_value_as_several_outputs(output: str) -> None:
    """A result, an input, an initializer."""
    proto = parsed(
        f"(float[2] x) => (float[2] {output}, float[2] {output}, float[2] z) <float[2] w = {{1.0, 2.0}}> {{"
        " a = Relu (x) y = Relu (a) z = Add (y, w) }"
    )
    after = optimized(proto)
    onnx.checker.check_model(after)
    assert [value.name for value in after.graph.output] == [output, output, "z"]


def test_thousands_of_outputs() -> None:
    """In order and under their names, without a tuple as wide: the tables of the e-graph would cost its square."""
    count = 3000
    stated = ", ".join(f"float[2] y{index}" for index in range(count))
    nodes = " ".join(f"y{index} = LeakyRelu <alpha = {index}.5> (x)" for index in range(count))
    proto = parsed(f"(float[2] x) => ({stated}) {{ {nodes} }}")
    done = run(from_proto(proto), [sets["shape"]])
    after = to_proto(done.after)
    assert [value.name for value in after.graph.output] == [value.name for value in proto.graph.output]
    alphas = {node.output[0]: node.attribute[0].f for node in after.graph.node if node.op_type == "LeakyRelu"}
    assert alphas == {f"y{index}": index + 0.5 for index in range(count)}
    tuples = [expr for expr in post_order(done.imported.function) if isinstance(expr, Tuple)]
    assert max(len(expr.fields) for expr in tuples) <= 64


def test_unused_inputs_stay_and_what_nobody_uses_goes() -> None:
    proto = parsed(
        """(float[2] x, float[3] unused) => (float[2] y) <float[2] w = {1.0, 2.0}> {
            y = Relu (x)
            dead = Add (x, w)
        }"""
    )
    after = round_trip(proto)
    assert [value.name for value in after.graph.input] == ["x", "unused"]
    assert operators(after.graph) == {"Relu": 1}
    assert not after.graph.initializer


def test_names_are_unique_over_all_scopes() -> None:
    """A branch that is taken on import brings names that the graph has for something else."""
    proto = parsed(
        """(float[N] x) => (float[N] y) <bool c = {1}> {
            a = Neg (x)
            b = If (c) <
                then_branch = t () => (float[N] p) { p = Relu (x) },
                else_branch = e () => (float[N] q) { q = Abs (x) }
            >
            p = Sigmoid (a)
            y = Add (b, p)
        }"""
    )
    after = round_trip(proto)
    onnx.checker.check_model(after, full_check=True)
    assert operators(after.graph) == {"Neg": 1, "Relu": 1, "Sigmoid": 1, "Add": 1}


def test_declared_shapes_are_not_believed() -> None:
    """The output is declared a vector of 5; that the reshape does nothing is so for the true shape only."""
    proto = parsed("(float[2,3] x) => (float[5] y) <int64[1] s = {6}> { a = Relu (x) y = Reshape (a, s) }")
    proto.graph.value_info.append(helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [6]))
    assert operators(optimized(proto).graph) == {"Relu": 1, "Reshape": 1}


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 15, 18, 21, onnx.defs.onnx_opset_version()])
def test_the_opset_is_kept_and_only_what_it_has_is_written(opset: int) -> None:
    proto = conv_batch_norm()
    proto.opset_import[0].version = opset
    after = optimized(proto)
    assert after.opset_import == proto.opset_import
    onnx.checker.check_model(after)
    assert operators(after.graph) == {"Conv": 1, "Relu": 1}


@pytest.mark.parametrize("opset", [1, 6])
def test_of_old_opsets_all_passes_through(opset: int) -> None:
    proto = parsed("(float[N] x) => (float[N] y) { y = Relu (x) }", opset=opset, ir_version=3)
    assert onnx.printer.to_text(optimized(proto)) == onnx.printer.to_text(proto)
    imported = import_model(from_proto(proto))
    assert list(imported.opaque) == ["Relu"]


def test_external_weights_are_handed_on_without_being_read(tmp_path: object) -> None:
    folder = str(tmp_path)
    onnx.save(conv_batch_norm(), f"{folder}/m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    model = load(f"{folder}/m.onnx")
    imported = import_model(model)
    exported = export_model(imported.function, imported)
    tensors = [value.const_value for value in exported.graph.initializers.values()]
    assert all(isinstance(tensor, ir.ExternalTensor) and tensor.raw is None for tensor in tensors)
    save(exported, f"{folder}/out.onnx")
    onnx.checker.check_model(f"{folder}/out.onnx")
