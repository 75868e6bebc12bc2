"""Recurrent layers: last steps are states, two directions are one layer, time turned round is the other direction."""

from __future__ import annotations

import numpy as np

from eqsat.egraph.author import attrs_of, compute, like, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Rewrite, RuleSet, Soundness
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_constant, is_op, is_tuple, is_tuple_get_item
from eqsat.relay.op import concatenate, expand_dims, reshape, squeeze, take, transpose
from eqsat.relay.op.nn.recurrent import BIDIRECTIONAL, FORWARD, REVERSE
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType

x, w, r, b, h, c = variables("x w r b h c")
w2, r2, b2, h2, c2 = variables("w2 r2 b2 h2 c2")
place = is_constant(label="place")
ROUNDING = Soundness.ROUNDING

any_kind = is_op("nn.lstm") | is_op("nn.gru") | is_op("nn.rnn")
one_state = is_op("nn.gru") | is_op("nn.rnn")
two_states = is_op("nn.lstm")

FIRST = {
    "": (any_kind, (w, r, b)),
    "-with-state": (one_state, (w, r, b, h)),
    "-with-states": (two_states, (w, r, b, h, c)),
}
SECOND = {"": (w2, r2, b2), "-with-state": (w2, r2, b2, h2), "-with-states": (w2, r2, b2, h2, c2)}
"""What the parameters of a layer are: without and with initial states."""


def is_plain(attrs: Attrs) -> bool:
    """Guard: time is the first axis, and all sequences are as long."""
    return not attrs.batch_first and not attrs.lengths


# ---- the last step


def _is_end(attrs: Attrs, places: range, length: Dim) -> bool:
    """Whether a layer gives its last state at ``places``, of which those from the end are negative."""
    if len(places) != 1 or attrs.direction == BIDIRECTIONAL:
        return False
    is_first = attrs.direction == REVERSE
    ends = [0 if is_first else -1]
    if isinstance(length, int) and length > 0:
        ends.append(-length if is_first else length - 1)
    return places[0] in ends


def takes_end(layer: Attrs, attrs: Attrs, index: Array, ty: TensorType) -> bool:
    """Guard: the index is that of the last step."""
    plain = is_plain(layer) and not attrs.batch_dims and attrs.axis is not None and index.shape == ()
    if not plain or attrs.mode != "fast" or axis_index(attrs.axis, len(ty.shape)) != 0:
        return False
    return _is_end(layer, range(int(index), int(index) + 1), ty.shape[0])


def cuts_end(layer: Attrs, attrs: Attrs, ty: TensorType) -> bool:
    """Guard: the slice is the last step."""
    if not is_plain(layer) or attrs.slice_mode != "end" or len(attrs.begin) != 1 or set(attrs.strides) != {1}:
        return False
    if len(attrs.end) != 1 or (attrs.axes is not None and axis_index(attrs.axes[0], len(ty.shape)) != 0):
        return False
    begin, end, length = attrs.begin[0], attrs.end[0], ty.shape[0]
    if isinstance(length, int):
        return _is_end(layer, range(length)[begin:end], length)
    if begin == -1 and end >= np.iinfo(np.int32).max:
        return _is_end(layer, range(-1, 0), length)
    return begin == 0 and end == 1 and _is_end(layer, range(1), length)


def last_steps(kind: str) -> list[Rewrite]:
    """Y[-1] = the hidden state at the end, of a layer that runs forward; of another one Y[0]"""
    operator, parameters = FIRST[kind]
    layer = operator(x, *parameters)
    every, last = is_tuple_get_item(layer, 0), is_tuple_get_item(layer, 1)
    of_one = squeeze(every, axis=[1])
    laws = []
    for name, steps, state in ("", every, last), ("-of-one", of_one, squeeze(last, axis=[0])):
        taken, cut = take(steps, place), is_op("strided_slice")(steps)
        laws += [
            rewrite(
                f"last-step{name}{kind}",
                taken,
                state,
                when(takes_end, attrs_of(layer), attrs_of(taken), value_of(place), type_of(steps)),
            ),
            rewrite(
                f"last-step-cut{name}{kind}",
                cut,
                expand_dims(state, axis=0, num_newaxis=1),
                when(cuts_end, attrs_of(layer), attrs_of(cut), type_of(steps)),
            ),
        ]
    return laws


# ---- two directions


def are_opposite(first: Attrs, second: Attrs) -> bool:
    """Guard: two layers differ in their directions and weights alone, and the first runs forward."""
    if not is_plain(first) or (first.direction, second.direction) != (FORWARD, REVERSE):
        return False
    same = {**first, "direction": "", "activations": ()} == {**second, "direction": "", "activations": ()}
    return same and bool(first.activations) == bool(second.activations)


def joins_rows(attrs: Attrs, part: TensorType, whole: TensorType) -> bool:
    """Guard: what is joined is rows of hidden states of known length."""
    rank = len(whole.shape)
    return axis_index(attrs.axis, rank) == rank - 1 and isinstance(part.shape[-1], int)


def both_ways(kind: str) -> list[Rewrite]:
    """concat(forward(x), reverse(x)) = bidirectional(x)"""
    operator, parameters = FIRST[kind]
    others = SECOND[kind]
    ahead, back = operator(x, *parameters), operator(x, *others)
    joined = [concatenate(is_tuple(pair), axis=0) for pair in zip(parameters, others, strict=True)]
    whole = like(
        ahead,
        x,
        *joined,
        direction=BIDIRECTIONAL,
        activations=compute(lambda one, two: one.activations + two.activations, attrs_of(ahead), attrs_of(back)),
    )
    opposite = when(are_opposite, attrs_of(ahead), attrs_of(back))
    laws = []
    for name, index, axis in ("steps", 0, 1), ("states", 1, 0):
        parts = [is_tuple_get_item(layer, index) for layer in (ahead, back)]
        found = is_tuple_get_item(whole, index)
        order = (0, 2, 1, 3) if index == 0 else (1, 0, 2)
        pair = concatenate(is_tuple(parts), axis=axis)
        lines = concatenate(is_tuple([squeeze(part, axis=[axis]) for part in parts]))
        rows = reshape(transpose(found, axes=order), newshape=(0,) * (len(order) - 2) + (-1,))
        laws += [
            rewrite(f"both-ways-{name}{kind}", pair, found, opposite, soundness=ROUNDING),
            rewrite(
                f"both-ways-{name}-in-rows{kind}",
                lines,
                rows,
                opposite,
                when(joins_rows, attrs_of(lines), type_of(parts[0]), type_of(lines)),
                soundness=ROUNDING,
            ),
        ]
    return laws


# ---- time turned round


def turns(attrs: Attrs, ty: TensorType, turned: TensorType) -> bool:
    """Guard: a slice takes the first axis from its end to its beginning."""
    alone = len(attrs.begin) == len(attrs.end) == 1 and tuple(attrs.strides) == (-1,) and attrs.slice_mode == "end"
    if not alone or (attrs.axes or (0,)) != (0,):
        return False
    length = ty.shape[0]
    if isinstance(length, int):
        return len(range(length)[attrs.begin[0] : attrs.end[0] : -1]) == length
    return bool(attrs.begin[0] == -1 and length == turned.shape[0] != AnyDim())


def has_one_direction(attrs: Attrs) -> bool:
    """Guard: a layer over time runs forward or in reverse."""
    return is_plain(attrs) and attrs.direction != BIDIRECTIONAL


def turned_time(kind: str) -> list[Rewrite]:
    """layer(x[::-1]) = the layer in the other direction: its last states are the same, its steps turned round"""
    operator, parameters = FIRST[kind]
    turned = is_op("strided_slice")(x)
    layer = operator(turned, *parameters)
    other = like(
        layer,
        x,
        *parameters,
        direction=compute(lambda attrs: FORWARD if attrs.direction == REVERSE else REVERSE, attrs_of(layer)),
    )
    guards = (
        when(turns, attrs_of(turned), type_of(x), type_of(turned)),
        when(has_one_direction, attrs_of(layer)),
    )
    steps, last = (is_tuple_get_item(layer, index) for index in range(2))
    new_steps, new_last = (is_tuple_get_item(other, index) for index in range(2))
    laws = {
        "states": (last, new_last),
        "steps": (steps, like(turned, new_steps)),
        "steps-of-one": (squeeze(steps, axis=[1]), like(turned, squeeze(new_steps, axis=[1]))),
    }
    return [rewrite(f"turned-time-{name}{kind}", *sides, *guards, soundness=ROUNDING) for name, sides in laws.items()]


once = is_op("strided_slice")(x)
twice = is_op("strided_slice")(once)

recurrent = RuleSet(
    "recurrent",
    [
        *[law for make in (last_steps, both_ways, turned_time) for kind in FIRST for law in make(kind)],
        # x[::-1][::-1] = x
        rewrite(
            "turned-twice",
            twice,
            x,
            when(turns, attrs_of(once), type_of(x), type_of(once)),
            when(turns, attrs_of(twice), type_of(once), type_of(twice)),
        ),
    ],
)
