"""SqueezeNet 1.0 (Iandola et al., 2016): eight fire modules; 1,248,424 parameters."""

from __future__ import annotations

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Function

from .layers import Layers
from .weights import function

FIRES = ((16, 64), (16, 64), (32, 128), None, (32, 128), (48, 192), (48, 192), (64, 256), None, (64, 256))
"""Channels of the squeeze and of each expand convolution; None is a pooling."""


def squeezenet() -> Function:
    """An image (1, 3, 224, 224) to 1000 scores."""
    layers = Layers(bias=True)
    image = relay.var("image", shape=(1, 3, 224, 224))
    x = _pool(layers, layers.conv(image, 96, 7, stride=2, padding=0))
    for channels in FIRES:
        x = _pool(layers, x) if channels is None else _fire(layers, x, *channels)
    x = layers.conv(x, 1000, 1)
    return function(nn.batch_flatten(nn.global_avg_pool2d(x)))


def _fire(layers: Layers, x: Expr, squeeze: int, expand: int) -> Expr:
    x = layers.conv(x, squeeze, 1)
    return layers.join([layers.conv(x, expand, kernel) for kernel in (1, 3)])


def _pool(layers: Layers, x: Expr) -> Expr:
    return layers.pool(nn.max_pool2d, x, ceil_mode=True)
