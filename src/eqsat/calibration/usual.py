"""Kernels that networks mostly have, in a few sizes each: what is measured where no model is given.

They are enough for each family to have rates of its own, by which other sizes are estimated.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eqsat.calibration.kernels import OPSET, Kernel, kernel_of
from eqsat.cost.kernels import cost_nodes
from eqsat.onnx.cost import OnnxTarget
from eqsat.relay import op as relay
from eqsat.relay.expr import Expr, Var, const
from eqsat.relay.infer import infer_types
from eqsat.relay.ty import TensorType

_ROWS = ((1, 16, 64), (1, 128, 256), (4, 128, 768), (1, 512, 1024), (8, 64, 3072))
"""Sizes of batches, places and channels in transformers."""

_PRODUCTS = ((16, 64, 64), (128, 256, 256), (64, 256, 1024), (196, 192, 768), (128, 768, 3072), (1, 512, 1000))
"""Rows, and inputs and outputs of each."""

_HEADS = ((1, 4, 16, 16), (4, 12, 64, 64), (1, 8, 197, 64), (2, 16, 256, 64), (1, 1, 512, 128))
"""Sizes of batches, heads, places and channels of attention."""

_IMAGES = ((16, 112), (32, 56), (64, 56), (128, 28), (256, 14), (512, 7))
"""Channels and sides of pictures."""


def usual_kernels() -> list[Kernel]:
    """Return the kernels, each once."""
    target = OnnxTarget(OPSET)
    found: dict[str, Kernel] = {}
    for expr in _graphs():
        for part in target.write(cost_nodes(expr, infer_types(expr))[expr]) or ():
            kernel = kernel_of(part.node)
            if kernel is not None:
                found[kernel.key] = kernel
    return list(found.values())


def _graphs() -> Iterator[Expr]:
    yield from _of_rows()
    for rows, inputs, outputs in _PRODUCTS:
        yield relay.nn.matmul(_given(rows, inputs), _weight(inputs, outputs))
        yield relay.nn.dense(_given(rows, inputs), _weight(outputs, inputs))
    for batch, heads, places, channels in _HEADS:
        query = _given(batch, heads, places, channels)
        yield relay.nn.matmul(query, _given(batch, heads, channels, places))
        yield relay.nn.softmax(_given(batch, heads, places, places))
        yield relay.transpose(query, (0, 2, 1, 3))
    for channels, side in _IMAGES:
        yield from _of_images(channels, side)


def _of_rows() -> Iterator[Expr]:
    """Layers that see each element, or each row."""
    for batch, places, channels in _ROWS:
        x, y, vector = _given(batch, places, channels), _given(batch, places, channels), _weight(channels)
        for each in (relay.add, relay.subtract, relay.multiply, relay.divide):
            yield each(x, y)
            yield each(x, vector)
        for of in (relay.nn.relu, relay.sigmoid, relay.tanh, relay.erf, relay.exp, relay.sqrt, relay.negative):
            yield of(x)
        yield relay.nn.layer_norm(x, vector, _weight(channels))
        yield relay.mean(x, axis=-1, keepdims=True)
        yield relay.reshape(x, (batch * places, channels))
        yield relay.concatenate([x, y], axis=1)
        yield relay.strided_slice(x, begin=[0], end=[places // 2], axes=[1])


def _of_images(channels: int, side: int) -> Iterator[Expr]:
    """Layers of convolutional networks."""
    image = _given(1, channels, side, side)
    for window in (1, 3):
        weight, pad = _weight(channels, channels, window, window), window // 2
        how = {"kernel_size": (window, window), "channels": channels, "padding": (pad, pad, pad, pad)}
        yield relay.nn.conv2d(image, weight, **how)
    apart = _weight(channels, 1, 3, 3)
    yield relay.nn.conv2d(image, apart, kernel_size=(3, 3), channels=channels, groups=channels, padding=(1, 1, 1, 1))
    yield relay.nn.max_pool2d(image, pool_size=(2, 2), strides=(2, 2))
    yield relay.nn.global_avg_pool2d(image)
    yield relay.add(image, _given(1, channels, side, side))
    yield relay.multiply(image, _given(1, channels, 1, 1))
    yield relay.nn.relu(image)
    yield relay.clip(image, 0.0, 6.0)


def _given(*shape: int) -> Var:
    return Var("x", TensorType(shape))


def _weight(*shape: int) -> Expr:
    return const(np.broadcast_to(np.float32(0.5), shape).copy())
