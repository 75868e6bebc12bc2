"""Activations and normalizations are recognised in arithmetic, whatever its association and order."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.interpreter import evaluate
from eqsat.relay.op.op import make_attrs
from eqsat.relay.visitor import post_order

const = relay.const
k = 0.7978845608


def operators(graph: Expr) -> list[str]:
    return [str(node.op.name) for node in post_order(graph) if isinstance(node, Call) and isinstance(node.op, Op)]


def mean(x: Expr) -> Expr:
    return relay.mean(x, axis=-1, keepdims=True)


def centered(x: Expr) -> Expr:
    return x - mean(x)


def softmax_of(x: Expr) -> Expr:
    e = relay.exp(x - relay.expand_dims(relay.max(x, axis=1), axis=1))
    return e / relay.expand_dims(relay.sum(e, axis=1), axis=1)


def power_difference(x: Expr) -> Expr:
    return mean(x * x) - mean(x) * mean(x)


def moments(x: Expr) -> Expr:
    return centered(x) / relay.sqrt(power_difference(x) + const(1e-5))


def bounded_moments(x: Expr) -> Expr:
    return centered(x) * relay.rsqrt(relay.maximum(const(0.0), power_difference(x)) + const(1e-5))


def flat_moments(x: Expr) -> Expr:
    """Statistics without the dimension that they are over, which comes back in a view."""
    average = relay.sum(x, axis=-1) * const(1 / 8)
    spread = relay.maximum(const(0.0), relay.sum(x * x, axis=-1) * const(1 / 8) - average * average)
    deviation = relay.sqrt(relay.expand_dims(spread, axis=1) + const(1e-5))
    return (x - relay.expand_dims(average, axis=1)) / deviation


def sum_of_squares(x: Expr) -> Expr:
    return relay.sum(x * x, axis=-1, keepdims=True)


def three_bounds(x: Expr) -> Expr:
    """A maximum with three arrays, of which the first says the least."""
    low, high = np.zeros(8, "float32"), np.arange(8, dtype="float32")
    return relay.maximum(const(high[::-1].copy()), relay.maximum(relay.maximum(x, const(low)), const(high)))


def reduced(name: str) -> Callable[[Expr], Expr]:
    """One of the operators that ONNX has beside sums."""
    op = relay.Op.get(name)
    return lambda x: relay.Call(op, [x], make_attrs(op, {"axis": (-1,), "keepdims": True}))


SUM_OF_SQUARES, NORM_L2 = reduced("sum_of_squares"), reduced("norm_l2")

DEFAULT: dict[str, tuple[str, Callable[[Expr], Expr]]] = {
    "erf": ("nn.gelu", lambda x: const(0.5) * x * (const(1.0) + relay.erf(x / relay.sqrt(const(2.0))))),
    "erf, distributed": ("nn.gelu", lambda x: const(0.5) * x + const(0.5) * x * relay.erf(x / const(1.41421356))),
    "tanh, cube": (
        "nn.gelu",
        lambda x: (
            const(0.5) * x * (const(1.0) + relay.tanh(const(k) * (x + const(0.044715) * relay.power(x, const(3.0)))))
        ),
    ),
    "tanh, factored": (
        "nn.gelu",
        lambda x: const(0.5) * (x * (const(1.0) + relay.tanh(x * const(k) * (const(1.0) + const(0.044715) * x * x)))),
    ),
    "tanh, nested": (
        "nn.gelu",
        lambda x: x * (const(0.5) * (const(1.0) + relay.tanh(const(k) * (x + x * (x * (const(0.044715) * x)))))),
    ),
    "erf, added before the factor": ("nn.gelu", lambda x: (x + x * relay.erf(x * const(0.70710678))) * const(0.5)),
    "tanh, constants multiplied": (
        "nn.gelu",
        lambda x: const(0.5) * x * (const(1.0) + relay.tanh(x * (x * x * const(0.044715 * k) + const(k)))),
    ),
    "tanh, a sum of powers": (
        "nn.gelu",
        lambda x: const(0.5) * x * (const(1.0) + relay.tanh(x * const(k) + x * x * x * const(0.044715 * k))),
    ),
    "erf of the negative": (
        "nn.gelu",
        lambda x: const(0.5) * x * (const(1.0) - relay.erf(-x * const(0.70710678))),
    ),
    "sigmoid of a cube": (
        "nn.gelu",
        lambda x: x * relay.sigmoid(const(2 * k) * (x + const(0.044715) * (x * x * x))),
    ),
    "clip": ("hardswish", lambda x: x * (relay.clip(x + const(3.0), 0, 6) / const(6.0))),
    "softmax": ("nn.softmax", softmax_of),
    "root": ("nn.layer_norm", lambda x: centered(x) / relay.sqrt(mean(centered(x) * centered(x)) + const(1e-5))),
    "rsqrt": ("nn.layer_norm", lambda x: relay.rsqrt(const(1e-5) + mean(centered(x) * centered(x))) * centered(x)),
}
DEFAULT |= {
    "columns": (
        "nn.layer_norm",
        lambda x: (
            (x - relay.mean(x, axis=0, keepdims=True))
            / relay.sqrt(relay.variance(x, 0, keepdims=True, with_mean=relay.mean(x, 0, keepdims=True)) + const(1e-5))
        ),
    ),
    "variance": (
        "nn.layer_norm",
        lambda x: centered(x) / relay.sqrt(relay.variance(x, -1, keepdims=True, with_mean=mean(x)) + const(1e-5)),
    ),
    "no epsilon": ("nn.layer_norm", lambda x: centered(x) / relay.sqrt(mean(centered(x) * centered(x)))),
    "mean of squares, no epsilon": ("nn.rms_norm", lambda x: x / relay.sqrt(mean(x * x))),
    "deviation either way": (
        "nn.layer_norm",
        lambda x: centered(x) * relay.rsqrt(mean((mean(x) - x) * (mean(x) - x)) + const(1e-5)),
    ),
    "sum of squares as one operator": (
        "nn.rms_norm",
        lambda x: x / relay.sqrt(SUM_OF_SQUARES(x) / const(8.0) + const(1e-5)),
    ),
    "length, squared": (
        "nn.rms_norm",
        lambda x: x / relay.sqrt(NORM_L2(x) * NORM_L2(x) / const(8.0) + const(1e-5)),
    ),
    "length, over a root": ("nn.rms_norm", lambda x: x / (NORM_L2(x) / const(math.sqrt(8)))),
    "length, scaled": ("nn.rms_norm", lambda x: x / NORM_L2(x) * const(np.arange(1, 9, dtype="f4"))),
    "power": ("nn.rms_norm", lambda x: relay.power(mean(x * x) + const(1e-5), const(-0.5)) * x),
    "scale before the root": (
        "nn.rms_norm",
        lambda x: x * const(np.arange(1, 9, dtype="f4")) * relay.rsqrt(mean(x * x) + const(1e-5)),
    ),
    "scale of the inverse root": (
        "nn.rms_norm",
        lambda x: x * (relay.rsqrt(mean(x * x) + const(1e-5)) * const(np.arange(1, 9, dtype="f4"))),
    ),
    "length": ("nn.l2_normalize", lambda x: x / relay.sqrt(relay.maximum(sum_of_squares(x), const(1e-6)))),
    "bounded length": ("nn.l2_normalize", lambda x: x / relay.maximum(relay.sqrt(sum_of_squares(x)), const(1e-6))),
}
DEFAULT |= {
    "ramp": ("nn.hard_sigmoid", lambda x: relay.clip(x + const(3.0), 0, 6) / const(6.0)),
    "ramp of a line": ("nn.hard_sigmoid", lambda x: relay.clip(x * const(0.2) + const(0.5), 0, 1)),
    "ramp by minimum and maximum": (
        "nn.hard_sigmoid",
        lambda x: relay.maximum(const(0.0), relay.minimum(const(1.0), const(0.2) * x + const(0.5))),
    ),
    "ramp of itself": ("hardswish", lambda x: relay.nn.hard_sigmoid(x, 1 / 6, 0.5) * x),
    "silu": ("nn.swish", lambda x: x / (const(1.0) + relay.exp(-x))),
    "silu by tanh": ("nn.swish", lambda x: x * const(0.5) * (relay.tanh(x * const(0.5)) + const(1.0))),
    "mish": ("nn.mish", lambda x: relay.tanh(relay.nn.softplus(x)) * x),
    "greater one of opposites": ("abs", lambda x: relay.maximum(-x, x)),
    "softmax of what is moved": ("nn.softmax", lambda x: relay.nn.softmax(x - relay.max(x, axis=-1, keepdims=True))),
    "sum of squares": ("sum_of_squares", lambda x: relay.sum(relay.power(x, const(2.0)), axis=-1)),
    "length of a vector": ("norm_l2", lambda x: relay.sqrt(sum_of_squares(x))),
    "sum of magnitudes": ("norm_l1", lambda x: relay.sum(relay.abs(x), axis=0)),
    "leaky by maximum": ("nn.leaky_relu", lambda x: relay.maximum(const(0.1) * x, x)),
    "leaky by choice": ("nn.leaky_relu", lambda x: relay.where(relay.greater(x, const(0.0)), x, x * const(-0.1))),
    "leaky by choice, from below": (
        "nn.leaky_relu",
        lambda x: relay.where(relay.less(x, const(0.0)), x / const(2.0), x),
    ),
    "bounds that are arrays": ("maximum", three_bounds),
}
FINITE: dict[str, tuple[str, Callable[[Expr], Expr]]] = {
    "moments": ("nn.layer_norm", moments),
    "moments, variance bounded by 0": ("nn.layer_norm", bounded_moments),
    "moments, without dimensions": ("nn.layer_norm", flat_moments),
    "ramp by choice": ("nn.relu", lambda x: relay.where(relay.greater(x, const(0.0)), x, const(0.0))),
    "square of a sum": (
        "tanh add multiply",
        lambda x: x * x + x * relay.tanh(x) * const(2.0) + relay.tanh(x) * relay.tanh(x),
    ),
}


def only_operator(graph: Expr, rule_sets) -> str:
    best = eqsat.optimize(graph, rules=rule_sets)
    calls = [node for node in relay.visitor.post_order(best) if isinstance(node, relay.Call)]
    return " ".join(call.op.name for call in calls)


@pytest.mark.parametrize("form", DEFAULT)
def test_the_default_rules_find_one_operator(form: str) -> None:
    operator, write = DEFAULT[form]
    assert only_operator(write(relay.var("x", shape=(4, 8))), rules.default) == operator


@pytest.mark.parametrize("form", [form for form in DEFAULT if form != "columns"])
def test_a_batch_of_unknown_size_hides_nothing(form: str) -> None:
    """Scales of normalizations are as long as what they scale: columns of unknown length have none."""
    operator, write = DEFAULT[form]
    x = relay.var("x", relay.TensorType((relay.Any("n"), 8)))
    assert only_operator(write(x), rules.default) == operator


@pytest.mark.parametrize("form", FINITE)
def test_rules_of_finite_values_find_one_operator(form: str) -> None:
    operator, write = FINITE[form]
    assert only_operator(write(relay.var("x", shape=(4, 8))), [rules.default, rules.finite]) == operator


def test_instance_normalization_written_out_is_found_with_its_scale_and_shift() -> None:
    x = relay.var("x", shape=(2, 3, 4, 4))
    average = relay.mean(x, axis=(2, 3), keepdims=True)
    spread = relay.mean((x - average) * (x - average), axis=(2, 3), keepdims=True)
    gamma, beta = (const(np.random.default_rng(0).uniform(0.5, 1, (3, 1, 1)).astype("float32")) for _ in range(2))
    graph = gamma * ((x - average) / relay.sqrt(spread + const(1e-5))) + beta
    assert only_operator(graph, rules.default) == "nn.instance_norm"


def test_batch_normalization_written_out_is_found_in_any_association() -> None:
    x = relay.var("x", shape=(2, 8))
    gamma, beta, center, spread = (relay.var(name, shape=(8,)) for name in ("gamma", "beta", "mean", "var"))
    root = relay.sqrt(spread + const(1e-5))
    for graph in (
        gamma * (x - center) / root + beta,
        beta + (x - center) / root * gamma,
        (gamma / root) * (x - center) + beta,
        beta + gamma * ((x - center) * (const(1.0) / root)),
        x * (gamma / root) + (beta - center * (gamma / root)),
    ):
        assert only_operator(graph, [rules.default, rules.finite]) == "nn.batch_norm"


def test_a_scale_and_a_shift_of_rows_of_a_product_are_a_batch_normalization_in_any_order() -> None:
    """No weight takes them in: its outputs lie along another axis."""
    rng = np.random.default_rng(0)
    weight, scale, shift = (const(rng.normal(size=shape).astype("f4")) for shape in ((8, 8), (3, 1), (3, 1)))
    rows = relay.nn.dense(relay.var("x", shape=(2, 3, 8)), weight)
    for graph in (rows * scale + shift, (rows + shift) * scale, shift + scale * rows):
        assert only_operator(graph, rules.default) == "nn.dense nn.batch_norm"


def test_a_root_mean_square_of_float16_is_found_where_no_square_overflows() -> None:
    x = relay.var("x", shape=(2, 8), dtype="float16")
    graph = x * relay.rsqrt(mean(x * x) + const(np.float16(1e-5)))
    assert only_operator(graph, rules.default) != "nn.rms_norm"
    assert only_operator(graph, [rules.default, rules.finite]) == "nn.rms_norm"


def test_an_activation_is_recognised_where_a_weight_has_taken_its_half() -> None:
    x, weight = relay.var("x", shape=(2, 8)), const(np.random.default_rng(0).normal(size=(4, 8)).astype("float32"))
    for operator, odd in (
        ("nn.gelu", relay.erf(x * const(math.sqrt(0.5)))),
        ("nn.gelu", relay.tanh(const(k) * (x + const(0.044715) * (x * x * x)))),
        ("nn.swish", relay.tanh(x * const(0.5))),
    ):
        assert only_operator(relay.nn.dense(x * (odd + const(1.0)), weight), rules.default) == f"{operator} nn.dense"


def test_an_array_of_one_number_is_that_number() -> None:
    x, ones = relay.var("x", shape=(2, 3, 8)), const(np.ones((2, 1, 1), "float32"))
    odd = relay.erf(x * const(np.full((3, 1), math.sqrt(0.5), "float32")))
    assert only_operator(x * (const(-0.5) * (const(-1.0) * ones - odd)), rules.default) == "nn.gelu"


def test_what_is_gathered_of_one_number_is_that_number_however_large_it_is() -> None:
    places = const(np.arange(30000, dtype="int64") % 50)
    rows = relay.take(const(np.full((50, 12), 0.5, "float32")), places, axis=0)
    bias = relay.transpose(relay.reshape(rows, (100, 300, 12)), axes=(2, 0, 1))
    best = eqsat.optimize(relay.var("x", shape=(12, 100, 300)) + bias)
    assert best.op.name == "add"
    assert best.args[1].data.shape == ()


def test_a_hardswish_behind_a_bias_is_recognised() -> None:
    """The bias takes in the 3, but what else reads the biased value is not hidden."""
    weight, bias = (relay.const(np.full(shape, 0.5, "float32")) for shape in ((8, 8), (8,)))
    y = relay.nn.bias_add(relay.nn.dense(relay.var("x", shape=(4, 8)), weight), bias)
    best = eqsat.optimize(y * relay.clip(y + const(3.0), 0, 6) / const(6.0))
    assert operators(best) == ["nn.dense", "nn.bias_add", "hardswish"]


def test_a_hardswish_of_float16_is_recognised_in_either_order() -> None:
    x = relay.var("x", shape=(4,), dtype="float16")
    gate, six = relay.clip(x + const(np.float16(3)), 0, 6), const(np.float16(6))
    for graph in (x * gate / six, x * (gate / six)):
        assert only_operator(graph, rules.default) == "hardswish"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("hidden", "recognised"), [(-1e4, True), (-np.inf, False)])
def test_masked_attention_where_each_row_leaves_some_key(dtype: str, hidden: float, recognised: bool) -> None:
    """Rows without any key are left to softmax, which shares its weight among them."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    query, key, value = (relay.var(name, shape=(2, 3, 4, 8), dtype=dtype) for name in "qkv")
    mask = const(np.full((4, 4), hidden).astype(kind))
    scores = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2)))
    best = eqsat.optimize(relay.nn.matmul(relay.nn.softmax(scores + mask), value))
    assert ("nn.masked_attention" in str(best)) is recognised


@pytest.mark.parametrize(
    ("shape", "shift", "gone"),
    [((2, 1), 3.0, True), ((), -3.0, True), ((1, 4), 3.0, False), ((2, 1), 1e6, False)],
)
def test_what_is_the_same_along_the_axis_does_not_move_a_softmax(
    shape: tuple[int, ...], shift: float, gone: bool
) -> None:
    """Where it is so large that sums with it lose what tells the scores apart, it stays."""
    x = relay.var("x", shape=(2, 4))
    added = const(shift * np.arange(1, math.prod(shape) + 1, dtype="float32").reshape(shape))
    best = eqsat.optimize(relay.nn.softmax(x + added, axis=-1))
    assert ("add" not in str(best)) is gone


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a_normalization_of_float16_as_float32_is_one_of_float16(norm: str) -> None:
    x = relay.var("x", shape=(4, 8), dtype="float16")
    wide = relay.cast(x, "float32")
    of = centered(wide) if norm == "layer_norm" else wide
    normalized = of / relay.sqrt(mean(of * of) + const(1e-5))
    graph = relay.cast(normalized, "float16") * const(np.arange(1, 9, dtype="f2"))
    best = eqsat.optimize(graph)
    assert only_operator(graph, rules.default) == f"nn.{norm}"
    feed = {x: np.random.default_rng(0).normal(0, 500, (4, 8)).astype("f2")}  # squares that float16 has not
    np.testing.assert_allclose(evaluate(best, feed), evaluate(graph, feed), rtol=2e-3)


def test_a_layer_norm_has_one_form_whether_its_shift_is_zero_or_not_there() -> None:
    x, gamma = relay.var("x", shape=(2, 4)), const(np.arange(1, 5, dtype="float32"))
    shift, none = const(np.arange(4, dtype="float32")), const(np.zeros(4, "float32"))
    without = relay.nn.layer_norm(x, gamma, gamma, center=False)
    assert eqsat.equal(without, relay.nn.layer_norm(x, gamma, none)).answer == "equal"
    assert only_operator(without + shift, rules.default) == "nn.layer_norm"


def test_parts_of_heads_of_a_product_are_columns_of_one_that_is_not_viewed() -> None:
    """Three parts of each of two heads, or of groups of heads of other lengths."""
    rng = np.random.default_rng(0)
    weight, bias = (const(rng.normal(size=shape).astype("f4")) for shape in ((8, 24), (24,)))
    product = relay.nn.matmul(relay.var("x", shape=(2, 5, 8)), weight) + bias
    within, between = relay.reshape(product, (2, 5, 2, 3, 4)), relay.reshape(product, (2, 5, 6, 4))
    for parts in (
        [relay.take(within, const(index), axis=3) for index in range(3)],
        [relay.strided_slice(between, [a], [b], axes=[2]) for a, b in ((0, 4), (4, 5), (5, 6))],
    ):
        graph = relay.Tuple([relay.nn.relu(relay.reshape(part, (2, 5, -1))) for part in parts])
        assert eqsat.optimize(graph).astext().count("reshape") == 0


def test_heads_that_are_rows_of_one_head_are_heads_that_share_keys() -> None:
    q, k, v = (relay.var(name, shape=(2, heads, 3, 4)) for name, heads in (("q", 6), ("k", 2), ("v", 2)))
    written = relay.reshape(relay.nn.attention(relay.reshape(q, (2, 2, 9, 4)), k, v, scale=0.5), (2, 6, 3, 4))
    assert only_operator(written, rules.default) == "nn.attention"


def test_heads_that_are_repeated_in_each_group_are_repeated_by_attention() -> None:
    """Keys are repeated where the places are in front of the heads, before they are turned by angles."""
    q, k, v = (relay.var(name, shape=(2, 3, 2, heads, 8)) for name, heads in (("q", 3), ("k", 1), ("v", 1)))
    cosines, sines = (relay.var(name, shape=(2, 3, 4)) for name in ("cos", "sin"))
    heads = [
        relay.transpose(relay.reshape(part, (2, 3, 6, 8)), (0, 2, 1, 3))
        for part in (q, relay.broadcast_to(k, (2, 3, 2, 3, 8)), relay.broadcast_to(v, (2, 3, 2, 3, 8)))
    ]
    turned = [relay.nn.rotary_embedding(part, cosines, sines) for part in heads[:2]]
    assert "broadcast_to" not in eqsat.optimize(relay.nn.attention(*turned, heads[2], scale=0.5)).astext()


def test_keys_of_one_head_join_attention_where_no_transpose_says_so() -> None:
    q = relay.transpose(relay.reshape(relay.var("q", shape=(2, 5, 12)), (2, 5, 3, 4)), (0, 2, 1, 3))
    k, v = (relay.reshape(relay.var(name, shape=(2, 7, 4)), (2, 1, 7, 4)) for name in "kv")
    cosines, sines = (relay.var(name, shape=(2, 7, 2)) for name in ("cos", "sin"))
    attended = relay.nn.attention(q, relay.nn.rotary_embedding(k, cosines, sines), v, scale=0.5)
    joined = relay.reshape(relay.transpose(attended, (0, 2, 1, 3)), (2, 5, 12))
    assert operators(eqsat.optimize(joined)) == ["nn.rotary_embedding", "nn.attention"]


@pytest.mark.parametrize("from_whole", [False, True])
def test_the_halves_of_a_slice_are_found_if_they_are_cut_from_what_it_is_cut_from(from_whole: bool) -> None:
    """A rotary embedding of the first four of eight elements."""
    x = relay.var("x", shape=(1, 2, 3, 8))
    angles = np.random.default_rng(0).random((1, 1, 3, 2), dtype="f4")
    cosines, sines = (const(np.concatenate([f(angles)] * 2, axis=-1)) for f in (np.cos, np.sin))
    first, last = (relay.strided_slice(x, [a], [b], axes=[3]) for a, b in ((0, 4), (4, 8)))
    low = relay.strided_slice(x if from_whole else first, [0], [2], axes=[3])
    high = relay.strided_slice(first, [2], [4], axes=[3])
    turned = first * cosines + relay.concatenate([relay.negative(high), low], axis=3) * sines
    graph = relay.concatenate([turned, last], axis=3)
    assert "nn.rotary_embedding" in operators(eqsat.optimize(graph))


def test_rows_that_a_constant_repeats_are_broadcast() -> None:
    x, row = relay.var("x", shape=(2, 3)), np.arange(3, dtype="f4")
    one, both = const(row.reshape(1, 3)), const(np.stack([row, row]))
    best = eqsat.optimize(relay.Tuple([relay.nn.relu(x + one), relay.exp(x + both)]))
    assert operators(best).count("add") == 1


def test_rows_of_squares_are_squares_of_rows() -> None:
    table = np.random.default_rng(0).random((7, 4), dtype="f4")
    places = relay.var("places", shape=(5,), dtype="int64")
    rows, squares = (relay.take(const(value), places, axis=0) for value in (table, table * table))
    norm = rows * relay.rsqrt(mean(squares) + const(np.float32(1e-5)))
    assert "nn.rms_norm" in operators(eqsat.optimize(norm))
