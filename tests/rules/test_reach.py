"""What the rules make of small graphs: which operators are left."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.relay import nn
from eqsat.relay.expr import Call, Expr

const = relay.const


def array(*shape: int, low: float = 0.2) -> Expr:
    return const(np.random.default_rng(0).uniform(low, 1, shape).astype("float32"))


def image() -> Expr:
    return relay.var("image", shape=(1, 3, 8, 8))


def attention() -> Expr:
    tokens = relay.var("tokens", shape=(2, 6, 8))
    query, key = (relay.reshape(nn.dense(tokens, array(8, 8, low=low)), newshape=(2, 6, 2, 4)) for low in (0.1, 0.2))
    query, key = relay.transpose(query, axes=(0, 2, 1, 3)), relay.transpose(key, axes=(0, 2, 3, 1))
    return nn.softmax(nn.matmul(query, key) / const(2.0) + relay.var("mask", shape=(6, 6)))


def normalized_pool(pool: Callable[..., Expr], sign: float) -> Expr:
    channel = [const(np.full(3, number, "float32")) for number in (sign, 0.5, 0.1, 2.0)]
    return nn.batch_norm(pool(nn.conv2d(image(), array(3, 3, 3, 3)), pool_size=2), *channel)[0]


def normalized_for_one(shared: Expr) -> Expr:
    """A convolution of what is normalized, and what else is made of it."""
    channel = [const(np.full(3, number, "float32")) for number in (1.5, 0.5, 0.1, 2.0)]
    return nn.relu(shared) + nn.conv2d(nn.batch_norm(shared, *channel)[0], array(3, 3, 1, 1))


def scaled_forward() -> Expr:
    return nn.conv2d(nn.relu(image() * array(3, 1, 1)), array(3, 3, 3, 3))


def hard_swish_by_biases() -> Expr:
    product, bias = nn.conv2d(image(), array(3, 3, 1, 1)), np.array([0.5, -1, 2], "float32")
    gate = relay.clip(nn.bias_add(product, const(bias + 3)), 0, 6)
    return nn.bias_add(product, const(bias)) * gate / const(6.0)


def shifted_softmax() -> Expr:
    x = relay.var("x", shape=(2, 5))
    moved = x - relay.max(x + const(1.5), axis=1, keepdims=True) + const(1.5)
    return relay.exp(moved) / relay.sum(relay.exp(moved), axis=1, keepdims=True)


def spread(batch: int, number: float) -> Expr:
    """One number for so many elements that it is not computed with while rules act."""
    return const(np.full((batch, 9, 64), number, "float32"))


def one_hot_product(index: Expr) -> Expr:
    rows = relay.one_hot(index, const(1.0), const(0.0), 7, -1, "float32")
    return nn.relu(nn.matmul(rows, array(7, 4)) + array(4)) * const(2.0)


def chosen(condition: Expr, one: Callable[[Expr], Expr], other: Callable[[Expr], Expr]) -> Expr:
    """One of two functions of an image."""
    x = image()
    return relay.where(condition, one(x), other(x))


def quick_gelu(x: Expr) -> Expr:
    return x * relay.sigmoid(x * const(1.702))


def heads_of_three(
    tokens: Expr, last: Callable[[Expr], Expr] = lambda product: product, scaled: Expr | None = None
) -> list[Expr]:
    weights = array(8, 8, low=0.1), array(8, 8, low=0.2), array(8, 4, low=0.3)
    first, second, third = (nn.matmul(tokens, weight) for weight in weights)
    products = [first, second, last(third)]
    views = [relay.reshape(each, newshape=(2, 6, -1, 4)) for each in products]
    views[1] = views[1] if scaled is None else views[1] * scaled
    return [relay.transpose(each, axes=(0, 2, 1, 3)) for each in views]


def like_a_mask(value: Expr) -> Expr:
    """The value, written as a choice between it and itself: the first choice of the graph."""
    return relay.where(const(np.arange(4) > 1), value, value)


def tokens_by_weight() -> Expr:
    return nn.matmul(relay.var("tokens", shape=(2, 6, 8)), array(8, 4))


def of_rows(product: Expr) -> Expr:
    """The product of a batch of matrices as one of all their rows."""
    data, weight = product.args
    return nn.matmul(relay.reshape(data, newshape=(-1, 8)), weight)


def dense_of_rows(tokens: Expr) -> Expr:
    rows = nn.dense(relay.reshape(tokens, newshape=(12, 8)), array(8, 8))
    return relay.reshape(rows, newshape=(2, 6, 8))


def joined_heads_by_weight(heads: Expr) -> Expr:
    """What heads make, which become rows of all batches at once, by a weight."""
    rows = relay.reshape(relay.transpose(heads, axes=(0, 2, 1, 3)), newshape=(12, 8))
    return relay.reshape(nn.matmul(rows, array(8, 4)), newshape=(2, 6, 4))


def normalized_rows_by_weight(tokens: Expr) -> Expr:
    rows = nn.layer_norm(relay.reshape(tokens, newshape=(12, 8)), array(8), array(8))
    return relay.reshape(nn.matmul(rows, array(8, 4)), newshape=(2, 6, 4))


def repeated_heads_of_rows(tokens: Expr) -> Expr:
    """Two heads for two queries each, which get the axis for these queries before heads come first."""
    heads = relay.transpose(relay.reshape(tokens, newshape=(2, 1, 6, 2, 4)), axes=(0, 3, 1, 2, 4))
    return relay.reshape(relay.broadcast_to(heads, (2, 2, 2, 6, 4)), newshape=(2, 4, 6, 4))


def image_bias(scale: Expr) -> Expr:
    bias = relay.cast(relay.floor(array(3) / scale), "int32")
    return relay.var("image", shape=(1, 3, 8, 8), dtype="int32") + relay.reshape(bias, newshape=(1, 3, 1, 1))


def one_row_conv(sound: Expr) -> Expr:
    row = nn.conv2d(relay.expand_dims(sound, axis=2), array(3, 3, 1, 3), padding=(0, 1))
    return relay.squeeze(row, axis=[2]) + array(1, 3, 1)


def one_channel_image(pixels: Expr) -> Expr:
    """An image of one channel, as Keras has its axes, through a convolution that has them first."""
    padded = nn.pad(pixels, ((1, 1), (1, 1)))
    image = relay.expand_dims(relay.expand_dims(padded, axis=2), axis=0)
    convolved = nn.conv2d(relay.transpose(image, axes=(0, 3, 1, 2)), array(3, 1, 3, 3))
    return relay.squeeze(relay.transpose(convolved, axes=(0, 2, 3, 1)), axis=[0])


def channels_last_conv(features: Expr) -> Expr:
    image = relay.expand_dims(nn.pad(features, ((1, 1), (1, 1), (0, 0))), axis=0)
    convolved = nn.conv2d(relay.transpose(image, axes=(0, 3, 1, 2)), array(3, 3, 3, 3))
    return relay.squeeze(relay.transpose(convolved, axes=(0, 2, 3, 1)), axis=[0])


def shared_heads(heads: Expr, times: int) -> Expr:
    """Each of the heads for several queries, of a batch and a length that are not known."""
    _, count, _, size = heads.type_annotation.shape
    one = relay.expand_dims(heads, axis=2)
    known = const(np.array([count, times]), "int64"), const(np.array([size]), "int64")
    lengths = [relay.strided_slice(relay.shape_of(heads, "int64"), [at], [at + 1]) for at in (0, 2)]
    shape = relay.concatenate([lengths[0], known[0], lengths[1], known[1]], axis=0)
    spread = relay.broadcast_to(one, shape)
    return relay.reshape(spread, newshape=(0, count * times, -1, size))


def halves_exchanged(x: Expr) -> Expr:
    first, second = (relay.strided_slice(x, begin=[at], end=[at + 4], axes=[1]) for at in (0, 4))
    return relay.concatenate([relay.negative(second), first], axis=1)


def windows_of_rolled(pixels: Expr) -> Expr:
    """Windows of four by four pixels of an image of eight by eight, which is rolled by one pixel."""
    image = relay.reshape(pixels, newshape=(8, 8, 16))
    first, rest = (relay.strided_slice(image, begin=[a], end=[b], axes=[0]) for a, b in ((0, 1), (1, 8)))
    windows = relay.reshape(relay.concatenate([rest, first], axis=0), newshape=(2, 4, 2, 4, 16))
    return relay.reshape(relay.transpose(windows, axes=(0, 2, 1, 3, 4)), newshape=(64, 16))


def unknown_image() -> Expr:
    return relay.var("image", shape=(relay.Any("height"), relay.Any("width")))


def zeros_shaped_like(image: Expr) -> Expr:
    return relay.full(const(0.0), relay.shape_of(image, "int64"), "float32")


def channel_shuffle(image: Expr, groups: int) -> Expr:
    parts = relay.reshape(image, newshape=(1, groups, 6 // groups, 8, 8))
    return relay.reshape(relay.transpose(parts, axes=(0, 2, 1, 3, 4)), newshape=(1, 6, 8, 8))


def words(dtype: str = "int32") -> Expr:
    return relay.var("index", shape=(5,), dtype=dtype)


REACHED: dict[str, tuple[str, Callable[[], Expr]]] = {
    "zeros in the shape of zeros in the shape of an image, added to it": (
        "nn.relu",
        lambda: (lambda image: nn.relu(image + zeros_shaped_like(zeros_shaped_like(image))))(unknown_image()),
    ),
    "what is true anyway, on either side": (
        "less",
        lambda: relay.logical_and(
            const(True), relay.logical_and(relay.less(words(), const(3)), const(np.asarray([True])))
        ),
    ),
    "the scale of attention is in the weights": (
        "nn.dense reshape transpose nn.dense reshape transpose nn.matmul add nn.softmax",
        attention,
    ),
    "batch normalization behind a maximum": (
        "nn.conv2d nn.max_pool2d nn.bias_add",
        lambda: normalized_pool(nn.max_pool2d, 1.0),
    ),
    "batch normalization behind an average": (
        "nn.conv2d nn.avg_pool2d nn.bias_add",
        lambda: normalized_pool(nn.avg_pool2d, -1.0),
    ),
    "a negative scale stays behind a maximum": (
        "nn.conv2d nn.max_pool2d nn.batch_norm",
        lambda: normalized_pool(nn.max_pool2d, -1.0),
    ),
    "scales before an activation": ("nn.relu nn.conv2d", scaled_forward),
    "a reshape goes to the constant it is of": (
        "divide floor cast add",
        lambda: image_bias(relay.var("scale", shape=())),
    ),
    "a scale and a shift go into the convolution behind them": (
        "nn.relu nn.conv2d nn.bias_add nn.relu",
        lambda: nn.relu(nn.conv2d(nn.relu(image()) * const(2.0) + array(3, 1, 1), array(4, 3, 3, 3))),
    ),
    "a scale and a shift of channels are a batch normalization": (
        "nn.batch_norm maximum",  # a bound passes what comes after it
        lambda: nn.relu(nn.relu(image()) * array(3, 1, 1) + array(3, 1, 1)),
    ),
    "but those of all elements stay": (
        "multiply add nn.relu",
        lambda: nn.relu(image() * const(2.0) + const(0.5)),
    ),
    "past padding the scale alone goes": (
        "sigmoid add nn.conv2d",
        lambda: nn.conv2d(relay.sigmoid(image()) * const(2.0) + const(0.5), array(4, 3, 3, 3), padding=(1, 1)),
    ),
    "convolutions over images of one row follow each other": (
        "expand_dims nn.conv2d add nn.relu nn.conv2d add squeeze",
        lambda: one_row_conv(nn.relu(one_row_conv(relay.var("sound", shape=(2, 3, 8))))),
    ),
    "convolutions of images of unknown size follow each other": (
        "expand_dims nn.conv2d nn.relu nn.conv2d transpose squeeze",
        lambda: channels_last_conv(nn.relu(one_channel_image(unknown_image()))),
    ),
    "axes of one element are taken out at once": (
        "squeeze",
        lambda: relay.squeeze(relay.squeeze(relay.var("x", shape=(1, relay.Any("n"), 1)), axis=[0]), axis=[1]),
    ),
    "a length that is picked and made a vector": (
        "shape_of strided_slice",
        lambda: relay.expand_dims(
            relay.take(relay.shape_of(unknown_image(), "int64"), const(-1, "int64"), axis=0, mode="fast"), 0
        ),
    ),
    "a scale before a view, of a vector of one": (
        "reshape nn.dense",
        lambda: nn.dense(relay.reshape(image() * array(1), newshape=(1, 192)), array(4, 192)),
    ),
    "slices that divide an axis are a split": (
        "split negative concatenate",
        lambda: halves_exchanged(relay.var("x", shape=(relay.Any("n"), 8))),
    ),
    "the sign of a half goes to the weights that it meets": (
        "split concatenate multiply",
        lambda: halves_exchanged(relay.var("x", shape=(relay.Any("n"), 8))) * array(8),
    ),
    "a scale goes to the weights of a sum": (
        "sigmoid multiply tanh multiply add nn.relu",
        lambda: nn.relu((relay.sigmoid(image()) * array(1, 8, 8) + relay.tanh(image()) * array(8, 1)) * const(0.3)),
    ),
    "an image without the margin that it was given": (
        "",
        lambda: relay.strided_slice(nn.pad(image(), ((0, 0), (0, 0), (1, 2), (2, 0))), [1, 2], [9, 10], axes=[2, 3]),
    ),
    "a gather from a gather is one": (
        "take",
        lambda: relay.take(relay.take(image(), const([2, 0, 1]), axis=1), const([1, 1]), axis=1),
    ),
    "what is chosen is a summand": (
        "where add",
        lambda: chosen(
            relay.var("z", shape=(8, 1), dtype="bool"),
            lambda x: x + array(8, 8, low=0.1),
            lambda x: x + array(8, 8, low=0.2),
        ),
    ),
    "slices that leave something out are not": (
        "strided_slice strided_slice negative concatenate",
        lambda: halves_exchanged(relay.var("x", shape=(relay.Any("n"), 9))),
    ),
    "heads that are repeated are a gather, whatever their length": (
        "take",
        lambda: shared_heads(relay.var("keys", shape=(relay.Any("n"), 2, relay.Any("s"), 8)), 3),
    ),
    "a gather of every place in order is a view": (
        "reshape nn.relu",
        lambda: nn.relu(relay.take(image(), const(np.arange(8).reshape(2, 4)), axis=2)),
    ),
    "windows of a rolled image are a gather of its pixels": (
        "take nn.dense",
        lambda: nn.dense(windows_of_rolled(relay.var("pixels", shape=(64, 16))), array(4, 16)),
    ),
    "a channel shuffle is a gather": (
        "nn.relu take",
        lambda: nn.relu(channel_shuffle(relay.var("image", shape=(1, 6, 8, 8)), 2)),
    ),
    "reshapes meet before an activation": (
        "reshape sigmoid",
        lambda: relay.reshape(relay.sigmoid(relay.reshape(image(), newshape=(3, 64))), newshape=(8, 24)),
    ),
    "the scale of a gate goes into the weights before and behind it": (
        "nn.dense nn.swish nn.dense",
        lambda: nn.dense(quick_gelu(nn.dense(relay.var("rows", shape=(3, 8)), array(6, 8))), array(4, 6)),
    ),
    "heads of three products are split and put first once": (
        "nn.matmul reshape transpose split",
        lambda: relay.Tuple(heads_of_three(relay.var("tokens", shape=(2, 6, 8)))),
    ),
    "a value that equals one of the three products does not take its place": (
        "nn.matmul reshape transpose split",
        lambda: relay.Tuple(heads_of_three(relay.var("tokens", shape=(2, 6, 8)), like_a_mask)),
    ),
    "nor is one of them apart that is of all rows": (
        "nn.matmul reshape transpose split",
        lambda: relay.Tuple(heads_of_three(relay.var("tokens", shape=(2, 6, 8)), of_rows)),
    ),
    "nor does a scale that comes before the transpose": (
        "nn.matmul reshape transpose split multiply",
        lambda: relay.Tuple(heads_of_three(relay.var("tokens", shape=(2, 6, 8)), scaled=const(0.5))),
    ),
    "a product of all rows is a product of the batch that they come from": (
        "nn.matmul nn.relu",
        lambda: nn.relu(relay.reshape(of_rows(tokens_by_weight()), newshape=(2, 6, 4))),
    ),
    "so is one with a bias": (
        "nn.matmul add nn.relu",
        lambda: nn.relu(relay.reshape(of_rows(tokens_by_weight()) + array(4), newshape=(2, 6, 4))),
    ),
    "so is one that is split into heads": (
        "nn.matmul reshape nn.relu",
        lambda: nn.relu(relay.reshape(of_rows(tokens_by_weight()), newshape=(2, 6, 2, 2))),
    ),
    "a quotient by a logistic function of a negative": (
        "multiply sigmoid multiply",
        lambda: (lambda x: x / (const(1.0) + relay.exp(x * const(-1.7))))(relay.var("x", shape=(4, 8))),
    ),
    "or one whose weight is transposed": (
        "nn.dense nn.relu",
        lambda: nn.relu(dense_of_rows(relay.var("tokens", shape=(2, 6, 8)))),
    ),
    "or one of rows that heads were joined to": (
        "transpose reshape nn.matmul nn.relu",
        lambda: nn.relu(joined_heads_by_weight(relay.var("heads", shape=(2, 2, 6, 4)))),
    ),
    "or one of normalized rows": (
        "nn.layer_norm nn.matmul nn.relu",
        lambda: nn.relu(normalized_rows_by_weight(relay.var("tokens", shape=(2, 6, 8)))),
    ),
    "heads are repeated by a gather, wherever the axis for that is put in": (
        "reshape transpose take",
        lambda: repeated_heads_of_rows(relay.var("tokens", shape=(2, 6, 8))),
    ),
    "a quotient of negatives, and a quotient by it": (
        "multiply",
        lambda: (lambda x, y: x / (const(-1.0) / relay.negative(y)))(*[relay.var(name, shape=(4, 8)) for name in "xy"]),
    ),
    "the sign of a product with -1": (
        "concatenate multiply",
        lambda: (
            lambda x: (
                relay.concatenate([x * const(-1.0), relay.var("y", shape=(4, 8))], 1)
                * const(np.repeat([[1, 2], [3, 4]], 8).reshape(2, 16)[:1].astype("float32"))
            )
        )(relay.var("x", shape=(4, 8))),
    ),
    "a shift by a number becomes the shift of a normalization that has none": (
        "nn.layer_norm",
        lambda: nn.layer_norm(relay.var("rows", shape=(3, 8)), array(8), array(8), center=False) + const(0.5),
    ),
    "a shift by nothing before a product is none": (
        "nn.dense",
        lambda: (
            nn.dense(relay.var("rows", shape=(3, 64)) + const(np.zeros(64, "float32")), array(64, 64))
            + const(np.zeros(64, "float32"))
        ),
    ),
    "what scales and shifts an image goes past a mean over space into a product": (
        "mean nn.dense nn.bias_add",
        lambda: nn.bias_add(
            nn.dense(relay.mean(image() * array(3, 1, 1) + array(3, 1, 1, low=0.1), axis=(2, 3)), array(5, 3)),
            array(5),
        ),
    ),
    "also if the mean keeps its axes and a convolution follows": (
        "nn.global_avg_pool2d nn.conv2d nn.bias_add",
        lambda: nn.conv2d(
            relay.mean(image() * array(3, 1, 1) + array(3, 1, 1, low=0.1), axis=(2, 3), keepdims=True),
            array(5, 3, 1, 1),
        ),
    ),
    "a normalization of a product that others read, too, goes forward": (
        "nn.conv2d nn.relu nn.conv2d nn.bias_add add",
        lambda: normalized_for_one(nn.conv2d(image(), array(3, 3, 1, 1))),
    ),
    "or past a view that lays an image out in a row": (
        "nn.batch_flatten nn.dense nn.bias_add",
        lambda: nn.bias_add(
            nn.dense(nn.batch_flatten(image() * array(3, 1, 1) + array(3, 1, 8, low=0.1)), array(5, 192)), array(5)
        ),
    ),
    "a hard swish whose 3 is in a bias": ("nn.conv2d nn.bias_add hardswish", hard_swish_by_biases),
    "a pool of images of one place": (
        "nn.relu",
        lambda: nn.global_avg_pool2d(nn.relu(relay.var("image", shape=(2, 3, 1, 1)))),
    ),
    "a product with one-hot rows is a gather": ("clip take", lambda: one_hot_product(relay.clip(words(), 0, 6))),
    "unless an index may be out of range": (
        "one_hot nn.matmul add nn.relu",
        lambda: one_hot_product(words()),
    ),
    "a shift inside the maximum of a softmax that is written out": ("nn.softmax", shifted_softmax),
    "half of one and a hyperbolic tangent": (
        "multiply sigmoid",
        lambda: relay.tanh(image()) * const(0.5) + const(0.5),
    ),
    "two sigmoids without one": ("multiply tanh", lambda: relay.sigmoid(image()) * const(2.0) - const(1.0)),
    "a channel shuffle around a function": (
        "nn.relu take",
        lambda: relay.reshape(
            relay.transpose(
                nn.relu(relay.reshape(relay.var("x", shape=(1, 6, 8, 8)), newshape=(1, 2, 3, 8, 8))),
                axes=(0, 2, 1, 3, 4),
            ),
            newshape=(1, 6, 8, 8),
        ),
    ),
    "large constants that are one number and cancel": (
        "multiply",
        lambda: (relay.var("x", shape=(2, 9, 64)) + spread(1, 0.5)) * const(2.0) + spread(2, -2.0) + const(1.0),
    ),
    "a scale behind a view of a product": (
        "nn.dense reshape",
        lambda: (
            relay.reshape(nn.dense(relay.var("x", shape=(12, 4)), array(5, 4)), newshape=(2, 6, 5)) * array(1, 1, 5)
        ),
    ),
    "casts of a clip": (
        "clip cast",
        lambda: relay.cast(relay.cast(relay.clip(words(), -100, 100), "int8"), "float32"),
    ),
}


def operators(graph: Expr, *sets: rules.RuleSet) -> str:
    best = eqsat.optimize(graph, rules=list(sets))
    return " ".join(node.op.name for node in relay.visitor.post_order(best) if isinstance(node, Call))


@pytest.mark.parametrize("what", REACHED)
def test_the_default_rules_reach_the_least_form(what: str) -> None:
    expected, write = REACHED[what]
    found, wanted = operators(write(), rules.default).split(), expected.split()
    assert sorted(found) == sorted(wanted)


def test_exact_rules_take_signs_into_constants() -> None:
    y = relay.negative(relay.var("x", shape=())) * const(-0.3)
    exact = rules.default.sound(rules.Soundness.EXACT)
    assert operators(y * array(3), exact) == "multiply multiply"
    assert operators(array(3) / relay.negative(relay.var("x", shape=())), exact) == "divide"


ANYWAY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "sigmoid": lambda x, y: relay.sigmoid(x),
    "subtract": lambda x, y: x - y,
    "maximum": lambda x, y: relay.maximum(x, array(6, 1, 4)),
    "divide": lambda x, y: array(6, 1, 1) / x,
    "strided_slice": lambda x, y: relay.strided_slice(x, begin=[1, 2], end=[2, 4], axes=[0, 3]),
    "split": lambda x, y: relay.split(x, 2, axis=1)[1],
}


@pytest.mark.parametrize("operator", ANYWAY)
def test_what_is_computed_of_values_that_are_transposed_anyway_is_computed_of_the_transposes(operator: str) -> None:
    operands = [relay.var(name, shape=(2, 6, 2, 4)) for name in "xy"]
    values = [*operands, ANYWAY[operator](*operands)]
    graph = relay.Tuple([relay.transpose(value, axes=(0, 2, 1, 3)) for value in values])
    assert sorted(operators(graph, rules.default).split()) == sorted(["transpose", "transpose", operator])


BY_NUMBER: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "less": lambda x, chosen, number: relay.less(x, number),
    "power": lambda x, chosen, number: relay.power(number, x),
    "where": lambda x, chosen, number: relay.where(chosen, number, x),
    "where, the other choice": lambda x, chosen, number: relay.where(chosen, x, number),
}


@pytest.mark.parametrize("what", BY_NUMBER)
def test_a_number_is_one_whatever_axes_it_has(what: str) -> None:
    x, chosen = relay.var("x", shape=(2, 3)), relay.var("chosen", shape=(2, 3), dtype="bool")
    numbers = [const(np.full(axes, 3.0, "float32")) for axes in [(), (1,), (1, 1)]]
    graph = relay.Tuple([BY_NUMBER[what](x, chosen, number) for number in numbers])
    assert operators(graph, rules.default) == what.partition(",")[0]


@pytest.mark.parametrize("operator", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("through", ["view", "transpose", "gather", "number"])
def test_a_constant_may_be_either_operand(through: str, operator: str) -> None:
    x, vector, number = relay.var("x", shape=(4, 8)), array(8), const(0.7)
    rows = relay.var("rows", shape=(4,), dtype="int64")
    of = {
        "view": lambda apply: relay.reshape(apply(relay.reshape(x, (1, 4, 8)), vector), (4, 8)),
        "transpose": lambda apply: relay.transpose(apply(relay.transpose(x, (1, 0)), array(4)), (1, 0)),
        "gather": lambda apply: apply(relay.take(array(5, 8), rows, axis=0, mode="fast"), vector),
        "number": lambda apply: relay.transpose(apply(relay.transpose(x, (1, 0)), number), (1, 0)),
    }[through]
    apply = getattr(relay, operator)
    left = [operators(of(one), rules.default) for one in (lambda y, c: apply(c, y), apply)]
    assert left[0] == left[1]
    assert len(left[0].split()) == 1


def test_views_of_matrices_leave_transposes() -> None:
    """So that what works on all rows at once goes on doing so."""
    batch = relay.reshape(relay.var("x", shape=(4, 8)), (1, 4, 8))
    turned = relay.transpose(batch, (0, 2, 1)) * array(4)
    assert operators(relay.reshape(turned, (8, 4)), rules.default) == "multiply transpose"


def test_shapes_that_are_constants_need_no_dynamic_operators() -> None:
    graph = relay.reshape(image(), const(np.array([3, 64])))
    best = eqsat.optimize(graph, rules=rules.default, cost_model=lambda node: float(node.op.startswith("dyn.")))
    assert best.op.name == "reshape"


def test_the_user_may_say_that_indices_are_in_range() -> None:
    assert operators(one_hot_product(words()), rules.default, rules.in_range) == "take"


def test_lowering_writes_out_what_is_dear() -> None:
    def without_norms(node) -> float:
        return 100.0 if node.op.startswith("nn.") else 1.0

    graph = nn.layer_norm(relay.var("x", shape=(4, 8)), array(8), array(8))
    best = eqsat.optimize(
        nn.bias_add(graph, array(8), axis=-1), [rules.default, rules.lowering], cost_model=without_norms
    )
    calls = [node.op.name for node in relay.visitor.post_order(best) if isinstance(node, Call)]
    assert not any(name.startswith("nn.") for name in calls)


def test_a_gelu_that_is_written_out_is_in_sight_where_it_has_no_operator() -> None:
    """Then a weight behind it may take in a half; where it has one, rules no longer see what it is written as."""
    x = relay.var("x", shape=(4, 8))
    graph = nn.dense((x * const(0.5)) * (const(1.0) + relay.erf(x * const(0.5**0.5))), array(8, 8))
    for given, hidden in ((rules.default, True), (rules.in_sight(rules.default), False)):
        (region,) = eqsat.saturate(graph, given).regions
        assert any(region.snapshot.hidden) == hidden
    assert [rule.name for rule in rules.in_sight(rules.default)] == [rule.name for rule in rules.default]
    shown = rules.in_sight(rules.default).only("gelu")
    assert pickle.loads(pickle.dumps([*shown])) == [*shown]


def test_views_around_a_square_go() -> None:
    x = relay.var("x", shape=(2, 3, 4))
    rows = relay.reshape(relay.nn.relu(x), (6, 4))
    assert "reshape" not in eqsat.optimize(relay.reshape(rows * rows, (2, 3, 4))).astext()
