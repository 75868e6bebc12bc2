"""Long chains of sums and products with constants become one product and one sum, in one walk over the graph.

Rules by which constants meet take a chain apart link by link where each link is a sum of two that come from one value,
and every step is a run of the engine. Here each node is told as ``base * scale + shift`` from those of its operands.
What ends a long chain gets that form as e-nodes, and rules no longer see the links, which nothing else reads.
Transposes within a chain become one, of the base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray as Array

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.nodes import NO_TYPE, Nodes
from eqsat.egraph.symbols import Symbol, is_foldable
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.relations import call_type
from eqsat.relay.ty import TensorType, TupleType, Type, is_static

LONG = 8
"""Links from which on a chain is composed. Rules, which know more ways to write it, are as quick on a shorter one."""

_FLOATS = ("float16", "bfloat16", "float32", "float64")

Fold: TypeAlias = Callable[..., Sequence[int] | None]
"""The atom of the value of an e-node: of its symbol, its atom, and the atoms of its operands' values."""


_Node: TypeAlias = tuple[int, int, int, list[int]]
"""Handle, symbol, atom and children's handles of an e-node."""


class _Form(NamedTuple):
    """A value as ``transpose(base, turn) * scale + shift``.

    Attributes:
        base: The handle of what it comes from.
        turn: The order of the axes of the base; None: as they are.
        scale, shift: Atoms of constants that broadcast against the value; None: 1 and 0.
        links: The e-nodes of the longest way from the base.
    """

    base: int
    turn: tuple[int, ...] | None = None
    scale: int | None = None
    shift: int | None = None
    links: int = 0


def compose(egraph: EGraph, nodes: Nodes, root: int, fold: Fold) -> int:
    """Compose the long chains of a graph that is in an e-graph; how many there were.

    Args:
        egraph: The e-graph, of which no rule has seen anything.
        nodes: The e-nodes of the graph.
        root: The handle of the whole graph.
        fold: Computes constants.
    """
    distinct, first = _distinct(nodes)
    forms = _Forms(egraph.vocabulary, nodes.first, nodes.type_id, distinct, fold)
    ends, hidden = _chains(forms, distinct, first[root])
    if ends:
        egraph.hide_nodes([node for node in distinct if node[0] in hidden])
        for end in ends:
            egraph.union(end, forms.add(egraph, end))
        egraph.flush()
    return len(ends)


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


class _Forms(dict[int, _Form]):
    """Handle -> form, of the e-nodes that are more than a base."""

    def __init__(
        self, vocabulary: Vocabulary, first: int, type_ids: Array[np.int64], nodes: Sequence[_Node], fold: Fold
    ):
        super().__init__()
        self.vocabulary = vocabulary
        self.fold = fold
        self._type_ids = dict(enumerate(type_ids.tolist(), first))
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
        for name, constant in (("transpose", None), ("multiply", form.scale), ("add", form.shift)):
            op = Op.get(name)
            if name == "transpose" and form.turn is not None:
                attrs = make_attrs(op, {"axes": form.turn})
                ty = call_type(op, attrs, [ty])
                yield name, attrs, None, ty
            elif constant is not None:
                ty = call_type(op, None, [ty, self._constant_type(constant)])
                yield name, None, constant, ty

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
        ty = self._type(handle)
        fields = ty.fields if isinstance(ty, TupleType) else [ty]
        return all(isinstance(each, TensorType) and is_static(each) and each.dtype in _FLOATS for each in fields)

    def _constant_type(self, constant: int) -> TensorType:
        array = self._array(constant)
        return TensorType(array.shape, array.dtype.name)

    def _array(self, constant: int) -> Array[Any]:
        array: Array[Any] = self.vocabulary.atoms[constant].value.data.numpy()
        return array

    def _filled(self, value: float, like: int) -> int:
        """A number of the dtype of a handle."""
        return self.vocabulary.constant(Constant(np.asarray(value).astype(self._tensor(like).dtype)))

    def _computed(self, name: str, *constants: int | None, **attrs: Any) -> int | None:
        """An operator of constants; None where an operand or the result is none, or no finite numbers."""
        if None in constants:
            return None
        op = Op.get(name)
        index = self.vocabulary.symbol(Symbol("call", op, len(constants)))
        found = self.fold(index, self.vocabulary.attributes(make_attrs(op, attrs)), *constants)
        return found[0] if found is not None and np.all(np.isfinite(self._array(found[0]))) else None

    def _is_scale(self, constant: int | None) -> bool:
        """Whether numbers may be a scale: none is lost to underflow, as 0 would be that is none in real numbers."""
        if constant is None:
            return False
        array = self._array(constant)
        return bool(np.all(np.abs(array) >= finfo(array.dtype).tiny))

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
        if name == "negative":
            return self._opposite(data)
        if name == "nn.batch_norm" and None not in others:
            return self._normalized(data, children[0], value, others)
        if name == "nn.bias_add" and None not in others:
            return self._shifted(data, self._along(others[0], children[0], value.axis))
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
        shift = by if form.shift is None else self._computed("add", form.shift, by)
        return None if shift is None else form._replace(shift=shift)

    def _scaled(self, form: _Form, by: int | None, name: str = "multiply") -> _Form | None:
        unit = self._filled(1.0, form.base) if form.scale is None else form.scale
        scale = self._computed(name, unit, by)
        shift = None if form.shift is None else self._computed(name, form.shift, by)
        if not self._is_scale(scale) or (shift is None) != (form.shift is None):
            return None
        return form._replace(scale=scale, shift=shift)

    def _opposite(self, form: _Form) -> _Form | None:
        return self._scaled(form, self._filled(-1.0, form.base))

    def _both(self, one: _Form, other: _Form) -> _Form | None:
        """A sum of forms of one base, whose scales have one sign: where they differ, an infinite base becomes NaN."""
        unit = self._filled(1.0, one.base)
        scales = [unit if each.scale is None else each.scale for each in (one, other)]
        signs = {sign for scale in scales for sign in np.unique(np.sign(self._array(scale))).tolist()}
        scale = self._computed("add", *scales)
        if (one.base, one.turn) != (other.base, other.turn) or len(signs) != 1 or not self._is_scale(scale):
            return None
        scaled = one._replace(scale=scale)
        return scaled if other.shift is None else self._shifted(scaled, other.shift)

    def _turned(self, form: _Form, shape: Sequence[int], attrs: Attrs) -> _Form | None:
        """A form of that shape whose axes are in another order."""
        before = tuple(range(len(shape))) if form.turn is None else form.turn
        base = self._shape(form.base)
        if len(before) != len(base) or list(shape) != [base[axis] for axis in before]:
            return None  # the constants have axes that the base has not
        axes = [axis % len(shape) for axis in (range(len(shape))[::-1] if attrs.axes is None else attrs.axes)]
        moved = [self._moved(each, axes) for each in (form.scale, form.shift)]
        if [each is None for each in moved] != [form.scale is None, form.shift is None]:
            return None
        turn = tuple([before[axis] for axis in axes])
        return form._replace(turn=None if turn == tuple(range(len(turn))) else turn, scale=moved[0], shift=moved[1])

    def _moved(self, constant: int | None, axes: Sequence[int]) -> int | None:
        """A constant beside what is transposed; one without axes stays."""
        if constant is None or not self._array(constant).shape:
            return constant
        shape = self._array(constant).shape
        if len(shape) < len(axes):
            constant = self._computed("reshape", constant, newshape=(1,) * (len(axes) - len(shape)) + shape)
        return self._computed("transpose", constant, axes=axes)

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
