"""Inception-v3 (Szegedy et al., 2015) without the auxiliary head, batch norms folded into biases.

It has 23,817,352 parameters.
"""

from __future__ import annotations

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Function

from .layers import Layers
from .weights import function


def inception_v3() -> Function:
    """An image (1, 3, 299, 299) to 1000 scores."""
    net = _Inception()
    x: Expr = relay.var("image", shape=(1, 3, 299, 299))
    x = net.conv(net.conv(net.conv(x, 32, 3, 2, 0), 32, 3, 1, 0), 64, 3)
    x = net.conv(net.conv(net.max_pool(x), 80, 1), 192, 3, 1, 0)
    x = net.max_pool(x)
    for pooled in (32, 64, 64):
        x = net.block_35(x, pooled)
    x = net.reduce_35(x)
    for width in (128, 160, 160, 192):
        x = net.block_17(x, width)
    x = net.reduce_17(x)
    x = net.block_8(net.block_8(x))
    x = net.keep(nn.batch_flatten(nn.global_avg_pool2d(x)), 2048)
    return function(net.dense(x, 1000))


class _Inception(Layers):
    """The modules, named by the height of their images."""

    def __init__(self) -> None:
        super().__init__(bias=True)

    def max_pool(self, x: Expr) -> Expr:
        return self.pool(nn.max_pool2d, x)

    def avg_pool(self, x: Expr) -> Expr:
        return self.pool(nn.avg_pool2d, x, 1, padding=(1, 1), count_include_pad=True)

    def block_35(self, x: Expr, pooled: int) -> Expr:
        one = self.conv(x, 64, 1)
        five = self.conv(self.conv(x, 48, 1), 64, 5)
        three = self.conv(self.conv(self.conv(x, 64, 1), 96, 3), 96, 3)
        return self.join([one, five, three, self.conv(self.avg_pool(x), pooled, 1)])

    def reduce_35(self, x: Expr) -> Expr:
        three = self.conv(x, 384, 3, 2, 0)
        double = self.conv(self.conv(self.conv(x, 64, 1), 96, 3), 96, 3, 2, 0)
        return self.join([three, double, self.max_pool(x)])

    def block_17(self, x: Expr, width: int) -> Expr:
        row, column = (1, 7), (7, 1)
        one = self.conv(x, 192, 1)
        seven = self.conv(self.conv(self.conv(x, width, 1), width, row), 192, column)
        twice = self.conv(x, width, 1)
        for channels, kernel in ((width, column), (width, row), (width, column), (192, row)):
            twice = self.conv(twice, channels, kernel)
        return self.join([one, seven, twice, self.conv(self.avg_pool(x), 192, 1)])

    def reduce_17(self, x: Expr) -> Expr:
        three = self.conv(self.conv(x, 192, 1), 320, 3, 2, 0)
        seven = self.conv(self.conv(self.conv(x, 192, 1), 192, (1, 7)), 192, (7, 1))
        return self.join([three, self.conv(seven, 192, 3, 2, 0), self.max_pool(x)])

    def block_8(self, x: Expr) -> Expr:
        one = self.conv(x, 320, 1)
        three = self.conv(x, 384, 1)
        double = self.conv(self.conv(x, 448, 1), 384, 3)
        forks = [self.conv(y, 384, kernel) for y in (three, double) for kernel in ((1, 3), (3, 1))]
        return self.join([one, *forks, self.conv(self.avg_pool(x), 192, 1)])
