"""Scales and shifts behind products with constant weights go into weights and biases, in one walk over the given graph.

Rules move each past the others before it reaches the weight, and find every form on the way. Here each e-node is told
as ``product * scale + shift``, as in :mod:`eqsat.egraph.chains`, and what ends such a run is that product by another
weight, with one bias. Of a few products, rules find more ways to write them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eqsat.egraph.chains import LONG, Chains, Form
from eqsat.egraph.given_graph import Composed, GivenGraph, Node
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.op.nn.window import SPATIAL, has_channels_first
from eqsat.relay.ty import TensorType

_CONVOLUTIONS = {f"nn.conv{rank}d{form}": form for rank in SPATIAL for form in ("", "_transpose")}
_STEPS = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "negative",
    "nn.bias_add",
    "nn.batch_norm",
    "project",
)


class _Product(NamedTuple):
    """A product with a constant weight.

    Attributes:
        node: Its e-node.
        weight: The atom of the weight.
        outputs: The axis of the weight along which the outputs lie.
        axis: The axis of the result along which they lie.
    """

    node: Node
    weight: int
    outputs: int
    axis: int


def scale_weights(graph: GivenGraph) -> list[Composed]:
    """Scale the weights of a graph with many products; what these became, in place of which they stand."""
    runs = WeightRuns(graph)
    return runs.make() if len(runs.products) >= LONG else []


class WeightRuns(Chains):
    """The sums and products with constants behind products with constant weights.

    Attributes:
        products: Handle -> a product.
    """

    def __init__(self, graph: GivenGraph):
        self.products: dict[int, _Product] = {}
        super().__init__(graph)

    def follow(self, node: Node, name: str, op: Op | None, value: Any) -> None:
        product = self._as_product(node, name, value)
        if product is not None:
            self.products[node.handle] = product
            self[node.handle] = Form(node.handle)
        elif name in _STEPS:
            varying = [child for child in node.children if child not in self.graph.constants]
            goes_on = len(varying) == 1 and varying[0] in self and self.reader_counts[varying[0]] == 1
            if goes_on and varying[0] != self.graph.root:
                super().follow(node, name, op, value)
                if node.handle in self and self[node.handle].core not in self.products:  # constants would overflow
                    del self[node.handle]

    def is_worth(self, handle: int) -> bool:
        form = self[handle]
        if form.scale is None or bool(np.all(self._array(form.scale) == 1)):
            return False
        written = self._scaled_product(form)
        return written is not None and self.type(written) == self.type(handle)

    def hides(self, run: Form) -> bool:
        return True

    def written(self, run: Form) -> int:
        written = self._scaled_product(run)
        assert written is not None
        return written

    def _scaled_product(self, form: Form) -> int | None:
        """The draft of a form; None where the scale or the shift varies along another axis than the outputs."""
        assert form.scale is not None
        (node, weight, outputs, axis), ty = self.products[form.core], self._tensor(form.core)
        scale = self._vector(form.scale, ty, axis)
        shift = None if form.shift is None else self._vector(form.shift, ty, axis)
        if scale is None or (shift is None and form.shift is not None):
            return None
        beside = [1] * self._array(weight).ndim
        beside[outputs] = -1
        scaled = self._computed("multiply", weight, self._computed("reshape", scale, newshape=tuple(beside)))
        if scaled is None:
            return None
        result = self.draft(node.symbol, node.atom, [node.children[0], self.draft_constant(scaled)], ty)
        if shift is None:
            return result
        return self.draft_call("nn.bias_add", [result, self.draft_constant(shift)], axis=axis)

    def _vector(self, constant: int, of: TensorType, axis: int) -> int | None:
        """A constant that varies along an axis only, with an element for each place."""
        shape, rank, count = self._array(constant).shape, len(of.shape), of.concrete_shape[axis]
        laid_out = (1,) * (rank - len(shape)) + shape
        if any(dim != 1 for place, dim in enumerate(laid_out) if place != axis % rank):
            return None
        row = self._computed("reshape", constant, newshape=(laid_out[axis],))
        return row if laid_out[axis] == count else self._computed("broadcast_to", row, shape=(count,))

    def _as_product(self, node: Node, name: str, attrs: Attrs | None) -> _Product | None:
        """An e-node as a product whose weight nothing else reads."""
        if len(node.children) != 2 or attrs is None or not all(map(self._holds_numbers, [*node.children, node.handle])):
            return None
        data, other = node.children
        weight = self.graph.constants.get(other)
        if weight is None or data in self.graph.constants or self.reader_counts[other] > 1 or attrs.get("out_dtype"):
            return None
        places = _outputs(name, attrs)
        if places is None or self._wraps(data) or (name not in _CONVOLUTIONS and self._array(weight).ndim != 2):
            return None
        return _Product(node, weight, *places)


def _outputs(name: str, attrs: Attrs) -> tuple[int, int] | None:
    """The axes of the weight and of the result along which the outputs of a product lie, where these are known."""
    if name == "nn.dense":
        return 0, -1
    if name == "nn.matmul":
        return (0 if attrs.transpose_b else 1), -1
    if name not in _CONVOLUTIONS:
        return None
    if _CONVOLUTIONS[name]:
        return (1, 1) if has_channels_first(attrs, "IO") and attrs.groups == 1 else None
    return (0, 1) if has_channels_first(attrs) else None
