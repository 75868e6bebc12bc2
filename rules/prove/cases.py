"""Equality of terms: at random points of a field, and where that is not enough, case by case.

A case is a choice of the truth of every comparison that a term needs. In each case the terms are free of comparisons;
they are equal there, or the case is one that cannot be: the comparisons it assumes, as linear constraints, exclude
each other or the terms' difference.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction

from eqsat.rules.prove.field import ONE, PRIME, ZERO, BadPointError, Pair, Polynomial, Round, _plus, _scaled
from eqsat.rules.prove.folds import ranges
from eqsat.rules.prove.linear import Form, infeasible
from eqsat.rules.prove.terms import BOOL, REAL, Term

ROUNDS, WITH_ROOTS, ATTEMPTS = 2, 12, 400
"""Rounds that must agree; as many for terms with roots, whose signs differ from point to point; rounds in all."""
MOST_CASES = 200


def unequal(pairs: Sequence[tuple[Term, Term]]) -> tuple[Term, Term] | None:
    """Two terms of a pair that are not shown to be equal for all real numbers, None if there is no such pair.

    Where a divisor is 0, or a number under a root negative, nothing is said.
    """
    pending = list(dict.fromkeys((one, other) for one, other in pairs if one is not other))
    rooted = _have_roots(pending)
    good = dict.fromkeys(pending, 0)
    split: list[tuple[Term, Term]] = []
    for seed in range(ATTEMPTS):
        if not pending:
            break
        points = Round(seed)
        for pair in list(pending):
            same = _agree(points, pair)
            if same is None:
                continue
            good[pair] += same
            if not same:
                split.append(pair)
            if not same or good[pair] >= (WITH_ROOTS if rooted else ROUNDS):
                pending.remove(pair)
    if pending:
        return pending[0]
    return next((pair for pair in split if not _equal_by_cases(pair, rooted)), None)


def _agree(points: Round, pair: tuple[Term, Term]) -> bool | None:
    """Whether two terms have one value at the points; None where that says nothing."""
    try:
        values = [points.value(term) for term in pair]
    except BadPointError:
        return None
    return None if any(term in points.rooted for term in pair) else values[0] == values[1]


def _have_roots(pairs: Sequence[tuple[Term, Term]]) -> bool:
    seen: set[Term] = set()
    stack = [term for pair in pairs for term in pair]
    while stack:
        term = stack.pop()
        if term not in seen:
            seen.add(term)
            stack += term.args
            if term.head in ("f:sqrt", "f:rsqrt", "f:power"):
                return True
    return False


class _UndecidedError(Exception):
    """A comparison that the case does not decide."""

    def __init__(self, condition: Hashable, form: Callable[[], Polynomial] | None):
        super().__init__()
        self.condition, self.form = condition, form


class _Case(Round):
    """A round in which comparisons are decided."""

    def __init__(self, seed: Hashable, decided: dict[Hashable, bool]):
        super().__init__(seed)
        self.decided = decided
        self._plain: Round | None = None
        self.forms: list[tuple[str, Polynomial, bool]] = []
        self.asked: set[Hashable] = set()

    def needed(self, term: Term) -> Sequence[Term]:
        if term.head == "choose" and term.args[0] in self.values:
            condition, one, other = term.args
            return (condition, one if self.values[condition] == ONE else other)
        return term.args[:1] if term.head == "choose" else super().needed(term)

    def plain(self) -> Round:
        if self._plain is None:
            self._plain = Round(None)
            self._plain.share(self)
        return self._plain

    def _compute(self, term: Term) -> Pair:
        if term.head == "choose":
            return self.values[self.needed(term)[1]]
        return super()._compute(term)

    def _parts(self, term: Term) -> Sequence[Term]:
        if term.head == "choose":
            return self.needed(term)[1:] if term.sort != BOOL else ()
        return super()._parts(term)

    def _expanded(self, term: Term, parts: list[Polynomial]) -> Polynomial:
        return parts[0] if term.head == "choose" and parts else super()._expanded(term, parts)

    def extreme(self, term: Term) -> tuple[Term, Pair]:
        members = self._members(term)
        up = term.head == "max"
        (best, *others) = sorted(members)
        for other in others:
            if self._is_above(members, other, best, term.sort) == up:
                best = other
        return members[best], ZERO

    def _is_above(self, members: dict[Pair, Term], other: Pair, best: Pair, sort: str) -> bool:
        one, two = members[other], members[best]
        if sort != REAL:
            return self._before(best, other, two, one) == ONE
        difference = ((other[0] - best[0]) % PRIME, (other[1] - best[1]) % PRIME)
        form = lambda: _plus(self.polynomial(one), self.polynomial(two), -1)  # noqa: E731
        return self.is_positive(difference, form, strict=False) == ONE

    def decide(self, kind: str, key: Hashable, form: Callable[[], Polynomial] | None) -> Pair:
        condition = (kind, key)
        if condition not in self.decided:
            raise _UndecidedError(condition, form)
        truth = self.decided[condition]
        if form is not None and condition not in self.asked:
            self.asked.add(condition)
            self.forms.append((kind, form(), truth))
        return ONE if truth else ZERO

    def constraints(self) -> list[tuple[Form, bool]]:
        """What the decisions say, as far as linear constraints can."""
        return [each for kind, form, truth in self.forms for each in _told(kind, form, truth)]


def _equal_by_cases(pair: tuple[Term, Term], rooted: bool) -> bool:
    """Whether two terms are equal in every case, at points at which all roots are real."""
    wanted, shown = (WITH_ROOTS if rooted else 1), 0
    for seed in range(ATTEMPTS):
        found = _at_points(("case", seed), pair)
        if found is False:
            return False
        shown += found is True
        if shown >= wanted:
            return True
    return False


def _at_points(seed: Hashable, pair: tuple[Term, Term]) -> bool | None:
    """The same at the points of one seed, None where they say nothing: conditions are told by values at them."""
    waiting: list[dict[Hashable, bool]] = [{}]
    for _ in range(MOST_CASES):
        if not waiting:
            return True
        decided = waiting.pop()
        points = _Case(seed, decided)
        try:
            values = [points.value(term) for term in pair]
        except BadPointError:
            return None
        except _UndecidedError as error:
            waiting += [
                {**decided, error.condition: truth} for truth in (False, True) if _can_be(points, pair, error, truth)
            ]
            continue
        if any(term in points.rooted for term in pair):
            return None
        if values[0] != values[1] and not _excluded(points, pair):
            return False
    return False


def _can_be(points: _Case, pair: tuple[Term, Term], error: _UndecidedError, truth: bool) -> bool:
    """Whether a condition may hold, or fail, in a case: not where the comparisons before it exclude that."""
    if error.form is None or not points.forms:
        return True
    try:
        told = _told(str(error.condition[0]), error.form(), truth)  # type: ignore[index]
        return not infeasible([*points.constraints(), *ranges(points, pair), *told])
    except BadPointError:
        return True


def _told(kind: str, form: Polynomial, truth: bool) -> list[tuple[Form, bool]]:
    """What a decision says, as far as linear constraints can."""
    if kind in ("positive", "before"):
        return [(form, True) if truth else (_scaled(form, Fraction(-1)), False)]
    return [(form, False), (_scaled(form, Fraction(-1)), False)] if truth else []


def _excluded(points: _Case, pair: tuple[Term, Term]) -> bool:
    """Whether the case, or that the terms differ in it, cannot be."""
    try:
        constraints = [*points.constraints(), *ranges(points, pair)]
        if infeasible([*constraints, *_known_signs(points, constraints)]):
            return True
        difference = _plus(points.polynomial(pair[0]), points.polynomial(pair[1]), -1)
        for sign in (1, -1):
            told = [*constraints, (_scaled(difference, Fraction(sign)), True)]
            if not infeasible([*told, *_known_signs(points, told)]):
                return _vanishes(constraints, difference)
    except BadPointError:
        return False
    return True


def _vanishes(constraints: Sequence[tuple[Form, bool]], difference: Polynomial) -> bool:
    """Whether each monomial of a difference has a factor that the constraints force to be 0."""
    zero = {
        base
        for form, strict in constraints
        if len(form) == 1 and not strict
        for monomial in form
        if monomial != () and len(monomial) == 1
        for base, _ in monomial
        if infeasible([*constraints, ({((base, 1),): Fraction(1)}, True)])
        and infeasible([*constraints, ({((base, 1),): Fraction(-1)}, True)])
    }
    return all(any(base in zero and power > 0 for base, power in monomial) for monomial in difference)


def _known_signs(points: Round, constraints: Sequence[tuple[Form, bool]]) -> list[tuple[Form, bool]]:
    """What is known of products in any case: even powers are not negative, exponentials and roots neither."""
    monomials = {monomial for form, _ in constraints for monomial in form if monomial}
    return [
        ({monomial: Fraction(1)}, False)
        for monomial in monomials
        if all(power % 2 == 0 or base in points.positive for base, power in monomial)
    ]
