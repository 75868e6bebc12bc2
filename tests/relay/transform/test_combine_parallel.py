"""Products of one tensor that become one product."""

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.relay import transform

from .compilers import assert_same_values, called_ops, module, var

dense, relu = relay.nn.dense, relay.nn.relu


def combined(body, make, **options):
    """What the pass makes of the body, after a check that it computes the same; the names of its operators."""
    before = module(body)
    after = make(**options)(before)
    assert_same_values(before, after, rtol=1e-5, atol=1e-5)
    return called_ops(after["main"])


def convolutions(count, image=None, name="w", **attrs):
    image = image or var("x", 1, 4, 6, 6)
    return [relay.nn.conv2d(image, var(f"{name}{n}", n + 1, 4, 3, 3), **attrs) for n in range(count)]


class TestConvolutions:
    make = staticmethod(transform.CombineParallelConv2D)

    def test_weights_are_joined_and_the_result_is_cut(self):
        body = transform.CombineParallelConv2D()(module(relay.Tuple(convolutions(3))))["main"].body
        first, second, third = body.fields
        product = first.args[0]
        assert product is second.args[0] is third.args[0]
        assert (product.attrs.channels, product.args[1].op.name) == (6, "concatenate")
        assert [(part.attrs.begin, part.attrs.end) for part in body.fields] == [
            ((0, 0), (-1, 1)),
            ((0, 1), (-1, 2)),
            ((0, 3), (-1, 3)),
        ]

    def test_fewer_than_asked_for_are_left(self):
        assert combined(relay.Tuple(convolutions(2)), self.make) == ["nn.conv2d"] * 2
        assert combined(relay.Tuple(convolutions(2)), self.make, min_num_branches=2).count("nn.conv2d") == 1

    def test_other_strides_and_kernels_are_other_products(self):
        image = var("x", 1, 4, 6, 6)
        small = relay.nn.conv2d(image, var("v", 2, 4, 1, 1))
        body = relay.Tuple([*convolutions(2, image), *convolutions(2, image, name="u", strides=2), small])
        assert combined(body, self.make, min_num_branches=2).count("nn.conv2d") == 3

    def test_scales_and_rectifiers_that_follow_each_are_joined_too(self):
        branches = [relu(conv * var(f"s{n}", n + 1, 1, 1)) for n, conv in enumerate(convolutions(2))]
        ops = combined(relay.Tuple(branches), self.make, min_num_branches=2)
        assert ops == ["concatenate", "nn.conv2d", "concatenate", "multiply", "nn.relu", *["strided_slice"] * 2]

    def test_an_operand_that_broadcasts_along_the_channels_ends_the_branches(self):
        branches = [conv * var(f"s{n}", 1) for n, conv in enumerate(convolutions(2))]
        assert combined(relay.Tuple(branches), self.make, min_num_branches=2)[-4:] == ["strided_slice", "multiply"] * 2

    def test_layouts_with_blocks(self):
        image = var("x", 1, 2, 5, 5, 4)
        weights = [var("v", 1, 2, 3, 3, 4, 8), var("w", 2, 2, 3, 3, 4, 8)]
        layouts = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i8o", "out_layout": "NCHW8c"}
        body = relay.Tuple([relay.nn.conv2d(image, weight, **layouts) for weight in weights])
        ops = combined(body, self.make, min_num_branches=2)
        assert ops == ["concatenate", "nn.conv2d", *["strided_slice"] * 2]


class TestDenses:
    make = staticmethod(transform.CombineParallelDense)

    def test_layers_of_as_many_units_become_a_batch(self):
        x, biases = var("x", 2, 3), [var("b", 5), var("c", 5)]
        body = relay.Tuple([dense(x, var(f"w{n}", 5, 3)) + bias for n, bias in enumerate(biases)])
        ops = combined(body, self.make, min_num_branches=2)
        assert ops[:3] == ["stack", "stack", "nn.batch_matmul"]
        assert ops[-3:] == ["split", "squeeze", "squeeze"]
        assert ops.count("add") == 1

    def test_a_scalar_that_follows_each_is_a_batch_of_scalars(self):
        x = var("x", 2, 3)
        body = relay.Tuple([dense(x, var(f"w{n}", 2, 3)) * relay.const(float(n)) for n in range(2)])
        assert combined(body, self.make, min_num_branches=2).count("multiply") == 1

    def test_an_operand_of_higher_rank_is_no_part_of_the_batch(self):
        x = var("x", 2, 3)
        body = relay.Tuple([dense(x, var(f"w{n}", 5, 3)) + var(f"b{n}", 4, 2, 5) for n in range(2)])
        assert combined(body, self.make, min_num_branches=2).count("add") == 2

    def test_layers_of_any_units_become_one_layer(self):
        x = var("x", 7, 2, 3)
        body = relay.Tuple([dense(x, var(f"w{units}", units, 3)) for units in (1, 2, 5)])
        after = self.make(to_batch=False)(module(body))["main"].body
        assert after[0].args[0].attrs.units == 8
        assert combined(body, self.make, to_batch=False) == ["concatenate", "nn.dense", *["strided_slice"] * 3]

    def test_a_new_axis_moves_the_axis_of_the_units(self):
        x = var("x", 2, 3)
        for axis in (0, 1, 2, -1):
            body = relay.Tuple([relay.expand_dims(dense(x, var(f"w{n}", n, 3)), axis) for n in (2, 4)])
            ops = combined(body, self.make, min_num_branches=2, to_batch=False)
            assert ops.count("expand_dims") == 1


class TestBatchMatmuls:
    make = staticmethod(transform.CombineParallelBatchMatmul)

    def test_right_operands_are_joined(self):
        x = var("x", 2, 3, 4)
        body = relay.Tuple([relay.nn.batch_matmul(x, var(f"w{n}", 2, n, 4)) + var(f"b{n}", n) for n in (1, 5, 6)])
        ops = combined(body, self.make)
        assert ops == ["concatenate", "nn.batch_matmul", "concatenate", "add", *["strided_slice"] * 3]

    def test_those_that_are_not_transposed_are_left(self):
        x = var("x", 2, 3, 4)
        body = relay.Tuple([relay.nn.batch_matmul(x, var(f"w{n}", 2, 4, 5), transpose_b=False) for n in range(3)])
        assert combined(body, self.make) == ["nn.batch_matmul"] * 3


def test_products_of_combined_products():
    value = var("x", 2, 4)
    for layer in range(3):
        parts = [relu(dense(value, var(f"w{layer}{n}", 2, 4))) for n in range(2)]
        value = relay.concatenate(parts, 1)
    ops = combined(value, transform.CombineParallelDense, min_num_branches=2, to_batch=False)
    assert ops.count("nn.dense") == ops.count("nn.relu") == 3


@pytest.mark.parametrize("to_batch", [True, False])
def test_a_product_whose_weight_needs_the_other_is_left(to_batch):
    x = var("x", 3, 3)
    first = dense(x, var("w", 3, 3))
    body = relay.Tuple([first, dense(x, first)])
    assert combined(body, transform.CombineParallelDense, min_num_branches=2, to_batch=to_batch) == ["nn.dense"] * 2


def test_followers_one_of_which_needs_the_other_are_left():
    x = var("x", 3, 3)
    first = dense(x, var("v", 3, 3)) + var("b", 3)
    second = dense(x, var("w", 3, 3)) + relay.sum(first, 0)
    ops = combined(relay.Tuple([first, second]), transform.CombineParallelDense, min_num_branches=2, to_batch=False)
    assert (ops.count("nn.dense"), ops.count("add")) == (1, 2)


def test_a_sum_of_products_of_two_tensors_is_one_sum():
    x, y = var("x", 2, 3), var("y", 2, 3)
    sums = [dense(x, var(f"v{n}", 4, 3)) + dense(y, var(f"w{n}", 4, 3)) for n in range(2)]
    ops = combined(relay.Tuple(sums), transform.CombineParallelDense, min_num_branches=2, to_batch=False)
    assert (ops.count("nn.dense"), ops.count("add")) == (2, 1)


def test_inner_functions_are_left():
    x = var("x", 2, 3)
    weights = [var(f"w{n}", 4, 3) for n in range(2)]
    inner = relay.Function([x, *weights], relay.Tuple([dense(x, weight) for weight in weights]))
    body = inner(var("y", 2, 3), var("v", 4, 3), var("w", 4, 3))
    assert combined(body, transform.CombineParallelDense, min_num_branches=2) == ["nn.dense"] * 2


operands = st.sampled_from([(), (1,), (4,), (2, 1), (2, 4), (5, 2, 4), (5, 1, 1)])
steps = st.lists(st.sampled_from(["relu", "add", "reversed", "expand_dims"]), max_size=3)


@given(st.lists(st.tuples(steps, operands), min_size=2, max_size=4), st.booleans())
def test_whatever_follows_products_the_values_stay(branches, to_batch):
    x = var("x", 2, 3)
    results = []
    for number, (names, shape) in enumerate(branches):
        value = dense(x, var(f"w{number}", 4, 3))
        for step, name in enumerate(names):
            other = var(f"b{number}{step}", *shape)
            if name == "relu":
                value = relu(value)
            elif name == "expand_dims":
                value = relay.expand_dims(value, 1)
            else:
                value = value + other if name == "add" else other - value
        results.append(value)
    try:
        before = module(relay.Tuple(results))
    except TypeCheckError:  # the operand does not broadcast
        reject()
    combined(before["main"].body, transform.CombineParallelDense, min_num_branches=2, to_batch=to_batch)


def test_a_deep_graph():
    value, weights = var("x", 2, 4), [var("v", 2, 4), var("w", 2, 4)]
    for _ in range(3000):
        value = relay.concatenate([dense(value, weight) for weight in weights], 1)
    after = transform.CombineParallelDense(2, False)(module(value))
    assert called_ops(after["main"]).count("nn.dense") == 3000
