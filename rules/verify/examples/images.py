"""Instances of rules on convolutions, pools and products by special weights."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from eqsat.egraph.bases import POOLS
from eqsat.egraph.rule import Examples
from eqsat.relay import nn
from eqsat.relay.expr import Call, Constant, Expr, Op, Var
from eqsat.relay.op import add, clip, mean, multiply, reshape
from eqsat.relay.op.draw import FLOATS, Draw
from eqsat.relay.op.nn.window import SPATIAL
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import TensorType

ACTIVATIONS: dict[str, Any] = {"": lambda data: data, "-relu": nn.relu}


def call(name: str, *args: Expr, **attrs: Any) -> Any:
    op = Op.get(name)
    return Call(op, args, make_attrs(op, attrs))


def image(draw: Draw, rank: int, longest: int = 5) -> tuple[Var, int]:
    """Floating-point data of a few channels and ``rank`` spatial axes, and the number of channels."""
    draw.dtype = draw.rng.choice(FLOATS)
    channels = draw.rng.randint(1, 3)
    return Var("x", TensorType((1, channels, *[draw.rng.randint(3, longest)] * rank), draw.dtype)), channels


def conv_by_identity(draw: Draw, rank: int) -> Any:
    data, channels = image(draw, rank)
    kernel = [draw.rng.choice((1, 3)) for _ in range(rank)]
    padding = [size // 2 for size in kernel]
    value = np.pad(
        np.eye(channels, dtype=draw.dtype).reshape(channels, channels, *[1] * rank),
        [(0, 0)] * 2 + [(side, side) for side in padding],
    )
    return call(f"nn.conv{rank}d", data, Constant(value), padding=(*padding, *padding))


def conv_by_average(draw: Draw, rank: int) -> Any:
    data, channels = image(draw, rank)
    kernel = [draw.rng.choice((1, 2, 3)) for _ in range(rank)]
    value = Constant(np.full((channels, 1, *kernel), 1 / prod(kernel), draw.dtype))
    attrs = {"padding": draw.rng.choice((0, 1)), "strides": draw.rng.choice((1, 2))}
    return call(f"nn.conv{rank}d", data, value, groups=channels, **attrs)


def conv_of_blocks(draw: Draw, rank: int) -> Any:
    """A convolution of an image cut into blocks, which are put together again."""
    draw.dtype = draw.rng.choice(FLOATS)
    block = [draw.rng.choice((1, 2)) for _ in range(rank)]
    before = [draw.rng.randrange(3) for _ in block]
    after = [-first % each for first, each in zip(before, block, strict=True)]
    data = Var("x", TensorType((1, *[draw.rng.randint(4, 6) * each for each in block], 2), draw.dtype))
    weight = draw.constant((*[draw.rng.choice((1, 2, 3)) for _ in block], 2, 2), draw.dtype)
    blocks = call("nn.space_to_batch_nd", data, block_shape=block, paddings=tuple(zip(before, after, strict=True)))
    layouts = {"data_layout": f"N{SPATIAL[rank]}C", "kernel_layout": f"{SPATIAL[rank]}IO"}
    conv = call(f"nn.conv{rank}d", blocks, weight, padding=draw.rng.choice((0, 1)), **layouts)
    crops = tuple((draw.rng.randint(0, 1), draw.rng.randint(0, 1)) for _ in block)
    return call("nn.batch_to_space_nd", conv, block_shape=block, crops=crops)


def padded(draw: Draw, rank: int, value: Constant) -> Any:
    """Data of two channels, mostly padded along the spatial axes only."""
    data = Var("x", TensorType((draw.rng.randint(1, 2), 2, *[draw.rng.randint(3, 5)] * rank), draw.dtype))
    width = [(0, 0), (int(draw.chance(0.1)), 0)] + [(draw.rng.randrange(3), draw.rng.randrange(3)) for _ in range(rank)]
    return nn.pad(data, width, value, draw.rng.choice(("constant", "constant", "constant", "edge")))


def maximum_of_padded(draw: Draw, rank: int) -> Any:
    """A pool of data that is padded with the least number of its dtype."""
    dtype = np.dtype(draw.dtype)
    low = False if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf
    attrs: dict[str, Any] = {"pool_size": draw.rng.randint(2, 3), "strides": draw.rng.choice((1, 2))}
    attrs |= {"padding": draw.rng.choice((0, 0, 1)), "ceil_mode": draw.chance(0.1)}
    return call(f"nn.max_pool{rank}d", padded(draw, rank, Constant(np.asarray(low, dtype))), **attrs)


def along_channels(draw: Draw, of: Any, channels: int, rank: int, *, is_scale: bool) -> Any:
    """What a pool made, times or plus a constant that mostly varies along the channels."""
    shape: tuple[int, ...] = draw.rng.choice(((channels, *[1] * rank), (channels, *[1] * rank), ()))
    if not is_scale:
        return of + draw.constant(shape, draw.dtype)
    factors = np.asarray([draw.rng.choice((0.5, 2.0, 0.125)) for _ in range(prod(shape))], draw.dtype)
    return of * Constant(factors.reshape(shape))


def pool_of_weighted(draw: Draw, name: str, verb: str) -> Any:
    """A pool of what a convolution makes, scaled, shifted or with a bias."""
    rank = int(name[-2])
    longest = 5 if rank < 3 else 3  # to prove it of larger cubes takes minutes
    data, inputs = image(draw, rank, longest)
    channels = draw.rng.randint(1, 3)
    weighted = call(f"nn.conv{rank}d", data, draw.constant((channels, inputs, *[1] * rank), draw.dtype))
    attrs: dict[str, Any] = {}
    if "global" not in name:
        attrs = {"pool_size": 2 if rank == 3 else draw.rng.randint(2, 3), "strides": draw.rng.choice((1, 2))}
        attrs |= {"padding": draw.rng.choice((0, 0, 1)), "ceil_mode": draw.chance(0.1)}
    pooled = call(name, weighted, **attrs)
    if verb == "bias":
        return nn.bias_add(pooled, draw.constant((channels,), draw.dtype))
    return along_channels(draw, pooled, channels, rank, is_scale=verb == "scale")


def quantized_conv_of_padded(draw: Draw) -> Any:
    """A quantized convolution of data that is padded, mostly with the zero point."""
    draw.dtype = "int8"
    point = draw.rng.choice((0, 3))
    data = padded(draw, 2, Constant(np.int8(point if draw.chance(0.9) else 1)))
    weight = draw.constant((2, 2, 3, 2), "int8")
    parameters = [Constant(np.int32(point)), Constant(np.int32(1)), *(Constant(np.float32(s)) for s in (0.5, 0.25))]
    attrs = {"kernel_size": (3, 2), "channels": 2, "padding": draw.rng.choice((0, 1))}
    return call("qnn.conv2d", data, weight, *parameters, **attrs)


def sibling_convs(draw: Draw, activation: Any, biased: bool, sizes: tuple[int, int]) -> tuple[Expr, ...]:
    """Two or three convolutions of one image, with kernels that mostly are of one size and the other in turn."""
    channels, side, stride = draw.rng.randint(1, 3), draw.rng.randint(3, 6), draw.rng.choice((1, 1, 2))
    data = Var("x", TensorType((draw.rng.choice((1, 1, 2)), channels, side, side)))
    roots = []
    for index in range(draw.rng.randint(2, 3)):
        size, length = sizes[index % 2] if draw.chance(0.8) else 3, draw.rng.randint(1, 4)
        weight = Var(f"w{index}", TensorType((length, channels, size, size)))
        value = nn.conv2d(data, weight, padding=size // 2, strides=stride)
        roots.append(activation(nn.bias_add(value, Var(f"b{index}", TensorType((length,)))) if biased else value))
    return tuple(roots)


def added_convs(draw: Draw) -> Any:
    """The sum of two convolutions of equal attributes."""
    side, length, size = draw.rng.randint(2, 5), draw.rng.randint(1, 3), draw.rng.choice((1, 3))
    sums = []
    for name in "xy":
        channels = draw.rng.randint(1, 3)
        data = Var(name, TensorType((1, channels, side, side)))
        weight = Var(f"w{name}", TensorType((length, channels, size, size)))
        sums.append(nn.conv2d(data, weight, padding=size // 2))
    return sums[0] + sums[1]


def gate_of_biased(draw: Draw) -> Any:
    """A product with two biases, mostly 3 apart, times itself behind a clip to 0 .. 6, in a few forms."""
    dtype, channels = draw.rng.choice(("float16", "float32")), draw.rng.randint(1, 3)
    bias = draw.array(TensorType((channels,), dtype))
    more = bias + np.asarray(3 if draw.chance(0.9) else 2, dtype)
    data = Var("y", TensorType((2, channels, 2), dtype))
    biased = nn.bias_add(data, Constant(bias))
    gate = clip(nn.bias_add(data, Constant(more)), 0, 6)
    six = Constant(np.asarray(6, dtype))
    return draw.rng.choice((lambda: (biased * gate) / six, lambda: biased * (gate / six)))()


def pool_of_one_place(draw: Draw, name: str) -> Any:
    """A pool of images that mostly have one place."""
    sides = [draw.rng.choice((1, 1, 1, 2)) for _ in range(2)]
    return call(name, Var("x", TensorType((draw.rng.randint(1, 2), 3, *sides), draw.rng.choice(FLOATS))))


def pooled_rows(draw: Draw, kind: str, rank: int) -> Any:
    """One element for each channel, mostly as rows."""
    shape = (draw.rng.randint(1, 2), draw.rng.randint(1, 3), *[draw.rng.randint(1, 3) for _ in range(rank)])
    pool = getattr(nn, f"adaptive_{kind}_pool{rank}d")
    pooled = pool(Var("x", TensorType(shape, draw.rng.choice(FLOATS))), output_size=(1,) * rank)
    return reshape(pooled, newshape=shape[:2] if draw.chance(0.9) else (shape[0] * shape[1],))


def mean_of_image(draw: Draw, operator: Any) -> Any:
    """The mean of an image that is scaled or shifted, mostly over space."""
    channels = draw.rng.randint(1, 3)
    shape = (draw.rng.randint(1, 2), channels, draw.rng.randint(1, 3), draw.rng.randint(1, 3))
    dtype = draw.rng.choice(FLOATS)
    image = operator(Var("x", TensorType(shape, dtype)), draw.constant((channels, 1, 1), dtype))
    axes = draw.rng.choice(((2, 3), (-1, -2))) if draw.chance(0.9) else (1, 2)
    return mean(image, axis=axes, keepdims=draw.chance(0.5))


EXAMPLES: dict[str, Examples] = {
    "pad-into-qnn-conv2d": quantized_conv_of_padded,
    "add-convs": added_convs,
    "hardswish-of-biased": gate_of_biased,
}
for _rank in (1, 2, 3):
    EXAMPLES[f"conv{_rank}d-by-identity"] = partial(conv_by_identity, rank=_rank)
    EXAMPLES[f"conv{_rank}d-by-average"] = partial(conv_by_average, rank=_rank)
    EXAMPLES[f"atrous-conv{_rank}d"] = partial(conv_of_blocks, rank=_rank)
    EXAMPLES[f"pad-into-max-pool{_rank}d"] = partial(maximum_of_padded, rank=_rank)
for _kind in ("avg", "max"):
    EXAMPLES[f"global-{_kind}-pool2d-of-one-place"] = partial(pool_of_one_place, name=f"nn.global_{_kind}_pool2d")
for _name in POOLS:
    for _verb in ("scale", "shift", "bias"):
        _short = _name.removeprefix("nn.").replace("_", "-")
        EXAMPLES[f"{_verb}-through-{_short}"] = partial(pool_of_weighted, name=_name, verb=_verb)
for _suffix, _activation in ACTIVATIONS.items():
    for _kind, _sizes in (("sibling", (1, 1)), ("enlarged", (1, 3))):
        for _biased in (False, True):
            EXAMPLES[f"{_kind}-convs{'-bias' * _biased}{_suffix}"] = partial(
                sibling_convs, activation=_activation, biased=_biased, sizes=_sizes
            )
for _verb, _operator in (("scaled", multiply), ("shifted", add)):
    EXAMPLES[f"mean-of-{_verb}-image"] = partial(mean_of_image, operator=_operator)
for _kind in ("avg", "max"):
    for _rank in (1, 3):
        EXAMPLES[f"view-of-adaptive-{_kind}-pool{_rank}d"] = partial(pooled_rows, kind=_kind, rank=_rank)
