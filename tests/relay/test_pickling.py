"""Expressions, modules and what they hold survive pickle, and copies of what is immutable are the thing itself."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay.structural import structural_equal

x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))


def chain(length: int) -> Any:
    node: Any = x
    for _ in range(length):
        node = relay.nn.relu(node)
    return node


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("length", [1, 2, 997, 998, 999, 1000, 1001, 1999, 2000, 20_000])
def test_a_graph_of_any_depth_comes_back(length: int) -> None:
    """Pickle takes the nodes of a list a thousand at a time."""
    assert structural_equal(again(chain(length)), chain(length), map_free_vars=True)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_and_pickle_in_python_serve(protocol: int) -> None:
    file = io.BytesIO()
    pickle._Pickler(file, protocol).dump(chain(3000))
    assert structural_equal(pickle.loads(file.getvalue()), chain(3000), map_free_vars=True)


def test_what_is_one_node_stays_one_node() -> None:
    inner = relay.nn.relu(x)
    one, other, both = again([inner + inner, relay.nn.relu(inner), relay.Tuple([inner, x])])
    assert one.args[0] is one.args[1] is other.args[0] is both[0]
    assert both[0].args[0] is both[1]
    function = again(relay.Function([x], inner))
    assert function.body.args[0] is function.params[0]


def test_nodes_of_every_class_come_back() -> None:
    cell = relay.RefCreate(x)
    types = [
        relay.TupleType([relay.TensorType((2, relay.Any("n")))]),
        relay.FuncType([], relay.RefType(x.type_annotation)),
    ]
    attrs = {"Composite": "a.b", "numbers": (1, 2.5, None), "inner": {"key": [True]}}
    function = relay.Function([x, y], relay.Let(x, cell, relay.If(relay.const(True), x, y)), attrs=attrs)
    pair = relay.Tuple(
        [function, relay.GlobalVar("f"), relay.RefRead(cell), relay.RefWrite(cell, y), relay.op.get("add")]
    )
    graph = relay.TupleGetItem(pair, 0)
    assert structural_equal(again(graph), graph, map_free_vars=True)
    assert again(relay.op.get("add")) is relay.op.get("add")
    assert again(types) == types
    assert hash(again(types[0])) == hash(types[0])


def test_what_is_known_of_a_node_comes_back() -> None:
    typed: Any = relay.transform.InferType()(eqsat.IRModule.from_expr(relay.nn.relu(x)))["main"]
    assert again(typed).body.checked_type == relay.TensorType((2, 3))
    assert again(relay.parse_expr("free_var %x: float32; %x + %x")).span is not None


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", ml_dtypes.bfloat16])
def test_constants_and_attributes_come_back(dtype: Any) -> None:
    constant = relay.const(np.ones((2, 3), dtype), dtype=np.dtype(dtype).name)
    assert again(constant).data.digest() == constant.data.digest()
    attrs = relay.nn.softmax(x, axis=1).attrs
    assert again(attrs) == attrs
    assert type(again(attrs)) is type(attrs)


def test_types_are_found_in_tables_of_another_process() -> None:
    """Python's hashes of texts differ between processes."""
    program = "import pickle, sys; from eqsat import relay; from eqsat.relay import TensorType as T\n"
    program += "assert T((2, 3)) in pickle.load(sys.stdin.buffer)"
    table = pickle.dumps({relay.TensorType((2, 3)): 1})
    subprocess.run([sys.executable, "-c", program], input=table, check=True)


def test_modules_come_back_and_copies_are_independent() -> None:
    prelude = relay.Prelude().mod
    module = eqsat.IRModule.from_expr(relay.Function([x], chain(2000)))
    assert structural_equal(again(module), module)
    assert structural_equal(again(prelude), prelude)
    for made in (copy.copy(module), copy.deepcopy(module)):
        made["other"] = module["main"]
        assert "other" not in module


def test_copies_of_what_is_immutable_are_the_thing_itself() -> None:
    deep = chain(20_000)
    for each in (deep, relay.const(1.0), relay.const(1.0).data, relay.nn.softmax(x).attrs, relay.TensorType((2,))):
        assert copy.copy(each) is each
        assert copy.deepcopy([each])[0] is each


def test_a_pickle_that_fails_leaves_nothing_behind() -> None:
    failing = chain(5000) + relay.Function([], x, attrs={"function": lambda: None})
    for _ in range(2):
        with pytest.raises((AttributeError, pickle.PicklingError)):
            pickle.dumps(failing)
    assert structural_equal(again(failing.args[0]), failing.args[0], map_free_vars=True)
