"""Rules meet graphs that they are not for without failing, and leave alone what only looks like their left side."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.egraph.rule import Refusal
from eqsat.relay import nn
from eqsat.relay.expr import Call, Expr
from eqsat.relay.infer import infer_type
from eqsat.relay.ty import Any, TensorType
from eqsat.rules import slices
from eqsat.rules.shape import widens
from eqsat.rules.verify import verify_equal
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.instances import Instance

LIMITS = eqsat.Limits(iterations=3)


def tensor(*shape: int, name: str = "x", dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def constant(*shape: int, dtype: str = "float32") -> Expr:
    return relay.const(np.ones(shape, dtype))


def a_clip_of_small_integers() -> Expr:
    data = tensor(3, dtype="int8")
    return relay.clip(data + constant(1, dtype="int8"), 0, 255) * constant(1, dtype="int8")


def a_gather_from_the_flattened_tensor() -> Expr:
    return relay.expand_dims(relay.take(tensor(2, 3), relay.const(1), axis=None), axis=0)


def an_expansion_that_adds_an_axis() -> Expr:
    return relay.reshape(relay.broadcast_to(relay.reshape(tensor(3), (3, 1)), (5, 3, 5)), (5, 15))


def a_pool_of_what_a_constant_gives_its_axes() -> Expr:
    return nn.conv2d(nn.max_pool2d(tensor(4) * constant(1, 3, 4, 4), pool_size=(2, 2)), constant(2, 3, 1, 1))


def a_convolution_of_what_a_shift_gives_its_axes() -> Expr:
    return nn.conv1d(tensor(5) + constant(1, 3, 5), constant(2, 3, 2))


def sibling_products_with_biases_along_another_axis() -> Expr:
    data, first, second = tensor(3, 4), tensor(3, 4, name="u"), tensor(3, 4, name="v")
    biases = tensor(3, name="b"), tensor(3, name="c")
    products = [nn.bias_add(nn.dense(data, w), b, axis=0) for w, b in zip((first, second), biases, strict=True)]
    return relay.Tuple(products)


NEVER_FAIL = [
    a_clip_of_small_integers,
    a_gather_from_the_flattened_tensor,
    an_expansion_that_adds_an_axis,
    a_pool_of_what_a_constant_gives_its_axes,
    a_convolution_of_what_a_shift_gives_its_axes,
    sibling_products_with_biases_along_another_axis,
]


@pytest.mark.parametrize("graph", NEVER_FAIL)
def test_no_guard_fails_on(graph) -> None:
    saturation = eqsat.saturate(graph(), rules.default + rules.finite + rules.merge, limits=LIMITS)
    assert saturation.stop_reason in ("saturated", "iterations")


def a_shape_of_which_two_sizes_are_unknown() -> Expr:
    data, like = TensorType((1, Any("n"), Any()), "int8"), TensorType((Any("m"), Any("n"), 1), "int8")
    return relay.reshape_like(relay.var("x", data), relay.var("y", like))


def a_view_without_elements_of_rows_of_unknown_number() -> Expr:
    rows = relay.var("x", TensorType((Any(), Any("n"), 4)))
    return relay.reshape(nn.matmul(rows, constant(4, 4)), newshape=(0, 0, 4), allowzero=True)


def a_constant_without_elements() -> Expr:
    return relay.squeeze(tensor(1, 0, 5), axis=[0]) + constant(0, 1)


def a_squeeze_of_all_axes_of_one_element() -> Expr:
    return relay.squeeze(nn.pad(tensor(1, 1, 2), ((0, 0), (1, 1), (0, 1)), relay.const(2.0)))


def a_pool_whose_windows_lie_in_the_padding() -> Expr:
    pool = nn.avg_pool2d(tensor(1, 1, 3, 3), pool_size=(1, 1), padding=(1, 1), count_include_pad=False)
    return pool + constant(1, 1, 1)


def an_average_pool_of_an_empty_axis() -> Expr:
    image = tensor(1, 1, 0, 3) + constant(1, 1, 1)
    return nn.avg_pool2d(image, pool_size=(2, 2), padding=(1, 1), count_include_pad=False)


def scores_of_float16_that_overflow() -> Expr:
    queries, keys = tensor(2, 2, dtype="float16"), tensor(2, 2, name="k", dtype="float16")
    return nn.softmax(nn.matmul(queries, keys) * relay.const(0.5, "float16"))


def a_scaled_product_of_float16() -> Expr:
    return (tensor(2, dtype="float16") * relay.const(0.25, "float16")) * tensor(2, name="y", dtype="float16")


def products_of_float16_with_a_scale_for_each() -> Expr:
    left, right = tensor(3, 2, 2, dtype="float16"), tensor(2, 2, name="y", dtype="float16")
    return nn.matmul(left, right) * relay.const(np.full((3, 1, 1), 0.5, "float16"))


def convolutions_of_images_of_other_sizes() -> Expr:
    weight = tensor(2, 1, 1, 1, name="w")
    images = tensor(1, 1, 3, 3), tensor(1, 1, 4, 4, name="y")
    return relay.concatenate([nn.conv2d(image, weight, strides=(2, 2)) for image in images], axis=0)


LEFT_ALONE = [
    (a_squeeze_of_all_axes_of_one_element, "view-into-pad"),
    (a_constant_without_elements, "constant-into-view"),
    (a_view_without_elements_of_rows_of_unknown_number, "split-product-of-rows"),
    (a_shape_of_which_two_sizes_are_unknown, "reshape-like"),
    (a_pool_whose_windows_lie_in_the_padding, "shift-through-avg-pool2d"),
    (an_average_pool_of_an_empty_axis, "shift-out-of-avg-pool2d"),
    (scores_of_float16_that_overflow, "scale-of-scores-into-left-of-matmul"),
    (a_scaled_product_of_float16, "scalar-outward"),
    (products_of_float16_with_a_scale_for_each, "scales-of-matrices-into-matmul"),
    (convolutions_of_images_of_other_sizes, "joined-convs"),
]


@pytest.mark.parametrize(("graph", "name"), LEFT_ALONE)
def test_a_rule_leaves_alone(graph, name: str) -> None:
    (rule,) = [rule for rule in rules.default + rules.merge if rule.name == name]
    data = graph()
    types = {var: var.type_annotation for var in relay.analysis.free_vars(data)}
    values = {
        var: np.zeros([dim if isinstance(dim, int) else 1 for dim in ty.shape], ty.dtype) for var, ty in types.items()
    }
    assert right_sides(rule, [Instance((data,), values)]) == [[]]


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("index", [-7, -3, 4, 9])
def test_an_index_out_of_range_is_clamped_or_wraps_as_its_gather_says(index: int, mode: str) -> None:
    before = relay.expand_dims(relay.take(tensor(5), relay.const(index), axis=0, mode=mode), axis=0)
    after = eqsat.optimize(before, rules=rules.default)
    assert isinstance(after, Call)
    assert after.op.name == "strided_slice"
    assert verify_equal(before, after).ok


def test_rules_load_nothing_of_the_verifier() -> None:
    program = "import sys, eqsat.rules; print([name for name in sys.modules if 'verify' in name or 'draw' in name])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(("first", "second", "keeps"), [("int32", "float64", True), ("int64", "float64", False)])
def test_a_cast_that_rounds_is_no_cast_that_keeps_all_values(first: str, second: str, keeps: bool) -> None:
    assert widens(TensorType([2], first), TensorType([2], second)) is keeps


def test_a_slice_is_that_part_of_a_split_which_takes_the_same_rows() -> None:
    x = relay.var("x", shape=(6, 2))
    middle = infer_type(relay.strided_slice(x, begin=[2], end=[3]))
    node_map = {slices.inner: [middle], slices.x: [middle.args[0]]}
    for cuts, axis, index, is_it in (
        ((2, 3), 0, 1, True),
        ((2, 4), 0, 1, False),
        ((2, 3), 0, 2, False),
        ((1,), 1, 1, False),
    ):
        merged = relay.split(x, indices_or_sections=cuts, axis=axis)[index]
        found = slices.part_of_split(node_map, merged)
        assert isinstance(found, Refusal) is not is_it, (cuts, axis, index)
    assert isinstance(slices.part_of_split(node_map, middle), Refusal)
