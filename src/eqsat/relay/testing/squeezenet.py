"""SqueezeNet (Iandola et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Function, var
from eqsat.relay.op import nn
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import conv_bias_relu, function_of, join

_POOL = None
_FIRES: dict[str, tuple[tuple[int, int], Sequence[tuple[int, int] | None]]] = {
    "1.0": (
        (96, 7),
        (_POOL, (16, 64), (16, 64), (32, 128), _POOL, (32, 128), (48, 192), (48, 192), (64, 256), _POOL, (64, 256)),
    ),
    "1.1": (
        (64, 3),
        (_POOL, (16, 64), (16, 64), _POOL, (32, 128), (32, 128), _POOL, (48, 192), (48, 192), (64, 256), (64, 256)),
    ),
}
"""By version: channels and kernel of the first convolution; channels of the fire modules, which squeeze to the first
number and expand to twice the second."""


def _fire(data: Any, squeeze: int, expand: int, name: str) -> Any:
    data = conv_bias_relu(data, squeeze, 1, f"{name}_input_conv")
    sides = (("left", 1), ("right", 3))
    return join([conv_bias_relu(data, expand, kernel, f"{name}_{side}_conv") for side, kernel in sides])


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """Return a SqueezeNet.

    Args:
        batch_size: The number of images.
        num_classes: The number of outputs.
        version: ``"1.0"`` or ``"1.1"``, which needs less time.
        image_shape: The shape of an image, channels first.
        dtype: The element type.

    Raises:
        ArgumentError: There is no such version.
    """
    if version not in _FIRES:
        raise ArgumentError(f"there is no SqueezeNet {version!r}: use one of {list(_FIRES)}")
    (channels, kernel), fires = _FIRES[version]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = conv_bias_relu(data, channels, kernel, "conv1", strides=(2, 2))
    number = 0
    for fire in fires:
        if fire is _POOL:
            body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2))
        else:
            number += 1
            body = _fire(body, *fire, f"fire{number}")
    body = conv_bias_relu(nn.dropout(body, rate=0.5), num_classes, 1, "conv_final")
    return function_of(nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(body))))


get_workload = workload_of(get_net)
