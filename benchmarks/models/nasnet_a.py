"""NasNet-A (Zoph et al., 2017) as TASO and TENSAT measure it: three stages of five normal cells and a reduction cell.

As there, a separable convolution is a grouped one, with as many groups as it has output channels, and a 1x1.
"""

from __future__ import annotations

from collections.abc import Callable

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
    x = net.padded_pool(nn.max_pool2d, net.conv(image, 64, 7, stride=2), 2)
    for channels in CHANNELS:
        previous = current = x
        for _ in range(CELLS):
            previous, current = current, net.normal(previous, current, channels)
        x = net.reduction(previous, current, 2 * channels)
    return function(x)


class _NasNet(Layers):
    """The cells, which take the results of the two before."""

    def padded_pool(self, pool: Callable[..., Expr], x: Expr, stride: int = 1) -> Expr:
        return self.pool(pool, x, stride, padding=(1, 1))

    def separable(self, x: Expr, channels: int, kernel: int, stride: int = 1) -> Expr:
        y = self.conv(x, channels, kernel, stride, groups=channels, relu=False)
        return self.conv(y, channels, 1, relu=False)

    def normal(self, previous: Expr, current: Expr, channels: int) -> Expr:
        cur, prev = self.conv(current, channels, 1), self.conv(previous, channels, 1)
        sums = [
            (self.separable(cur, channels, 3), cur),
            (self.separable(prev, channels, 3), self.separable(cur, channels, 3)),
            (self.padded_pool(nn.avg_pool2d, cur), prev),
            (self.padded_pool(nn.avg_pool2d, prev), self.padded_pool(nn.avg_pool2d, prev)),
            (self.separable(prev, channels, 3), self.separable(prev, channels, 3)),
        ]
        return self.join([self.keep(relay.add(*pair), channels) for pair in sums])

    def reduction(self, previous: Expr, current: Expr, channels: int) -> Expr:
        cur, prev = self.conv(current, channels, 1), self.conv(previous, channels, 1)
        first = relay.add(self.separable(prev, channels, 7, 2), self.separable(cur, channels, 5, 2))
        second = relay.add(self.padded_pool(nn.max_pool2d, cur, 2), self.separable(prev, channels, 7, 2))
        third = relay.add(self.padded_pool(nn.avg_pool2d, cur, 2), self.separable(prev, channels, 5, 2))
        self.keep(first, channels)
        fourth = relay.add(self.padded_pool(nn.max_pool2d, cur, 2), self.separable(first, channels, 3))
        fifth = relay.add(self.padded_pool(nn.avg_pool2d, first), second)
        return self.join([self.keep(part, channels) for part in (first, second, third, fourth, fifth)])
