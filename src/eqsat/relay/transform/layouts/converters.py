"""How ConvertLayout converts the operators whose attributes state layouts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.op import make_attrs

Converter = Callable[[Any, list[Expr], Sequence[Any], Sequence[str]], Call | None]


def _call(name: str, args: Sequence[Expr], attrs: Any, **changes: object) -> Call:
    op = Op.get(name)
    return Call(op, args, make_attrs(op, {**attrs, **changes}))


def _wanted(name: str, layouts: Sequence[str], count: int) -> Sequence[str]:
    if len(layouts) != count:
        raise ArgumentError(f"ConvertLayout takes {count} layouts for {name}, not {list(layouts)}")
    if layouts[0] == "default":
        raise ArgumentError(f"ConvertLayout: the layout of the data of {name} must be stated, it cannot be 'default'")
    return layouts


def _is_depthwise(attrs: Any, types: Sequence[Any]) -> bool:
    """Whether a convolution in two dimensions has one filter for each channel."""
    channels = layout_change(attrs.data_layout, "NCHW").shape(types[0].shape)[1]
    filters = layout_change(attrs.kernel_layout, "OIHW").shape(types[1].shape)[0]
    return bool(attrs.groups == channels == filters)


def _convolution(name: str, kernels: dict[str, str], depthwise: str = "", blocked: str = "") -> Converter:
    """The converter of a convolution.

    Args:
        name: its name.
        kernels: the usual layout of kernels for each layout of data.
        depthwise: that of depthwise convolutions of ``NHWC`` data.
        blocked: the operator for data with blocks of channels.
    """

    def convert(attrs: Any, args: list[Expr], types: Sequence[Any], layouts: Sequence[str]) -> Call | None:
        data, kernel = _wanted(name, layouts, 2)
        tiles = re.fullmatch(r"NCHW(\d+)c", data) if blocked else None
        if tiles and kernel == "default":
            raise ArgumentError(f"ConvertLayout: the kernel layout of {name} in {data} must be stated")
        if tiles:
            channels = layout_change(attrs.data_layout, "NCHW").shape(types[0].shape)[1]
            if isinstance(channels, int) and channels % int(tiles.group(1)):
                return None
            return _call(blocked, args, attrs, data_layout=data, kernel_layout=kernel)
        if kernel == "default":
            if data not in kernels:
                raise ArgumentError(
                    f"ConvertLayout: {name} has no usual kernel layout for {data}, but for {[*kernels]}"
                )
            kernel = depthwise if depthwise and data == "NHWC" and _is_depthwise(attrs, types) else kernels[data]
        return _call(name, args, attrs, data_layout=data, kernel_layout=kernel)

    return convert


def _image(name: str, **changes: str) -> Converter:
    """The converter of an operator with one layout; ``changes`` names its other attributes that state it."""

    def convert(attrs: Any, args: list[Expr], types: Sequence[Any], layouts: Sequence[str]) -> Call:
        (layout,) = _wanted(name, layouts, 1)
        return _call(name, args, attrs, **dict.fromkeys(changes, layout), layout=layout)

    return convert


def _regions(name: str) -> Converter:
    """The converter of a pool of regions, whose layout is always the same."""

    def convert(attrs: Any, args: list[Expr], types: Sequence[Any], layouts: Sequence[str]) -> Call:
        layout, regions = _wanted(name, layouts, 2)
        if regions != "default":
            raise ArgumentError(
                f"ConvertLayout: the layout of the regions of {name} must be 'default', not {regions!r}"
            )
        return _call(name, args, attrs, layout=layout)

    return convert


_CONV2D = {"NCHW": "OIHW", "NHWC": "HWIO", "HWNC": "HWOI"}
_TRANSPOSE2D = {"NCHW": "IOHW", "NHWC": "HWIO"}
_POOLS = ("nn.max_pool2d", "nn.avg_pool2d", "nn.global_max_pool2d", "nn.global_avg_pool2d", "qnn.avg_pool2d")

CONVERTERS: dict[str, Converter] = {
    "nn.conv2d": _convolution("nn.conv2d", _CONV2D, "HWOI", "nn.contrib_conv2d_NCHWc"),
    "nn.conv2d_transpose": _convolution("nn.conv2d_transpose", {**_TRANSPOSE2D, "HWNC": "HWOI"}),
    "nn.conv3d": _convolution("nn.conv3d", {"NCDHW": "OIDHW", "NDHWC": "DHWIO"}),
    "nn.conv3d_transpose": _convolution("nn.conv3d_transpose", {"NCDHW": "IODHW", "NDHWC": "DHWOI"}),
    "nn.deformable_conv2d": _convolution("nn.deformable_conv2d", {"NCHW": "OIHW", "NHWC": "HWIO"}),
    "qnn.conv2d": _convolution("qnn.conv2d", _CONV2D, "HWOI"),
    "qnn.conv2d_transpose": _convolution("qnn.conv2d_transpose", _TRANSPOSE2D),
    **{name: _image(name, out_layout="") for name in _POOLS},
    **{name: _image(name) for name in ("image.resize1d", "image.resize2d")},
    **{name: _regions(name) for name in ("vision.roi_align", "vision.roi_pool")},
}
"""The converter of each operator, used where none is registered as ``FTVMConvertOpLayout``."""
