"""Operators that change the shape or the order of elements, and sequences of parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from eqsat.onnx.converters.source import Declined, Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, cast, exports, op_name
from eqsat.onnx.graphs import constant_tensor
from eqsat.relay.dims import multiply_dims
from eqsat.relay.expr import Call, Constant, Expr, Tuple, TupleGetItem
from eqsat.relay.op.shape import moved_ones, reshape_codes
from eqsat.relay.op.types import axes_indices, axis_index, broadcast_shape
from eqsat.relay.ty import UNKNOWN, Dim, TensorType, TupleType
from eqsat.relay.ty import Any as AnyDim

# ---- shapes as values


@imports("Shape")
def _shape(source: Source) -> Result:
    (data,) = source.arguments(1)
    dims = source.type(data).shape
    part = dims[source.int("start", 0) : source.int("end", len(dims))]
    if all(isinstance(dim, int) for dim in part):
        return Constant(np.asarray(part, np.int64))
    whole = build("shape_of", data, dtype="int64")
    if len(part) == len(dims):
        return whole
    first = source.int("start", 0)
    first = max(first + len(dims), 0) if first < 0 else first
    return build("strided_slice", whole, begin=(first,), end=(first + len(part),), axes=(0,))


@exports("shape_of")
def _to_shape(call: Call, target: Target) -> OnnxNode:
    node = OnnxNode("Shape", call.args)
    dtype = attributes(call).dtype
    return node if dtype == "int64" else cast(node, dtype)


@imports("Size")
def _size(source: Source) -> Result:
    return Constant(np.asarray(prod(source.static_shape(source.arguments(1)[0])), np.int64))


# ---- reshape


@imports("Reshape")
def _reshape(source: Source) -> Result:
    data, shape = source.arguments(2)
    allowzero = bool(source.int("allowzero", 0))
    if not isinstance(shape, Constant):
        return build("dyn.reshape", data, shape, allowzero=allowzero)
    newshape = source.integers(shape)
    source.require(all(size >= -1 for size in newshape), "a size is below -1")
    return build("reshape", data, newshape=newshape, allowzero=allowzero and 0 in newshape)


@exports("reshape")
def _to_reshape(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    if all(size >= -1 for size in attrs.newshape):
        return _reshape_node(call.args[0], attrs.newshape, attrs.allowzero, target)
    data = call.args[0]
    gone, added = moved_ones(target.type(data).shape, attrs.newshape) or ([], [])
    if gone and not added:
        return target.node("Squeeze", data, {"axes": gone})
    if added and not gone:
        return target.unsqueezed(data, added)
    newshape = reshaped_to(target.type(call).shape)
    target.require(newshape.count(-1) < 2, call, "more than one dimension is not known")
    return _reshape_node(data, newshape, attrs.allowzero, target)


def _reshape_node(data: Expr, newshape: Sequence[int], allowzero: bool, target: Target) -> OnnxNode:
    said = {}
    if allowzero and 0 in newshape:
        target.require(target.opset >= 14, Call(data, ()), "a reshape to no elements needs opset 14")
        said["allowzero"] = 1
    return OnnxNode("Reshape", [data, target.integers(newshape)], said)


def reshaped_to(shape: Sequence[Any]) -> list[int]:
    """A shape as the codes of a reshape: one unknown dimension is what is left over."""
    return [-1 if isinstance(dim, AnyDim) else int(dim) for dim in shape]


@exports("dyn.reshape")
def _to_dyn_reshape(call: Call, target: Target) -> OnnxNode:
    allowzero = attributes(call).allowzero
    return OnnxNode("Reshape", call.args, {"allowzero": 1} if allowzero else {})


@exports("reshape_like", "contrib_reverse_reshape")
def _to_static_reshape(call: Call, target: Target) -> OnnxNode:
    newshape = reshaped_to(target.type(call).shape)
    target.require(newshape.count(-1) < 2, call, "more than one dimension is not known")
    return _reshape_node(call.args[0], newshape, 0 in newshape, target)


@imports("Flatten")
def _flatten(source: Source) -> Result:
    (data,) = source.arguments(1)
    axis = source.int("axis", 1)
    rank = source.rank(data)
    axis = axis + rank if axis < 0 else axis
    if axis == 1:
        return build("nn.batch_flatten", data)
    shape = source.type(data).shape
    sizes = multiply_dims(*shape[:axis]), multiply_dims(*shape[axis:])
    codes = reshape_codes(shape, sizes)
    source.require(codes and (0 not in sizes or codes == sizes), "the shape of an input is not known")
    return build("reshape", data, newshape=codes, allowzero=0 in sizes)


@exports("nn.batch_flatten")
def _to_flatten(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Flatten", call.args, {"axis": 1})


@imports("Squeeze")
def _squeeze(source: Source) -> Result:
    data, _ = source.optional(1, 2)
    axes = source.ints("axes")
    if axes is None:
        source.static_shape(data)
    return build("squeeze", data, axis=axes)


@exports("squeeze")
def _to_squeeze(call: Call, target: Target) -> OnnxNode | Expr:
    axes, data = attributes(call).axis, call.args[0]
    if axes is not None and not axes:
        return data  # onnxruntime takes no axes for all of length 1
    return target.node("Squeeze", data, {} if axes is None else {"axes": target.axes(axes, data)})


@imports("Unsqueeze")
def _unsqueeze(source: Source) -> Result:
    data, _ = source.optional(1, 2)
    axes = source.ints("axes")
    source.require(axes is not None, "its axes are not given")
    if not axes:
        return data  # type: ignore[no-any-return]
    rank = source.rank(data)
    places = sorted(axes_indices(axes, rank + len(axes)))
    if places[-1] - places[0] == len(places) - 1:
        return build("expand_dims", data, axis=places[0], num_newaxis=len(places))
    before = source.type(data).shape
    dims = iter(before)
    shape = [1 if axis in places else next(dims) for axis in range(rank + len(axes))]
    codes = reshape_codes(before, shape)
    known = codes is not None and (0 not in shape or codes == tuple(shape))
    source.require(known, "more than one dimension of an input is not known")
    return build("reshape", data, newshape=codes, allowzero=0 in shape)


@exports("expand_dims")
def _to_unsqueeze(call: Call, target: Target) -> OnnxNode | Expr:
    attrs, data = attributes(call), call.args[0]
    if not attrs.num_newaxis:
        return data
    axis = attrs.axis if attrs.axis >= 0 else attrs.axis + target.rank(data) + 1
    return target.unsqueezed(data, range(axis, axis + attrs.num_newaxis))


# ---- order


@imports("Transpose")
def _transpose(source: Source) -> Result:
    return build("transpose", *source.arguments(1), axes=source.ints("perm"))


@exports("transpose")
def _to_transpose(call: Call, target: Target) -> OnnxNode | Expr:
    axes, data = attributes(call).axes, call.args[0]
    if axes is None:
        return OnnxNode("Transpose", [data])
    if not axes:
        return data
    return OnnxNode("Transpose", [data], {"perm": list(axes_indices(axes, len(axes)))})


# ---- joining and splitting


@imports("Concat")
def _concat(source: Source) -> Result:
    fields = source.arguments(len(source.inputs))
    axis = source.int("axis")
    return fields[0] if len(fields) == 1 else build("concatenate", Tuple(fields), axis=axis)


@exports("concatenate")
def _to_concat(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Concat", target.fields(call.args[0]), {"axis": target.axis(attributes(call).axis, call)})


@exports("stack")
def _to_stack(call: Call, target: Target) -> OnnxNode:
    axis = axis_index(attributes(call).axis, target.rank(call))
    parts = [target.unsqueezed(field, [axis]) for field in target.fields(call.args[0])]
    return OnnxNode("Concat", parts, {"axis": axis})


@imports("Split")
def _split(source: Source) -> Result:
    data, _ = source.optional(1, 2)
    axis = axis_index(source.int("axis", 0), source.rank(data))
    sizes = source.ints("split")
    count = len(source.node.outputs)
    if source.opset >= 18 and source.int("num_outputs", count) != count:  # ONNX's inference makes a shape for each
        raise Declined("num_outputs is not their number", [UNKNOWN] * count)
    dim = source.type(data).shape[axis]
    if sizes is None and isinstance(dim, int) and dim % count:
        size = -(-dim // count)
        sizes = [size] * (count - 1) + [dim - size * (count - 1)]
    if sizes is None:
        source.require(source.opset < 18 or isinstance(dim, int), "the size of the parts is not known")
        parts = build("split", data, indices_or_sections=count, axis=axis)
    else:
        parts = build("split", data, indices_or_sections=tuple(accumulate(sizes))[:-1], axis=axis)
    return [TupleGetItem(parts, index) for index in range(count)]


@exports("split")
def _to_split(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    types = target.types.get(call)
    if not isinstance(types, TupleType):
        raise target.unwritable(call, "the types of its parts are not known")
    axis, count = target.axis(attrs.axis, data), len(types.fields)
    place = axis_index(attrs.axis, target.rank(data))
    sizes = [field.shape[place] for field in types.fields]  # type: ignore[attr-defined]
    known = all(isinstance(size, int) for size in sizes)
    if known:
        return target.node("Split", data, {"axis": axis, "split": sizes}, outputs=count)
    target.require(isinstance(attrs.indices_or_sections, int), call, "the size of a part is not known")
    return OnnxNode(
        "Split", [data], {"axis": axis, "num_outputs": count if target.opset >= 18 else None}, outputs=count
    )


# ---- repeating


@imports("Expand")
def _expand(source: Source) -> Result:
    data, shape = source.arguments(2)
    if source.rank(data) == 0:
        return build("dyn.broadcast_to", data, shape)
    dims, wanted = source.type(data).shape, source.sizes(shape)
    result = broadcast_shape(dims, wanted)
    source.require(AnyDim() not in result, "a dimension is not known")
    if result == dims:
        return data
    if all(isinstance(dim, int) for dim in result):
        return build("broadcast_to", data, shape=result)
    whole: Expr | None = shape
    if result != wanted:
        named = _naming_all(shape, wanted, result, source)
        whole = source.computed_sizes(result) if named is None else named
    if whole is None:
        raise Declined("its data have dimensions that it does not name", [TensorType(result, source.type(data).dtype)])
    return build("dyn.broadcast_to", data, whole)


def _naming_all(shape: Expr, wanted: Sequence[Dim], result: Sequence[Dim], source: Source) -> Expr | None:
    """The list of sizes ``shape`` with the sizes of the data in the place of ones: ONNX broadcasts both ways.

    None where some of these ones are no constants of a concatenation.
    """
    if len(wanted) != len(result) or not isinstance(shape, Call) or op_name(shape) != "concatenate":
        return None
    (parts,) = shape.args
    if not isinstance(parts, Tuple):
        return None
    fields: list[Expr] = []
    at = 0
    for part in parts.fields:
        (length,) = source.static_shape(part)
        given, full = wanted[at : at + length], result[at : at + length]
        sizes = [dim for dim in full if isinstance(dim, int)]
        if given != full and (not isinstance(part, Constant) or len(sizes) < length):
            return None
        fields.append(part if given == full else Constant(np.asarray(sizes, np.int64)))
        at += length
    return build("concatenate", Tuple(fields), axis=0)


@exports("broadcast_to")
def _to_expand(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Expand", [call.args[0], target.integers(attributes(call).shape)])


@exports("dyn.broadcast_to")
def _to_dynamic_expand(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Expand", call.args)


@exports("broadcast_to_like")
def _to_expand_like(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Expand", [call.args[0], OnnxNode("Shape", [call.args[1]])])


@imports("Tile")
def _tile(source: Source) -> Result:
    data, repeats = source.arguments(2)
    one_each = source.static_shape(repeats) == (source.rank(data),)
    source.require(one_each, "its repeats are not one for each dimension")
    if not isinstance(repeats, Constant):
        return build("dyn.tile", data, repeats)
    return build("tile", data, reps=source.integers(repeats))


@exports("tile")
def _to_tile(call: Call, target: Target) -> OnnxNode:
    data, reps = call.args[0], attributes(call).reps
    rank = target.rank(data)
    target.require(len(reps) <= rank, call, "it repeats along more dimensions than there are")
    return OnnxNode("Tile", [data, target.integers((1,) * (rank - len(reps)) + reps)])


@exports("dyn.tile")
def _to_dynamic_tile(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Tile", call.args)


# ---- sequences that are taken apart or put together at once: a split's parts, the parts of a concatenation

# A sequence is a tuple in the IR, and is not written: its producer is understood only where all that use it are.


def _require_users(source: Source) -> None:
    """Decline unless all users of the sequence take one element at a constant place, or join them all."""
    (sequence,) = source.node.outputs
    source.require(not sequence.is_graph_output(), "its sequence is an output")
    for node, index in sequence.uses():
        joins = node.op_type == "ConcatFromSequence"
        place = node.inputs[1] if node.op_type == "SequenceAt" and index == 0 else None
        taken = place is not None and constant_tensor(place) is not None
        source.require(node.domain == "" and (joins or taken), "its sequence is not taken apart at once")


@imports("SplitToSequence")
def _split_to_sequence(source: Source) -> Result:
    _require_users(source)
    data, split = source.optional(2, 2)
    source.ignore("keepdims")  # of parts without sizes
    axis = axis_index(source.int("axis", 0), source.rank(data))
    if source.rank(split) == 0:
        dim, size = source.type(data).shape[axis], source.scalar(split)
        if not isinstance(dim, int):
            raise Declined("the number of parts is not known")
        cuts = tuple(range(size, dim, size))
    else:
        cuts = tuple(accumulate(source.integers(split)))[:-1]
    return [build("split", data, indices_or_sections=cuts, axis=axis)]


@imports("SequenceConstruct")
def _sequence_construct(source: Source) -> Result:
    _require_users(source)
    return Tuple(source.arguments(len(source.inputs)))


@imports("SequenceAt")
def _sequence_at(source: Source) -> Result:
    sequence, place = source.arguments(2)
    ty = source.types[sequence]
    if not isinstance(sequence, (Call, Tuple)) or not isinstance(ty, TupleType):
        raise Declined("its sequence is not known")
    index = axis_index(source.scalar(place), len(ty.fields))
    return sequence.fields[index] if isinstance(sequence, Tuple) else TupleGetItem(sequence, index)


@imports("ConcatFromSequence")
def _concat_from_sequence(source: Source) -> Result:
    (sequence,) = source.arguments(1)
    ty = source.types[sequence]
    if not isinstance(ty, TupleType):
        raise Declined("its sequence is not known")
    fields = [TupleGetItem(sequence, index) for index in range(len(ty.fields))]
    parts = Tuple(sequence.fields if isinstance(sequence, Tuple) else fields)
    return build("stack" if source.int("new_axis", 0) else "concatenate", parts, axis=source.int("axis"))
