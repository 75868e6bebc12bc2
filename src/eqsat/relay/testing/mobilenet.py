"""MobileNet: separable convolutions (Howard et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.relay.expr import Function, var
from eqsat.relay.op import nn
from eqsat.relay.testing import layers
from eqsat.relay.testing.init import workload_of

_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
"""Channels and stride of each separable convolution."""
_SHALLOW = (*_BLOCKS[:6], (1024, 2), (1024, 2))


def _conv(
    data: Any, channels: int, kernel: int, stride: int, layout: str, name: str, norm: str, groups: int = 1
) -> Any:
    """A convolution, which is one of each channel if there is more than one group, normalization and ReLU."""
    image = layers.conv2d(
        data,
        channels=channels,
        kernel_size=(kernel, kernel),
        strides=(stride, stride),
        padding=(kernel // 2, kernel // 2),
        groups=groups,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout, groups > 1),
        name=name,
    )
    return nn.relu(layers.batch_norm_infer(image, epsilon=1e-5, axis=layout.index("C"), name=norm))


def mobile_net(
    num_classes: int = 1000,
    data_shape: Sequence[int] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """Return a MobileNet.

    Args:
        num_classes: The number of outputs.
        data_shape: The shape of the input, in the order of ``layout``.
        dtype: The element type.
        alpha: By what the numbers of channels are multiplied.
        is_shallow: Whether five of the thirteen blocks are left out.
        layout: ``NCHW`` or ``NHWC``.
    """
    channels = int(32 * alpha)
    body: Any = var("data", shape=data_shape, dtype=dtype)
    body = _conv(body, channels, 3, 2, layout, "conv_block_1_conv", "conv_block_1_bn")
    for number, (full, stride) in enumerate(_SHALLOW if is_shallow else _BLOCKS, 1):
        name = f"separable_conv_block_{number}"
        body = _conv(body, channels, 3, stride, layout, f"{name}_depthwise", f"{name}_bn1", groups=channels)
        channels = int(full * alpha)
        body = _conv(body, channels, 1, 1, layout, f"{name}_pointwise", f"{name}_bn2")
    flat = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    return layers.function_of(nn.softmax(layers.dense_add_bias(flat, units=num_classes, name="fc")))


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Return a MobileNet of full size for a number of images; the other arguments are those of :func:`mobile_net`."""
    return mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout)


get_workload = workload_of(get_net)
