"""Rules as data: the patterns that they match, what these are equal to, and the conditions.

The left side consists of patterns of :mod:`eqsat.relay.dataflow_pattern`, and so does the right side. On the right
side, a call pattern builds a call, and a pattern of the left side stands for what it matched.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial
from itertools import count, pairwise
from typing import Any, TypeAlias

from numpy.typing import NDArray

from eqsat.brief import DEPTH, call_text, one_line
from eqsat.errors import RuleError
from eqsat.immutable import Immutable
from eqsat.notebook import preview, table
from eqsat.relay.dataflow_pattern import CallPattern, DFPattern, DFPatternCallback, WildcardPattern
from eqsat.relay.expr import Expr

Array: TypeAlias = NDArray[Any]
"""The elements of a constant, as guards and computations receive them."""
Examples: TypeAlias = Callable[[Any], Any]
"""A function that draws an instance of the left side: an expression, a tuple, or a module with ``main``."""


class Soundness(Enum):
    """Which values a rule keeps."""

    EXACT = "exact"
    """The rule keeps every bit."""
    ROUNDING = "rounding"
    """The rule keeps the values as real numbers; floats may be rounded differently."""
    FINITE = "finite"
    """The rule keeps the values as real numbers if no value is NaN or infinite."""


@dataclass(frozen=True)
class Ref:
    """A part of a match that is passed to a Python function.

    ``kind`` is ``attrs``, ``index`` (of a tuple field), ``type``, ``value``, ``uses`` or ``place``.
    """

    kind: str
    pattern: DFPattern


@dataclass(frozen=True)
class Refusal:
    """The value that the Python part of a rule returns if the rule does not apply, with the reason."""

    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True)
class Guard:
    """A condition: ``holds(*refs)`` is true for the match. It is called once for distinct arguments."""

    holds: Callable[..., Any]
    refs: tuple[Ref, ...]


@dataclass(frozen=True)
class Successive(Guard):
    """A condition on places: each comes after the one before, and the last is less than ``within`` after the first.

    The engine compares them itself: to ask about all places of several roots would take the more, the more roots.
    """

    within: int

    def premises(self, places: Sequence[str]) -> list[str]:
        """The same of variables, one for each place."""
        order = [f"(< {one} {other})" for one, other in pairwise(places)]
        return [*order, f"(< {places[-1]} (+ {places[0]} {self.within}))"]


@dataclass(frozen=True)
class Distinct:
    """A condition: the patterns matched e-classes that are not known to be equal."""

    patterns: tuple[DFPattern, ...]


@dataclass(frozen=True)
class NonConstant:
    """A condition: what the pattern matched is not known to depend only on constants."""

    pattern: DFPattern


@dataclass(frozen=True)
class Base:
    """A condition: what the pattern matched is neither a constant nor a sum or product with a constant.

    Args:
        pattern: The pattern.
        after: Another base, which must come first in order if the two could be exchanged.
    """

    pattern: DFPattern
    after: DFPattern | None = None


GIVEN = "given"
"""The condition :class:`Settled` that is not about scalars: the given graph contains what the pattern matched."""


@dataclass(frozen=True)
class Settled:
    """A condition on where scalars go that meet what the pattern matched (:mod:`eqsat.egraph.bases`).

    Args:
        pattern: the pattern.
        place: ``factor`` or ``term`` where no scalar leaves it as a factor of a product or quotient, or as a term of a
            sum; ``weighted`` where a weight inside takes a scale in, ``plain`` where none does; ``bare`` where there is
            no weight right there that takes in whatever scale, or others read the product, too.
    """

    pattern: DFPattern
    place: str


@dataclass(frozen=True)
class Derived:
    """A condition: a sum or product with a constant comes from its operand, and not the operand from it.

    Args:
        pattern: What matched the sum or product.
        operand: What matched the operand.
    """

    pattern: DFPattern
    operand: DFPattern


@dataclass(frozen=True)
class Numbers:
    """A condition: the elements of what the pattern matched have this level (:mod:`eqsat.egraph.number_levels`)."""

    pattern: DFPattern
    level: int


class Template(DFPattern):
    """Base class of the parts of a right side that are not patterns."""


class Compute(Template):
    """A value of the right side that Python computes from the match; see :func:`eqsat.egraph.author.compute`."""

    is_computed = True

    def __init__(self, function: Callable[..., Any], refs: tuple[Ref, ...]):
        super().__init__()
        self.function = function
        self.refs = refs

    def brief(self, depth: int = DEPTH) -> str:
        return call_text("compute", [ref.pattern for ref in self.refs], depth)


class Like(Template):
    """A node of the right side: a matched node with other operands; see :func:`eqsat.egraph.author.like`."""

    def __init__(self, call: DFPattern, args: Sequence[DFPattern], changes: dict[str, Any]):
        super().__init__()
        self.call = call
        self.args = tuple(args)
        self.changes = changes

    def brief(self, depth: int = DEPTH) -> str:
        return call_text(f"like {self.call.brief(1)}", self.args, depth)


_referred: dict[int, tuple[Any, Callable[[str], Any]]] = {}
"""The rules that pickles hold by name, by their identity."""


def refer_by_name(rules: Iterable[Rule], find: Callable[[str], Rule]) -> None:
    """Let pickles hold the names of rules, which ``find`` finds: rules have functions, which cannot be pickled."""
    _referred.update((id(rule), (rule, find)) for rule in rules)


class _AnyRule(Immutable):
    """Base class of rules: notebooks show their equation, and pickles refer to them by name where they are shipped."""

    name: str
    soundness: Soundness

    @property
    def equation(self) -> str:
        """The rule as an equation, in symbols or in words."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        rule, find = _referred.get(id(self), (None, None))
        return (find, (self.name,)) if rule is self else super().__reduce__()

    def _repr_html_(self) -> str:
        return rules_html(f"rule {self.name}", [self])


@dataclass(frozen=True)
class Rewrite(_AnyRule):
    """A rule: ``lhs`` equals ``rhs`` if all conditions hold. It runs inside the engine.

    Args:
        name: A name that is unique in a run.
        lhs: One pattern, or several that are matched together (a join).
        rhs: What they are equal to: one template for one pattern; for several patterns, as many templates, or one whose
            value is the tuple of them.
        when: Guards.
        distinct: Patterns that must match different values.
        non_constant: Patterns that must not match constants.
        bases: Patterns that must match neither constants nor sums or products with constants.
        settled: Conditions on where scalars move that are combined with what a pattern matched.
        derived: Conditions on sums and products with constants that they come from their operands.
        numbers: Patterns whose matches must be real numbers.
        soundness: Which values the rule keeps.
        examples: A function ``examples(draw)`` that draws an expression that the left side matches (a tuple for several
            roots); ``draw`` is an :class:`eqsat.relay.op.draw.Draw`. It is used if no instance can be drawn from the
            pattern itself.
        contracts: Whether the right side replaces the left side for all rules, with all of it that the given graph
            reads nowhere else; extraction may still choose the left side. The right side should never need more
            operators than the left side.
        early: Whether the rule runs until it adds nothing before other rules run, as rules that contract do.
    """

    name: str
    lhs: tuple[DFPattern, ...]
    rhs: tuple[Any, ...]
    when: tuple[Guard, ...] = ()
    distinct: tuple[Distinct, ...] = ()
    non_constant: tuple[NonConstant, ...] = ()
    bases: tuple[Base, ...] = ()
    settled: tuple[Settled, ...] = ()
    derived: tuple[Derived, ...] = ()
    numbers: tuple[Numbers, ...] = ()
    soundness: Soundness = Soundness.EXACT
    examples: Examples | None = None
    contracts: bool = False
    early: bool = False

    @cached_property
    def moves_scalars(self) -> bool:
        """Whether the rule moves scalars, or combines constants at a base."""
        return bool(self.bases) or any(each.place != GIVEN for each in self.settled)

    @property
    def varying(self) -> list[DFPattern]:
        """The patterns that must not match constants; they include bases."""
        return [*[each.pattern for each in self.non_constant], *[each.pattern for each in self.bases]]

    @property
    def equation(self) -> str:
        """Both sides as text, down to a limited depth."""
        left, right = [", ".join([each.brief() for each in side]) for side in (self.lhs, self.rhs)]
        return f"{left} = {right}"

    def __repr__(self) -> str:
        return one_line(f"Rewrite({self.name!r}: {self.equation})")


@dataclass(frozen=True)
class PythonRule(_AnyRule):
    """A rule: ``lhs`` equals the result of ``apply`` for a match.

    Args:
        name: A name that is unique in a run.
        lhs: The pattern.
        apply: A function that receives the matched root (a typed expression that is rebuilt from the match) and a node
            map (pattern -> list with one expression). It returns an expression of the same type, None, or a refusal.
        soundness: Which values the rule keeps.
        examples: As for :class:`Rewrite`.
        saturates: Whether the rule runs in the e-graph. If false, it runs only on the extracted graph.
        callback: The Relay callback that the rule was created from. It receives the matches of Relay's matcher:
            operands are in exchanged order only if they do not match in the written order.
    """

    name: str
    lhs: DFPattern
    apply: Callable[[Expr, dict[DFPattern, list[Expr]]], Any]
    soundness: Soundness = Soundness.ROUNDING
    examples: Examples | None = None
    saturates: bool = True
    callback: DFPatternCallback | None = None

    @property
    def equation(self) -> str:
        """The left side as text, down to a limited depth; Python computes the right side."""
        return f"{self.lhs.brief()} = {getattr(self.apply, '__name__', 'a function')}(...)"

    def __repr__(self) -> str:
        return one_line(f"PythonRule({self.name!r}: {self.equation})")

    def result(self, root: Expr, node_map: dict[DFPattern, list[Expr]]) -> Expr | Refusal:
        """Return the result of the rule for a match.

        Raises:
            RuleError: The function of the rule fails, or returns something other than an expression.
        """
        return self.called(root, partial(self.apply, root, node_map))

    def called(self, root: Expr, function: Callable[[], Any]) -> Expr | Refusal:
        """Return what a function of the rule says of a match.

        Raises:
            RuleError: The function fails, or returns something other than an expression.
        """
        try:
            result = function()
        except Exception as error:
            raise RuleError(f"rule {self.name} failed on {one_line(str(root), 200)}: {error!r}") from error
        if not isinstance(result, (Expr, Refusal)):
            shown = one_line(str(root), 200)
            raise RuleError(f"rule {self.name} returned {result!r} for {shown}: return an expression")
        return result

    def result_like(
        self, root: Expr, node_map: dict[DFPattern, list[Expr]], known: Callable[[], Expr]
    ) -> Expr | Refusal:
        """Return the result for a match of which it is ``known`` what it was equated with.

        Raises:
            RuleError: As for :meth:`result`.
        """
        return self.result(root, node_map)


@dataclass(frozen=True)
class FoldConstants(_AnyRule):
    """Constant expressions equal their values, computed by the interpreter.

    Args:
        name: unique in a run.
        limit: largest result, in bytes, that is computed during saturation. Larger ones stay symbolic
            (they still count as constants) and are computed once, if they are extracted.
        given: the same for expressions of the given graph, which rules do not multiply.
    """

    name: str = "fold-constants"
    limit: int = 4096
    given: int = 1 << 20
    soundness: Soundness = Soundness.EXACT

    @property
    def equation(self) -> str:
        """What it says, in words."""
        return f"a constant expression of up to {self.limit} bytes = its value"


@dataclass(frozen=True)
class Injectivity(_AnyRule):
    """Arguments of one type equal each other where an injective operator (``Trait.INJECTIVE``) makes the same of them.

    Args:
        name: unique in a run.
    """

    name: str = "injectivity"
    soundness: Soundness = Soundness.EXACT

    @property
    def equation(self) -> str:
        """What it says, in words."""
        return "x = y where an injective operator makes the same of both"


@dataclass(frozen=True)
class ComposeChains(_AnyRule):
    """A long chain of sums, products, maxima and minima with constants is one of each over what it begins with.

    Before, transposes and views leave long runs of elementwise operators, and shifts leave runs of products by constant
    matrices. It acts once, before all others, and not where a run is to be explained: other rules find nearly the same,
    one step after the other.

    Args:
        name: unique in a run.
    """

    name: str = "compose-chains"
    soundness: Soundness = Soundness.ROUNDING

    @property
    def equation(self) -> str:
        """What it says, in words."""
        return "a long chain of sums, products, maxima and minima with constants = min(max(x * a + b, c), d)"


def rules_html(title: str, rules: Sequence[_AnyRule]) -> str:
    """What notebooks show of rules: an equation for each, and what it keeps."""
    rows = [(each.name, each.soundness.value, each.equation) for each in rules]
    return preview(title, table(("rule", "keeps", "equation"), rows))


Rule: TypeAlias = Rewrite | PythonRule | FoldConstants | Injectivity | ComposeChains


def picklable(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules that pickle can take: those that are shipped, and of others those without functions of no name."""
    return tuple([rule for rule in rules if _can_be_pickled(rule)])


def _can_be_pickled(rule: Rule) -> bool:
    try:
        pickle.dumps(rule)
    except Exception:  # pickle lets through whatever objects raise
        return False
    return True


def from_callback(callback: DFPatternCallback) -> PythonRule:
    """A Relay callback as a rule; ``pre`` and ``post`` are the matched expression, typed."""
    if callback.pattern is None:
        raise RuleError(f"{type(callback).__name__} has no pattern: set self.pattern in its __init__")

    def apply(root: Expr, node_map: dict[DFPattern, list[Expr]]) -> Any:
        return callback.callback(root, root, node_map)

    return PythonRule(type(callback).__name__, callback.pattern, apply, callback=callback)


class RuleSet:
    """Named rules in no order. Sets add up with ``+``; a set iterates over its rules.

    Args:
        name: for messages and the command line.
        rules: rules, sets and Relay callbacks.
    """

    def __init__(self, name: str, rules: Iterable[Any] = ()):
        self.name = name
        self.rules: tuple[Rule, ...] = tuple(flatten(rules))

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __add__(self, other: Any) -> RuleSet:
        others = other if isinstance(other, RuleSet) else RuleSet("", flatten([other]))
        return RuleSet(f"{self.name}+{others.name}".strip("+"), (*self.rules, *others.rules))

    def __radd__(self, other: Any) -> RuleSet:
        return self if other == 0 else RuleSet("", flatten([other])) + self

    def only(self, *names: str) -> RuleSet:
        """The rules of these names; raises RuleError for a name that is not there."""
        self._check(names)
        return RuleSet(self.name, [rule for rule in self.rules if rule.name in names])

    def without(self, *names: str) -> RuleSet:
        """All rules but those of these names; raises RuleError for a name that is not there."""
        self._check(names)
        return RuleSet(self.name, [rule for rule in self.rules if rule.name not in names])

    def sound(self, *classes: Soundness) -> RuleSet:
        """The rules of these soundness classes."""
        return RuleSet(self.name, [rule for rule in self.rules if rule.soundness in classes])

    def _check(self, names: Sequence[str]) -> None:
        known = {rule.name for rule in self.rules}
        for name in names:
            if name not in known:
                raise RuleError(f"rule set {self.name!r} has no rule {name!r}; it has {sorted(known)}")

    def __repr__(self) -> str:
        return one_line(f"RuleSet({self.name!r}, {len(self.rules)} rules)")

    def _repr_html_(self) -> str:
        return rules_html(repr(self), self.rules)


def identity(rule: Rule) -> Hashable:
    """What is equal for one rule and different for two: the name, or the callback that the rule was made of."""
    callback = rule.callback if isinstance(rule, PythonRule) else None
    return rule.name if callback is None else id(callback)


def flatten(rules: Any) -> list[Rule]:
    """The rules of an iterable of rules, rule sets and Relay callbacks (or of a single one), each once.

    Several callbacks of one class are several rules: the second is named ``<class>-2``.

    Raises:
        RuleError: An element is of another kind, or two different rules have the same name.
    """
    if isinstance(rules, RuleSet):
        return list(rules.rules)
    known: dict[Hashable, Rule] = {}
    names: set[str] = set()
    for item in rules if _are_several(rules) else (rules,):
        if isinstance(item, (Rewrite, PythonRule, FoldConstants, Injectivity, ComposeChains)):
            found: list[Rule] = [item]
        elif isinstance(item, DFPatternCallback):
            found = [from_callback(item)]
        elif _are_several(item):
            found = flatten(item)
        else:
            raise RuleError(f"{item!r} is no rule, rule set or DFPatternCallback")
        for one in found:
            key = identity(one)
            if key in known:
                if key == one.name and known[key] is not one:
                    raise RuleError(f"two different rules are named {one.name!r}: rename one")
                continue
            known[key] = one = _renamed(one, names)
            names.add(one.name)
    return list(known.values())


def _renamed(rule: Rule, taken: Container[str]) -> Rule:
    """Return the rule of a callback under a name that is not ``taken``.

    Raises:
        RuleError: Another rule has the same name.
    """
    if rule.name not in taken:
        return rule
    if not isinstance(rule, PythonRule) or rule.callback is None:
        raise RuleError(f"two different rules are named {rule.name!r}: rename one")
    free = (f"{type(rule.callback).__name__}-{number}" for number in count(2))
    return replace(rule, name=next(name for name in free if name not in taken))


def _are_several(rules: Any) -> bool:
    return isinstance(rules, Iterable) and not isinstance(rules, str)


def swapped_operator(rule: Rule) -> str | None:
    """The name of the operator of which ``rule`` is the commutative law, None when it is another rule."""
    if not isinstance(rule, Rewrite) or len(rule.lhs) != 1 or rule.when or rule.distinct or rule.non_constant:
        return None
    (left,), (right,) = rule.lhs, rule.rhs
    if not isinstance(left, CallPattern) or not isinstance(right, CallPattern) or left.named is None:
        return None
    plain = all(isinstance(arg, WildcardPattern) and not arg.children() for arg in left.args or ())
    swapped = left.args is not None and right.args == left.args[::-1] and len(set(left.args)) == 2
    return left.named.name if plain and swapped and left.named is right.named else None


def roots_of(rule: Rewrite | PythonRule) -> tuple[DFPattern, ...]:
    """The patterns that a rule matches together."""
    return rule.lhs if isinstance(rule, Rewrite) else (rule.lhs,)


def refs_of(rule: Rule) -> list[Ref]:
    """All that the guards of a rule are given."""
    return [ref for guard in rule.when for ref in guard.refs] if isinstance(rule, Rewrite) else []
