"""What kind of convolution a convolution is."""

from __future__ import annotations

import pytest

from eqsat.errors import ArgumentError
from eqsat.relay.op.strategy import generic


@pytest.mark.parametrize(
    ("data", "layout", "kernel", "kernel_layout", "groups", "depthwise"),
    [
        ((1, 32, 8, 8), "NCHW", (32, 1, 3, 3), "OIHW", 32, True),
        ((1, 8, 8, 32), "NHWC", (3, 3, 32, 1), "HWOI", 32, True),
        ((1, 8, 8, 8, 4), "NCHW4c", (8, 1, 3, 3, 1, 4), "OIHW1i4o", 32, True),
        ((1, 32, 8, 8), "NCHW", (32, 1, 1, 3, 3), "GOIHW", 32, True),
        ((1, 32, 8, 8), "NCHW", (64, 1, 3, 3), "OIHW", 32, False),
        ((1, 32, 8, 8), "NCHW", (32, 32, 3, 3), "OIHW", 1, False),
    ],
)
def test_depthwise_convolutions_have_a_group_for_each_channel(data, layout, kernel, kernel_layout, groups, depthwise):
    assert generic.is_depthwise_conv2d(data, layout, kernel, kernel_layout, groups) is depthwise


def test_blocks_of_channels_count_together() -> None:
    assert generic.get_conv2d_in_channels((1, 8, 8, 8, 4), "NCHW4c") == 32
    assert generic.get_conv2d_out_channels((8, 3, 3, 3, 4), "OIHW4o") == 32


def test_a_layout_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"3 dimensions .* does not fit the layout 'NCHW'"):
        generic.get_conv2d_in_channels((1, 8, 8), "NCHW")
    with pytest.raises(ArgumentError, match="'OIHW' has no axis C"):
        generic.get_conv2d_in_channels((1, 8, 8, 8), "OIHW")
