"""Algebraic rules: what each gives, where each refuses, and that results stay the same."""

import numpy as np
import pytest

from eqsat import relay
from eqsat.relay import transform
from eqsat.relay.op import qnn

from .compilers import assert_same, module, var


def simplify(body):
    return transform.SimplifyExpr()(module(body))


def assert_simplifies(body, expected):
    params = relay.analysis.free_vars(body)
    assert_same(transform.SimplifyExpr()(module(body, *params)), module(expected, *params))


def assert_stays(body):
    assert_simplifies(body, body)


def assert_same_values(body, draw=None):
    """The simplified expression computes the same, up to rounding of floats."""
    mod = module(body)
    rng = np.random.default_rng(0)
    inputs = {}
    for param in mod["main"].params:
        ty = param.checked_type
        values = rng.uniform(0.5, 2, ty.shape) if ty.dtype.startswith("float") else rng.integers(0, 100, ty.shape)
        inputs[param.name_hint] = values.astype(ty.dtype)
    expected = relay.interpreter.evaluate(mod, inputs)
    actual = relay.interpreter.evaluate(transform.SimplifyExpr()(mod), inputs)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_simplify_reshape():
    x = var("x", 1, 16, 16, 16)
    assert_simplifies(relay.reshape(relay.reshape(x, (1, 16, -1)), (4, 8, -1, 16)), relay.reshape(x, (4, 8, 8, 16)))
    reverse = relay.reverse_reshape(x, (16, -1))
    assert_simplifies(relay.reshape(reverse, (256, 16)), relay.reshape(x, (256, 16)))
    assert_stays(relay.reshape(relay.nn.relu(relay.reshape(x, (1, 16, -1))), (4, 8, -1, 16)))


def test_reshapes_to_shapes_that_are_not_known_stay():
    x = relay.var("x", shape=(relay.Any(), 4))
    assert_stays(relay.reshape(relay.reshape(x, (-1, 2)), (-1, 8)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            lambda x: relay.transpose(relay.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2)),
            lambda x: x,
        ),
        (
            lambda x: relay.transpose(relay.transpose(x, (0, 2, 3, 1)), (0, 2, 3, 1)),
            lambda x: relay.transpose(x, (0, 3, 1, 2)),
        ),
        (
            lambda x: relay.transpose(relay.transpose(x)),
            lambda x: x,
        ),
        (
            lambda x: relay.transpose(relay.transpose(x, (0, 2, 3, 1)), (0, -1, -3, -2)),
            lambda x: x,
        ),
        (
            lambda x: relay.layout_transform(relay.layout_transform(x, "NCHW", "NHWC"), "NHWC", "NCHW"),
            lambda x: x,
        ),
        (
            lambda x: relay.transpose(relay.layout_transform(x, "NCHW", "NHWC"), (1, 0, 2, 3)),
            lambda x: relay.transpose(x, (2, 0, 3, 1)),
        ),
        (
            lambda x: relay.layout_transform(relay.transpose(x, (0, 2, 3, 1)), "NHWC", "NCHW4c"),
            lambda x: relay.layout_transform(x, "NCHW", "NCHW4c"),
        ),
        (
            lambda x: relay.layout_transform(relay.layout_transform(x, "NCHW", "NHWC"), "NHWC", "NHWC4c"),
            lambda x: relay.layout_transform(x, "NCHW", "NHWC4c"),
        ),
        (
            lambda x: relay.transpose(relay.layout_transform(x, "NCHW", "NCHW4c"), (0, 2, 3, 1, 4)),
            lambda x: relay.layout_transform(x, "NCHW", "NHWC4c"),
        ),
        (
            lambda x: relay.layout_transform(relay.layout_transform(x, "NCHW", "NCHW4c"), "NCHW4c", "NCHW"),
            lambda x: x,
        ),
        (
            lambda x: relay.layout_transform(relay.layout_transform(x, "NCHW", "NCHW4c"), "NCHW4c", "NHWC"),
            lambda x: relay.layout_transform(x, "NCHW", "NHWC"),
        ),
        (
            lambda x: relay.layout_transform(relay.layout_transform(x, "NCHW", "NCHW4c"), "NCHW4c", "NCHW2c"),
            lambda x: relay.layout_transform(x, "NCHW", "NCHW2c"),
        ),
        (lambda x: relay.transpose(x, (0, 1, 2, 3)), lambda x: x),
        (lambda x: relay.layout_transform(x, "NCHW", "NCHW"), lambda x: x),
    ],
)
def test_simplify_transpose(before, after):
    x = var("x", 1, 8, 4, 6)
    assert_simplifies(before(x), after(x))
    assert_same_values(before(x))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("operator", [relay.add, relay.maximum, relay.power])
@pytest.mark.parametrize("swapped", [False, True])
def test_simplify_full_elementwise(operator, dtype, swapped):
    """A tensor of one number is that number, for operators that broadcast."""
    x = var("x", 1, 2, 3, dtype=dtype)

    def call(value):
        return operator(value, x) if swapped else operator(x, value)

    scalar = relay.const(3, dtype)
    for full in (relay.full(scalar, (1, 2, 3), dtype), relay.full_like(x, scalar)):
        assert_simplifies(call(full), call(scalar))
    if operator is relay.maximum:
        assert_simplifies(call(relay.ones((1, 2, 3), dtype)), call(relay.const(1, dtype)))
        assert_simplifies(call(relay.zeros_like(x)), call(relay.const(0, dtype)))


def test_full_operands_that_give_the_result_its_shape_stay():
    x, fives = var("x", 3), relay.full(relay.const(5.0), (2, 3), "float32")
    assert_stays(relay.maximum(x, fives))


def test_full_operands_of_operators_with_attributes_stay():
    """A bias must be a vector: Relay makes ill-typed code here."""
    x = var("x", 2, 3)
    assert_stays(relay.nn.bias_add(x, relay.zeros((3,), "float32")))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_eliminate_identity(dtype):
    x = var("x", 1, 2, 3, dtype=dtype)
    zero, one = relay.const(0, dtype), relay.const(1, dtype)
    zeros, ones = relay.zeros((1, 2, 3), dtype), relay.ones((1, 2, 3), dtype)
    for nothing in (zero, zeros, relay.zeros_like(x)):
        for body in (relay.add(x, nothing), relay.add(nothing, x), relay.subtract(x, nothing)):
            assert_simplifies(body, x)
    for nothing in (one, ones, relay.ones_like(x)):
        for body in (relay.multiply(x, nothing), relay.multiply(nothing, x), relay.divide(x, nothing)):
            assert_simplifies(body, x)


def test_operands_that_are_not_neutral_stay():
    x = var("x", 3)
    for body in (
        relay.subtract(relay.const(0.0), x),
        relay.divide(relay.const(1.0), x),
        relay.add(x, relay.const(1.0)),
        relay.multiply(x, relay.const(0.0)),
        relay.add(x, relay.const([0.0, 0.0, 0.0])),
    ):
        assert_stays(body)


def test_neutral_operands_that_give_the_result_its_shape_stay():
    x = var("x", 1, 3)
    assert simplify(relay.add(x, relay.zeros((2, 3), "float32")))["main"].ret_type.shape == (2, 3)


def test_simplify_same_cast():
    x, y = var("x", 3, 4, dtype="int32"), var("y", 3, dtype="int32")
    assert_simplifies(relay.cast(x, "int32"), x)
    assert_simplifies(relay.cast_like(x, relay.const(1)), x)
    assert_stays(relay.cast(y, "int64"))


def test_simplify_consecutive_cast():
    x = var("x", 3, 4, 5, dtype="int8")
    short = relay.cast(x, "int16")
    assert_simplifies(relay.cast(short, "int32"), relay.cast(x, "int32"))
    assert_simplifies(relay.cast(relay.cast(short, "int32"), "int64"), relay.cast(x, "int64"))
    assert_simplifies(relay.cast(relay.cast(relay.cast(short, "int32"), "int64"), "float32"), relay.cast(x, "float32"))


@pytest.mark.parametrize(
    ("given", "between", "result"),
    [
        ("float32", "int32", "float32"),  # cuts off fractions
        ("int64", "bool", "int32"),
        ("int8", "uint8", "int32"),  # Relay drops this cast, though it changes negative numbers
        ("int32", "float32", "int64"),  # and this one, though float32 has 24 bits
        ("int32", "float16", "float32"),
    ],
)
def test_casts_that_lose_values_stay(given, between, result):
    assert_stays(relay.cast(relay.cast(var("x", 3, dtype=given), between), result))


class TestConcretize:
    """Operators that follow another tensor's shape or dtype, where that is known."""

    x, y = var("x", 1, 16, 8), var("y", 4, 32)

    def test_reshape_like(self):
        self.check(relay.reshape_like(self.x, self.y), relay.reshape(self.x, (4, 32)), self.y)

    def test_zeros_like(self):
        self.check(relay.zeros_like(self.x), relay.zeros((1, 16, 8), "float32"))

    def test_ones_like(self):
        self.check(relay.ones_like(self.x), relay.ones((1, 16, 8), "float32"))

    def test_full_like(self):
        value = relay.const(7.0)
        self.check(relay.full_like(self.x, value), relay.full(value, (1, 16, 8), "float32"))

    def test_collapse_sum_like(self):
        small = var("small", 16, 1)
        shape = relay.const(np.array([16, 1], dtype="int32"))
        self.check(relay.collapse_sum_like(self.x, small), relay.collapse_sum_to(self.x, shape), small)

    def test_broadcast_to_like(self):
        big = var("big", 3, 16, 8)
        self.check(relay.broadcast_to_like(self.x, big), relay.broadcast_to(self.x, (3, 16, 8)), big)

    def test_cast_like(self):
        other = var("other", 2, dtype="float16")
        self.check(relay.cast_like(self.x, other), relay.cast(self.x, "float16"), other)

    def test_several(self):
        body = relay.add(relay.reshape_like(self.x, self.y), relay.maximum(self.y, relay.ones_like(self.y)))
        self.check(body, relay.add(relay.reshape(self.x, (4, 32)), relay.maximum(self.y, relay.const(1.0))), self.y)

    def test_shapes_that_are_not_known_stay(self):
        x = relay.var("x", shape=(relay.Any(), 3))
        for body in (relay.zeros_like(x), relay.ones_like(x), relay.reshape_like(x, x)):
            assert_stays(body)

    def check(self, body, expected, *others):
        params = (self.x, *others)
        assert_same(transform.SimplifyExpr()(module(body, *params)), module(expected, *params))


class TestConstants:
    x = var("x", 1, 3)
    c1, c2 = (relay.const(np.array([values], "float32")) for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    product = relay.const(np.array([[4.0, 10.0, 18.0]], "float32"))
    total = relay.const(np.array([[5.0, 7.0, 9.0]], "float32"))

    def test_simplify_mul_add(self):
        x, c1, c2 = self.x, self.c1, self.c2
        expected = relay.add(relay.multiply(x, c2), self.product)
        for body in ((x + c1) * c2, (c1 + x) * c2, c2 * (x + c1), c2 * (c1 + x)):
            assert_simplifies(body, expected)

    def test_chains(self):
        x, c1, c2 = self.x, self.c1, self.c2
        for body in ((x * c1) * c2, c2 * (c1 * x), (c1 * x) * c2):
            assert_simplifies(body, x * self.product)
        for body in ((x + c1) + c2, c2 + (c1 + x)):
            assert_simplifies(body, x + self.total)

    def test_simplify_add(self):
        assert_simplifies(relay.add(self.x, self.x), self.x * relay.const(2.0))
        assert_stays(relay.add(self.x, var("y", 1, 3)))

    def test_sums_that_are_used_elsewhere_stay(self):
        inner = self.x + self.c1
        assert_stays(relay.Tuple([inner * self.c2, relay.tanh(inner)]))

    @pytest.mark.parametrize("dtype", ["float32", "int32"])
    def test_values(self, dtype):
        x, c = var("x", 4, dtype=dtype), relay.const(np.array([1, 2, 3, 4], dtype))
        assert_same_values(((x + c) * c + c) * relay.const(3, dtype))


def test_simplify_rsqrt():
    x, one, numerator = var("x", 4), relay.const(1.0), relay.const(8.0)
    assert_simplifies(relay.divide(numerator, relay.sqrt(x)), relay.multiply(numerator, relay.rsqrt(x)))
    assert_same_values(relay.divide(one, relay.sqrt(relay.add(x, one))))
    assert_stays(relay.divide(relay.sqrt(x), numerator))


@pytest.mark.parametrize("operator", [relay.argmax, relay.argmin, relay.argsort])
class TestDequantized:
    @staticmethod
    def bodies(operator, scale, zero_point, dtype="int8"):
        x = var("x", 1, 20, dtype=dtype)
        return operator(qnn.dequantize(x, scale, zero_point), axis=1), operator(x, axis=1)

    def test_order_is_asked_before(self, operator):
        body, expected = self.bodies(operator, relay.const(2.0), relay.const(0))
        assert_simplifies(body, expected)
        assert_same_values(body)

    def test_scales_that_are_not_one_positive_number_stay(self, operator):
        body, _ = self.bodies(operator, relay.const(-2.0), relay.const(0))
        assert_stays(body)
        scales = relay.const(np.linspace(0.5, 2, 20).astype("float32"))
        body, _ = self.bodies(operator, scales, relay.const(0))
        assert_stays(body)

    def test_numbers_that_float32_does_not_tell_apart_stay(self, operator):
        body, _ = self.bodies(operator, relay.const(2.0), relay.const(0), "int32")
        assert_stays(body)


class TestClip:
    x = var("x", 4, 8, dtype="int32")

    def test_simplify_clip_cast(self):
        clip = relay.clip(self.x, 0.0, 255.0)
        assert_simplifies(relay.cast(relay.cast(clip, "uint8"), "int32"), clip)

    def test_needed_casts_stay(self):
        clip = relay.clip(self.x, 0.0, 255.0)
        assert_stays(relay.cast(clip, "uint8"))
        narrow = relay.cast(relay.cast(relay.cast(clip, "int16"), "int8"), "int32")
        assert_simplifies(narrow, relay.cast(relay.cast(clip, "int8"), "int32"))

    def test_casts_that_cut_off_fractions_stay(self):
        x = var("x", 4, dtype="float32")
        clip = relay.clip(x, 0.0, 255.0)
        assert_stays(relay.cast(relay.cast(clip, "uint8"), "float32"))
        assert_simplifies(relay.cast(relay.cast(clip, "uint8"), "int32"), relay.cast(clip, "int32"))

    def test_simplify_cast_clip(self):
        x = var("x", 4, 8, dtype="uint8")
        assert_simplifies(relay.clip(x, 0.0, 255.0), x)
        assert_simplifies(relay.clip(relay.cast(self.x, "int8"), -128.0, 127.0), relay.cast(self.x, "int8"))

    def test_clips_that_bound_stay(self):
        assert_stays(relay.clip(var("x", 4, dtype="uint8"), 0.0, 254.0))
        assert_stays(relay.clip(var("x", 4), -3.4e38, 3.4e38))


class TestBinomials:
    x, y = var("x", 4), var("y", 4)

    def terms(self, a, b, c, dtype="float32"):
        def scaled(number, value):
            return value if number == 1 else relay.multiply(relay.const(number, dtype), value)

        x, y = self.x, self.y
        return scaled(a, x * x), scaled(b, x * y), scaled(c, y * y)

    @pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (0, 2, 1)])
    def test_squares(self, order):
        terms = self.terms(1, 2, 1)
        first, second, third = (terms[index] for index in order)
        result = simplify((first + second) + third)["main"].body
        assert result.op.name == "multiply"
        assert [arg.op.name for arg in result.args] == ["add", "add"]

    @pytest.mark.parametrize("numbers", [(1, 2, 1), (1, 3, 2), (2, 5, 3), (3, 7, 1), (1, 5, 6), (4, 12, 9)])
    def test_values(self, numbers):
        xx, xy, yy = self.terms(*numbers)
        assert_same_values((xx + xy) + yy)

    def test_forms_without_real_factors_stay(self):
        xx, xy, yy = self.terms(1, 1, 1)
        assert_stays((xx + xy) + yy)

    def test_other_sums_stay(self):
        x, y, z = self.x, self.y, var("z", 4)
        assert_stays((x * x + x * y) + y * z)
        assert_stays((x * x + y * y) + z)

    def test_integers_are_factored_where_the_factors_are_integers(self):
        x, y = var("x", 4, dtype="int32"), var("y", 4, dtype="int32")
        two, three = relay.const(2), relay.const(3)
        assert_same_values((x * x + three * (x * y)) + two * (y * y))
        assert_same_values((two * (x * x) + three * (x * y)) + y * y)
        assert_stays((two * (x * x) + relay.const(7) * (x * y)) + three * (y * y))


def test_simplify_expr_runs_until_nothing_changes():
    x = y = var("x", 2, 3)
    for _ in range(12):
        y = relay.transpose(relay.reshape(relay.add(y, relay.const(0.0)), (2, 3)), (0, 1))
    assert_simplifies(y, relay.reshape(x, (2, 3)))


def test_post_alter_op_has_fewer_rules():
    x = var("x", 2)
    mod = module(relay.add(relay.add(x, x), relay.const(0.0)))
    assert_same(transform.SimplifyExprPostAlterOp()(mod), module(relay.add(x, x)))


def test_a_square_of_a_sum_is_computed_once():
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    body = x * x + relay.const(2.0) * x * y + y * y
    square = simplify(body)["main"].body
    assert square.op.name == "multiply"
    assert square.args[0] is square.args[1]
