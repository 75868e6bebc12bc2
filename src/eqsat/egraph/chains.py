"""Chains of sums, products, maxima and minima with constants become one of each, in one walk over the given graph.

Rules by which constants meet take a chain apart link by link where each link is a sum of two that come from one value,
and every step is a run of the engine. Here each node is told as ``base * scale + shift`` between two bounds, from what
is told so of its operands. Scalars also leave sums and products with what comes from elsewhere. What ends a long chain
gets that form as e-nodes, and rules no longer see the links, which nothing else reads. What ends a short one gets it
beside what it is, where rules would not find it: bounds do not pass scales and shifts by rules. Transposes and views
leave long runs of elementwise operators before (:mod:`eqsat.egraph.view_runs`). Sums and products of integers wrap, and
so are exact, but no bound passes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from eqsat.egraph.bases import MATRIX_PRODUCTS, POOLS, WEIGHING
from eqsat.egraph.given_graph import Composed, GivenGraph, Node
from eqsat.egraph.runs import Runs, is_static_number
from eqsat.egraph.scales import is_moderate, is_scale
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.op.nn.window import SPATIAL, channels_first, takes_data_only
from eqsat.relay.ty import TensorType, TupleType

_MOST = 2.0**53
"""The whole numbers below are floats."""

LONG = 32
"""Links from which on a chain is composed. On a shorter one rules are quick, and they know more ways to write it."""

_SCALE, _SHIFT, _CLIP, _LOW, _HIGH = "scale", "shift", "clip", "low", "high"
_STEPS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "subtract", "nn.bias_add"), (_SHIFT,)),
    **dict.fromkeys(("multiply", "divide", "negative"), (_SCALE,)),
    **dict.fromkeys(("nn.relu", "clip"), (_CLIP,)),
    "maximum": (_LOW,),
    "minimum": (_HIGH,),
    "nn.batch_norm": (_SCALE, _SHIFT),
}
"""What operators do in a chain; maxima and minima with numbers are clips."""


class Form(NamedTuple):
    """A value as ``minimum(maximum(core * scale + shift, low), high)``.

    Attributes:
        core: The handle of what it comes from, or a draft.
        scale, shift: Atoms of constants that broadcast against the value; None: 1 and 0.
        low, high: Bounds, too, the lower one first; None: there is none.
        links: The e-nodes of the longest way from where the first chain began.
        before: The calls that rules would leave of what comes before the last steps.
        last: The last steps, which rules make one of each kind of.
    """

    core: int
    scale: int | None = None
    shift: int | None = None
    low: int | None = None
    high: int | None = None
    links: int = 0
    before: int = 0
    last: tuple[str, ...] = ()


def _followed(form: Form, steps: Sequence[str]) -> Form:
    """A form with what is told of its steps after further ones."""
    before, last = form.before, form.last
    for step in steps:
        is_affine = step in (_SCALE, _SHIFT)
        meets = last and is_affine == (last[-1] in (_SCALE, _SHIFT)) and (is_affine or step not in last[:-1])
        if not meets:
            before, last = before + len(last), ()
        if step not in last:
            last = (*last, step)
    return form._replace(before=before, last=last)


def _is_bounded(form: Form) -> bool:
    return form.low is not None or form.high is not None


def _each(form: Form, places: Sequence[str], change: Callable[[int], int | None]) -> dict[str, Any]:
    """What becomes of the constants that a form has at some places."""
    return {place: change(constant) for place in places if (constant := getattr(form, place)) is not None}


def compose_chains(graph: GivenGraph) -> list[Composed]:
    """Compose the chains of a graph; what they became."""
    return Chains(graph).make()


class Chains(Runs[Form]):
    """The chains of sums, products, maxima and minima with constants."""

    def __init__(self, graph: GivenGraph):
        self._computed = graph.computed
        self._array = graph.array
        self._are_numbers: dict[int, bool] = {}  # by types
        symbols = graph.vocabulary.symbols
        self._large: set[int] = set()  # of constants, too large to be computed now
        self._absorbing: set[int] = set()  # products with constant weights
        self._variables = {node.handle for node in graph.nodes if symbols[node.symbol].kind == "var"}
        super().__init__(graph)

    def follow(self, node: Node, name: str, op: Op | None, value: Any) -> None:
        graph, children = self.graph, node.children
        if not all(map(self._holds_numbers, children[1:] if name == "where" else children)):
            return
        constants = [graph.constants.get(child) for child in children]
        if all(child in graph.constants or child in self._large for child in children):
            self._large.add(node.handle)
        elif name in WEIGHING and all(child in graph.constants or child in self._large for child in children[1:]):
            self._absorbing.add(node.handle)
        chained, alone = [self.get(child, Form(child)) for child in children], list(map(Form, children))
        for forms in (chained, alone):  # a chain begins anew where its constants would overflow
            form = self._form(name, value, forms, children, constants)
            if form is None and name in POOLS:
                form = self._pooled(node, value, forms[0])
            if form is not None:
                links = max(each.links for each in chained) + 1
                is_clip = name in ("maximum", "minimum") and any(self._number(each) is not None for each in constants)
                self[node.handle] = _followed(form, (_CLIP,) if is_clip else _STEPS.get(name, ()))._replace(links=links)
                if forms is chained and not self.keys().isdisjoint(children):
                    self.within.add(node.handle)
                break

    def is_worth(self, handle: int) -> bool:
        """Whether a chain is long, or is shorter once bounds have passed what comes after them."""
        form = self[handle]
        if form.links < LONG and len(self._calls(form)) >= form.before + len(form.last):
            return False
        return self.type(self.written(form)) == self.type(handle)  # nothing that broadcasts is lost

    def hides(self, run: Form) -> bool:
        return run.links >= LONG

    def written(self, run: Form) -> int:
        result = run.core
        for name, attrs, constant in self._calls(run):
            operands = [result] if constant is None else [result, self.draft_constant(constant)]
            result = self.draft_call(name, operands, **attrs)
        return result

    def _calls(self, form: Form) -> list[tuple[str, dict[str, Any], int | None]]:
        """The calls of a form, innermost first: operator, attributes, and the atom of a second operand."""
        low, high = self._number(form.low), self._number(form.high)
        if self._wraps(form.core) and None in (low, high):
            low = high = None  # a bound of integers is infinite nowhere
        calls: list[tuple[str, dict[str, Any], int | None]] = [
            (name, {}, constant)
            for name, constant in (
                ("multiply", form.scale),
                ("add", form.shift),
                ("maximum", form.low if low is None else None),
                ("minimum", form.high if high is None else None),
            )
            if constant is not None
        ]
        if low is not None or high is not None:
            bounds = {"a_min": -math.inf if low is None else low, "a_max": math.inf if high is None else high}
            calls.append(("clip", bounds, None))
        return calls

    # ---- what is known of e-nodes and constants

    def _tensor(self, handle: int) -> TensorType:
        """The type of a handle whose type is that of a tensor."""
        ty = self.type(handle)
        assert isinstance(ty, TensorType)
        return ty

    def _shape(self, handle: int) -> tuple[int, ...]:
        return self._tensor(handle).concrete_shape

    def _holds_numbers(self, handle: int) -> bool:
        ty = self.type(handle)
        if id(ty) not in self._are_numbers:  # a tuple of many fields is asked for by each projection of it
            fields = ty.fields if isinstance(ty, TupleType) else [ty]
            self._are_numbers[id(ty)] = all(map(is_static_number, fields))
        return self._are_numbers[id(ty)]

    def _number(self, constant: int | None) -> float | None:
        """The only number of a constant without axes, if a float can say it."""
        if constant is None or self._array(constant).shape:
            return None
        number = float(self._array(constant))
        return number if abs(number) < _MOST or not self._is_whole(constant) else None

    def _is_whole(self, constant: int) -> bool:
        return self._array(constant).dtype.kind in "iu"

    def _wraps(self, handle: int) -> bool:
        """Whether a value is of integers: their sums and products are modulo a power of two, and keep no order."""
        return "int" in self._tensor(handle).dtype

    def _filled(self, value: float, like: int) -> int:
        """A number of the dtype of a handle."""
        return self.graph.filled(int(value) if self._wraps(like) else value, self._tensor(like).dtype)

    def _has_scale(self, form: Form) -> bool:
        """Whether the scale of a form is one that loses nothing, and is nowhere 0."""
        if form.scale is None or self._is_whole(form.scale):
            return form.scale is not None
        scale, shift = self._array(form.scale), None if form.shift is None else self._array(form.shift)
        return bool(np.all(scale)) and is_scale(scale, shift, scale.dtype)

    # ---- forms

    def _form(
        self,
        name: str,
        value: Any,
        forms: Sequence[Form],
        children: Sequence[int],
        constants: Sequence[int | None],
    ) -> Form | None:
        """The form of an e-node over forms of its children; None where it is a base."""
        data, others = forms[0], constants[1:]
        if name == "project":
            return data if value == 0 and data.core != children[0] else None
        if name == "negative":
            return self._opposite(data)
        if name == "nn.batch_norm" and None not in others:
            return self._normalized(data, children[0], value, others)
        if name == "nn.bias_add" and None not in others:
            return self._shifted(data, self._along(others[0], children[0], value.axis))
        if name == "nn.relu":
            return self._bounded(data, "maximum", self._filled(0.0, data.core))
        if name == "clip":
            return self._clipped(data, value)
        if name in ("maximum", "minimum") and any(each is not None for each in constants):
            number = 0 if constants[0] is not None else 1
            return self._bounded(forms[1 - number], name, constants[number])
        if name == "divide" and self._wraps(children[0]):
            return None
        if name in ("multiply", "divide") and None not in others:
            return self._scaled(data, others[0], name)
        if name == "multiply" and constants[0] is not None:
            return self._scaled(forms[1], constants[0])
        if name in ("multiply", "divide", *MATRIX_PRODUCTS) and constants == [None, None]:
            return self._without_scalars(name, value, forms)
        if name in ("add", "subtract"):
            return self._sum(name, forms, constants)
        if name in ("maximum", "minimum"):
            found = self._one_of(forms, partial(self._extreme, name), chooses_shift=True)
            return found or self._scaled_alike(name, forms)
        if name == "where" and constants[0] is not None:
            return self._one_of(forms[1:], partial(self._computed, "where", constants[0]))
        return None

    def _one_of(
        self, forms: Sequence[Form], choose: Callable[[int, int], int | None], chooses_shift: bool = False
    ) -> Form | None:
        """What chooses between two forms of one base: such a form, by what it chooses of their scales and shifts.

        Args:
            forms: The two.
            choose: Finds what is chosen of two constants.
            chooses_shift: Whether it does so only where the scales are equal.
        """
        one, other = forms
        if one.core != other.core or any(map(_is_bounded, forms)) or (chooses_shift and self._wraps(one.core)):
            return None
        if chooses_shift and one.scale != other.scale:
            return None
        found: dict[str, Any] = {}
        for place, neutral in (("scale", 1.0), ("shift", 0.0)):
            pair = [getattr(each, place) for each in forms]
            if pair[0] != pair[1]:
                found[place] = choose(*[self._filled(neutral, one.core) if each is None else each for each in pair])
        if not found or None in found.values():
            return None
        calls = sum(each.before + len(each.last) for each in forms) + 1
        chosen = one._replace(**found, before=calls, last=())
        return chosen if chosen.scale is None or self._has_scale(chosen) else None

    def _pooled(self, node: Node, attrs: Attrs, form: Form) -> Form | None:
        """A pool, which constants pass that lie along channels: a maximum of what grows, and averages of products."""
        of, result = self._tensor(form.core), self.type(node.handle)
        rank, constants = len(of.shape), [self._array(each) for each in form[1:5] if each is not None]
        if (
            rank - 2 not in SPATIAL
            or not isinstance(result, TensorType)
            or attrs.layout != channels_first(rank - 2)
            or not constants
            or self._wraps(form.core)
        ):
            return None
        if any(dim != 1 for array in constants for dim in array.shape[::-1][: rank - 2]):
            return None
        scale = np.ones(()) if form.scale is None else self._array(form.scale)
        is_bounded, is_shifted = _is_bounded(form), form.shift is not None
        if "max" in self.graph.vocabulary.symbols[node.symbol].name:
            passes = bool(np.all(scale > 0)) and (not is_bounded or takes_data_only(attrs, of))
        else:
            passes = is_moderate(scale) and not is_bounded and (not is_shifted or takes_data_only(attrs, of))
        return form._replace(core=self.draft(node.symbol, node.atom, [form.core], result)) if passes else None

    def _sum(self, name: str, forms: Sequence[Form], constants: Sequence[int | None]) -> Form | None:
        one, other = forms
        if constants[1] is not None:
            by = constants[1] if name == "add" else self._computed("negative", constants[1])
            return self._shifted(one, by)
        second = other if name == "add" else self._opposite(other)
        if constants[0] is not None:
            return second and self._shifted(second, constants[0])
        together = second and self._both(one, second)
        is_of_one = one.core == other.core and not any(map(_is_bounded, forms))  # else its constants overflow
        if together or is_of_one:
            return together
        return self._scaled_alike(name, forms) or self._without_shifts(name, forms)

    def _scaled_alike(self, name: str, forms: Sequence[Form]) -> Form | None:
        """A sum or extreme of what varies and is scaled alike, which the scale leaves, and with it shifts.

        It does not where a weight takes it in.
        """
        one, other = forms
        takes_in = not self._absorbing.isdisjoint([one.core, other.core])
        if one.scale != other.scale or takes_in or any(map(_is_bounded, forms)):
            return None
        scale = None if one.scale is None else self._array(one.scale)
        if name in ("add", "subtract"):
            if scale is None or not is_moderate(scale):
                return None
            zero = self._filled(0.0, one.core)
            shift = self._computed(name, *[zero if each.shift is None else each.shift for each in forms])
            leaves = shift is not None
        else:
            if self._wraps(one.core):
                return None
            shift = one.shift
            is_none = scale is None and shift is None
            leaves = not is_none and shift == other.shift and (scale is None or bool(np.all(scale > 0)))
        if not leaves:
            return None
        calls = sum(each.before + len(each.last) for each in forms)
        core = self.draft_call(name, [each.core for each in forms])
        has_shift = any(each.shift is not None for each in forms)
        return Form(core, one.scale, shift if has_shift else None, before=calls)

    def _without_shifts(self, name: str, forms: Sequence[Form]) -> Form | None:
        """A sum of what varies, which the scalars leave that its terms are shifted by."""
        leave = [self._number(form.shift) is not None and not _is_bounded(form) for form in forms]
        if not any(leave):
            return None
        terms = [form._replace(shift=None) if leaves else form for form, leaves in zip(forms, leave, strict=True)]
        zero = self._filled(0.0, forms[0].core)
        shifts = [form.shift if leaves else zero for form, leaves in zip(forms, leave, strict=True)]
        shift = self._computed(name, *shifts)
        return None if shift is None else Form(self.draft_call(name, [*map(self.written, terms)]), shift=shift)

    def _without_scalars(self, name: str, attrs: Attrs | None, forms: Sequence[Form]) -> Form | None:
        """A product or quotient of what varies, which the scalars leave that its factors are scaled by.

        They leave products of powers of one value, and those with a variable. If they left others, they would move into
        what follows: a chain of GELUs would be one no more.
        """
        if any(form.shift is not None or _is_bounded(form) for form in forms):
            return None
        factors = [self._factors(form.core) for form in forms]
        if factors[0].isdisjoint(factors[1]) and not any(form.core in self._variables for form in forms):
            return None
        leave = [self._has_scalar(form) for form in forms]
        if name == "divide":
            leave[1] = False
        if not any(leave):
            return None
        rest = [form._replace(scale=None) if leaves else form for form, leaves in zip(forms, leave, strict=True)]
        scales = [form.scale for form, leaves in zip(forms, leave, strict=True) if leaves]
        scale = scales[0] if len(scales) == 1 else self._computed("multiply", *scales)
        if scale is None:
            return None
        if attrs is not None and attrs.get("out_dtype"):
            return None
        calls = len(scales) if name in MATRIX_PRODUCTS else 0  # rules move them past other products
        product = self.draft_call(name, [*map(self.written, rest)], **({} if attrs is None else dict(attrs)))
        found = Form(product, scale, before=calls)
        return found if self._has_scale(found) else None

    def _factors(self, core: int) -> set[int]:
        """What a core is a product of, if that was told here, and the core."""
        return {core, *(self._drafts[-1 - core].children if core < 0 else ())}

    def _has_scalar(self, form: Form) -> bool:
        """Whether a form is a product with a scalar that may leave further products of it."""
        if form.scale is None or self._number(form.scale) is None:
            return False
        scale = self._array(form.scale)
        return scale.dtype.itemsize >= 4 and is_moderate(scale)

    def _shifted(self, form: Form, by: int | None) -> Form | None:
        if _is_bounded(form) and self._wraps(form.core):
            return None
        found = _each(form, ("shift", "low", "high"), lambda constant: self._computed("add", constant, by))
        found.setdefault("shift", by)
        return None if None in found.values() else form._replace(**found)

    def _scaled(self, form: Form, by: int | None, name: str = "multiply") -> Form | None:
        unit = self._filled(1.0, form.core) if form.scale is None else form.scale
        scale = self._computed(name, unit, by)
        if by is None or scale is None or (_is_bounded(form) and self._wraps(form.core)):
            return None
        found = self._with_bounds_scaled(form._replace(scale=scale), by, name)
        found = found and self._multiplied(found, ("shift",), name, by)
        return found if found is not None and self._has_scale(found) else None

    def _with_bounds_scaled(self, form: Form, by: int, name: str) -> Form | None:
        if np.all(self._array(by) > 0) or not _is_bounded(form):
            return self._multiplied(form, ("low", "high"), name, by)
        # where a number is negative, the lower bound becomes the upper one
        bounds = [self._filled(-np.inf, form.core) if form.low is None else form.low]
        bounds += [self._filled(np.inf, form.core) if form.high is None else form.high]
        first, second = [self._product(name, bound, by) for bound in bounds]
        form = form._replace(low=self._extreme("minimum", first, second), high=self._extreme("maximum", first, second))
        return None if None in (form.low, form.high) else form

    def _multiplied(self, form: Form, places: Sequence[str], name: str, by: int) -> Form | None:
        found = _each(form, places, lambda constant: self._product(name, constant, by))
        return None if None in found.values() else form._replace(**found)

    def _product(self, name: str, constant: int, by: int) -> int | None:
        """A product or quotient of constants; zeros stay what they are."""
        return self._computed(name, constant, by) if np.any(self._array(constant)) else constant

    def _bounded(self, form: Form, name: str, by: int | None) -> Form | None:
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

    def _clipped(self, form: Form, attrs: Attrs) -> Form | None:
        found: Form | None = form
        if not attrs.a_min <= attrs.a_max:
            return None
        for name, bound in (("maximum", attrs.a_min), ("minimum", attrs.a_max)):
            if found is not None and np.isfinite(bound):
                found = self._bounded(found, name, self._filled(self._in_range(bound, form.core), form.core))
        return found

    def _in_range(self, bound: float, of: int) -> float:
        """A bound of a clip as it is for a value: that of integers is one of their range."""
        if not self._wraps(of):
            return bound
        limits = np.iinfo(self._tensor(of).dtype)
        return min(max(int(bound), int(limits.min)), int(limits.max))

    def _opposite(self, form: Form) -> Form | None:
        return self._scaled(form, self._filled(-1.0, form.core))

    def _both(self, one: Form, other: Form) -> Form | None:
        """A sum of forms of one base, whose scales have one sign: where they differ, an infinite base becomes NaN."""
        if one[:5] == other[:5]:
            return self._scaled(one, self._filled(2.0, one.core))
        if _is_bounded(one) or _is_bounded(other):
            return None
        unit = self._filled(1.0, one.core)
        scales = [unit if each.scale is None else each.scale for each in (one, other)]
        signs = {sign for scale in scales for sign in np.unique(np.sign(self._array(scale))).tolist()}
        scale = self._computed("add", *scales)
        if one.core != other.core or (len(signs) != 1 and not self._wraps(one.core)) or scale is None:
            return None
        found: Form | None = one._replace(scale=scale)
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

    def _normalized(self, form: Form, child: int, attrs: Attrs, parameters: Sequence[int | None]) -> Form | None:
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
