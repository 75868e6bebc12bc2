"""A perceptron of three layers, of the size that handwritten digits need."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.relay.expr import Function, var
from eqsat.relay.op import nn
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import dense_blocks, function_of


def get_net(
    batch_size: int = 1, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """Return the perceptron.

    Args:
        batch_size: The number of images.
        num_classes: The number of outputs.
        image_shape: The shape of an image.
        dtype: The element type.
    """
    flat = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    return function_of(nn.softmax(dense_blocks(flat, [128, 64, num_classes])))


get_workload = workload_of(get_net)
