"""Instances of rules on recurrent layers."""

from __future__ import annotations

from functools import partial
from typing import Any

from eqsat.egraph.rule import Examples
from eqsat.relay import nn
from eqsat.relay.expr import Var, const
from eqsat.relay.op import concatenate, squeeze, strided_slice, take
from eqsat.relay.op.draw import Draw
from eqsat.relay.ty import TensorType

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
KINDS = {"": ("lstm", "gru", "rnn"), "-with-state": ("gru", "rnn"), "-with-states": ("lstm",)}


class Layers:
    """Layers of one kind and size, over one sequence.

    Args:
        draw: the random choices.
        states: which initial states they have, as names of rules say it.
    """

    def __init__(self, draw: Draw, states: str):
        self.draw, self.states = draw, states
        self.kind = draw.rng.choice(KINDS[states])
        self.dtype = draw.rng.choice(("float32", "float64"))
        self.steps, self.batch, self.width, self.units = (draw.rng.randint(1, 4) for _ in range(4))
        self.clip = 0.5 if draw.chance(0.2) else None
        self.data = self.variable("x", self.steps, self.batch, self.width)

    def variable(self, name: str, *shape: int) -> Var:
        return Var(name, TensorType(shape, self.dtype))

    def over(self, data: Any, direction: str) -> Any:
        """A layer over ``data``, with weights of its own."""
        rows = GATES[self.kind] * self.units
        shapes = [(1, rows, self.width), (1, rows, self.units), (1, 2 * rows)]
        shapes += [(1, self.batch, self.units)] * (0 if not self.states else 2 if self.kind == "lstm" else 1)
        parameters = [self.variable(f"{direction}{index}", *shape) for index, shape in enumerate(shapes)]
        build = {"lstm": nn.lstm, "gru": nn.gru, "rnn": nn.rnn}[self.kind]
        attrs = {"hidden_size": self.units, "direction": direction, "clip": self.clip, "states": bool(self.states)}
        return build(data, *parameters, **attrs)


def last_step(draw: Draw, states: str, line: bool, cut: bool) -> Any:
    layers = Layers(draw, states)
    direction = draw.rng.choice(("forward", "reverse"))
    steps = layers.over(layers.data, direction)[0]
    steps = squeeze(steps, axis=[1]) if line else steps
    at = draw.rng.choice((-1, layers.steps - 1)) if direction == "forward" else draw.rng.choice((0, -layers.steps))
    if cut:
        end = at + 1 if at != -1 else draw.rng.choice((layers.steps, 1 << 60))
        return strided_slice(steps, begin=[at], end=[end], axes=[0])
    return take(steps, const(at, "int64"), axis=0, mode="fast")


def both_ways(draw: Draw, states: str, index: int, lines: bool) -> Any:
    layers = Layers(draw, states)
    parts = [layers.over(layers.data, direction)[index] for direction in ("forward", "reverse")]
    if lines:
        return concatenate([squeeze(part, axis=[1 - index]) for part in parts], axis=draw.rng.choice((-1, 2 - index)))
    return concatenate(parts, axis=1 - index)


def turned(data: Any) -> Any:
    return strided_slice(data, begin=[-1], end=[-(1 << 60)], strides=[-1], axes=[0])


def turned_time(draw: Draw, states: str, index: int, line: bool = False) -> Any:
    layers = Layers(draw, states)
    found = layers.over(turned(layers.data), draw.rng.choice(("forward", "reverse")))[index]
    return squeeze(found, axis=[1]) if line else found


def turned_twice(draw: Draw) -> Any:
    shape = [draw.rng.randint(1, 4) for _ in range(draw.rng.randint(1, 3))]
    return turned(turned(Var("x", TensorType(shape, draw.dtype))))


EXAMPLES: dict[str, Examples] = {"turned-twice": turned_twice}
for _states in KINDS:
    for _line, _name in enumerate(("", "-of-one")):
        EXAMPLES[f"last-step{_name}{_states}"] = partial(last_step, states=_states, line=bool(_line), cut=False)
        EXAMPLES[f"last-step-cut{_name}{_states}"] = partial(last_step, states=_states, line=bool(_line), cut=True)
    EXAMPLES[f"turned-time-steps-of-one{_states}"] = partial(turned_time, states=_states, index=0, line=True)
    for _index, _what in enumerate(("steps", "states")):
        EXAMPLES[f"both-ways-{_what}{_states}"] = partial(both_ways, states=_states, index=_index, lines=False)
        EXAMPLES[f"both-ways-{_what}-in-rows{_states}"] = partial(both_ways, states=_states, index=_index, lines=True)
        EXAMPLES[f"turned-time-{_what}{_states}"] = partial(turned_time, states=_states, index=_index)
