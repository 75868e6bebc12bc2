"""Residual networks with normalization before each convolution (He et al., 2016, Identity Mappings)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.nd import NDArray
from eqsat.relay.expr import Function, var
from eqsat.relay.module import IRModule
from eqsat.relay.op import nn
from eqsat.relay.testing import layers
from eqsat.relay.testing.init import create_workload

_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}
"""Residual units of each stage, by the number of layers."""


class _Layers:
    """Convolutions and normalizations of one layout of images."""

    def __init__(self, layout: str):
        self.layout = layout
        self.kernel_layout = layers.conv_kernel_layout(layout)

    def conv(self, data: Any, channels: int, kernel: int, name: str, stride: int = 1) -> Any:
        return layers.conv2d(
            data,
            channels=channels,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            padding=(kernel // 2, kernel // 2),
            data_layout=self.layout,
            kernel_layout=self.kernel_layout,
            name=name,
        )

    def norm(self, data: Any, name: str, **attrs: Any) -> Any:
        return layers.batch_norm_infer(data, epsilon=2e-5, axis=self.layout.index("C"), name=name, **attrs)

    def unit(self, data: Any, channels: int, stride: int, widens: bool, bottle_neck: bool, name: str) -> Any:
        """Two or, with a bottleneck, three convolutions, added to what goes past them."""
        inner = channels // 4 if bottle_neck else channels
        shapes = [(inner, 1), (inner, 3), (channels, 1)] if bottle_neck else [(inner, 3), (channels, 3)]
        branch = first = data
        for number, (width, kernel) in enumerate(shapes, 1):
            branch = nn.relu(self.norm(branch, f"{name}_bn{number}"))
            first = branch if number == 1 else first
            branch = self.conv(branch, width, kernel, f"{name}_conv{number}", stride if number == 1 else 1)
        return branch + (self.conv(first, channels, 1, f"{name}_sc", stride) if widens else data)


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: Sequence[int],
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return a residual network.

    Args:
        units: The number of residual units of each stage.
        num_stages: The number of stages.
        filter_list: The number of channels before the first stage and of each stage.
        num_classes: The number of outputs.
        data_shape: The shape of the input; images of at most 32 rows are not made smaller before the first stage.
        bottle_neck: Whether a unit has three convolutions, the middle one of a quarter of the channels.
        layout: The layout of images.
        dtype: The element type.
    """
    if len(units) != num_stages or len(filter_list) != num_stages + 1:
        raise ArgumentError(f"{num_stages} stages need as many units and one more number of channels than that")
    make = _Layers(layout)
    data = make.norm(var("data", shape=data_shape, dtype=dtype), "bn_data", scale=False)
    if data_shape[layout.index("H")] <= 32:
        body = make.conv(data, filter_list[0], 3, "conv0")
    else:
        body = nn.relu(make.norm(make.conv(data, filter_list[0], 7, "conv0", 2), "bn0"))
        body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, (count, channels) in enumerate(zip(units, filter_list[1:], strict=True), 1):
        for unit in range(1, count + 1):
            stride = 2 if unit == 1 and stage > 1 else 1
            body = make.unit(body, channels, stride, unit == 1, bottle_neck, f"stage{stage}_unit{unit}")
    body = nn.global_avg_pool2d(nn.relu(make.norm(body, "bn1")), layout=layout)
    scores = layers.dense_add_bias(nn.batch_flatten(body), units=num_classes, name="fc1")
    return layers.function_of(nn.softmax(scores))


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 50,
    image_shape: Sequence[int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the residual network of a number of layers.

    Args:
        batch_size: The number of images.
        num_classes: The number of outputs.
        num_layers: 18, 34, 50, 101, 152, 200 or 269; 6n + 2 or, from 164 on, 9n + 2 for images of at most 28 rows.
        image_shape: The shape of an image, in the order of ``layout``.
        layout: ``NCHW`` or ``NHWC``.
        dtype: The element type.

    Raises:
        ArgumentError: There is no network of that many layers.
    """
    data_shape = (batch_size, *image_shape)
    step = 9 if num_layers >= 164 else 6
    units: Sequence[int] | None
    if data_shape[layout.index("H")] <= 28:
        bottle_neck = step == 9
        channels = [16, 64, 128, 256] if bottle_neck else [16, 16, 32, 64]
        units = [(num_layers - 2) // step] * 3 if num_layers % step == 2 else None
    else:
        bottle_neck = num_layers >= 50
        channels = [64, 256, 512, 1024, 2048] if bottle_neck else [64, 64, 128, 256, 512]
        units = _UNITS.get(num_layers)
    if units is None:
        known = f"{step}n + 2 layers" if len(channels) == 4 else f"{sorted(_UNITS)} layers"
        raise ArgumentError(f"there is no ResNet of {num_layers} layers for images of {image_shape}: use {known}")
    return resnet(units, len(units), channels, num_classes, data_shape, bottle_neck, layout, dtype)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: Sequence[int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return a module and weights of :func:`get_net`."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype))
