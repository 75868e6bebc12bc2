"""``ir.make_node``, and nodes as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import ir, relay
from eqsat.relay.testing import mlp

X = relay.var("x", shape=(2, 3))
W = relay.var("w", shape=(4, 3))


@pytest.mark.parametrize(
    "node",
    [
        X,
        relay.nn.dense(X, W, units=4) + relay.const(np.arange(8.0, dtype="float32").reshape(2, 4)),
        relay.Function([X], relay.nn.softmax(X)).with_attr("Compiler", "mine"),
        relay.Tuple([]),
        relay.GlobalVar("main"),
        relay.TensorType((2, relay.Any("n")), "int8"),
        relay.FuncType([relay.TupleType([])], relay.TensorType(())),
        ir.make_node("DictAttrs", a=1, b=(2, "c"), d=None),
        relay.nn.softmax(X, axis=1).attrs,
        eqsat.nd.array(np.array([1, 2], "int16")),
        (1, "two", 3.5),
    ],
    ids=lambda node: type(node).__name__,
)
def test_what_is_saved_is_loaded(node: Any) -> None:
    text = ir.save_json(node)
    assert isinstance(json.loads(text), dict)
    assert ir.structural_equal(ir.load_json(text), node, map_free_vars=True)


def test_modules_are_loaded_with_their_types() -> None:
    module, _ = mlp.get_workload()
    loaded = ir.load_json(ir.save_json(module))
    ir.assert_structural_equal(loaded, module)
    assert loaded["main"].checked_type == module["main"].checked_type


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"eqsat": "module"}', '{"nodes": []}'])
def test_what_is_no_saved_node_is_said(text: str) -> None:
    with pytest.raises(eqsat.EqsatError, match="this is not JSON that save_json has made"):
        ir.load_json(text)


def test_what_cannot_be_saved_is_said() -> None:
    with pytest.raises(eqsat.EqsatError, match="a function cannot be saved"):
        ir.save_json(test_what_cannot_be_saved_is_said)


@pytest.mark.parametrize("key", ["nn.conv2d", "relay.attrs.Conv2DAttrs"])
def test_attributes_of_an_operator_are_made_by_name(key: str) -> None:
    attrs = ir.make_node(key, strides=(2, 2), channels=4)
    data, weight = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    assert attrs == relay.nn.conv2d(data, weight, strides=(2, 2), channels=4).attrs


@pytest.mark.parametrize("name", ["reshape", "concatenate", "nn.max_pool2d", "nn.batch_norm", "nn.dense", "clip"])
def test_names_of_attribute_classes_are_those_of_operators(name: str) -> None:
    op = relay.op.get(name)
    key = "".join(part.capitalize() for part in name.rpartition(".")[2].split("_"))
    given = {field.name: 1 for field in op.fields if field.default is relay.op.op.REQUIRED}
    assert ir.make_node(f"relay.attrs.{key}Attrs", **given).type_key == name


def test_an_immediate_is_made() -> None:
    assert ir.make_node("IntImm", dtype="int64", value=3).value == 3


@pytest.mark.parametrize("key", ["relay.attrs.NoSuchAttrs", "Span", "relay.attrs.Attrs"])
def test_a_kind_that_is_not_known_is_refused(key: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=f"but no '{key}'"):
        ir.make_node(key)


def test_an_attribute_that_the_operator_does_not_have_is_refused() -> None:
    with pytest.raises(eqsat.EqsatError, match=r"nn\.softmax has no attribute 'axes'"):
        ir.make_node("nn.softmax", axes=1)
