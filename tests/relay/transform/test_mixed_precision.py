"""ToMixedPrecision: products in a smaller floating-point type."""

import warnings
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import relay
from eqsat.errors import ArgumentError, PassError
from eqsat.relay import transform
from eqsat.relay.transform.mixed_precision import (
    MIXED_PRECISION_ALWAYS,
    MIXED_PRECISION_NEVER,
    register_mixed_precision_conversion,
)

from .compilers import assert_same, assert_same_values, called_ops, module, parse, var

KEEP = {"relay.ToMixedPrecision.keep_orig_output_dtype": True}


def dense(x, name="w"):
    return relay.nn.dense(x, var(name, 4, 4))


def half(value):
    return relay.cast(value, "float16")


def full(value):
    return relay.cast(value, "float32")


def mixed(body, *args, **kwargs):
    """What the pass makes of a body, with the type of its result, after a check that it computes nearly the same."""
    before = body if isinstance(body, relay.IRModule) else module(body)
    with transform.PassContext(config=KEEP):
        after = transform.ToMixedPrecision(*args, **kwargs)(before)
    assert_same_values(before, after, rtol=0.02, atol=0.02)
    return after


def assert_becomes(body, expected):
    assert_same(mixed(body), module(expected))


def test_products_always():
    x, w = var("x", 2, 4), var("w", 4, 4)
    assert_becomes(relay.nn.dense(x, w), full(relay.nn.dense(half(x), half(w), out_dtype="float16")))


def test_without_the_option_the_result_is_of_the_smaller_type():
    after = transform.ToMixedPrecision()(module(dense(var("x", 2, 4))))["main"]
    assert after.body.checked_type == after.ret_type == relay.TensorType((2, 4), "float16")


def test_what_follows_a_product_is_computed_in_its_type():
    after = mixed(relay.nn.relu(dense(dense(var("x", 2, 4)) + relay.const(1.0), "v")))
    assert called_ops(after["main"]).count("cast") == 3 + 1 + 1  # the tensors, the constant, and back


def test_what_would_lose_too_much_is_computed_as_written():
    x, w = var("x", 2, 4), var("w", 4, 4)
    product = relay.nn.dense(half(x), half(w), out_dtype="float16")
    assert_becomes(relay.nn.softmax(relay.nn.dense(x, w)), relay.nn.softmax(full(product)))


def test_what_mixes_both_is_computed_as_written():
    x, w = var("x", 2, 4), var("w", 4, 4)
    product = relay.nn.dense(half(x), half(w), out_dtype="float16")
    assert_becomes(relay.nn.dense(x, w) + relay.exp(x), full(product) + relay.exp(x))


def test_a_value_is_cast_once_and_not_back_and_forth():
    x = dense(var("x", 2, 4))
    ops = called_ops(mixed(relay.exp(x) - relay.nn.softmax(x) + relay.nn.softmax(dense(x, "v")))["main"])
    assert ops.count("cast") == 3 + 2  # what is multiplied, and each product for what is computed as written


def test_integers_and_tuples():
    x = relay.concatenate([dense(var("x", 2, 4)), var("y", 1, 4)], 0)
    parts = relay.split(relay.nn.softmax(x), 3, axis=0)
    rows = relay.take(dense(parts[1], "v"), relay.const([0, 0]), axis=0)
    assert mixed(rows)["main"].ret_type == relay.TensorType((2, 4), "float32")


def test_bounds_that_the_smaller_type_does_not_hold():
    product = dense(var("x", 2, 4))
    assert mixed(relay.clip(product, -1e5, 1e5))["main"].body.attrs.a_max == 1e5
    assert called_ops(mixed(relay.clip(product, -1, 1))["main"])[-2:] == ["clip", "cast"]


def test_tensors_that_are_made():
    body = transform.ToMixedPrecision()(module(relay.zeros((2,), "float32") + var("x", 2)))["main"].body
    assert body.checked_type.dtype == "float16"
    assert module(relay.zeros((2,), "int32"))["main"].ret_type.dtype == "int32"


def test_branches_lets_and_functions_keep_their_types():
    mod = parse("""
def @f(%a: Tensor[(2, 4), float32], %w: Tensor[(4, 4), float32]) { nn.dense(%a, %w) }

def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(4, 4), float32]) {
  let %v = nn.dense(%x, %w);
  let %g = fn (%a: Tensor[(2, 4), float32]) { nn.dense(%a, %w) };
  let %c = less(sum(%v), 1f);
  if (%c) { %g(%v) } else { @f(%x, %w) }
}
""")
    after = mixed(mod)
    assert after["f"].ret_type.dtype == "float32"
    lets = [node for node in relay.visitor.post_order(after["main"]) if isinstance(node, relay.Let)]
    assert {let.var.name_hint: let.var.checked_type for let in lets}["v"].dtype == "float16"


def test_how_an_operator_is_treated_can_be_registered():
    x = var("x", 2, 4)
    with patch.dict(relay.Op.get("exp").attr_map), patch.dict(relay.Op.get("nn.dense").attr_map):
        register_mixed_precision_conversion("exp", lambda call, dtype: [MIXED_PRECISION_ALWAYS, dtype, "float32"])

        @register_mixed_precision_conversion("nn.dense")
        def never(call, dtype):
            return [MIXED_PRECISION_NEVER, dtype, dtype]

        assert called_ops(mixed(dense(relay.exp(x)))["main"]) == ["cast", "exp", "cast", "nn.dense"]
        register_mixed_precision_conversion("exp", lambda call, dtype: [3, dtype, dtype])
        with pytest.raises(PassError, match="must give a category"):
            mixed(relay.exp(x))


def test_operators_of_which_nothing_is_registered():
    body = relay.tan(dense(var("x", 2, 4)))
    with pytest.raises(PassError, match="is registered for"):
        mixed(body, missing_op_mode=0)
    with pytest.warns(UserWarning, match="is registered for"):
        mixed(body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed(body, missing_op_mode=2)


def test_bad_options():
    with pytest.raises(ArgumentError, match="floating-point type, not 'int8'"):
        transform.ToMixedPrecision("int8")
    with pytest.raises(ArgumentError, match="0, 1 or 2"):
        transform.ToMixedPrecision(missing_op_mode=3)


steps = st.lists(
    st.sampled_from(
        [
            lambda x, n: dense(x, f"w{n}") * relay.const(0.2),
            lambda x, n: relay.nn.softmax(x),
            lambda x, n: relay.concatenate([x, x], 0),
            lambda x, n: relay.split(x, 2, axis=0)[0],
            lambda x, n: relay.tanh(x),
            lambda x, n: x + var(f"b{n}", 4),
            lambda x, n: x - relay.mean(x, 1, keepdims=True),
            lambda x, n: relay.where(relay.less(x, relay.const(0.5)), x, relay.tanh(x)),
        ]
    ),
    max_size=5,
)


@given(steps)
def test_whatever_follows_products_the_types_stay(follow):
    x = dense(var("x", 32, 4))
    for number, step in enumerate(follow):
        x = step(x, number)
    before = module(x)
    with transform.PassContext(config=KEEP):
        after = transform.ToMixedPrecision()(before)["main"]
    assert after.ret_type == before["main"].ret_type


def test_a_deep_graph():
    x = dense(var("x", 2, 4))
    for _ in range(5000):
        x = relay.tanh(x)
    assert called_ops(mixed(x)["main"]).count("cast") == 3
