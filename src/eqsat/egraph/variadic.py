"""Rules over any number of fields: for each number that an e-graph has, a rule over as many.

A tuple pattern with ``many()`` among its fields is matched in the e-graph as a pattern of a fixed number of fields, of
which there is one for each *layout* that its tuples can have. All that compiles and runs rules sees the rules of fixed
numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from eqsat.egraph.rule import Compute, Distinct, Guard, Like, NonConstant, Numbers, Ref, Rewrite
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import AttrPattern, DFPattern, ManyPattern, TuplePattern
from eqsat.relay.dataflow_pattern.language import Copy, subpatterns
from eqsat.relay.expr import Expr
from eqsat.relay.visitor import children_first

Field: TypeAlias = tuple[DFPattern, Copy | None]
"""What matches one field of a tuple, and of which copy of a repetition it is the pattern."""

Layout: TypeAlias = Mapping[TuplePattern, tuple[Field, ...]]
"""The fields of each tuple pattern that has repetitions; outer tuples first."""

Scope: TypeAlias = Mapping[DFPattern, DFPattern]
"""Repeated pattern -> its copy for the field that is being built."""


@lru_cache(maxsize=1 << 14)
def is_variadic(pattern: DFPattern) -> bool:
    """Whether there are repetitions in a pattern."""
    return any(isinstance(part, ManyPattern) for part in subpatterns(pattern))


def outer_tuples(roots: Iterable[DFPattern]) -> list[TuplePattern]:
    """The tuple patterns with repetitions that are not themselves repeated."""
    found: dict[DFPattern, None] = {}
    stack = [root for root in roots if is_variadic(root)]
    while stack:
        pattern = stack.pop()
        if pattern not in found and not isinstance(pattern, ManyPattern):
            found[pattern] = None
            stack += reversed(pattern.children())
    return [pattern for pattern in found if isinstance(pattern, TuplePattern) and pattern.repetitions]


def laid_out(
    pattern: TuplePattern, counts: Sequence[int], takes: Callable[[DFPattern], bool] = lambda some: False
) -> tuple[Field, ...]:
    """The fields of a tuple pattern where its repetitions stand for so many fields each.

    ``takes`` says whether a field matches the pattern, given to it, that only some fields must match.
    """
    found: list[Field] = []
    for field in pattern.arranged(counts):
        if not isinstance(field, Copy):
            found.append((field, None))
        elif field.some is not None and takes(field.some):
            found.append((field.some, field))
        else:
            found.append((field.pattern, field))
    return tuple(found)


def lay_out(roots: Iterable[DFPattern], fields_of: Callable[[TuplePattern], tuple[Field, ...] | None]) -> Layout:
    """The layout with the fields that ``fields_of`` gives for each tuple pattern, without those it gives None for."""
    layout: dict[TuplePattern, tuple[Field, ...]] = {}
    waiting = outer_tuples(roots)
    while waiting:
        whole = waiting.pop()
        fields = fields_of(whole)
        if fields is not None:
            layout[whole] = fields
            waiting += outer_tuples([pattern for pattern, copy in fields if copy is not None])
    return layout


def smallest_layout(roots: Iterable[DFPattern]) -> Layout:
    """A layout with few fields in which all patterns inside repetitions take part."""

    def fields_of(whole: TuplePattern) -> tuple[Field, ...]:
        firsts = {many.copy(0).some for many in whole.repetitions}
        return laid_out(whole, [1 if many.some is None else 2 for many in whole.repetitions], firsts.__contains__)

    return lay_out(roots, fields_of)


def matched_layout(roots: Iterable[DFPattern], node_map: Mapping[DFPattern, Sequence[Expr]]) -> Layout:
    """The layout with which patterns, and copies of them, matched what ``node_map`` says."""

    def fields_of(whole: TuplePattern) -> tuple[Field, ...] | None:
        if whole not in node_map:
            return None
        return laid_out(whole, [len(node_map.get(many, ())) for many in whole.repetitions], node_map.__contains__)

    return lay_out(roots, fields_of)


def arrangements_like(layout: Layout) -> Iterator[Layout]:
    """A layout, then those where a tuple's fields are shared out otherwise among several repetitions."""
    if layout:
        yield layout
    for whole, fields in layout.items():
        if len(whole.repetitions) > 1:
            for counts in whole.arrangements(len(fields)):
                if laid_out(whole, counts) != fields:
                    yield {**layout, whole: laid_out(whole, counts)}


class Expansion:
    """The patterns of a left side with a fixed number of fields, and right sides over them.

    Attributes:
        fixed: pattern of the left side, or copy of one -> the pattern in its place.
        fields: repetition -> the fields that it stands for.
        repetition: pattern -> the repetition that has copies of it.
    """

    def __init__(self, roots: Sequence[DFPattern], layout: Layout):
        self.fields: dict[DFPattern, list[tuple[DFPattern, Copy]]] = {}
        self.repetition: dict[DFPattern, ManyPattern] = {}
        for whole, fields in layout.items():
            for many in whole.repetitions:
                copies = [(pattern, copy) for pattern, copy in fields if copy is not None]
                self.fields[many] = [(pattern, copy) for pattern, copy in copies if copy.many is many]
                for inner in many.own:
                    self.repetition.setdefault(inner, many)
        self.fixed: dict[DFPattern, DFPattern] = {}
        self._built: dict[tuple[DFPattern, tuple[DFPattern, ...]], DFPattern] = {}

        def children(pattern: DFPattern) -> Sequence[DFPattern]:
            if isinstance(pattern, TuplePattern) and pattern in layout:
                return [field for field, _ in layout[pattern]]
            return pattern.children()

        for pattern in children_first(roots, children):
            below = children(pattern)
            new = [self.fixed[child] for child in below]
            if pattern in layout:
                self.fixed[pattern] = TuplePattern(new)
            else:
                self.fixed[pattern] = pattern if new == list(below) else pattern.with_children(new)

    def occurrences(self, pattern: DFPattern) -> list[DFPattern]:
        """What stands in the place of ``pattern``: one pattern for each field where it takes part."""
        many = self.repetition.get(pattern)
        if many is None:
            return [self.fixed[pattern]] if pattern in self.fixed else []
        return [found for _, copy in self.fields[many] for found in self.occurrences(copy.of[pattern])]

    def build(self, template: DFPattern, scope: Scope) -> DFPattern:
        """A part of a right side with a fixed number of fields."""
        matched = scope.get(template, template)
        if matched in self.fixed:
            return self.fixed[matched]
        key = (template, tuple(scope.values()))
        if key not in self._built:
            self._built[key] = self._new(template, scope)
        return self._built[key]

    def spread(
        self, function: Callable[..., Any], refs: Sequence[Ref], scope: Scope
    ) -> tuple[Callable[..., Any], tuple[Ref, ...]]:
        """A function of what ``refs`` refer to, and the references.

        Of a repeated pattern the function is given a tuple, of what is asked for in each field.
        """
        sizes: list[int | None] = []
        found: list[Ref] = []
        for ref in refs:
            pattern = scope.get(ref.pattern, ref.pattern)
            is_repeated = pattern in self.repetition
            parts = self.occurrences(pattern) if is_repeated else [self.fixed.get(pattern, pattern)]
            sizes.append(len(parts) if is_repeated else None)
            found += [Ref(ref.kind, part) for part in parts]
        if all(size is None for size in sizes):
            return function, tuple(found)

        def gathered(*values: Any) -> Any:
            rest = iter(values)
            return function(*[next(rest) if size is None else tuple(islice(rest, size)) for size in sizes])

        return gathered, tuple(found)

    def _new(self, template: DFPattern, scope: Scope) -> DFPattern:
        if isinstance(template, Compute):
            return Compute(*self.spread(template.function, template.refs, scope))
        if isinstance(template, Like):
            call = scope.get(template.call, template.call)
            call = next(iter(self.occurrences(call)), call)  # of a repeated one that of the first field
            args = [self.build(arg, scope) for arg in template.args]
            return Like(call, args, self._values(template.changes, scope))
        if isinstance(template, AttrPattern):
            return AttrPattern(self.build(template.pattern, scope), self._values(template.attrs, scope))
        if isinstance(template, TuplePattern):
            return TuplePattern([new for field in template.fields or () for new in self._fields(field, scope)])
        return template.with_children([self.build(child, scope) for child in template.children()])

    def _values(self, values: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
        return {
            name: self.build(value, scope) if isinstance(value, Compute) else value for name, value in values.items()
        }

    def _fields(self, field: DFPattern, scope: Scope) -> list[DFPattern]:
        """The fields that one field of a template stands for."""
        if not isinstance(field, ManyPattern):
            return [self.build(field, scope)]
        matched = scope.get(field, field)
        if matched in self.fields:
            return [self.fixed[pattern] for pattern, _ in self.fields[matched]]
        found = []
        for _, copy in self.fields[self._repeated_in(field, scope)]:
            inside = {**scope, **copy.of, **{one: copy.of[now] for one, now in scope.items() if now in copy.of}}
            some = field.some
            if some is not None and (inside.get(some, some) in self.fixed or inside.get(some, some) in self.fields):
                found += self._fields(some, inside)
            else:
                found += self._fields(field.pattern, inside)
        return found

    def _repeated_in(self, field: ManyPattern, scope: Scope) -> ManyPattern:
        """The repetition of the left side whose patterns a repetition of the right side speaks of."""
        for part in spoken_of(field):
            many = self.repetition.get(scope.get(part, part))
            if many is not None:
                return many
        raise RuleError("many() on the right side speaks of no pattern that is repeated on the left side")


def expanded(rule: Rewrite, layout: Layout) -> Rewrite:
    """``rule`` with a fixed number of fields."""
    expansion = Expansion(rule.lhs, layout)
    numbers = [Numbers(part, one.level) for one in rule.numbers for part in expansion.occurrences(one.pattern)]
    varying = [NonConstant(part) for one in rule.non_constant for part in expansion.occurrences(one.pattern)]
    return replace(
        rule,
        lhs=tuple([expansion.fixed[root] for root in rule.lhs]),
        rhs=tuple([expansion.build(template, {}) for template in rule.rhs]),
        when=tuple([Guard(*expansion.spread(guard.holds, guard.refs, {})) for guard in rule.when]),
        distinct=tuple([pair for one in rule.distinct for pair in _distinct(one, expansion)]),
        non_constant=tuple(varying),
        numbers=tuple(numbers),
        examples=None,
    )


def widest_tuple(rule: Rewrite) -> int:
    """How many fields the widest tuple has that a rule matches or builds."""
    seen: dict[DFPattern, None] = {}
    stack: list[DFPattern] = [*rule.lhs, *rule.rhs]
    while stack:
        pattern = stack.pop()
        if pattern not in seen:
            seen[pattern] = None
            stack += [*pattern.children(), *(pattern.args if isinstance(pattern, Like) else ())]
    return max([len(pattern.fields or ()) for pattern in seen if isinstance(pattern, TuplePattern)], default=0)


def _distinct(condition: Distinct, expansion: Expansion) -> list[Distinct]:
    """A condition on patterns of which those of different fields need not be distinct from each other."""
    once = [pattern for pattern in condition.patterns if pattern not in expansion.repetition]
    fixed = tuple([expansion.fixed[pattern] for pattern in once])
    repeated = [pattern for pattern in condition.patterns if pattern not in once]
    return [Distinct(fixed), *(Distinct((*fixed, part)) for one in repeated for part in expansion.occurrences(one))]


def spoken_of(template: DFPattern) -> list[DFPattern]:
    """The patterns and templates in a template, and those that it refers to."""
    found: dict[DFPattern, None] = {}
    stack = [template]
    while stack:
        part = stack.pop()
        if part not in found:
            found[part] = None
            stack += part.children()
            if isinstance(part, Like):
                stack += (part.call, *part.args, *filter(_is_computed, part.changes.values()))
            elif isinstance(part, AttrPattern):
                stack += filter(_is_computed, part.attrs.values())
            elif isinstance(part, Compute):
                stack += [ref.pattern for ref in part.refs]
    return list(found)


def _is_computed(value: Any) -> bool:
    return isinstance(value, Compute)
