"""The passes that a partition function for CMSIS-NN runs, on small quantized networks."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay import nn, qnn, transform
from eqsat.relay.dataflow_pattern import is_constant, is_op, wildcard
from eqsat.relay.expr import Constant
from eqsat.relay.interpreter import evaluate
from eqsat.relay.op.contrib import cmsisnn
from eqsat.relay.visitor import post_order

TABLE = [
    (
        "cmsis-nn.qnn_conv2d",
        is_op("qnn.requantize")(
            is_op("qnn.conv2d")(
                is_op("nn.pad")(wildcard(), is_constant()) | wildcard(), *(is_constant() for _ in range(5))
            ),
            *(is_constant() for _ in range(4)),
        ),
    ),
    ("cmsis-nn.qnn_add", is_op("qnn.add")(wildcard(), wildcard(), *(is_constant() for _ in range(6)))),
]


def whole(value: Any, dtype: str = "int32") -> Constant:
    return relay.const(np.asarray(value, dtype))


def number(value: float) -> Constant:
    return relay.const(np.float32(value))


def network(pad_value: int = 3) -> eqsat.IRModule:
    x = relay.var("x", shape=(1, 5, 5, 2), dtype="int8")
    padded = nn.pad(x, [[0, 0], [1, 0], [0, 1], [0, 0]], whole(pad_value, "int32"))
    weight = whole(np.arange(3 * 3 * 2 * 4).reshape(3, 3, 2, 4) % 7 - 3, "int8")
    product = qnn.op.conv2d(
        padded, weight, whole(3), whole(0), number(0.1), number(0.2), kernel_size=(3, 3), channels=4,
        padding=(0, 1, 1, 0), data_layout="NHWC", kernel_layout="HWIO",
    )  # fmt: skip
    narrow = qnn.op.requantize(product, number(0.02), whole(0), number(0.3), whole(1), out_dtype="int8")
    scales = [number(0.3), whole(1), number(0.1), whole(0), number(0.4), whole(2)]
    return eqsat.IRModule.from_expr(qnn.op.add(narrow, whole(5, "int8"), *scales))


def partitioned(mod: eqsat.IRModule) -> eqsat.IRModule:
    steps = [transform.InferType(), transform.MergeComposite(TABLE), transform.AnnotateTarget("cmsis-nn")]
    return transform.Sequential([*steps, transform.PartitionGraph()])(mod)


def external(mod: eqsat.IRModule) -> list[Any]:
    return [mod[name] for name in mod.get_global_vars() if "Compiler" in mod[name].attrs]


def computed(mod: eqsat.IRModule) -> Any:
    data = np.random.default_rng(0).integers(-9, 9, (1, 5, 5, 2)).astype("int8")
    return evaluate(mod["main"].body, {mod["main"].params[0]: data}, mod)


def calls(mod: eqsat.IRModule, name: str) -> list[Any]:
    nodes = [node for function in external(mod) for node in post_order(function)]
    return [node for node in nodes if isinstance(node, relay.Call) and getattr(node.op, "name", None) == name]


def test_the_passes_are_found_by_their_registered_names() -> None:
    module = sys.modules["acme_cmsisnn"] = ModuleType("acme_cmsisnn")
    try:
        eqsat._ffi._init_api("relay.ext.cmsisnn.transform", "acme_cmsisnn")
    finally:
        del sys.modules["acme_cmsisnn"]
    assert module.CMSISNNFusePads is cmsisnn.CMSISNNFusePads
    mod = partitioned(network())
    names = ["GenerateCMSISNNConstants", "CMSISNNFusePads", "ScalarToTensorConstants"]
    steps = [getattr(module, name)() for name in [*names, "ExtractConstantsFromPartitionedFunction"]]
    result = transform.Sequential([*steps, transform.InferType()])(mod)
    assert len(external(result)) == 2
    assert np.array_equal(computed(result), computed(network()))


def test_a_convolution_pads_its_data_itself() -> None:
    result = cmsisnn.CMSISNNFusePads()(partitioned(network()))
    assert not calls(result, "nn.pad")
    assert [tuple(call.attrs.padding) for call in calls(result, "qnn.conv2d")] == [(1, 1, 1, 1)]
    assert np.array_equal(computed(result), computed(network()))


def test_a_pad_with_another_value_stays() -> None:
    result = cmsisnn.CMSISNNFusePads()(partitioned(network(pad_value=0)))
    assert len(calls(result, "nn.pad")) == 1
    assert np.array_equal(computed(result), computed(network(pad_value=0)))


def test_scalars_become_tensors() -> None:
    result = cmsisnn.ScalarToTensorConstants()(partitioned(network()))
    (total,) = calls(result, "qnn.add")
    assert total.args[1].checked_type.concrete_shape == (1, 5, 5, 4)
    assert np.array_equal(computed(result), computed(network()))


def test_tensors_become_parameters_in_the_order_of_their_use() -> None:
    steps = [cmsisnn.ScalarToTensorConstants(), cmsisnn.ExtractConstantsFromPartitionedFunction()]
    result = transform.Sequential(steps)(partitioned(network()))
    constants = [node for each in external(result) for node in post_order(each) if isinstance(node, Constant)]
    assert {node.data.shape for node in constants} == {()}
    assert sorted(len(function.params) for function in external(result)) == [
        2,
        2,
    ]  # a convolution's data and weight, a sum's two operands
    assert all(isinstance(call.args[1], relay.Var) for call in calls(result, "qnn.conv2d"))
    assert np.array_equal(computed(result), computed(network()))


@pytest.mark.parametrize("step", [cmsisnn.CMSISNNFusePads, cmsisnn.ExtractConstantsFromPartitionedFunction])
def test_functions_of_other_compilers_stay(step: Any) -> None:
    mod = network()
    assert eqsat.ir.structural_equal(step()(mod), transform.InferType()(mod))
