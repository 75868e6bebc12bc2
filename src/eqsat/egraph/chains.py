"""Chains of sums, products, maxima and minima with constants become one of each, in one walk over the given graph.

Rules by which constants meet take a chain apart link by link where each link is a sum of two that come from one value,
and every step is a run of the engine. Here each node is told as ``base * scale + shift`` between two bounds, from what
is told so of its operands. What ends a long chain gets that form as e-nodes, and rules no longer see the links, which
nothing else reads. What ends a short one gets it beside what it is, where rules would not find it: bounds do not pass
scales and shifts by rules. Transposes and views leave long runs of elementwise operators before
(:mod:`eqsat.egraph.view_runs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.given_graph import Composed, Fold, GivenGraph, Node
from eqsat.egraph.nodes import Nodes
from eqsat.egraph.product_runs import move_shifts
from eqsat.egraph.scales import is_scale
from eqsat.egraph.slice_runs import join_parts
from eqsat.egraph.symbols import Symbol
from eqsat.egraph.view_runs import move_views
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.relations import call_type
from eqsat.relay.ty import TensorType, TupleType, Type, is_static

LONG = 32
"""Links from which on a chain is composed. On a shorter one rules are quick, and they know more ways to write it."""

_SCALE, _SHIFT, _LOW, _HIGH = "scale", "shift", "low", "high"
_STEPS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "subtract", "nn.bias_add"), (_SHIFT,)),
    **dict.fromkeys(("multiply", "divide", "negative"), (_SCALE,)),
    **dict.fromkeys(("nn.relu", "maximum"), (_LOW,)),
    "minimum": (_HIGH,),
    "clip": (_LOW, _HIGH),
    "nn.batch_norm": (_SCALE, _SHIFT),
}
"""What operators do in a chain."""

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class _Form(NamedTuple):
    """A value as ``minimum(maximum(base * scale + shift, low), high)``.

    Attributes:
        base: The handle of what it comes from.
        scale, shift: Atoms of constants that broadcast against the value; None: 1 and 0.
        low, high: Bounds, too, the lower one first; None: there is none.
        links: The e-nodes of the longest way from where the first chain began.
        before: The calls that rules would leave of what comes before the last steps.
        last: The last steps, which rules make one of each kind of.
    """

    base: int
    scale: int | None = None
    shift: int | None = None
    low: int | None = None
    high: int | None = None
    links: int = 0
    before: int = 0
    last: tuple[str, ...] = ()


def compose(egraph: EGraph, nodes: Nodes, root: int, fold: Fold) -> list[Composed]:
    """Compose the chains of a graph that is in an e-graph; what they became.

    Args:
        egraph: The e-graph, of which no rule has seen anything.
        nodes: The e-nodes of the graph.
        root: The handle of the whole graph.
        fold: Computes constants.
    """
    graph = GivenGraph(egraph, nodes, root, fold)
    composed = [*join_parts(graph), *move_views(graph), *move_shifts(graph)]
    forms = _Forms(graph)
    ends, inside, hidden = _chains(forms, graph)
    if ends:
        all_ends = {*ends}
        egraph.hide_nodes([inside[handle] for handle in sorted(hidden)])
        for end in ends:
            before = len(egraph.new_nodes)
            result = forms.add(end)
            egraph.union(end, result)
            made = egraph.new_nodes.since(before)
            composed.append(Composed(end, graph.links(inside, all_ends, end), made, result))
        egraph.flush()
    return composed


def _chains(forms: _Forms, graph: GivenGraph) -> tuple[list[int], dict[int, Node], set[int]]:
    """What ends chains, the e-nodes of these, and the handles of those in long ones, which nothing else reads."""
    readers = graph.readers(forms)
    nodes = {node.handle: node for node in graph.nodes if node.handle in forms}
    ends: list[int] = []
    inside: dict[int, Node] = {}
    hidden: set[int] = set()
    for handle in reversed(forms):
        form, above = forms[handle], readers.get(handle, [])
        is_within = (
            handle != graph.root
            and above
            and all(reader in inside and forms[reader].base == form.base for reader in above)
        )
        if not is_within and not (forms.is_worth(handle) and forms.is_whole(handle)):
            continue
        if not is_within:
            ends.append(handle)
        inside[handle] = nodes[handle]
        if hidden.issuperset(above) if is_within else form.links >= LONG:
            hidden.add(handle)
    return ends[::-1], inside, hidden


def _followed(form: _Form, steps: Sequence[str]) -> _Form:
    """A form with what is told of its steps after further ones."""
    before, last = form.before, form.last
    for step in steps:
        is_bound = step in (_LOW, _HIGH)
        meets = last and is_bound == (last[-1] in (_LOW, _HIGH)) and (step not in last[:-1] or not is_bound)
        if not meets:
            before, last = before + len(last), ()
        if step not in last:
            last = (*last, step)
    return form._replace(before=before, last=last)


def _each(form: _Form, places: Sequence[str], change: Callable[[int], int | None]) -> dict[str, Any]:
    """What becomes of the constants that a form has at some places."""
    return {place: change(constant) for place in places if (constant := getattr(form, place)) is not None}


def _is_static_float(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) and is_static(ty) and ty.dtype in _FLOATS


class _Forms(dict[int, _Form]):
    """Handle -> form, of the e-nodes that are more than a base."""

    def __init__(self, graph: GivenGraph):
        super().__init__()
        self.graph = graph
        self._computed = graph.computed
        self._array = graph.array
        self._are_float: dict[int, bool] = {}  # by types
        for node in graph.nodes:
            symbol, children = graph.vocabulary.symbols[node.symbol], node.children
            if node.handle in graph.constants or not children or not all(map(self._is_float, children)):
                continue
            constants = [graph.constants.get(child) for child in children]
            chained, alone = [self.get(child, _Form(child)) for child in children], list(map(_Form, children))
            for forms in (chained, alone):  # a chain begins anew where its constants would overflow
                form = self._form(symbol, graph.vocabulary.atoms[node.atom].value, forms, children, constants)
                if form is not None:
                    links = max(each.links for each in chained) + 1
                    self[node.handle] = _followed(form, _STEPS.get(symbol.name, ()))._replace(links=links)
                    break

    def is_worth(self, handle: int) -> bool:
        """Whether a chain is long, or is shorter once bounds have passed what comes after them."""
        form = self[handle]
        return form.links >= LONG or len(self._calls(form)) < form.before + len(form.last)

    def is_whole(self, handle: int) -> bool:
        """Whether what is composed for a handle has the type of the handle: nothing that broadcasts is lost."""
        types = [self.graph.type(self[handle].base), *[ty for *_, ty in self._composed(self[handle])]]
        return types[-1] == self.graph.type(handle)

    def add(self, handle: int) -> int:
        """Add what is composed for a handle to the e-graph; its handle there."""
        graph, form = self.graph, self[handle]
        found = form.base
        for name, attrs, constant, ty in self._composed(form):
            operands = [found]
            if constant is not None:
                operands.append(graph.add(graph.constant_symbol, constant, (), graph.constant_type(constant)))
            found = graph.add_call(name, attrs, operands, ty)
        return found

    def _calls(self, form: _Form) -> list[tuple[str, dict[str, Any] | None, int | None]]:
        """The calls of a form, innermost first: operator, attributes, and the atom of a second operand."""
        low, high = self._number(form.low), self._number(form.high)
        clip = {"a_min": -math.inf if low is None else low, "a_max": math.inf if high is None else high}
        calls: list[tuple[str, dict[str, Any] | None, int | None]] = [
            ("multiply", None, form.scale),
            ("add", None, form.shift),
            ("maximum", None, form.low if low is None else None),
            ("minimum", None, form.high if high is None else None),
            ("clip", None if low is None and high is None else clip, None),
        ]
        return [call for call in calls if call[1:] != (None, None)]

    def _composed(self, form: _Form) -> Iterator[tuple[str, Attrs | None, int | None, Type]]:
        """The calls of a form with their types."""
        ty: Type = self._tensor(form.base)
        for name, given, constant in self._calls(form):
            op = Op.get(name)
            attrs = None if given is None else make_attrs(op, given)
            ty = call_type(op, attrs, [ty] if constant is None else [ty, self.graph.constant_type(constant)])
            yield name, attrs, constant, ty

    # ---- what is known of e-nodes and constants

    def _tensor(self, handle: int) -> TensorType:
        """The type of a handle whose type is that of a tensor."""
        ty = self.graph.type(handle)
        assert isinstance(ty, TensorType)
        return ty

    def _shape(self, handle: int) -> tuple[int, ...]:
        return self._tensor(handle).concrete_shape

    def _is_float(self, handle: int) -> bool:
        ty = self.graph.type(handle)
        if id(ty) not in self._are_float:  # a tuple of many fields is asked for by each projection of it
            fields = ty.fields if isinstance(ty, TupleType) else [ty]
            self._are_float[id(ty)] = all(map(_is_static_float, fields))
        return self._are_float[id(ty)]

    def _number(self, constant: int | None) -> float | None:
        """The only number of a constant without axes."""
        return None if constant is None or self._array(constant).shape else float(self._array(constant))

    def _filled(self, value: float, like: int) -> int:
        """A number of the dtype of a handle."""
        return self.graph.filled(value, self._tensor(like).dtype)

    def _has_scale(self, form: _Form) -> bool:
        """Whether the scale of a form is one that loses nothing, and is nowhere 0."""
        if form.scale is None:
            return False
        scale, shift = self._array(form.scale), None if form.shift is None else self._array(form.shift)
        return bool(np.all(scale)) and is_scale(scale, shift, scale.dtype)

    # ---- forms

    def _form(
        self,
        symbol: Symbol,
        value: Any,
        forms: Sequence[_Form],
        children: Sequence[int],
        constants: Sequence[int | None],
    ) -> _Form | None:
        """The form of an e-node over forms of its children; None where it is a base."""
        data, others = forms[0], constants[1:]
        name = symbol.name
        if name == "project":
            return data if value == 0 and data.base != children[0] else None
        if name == "negative":
            return self._opposite(data)
        if name == "nn.batch_norm" and None not in others:
            return self._normalized(data, children[0], value, others)
        if name == "nn.bias_add" and None not in others:
            return self._shifted(data, self._along(others[0], children[0], value.axis))
        if name == "nn.relu":
            return self._bounded(data, "maximum", self._filled(0.0, data.base))
        if name == "clip":
            return self._clipped(data, value)
        if name in ("maximum", "minimum") and any(each is not None for each in constants):
            number = 0 if constants[0] is not None else 1
            return self._bounded(forms[1 - number], name, constants[number])
        if name in ("multiply", "divide") and None not in others:
            return self._scaled(data, others[0], name)
        if name == "multiply" and constants[0] is not None:
            return self._scaled(forms[1], constants[0])
        if name in ("add", "subtract"):
            return self._sum(name, forms, constants)
        return None

    def _sum(self, name: str, forms: Sequence[_Form], constants: Sequence[int | None]) -> _Form | None:
        one, other = forms
        if constants[1] is not None:
            by = constants[1] if name == "add" else self._computed("negative", constants[1])
            return self._shifted(one, by)
        second = other if name == "add" else self._opposite(other)
        if second is None or constants[0] is not None:
            return second and self._shifted(second, constants[0])
        return self._both(one, second)

    def _shifted(self, form: _Form, by: int | None) -> _Form | None:
        found = _each(form, ("shift", "low", "high"), lambda constant: self._computed("add", constant, by))
        found.setdefault("shift", by)
        return None if None in found.values() else form._replace(**found)

    def _scaled(self, form: _Form, by: int | None, name: str = "multiply") -> _Form | None:
        unit = self._filled(1.0, form.base) if form.scale is None else form.scale
        scale = self._computed(name, unit, by)
        if by is None or scale is None:
            return None
        found = self._with_bounds_scaled(form._replace(scale=scale), by, name)
        found = found and self._multiplied(found, ("shift",), name, by)
        return found if found is not None and self._has_scale(found) else None

    def _with_bounds_scaled(self, form: _Form, by: int, name: str) -> _Form | None:
        if np.all(self._array(by) > 0) or (form.low is None and form.high is None):
            return self._multiplied(form, ("low", "high"), name, by)
        # where a number is negative, the lower bound becomes the upper one
        bounds = [self._filled(-np.inf, form.base) if form.low is None else form.low]
        bounds += [self._filled(np.inf, form.base) if form.high is None else form.high]
        first, second = [self._product(name, bound, by) for bound in bounds]
        form = form._replace(low=self._extreme("minimum", first, second), high=self._extreme("maximum", first, second))
        return None if None in (form.low, form.high) else form

    def _multiplied(self, form: _Form, places: Sequence[str], name: str, by: int) -> _Form | None:
        found = _each(form, places, lambda constant: self._product(name, constant, by))
        return None if None in found.values() else form._replace(**found)

    def _product(self, name: str, constant: int, by: int) -> int | None:
        """A product or quotient of constants; zeros stay what they are."""
        return self._computed(name, constant, by) if np.any(self._array(constant)) else constant

    def _bounded(self, form: _Form, name: str, by: int | None) -> _Form | None:
        """The maximum or minimum of a form and a constant. The bounds stay in order, whichever is applied first."""
        found = _each(form, ("low", "high"), lambda bound: self._extreme(name, bound, by))
        found.setdefault("low" if name == "maximum" else "high", by)
        return None if None in found.values() else form._replace(**found)

    def _extreme(self, name: str, one: int | None, other: int | None) -> int | None:
        """The maximum or minimum of two constants: one of them, where it is that of all elements, or else a new one."""
        if one is None or other is None:
            return None
        arrays = self._array(one), self._array(other)
        extreme = np.maximum(*arrays) if name == "maximum" else np.minimum(*arrays)
        for constant, array in zip((one, other), arrays, strict=True):
            if np.array_equal(extreme, np.broadcast_to(array, extreme.shape)):
                return constant
        return self._computed(name, one, other)

    def _clipped(self, form: _Form, attrs: Attrs) -> _Form | None:
        found: _Form | None = form
        if not attrs.a_min <= attrs.a_max:
            return None
        for name, bound in (("maximum", attrs.a_min), ("minimum", attrs.a_max)):
            if found is not None and np.isfinite(bound):
                found = self._bounded(found, name, self._filled(bound, form.base))
        return found

    def _opposite(self, form: _Form) -> _Form | None:
        return self._scaled(form, self._filled(-1.0, form.base))

    def _both(self, one: _Form, other: _Form) -> _Form | None:
        """A sum of forms of one base, whose scales have one sign: where they differ, an infinite base becomes NaN."""
        if one._replace(links=other.links) == other:
            return self._scaled(one, self._filled(2.0, one.base))
        if any(bound is not None for each in (one, other) for bound in (each.low, each.high)):
            return None
        unit = self._filled(1.0, one.base)
        scales = [unit if each.scale is None else each.scale for each in (one, other)]
        signs = {sign for scale in scales for sign in np.unique(np.sign(self._array(scale))).tolist()}
        scale = self._computed("add", *scales)
        if one.base != other.base or len(signs) != 1 or scale is None:
            return None
        found: _Form | None = one._replace(scale=scale)
        if found is not None and other.shift is not None:
            found = self._shifted(found, other.shift)
        return found if found is not None and self._has_scale(found) else None

    def _along(self, vector: int | None, child: int, axis: int) -> int | None:
        """A vector as it broadcasts along an axis."""
        if vector is None:
            return None
        rank = len(self._shape(child))
        (length,) = self._array(vector).shape
        return self._computed("reshape", vector, newshape=(length,) + (1,) * (rank - 1 - axis % rank))

    def _normalized(self, form: _Form, child: int, attrs: Attrs, parameters: Sequence[int | None]) -> _Form | None:
        """x g / sqrt(v + eps) + (b - m g / sqrt(v + eps)), where ``form`` is that of the child x."""
        gamma, beta, mean, variance = parameters
        unit = self._filled(1.0, child)
        epsilon = self._filled(attrs.epsilon, child)
        deviation = self._computed("sqrt", self._computed("add", variance, epsilon))
        scale = self._computed("divide", gamma if attrs.scale else unit, deviation)
        center = self._computed("negative", self._computed("multiply", mean, scale))
        shift = self._computed("add", beta, center) if attrs.center else center
        scaled = self._scaled(form, self._along(scale, child, attrs.axis))
        return scaled and self._shifted(scaled, self._along(shift, child, attrs.axis))
