"""NasNet-A (Zoph et al., 2017) as TASO and TENSAT measure it: three stages of five normal cells and a reduction cell.

As there, a separable convolution is a grouped one, with as many groups as it has output channels, and a 1x1.
"""

from __future__ import annotations

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Function

from .layers import Layers
from .weights import function

CELLS = 5
CHANNELS = (128, 256, 512)


def nasnet_a() -> Function:
    """An image (1, 3, 224, 224) to features (1, 5120, 7, 7)."""
    net = _NasNet()
    image = relay.var("image", shape=(1, 3, 224, 224))
    x = net.pool(nn.max_pool2d, net.layers.conv(image, 64, 7, stride=2), 2)
    for channels in CHANNELS:
        previous = current = x
        for _ in range(CELLS):
            previous, current = current, net.normal(previous, current, channels)
        x = net.reduction(previous, current, 2 * channels)
    return function(x)


class _NasNet:
    def __init__(self) -> None:
        self.layers = Layers()
        self.sides: dict[Expr, int] = {}

    def pool(self, pool: object, x: Expr, stride: int = 1) -> Expr:
        pooled = pool(x, pool_size=(3, 3), strides=(stride, stride), padding=(1, 1))  # type: ignore[operator]
        return self.layers.keep(pooled, self.layers.channels(x))

    def separable(self, x: Expr, channels: int, kernel: int, stride: int = 1) -> Expr:
        y = self.layers.conv(x, channels, kernel, stride, groups=channels, relu=False)
        return self.layers.conv(y, channels, 1, relu=False)

    def fit(self, x: Expr, like: Expr, halve: bool) -> Expr:
        """``x`` with the channels, and height and width, of ``like``."""
        return self.layers.conv(x, self.layers.channels(like), 3 if halve else 1, 2 if halve else 1)

    def normal(self, previous: Expr, current: Expr, channels: int) -> Expr:
        halve = self.side(previous) != self.side(current)
        cur = self.layers.conv(current, channels, 1)
        prev = self.fit(previous, cur, halve)
        sums = [
            (self.separable(cur, channels, 3), cur),
            (self.separable(prev, channels, 3), self.separable(cur, channels, 3)),
            (self.pool(nn.avg_pool2d, cur), prev),
            (self.pool(nn.avg_pool2d, prev), self.pool(nn.avg_pool2d, prev)),
            (self.separable(prev, channels, 3), self.separable(prev, channels, 3)),
        ]
        return self.join([relay.add(*pair) for pair in sums], channels, self.side(current))

    def reduction(self, previous: Expr, current: Expr, channels: int) -> Expr:
        halve = self.side(previous) != self.side(current)
        cur = self.layers.conv(current, channels, 1)
        prev = self.fit(previous, cur, halve)
        first = relay.add(self.separable(prev, channels, 7, 2), self.separable(cur, channels, 5, 2))
        second = relay.add(self.pool(nn.max_pool2d, cur, 2), self.separable(prev, channels, 7, 2))
        third = relay.add(self.pool(nn.avg_pool2d, cur, 2), self.separable(prev, channels, 5, 2))
        self.layers.keep(first, channels)
        fourth = relay.add(self.pool(nn.max_pool2d, cur, 2), self.separable(first, channels, 3))
        fifth = relay.add(self.pool(nn.avg_pool2d, first), second)
        return self.join([first, second, third, fourth, fifth], channels, self.side(current) // 2)

    def join(self, parts: list[Expr], channels: int, side: int) -> Expr:
        joined = self.layers.keep(relay.concatenate(parts, axis=1), channels * len(parts))
        self.sides[joined] = side
        return joined

    def side(self, x: Expr) -> int:
        """Height of ``x``: the stem's until a reduction halves it."""
        return self.sides.get(x, 56)
