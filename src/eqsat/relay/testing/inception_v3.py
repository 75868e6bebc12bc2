"""Inception v3: towers of convolutions side by side (Szegedy et al., 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.relay.expr import Function, var
from eqsat.relay.op import nn
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import batch_norm_infer, conv2d, dense_add_bias, function_of, join

Shape = tuple[int, int]


def _conv(data: Any, channels: int, kernel: Shape, name: str, stride: int = 1, padded: bool = True) -> Any:
    """A convolution, which keeps the size of the image if padded and of stride 1, normalization and ReLU."""
    image = conv2d(
        data,
        channels=channels,
        kernel_size=kernel,
        strides=(stride, stride),
        padding=(kernel[0] // 2, kernel[1] // 2) if padded else (0, 0),
        name=f"{name}_conv",
    )
    return nn.relu(batch_norm_infer(image, epsilon=2e-5, scale=False, name=f"{name}_bn"))


def _tower(data: Any, name: str, *steps: tuple[int, Shape], halves: bool = False) -> Any:
    """Convolutions one after another; the last one halves the image if ``halves`` is set."""
    for number, (channels, kernel) in enumerate(steps):
        last = halves and number == len(steps) - 1
        data = _conv(data, channels, kernel, f"{name}_{number}", 2 if last else 1, not last)
    return data


def _pooled(data: Any, channels: int, name: str, kind: str = "avg") -> Any:
    """A tower of a pooling and a convolution."""
    window = {"pool_size": (3, 3), "strides": (1, 1), "padding": (1, 1)}
    pool = nn.avg_pool2d(data, count_include_pad=True, **window) if kind == "avg" else nn.max_pool2d(data, **window)
    return _tower(pool, name, (channels, (1, 1)))


def _halved(data: Any) -> Any:
    return nn.max_pool2d(data, pool_size=(3, 3), strides=(2, 2))


ONE, THREE, FIVE, ROW, COLUMN = (1, 1), (3, 3), (5, 5), (1, 7), (7, 1)


def _block_a(data: Any, projected: int, name: str) -> Any:
    return join(
        [
            _tower(data, f"{name}_a", (64, ONE)),
            _tower(data, f"{name}_b", (48, ONE), (64, FIVE)),
            _tower(data, f"{name}_c", (64, ONE), (96, THREE), (96, THREE)),
            _pooled(data, projected, f"{name}_d"),
        ]
    )


def _block_b(data: Any, name: str) -> Any:
    return join(
        [
            _tower(data, f"{name}_a", (384, THREE), halves=True),
            _tower(data, f"{name}_b", (64, ONE), (96, THREE), (96, THREE), halves=True),
            _halved(data),
        ]
    )


def _block_c(data: Any, inner: int, name: str) -> Any:
    return join(
        [
            _tower(data, f"{name}_a", (192, ONE)),
            _tower(data, f"{name}_b", (inner, ONE), (inner, ROW), (192, COLUMN)),
            _tower(data, f"{name}_c", (inner, ONE), *[(inner, COLUMN), (inner, ROW)], (inner, COLUMN), (192, ROW)),
            _pooled(data, 192, f"{name}_d"),
        ]
    )


def _block_d(data: Any, name: str) -> Any:
    return join(
        [
            _tower(data, f"{name}_a", (192, ONE), (320, THREE), halves=True),
            _tower(data, f"{name}_b", (192, ONE), (192, ROW), (192, COLUMN), (192, THREE), halves=True),
            _halved(data),
        ]
    )


def _block_e(data: Any, pool: str, name: str) -> Any:
    forks = {
        "b": _tower(data, f"{name}_b", (384, ONE)),
        "c": _tower(data, f"{name}_c", (448, ONE), (384, THREE)),
    }
    mixed = [
        _conv(fork, 384, kernel, f"{name}_{key}_mixed{side}")
        for key, fork in forks.items()
        for side, kernel in enumerate(((1, 3), (3, 1)))
    ]
    return join([_tower(data, f"{name}_a", (320, ONE)), *mixed, _pooled(data, 192, f"{name}_d", pool)])


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 299, 299),
    dtype: str = "float32",
) -> Function:
    """Return an Inception v3.

    Args:
        batch_size: The number of images.
        num_classes: The number of outputs.
        image_shape: The shape of an image, channels first.
        dtype: The element type.
    """
    body: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = _conv(body, 32, THREE, "stem_0", stride=2, padded=False)
    body = _conv(body, 32, THREE, "stem_1", padded=False)
    body = _halved(_conv(body, 64, THREE, "stem_2"))
    body = _conv(body, 80, ONE, "stem_3")
    body = _halved(_conv(body, 192, THREE, "stem_4", padded=False))
    for number, projected in enumerate((32, 64, 64)):
        body = _block_a(body, projected, f"mixed_{number}")
    body = _block_b(body, "mixed_3")
    for number, inner in enumerate((128, 160, 160, 192), 4):
        body = _block_c(body, inner, f"mixed_{number}")
    body = _block_d(body, "mixed_8")
    for number, pool in enumerate(("avg", "max"), 9):
        body = _block_e(body, pool, f"mixed_{number}")
    flat = nn.batch_flatten(nn.global_avg_pool2d(body))
    return function_of(nn.softmax(dense_add_bias(flat, units=num_classes, name="fc1")))


get_workload = workload_of(get_net)
