"""Layers of convolutional networks over NCHW images, each with weights of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr
from eqsat.relay.infer import infer_types

from .weights import Weights


class Layers:
    """Builds layers; knows the channels of what it has built.

    Args:
        bias: Whether convolutions have a bias.
    """

    def __init__(self, bias: bool = False) -> None:
        self.weight = Weights()
        self.bias = bias
        self._channels: dict[Expr, int] = {}

    def conv(
        self,
        x: Expr,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] | None = None,
        groups: int = 1,
        relu: bool = True,
    ) -> Expr:
        """A convolution, by default padded so that stride 1 keeps height and width."""
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        before = (height // 2, width // 2) if padding is None else padding
        weight = self.weight(channels, self.channels(x) // groups, height, width)
        y: Any = nn.conv2d(x, weight, strides=stride, padding=before, groups=groups)
        y = nn.bias_add(y, self.weight(channels)) if self.bias else y
        return self.keep(nn.relu(y) if relu else y, channels)

    def dense(self, x: Expr, units: int, relu: bool = False) -> Expr:
        """A dense layer with bias."""
        y: Any = nn.bias_add(nn.dense(x, self.weight(units, self.channels(x))), self.weight(units), axis=-1)
        return self.keep(nn.relu(y) if relu else y, units)

    def pool(self, pool: Callable[..., Expr], x: Expr, stride: int = 2, size: int = 3, **options: Any) -> Expr:
        """A pooling such as ``nn.max_pool2d``."""
        return self.keep(pool(x, pool_size=(size, size), strides=(stride, stride), **options), self.channels(x))

    def join(self, parts: Sequence[Expr]) -> Expr:
        """The channels of all parts."""
        return self.keep(relay.concatenate(parts, axis=1), sum(map(self.channels, parts)))

    def keep(self, y: Expr, channels: int) -> Expr:
        """Note the channels of what was built elsewhere."""
        self._channels[y] = channels
        return y

    def channels(self, x: Expr) -> int:
        """Length of axis 1."""
        if x not in self._channels:
            self._channels[x] = int(infer_types(x)[x].shape[1])  # type: ignore[attr-defined]
        return self._channels[x]
