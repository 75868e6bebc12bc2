"""Sizes that a model asks of dimensions it leaves open: those of its weights, and of what it reshapes to."""

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
