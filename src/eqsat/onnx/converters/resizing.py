"""Images made larger and smaller, and sampled; channels and space traded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.onnx.converters.source import Declined, Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, exports, op_name
from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.op.nn.window import SPATIAL, channels_first
from eqsat.relay.op.resize import COORDINATES
from eqsat.relay.op.types import axes_indices

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
_MODES = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
_CROP = "tf_crop_and_resize"

# ---- sizes and scales


def _new_sizes(source: Source, data: Expr) -> list[int]:
    """The sizes of all dimensions after the resize. Where scales are given they must be the quotients of the sizes."""
    dims: list[Any] = list(source.type(data).shape)
    scales, sizes = _scales_and_sizes(source)
    axes = axes_indices(source.ints("axes"), len(dims))
    given = scales if sizes is None else sizes
    source.require(given is not None and len(given) == len(axes), "it gives no size for each axis")
    for axis, value in zip(axes, given or (), strict=True):
        if (sizes is not None and dims[axis] == value) or (sizes is None and value == 1):
            continue
        source.require(axis > 1 and isinstance(dims[axis], int), "it resizes batch or channels, or what is not known")
        size = value if sizes is not None else int(np.floor(np.float32(dims[axis]) * np.float32(value)))
        exact = sizes is not None or np.float32(size / dims[axis]) == np.float32(value)
        source.require(size > 0 and exact, "its scale is not the quotient of the sizes")
        dims[axis] = size
    return dims


def _scales_and_sizes(source: Source) -> tuple[Sequence[float] | None, Sequence[int] | None]:
    if source.opset < 9:
        return source.floats("scales"), None
    if source.op_type == "Upsample" or source.opset < 11:
        return source.array(source.arguments(2)[1]).tolist(), None
    _, _roi, scales, sizes = source.optional(1, 4)
    given = None if scales is None else source.array(scales).tolist()
    return given or None, None if sizes is None else source.integers(sizes)


@imports("Resize", "Upsample")
def _resize(source: Source) -> Result:
    data = source.inputs[0]
    if data is None:
        raise Declined("it has no data")
    rank = source.rank(data) - 2
    source.require(rank in SPATIAL, f"it has {rank} spatial dimensions")
    sizes = _new_sizes(source, data)[2:]
    source.require(all(isinstance(size, int) for size in sizes), "the size of the image is not known")
    mode = source.string("mode", "nearest")
    source.require(mode in _METHODS, f"mode {mode} is not understood")
    method = _METHODS[mode]
    if source.opset < 11:
        dims = zip(source.type(data).shape[2:], sizes, strict=True)
        grows = all(isinstance(dim, int) and dim <= size for dim, size in dims)
        source.require(method != "nearest_neighbor" or grows, "it rounds up")
        said: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    else:
        said = _interpolation(source)
    return build(f"image.resize{rank}d", data, size=tuple(sizes), method=method, **said)


def _interpolation(source: Source) -> dict[str, Any]:
    mode = source.string("coordinate_transformation_mode", "half_pixel")
    source.require(mode in COORDINATES and mode != _CROP, f"coordinates {mode} are not understood")
    source.require(not source.int("antialias", 0), "it smooths")
    source.require(source.string("keep_aspect_ratio_policy", "stretch") == "stretch", "it keeps the aspect ratio")
    source.ignore("extrapolation_value")  # of crops
    return {
        "coordinate_transformation_mode": mode,
        "rounding_method": source.string("nearest_mode", "round_prefer_floor"),
        "cubic_alpha": source.float("cubic_coeff_a", -0.75),
        "cubic_exclude": source.int("exclude_outside", 0),
    }


@exports("image.resize1d", "image.resize2d", "image.resize3d")
def _to_resize(call: Call, target: Target) -> OnnxNode:
    attrs, (data,) = attributes(call), call.args
    ty = target.type(data)
    mode, rank = attrs.coordinate_transformation_mode, len(attrs.size)
    fits = attrs.layout == channels_first(rank) and mode != _CROP and (attrs.out_dtype or ty.dtype) == ty.dtype
    target.require(fits, call, "the layout, the coordinates or the dtype differ")
    scales = _scales(ty.shape[2:], attrs.size)
    if target.opset < 11:
        return _to_old_resize(call, scales, target)
    said = {"coordinate_transformation_mode": mode, "mode": _MODES[attrs.method], **_rounding(call, target)}
    if attrs.method == "cubic":
        said |= {"cubic_coeff_a": attrs.cubic_alpha, "exclude_outside": attrs.cubic_exclude}
    none: Operand = np.zeros(0, np.float32) if target.opset < 13 else None
    if scales is not None:
        return OnnxNode("Resize", [data, none, scales], said)
    return OnnxNode("Resize", [data, none, none, target.integers(target.dims((*ty.shape[:2], *attrs.size)))], said)


def _scales(dims: Sequence[Any], sizes: Sequence[int]) -> np.ndarray[Any, Any] | None:
    """The scale of each dimension, None where scales do not give the sizes, however the products are rounded."""
    if not all(isinstance(dim, int) and dim for dim in dims):
        return None
    scales = np.asarray([1, 1, *(size / dim for dim, size in zip(dims, sizes, strict=True))], np.float32)
    single = np.floor(np.asarray(dims, np.float32) * scales[2:])
    double = np.floor(np.asarray(dims, np.float64) * scales[2:])
    return scales if single.tolist() == double.tolist() == list(sizes) else None


def _rounding(call: Call, target: Target) -> dict[str, Any]:
    attrs = attributes(call)
    if attrs.method != "nearest_neighbor":
        return {}
    rounding = attrs.rounding_method or (
        "round" if attrs.coordinate_transformation_mode == "align_corners" else "floor"
    )
    target.require(rounding != "round", call, "ONNX does not round to even")
    return {"nearest_mode": rounding}


def _to_old_resize(call: Call, scales: np.ndarray[Any, Any] | None, target: Target) -> OnnxNode:
    attrs = attributes(call)
    plain = attrs.coordinate_transformation_mode == "asymmetric" and attrs.method != "cubic"
    floors = attrs.method == "linear" or ((attrs.rounding_method or "floor") == "floor" and scales is not None)
    if not plain or not floors or scales is None or (attrs.method != "linear" and scales.min() < 1):
        raise target.unwritable(call, "there is no such resize")
    said: dict[str, Any] = {"mode": _MODES[attrs.method]}
    if target.opset < 9:
        return OnnxNode("Upsample", call.args, {**said, "scales": scales.tolist()})
    return OnnxNode("Resize" if target.opset == 10 else "Upsample", [*call.args, scales], said)


# ---- sampling: the coordinates are the last dimension of ONNX's grid, the second of the IR's

_SAMPLES = {
    "linear": "bilinear",
    "bilinear": "bilinear",
    "nearest": "nearest",
    "cubic": "bicubic",
    "bicubic": "bicubic",
}
_SAMPLE_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
"""The modes by the names that they have since opset 20."""
_LAYOUTS = {4: "NCHW", 5: "NCDHW"}


@imports("GridSample")
def _grid_sample(source: Source) -> Result:
    data, grid = source.arguments(2)
    mode, rank = source.string("mode", "linear"), source.rank(data)
    source.require(mode in _SAMPLES and rank in _LAYOUTS, "its mode or rank is not understood")
    source.require(rank == 4 or mode == "nearest" or mode.endswith("linear"), "there are no cubic samples of volumes")
    order = (0, rank - 1, *range(1, rank - 1))
    if isinstance(grid, Constant):
        turned: Expr = Constant(grid.data.numpy().transpose(order))
    else:
        turned = build("transpose", grid, axes=order)
    return build(
        "image.grid_sample",
        data,
        turned,
        method=_SAMPLES[mode],
        layout=_LAYOUTS[rank],
        padding_mode=source.string("padding_mode", "zeros"),
        align_corners=bool(source.int("align_corners", 0)),
    )


@exports("image.grid_sample")
def _to_grid_sample(call: Call, target: Target) -> OnnxNode:
    attrs, (data, grid) = attributes(call), call.args
    rank = len(attrs.layout)
    target.require(target.opset >= 16 + 4 * (rank == 5), call, "there is no such operator")
    turned, order = target.made_by(grid, "transpose"), (0, rank - 1, *range(1, rank - 1))
    if turned is not None and axes_indices(attributes(turned).axes or range(rank)[::-1], rank) == order:
        last: Operand = turned.args[0]
    else:
        last = target.transposed(grid, (0, *range(2, rank), 1))
    said = {"mode": _SAMPLE_MODES[attrs.method] if target.opset >= 20 else attrs.method}
    said |= {"padding_mode": attrs.padding_mode, "align_corners": int(attrs.align_corners)}
    return OnnxNode("GridSample", [data, last], said)


# ---- channels and space


@imports("DepthToSpace", "SpaceToDepth")
def _trade(source: Source) -> Result:
    (data,), block = source.arguments(1), source.int("blocksize")
    if source.op_type == "SpaceToDepth":
        return build("nn.space_to_depth", data, block_size=block)
    return build("nn.depth_to_space", data, block_size=block, mode=source.string("mode", "DCR"))


@exports("nn.depth_to_space", "nn.space_to_depth")
def _to_trade(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    mode = None if attrs.get("mode", "DCR") == "DCR" else attrs.mode
    fits = attrs.layout == "NCHW" and (mode is None or target.opset >= 11)
    target.require(fits, call, "there is no such order of channels")
    op_type = "SpaceToDepth" if op_name(call) == "nn.space_to_depth" else "DepthToSpace"
    return OnnxNode(op_type, call.args, {"blocksize": attrs.block_size, "mode": mode})
