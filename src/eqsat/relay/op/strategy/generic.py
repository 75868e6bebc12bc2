"""What kind of convolution a convolution is."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.errors import ArgumentError
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op.layout import parse_layout
from eqsat.relay.ty import Dim


def get_conv2d_in_channels(data_shape: Sequence[Dim], data_layout: str) -> Dim:
    """Return the number of channels of the data of a convolution, in a layout such as ``NHWC`` or ``NCHW4c``."""
    return _extent("C", data_shape, data_layout)


def get_conv2d_out_channels(kernel_shape: Sequence[Dim], kernel_layout: str) -> Dim:
    """Return the number of channels of the result of a convolution, by its kernel, of all groups if it names them."""
    return _extent("OG", kernel_shape, kernel_layout)


def is_depthwise_conv2d(
    data_shape: Sequence[Dim], data_layout: str, kernel_shape: Sequence[Dim], kernel_layout: str, groups: int
) -> bool:
    """Return whether a convolution has as many groups as its data and its result have channels."""
    channels = get_conv2d_in_channels(data_shape, data_layout)
    return channels == get_conv2d_out_channels(kernel_shape, kernel_layout) == groups


def _extent(axes: str, shape: Sequence[Dim], layout: str) -> Dim:
    """Return the size of some axes, the first of which there must be, all blocks of them together."""
    parts = parse_layout(layout)
    if len(parts) != len(shape):
        raise ArgumentError(f"a shape of {len(shape)} dimensions {tuple(shape)} does not fit the layout {layout!r}")
    if axes[0] not in layout:
        raise ArgumentError(f"the layout {layout!r} has no axis {axes[0]}")
    return multiply_dims(*(dim for (name, _), dim in zip(parts, shape, strict=True) if name in axes))
