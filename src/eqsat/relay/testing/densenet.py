"""DenseNet: each layer of a block adds to the channels that the next ones see (Huang et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Function, var
from eqsat.relay.op import nn
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import batch_norm_infer, conv2d, dense_add_bias, function_of, join

_SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""By the number of layers: first channels, channels that a layer adds, layers of each block."""
_BOTTLENECK = 4


def _norm_relu_conv(data: Any, channels: int, kernel: int, suffix: str) -> Any:
    data = nn.relu(batch_norm_infer(data, name=f"batch_{suffix}"))
    window, padding = (kernel, kernel), (kernel // 2, kernel // 2)
    return conv2d(data, channels=channels, kernel_size=window, padding=padding, name=f"conv2d_{suffix}")


def get_net(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """Return a DenseNet.

    Args:
        densenet_size: The number of layers: 121, 161, 169 or 201.
        classes: The number of outputs.
        batch_size: The number of images.
        image_shape: The shape of an image, channels first.
        dtype: The element type.

    Raises:
        ArgumentError: There is no network of that many layers.
    """
    if densenet_size not in _SIZES:
        raise ArgumentError(f"there is no DenseNet of {densenet_size} layers: use one of {list(_SIZES)}")
    channels, growth, blocks = _SIZES[densenet_size]
    body: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = conv2d(body, channels=channels, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1")
    body = nn.relu(batch_norm_infer(body, name="batch1"))
    body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for block, count in enumerate(blocks):
        if block:
            channels //= 2
            body = nn.avg_pool2d(_norm_relu_conv(body, channels, 1, f"t_{block}"), pool_size=(2, 2), strides=(2, 2))
        for layer in range(count):
            narrow = _norm_relu_conv(body, _BOTTLENECK * growth, 1, f"1_{block}_{layer}")
            body = join([body, _norm_relu_conv(narrow, growth, 3, f"2_{block}_{layer}")])
            channels += growth
    body = nn.global_avg_pool2d(nn.relu(batch_norm_infer(body, name="batch2")))
    return function_of(dense_add_bias(nn.batch_flatten(body), units=classes, name="dense"))


get_workload = workload_of(get_net)
