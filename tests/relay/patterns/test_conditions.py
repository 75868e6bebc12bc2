"""`has_attr`, `has_type`, `has_dtype` and `has_shape`."""

from __future__ import annotations

from typing import Any

import pytest

from eqsat import relay, tir
from eqsat.errors import PatternError, TypeCheckError
from eqsat.relay import infer
from eqsat.relay.dataflow_pattern import (
    K_BROADCAST,
    K_ELEMWISE,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_op,
    is_var,
    wildcard,
)

from .helpers import matches, variables

X, W = relay.var("x"), relay.var("w")


class TestOperatorAttributes:
    def test_kinds_of_operators(self) -> None:
        assert matches(is_op("add").has_attr({"TOpPattern": K_BROADCAST}), relay.op.get("add"))
        assert matches(is_op("add").has_attr({"TOpPattern": K_BROADCAST})(wildcard(), wildcard()), X + W)
        assert not matches(is_op("nn.dense").has_attr({"TOpPattern": K_ELEMWISE}), relay.op.get("nn.dense"))

    def test_the_operator_still_has_to_match(self) -> None:
        assert not matches(is_op("add").has_attr({"TOpPattern": K_BROADCAST}), relay.op.get("subtract"))

    def test_a_registered_attribute(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(relay.op.get("tanh").attr_map, "test.priority", 3)
        assert matches(wildcard().has_attr({"test.priority": 3}), relay.op.get("tanh"))
        assert not matches(wildcard().has_attr({"test.priority": 4}), relay.op.get("tanh"))
        assert not matches(wildcard().has_attr({"test.priority": 3}), relay.op.get("add"))

    @pytest.mark.parametrize(("value", "same"), [(1, True), (True, True), (1.0, False), ("1", False)])
    def test_numbers_compare_by_value(self, value: Any, same: bool) -> None:
        assert matches(wildcard().has_attr({"TOpPattern": value}), relay.op.get("add")) is same

    def test_what_is_said_of_an_operator_is_not_said_of_its_calls(self) -> None:
        assert not matches(is_op("add")(None).has_attr({"TOpPattern": K_BROADCAST}), X + W)

    def test_attributes_of_operators_only_some_have(self) -> None:
        assert not matches(wildcard().has_attr({"TOpPattern": 1}), relay.op.get("nn.layer_norm"))
        assert not matches(wildcard().has_attr({"num_inputs": 2}), relay.op.get("add"))


class TestCallAttributes:
    conv = relay.nn.conv2d(X, W, kernel_size=(3, 3), channels=8)

    @pytest.mark.parametrize(
        ("attrs", "same"),
        [
            ({"data_layout": "NCHW"}, True),
            ({"data_layout": "NHWC"}, False),
            ({"RandomAttr": "NCHW"}, False),
            ({"kernel_size": [3, 3]}, True),
            ({"kernel_size": (3, 3)}, True),
            ({"kernel_size": [3]}, False),
            ({"kernel_size": 3}, False),
            ({"kernel_size": [3, True]}, False),
            ({"kernel_size": [tir.IntImm("int64", 3)] * 2}, False),
            ({"groups": 1}, True),
            ({"groups": True}, True),
            ({"groups": tir.IntImm("int64", 1)}, True),
            ({"groups": 1.0}, False),
            ({"groups": "1"}, False),
            ({"channels": 8}, True),
            ({"channels": 9}, False),
            ({"kernel_size": [3, 3], "groups": 1}, True),
            ({"kernel_size": [3, 3], "groups": 2}, False),
            ({}, True),
        ],
    )
    def test_values_compare_by_the_kind_of_the_attribute(self, attrs: dict[str, Any], same: bool) -> None:
        assert matches(is_op("nn.conv2d")(None).has_attr(attrs), self.conv) is same

    def test_floats(self) -> None:
        leaky = relay.nn.leaky_relu(X, alpha=0.1)
        assert matches(wildcard().has_attr({"alpha": 0.1}), leaky)
        assert not matches(wildcard().has_attr({"alpha": 0.2}), leaky)
        assert not matches(wildcard().has_attr({"alpha": 0}), relay.nn.leaky_relu(X, alpha=0.0))

    def test_booleans(self) -> None:
        norm = relay.nn.batch_norm(*variables("x g b m v"), center=True).astuple()
        assert matches(wildcard().has_attr({"center": True}), norm)
        assert matches(wildcard().has_attr({"center": 1}), norm)
        assert not matches(wildcard().has_attr({"center": False}), norm)

    def test_dtypes(self) -> None:
        cast = relay.cast(X, "float32")
        assert matches(is_op("cast")(wildcard()).has_attr({"dtype": "float32"}), cast)
        assert not matches(is_op("cast")(wildcard()).has_attr({"dtype": "float16"}), cast)
        with pytest.raises(PatternError, match="dtype of cast is a dtype"):
            matches(wildcard().has_attr({"dtype": 32}), cast)

    def test_dictionary_attributes_of_a_call(self) -> None:
        f = relay.var("f")
        call = relay.Call(f, [X], {"device": "gpu"})
        assert matches(wildcard().has_attr({"device": "gpu"}), call)
        assert not matches(wildcard().has_attr({"device": "cpu"}), call)
        assert not matches(wildcard().has_attr({"place": "gpu"}), call)
        assert matches(wildcard().has_attr({}), relay.Call(f, [X], {}))

    def test_undefined_attributes_match_an_empty_dictionary_only(self) -> None:
        call = relay.Call(relay.var("f"), [X])
        assert matches(wildcard().has_attr({}), call)
        assert not matches(wildcard().has_attr({"device": "gpu"}), call)

    def test_values_that_cannot_be_compared_are_errors(self) -> None:
        conv = relay.nn.conv2d(X, W)
        with pytest.raises(PatternError, match=r"nn\.conv2d does not set channels"):
            matches(wildcard().has_attr({"channels": 8}), conv)
        assert not matches(wildcard().has_attr({"channels": [8]}), conv)
        with pytest.raises(PatternError, match="groups"):
            matches(wildcard().has_attr({"groups": [1]}), conv)


class TestFunctionAttributes:
    function = relay.Function([X, W], X + W).with_attr({"Composite": "add", "level": 1})

    @pytest.mark.parametrize(
        ("attrs", "same"),
        [
            ({"Composite": "add"}, True),
            ({"Composite": "subtract"}, False),
            ({"RandomAttr": "add"}, False),
            ({"level": 1}, True),
            ({"level": True}, False),
            ({"Composite": "add", "level": 2}, False),
            ({}, True),
        ],
    )
    def test_values_are_structurally_equal(self, attrs: dict[str, Any], same: bool) -> None:
        assert matches(has_attr(attrs), self.function) is same


@pytest.mark.parametrize(
    "expr", [X, relay.const(1), relay.Tuple([X]), relay.TupleGetItem(X, 0), relay.GlobalVar("g"), relay.Let(X, W, X)]
)
def test_other_nodes_have_no_attributes_at_all(expr: relay.Expr) -> None:
    assert not matches(has_attr({}), expr)
    assert not matches(has_attr({"TOpPattern": 0}), expr)


class TestTypes:
    x = relay.var("x", shape=(10, 10), dtype="float32")

    def test_type(self) -> None:
        assert matches(has_type(relay.TensorType((10, 10), "float32")), self.x)
        assert not matches(has_type(relay.TensorType((10, 20), "float32")), self.x)
        assert not matches(has_type(relay.TupleType([])), self.x)

    def test_dtype(self) -> None:
        assert matches(has_dtype("float32"), self.x)
        assert not matches(has_dtype("float16"), self.x)
        assert not matches(has_dtype("float32"), relay.Tuple([self.x]))

    def test_shape(self) -> None:
        assert matches(has_shape((10, 10)), self.x)
        assert matches(has_shape([10, 10]), self.x)
        assert not matches(has_shape((10, 20)), self.x)
        assert not matches(has_shape((10,)), self.x)
        assert not matches(has_shape([tir.IntImm("int64", 10)] * 2), self.x)
        assert matches(has_shape(()), relay.const(1.0))

    def test_unknown_dimensions_match_unknown_dimensions(self) -> None:
        dynamic = relay.var("d", shape=(relay.Any(), 10))
        assert matches(has_shape((relay.Any(), 10)), dynamic)
        assert not matches(has_shape((1, 10)), dynamic)

    def test_the_inferred_type_counts(self) -> None:
        conv = relay.nn.conv2d(
            relay.var("x", shape=(1, 3, 28, 28)), relay.var("w", shape=(32, 3, 3, 3)), padding=(1, 1)
        )
        pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard())).has_shape((1, 32, 28, 28))
        assert matches(pattern, relay.nn.relu(conv))
        assert not matches(pattern, conv)

    def test_a_type_that_cannot_be_inferred_is_an_error(self) -> None:
        with pytest.raises(TypeCheckError, match="%y"):
            matches(has_dtype("float32"), relay.var("y"))

    def test_operators_have_no_type(self) -> None:
        relu = relay.nn.relu(self.x)
        assert wildcard().has_dtype("float16").partition(relu) is relu

    def test_type_and_inner_pattern(self) -> None:
        assert matches(is_var("x").has_dtype("float32"), self.x)
        assert not matches(is_var("y").has_dtype("float32"), self.x)


def test_types_of_a_chain_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = 0
    plain = infer.extend_types

    def counting(known: dict[Any, Any], expr: relay.Expr) -> None:
        nonlocal typed
        before = len(known)
        plain(known, expr)
        typed += len(known) - before

    monkeypatch.setattr(infer, "extend_types", counting)
    chain: list[relay.Expr] = [relay.var("x", shape=(2,))]
    for _ in range(100):
        chain.append(relay.tanh(chain[-1]))
    assert all(matches(has_shape((2,)), expr) for expr in chain)
    assert typed == len(chain)
