"""Cost models on nodes of known shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eqsat import relay
from eqsat.cost.devices import DEVICES
from eqsat.errors import ExtractionError
from eqsat.extraction import Bytes, CostNode, Device, Flops, Measured, OpCount, Roofline, Storage
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType

X, W, Y = TensorType((8, 16)), TensorType((32, 16)), TensorType((8, 32))
DENSE_ATTRS: Any = relay.nn.dense(relay.var("x", shape=(8, 16)), relay.var("w", shape=(32, 16))).attrs
DENSE = CostNode("nn.dense", DENSE_ATTRS, (X, W), Y)
ADD = CostNode("add", None, (X, X), X)
SUM = CostNode("sum", relay.sum(relay.var("x", shape=(8, 16)), axis=1).attrs, (X,), TensorType((8,)))
RESHAPE = CostNode("reshape", None, (X,), TensorType((128,)))
TOY = Device("toy", "", launch=1.0, view=0.25, bandwidth=10.0, peak={"default": 100.0}, vector={"default": 1.0})


def constant(node: CostNode) -> CostNode:
    return CostNode(node.op, node.attrs, node.arg_types, node.type, constant=True)


@pytest.mark.parametrize(
    ("model", "dense", "add", "total", "reshape"),
    [
        (OpCount(), 1, 1, 1, 1),
        (Bytes(), 4 * (128 + 512 + 256), 4 * 3 * 128, 4 * (128 + 8), 0),
        (Flops(), 2 * 8 * 16 * 32, 128, 128, 0),
        (Roofline(TOY), 1 + 358.4, 1 + 153.6, 1 + 128, 0.25),
    ],
)
def test_what_each_model_charges(model: Any, dense: float, add: float, total: float, reshape: float) -> None:
    assert [model(n) for n in (DENSE, ADD, SUM, RESHAPE)] == pytest.approx([dense, add, total, reshape])


@pytest.mark.parametrize("model", [OpCount(), Bytes(), Flops(), Roofline(), Measured()])
def test_what_does_not_run_is_free(model: Any) -> None:
    for head in ("var", "constant", "tuple", "project", "function", "global"):
        assert model(CostNode(head, None, (), X)) == 0.0
    assert model(constant(DENSE)) == 0.0


def test_storage_charges_constants_with_what_folding_adds() -> None:
    small, large = TensorType((4,)), TensorType((4, 100))
    assert Storage()(CostNode("constant", None, (), small)) == 16.0
    assert Storage()(CostNode("broadcast_to", None, (small,), large, constant=True)) == 1600.0 - 16.0
    assert Storage()(CostNode("transpose", None, (large,), large, constant=True)) == 0.0
    assert Storage()(ADD) == 0.0


def test_models_add_and_multiply() -> None:
    assert (OpCount() + Flops())(ADD) == 129.0
    assert (2 * OpCount())(ADD) == (OpCount() * 2)(ADD) == 2.0
    assert (Flops() * OpCount())(ADD) == 128.0
    assert (OpCount() + (lambda node: 0.5))(ADD) == ((lambda node: 0.5) + OpCount())(ADD) == 1.5


def test_unknown_dimensions_and_types_have_a_price() -> None:
    dynamic = TensorType((AnyDim(), 16))
    node = CostNode("add", None, (dynamic, dynamic), dynamic)
    assert Bytes()(node) == 4 * 3 * 16
    assert Flops()(node) == 16
    assert Roofline()(CostNode("add", None, (None, None), None)) == Roofline().device.launch
    assert Roofline()(CostNode("com.example.unheard_of", None, (X,), X)) > 0
    assert Bytes()(CostNode("split", None, (X,), TupleType([X, X]))) == 4 * 3 * 128


def test_every_shipped_device_prefers_one_large_product_to_two_halves() -> None:
    half_w, half_y = TensorType((16, 16)), TensorType((8, 16))
    half = CostNode("nn.dense", DENSE_ATTRS, (X, half_w), half_y)
    assert {"cpu", "gpu", "npu"} <= set(DEVICES)
    for name in DEVICES:
        assert Roofline(name)(DENSE) < 2 * Roofline(name)(half)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ExtractionError, match=r"no device 'abacus'; eqsat has cpu, gpu, npu"):
        Roofline("abacus")


def test_measured_costs_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "costs.json"
    first = Measured(cache)(DENSE)
    assert first > 0
    monkeypatch.setattr("eqsat.cost.measured._measure", lambda node: pytest.fail("measured again"))
    assert Measured(cache)(DENSE) == first


def test_what_cannot_be_run_is_left_to_another_model() -> None:
    dynamic = TensorType((AnyDim(), 16))
    model = Measured(otherwise=OpCount() * 7)
    assert model(CostNode("add", None, (dynamic, dynamic), dynamic)) == 7.0
    assert model(CostNode("com.example.unheard_of", None, (X,), X)) == 7.0


@pytest.mark.parametrize("text", ["{", "[1]", '{"add": "soon"}'])
def test_a_spoilt_cache_is_refused(tmp_path: Path, text: str) -> None:
    cache = tmp_path / "costs.json"
    cache.write_text(text)
    with pytest.raises(ExtractionError, match=r"costs\.json is not a cache"):
        Measured(cache)
