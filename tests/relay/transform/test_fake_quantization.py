"""FakeQuantizationToInteger: what lies between dequantize and quantize is computed with integers."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import relay
from eqsat.errors import PassError
from eqsat.relay import transform
from eqsat.relay.transform.fake_quantization_to_integer import register_fake_quantization_to_integer

from .compilers import called_ops, module, var

qnn = relay.qnn.op
REAL = "qnn.dequantize"


def real(name, *shape, scale=0.05, zero=0, dtype="int8", axis=-1):
    """A variable of integers, dequantized."""
    return qnn.dequantize(var(name, *shape, dtype=dtype), relay.const(scale), relay.const(zero), axis)


def quantized(value, scale=0.1, zero=3, dtype="int8"):
    return qnn.quantize(value, relay.const(scale), relay.const(zero), out_dtype=dtype)


def integer(body, off_by=1, **options):
    """The operators of what the pass makes of a body, after a check that the results differ by ``off_by`` at most."""
    before = module(body)
    after = transform.FakeQuantizationToInteger(**options)(before)
    rng = np.random.default_rng(0)
    values = {
        param.name_hint: rng.integers(-100, 100, param.checked_type.shape).astype(param.checked_type.dtype)
        for param in before["main"].params
    }
    expected, found = (relay.interpreter.evaluate(mod, values) for mod in (before, after))
    assert found.dtype == expected.dtype
    assert np.abs(expected.astype("float64") - found).max() <= off_by
    return called_ops(after["main"])


def image(**options):
    return real("x", 1, 4, 6, 6, **options)


class TestRegions:
    @pytest.mark.parametrize("zero", [0, 7])
    def test_products(self, zero):
        x = real("x", 2, 8, zero=zero)
        assert integer(quantized(relay.nn.dense(x, real("w", 3, 8)))) == ["qnn.dense", "qnn.requantize"]
        weight = real("w", 2, 4, 3, 3)
        body = quantized(relay.nn.conv2d(image(zero=zero), weight, padding=1), 0.5)
        assert integer(body) == ["qnn.conv2d", "qnn.requantize"]
        body = quantized(relay.nn.conv2d_transpose(image(), real("w", 4, 2, 2, 2)), 0.5)
        assert integer(body) == ["qnn.conv2d_transpose", "qnn.requantize"]
        body = quantized(relay.nn.batch_matmul(real("x", 2, 3, 4), real("y", 2, 5, 4)))
        assert integer(body) == ["qnn.batch_matmul", "qnn.requantize"]

    def test_weights_of_a_scale_for_each_channel_a_bias_and_a_rectifier(self):
        weight = real("w", 2, 4, 3, 3, scale=[0.02, 0.04], zero=[0, 0], axis=0)
        body = relay.nn.bias_add(relay.nn.conv2d(image(), weight), relay.const([0.5, -0.5]))
        ops = integer(quantized(relay.nn.relu(body), 0.3))
        assert REAL not in ops
        assert ops[-2:] == ["maximum", "qnn.requantize"]

    @pytest.mark.parametrize(
        "build",
        [
            lambda x: relay.reshape(x, (4, 36)),
            lambda x: relay.nn.max_pool2d(x, (2, 2)),
            lambda x: relay.nn.avg_pool2d(x, (2, 2)),
            lambda x: relay.nn.global_avg_pool2d(x),
            lambda x: relay.mean(x, 1),
            lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), 0.5),
            lambda x: relay.clip(x, -1.0, 1.0),
            lambda x: relay.clip(x, -100.0, 1.0),
            lambda x: relay.tanh(x),
            lambda x: relay.nn.leaky_relu(x, 0.2),
            lambda x: relay.split(x, 2, axis=1)[1],
            lambda x: relay.take(x, relay.const([0, 2]), axis=1),
            lambda x: relay.topk(x, 2, ret_type="values"),
            lambda x: x + image(scale=0.02, zero=5),
            lambda x: x * relay.const(0.5),
            lambda x: relay.const(1.0) - x,
            lambda x: relay.maximum(x, relay.const(0.0)),
            lambda x: relay.concatenate([x, image(scale=0.02)], 1),
        ],
    )
    def test_other_operators(self, build):
        x = real("x", 1, 4, 6, 6)
        with patch(f"{__name__}.image", lambda **options: real("y", 1, 4, 6, 6, **options)):
            body = quantized(build(x), 0.07)
        assert REAL not in integer(body, off_by=2, hard_fail=True)

    def test_two_regions_share_what_does_not_depend_on_their_results(self):
        product = relay.nn.dense(real("x", 2, 8), real("w", 2, 8))
        body = relay.concatenate([quantized(product), quantized(product, 0.2)], 0)
        assert integer(body).count("qnn.dense") == 1

    def test_regions_in_a_row(self):
        value = real("x", 2, 8)
        for layer in range(3):
            value = qnn.dequantize(
                quantized(relay.nn.dense(value, real(f"w{layer}", 8, 8))), relay.const(0.1), relay.const(3)
            )
        assert integer(quantized(value), off_by=8).count("qnn.dense") == 3

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            (lambda x: x + var("y", 2, 8), "not quantized"),
            (lambda x: relay.tan(x), "without a rule"),
            (lambda x: relay.nn.softmax(x), "without a rule"),
            (lambda x: relay.nn.dense(x, relay.const(np.ones((3, 8), "float32"))), "a factor is not quantized"),
            (
                lambda x: (
                    relay.transpose(real("y", 2, 8, scale=[0.1] * 8, zero=[0] * 8)) + x[0:0]
                    if 0
                    else relay.transpose(real("y", 2, 8, scale=[0.1] * 8, zero=[0] * 8))
                ),
                "may move",
            ),
        ],
    )
    def test_what_is_left(self, body, why):
        before = module(quantized(body(real("x", 2, 8))))
        after = transform.FakeQuantizationToInteger()(before)
        assert called_ops(after["main"]) == called_ops(before["main"])
        with pytest.raises(PassError, match=why):
            transform.FakeQuantizationToInteger(hard_fail=True)(before)

    def test_operators_that_are_converted_when_asked_for(self):
        body = quantized(relay.nn.softmax(real("x", 2, 8)), 1 / 128)
        assert integer(body, optional_qnn_ops=["nn.softmax"]) == ["qnn.softmax"]

    def test_rules_can_be_registered(self):
        with patch.dict(relay.Op.get("tan").attr_map):

            @register_fake_quantization_to_integer("tan")
            def rule(call, types):
                return call.args[0], types[call.args[0]]

            after = transform.FakeQuantizationToInteger()(module(quantized(relay.tan(real("x", 2)))))
            assert called_ops(after["main"]) == ["qnn.requantize"]
            register_fake_quantization_to_integer("tan", lambda call, types: (call, 3))
            with pytest.raises(PassError, match="must give an expression and its affine type"):
                transform.FakeQuantizationToInteger(hard_fail=True)(module(quantized(relay.tan(real("x", 2)))))

    def test_a_sum_whose_numbers_the_result_cannot_stand_for_is_left(self):
        total = real("x", 2, 8) + real("y", 2, 8)
        assert integer(quantized(total * relay.const(0.01), 0.001), off_by=0).count("add") == 1

    def test_a_clip_of_several_scales(self):
        x = real("x", 4, 2, scale=[0.02, 0.1], zero=[0, 3], axis=1)
        assert REAL not in integer(quantized(relay.clip(x, -1.0, 1.0), 0.02, 0))


class TestSingles:
    def test_operators_of_dequantized_arguments(self):
        body = relay.tan(relay.nn.relu(relay.nn.dense(real("x", 2, 8), real("w", 2, 8))))
        ops = integer(body, off_by=1e-2, use_qat=True)
        assert ops == ["qnn.dense", "maximum", REAL, "tan"]

    def test_not_without_being_asked_for(self):
        assert "qnn.dense" not in integer(relay.nn.dense(real("x", 2, 8), real("w", 2, 8)), off_by=1e-2)

    def test_parts(self):
        body = relay.tan(relay.split(real("x", 2, 8), 2, axis=1)[0])
        assert integer(body, off_by=1e-2, use_qat=True)[:1] == ["split"]


steps = st.lists(
    st.sampled_from(
        [
            lambda x: relay.nn.relu(x),
            lambda x: relay.clip(x, -3.0, 2.0),
            lambda x: relay.reshape(x, (2, 4, 2)),
            lambda x: relay.concatenate([x, relay.nn.relu(x)], 1),
            lambda x: relay.strided_slice(x, [0, 0], [2, 4]),
            lambda x: relay.maximum(x, relay.const(-0.5)),
            lambda x: relay.reshape(x, (2, -1)),
        ]
    ),
    max_size=4,
)


@given(steps, st.integers(-5, 5))
def test_whatever_lies_between_the_values_stay(follow, zero):
    x = real("x", 2, 8, zero=zero)
    for step in follow:
        flat = relay.nn.batch_flatten(step(x))
        x = relay.strided_slice(relay.concatenate([flat, flat], 1), [0, 0], [2, 8])
    integer(quantized(x, 0.05), off_by=2 + len(follow))


def test_a_deep_region():
    x = real("x", 2)
    for _ in range(3000):
        x = relay.nn.relu(x)
    assert REAL not in integer(quantized(x))
