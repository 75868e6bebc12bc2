"""VGG-19 (Simonyan and Zisserman, 2014): 16 convolutions and 3 dense layers; 143,667,240 parameters."""

from __future__ import annotations

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Function

from .layers import Layers
from .weights import function

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels and number of the convolutions before each pooling."""


def vgg19() -> Function:
    """An image (1, 3, 224, 224) to 1000 scores."""
    layers = Layers(bias=True)
    x: Expr = relay.var("image", shape=(1, 3, 224, 224))
    for channels, count in STAGES:
        for _ in range(count):
            x = layers.conv(x, channels, 3)
        x = layers.pool(nn.max_pool2d, x, size=2)
    x = layers.keep(nn.batch_flatten(x), 512 * 7 * 7)
    x = layers.dense(layers.dense(x, 4096, relu=True), 4096, relu=True)
    return function(layers.dense(x, 1000))
