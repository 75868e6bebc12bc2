"""Passes that prepare trained networks: normalizations written out, scales folded into weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat import relay
from eqsat.relay import transform

from .compilers import assert_same, assert_same_values, called_ops, module, var

nn = relay.nn


def scale(*shape, lowest=0.5, seed=0):
    """Constants from ``lowest`` to 2."""
    return relay.const(np.random.default_rng(seed).uniform(lowest, 2, shape).astype("float32"))


def ops_after(make_pass, body, lowest=0.1):
    """What is computed after a pass other than from constants; the values must stay what they were."""
    before = module(body)
    after = make_pass()(before)
    assert_same_values(before, after, lowest, rtol=1e-4, atol=1e-4)
    return called_ops(transform.FoldConstant()(after)["main"])


# ---- CanonicalizeOps


@pytest.mark.parametrize(("axis", "channels", "after"), [(1, 4, 2), (-3, 4, 2), (0, 2, 3), (3, 6, 0), (-1, 6, 0)])
def test_a_bias_becomes_a_sum(axis, channels, after):
    x, b = var("x", 2, 4, 5, 6), var("b", channels)
    canonical = transform.CanonicalizeOps()(module(nn.relu(nn.bias_add(x, b, axis)), x, b))
    expanded = relay.expand_dims(b, axis=1, num_newaxis=after) if after else b
    assert_same(canonical, module(nn.relu(relay.add(x, expanded)), x, b))


# ---- SimplifyInference

X = var("x", 2, 4, 5, 6)
PARAMETERS = [var("gamma", 4), var("beta", 4)]
NORMALIZATIONS = [
    lambda **options: nn.batch_norm(X, *PARAMETERS, var("mean", 4), var("var", 4), **options)[0],
    lambda **options: nn.layer_norm(X, *PARAMETERS, axis=1, **options),
    lambda **options: nn.instance_norm(X, *PARAMETERS, **options),
    lambda **options: nn.group_norm(X, *PARAMETERS, num_groups=2, **options),
]


@pytest.mark.parametrize("norm", NORMALIZATIONS, ids=["batch", "layer", "instance", "group"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_normalizations_become_arithmetic(norm, center, scaled):
    before = module(norm(epsilon=0.25, center=center, scale=scaled))
    after = transform.SimplifyInference()(before)
    assert_same_values(before, after, rtol=1e-4, atol=1e-5)
    assert not [name for name in called_ops(after["main"]) if "norm" in name]


def test_normalizations_along_other_axes():
    last = [var("gamma", 6), var("beta", 6)]
    for body in (
        nn.batch_norm(X, *last, var("mean", 6), var("var", 6), axis=3)[0],
        nn.layer_norm(X, *last),
        nn.instance_norm(X, *last, axis=-1),
        nn.group_norm(X, *last, num_groups=3, axis=-1),
    ):
        assert "expand_dims" not in ops_after(transform.SimplifyInference, body)


@pytest.mark.parametrize("axis", [None, (1,), (2, 3)])
def test_l2_normalization(axis):
    ops = ops_after(transform.SimplifyInference, nn.l2_normalize(X, 0.01, axis))
    assert ops == ["multiply", "sum", "maximum", "sqrt", "divide"]


def test_dimensions_that_are_not_known():
    x = relay.var("x", shape=(relay.Any(), 4, relay.Any(), 6))
    after = transform.SimplifyInference()(module(nn.group_norm(x, *PARAMETERS, num_groups=2)))
    assert str(after["main"].ret_type) == "Tensor[(?, 4, ?, 6), float32]"


def test_dropout_goes():
    x = var("x", 2, 3)
    assert_same(transform.SimplifyInference()(module(relay.tanh(nn.dropout(x, 0.3)), x)), module(relay.tanh(x), x))


def test_only_first_outputs_are_replaced():
    norm = nn.batch_norm(X, *PARAMETERS, var("mean", 4), var("var", 4))
    assert "nn.batch_norm" in ops_after(transform.SimplifyInference, relay.Tuple([norm[0], norm[1]]))
    assert ops_after(transform.SimplifyInference, norm[2]) == ["nn.batch_norm"]


# ---- FoldScaleAxis

DATA, WEIGHT = var("x", 1, 4, 6, 6), var("w", 8, 4, 3, 3)
SQUARE = var("x", 1, 4, 4, 4)
CHANNELS = (8, 1, 1)


def conv(data=DATA, weight=WEIGHT, **attrs):
    return nn.conv2d(data, weight, padding=1, **attrs)


BACKWARD = {
    "convolution": lambda: conv() * scale(*CHANNELS),
    "scale on the left": lambda: scale(*CHANNELS, lowest=-1) * conv(),
    "scale of all dimensions": lambda: conv() * scale(1, *CHANNELS),
    "scale not known": lambda: conv() * var("s", *CHANNELS),
    "bias": lambda: nn.bias_add(conv(), var("b", 8)) * scale(*CHANNELS, lowest=-1),
    "sum": lambda: (var("b", *CHANNELS) - conv()) * scale(*CHANNELS, lowest=-1),
    "relu": lambda: nn.relu(conv() + var("b", *CHANNELS)) * scale(*CHANNELS),
    "leaky relu": lambda: nn.leaky_relu(conv(), 0.1) * scale(*CHANNELS),
    "two branches": lambda: (conv() + nn.relu(conv(weight=var("w2", 8, 4, 3, 3)))) * scale(*CHANNELS),
    "channels last": lambda: (
        nn.conv2d(var("x", 1, 6, 6, 4), var("w", 3, 3, 4, 8), data_layout="NHWC", kernel_layout="HWIO") * scale(8)
    ),
    "channels last in the result": lambda: conv(out_layout="NHWC") * scale(8),
    "blocks of channels": lambda: (
        nn.conv2d(var("x", 1, 2, 6, 6, 2), var("w", 4, 4, 3, 3, 2), data_layout="NCHW2c", kernel_layout="OIHW2o")
        * scale(4, 1, 1, 1)
    ),
    "each channel of a block": lambda: (
        nn.conv2d(var("x", 1, 2, 6, 6, 2), var("w", 4, 4, 3, 3, 2), data_layout="NCHW2c", kernel_layout="OIHW2o")
        * scale(4, 1, 1, 2)
    ),
    "all channels alike": lambda: nn.relu(conv()) * relay.const(2.0),
    "a scale in another shape": lambda: nn.relu(conv()) * relay.expand_dims(scale(CHANNELS[0]), 1, 2),
    "depthwise": lambda: conv(weight=var("w", 4, 1, 3, 3), groups=4) * scale(4, 1, 1),
    "groups": lambda: conv(weight=var("w", 8, 2, 3, 3), groups=2) * scale(*CHANNELS),
    "three dimensions": lambda: nn.conv3d(var("x", 1, 2, 4, 4, 4), var("w", 3, 2, 2, 2, 2)) * scale(3, 1, 1, 1),
    "dense": lambda: nn.relu(nn.dense(var("x", 3, 4), var("w", 5, 4)) + var("b", 5)) * scale(5),
}
FORWARD = {
    "convolution": lambda: conv(DATA * scale(4, 1, 1, lowest=-1)),
    "scale on the left": lambda: conv(scale(1, 4, 1, 1) * DATA),
    "scale not known": lambda: conv(DATA * var("s", 4, 1, 1)),
    "sum": lambda: conv(DATA * scale(4, 1, 1) - var("b", 4, 1, 1)),
    "bias": lambda: conv(nn.bias_add(DATA * scale(4, 1, 1), var("b", 4))),
    "relu": lambda: conv(nn.relu(var("b", 4, 1, 1) + DATA * scale(4, 1, 1))),
    "leaky relu": lambda: conv(nn.leaky_relu(DATA * scale(4, 1, 1))),
    "two users": lambda: (lambda x: conv(x) + conv(nn.relu(x), var("w2", 8, 4, 3, 3)))(DATA * scale(4, 1, 1)),
    "depthwise": lambda: conv(DATA * scale(4, 1, 1), var("w", 4, 1, 3, 3), groups=4),
    "depthwise, filters of each channel": lambda: conv(
        DATA * scale(4, 1, 1), var("w", 4, 2, 3, 3), groups=4, channels=8
    ),
    "dense": lambda: nn.dense(nn.relu(var("x", 3, 4) * scale(4)), var("w", 5, 4)),
}


@pytest.mark.parametrize("build", BACKWARD.values(), ids=BACKWARD)
def test_scales_move_up(build):
    """The data are multiplied no more: every product left makes a weight or a bias."""
    assert_scales_only_parameters(transform.BackwardFoldScaleAxis()(module(build())))
    ops_after(transform.BackwardFoldScaleAxis, build(), lowest=-1)


@pytest.mark.parametrize("build", FORWARD.values(), ids=FORWARD)
def test_scales_move_down(build):
    assert_scales_only_parameters(transform.ForwardFoldScaleAxis()(module(build())))
    ops_after(transform.ForwardFoldScaleAxis, build(), lowest=-1)


def assert_scales_only_parameters(mod):
    for node in relay.visitor.post_order(mod["main"]):
        if isinstance(node, relay.Call) and node.op.name == "multiply":
            assert not set(relay.analysis.free_vars(node)) & {
                param for param in mod["main"].params if param.name_hint == "x"
            }


STAYS_BACKWARD = {
    "negative through relu": lambda: nn.relu(conv()) * scale(*CHANNELS, lowest=-1),
    "not known through relu": lambda: nn.relu(conv()) * var("s", *CHANNELS),
    "used elsewhere": lambda: (lambda y: (y * scale(*CHANNELS)) + y)(conv()),
    "used elsewhere, higher up": lambda: (lambda y: nn.relu(y) * scale(*CHANNELS) + y)(conv()),
    "along another axis": lambda: conv() * scale(6),
    "no product": lambda: relay.tanh(conv()) * scale(*CHANNELS),
    "a branch without product": lambda: (conv() + var("y", 1, 8, 6, 6)) * scale(*CHANNELS),
    "integers": lambda: (
        nn.conv2d(var("x", 1, 4, 6, 6, dtype="int32"), var("w", 8, 4, 3, 3, dtype="int32"))
        * var("s", 8, 1, 1, dtype="int32")
    ),
    "blocks of other sizes": lambda: (
        nn.conv2d(var("x", 1, 2, 6, 6, 2), WEIGHT, data_layout="NCHW2c", out_layout="NCHW2c") * scale(4, 1, 1, 1)
    ),
    "depthwise, filters of each channel": lambda: (
        conv(weight=var("w", 4, 2, 3, 3), groups=4, channels=8) * scale(*CHANNELS)
    ),
    "bias along another axis": lambda: (
        nn.bias_add(nn.conv2d(var("x", 1, 4, 10, 10), WEIGHT), var("b", 8), axis=2) * scale(*CHANNELS)
    ),
    "negative, the left branch through relu": lambda: (
        (nn.relu(conv()) + conv(weight=var("w2", 8, 4, 3, 3))) * scale(*CHANNELS, lowest=-1)
    ),
    "negative, the right branch through relu": lambda: (
        (conv() + nn.relu(conv(weight=var("w2", 8, 4, 3, 3)))) * scale(*CHANNELS, lowest=-1)
    ),
    "branches with channels along different axes": lambda: (
        (conv(SQUARE, var("w", 4, 4, 3, 3)) + nn.dense(SQUARE, var("u", 4, 4))) * scale(4, 1, 1)
    ),
    "branches of different ranks": lambda: (
        (conv(SQUARE, var("w", 4, 4, 3, 3)) + nn.dense(var("y", 4, 4), var("u", 4, 4))) * scale(4, 1, 1)
    ),
}
STAYS_FORWARD = {
    "negative through relu": lambda: conv(nn.relu(DATA * scale(4, 1, 1, lowest=-1))),
    "zero through a sum": lambda: conv(DATA * relay.const(np.eye(4, 1, dtype="float32")[:, None]) + var("b", 4, 1, 1)),
    "given back too": lambda: (lambda x: relay.Tuple([conv(x), x]))(DATA * scale(4, 1, 1)),
    "another user": lambda: (lambda x: conv(x) + conv(relay.tanh(x)))(DATA * scale(4, 1, 1)),
    "negative, one user through relu": lambda: (lambda x: conv(nn.relu(x)) + conv(x, var("w2", 8, 4, 3, 3)))(
        DATA * scale(4, 1, 1, lowest=-1)
    ),
    "negative, the other user through relu": lambda: (lambda x: conv(x, var("w2", 8, 4, 3, 3)) + conv(nn.relu(x)))(
        DATA * scale(4, 1, 1, lowest=-1)
    ),
    "users with channels along different axes": lambda: (
        lambda x: conv(x, var("w", 4, 4, 3, 3)) + nn.dense(x, var("u", 4, 4))
    )(SQUARE * scale(4, 1, 1)),
    "as weight": lambda: conv(weight=WEIGHT * scale(4, 1, 1)),
    "depthwise, several outputs of each channel": lambda: conv(DATA * scale(4, 1, 1), var("w", 8, 1, 3, 3), groups=4),
    "groups": lambda: conv(DATA * scale(4, 1, 1), var("w", 4, 2, 3, 3), groups=2),
    "a residual sum": lambda: conv(DATA * scale(4, 1, 1) + var("y", 1, 4, 6, 6)),
}


@pytest.mark.parametrize("build", STAYS_BACKWARD.values(), ids=STAYS_BACKWARD)
def test_scales_that_cannot_move_up(build):
    before = module(build())
    assert_same(transform.BackwardFoldScaleAxis()(before), before)


@pytest.mark.parametrize("build", STAYS_FORWARD.values(), ids=STAYS_FORWARD)
def test_scales_that_cannot_move_down(build):
    before = module(build())
    assert_same(transform.ForwardFoldScaleAxis()(before), before)


def test_fold_scale_axis_does_both():
    body = nn.relu(conv(nn.relu(DATA * scale(4, 1, 1)))) * scale(*CHANNELS)
    folded = transform.FoldScaleAxis()(module(body))
    assert called_ops(folded["main"]) == ["nn.relu", "multiply", "multiply", "nn.conv2d", "nn.relu"]


def test_scales_of_constant_weights_are_computed():
    normalized = nn.batch_norm(conv(weight=scale(8, 4, 3, 3)), scale(8), scale(8), scale(8), scale(8))[0]
    mod = transform.SimplifyInference()(module(nn.relu(normalized)))
    folded = transform.FoldScaleAxis()(transform.FoldConstant()(mod))
    assert called_ops(folded["main"]) == ["nn.conv2d", "add", "nn.relu"]
    assert_same_values(mod, folded, rtol=1e-5)


@st.composite
def networks(draw):
    """Layers that scale, shift, clamp, convolve, branch and meet again, with constants of any sign."""
    x = value = var("x", 1, 3, 3, 3)
    pool = [x]
    for seed in range(draw(st.integers(1, 10))):
        value = pool[-1 - draw(st.sampled_from([0, 0, 0, 1, 2])) % len(pool)]
        factor = scale(3, 1, 1, lowest=draw(st.sampled_from([-1.0, 0.5])), seed=seed)
        weight = scale(3, 3, 1, 1, lowest=-1, seed=seed)
        kind = draw(st.sampled_from(["scale", "scale", "conv", "conv", "relu", "shift", "bias", "depthwise", "join"]))
        pool.append(
            {
                "scale": value * factor,
                "conv": nn.conv2d(value, weight),
                "depthwise": nn.conv2d(value, scale(3, 1, 1, 1, seed=seed), groups=3),
                "relu": nn.relu(value),
                "shift": factor - value,
                "bias": nn.bias_add(value, scale(3, seed=seed)),
                "join": value + pool[draw(st.integers(0, len(pool) - 1))],
            }[kind]
        )
    return pool[-1]


@settings(max_examples=60, deadline=None)
@given(networks())
def test_scales_move_without_changing_values(body):
    for make_pass in (transform.ForwardFoldScaleAxis, transform.BackwardFoldScaleAxis, transform.FoldScaleAxis):
        ops_after(make_pass, body, lowest=-1)


def test_deep_networks():
    """Chains and stacks of branches, deeper than the stack of Python and with more paths than can be walked."""
    x = deep = var("x", 1, 2, 1, 1)
    weight, factor = scale(2, 2, 1, 1), scale(2, 1, 1)
    for _ in range(1500):
        deep = nn.relu(nn.conv2d(deep, weight) * factor)
        deep = nn.relu(deep) + nn.relu(deep)
    after = transform.FoldScaleAxis()(module(nn.dropout(nn.bias_add(deep, var("b", 2))), x))
    assert "multiply" not in called_ops(transform.FoldConstant()(after)["main"])
    assert "nn.bias_add" not in called_ops(transform.CanonicalizeOps()(transform.SimplifyInference()(after))["main"])
