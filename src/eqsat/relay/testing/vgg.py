"""VGG: stacks of small convolutions (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Function, var
from eqsat.relay.op import nn
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import batch_norm_infer, conv2d, dense_blocks, function_of

_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each stage, by the number of layers."""
_CHANNELS = (64, 128, 256, 512, 512)


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """Return a VGG network.

    Args:
        batch_size: The number of images.
        num_classes: The number of outputs.
        image_shape: The shape of an image, channels first.
        dtype: The element type.
        num_layers: 11, 13, 16 or 19.
        batch_norm: Whether convolutions are followed by normalization.

    Raises:
        ArgumentError: There is no network of that many layers.
    """
    if num_layers not in _STAGES:
        raise ArgumentError(f"there is no VGG of {num_layers} layers: use one of {list(_STAGES)}")
    body: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for stage, (count, channels) in enumerate(zip(_STAGES[num_layers], _CHANNELS, strict=True), 1):
        for number in range(1, count + 1):
            name = f"conv{stage}_{number}"
            body = conv2d(body, channels=channels, kernel_size=(3, 3), padding=(1, 1), name=name)
            body = nn.bias_add(body, var(f"{name}_bias"))
            body = nn.relu(batch_norm_infer(body, name=f"bn{stage}_{number}") if batch_norm else body)
        body = nn.max_pool2d(body, pool_size=(2, 2), strides=(2, 2))
    scores = dense_blocks(nn.batch_flatten(body), [4096, 4096, num_classes], first=6, dropout=0.5)
    return function_of(nn.softmax(scores))


get_workload = workload_of(get_net)
