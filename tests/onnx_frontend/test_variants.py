"""Equal ONNX models, made by applying rules at random in either direction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from eqsat import relay, rules
from eqsat.onnx import differing, export_model, import_model, load, variants, verify
from eqsat.onnx.files import from_proto, to_proto

from .models import conv_batch_norm, operators, parsed, with_weights

DATA = Path(__file__).parents[1] / "data"


def gated() -> onnx.ModelProto:
    """A product, a gate and a mean."""
    return with_weights(
        parsed(
            """(float[2,8] x) => (float[2,1] y) {
                d = MatMul (x, w)
                s = Sigmoid (d)
                g = Mul (d, s)
                y = ReduceMean <axes = [-1]> (g)
            }"""
        ),
        w=(8, 4),
    )


@pytest.mark.parametrize("proto", [gated(), conv_batch_norm()], ids=["gate", "convolution"])
def test_variants_are_valid_and_compute_the_same(proto) -> None:
    found = variants(proto, count=12)
    assert len(found) == 12
    for each in found:
        onnx.checker.check_model(each.graph)
        onnxruntime.InferenceSession(each.graph.SerializeToString(), providers=["CPUExecutionProvider"])
        made = from_proto(each.graph)
        assert not differing(verify(from_proto(proto), made), 1e-4), each.rules
    assert len({len(each.graph.graph.node) for each in found}) > 3
    assert len({kind for each in found for kind in operators(each.graph.graph)}) > 8


def test_equal_seeds_give_equal_models_and_others_others() -> None:
    one, again, other = ([each.graph for each in variants(gated(), count=3, seed=seed)] for seed in (1, 1, 2))
    assert one == again != other


def test_a_model_of_onnx_ir_gives_such() -> None:
    (found,) = variants(from_proto(gated()), count=1, rules=rules.activations)
    assert isinstance(found.graph, ir.Model)
    assert found.rules


def test_inputs_outputs_and_names_stay() -> None:
    path = sorted((DATA / "exports").glob("*.onnx"))[0]
    model = load(path)
    (found,) = variants(model, count=1)
    given, made = to_proto(model).graph, to_proto(found.graph).graph
    assert [(each.name, each.type) for each in given.input] == [(each.name, each.type) for each in made.input]
    assert [each.name for each in given.output] == [each.name for each in made.output]


def test_moves_of_no_axes_are_not_written() -> None:
    """Rules may make them, but onnxruntime squeezes all axes, or refuses them."""
    imported = import_model(from_proto(parsed("(float[1,2] x, float s) => (float[1,2] y) { y = Add (x, s) }")))
    x, s = imported.function.params
    scalar = relay.nn.pad(relay.strided_slice(s, begin=[], end=[]), pad_width=[])
    call = relay.squeeze(x, axis=[]) + relay.transpose(scalar, axes=[])
    made = export_model(relay.Function(imported.function.params, call), imported)
    assert operators(made.graph) == {"Add": 1}


@pytest.mark.parametrize("opset", [11, 17, 21])
@pytest.mark.parametrize("name", ["sum", "max", "prod", "mean", "norm_l2", "sum_of_squares"])
def test_reductions_along_no_axes_keep_each_element(name: str, opset: int) -> None:
    """To ONNX, no axes are all axes."""
    imported = import_model(from_proto(parsed("(float[2,3] x) => (float[2,3] y) { y = Relu (x) }", opset=opset)))
    (x,) = imported.function.params
    data = np.arange(1, 7, dtype="float32").reshape(2, 3)
    for attrs in ({"axis": ()}, {"axis": (0, 1), "exclude": True, "keepdims": True}):
        call = getattr(relay.op.reduce, name)(x, **attrs)
        made = to_proto(export_model(relay.Function([x], call), imported))
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {made.graph.input[0].name: data})
        assert np.allclose(found, relay.interpreter.evaluate(call, {x: data}), rtol=1e-6)


def test_slices_whose_lists_differ_in_length_are_written_whole() -> None:
    imported = import_model(from_proto(parsed("(float[4,5] x) => (float[4,5] y) { y = Relu (x) }")))
    (x,) = imported.function.params
    data = np.arange(20, dtype="float32").reshape(4, 5)
    for attrs in ({"begin": [1], "end": [3, -1]}, {"begin": [], "end": [3, -6], "strides": [1, -2]}):
        call = relay.strided_slice(x, **attrs)
        made = to_proto(export_model(relay.Function([x], call), imported))
        (given,) = made.graph.input
        (found,) = ReferenceEvaluator(made).run(None, {given.name: data})
        assert np.array_equal(found, relay.interpreter.evaluate(call, {x: data}))
