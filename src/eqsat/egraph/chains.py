"""Long chains of sums, products, maxima and minima with constants become one of each, in one walk over the graph.

Rules by which constants meet take a chain apart link by link where each link is a sum of two that come from one value,
and every step is a run of the engine. Here each node is told as ``base * scale + shift`` between two bounds, from what
is told so of its operands. What ends a long chain gets that form as e-nodes, and rules no longer see the links, which
nothing else reads. Transposes within a chain become one, of the base, and so do views before them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray as Array

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.nodes import NO_TYPE, Nodes
from eqsat.egraph.scales import is_scale
from eqsat.egraph.symbols import Symbol, is_foldable
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.relations import call_type
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import children_first

LONG = 32
"""Links from which on a chain is composed. On a shorter one rules are quick, and they know more ways to write it."""

_FLOATS = ("float16", "bfloat16", "float32", "float64")

Fold: TypeAlias = Callable[..., Sequence[int] | None]
"""The atom of the value of an e-node: of its symbol, its atom, and the atoms of its operands' values."""


_Node: TypeAlias = tuple[int, int, int, list[int]]
"""Handle, symbol, atom and children's handles of an e-node."""


class _Form(NamedTuple):
    """A value as ``minimum(maximum(transpose(reshape(base, shape), turn) * scale + shift, low), high)``.

    Attributes:
        base: The handle of what it comes from.
        shape: The shape that the base is given; None: its own.
        turn: The order of the axes; None: as they are.
        scale, shift: Atoms of constants that broadcast against the value; None: 1 and 0.
        low, high: Bounds, too, the lower one first; None: there is none.
        links: The e-nodes of the longest way from the base.
    """

    base: int
    shape: tuple[int, ...] | None = None
    turn: tuple[int, ...] | None = None
    scale: int | None = None
    shift: int | None = None
    low: int | None = None
    high: int | None = None
    links: int = 0


class Composed(NamedTuple):
    """A chain that was composed.

    Attributes:
        end: The handle that ends it.
        links: Symbol, atom and children's handles of its e-nodes, that of the end last.
        made: The e-nodes that were made.
        result: The handle of the last of them.
    """

    end: int
    links: list[tuple[int, ...]]
    made: Nodes
    result: int


def compose(egraph: EGraph, nodes: Nodes, root: int, fold: Fold) -> list[Composed]:
    """Compose the long chains of a graph that is in an e-graph; what they became.

    Args:
        egraph: The e-graph, of which no rule has seen anything.
        nodes: The e-nodes of the graph.
        root: The handle of the whole graph.
        fold: Computes constants.
    """
    distinct, first = _distinct(nodes)
    forms = _Forms(egraph.vocabulary, nodes.first, nodes.type_id, distinct, fold)
    ends, hidden = _chains(forms, distinct, first[root])
    composed = []
    if ends:
        inside, all_ends = {node[0]: node for node in distinct if node[0] in hidden}, set(ends)
        egraph.hide_nodes(list(inside.values()))
        for end in ends:
            before = len(egraph.new_nodes)
            result = forms.add(egraph, end)
            egraph.union(end, result)
            composed.append(Composed(end, _links(inside, all_ends, end), egraph.new_nodes.since(before), result))
        egraph.flush()
    return composed


def _links(inside: Mapping[int, _Node], ends: Container[int], end: int) -> list[tuple[int, ...]]:
    """The e-nodes of a chain, the last of them last, down to where another chain ends."""

    def below(handle: int) -> list[int]:
        return [child for child in inside[handle][3] if child in inside and child not in ends]

    order = children_first([end], below)
    return [(symbol, atom, *children) for _, symbol, atom, children in map(inside.__getitem__, order)]


def _distinct(nodes: Nodes) -> tuple[list[_Node], dict[int, int]]:
    """E-nodes, each once, over the first handles of their children; and the first handle of each that equals it."""
    first: dict[int, int] = {}
    known: dict[tuple[int, ...], int] = {}
    distinct: list[_Node] = []
    for handle, symbol, atom, children in nodes:
        below = [first[child] for child in children]
        first[handle] = known.setdefault((symbol, atom, *below), handle)
        if first[handle] == handle:
            distinct.append((handle, symbol, atom, below))
    return distinct, first


def _chains(forms: _Forms, nodes: Sequence[_Node], root: int) -> tuple[list[int], set[int]]:
    """The handles that end long chains, and these with those within the chains, which nothing else reads."""
    readers: dict[int, list[int]] = {handle: [] for handle in forms}
    for handle, _, _, children in nodes:
        for child in children:
            if child in readers:
                readers[child].append(handle)
    ends: list[int] = []
    bases: dict[int, int] = {}  # of the chains that e-nodes are in
    for handle in sorted(forms, reverse=True):
        form, above = forms[handle], readers[handle]
        is_within = handle != root and above and all(bases.get(reader) == form.base for reader in above)
        if not is_within and form.links >= LONG and forms.is_whole(handle):
            ends.append(handle)
        elif not is_within:
            continue
        bases[handle] = form.base
    return ends[::-1], set(bases)


def _each(form: _Form, places: Sequence[str], change: Callable[[int], int | None]) -> dict[str, Any]:
    """What becomes of the constants that a form has at some places."""
    return {place: change(constant) for place in places if (constant := getattr(form, place)) is not None}


def _is_static_float(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) and is_static(ty) and ty.dtype in _FLOATS


class _Forms(dict[int, _Form]):
    """Handle -> form, of the e-nodes that are more than a base."""

    def __init__(
        self, vocabulary: Vocabulary, first: int, type_ids: Array[np.int32], nodes: Sequence[_Node], fold: Fold
    ):
        super().__init__()
        self.vocabulary = vocabulary
        self.fold = fold
        self._type_ids = dict(enumerate(type_ids.tolist(), first))
        self._are_float: dict[int, bool] = {}  # by types' ids
        self._constants: dict[int, int] = {}
        for handle, index, atom, children in nodes:
            symbol = vocabulary.symbols[index]
            constants = [self._constants.get(child) for child in children]
            if symbol.kind == "constant":
                self._constants[handle] = atom
            elif children and None not in constants:
                found = fold(index, atom, *constants) if is_foldable(symbol) else None
                if found is not None and vocabulary.atoms[found[0]].kind == "constant":
                    self._constants[handle] = found[0]
            elif children and all(map(self._is_float, children)):
                chained, alone = [self.get(child, _Form(child)) for child in children], list(map(_Form, children))
                for forms in (chained, alone):  # a chain begins anew where its constants would overflow
                    form = self._form(symbol, vocabulary.atoms[atom].value, forms, children, constants)
                    if form is not None:
                        self[handle] = form._replace(links=1 + max(each.links for each in forms))
                        break

    def is_whole(self, handle: int) -> bool:
        """Whether what is composed for a handle has the type of the handle: nothing that broadcasts is lost."""
        types = [self._type(self[handle].base), *[ty for *_, ty in self._composed(self[handle])]]
        return types[-1] == self._type(handle)

    def add(self, egraph: EGraph, handle: int) -> int:
        """Add what is composed for a handle to the e-graph; its handle there."""
        form = self[handle]
        found = form.base
        for name, attrs, constant, ty in self._composed(form):
            operands = [found]
            if constant is not None:
                of = self.vocabulary.type_id(self._constant_type(constant))
                operands.append(egraph.add(egraph.symbol(Symbol("constant", None, 0)), constant, (), of))
            symbol = egraph.symbol(Symbol("call", Op.get(name), len(operands)))
            found = egraph.add(symbol, self.vocabulary.attributes(attrs), operands, self.vocabulary.type_id(ty))
        return found

    def _composed(self, form: _Form) -> Iterator[tuple[str, Attrs | None, int | None, Type]]:
        """The calls of a form, innermost first: operator, attributes, the atom of a second operand, and type."""
        ty: Type = self._tensor(form.base)
        low, high = self._number(form.low), self._number(form.high)
        clip = {"a_min": -math.inf if low is None else low, "a_max": math.inf if high is None else high}
        calls: list[tuple[str, dict[str, Any] | None, int | None]] = [
            ("reshape", None if form.shape is None else {"newshape": form.shape}, None),
            ("transpose", None if form.turn is None else {"axes": form.turn}, None),
            ("multiply", None, form.scale),
            ("add", None, form.shift),
            ("maximum", None, form.low if low is None else None),
            ("minimum", None, form.high if high is None else None),
            ("clip", None if low is None and high is None else clip, None),
        ]
        for name, given, constant in calls:
            if given is None and constant is None:
                continue
            op = Op.get(name)
            attrs = None if given is None else make_attrs(op, given)
            ty = call_type(op, attrs, [ty] if constant is None else [ty, self._constant_type(constant)])
            yield name, attrs, constant, ty

    # ---- what is known of e-nodes and constants

    def _type(self, handle: int) -> Type | None:
        index = self._type_ids[handle]
        return None if index == NO_TYPE else self.vocabulary.types[index]

    def _tensor(self, handle: int) -> TensorType:
        """The type of a handle whose type is that of a tensor."""
        ty = self._type(handle)
        assert isinstance(ty, TensorType)
        return ty

    def _shape(self, handle: int) -> tuple[int, ...]:
        return self._tensor(handle).concrete_shape

    def _is_float(self, handle: int) -> bool:
        index = self._type_ids[handle]
        if index not in self._are_float:  # a tuple of many fields is asked for by each projection of it
            ty = self._type(handle)
            fields = ty.fields if isinstance(ty, TupleType) else [ty]
            self._are_float[index] = all(map(_is_static_float, fields))
        return self._are_float[index]

    def _constant_type(self, constant: int) -> TensorType:
        array = self._array(constant)
        return TensorType(array.shape, array.dtype.name)

    def _number(self, constant: int | None) -> float | None:
        """The only number of a constant without axes."""
        return None if constant is None or self._array(constant).shape else float(self._array(constant))

    def _array(self, constant: int) -> Array[Any]:
        array: Array[Any] = self.vocabulary.atoms[constant].value.data.numpy()
        return array

    def _filled(self, value: float, like: int) -> int:
        """A number of the dtype of a handle."""
        return self.vocabulary.constant(Constant(np.asarray(value).astype(self._tensor(like).dtype)))

    def _computed(self, name: str, *constants: int | None, **attrs: Any) -> int | None:
        """An operator of constants; None where an operand or the result is none, or it makes infinities or NaN."""
        known = [each for each in constants if each is not None]
        if len(known) < len(constants):
            return None
        op = Op.get(name)
        index = self.vocabulary.symbol(Symbol("call", op, len(constants)))
        found = self.fold(index, self.vocabulary.attributes(make_attrs(op, attrs)), *known)
        if found is None:
            return None
        result = self._array(found[0])
        were_finite = all(np.all(np.isfinite(self._array(each))) for each in known)
        return found[0] if np.all(np.isfinite(result) if were_finite else ~np.isnan(result)) else None

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
        if name == "transpose":
            return self._turned(data, self._shape(children[0]), value)
        if symbol.op is not None and symbol.op.has(Trait.VIEW) and len(children) == 1:
            return self._viewed(data, call_type(symbol.op, value, [self._tensor(children[0])]))
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
            if np.array_equal(extreme, array):
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
        if one[:3] != other[:3] or len(signs) != 1 or scale is None:
            return None
        found: _Form | None = one._replace(scale=scale)
        if found is not None and other.shift is not None:
            found = self._shifted(found, other.shift)
        return found if found is not None and self._has_scale(found) else None

    def _viewed(self, form: _Form, ty: Type) -> _Form | None:
        """A form as another type of the same elements in the same order; its constants are single numbers."""
        constants = [each for each in (form.scale, form.shift, form.low, form.high) if each is not None]
        if form.turn is not None or any(self._array(each).shape for each in constants) or not is_static(ty):
            return None
        assert isinstance(ty, TensorType)
        shape = ty.concrete_shape
        return form._replace(shape=None if shape == self._shape(form.base) else shape)

    def _turned(self, form: _Form, shape: Sequence[int], attrs: Attrs) -> _Form | None:
        """A form of that shape whose axes are in another order."""
        before = tuple(range(len(shape))) if form.turn is None else form.turn
        base = self._shape(form.base) if form.shape is None else form.shape
        if len(before) != len(base) or list(shape) != [base[axis] for axis in before]:
            return None  # the constants have axes that the base has not
        axes = [axis % len(shape) for axis in (range(len(shape))[::-1] if attrs.axes is None else attrs.axes)]
        moved = _each(form, ("scale", "shift", "low", "high"), lambda constant: self._moved(constant, axes))
        if None in moved.values():
            return None
        turn = tuple([before[axis] for axis in axes])
        return form._replace(turn=None if turn == tuple(range(len(turn))) else turn, **moved)

    def _moved(self, constant: int, axes: Sequence[int]) -> int | None:
        """A constant beside what is transposed; one without axes stays."""
        shape = self._array(constant).shape
        if not shape:
            return constant
        whole = self._computed("reshape", constant, newshape=(1,) * (len(axes) - len(shape)) + shape)
        return self._computed("transpose", whole, axes=axes)

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
