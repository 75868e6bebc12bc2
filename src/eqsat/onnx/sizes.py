"""Sizes that a model requires of its dynamic dimensions, according to its weights and reshapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from eqsat.errors import EqsatError
from eqsat.onnx.converters.target import op_name
from eqsat.onnx.importer import import_model
from eqsat.relay.dims import multiply_dims
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.infer import infer_types
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Terms, Type
from eqsat.relay.visitor import post_order

Demands = Iterator[tuple[Dim, Dim]]
"""Pairs of dimensions that have to be equal."""

_RECURRENT = ("nn.lstm", "nn.gru", "nn.rnn", "onnx.LSTM", "onnx.GRU", "onnx.RNN")


def demanded_sizes(model: ir.Model) -> dict[str, int]:
    """The sizes without which the model does not run, by name of the dimension; as far as they are found.

    A dimension without name has that of its input and axis: ``x.1``.
    """
    try:
        function = import_model(model).function
        types = infer_types(function)
    except EqsatError:
        return {}
    found: dict[str, int] = {}
    for expr in post_order(function.body):
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            for dim, size in _demands(expr, types):
                solved = _solved(dim, size)
                if solved is not None:
                    found.setdefault(solved[0], solved[1])
    return found


def _demands(call: Call, types: Mapping[Expr, Type]) -> Demands:
    args = [types.get(arg) for arg in call.args]
    tensors = [arg for arg in args if isinstance(arg, TensorType)]
    name, attrs = op_name(call), call.attrs
    if len(tensors) != len(args) or not tensors:
        return
    shapes = [tensor.shape for tensor in tensors]
    if name == "reshape":
        yield from _last_axes(shapes[0], attrs.newshape)  # type: ignore[union-attr]
    elif len(shapes) > 1:
        yield from _of_weights(name, attrs, shapes)


def _of_weights(name: str, attrs: Any, shapes: Sequence[Sequence[Dim]]) -> Demands:
    data, weight = shapes[:2]
    if name == "nn.dense":
        yield data[-1], weight[1]
    elif name in ("nn.matmul", "nn.batch_matmul") and min(len(data), len(weight)) > 1:
        yield data[-2 if attrs.transpose_a else -1], weight[-1 if attrs.transpose_b else -2]
    elif name.startswith("nn.conv") and "transpose" not in name:
        yield data[1], multiply_dims(weight[1], attrs.groups)
    elif name in _RECURRENT and len(data) == len(weight) == 3:
        yield data[2], weight[2]
    elif not attrs and Op.get(name).has(Trait.ELEMENTWISE):
        for left, right in zip(reversed(data), reversed(weight), strict=False):
            if 1 not in (left, right):
                yield left, right


def _last_axes(shape: Sequence[Dim], newshape: Sequence[int]) -> Demands:
    """A size behind -1 is that of the last axes."""
    if list(newshape[:-1]).count(-1) != 1 or newshape[-2] != -1:
        return
    for first in range(1, len(shape)):
        together = multiply_dims(*shape[first:])
        if isinstance(together, AnyDim):
            yield together, newshape[-1]


def _solved(left: Dim, right: Dim) -> tuple[str, int] | None:
    """The one name in a dimension, and the size it has when that dimension is ``right``."""
    if isinstance(left, int):
        left, right = right, left
    if not isinstance(left, AnyDim) or not isinstance(right, int) or left.name is None:
        return None
    terms: Terms = {**(left.terms or {(left.name,): 1})}
    rest = right - terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((names, count),) = terms.items()
    return (names[0], rest // count) if len(names) == 1 and rest % count == 0 and rest // count > 0 else None


# ---- sizes that it is meant for

_WINDOWS = frozenset(("Conv", "MaxPool", "AveragePool", "LpPool", "ConvInteger", "QLinearConv"))
_LEAST, _MOST = 32, {True: 1 << 16, False: 1 << 10}
"""Fewest elements along an axis, and most: of signals, and of what has more axes."""
_PICTURE = "imgsz"
"""The metadata in which Ultralytics' exporter writes height and width, such as ``[640, 640]``."""
_SOUNDS = ("sample", "audio", "wave", "pcm", "signal")
_SOUND = 4096
"""Minimum length of sounds; some models have matrices in place of convolutions."""
_STRIDES = 4
"""Number of strides of the coarsest layer along each axis of an input."""


def dim_name(value: ir.Value, axis: int) -> str:
    """Return the name of a dynamic dimension: its own, or those of input and axis, as in ``x.1``."""
    dim = None if value.shape is None else value.shape[axis]
    return (dim.value if isinstance(dim, ir.SymbolicDim) else None) or f"{value.name}.{axis}"


def open_dims(value: ir.Value) -> Iterator[tuple[str, int]]:
    """Name and axis of each dimension of a value whose size is not known: a negative one says so too."""
    for axis, dim in enumerate(value.shape or ()):
        if not isinstance(dim, int) or dim < 0:
            yield dim_name(value, axis), axis


def meant_sizes(model: ir.Model) -> dict[str, int]:
    """Return likely sizes of the dynamic dimensions of inputs of convolutions and pools.

    Axes but the first have a few strides of the coarsest layer, and no less than the widest window: of smaller ones
    nothing, or one element, is left whatever the weights are. Metadata under the name of a dimension goes first.
    """
    shaped = [value for value in model.graph.inputs if value.shape is not None]
    batches = {dim_name(value, 0) for value in shaped if len(value.shape)}
    found: dict[str, int] = {}
    for value in shaped:
        unknown = [*open_dims(value)]
        least = _least_size(model.graph, value) if unknown else None
        for name, axis in unknown:
            said = _said(model, value, axis)
            if said is not None:
                found[name] = said
            elif axis == len(value.shape) - 1 < 2 and _is_sound(model, value, name):
                found[name] = max(_SOUND, min(least or 0, _MOST[True]))
            elif least is not None and axis and name not in batches:
                found[name] = min(max(found.get(name, 0), least), _MOST[len(value.shape) < 4])
    return found


def _said(model: ir.Model, value: ir.Value, axis: int) -> int | None:
    """What the metadata says of an axis: under the name of the dimension, or as a list of height and width."""
    told = model.metadata_props.get(dim_name(value, axis), "")
    if not told and len(value.shape or ()) == 4 and axis >= 2:
        sizes = model.metadata_props.get(_PICTURE, "").strip("[]()").split(",")
        told = sizes[axis - 2].strip() if len(sizes) == 2 else ""
    return int(told) if told.isdecimal() and 0 < int(told) <= _MOST[True] else None


def _is_sound(model: ir.Model, value: ir.Value, name: str) -> bool:
    told = [*model.metadata_props, value.name, name]
    floating = value.dtype is not None and value.dtype.is_floating_point()
    return floating and any(sound in each.lower() for each in told for sound in _SOUNDS)


def _least_size(graph: ir.Graph, start: ir.Value) -> int | None:
    """How long the axes of an input are at least, None if no window moves over what is made from it."""
    strides = {start: 1.0}
    least, coarsest = 0.0, 1.0
    for node in graph:
        behind = max((strides[value] for value in node.inputs if value in strides), default=None)
        if behind is None:
            continue
        if node.op_type in _WINDOWS:
            window, stride = _window(node)
            least, behind = max(least, behind * window), behind * stride
            coarsest = max(coarsest, behind)
        elif node.op_type == "ConvTranspose":
            behind /= _window(node)[1]
        elif node.op_type in ("Resize", "Upsample", "DepthToSpace"):
            behind /= 2
        strides |= dict.fromkeys(node.outputs, max(behind, 1.0))
    if not least:
        return None
    whole = max(_STRIDES * coarsest, least, _LEAST)
    return int(-(-whole // coarsest) * coarsest)


def _window(node: ir.Node) -> tuple[int, int]:
    """The longest side of a window without what is padded, and the longest stride."""
    attrs = node.attributes

    def said(name: str) -> list[int]:
        return list(attrs[name].as_ints()) if name in attrs else []

    weight = node.inputs[1] if len(node.inputs) > 1 else None
    shape = weight.shape if weight is not None and node.op_type.startswith("Conv") else None
    sides = said("kernel_shape") or [dim for dim in (shape or ())[2:] if isinstance(dim, int)]
    dilations, pads = said("dilations") or [1] * len(sides), said("pads") or [0] * 2 * len(sides)
    spans = [
        (side - 1) * dilation + 1 - before - after
        for side, dilation, before, after in zip(sides, dilations, pads, pads[len(sides) :], strict=False)
    ]
    return max(spans, default=1), max(said("strides"), default=1)
