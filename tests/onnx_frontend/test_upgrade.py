"""Models written over newer operators than they were read over."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from eqsat.errors import ModelError
from eqsat.onnx import at_opset
from eqsat.onnx.files import from_proto

from .models import operators, optimized, parsed, with_weights
from .test_dynamic import agree, rows, with_constants

NORMALIZED = """(float[n,3,8] x) => (float[n,3,8] y) {
    mean = ReduceMean <axes = [2]> (x)  moved = Sub (x, mean)
    squares = Mul (moved, moved)  spread = ReduceMean <axes = [2]> (squares)
    above = Add (spread, eps)  deviation = Sqrt (above)  unit = Div (moved, deviation)
    scaled = Mul (unit, gamma)  h = Add (scaled, beta)
    s = Softmax <axis = 2> (h)
    c = Clip <min = -1.0, max = 1.0> (s)
    q = Squeeze <axes = [0]> (one)  y = Mul (c, q)
}"""


def raised(proto: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    return ir.to_proto(at_opset(from_proto(proto), opset))


def normalized(opset: int = 10, ir_version: int = 5) -> onnx.ModelProto:
    proto = with_weights(parsed(NORMALIZED, opset=opset, ir_version=ir_version), gamma=(8,), beta=(8,))
    return with_constants(proto, eps=1e-5, one=[1.0])


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
def test_the_same_is_computed_over_newer_operators(opset: int) -> None:
    """What were attributes are inputs."""
    proto = normalized()
    newer = raised(proto, opset)
    onnx.checker.check_model(newer, full_check=True)
    assert newer.opset_import[0].version == opset
    assert agree(proto, newer, rows(2, 3, 8))


def test_newer_operators_say_more() -> None:
    proto = normalized()
    assert "LayerNormalization" not in operators(optimized(proto).graph)
    newer = optimized(raised(proto, 17))
    assert operators(newer.graph)["LayerNormalization"] == 1
    assert agree(proto, newer, rows(2, 3, 8))


def test_constants_of_old_models_are_no_inputs_of_new_ones() -> None:
    """They were listed as inputs up to IR version 3, which opset 13 is beyond."""
    proto = normalized(ir_version=3)
    proto.graph.input.extend(
        onnx.helper.make_tensor_value_info(value.name, value.data_type, value.dims) for value in proto.graph.initializer
    )
    newer = raised(proto, 13)
    assert newer.ir_version > 3
    assert [value.name for value in newer.graph.input] == ["x"]


def test_the_models_own_version_is_no_change() -> None:
    model = from_proto(normalized())
    assert at_opset(model, 10) is model


@pytest.mark.parametrize("opset", [9, 1000])
def test_versions_that_cannot_be(opset: int) -> None:
    with pytest.raises(
        ModelError, match=f"a model of opset 10 can be converted to the opsets 11 to .*, not to {opset}"
    ):
        at_opset(from_proto(normalized()), opset)


NOT_UNDERSTOOD = {
    "an attribute becomes an input": (
        "(float[1,4,3,2] x) => (float[1,4,3,2] y) { h = DFT <axis = 2> (x) y = Exp (h) }",
        {"x": np.arange(24, dtype="f4").reshape(1, 4, 3, 2) / 24},
    ),
    "another word for the same": (
        "(float[1,1,3,3] x, float[1,2,2,2] g) => (float[1,1,2,2] y) "
        '{ h = GridSample <mode = "bilinear"> (x, g) y = Exp (h) }',
        {"x": np.arange(9, dtype="f4").reshape(1, 1, 3, 3), "g": np.linspace(-1, 1, 8, dtype="f4").reshape(1, 2, 2, 2)},
    ),
    "several results": (
        "(float[5,1,2] x, float[1,12,2] w, float[1,12,3] r) => (float[5,1,1,3] y, float[1,1,3] c) "
        "{ y, h, c = LSTM <hidden_size = 3> (x, w, r) }",
        {name: np.ones(shape, "f4") / 4 for name, shape in {"x": (5, 1, 2), "w": (1, 12, 2), "r": (1, 12, 3)}.items()},
    ),
    "a subgraph, which takes a value from outside": (
        "(bool b, float[1,2,2,2] x) => (float[1,2,2,2] y) { two = Add (x, x) y = If (b) "
        "<then_branch = t () => (o) { o = DFT <axis = 1> (two) }, else_branch = e () => (p) { p = Relu (x) }> }",
        {"b": np.array(True), "x": np.arange(8, dtype="f4").reshape(1, 2, 2, 2)},
    ),
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_converted(name: str) -> None:
    """By ONNX's own converter, node by node."""
    text, feeds = NOT_UNDERSTOOD[name]
    proto = parsed(text, opset=18)
    newer = raised(proto, 23)
    onnx.checker.check_model(newer, full_check=True)
    assert newer.opset_import[0].version == 23
    newer.ir_version = proto.ir_version
    assert agree(proto, newer, feeds)


@pytest.mark.parametrize(("old", "new"), [(12, 13), (13, 18)])
def test_an_operator_that_is_not_understood_means_the_same(old: int, new: int) -> None:
    """It has another version in opset 13, and no other after that."""
    proto = parsed("(float[2,3] x) => (float[2,3] y) { h = Hardmax (x) y = Exp (h) }", opset=old)
    assert agree(proto, raised(proto, new), {"x": np.eye(2, 3, dtype="f4")})


def test_what_cannot_be_converted_is_refused() -> None:
    proto = parsed("(float[2,3] x) => (float[2,6] y) { h = Upsample (x) y = Exp (h) }", opset=8)
    with pytest.raises(ModelError, match=r"Upsample node .* is not understood, and cannot be converted to opset 13"):
        at_opset(from_proto(proto), 13)
