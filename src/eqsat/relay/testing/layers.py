"""Layers of networks, which make variables for the weights that they are not given."""

from __future__ import annotations

from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Expr, Function, var
from eqsat.relay.op import concatenate, nn

_KERNEL_LAYOUTS = {("NCHW", False): "OIHW", ("NCHW", True): "OIHW", ("NHWC", False): "HWIO", ("NHWC", True): "HWOI"}


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the layout of kernels that goes with a layout of images, ``NCHW`` or ``NHWC``."""
    try:
        return _KERNEL_LAYOUTS[data_layout, is_depthwise]
    except KeyError:
        raise ArgumentError(f"no layout of kernels goes with {data_layout!r}: use NCHW or NHWC") from None


def conv2d(data: Expr, weight: Expr | None = None, *, name: str, **attrs: Any) -> Any:
    """A convolution with the attributes of ``nn.conv2d``; its weight is ``<name>_weight``."""
    return nn.conv2d(data, _given(weight, f"{name}_weight"), **attrs)


def conv2d_transpose(data: Expr, weight: Expr | None = None, *, name: str, **attrs: Any) -> Any:
    """A transposed convolution with the attributes of ``nn.conv2d_transpose``; its weight is ``<name>_weight``."""
    return nn.conv2d_transpose(data, _given(weight, f"{name}_weight"), **attrs)


def dense_add_bias(
    data: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    units: int | None = None,
    *,
    name: str,
    **attrs: Any,
) -> Any:
    """A fully connected layer; its weight is ``<name>_weight``, its bias ``<name>_bias``."""
    product = nn.dense(data, _given(weight, f"{name}_weight"), units, **attrs)
    return nn.bias_add(product, _given(bias, f"{name}_bias"), axis=-1)


def batch_norm_infer(
    data: Expr,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    moving_mean: Expr | None = None,
    moving_var: Expr | None = None,
    *,
    name: str,
    **attrs: Any,
) -> Any:
    """The normalized output of ``nn.batch_norm``; its parameters are ``<name>_gamma``, ``<name>_beta`` and so on."""
    given = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    return nn.batch_norm(data, *[_given(value, f"{name}_{key}") for key, value in given.items()], **attrs)[0]


def conv_bias_relu(data: Any, channels: int, kernel: int, name: str, **attrs: Any) -> Any:
    """A convolution that keeps the size of the image unless told otherwise, its bias, and ReLU."""
    attrs = {"padding": (kernel // 2, kernel // 2), **attrs}
    product = conv2d(data, channels=channels, kernel_size=(kernel, kernel), name=name, **attrs)
    return nn.relu(nn.bias_add(product, var(f"{name}_bias")))


def dense_blocks(data: Any, units: list[int], name: str = "fc", first: int = 1, dropout: float = 0.0) -> Any:
    """Fully connected layers named ``<name><first>`` and so on, with ReLU, and dropout if any, between them."""
    for number, width in enumerate(units, first):
        if number > first:
            data = nn.relu(data)
            data = nn.dropout(data, rate=dropout) if dropout else data
        data = dense_add_bias(data, units=width, name=f"{name}{number}")
    return data


def join(parts: list[Any]) -> Any:
    """The channels of several images in NCHW layout, one after another."""
    return concatenate(parts, axis=1)


def function_of(body: Expr) -> Function:
    """A function of the free variables of ``body``."""
    return Function(free_vars(body), body)


def _given(value: Expr | None, name: str) -> Expr:
    return var(name) if value is None else value
