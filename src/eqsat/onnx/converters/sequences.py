"""Sequences that are taken apart or put together at once: a split's parts, the parts of a concatenation.

A sequence is a tuple in the IR, and is not written: its producer is understood only where all that use it are.
"""

from __future__ import annotations

from itertools import accumulate

import onnx_ir as ir

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.relay.expr import Call, Tuple, TupleGetItem
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TupleType


def _require_users(source: Source) -> None:
    """Decline unless all users of the sequence take one element at a constant place, or join them all."""
    (sequence,) = source.node.outputs
    source.require(not sequence.is_graph_output(), "its sequence is an output")
    for node, index in sequence.uses():
        joins = node.op_type == "ConcatFromSequence"
        place = node.inputs[1] if node.op_type == "SequenceAt" and index == 0 else None
        taken = place is not None and ir.convenience.get_const_tensor(place) is not None
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
            source.decline("the number of parts is not known")
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
        source.decline("its sequence is not known")
    index = axis_index(source.scalar(place), len(ty.fields))
    return sequence.fields[index] if isinstance(sequence, Tuple) else TupleGetItem(sequence, index)


@imports("ConcatFromSequence")
def _concat_from_sequence(source: Source) -> Result:
    (sequence,) = source.arguments(1)
    ty = source.types[sequence]
    if not isinstance(ty, TupleType):
        source.decline("its sequence is not known")
    fields = [TupleGetItem(sequence, index) for index in range(len(ty.fields))]
    parts = Tuple(sequence.fields if isinstance(sequence, Tuple) else fields)
    return build("stack" if source.int("new_axis", 0) else "concatenate", parts, axis=source.int("axis"))
