"""ResNeXt-50 32x4d (Xie et al., 2016) as TASO and TENSAT measure it.

Convolutions only: no batch norms, no classifier.
"""

from __future__ import annotations

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Function

from .layers import Layers
from .weights import function

STAGES = ((128, 3), (256, 4), (512, 6), (1024, 3))
"""Channels inside the blocks and number of blocks."""
GROUPS = 32


def resnext50() -> Function:
    """An image (1, 3, 224, 224) to features (1, 2048, 7, 7)."""
    layers = Layers()
    image = relay.var("image", shape=(1, 3, 224, 224))
    x: Expr = layers.conv(image, 64, 7, stride=2)
    x = layers.pool(nn.max_pool2d, x, padding=(1, 1))
    for stage, (channels, count) in enumerate(STAGES):
        for index in range(count):
            x = _block(layers, x, channels, 2 if stage and not index else 1)
    return function(x)


def _block(layers: Layers, x: Expr, channels: int, stride: int) -> Expr:
    y = layers.conv(layers.conv(x, channels, 1), channels, 3, stride, groups=GROUPS)
    y = layers.conv(y, 2 * channels, 1, relu=False)
    if stride > 1 or layers.channels(x) != 2 * channels:
        x = layers.conv(x, 2 * channels, 1, stride)
    return layers.keep(nn.relu(relay.add(x, y)), 2 * channels)
