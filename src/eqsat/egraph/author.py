"""The functions with which rules are written; :mod:`eqsat.rules` exports them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from eqsat.egraph.mistakes import check_pattern, check_rewrite
from eqsat.egraph.number_levels import ABOVE_HALF, ABOVE_LEAST, MODEST, REAL, WHOLE
from eqsat.egraph.rule import (
    GIVEN,
    Base,
    Compute,
    Derived,
    Distinct,
    Examples,
    Guard,
    Like,
    NonConstant,
    Numbers,
    PythonRule,
    Ref,
    Refusal,
    Rewrite,
    RuleSet,
    Settled,
    Soundness,
    Successive,
)
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import DFPattern, is_constant, wildcard
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Expr


def attrs_of(pattern: DFPattern) -> Ref:
    """Refer to the attributes (Attrs or None) of the call that the call pattern ``pattern`` matched."""
    return Ref("attrs", pattern)


def index_of(pattern: DFPattern) -> Ref:
    """Refer to the index of the field that ``pattern``, a pattern of a tuple field, matched."""
    return Ref("index", pattern)


def type_of(pattern: DFPattern) -> Ref:
    """Refer to the type of what ``pattern`` matched. The rule does not apply if the type is not known."""
    return Ref("type", pattern)


def value_of(pattern: DFPattern) -> Ref:
    """Refer to the NumPy array of the constant that ``pattern`` matched. The rule applies only to constants."""
    return Ref("value", pattern)


def uses_of(pattern: DFPattern) -> Ref:
    """Refer to the number of operators of the input graph that use what ``pattern`` matched.

    The result of the graph counts as one use. The uses of equal values are added, but for those of each other. The rule
    does not apply if the input graph does not contain the value.
    """
    return Ref("uses", pattern)


def place_of(pattern: DFPattern) -> Ref:
    """Refer to the position of what ``pattern`` matched among calls in the input graph.

    Only calls of the operators of such patterns, of all rules, are counted. A value that only moves the elements of
    another, such as a view, has the position of that. The rule does not apply if the input graph does not contain the
    value, nor one that moves the same elements.
    """
    return Ref("place", pattern)


def successive(within: int, *patterns: DFPattern) -> Guard:
    """Guard: the input graph computes the matches of ``patterns`` in this order, in ``within`` successive calls.

    Calls are counted as by :func:`place_of`. The rule does not apply if the input graph does not contain one of the
    values.
    """

    def holds(*places: int) -> bool:
        return all(one < other for one, other in pairwise(places)) and places[-1] < places[0] + within

    return Successive(holds, tuple(map(place_of, patterns)), within)


def single_use(pattern: DFPattern) -> Guard:
    """Guard: the input graph uses what ``pattern`` matched only once, so rewriting it leaves no copy behind."""
    return when(lambda uses: uses == 1, uses_of(pattern))


def refuse(reason: str) -> Refusal:
    """Create a value that a rule, guard or computation returns to skip a match; the report counts the reasons."""
    return Refusal(reason)


def when(holds: Callable[..., Any], *refs: Ref) -> Guard:
    """Guard: ``holds``, a function that receives the values of ``refs`` and returns a truth value or a refusal."""
    return Guard(holds, refs)


def distinct(*patterns: DFPattern) -> Distinct:
    """Condition: ``patterns`` matched values that are not known to be equal.

    Without it, a rule that takes a part out of a value would be applied endlessly if the value is equal to its own
    part.
    """
    return Distinct(patterns)


def non_constant(pattern: DFPattern) -> NonConstant:
    """Condition: ``pattern`` matched a value that is not known to be constant.

    Without it, a rule that moves constants would be applied endlessly if all values are constants and some cancel out.
    """
    return NonConstant(pattern)


def base(pattern: DFPattern, after: DFPattern | None = None) -> Base:
    """Condition: ``pattern`` matched neither a constant nor a sum or product with one (:mod:`eqsat.egraph.bases`).

    A rule that combines constants then combines all of them at once. Such rules run until they add nothing before other
    rules run.

    Args:
        pattern: The pattern.
        after: Another base that the rule could exchange with this one; the rule is applied for only one of the two
            orders.
    """
    return Base(pattern, after)


def factor(pattern: DFPattern) -> Settled:
    """Condition: ``pattern`` matched a value that is not a scalar times another value (:mod:`eqsat.egraph.bases`)."""
    return Settled(pattern, "factor")


def term(pattern: DFPattern) -> Settled:
    """Condition: ``pattern`` matched a value that is not a scalar plus another value (:mod:`eqsat.egraph.bases`)."""
    return Settled(pattern, "term")


def weighted(pattern: DFPattern) -> Settled:
    """Condition: a weight inside what ``pattern`` matched can absorb a scale of it (:mod:`eqsat.egraph.bases`)."""
    return Settled(pattern, "weighted")


def plain(pattern: DFPattern) -> Settled:
    """Condition: ``pattern`` matched neither a constant nor a value that is known to be :func:`weighted`."""
    return Settled(pattern, "plain")


def bare(pattern: DFPattern) -> Settled:
    """A condition: ``pattern`` matched no constant, nor a product with a weight that takes in whatever scale.

    A product that the given graph reads several times is none: scaled for one reader it would be computed twice.
    """
    return Settled(pattern, "bare")


def given(pattern: DFPattern) -> Settled:
    """A condition: the given graph contains what ``pattern`` matched.

    A rule that leads back from what other rules make is then for graphs that were written so.
    """
    return Settled(pattern, GIVEN)


def derived(pattern: DFPattern, operand: DFPattern) -> Derived:
    """A condition: a sum or product with a constant comes from its operand (:mod:`eqsat.egraph.bases`).

    Where ``y`` is ``x * 3``, and ``x`` but for rounding ``y * 0.33333334``, ``y`` comes from ``x``, and not ``x`` from
    ``y``. A rule that moved both constants into the weights behind would never end.

    Args:
        pattern: What matches the sum or product.
        operand: What matches its operand that is no constant.
    """
    return Derived(pattern, operand)


def real(pattern: DFPattern) -> Numbers:
    """Condition: every element of what ``pattern`` matched is a real number (:mod:`eqsat.egraph.number_levels`)."""
    return Numbers(pattern, REAL)


def above_least(pattern: DFPattern) -> Numbers:
    """Condition: as :func:`real`, and no element is the smallest number of its dtype."""
    return Numbers(pattern, ABOVE_LEAST)


def above_half(pattern: DFPattern) -> Numbers:
    """Condition: as :func:`above_least`, and no element is half of the smallest number, or below."""
    return Numbers(pattern, ABOVE_HALF)


def modest(pattern: DFPattern) -> Numbers:
    """Condition: as :func:`above_half`, and the same holds for sums of a few such numbers."""
    return Numbers(pattern, MODEST)


def countable(pattern: DFPattern) -> Numbers:
    """Condition: as :func:`modest`, and no element is larger than any 64-bit integer."""
    return Numbers(pattern, WHOLE)


def compute(function: Callable[..., Any], *refs: Ref) -> Compute:
    """Define an attribute value or a constant of the right side that is computed from the match.

    Args:
        function: A function that receives the values of ``refs``. It returns the attribute value, or, for an argument,
            a NumPy array for a constant; or a refusal. It is called once for distinct arguments.
        refs: The parts of the match that the function needs.
    """
    return Compute(function, refs)


def like(call: DFPattern, *args: Any, **changes: Any) -> Like:
    """Build a call as ``call`` matched it, with other arguments and attributes; or the same field of another tuple.

    Args:
        call: A call pattern of the left side, or a pattern of a tuple field.
        args: The new arguments, or the other tuple.
        changes: The changed attributes: constant values, or :func:`compute`.
    """
    return Like(call, args, changes)


_SHIPPED = "eqsat.rules."
"""The modules whose rules the tests check, and not each process: that takes a tenth of the time of a small model."""


def rewrite(
    name: str,
    lhs: Any,
    rhs: Any = None,
    *guards: Guard | Distinct | NonConstant | Base | Settled | Derived | Numbers,
    soundness: Soundness = Soundness.EXACT,
    examples: Examples | None = None,
    contracts: bool = False,
    early: bool = False,
) -> Rewrite:
    """Define a rule as an equation: ``rewrite("multiply-one", x * one, x)``.

    Args:
        name: A unique name.
        lhs: A pattern, or a tuple of patterns that are matched together.
        rhs: A template built from what the left side matched; see :class:`Rewrite` for several roots.
        guards: Conditions that :func:`when`, :func:`distinct`, :func:`non_constant`, :func:`base`, :func:`factor`,
            :func:`term`, :func:`real`, :func:`above_least`, :func:`above_half` and :func:`modest` return.
        soundness: Which values the rule keeps; by default every bit.
        examples: A function that draws instances of the left side for the verifier; see :class:`Rewrite`.
        contracts: Whether the right side is never larger, whatever is chosen. Such rules run until they add nothing
            before other rules run, and other rules no longer see the left side, nor what of it the given graph reads
            nowhere else.
        early: Whether the rule runs until it adds nothing before other rules run, but hides nothing.

    Raises:
        RuleError: The left side is not a pattern, or the right side or a guard uses something that the left side does
            not match.
    """
    _check_name(name)
    _check_soundness(name, soundness)
    if rhs is None:
        raise RuleError(f"rule {name}: there is no right side: rewrite(name, left, right)")
    roots = lhs if isinstance(lhs, tuple) else (lhs,)
    templates = rhs if isinstance(rhs, tuple) else (rhs,)
    for root in roots:
        if not isinstance(root, DFPattern):
            raise RuleError(f"rule {name}: the left side must be a pattern, not {root!r}")
    if len(templates) not in (1, len(roots)):
        raise RuleError(f"rule {name}: {len(roots)} patterns on the left and {len(templates)} templates on the right")
    for guard in guards:
        if not isinstance(guard, (Guard, Distinct, NonConstant, Base, Settled, Derived, Numbers)):
            raise RuleError(f"rule {name}: {guard!r} is no condition: make one by when(), distinct() and so on")
    when = tuple([guard for guard in guards if isinstance(guard, Guard)])
    different = tuple([guard for guard in guards if isinstance(guard, Distinct)])
    unknown = tuple([guard for guard in guards if isinstance(guard, NonConstant)])
    bases = tuple([guard for guard in guards if isinstance(guard, Base)])
    settled = tuple([guard for guard in guards if isinstance(guard, Settled)])
    comes = tuple([guard for guard in guards if isinstance(guard, Derived)])
    numbers = tuple([guard for guard in guards if isinstance(guard, Numbers)])
    conditions = when, different, unknown, bases, settled, comes, numbers
    result = Rewrite(name, roots, templates, *conditions, soundness, examples, contracts, early)
    if not sys._getframe(1).f_globals.get("__name__", "").startswith(_SHIPPED):
        check_rewrite(result)
    return result


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise RuleError(
            f"a rule has a name first, not {name!r}: rewrite(name, left, right); "
            "eqsat.relay.dataflow_pattern.rewrite(callbacks, expr) is what rewrites an expression"
        )


def _check_soundness(name: str, soundness: Any) -> None:
    if not isinstance(soundness, Soundness):
        choices = ", ".join(map(str, Soundness))
        raise RuleError(f"rule {name}: soundness={soundness!r}: give one of {choices}")


def birewrite(
    name: str, lhs: Any, rhs: Any, *guards: Guard | Distinct | NonConstant, soundness: Soundness = Soundness.EXACT
) -> RuleSet:
    """Define an equation in both directions, as two rules: ``name`` and ``name-back``."""
    forth = rewrite(name, lhs, rhs, *guards, soundness=soundness)
    back = rewrite(f"{name}-back", rhs, lhs, *guards, soundness=soundness)
    return RuleSet(name, (forth, back))


def rule(
    name: str, lhs: DFPattern, soundness: Soundness = Soundness.ROUNDING, examples: Examples | None = None
) -> Callable[[Callable[..., Any]], PythonRule]:
    """Decorate a Python function that computes the right side of a rule.

    The parameters of the function are labels of patterns in ``lhs``. Each receives the typed expression that its
    pattern matched. The function returns an expression, or ``refuse(reason)``.

    Args:
        name: A unique name.
        lhs: The pattern.
        soundness: Which values the rule keeps.
        examples: A function that draws instances of the left side for the verifier; see :class:`PythonRule`.
    """
    _check_name(name)
    _check_soundness(name, soundness)
    if not isinstance(lhs, DFPattern):
        raise RuleError(f"rule {name}: the left side must be a pattern, not {lhs!r}")
    check_pattern(name, lhs)
    labelled = {pattern.label: pattern for pattern in subpatterns(lhs) if pattern.label is not None}

    def decorate(function: Callable[..., Any]) -> PythonRule:
        parameters = list(inspect.signature(function).parameters)
        for parameter in parameters:
            if parameter not in labelled:
                raise RuleError(f"rule {name}: no pattern of the left side is labelled {parameter!r}: {list(labelled)}")

        def apply(root: Expr, node_map: dict[DFPattern, list[Expr]]) -> Any:
            return function(*(node_map[labelled[parameter]][0] for parameter in parameters))

        return PythonRule(name, lhs, apply, soundness, examples)

    return decorate


def variables(labels: str) -> list[DFPattern]:
    """Return wildcards that are labelled with the words of ``labels``: ``x, y = variables("x y")``."""
    return [wildcard(label=label) for label in labels.split()]


def constants(labels: str) -> list[DFPattern]:
    """Return patterns of constants, labelled with the words of ``labels``; constant expressions count as constants."""
    return [is_constant(label=label) for label in labels.split()]
