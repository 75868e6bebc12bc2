"""The generator of DCGAN: random codes to images of 64 rows and columns (Radford et al., 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Function, var
from eqsat.relay.op import nn, reshape, tanh
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import batch_norm_infer, conv2d_transpose, function_of

_KERNEL_LAYOUTS = {"NCHW": "IOHW", "NHWC": "HWOI"}


def get_net(
    batch_size: int = 1,
    oshape: Sequence[int] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the generator.

    Args:
        batch_size: The number of images.
        oshape: The shape of an image, channels first whatever the layout.
        ngf: The number of channels before the last convolution.
        random_len: The length of a code.
        layout: ``NCHW`` or ``NHWC``.
        dtype: The element type.

    Raises:
        ArgumentError: The images are of another size, or the layout is another one.
    """
    if tuple(oshape[1:]) != (64, 64) or layout not in _KERNEL_LAYOUTS:
        raise ArgumentError(f"DCGAN makes images of 64x64 in NCHW or NHWC, not of {oshape} in {layout!r}")
    code = var("data", shape=(batch_size, random_len), dtype=dtype)
    body: Any = nn.relu(nn.dense(code, var("dense_weight"), units=4 * 4 * ngf * 8))
    sizes = {"N": -1, "C": ngf * 8, "H": 4, "W": 4}
    body = reshape(body, [sizes[axis] for axis in layout])
    for number, channels in enumerate((ngf * 4, ngf * 2, ngf, oshape[0]), 2):
        last = number == 5
        body = conv2d_transpose(
            body,
            channels=channels,
            kernel_size=(4, 4),
            strides=(2, 2),
            padding=(1, 1),
            data_layout=layout,
            kernel_layout=_KERNEL_LAYOUTS[layout],
            name=f"g{number}_deconv",
        )
        if not last:
            norm = batch_norm_infer(body, epsilon=1e-5, scale=False, axis=layout.index("C"), name=f"g{number}_norm")
            body = nn.relu(norm)
    return function_of(tanh(body))


get_workload = workload_of(get_net)
