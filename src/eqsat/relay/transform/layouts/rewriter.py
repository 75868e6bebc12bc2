"""Calls are rewritten with other layouts from the arguments on; layouts are changed back only where they must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.op import expand_dims, layout_transform
from eqsat.relay.transform.layouts.inference import inferred
from eqsat.relay.transform.layouts.layout import Known, Layout, can_change, expanded
from eqsat.relay.ty import TupleType, Type, is_static
from eqsat.relay.visitor import post_order, rebuild

Alter: TypeAlias = Callable[[Call, Any, list[Expr]], Any]
"""``alter(call, attrs, args)`` gives a call, typed as it was written, the form that is wanted, with such attributes and
arguments; None stands for the same operator with them."""


@dataclass(frozen=True, eq=False)
class Altered:
    """A value that may have another layout than as it was written."""

    value: Expr
    old: Known = None
    new: Known = None


State: TypeAlias = Altered | list[Altered]
"""What a node was rewritten to; a list for a tuple of several values."""


class LayoutRewriter:
    """Rewrites a typed function.

    Args:
        alter: gives calls the form, and with it the layouts, that are wanted.
    """

    def __init__(self, alter: Alter):
        self.alter = alter
        self.states: dict[Expr, State] = {}
        self.whole: dict[Expr, Expr] = {}
        self.changed: dict[tuple[Expr, Layout, Layout], Expr] = {}

    def run(self, function: Function) -> Expr:
        for node in post_order(function):
            self.states[node] = self._rewritten(node)
        return self._as_written(function)

    def _rewritten(self, node: Expr) -> State:
        if isinstance(node, Tuple):
            fields = [self.states[field] for field in node.fields]
            if all(isinstance(field, Altered) for field in fields):
                return fields  # type: ignore[return-value]
        elif isinstance(node, TupleGetItem):
            fields = self.states[node.tuple_value]  # type: ignore[assignment]
            if isinstance(fields, list):
                return fields[node.index]
        elif isinstance(node, Call) and isinstance(node.op, Op):
            found = self._call(node, node.op)
            if found is not None:
                return found
        return Altered(self._over_written(node))

    def _over_written(self, node: Expr) -> Expr:
        """``node`` over its children in the layouts that they were written in."""
        return rebuild(node, {child: self._as_written(child) for child in node.children()})

    def _as_written(self, node: Expr) -> Expr:
        if node not in self.whole:
            state = self.states[node]
            if isinstance(state, Altered):
                self.whole[node] = self._in_layout(state.value, state.new, state.old)
            else:
                fields = [self._in_layout(field.value, field.new, field.old) for field in state]
                old = node.fields if isinstance(node, Tuple) else ()
                same = len(old) == len(fields) and all(map(lambda a, b: a is b, old, fields))
                self.whole[node] = node if same else Tuple(fields)
        return self.whole[node]

    def _in_layout(self, value: Expr, source: Known, target: Known) -> Expr:
        """A value of one layout in another; axes that it lacks are added in front, unless it is a single element."""
        if source is None or target is None or source == target:
            return value
        key = (value, source, target)
        if key not in self.changed:
            self.changed[key] = self._changed(value, source, target)
        return self.changed[key]

    def _changed(self, value: Expr, source: Layout, target: Layout) -> Expr:
        missing = len(target.axes) - len(source.axes)
        if missing > 0:
            ty = value._checked_type
            if is_static(ty) and prod(ty.concrete_shape) == 1:
                return value
            value, source = expand_dims(value, 0, missing), expanded(source, target)
        result: Expr = value if source == target else layout_transform(value, source.name, target.name)
        return result

    # ---- calls

    def _call(self, call: Call, op: Op) -> State | None:
        """The call in the layouts that fit it best; None if it takes none but those it was written in."""
        states = [self.states[arg] for arg in call.args]
        given = [each for state in states for each in (state if isinstance(state, list) else [state])]
        types = [arg.checked_type for arg in call.args]
        before = inferred(op, call.attrs, None, [each.old for each in given], types)
        if before is None:
            return self._without_rule(call)
        wanted: Sequence[Any] = before.input_layouts
        args = [Tuple([each.value for each in state]) if isinstance(state, list) else state.value for state in states]
        made = self._altered(call, before.new_attrs, args)
        if not isinstance(made.op, Op) or len(wanted) != len(given):
            return None
        new = [each.new or layout for each, layout in zip(given, wanted, strict=True)]
        old = [each.old or layout for each, layout in zip(given, wanted, strict=True)]
        after = inferred(made.op, made.attrs, new, old, types)
        if after is None or len(after.input_layouts) != len(given):
            return None
        if len(after.output_layouts) != len(before.output_layouts):
            raise _mismatch(call, made)
        plan = [
            self._steps(each, here, there) for each, here, there in zip(given, wanted, after.input_layouts, strict=True)
        ]
        back = zip(after.output_layouts, before.output_layouts, strict=True)
        if not all(can_change(*step) for step in [*back, *[step for steps in plan for step in steps]]):
            return None
        result = Call(made.op, self._arguments(made.args, plan), after.new_attrs, span=call.span)
        outputs = list(zip(before.output_layouts, after.output_layouts, strict=True))
        if isinstance(call.checked_type, TupleType):
            return [Altered(TupleGetItem(result, index), *pair) for index, pair in enumerate(outputs)]
        return Altered(result, *outputs[0])

    def _without_rule(self, call: Call) -> State | None:
        """Operators of which no layouts are known are altered in those they were written in."""
        made = self.alter(call, call.attrs, [self._as_written(arg) for arg in call.args])
        return None if made is None else Altered(_checked(call, made))

    def _altered(self, call: Call, attrs: Any, args: list[Expr]) -> Call:
        made = self.alter(call, attrs, args)
        return Call(call.op, args, attrs) if made is None else _checked(call, made)

    def _steps(self, given: Altered, before: Layout, after: Layout) -> list[tuple[Layout, Layout]]:
        """The changes of layout that take an argument to the one in which a call now sees it.

        A call may see a tensor in another layout than what computes it: then it is changed back first.
        """
        if given.old == before:
            return [(given.new or before, after)]
        back = [] if given.old is None or given.new is None else [(given.new, given.old)]
        return [*back, (before, after)]

    def _arguments(self, args: Sequence[Expr], plan: list[list[tuple[Layout, Layout]]]) -> list[Expr]:
        steps = iter(plan)

        def through(value: Expr) -> Expr:
            for source, target in next(steps):
                value = self._in_layout(value, source, target)
            return value

        return [Tuple(list(map(through, arg.fields))) if isinstance(arg, Tuple) else through(arg) for arg in args]


def _name(call: Call) -> str:
    return call.op.name if isinstance(call.op, Op) else "a function"


def _checked(call: Call, made: Any) -> Call:
    if not isinstance(made, Call):
        raise PassError(f"a call of {_name(call)} can only be altered to another call, not to {made!r}")
    if len(made.args) != len(call.args):
        raise _mismatch(call, made)
    return made


def _mismatch(call: Call, made: Call) -> PassError:
    return PassError(
        f"a call of {_name(call)} was altered to one of {_name(made)} of another number of arguments or outputs"
    )


def types_of_tensors(call: Call) -> list[Type]:
    """The types of the arguments; those of the fields of tuples one by one."""
    types = [arg.checked_type for arg in call.args]
    return [each for ty in types for each in (ty.fields if isinstance(ty, TupleType) else (ty,))]
