"""How rules are written: the functions that :mod:`eqsat.rules` offers to authors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from eqsat.egraph.mistakes import check_pattern, check_rewrite
from eqsat.egraph.number_levels import ABOVE_LEAST, MODEST, REAL
from eqsat.egraph.rule import (
    Base,
    Compute,
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
    """The attributes of the call that ``pattern``, a call pattern of the left side, matched (Attrs or None)."""
    return Ref("attrs", pattern)


def index_of(pattern: DFPattern) -> Ref:
    """The number of the field that ``pattern``, a pattern of a field of a tuple, matched."""
    return Ref("index", pattern)


def type_of(pattern: DFPattern) -> Ref:
    """The type of what ``pattern`` matched. Where it is not known the rule does not apply."""
    return Ref("type", pattern)


def value_of(pattern: DFPattern) -> Ref:
    """The NumPy array of the constant that ``pattern`` matched. Where there is none the rule does not apply."""
    return Ref("value", pattern)


def uses_of(pattern: DFPattern) -> Ref:
    """How many operators of the input graph read what ``pattern`` matched (the graph's result counts as one).

    Of equal values the uses add up. Where only rules made the value, the rule does not apply.
    """
    return Ref("uses", pattern)


def place_of(pattern: DFPattern) -> Ref:
    """When the input graph computes what ``pattern`` matched: a number that no other value has.

    Where only rules made the value, the rule does not apply.
    """
    return Ref("place", pattern)


def successive(within: int, *patterns: DFPattern) -> Guard:
    """Guard: the input graph computes what ``patterns`` matched in this order, all in fewer than ``within`` steps.

    Where only rules made one of the values, the rule does not apply.
    """

    def holds(*places: int) -> bool:
        return all(one < other for one, other in pairwise(places)) and places[-1] < places[0] + within

    return Successive(holds, tuple(map(place_of, patterns)), within)


def single_use(pattern: DFPattern) -> Guard:
    """Guard: the input graph reads what ``pattern`` matched in one place: rewriting it leaves no copy behind."""
    return when(lambda uses: uses == 1, uses_of(pattern))


def refuse(reason: str) -> Refusal:
    """Return this from a rule, guard or computation to leave a match alone; refusals are counted by reason."""
    return Refusal(reason)


def when(holds: Callable[..., Any], *refs: Ref) -> Guard:
    """A guard. ``holds`` gets what ``refs`` refer to, and returns a truth value or a refusal."""
    return Guard(holds, refs)


def distinct(*patterns: DFPattern) -> Distinct:
    """A condition: ``patterns`` matched different values, as far as is known yet.

    A law that takes something out of a value would go on for ever where that value equals its own part.
    """
    return Distinct(patterns)


def non_constant(pattern: DFPattern) -> NonConstant:
    """A condition: ``pattern`` matched what is no constant, as far as is known yet.

    A law that moves constants about would go on for ever where all it finds are constants, of which some cancel.
    """
    return NonConstant(pattern)


def base(pattern: DFPattern, after: DFPattern | None = None) -> Base:
    """A condition: ``pattern`` matched no constant, nor only a sum or product with one (:mod:`eqsat.egraph.bases`).

    A law that brings constants together takes all of them at once. Such rules run to their end before others do.

    Args:
        pattern: the pattern.
        after: another base, which the law could exchange with this one: it is applied for one order of them.
    """
    return Base(pattern, after)


def factor(pattern: DFPattern) -> Settled:
    """A condition: ``pattern`` matched what is more than a scalar times something (:mod:`eqsat.egraph.bases`)."""
    return Settled(pattern, "factor")


def term(pattern: DFPattern) -> Settled:
    """A condition: ``pattern`` matched what is more than a scalar plus something (:mod:`eqsat.egraph.bases`)."""
    return Settled(pattern, "term")


def weighted(pattern: DFPattern) -> Settled:
    """A condition: a scale of what ``pattern`` matched may go into a weight inside (:mod:`eqsat.egraph.bases`)."""
    return Settled(pattern, "weighted")


def plain(pattern: DFPattern) -> Settled:
    """A condition: ``pattern`` matched no constant, nor, as far as is known yet, what is :func:`weighted`."""
    return Settled(pattern, "plain")


def real(pattern: DFPattern) -> Numbers:
    """A condition: every element that ``pattern`` matched is a real number, see :mod:`eqsat.egraph.number_levels`."""
    return Numbers(pattern, REAL)


def above_least(pattern: DFPattern) -> Numbers:
    """A condition: :func:`real`, and no element is the least number of its dtype."""
    return Numbers(pattern, ABOVE_LEAST)


def modest(pattern: DFPattern) -> Numbers:
    """A condition: :func:`above_least`, also of sums of a few such numbers."""
    return Numbers(pattern, MODEST)


def compute(function: Callable[..., Any], *refs: Ref) -> Compute:
    """An attribute value or constant computed from the match.

    Args:
        function: gets what ``refs`` refer to; returns the value of the attribute it stands for, or, as an
            argument, a NumPy array for a constant; or a refusal. Called once per distinct arguments.
        refs: what it needs of the match.
    """
    return Compute(function, refs)


def like(call: DFPattern, *args: Any, **changes: Any) -> Like:
    """The call that ``call`` matched, over other arguments, with some attributes changed; or the same field of a tuple.

    Args:
        call: a call pattern of the left side, or a pattern of a field of a tuple.
        args: the new arguments, or the other tuple.
        changes: attribute values, constant or :func:`compute`.
    """
    return Like(call, args, changes)


def rewrite(
    name: str,
    lhs: Any,
    rhs: Any = None,
    *guards: Guard | Distinct | NonConstant | Base | Settled | Numbers,
    soundness: Soundness = Soundness.EXACT,
    examples: Examples | None = None,
    contracts: bool = False,
    early: bool = False,
) -> Rewrite:
    """A rule that reads as an equation: ``rewrite("multiply-one", x * one, x)``.

    Args:
        name: unique name.
        lhs: a pattern, or a tuple of patterns matched together.
        rhs: a template over what the left side matched; see :class:`Rewrite` for several roots.
        guards: conditions made by :func:`when`, :func:`distinct`, :func:`non_constant`, :func:`base`, :func:`factor`,
            :func:`term`, :func:`real`,
            :func:`above_least` and :func:`modest`.
        soundness: what it keeps; by default every bit.
        examples: draws instances of the left side for the verifier; see :class:`Rewrite`.
        contracts: whether the right side is no larger whatever is chosen: such rules run to their end before others,
            and no rule sees what one replaced any more.
        early: whether the rule runs to its end before others, too, but hides nothing.

    Raises:
        RuleError: no pattern on the left, a right side or guard that uses what the left does not match.
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
        if not isinstance(guard, (Guard, Distinct, NonConstant, Base, Settled, Numbers)):
            raise RuleError(f"rule {name}: {guard!r} is no condition: make one by when(), distinct() and so on")
    when = tuple([guard for guard in guards if isinstance(guard, Guard)])
    different = tuple([guard for guard in guards if isinstance(guard, Distinct)])
    unknown = tuple([guard for guard in guards if isinstance(guard, NonConstant)])
    bases = tuple([guard for guard in guards if isinstance(guard, Base)])
    settled = tuple([guard for guard in guards if isinstance(guard, Settled)])
    numbers = tuple([guard for guard in guards if isinstance(guard, Numbers)])
    conditions = when, different, unknown, bases, settled, numbers
    result = Rewrite(name, roots, templates, *conditions, soundness, examples, contracts, early)
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
    """The equation in both directions: two rules, ``name`` and ``name-back``."""
    forth = rewrite(name, lhs, rhs, *guards, soundness=soundness)
    back = rewrite(f"{name}-back", rhs, lhs, *guards, soundness=soundness)
    return RuleSet(name, (forth, back))


def rule(
    name: str, lhs: DFPattern, soundness: Soundness = Soundness.ROUNDING, examples: Examples | None = None
) -> Callable[[Callable[..., Any]], PythonRule]:
    """A rule whose right side is a Python function, as a decorator of it.

    The function's parameters are labels of patterns in ``lhs``; each receives the typed expression that its
    pattern matched. It returns an expression, or ``refuse(reason)``.

    Args:
        name: unique name.
        lhs: the pattern.
        soundness: what it keeps.
        examples: draws instances of the left side for the verifier; see :class:`PythonRule`.
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
    """Wildcards labelled by the words of ``labels``: ``x, y = variables("x y")``."""
    return [wildcard(label=label) for label in labels.split()]


def constants(labels: str) -> list[DFPattern]:
    """Patterns of any constant, labelled by the words of ``labels``; constant expressions count as constants."""
    return [is_constant(label=label) for label in labels.split()]
