"""Operators that read or write elements at computed places."""

from __future__ import annotations

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, exports
from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.op.types import axes_indices

_WRITES = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}
_REDUCTIONS = {name: reduction for reduction, name in _WRITES.items()}


def _write(source: Source) -> str:
    """How updates meet what is there, or each other."""
    reduction = source.string("reduction", "none")
    source.require(reduction in _WRITES, f"reduction {reduction} is not understood")
    return _WRITES[reduction]


def _reduction(write: str, call: Call, target: Target) -> str | None:
    """The attribute that says how updates are written, None for the way that needs no saying."""
    since = {"update": 0, "add": 16, "mul": 16}.get(write, 18)
    if write not in _REDUCTIONS or target.opset < since:
        raise target.unwritable(call, f"there is no way to write by {write}")
    return None if write == "update" else _REDUCTIONS[write]


# ---- along one axis


@imports("GatherElements")
def _gather(source: Source) -> Result:
    return build("gather", *source.arguments(2), axis=source.int("axis", 0))


@exports("gather")
def _to_gather(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("GatherElements", call.args, {"axis": attributes(call).axis})


@imports("ScatterElements", "Scatter")
def _scatter(source: Source) -> Result:
    return build("scatter_elements", *source.arguments(3), axis=source.int("axis", 0), reduction=_write(source))


@exports("scatter_elements")
def _to_scatter(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    said = {"axis": attrs.axis, "reduction": _reduction(attrs.reduction, call, target)}
    return OnnxNode("ScatterElements" if target.opset >= 11 else "Scatter", call.args, said)


# ---- at tuples of indices: the last dimension of ONNX's indices, the first of the IR's


def _with_tuples_first(indices: Expr, rank: int) -> Expr:
    if isinstance(indices, Constant):
        return Constant(indices.data.numpy().transpose(rank - 1, *range(rank - 1)))
    return build("transpose", indices, axes=(rank - 1, *range(rank - 1)))


def _with_tuples_last(indices: Expr, target: Target) -> Operand:
    rank = target.rank(indices)
    order = (rank - 1, *range(rank - 1))
    turned = target.made_by(indices, "transpose")
    if turned is not None and axes_indices(attributes(turned).axes or range(rank)[::-1], rank) == order:
        return turned.args[0]
    view = target.made_by(indices, "expand_dims", "reshape")
    if view is not None:
        (data,) = view.args
        if (1, *target.type(data).shape) == target.type(view).shape:  # tuples of one
            return target.unsqueezed(data, [rank - 1])
    return target.transposed(indices, [*range(1, rank), 0])


@imports("GatherND")
def _gather_nd(source: Source) -> Result:
    data, indices = source.arguments(2)
    rank = source.rank(indices)
    return build("gather_nd", data, _with_tuples_first(indices, rank), batch_dims=source.int("batch_dims", 0))


@exports("gather_nd")
def _to_gather_nd(call: Call, target: Target) -> OnnxNode:
    batch = attributes(call).batch_dims
    if batch and target.opset < 12:
        raise target.unwritable(call, "there are no batch dimensions")
    data, indices = call.args
    return OnnxNode("GatherND", [data, _with_tuples_last(indices, target)], {"batch_dims": batch or None})


@imports("ScatterND")
def _scatter_nd(source: Source) -> Result:
    data, indices, updates = source.arguments(3)
    first = _with_tuples_first(indices, source.rank(indices))
    return build("scatter_nd", data, first, updates, mode=_write(source))


@exports("scatter_nd")
def _to_scatter_nd(call: Call, target: Target) -> OnnxNode:
    data, indices, updates = call.args
    said = {"reduction": _reduction(attributes(call).mode, call, target)}
    return OnnxNode("ScatterND", [data, _with_tuples_last(indices, target), updates], said)
