"""Values of terms at random points of a finite field.

The real numbers are modelled by the integers modulo a prime: what is equal for all real numbers by the laws of
fields is equal there, and what is not, differs at a random point but for a chance of about its degree in 2^61. Each
round takes two random points. Other functions are random functions that obey some of the laws of the real ones:

* ``exp`` takes sums to products; what is made of it (``tanh``, ``sigmoid``...) is computed from it;
* of numbers that are squares in the field, ``sqrt`` is the root that is a square itself: its square is the number,
  and of products it is the product. A point at which a number under a root is no square proves nothing;
* a comparison is a random element for the sign of a difference, the same for positive multiples;
* ``max`` depends on the set of its arguments, and adding a number to all adds it to the result;
* ``sin``, ``erf`` and others are odd, ``cos`` is even.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from math import isinf
from typing import TypeAlias, TypeVar

from eqsat.rules.prove.terms import BOOL, REAL, Term, range_of

PRIME = 2**61 - 11913
"""A prime of 61 bits; -1 is no square modulo it, the primes up to 19 are."""
ROOTS = 2**30 * 3**3 * 5**2 * 7 * 11 * 13
"""Denominators of which multiples of logarithms are taken exactly."""
MOST_MONOMIALS = 200

Pair: TypeAlias = tuple[int, int]
"""Values at the two points."""
Monomial: TypeAlias = tuple[tuple[Pair, int], ...]
"""A product of powers; bases are told from each other by their values."""
Polynomial: TypeAlias = dict[Monomial, Fraction]
Key = TypeVar("Key", bound=Hashable)

ZERO, ONE = (0, 0), (1, 1)


class BadPointError(Exception):
    """Something is not defined at a point."""


def _add(a: Pair, b: Pair) -> Pair:
    return (a[0] + b[0]) % PRIME, (a[1] + b[1]) % PRIME


def _sub(a: Pair, b: Pair) -> Pair:
    return (a[0] - b[0]) % PRIME, (a[1] - b[1]) % PRIME


def _mul(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] % PRIME, a[1] * b[1] % PRIME


def _neg(a: Pair) -> Pair:
    return -a[0] % PRIME, -a[1] % PRIME


def _inverse(a: Pair) -> Pair:
    if not a[0] or not a[1]:
        raise BadPointError
    return pow(a[0], -1, PRIME), pow(a[1], -1, PRIME)


def _power(a: Pair, exponent: int) -> Pair:
    if exponent < 0:
        a, exponent = _inverse(a), -exponent
    return pow(a[0], exponent, PRIME), pow(a[1], exponent, PRIME)


def _number(value: Fraction | int) -> Pair:
    found = Fraction(value)
    one = found.numerator * pow(found.denominator, -1, PRIME) % PRIME
    return one, one


class Round:
    """Values of terms at two random points.

    Args:
        seed: of the points.

    Attributes:
        rooted: which terms have a root of what is no square below them: nothing follows from their values.
    """

    def __init__(self, seed: Hashable):
        self.random = random.Random(repr(seed))
        self.values: dict[Term, Pair] = {}
        self.rooted: set[Term] = set()
        self.positive: set[Pair] = set()
        self._drawn: dict[Hashable, Pair] = {}
        self._scales: dict[int, list[tuple[int, Pair]]] = {}
        self._integers: dict[Pair, tuple[int, int]] = {}
        self._logarithms: dict[Pair, Pair] = {}
        self._origins: dict[Pair, tuple[str, Pair]] = {}
        self._polynomials: dict[Term, Polynomial] = {}

    def value(self, root: Term) -> Pair:
        """The values of a term.

        Raises:
            BadPointError: It has none.
        """
        stack = [root]
        while stack:
            term = stack[-1]
            if term in self.values:
                stack.pop()
                continue
            missing = [arg for arg in self.needed(term) if arg not in self.values]
            if missing:
                stack += missing
                continue
            stack.pop()
            self.values[term] = self._compute(term)
            if not self.rooted.isdisjoint(self.needed(term)):
                self.rooted.add(term)
        return self.values[root]

    def needed(self, term: Term) -> Sequence[Term]:
        """The terms of which the values decide that of ``term``."""
        return () if term.head in HEADS else term.args

    def plain(self) -> Round:
        """The same points, where no comparison is decided."""
        return self

    def share(self, other: Round) -> None:
        """Have the random values of another round."""
        self.random, self.positive = other.random, other.positive
        self._drawn, self._scales, self._integers = other._drawn, other._scales, other._integers
        self._logarithms, self._origins = other._logarithms, other._origins

    def drawn(self, *key: Hashable) -> Pair:
        """A random value for each key."""
        if key not in self._drawn:
            self._drawn[key] = self.random.randrange(1, PRIME), self.random.randrange(1, PRIME)
        return self._drawn[key]

    def index(self, name: str) -> Pair:
        """The values of an index or a size."""
        value = self.drawn("index", name)
        self.positive.add(value)
        return value

    def decide(self, kind: str, key: Hashable, form: Callable[[], Polynomial] | None) -> Pair:
        """The truth of a condition: here a random value, from which it follows for 0 and 1.

        Args:
            kind: ``positive`` of a number, ``zero`` of a number, ``before`` of two integers, or ``true`` of a variable.
            key: what else the condition is told by.
            form: gives the number, or how much the first integer is below the second.
        """
        return self.drawn(kind, key)

    # ---- conditions

    def _oriented(self, value: Pair) -> tuple[Hashable, int]:
        """What all rational multiples of a number share, and whether it is a positive one of the first seen."""
        ratio = value[1] * pow(value[0], -1, PRIME) % PRIME if value[0] else -1
        known = self._scales.setdefault(ratio, [])
        for index, (first, _) in enumerate(known):
            sign = _sign_of_ratio((value[0] or value[1]), first)
            if sign:
                return (ratio, index), sign
        known.append((value[0] or value[1], value))
        return (ratio, len(known) - 1), 1

    def is_positive(self, value: Pair, form: Callable[[], Polynomial], strict: bool = True) -> Pair:
        """Whether a number is above 0; without ``strict``, what it says of 0 does not matter."""
        if value == ZERO:
            return ZERO
        if value[0] == value[1] and form().keys() <= {()}:
            return ONE if form().get((), 0) > 0 else ZERO
        if not strict:
            sign = self._known_sign(form())
            if sign:
                return ONE if sign > 0 else ZERO
        key, sign = self._oriented(value)
        if sign > 0:
            return self.decide("positive", (key, 1), form)
        if strict:
            return self.decide("positive", (key, -1), form)
        return _sub(ONE, self.decide("positive", (key, 1), lambda: _scaled(form(), Fraction(-1))))

    def _known_sign(self, form: Polynomial) -> int:
        """1 if a number is never below 0, -1 if it is never above, 0 if neither is known."""
        if all(power % 2 == 0 or base in self.positive for monomial in form for base, power in monomial):
            signs = {factor > 0 for factor in form.values()}
            if len(signs) == 1:
                return 1 if signs.pop() else -1
        bases = [monomial for monomial in form if monomial]
        if len(bases) == 1 and len(bases[0]) == 1 and bases[0][0][1] == 1 and bases[0][0][0] in self._integers:
            ends = [form[bases[0]] * end + form.get((), 0) for end in self._integers[bases[0][0][0]]]
            return 1 if min(ends) >= 0 else -1 if max(ends) <= 0 else 0
        return 0

    def _less(self, term: Term) -> Pair:
        a, b = term.args
        if a.sort == REAL:
            return self.is_positive(
                _sub(self.values[b], self.values[a]), lambda: _plus(self.polynomial(b), self.polynomial(a), -1)
            )
        return self._before(self.values[a], self.values[b], a, b)

    def _before(self, one: Pair, other: Pair, a: Term, b: Term) -> Pair:
        if one == other:
            return ZERO
        return self.decide("before", (a.sort, one, other), lambda: _plus(self._whole(b), self._whole(a), -1))

    def _whole(self, term: Term) -> Polynomial:
        """An integer as it is, whatever it was computed from: sums of integers wrap around."""
        return {(): Fraction(term.data)} if term.head == "const" else {((self.values[term], 1),): Fraction(1)}

    def _equal(self, term: Term) -> Pair:
        a, b = term.args
        difference = _sub(self.values[a], self.values[b])
        if difference == ZERO:
            return ONE
        if a.sort == REAL:
            return self.decide(
                "zero", self._oriented(difference)[0], lambda: _plus(self.polynomial(a), self.polynomial(b), -1)
            )
        key = min(difference, _neg(difference))
        return self.decide("zero", (a.sort, key), lambda: _plus(self._whole(a), self._whole(b), -1))

    # ---- the greatest of several

    def _members(self, term: Term) -> dict[Pair, Term]:
        """The arguments of nested ``max`` or ``min`` by their values."""
        found: dict[Pair, Term] = {}
        stack = list(term.args)
        while stack:
            arg = stack.pop()
            if arg.head == term.head and arg.sort == term.sort:
                stack += arg.args
            else:
                found.setdefault(self.values[arg], arg)
        return found

    def extreme(self, term: Term) -> tuple[Term, Pair]:
        """One of the members of a nested ``max`` or ``min``, and by how much the result differs from it."""
        members = self._members(term)
        up = term.head == "max"
        first = min(members)
        if len(members) == 1:
            return members[first], ZERO
        if term.sort != REAL:
            return members[first], _sub(self.drawn(term.head, term.sort, frozenset(members)), first)
        if len(members) == 2:
            return self._greater_of_two(members, up)
        best, base, scale = min(self._spreads(members, 1 if up else -1))
        rest = _mul(self.drawn("max", best), scale)
        return members[base], rest if up else _neg(rest)

    def _spreads(self, members: Iterable[Pair], sign: int) -> Iterator[tuple[Hashable, Pair, Pair]]:
        """How numbers lie, told from each of them in units of each distance; that number and that distance.

        Positive multiples of the numbers lie in the same way.
        """
        for one in members:
            away = [_sub(other, one) if sign > 0 else _sub(one, other) for other in members]
            for unit in away:
                if unit[0] and unit[1]:
                    inverse = _inverse(unit)
                    key = tuple(sorted(_mul(each, inverse) for each in away))
                    yield (self._oriented(unit)[1], key), one, unit

    def _greater_of_two(self, members: dict[Pair, Term], up: bool) -> tuple[Term, Pair]:
        first, second = sorted(members)
        one, other = (members[first], members[second]) if up else (members[second], members[first])
        difference = _sub(second, first) if up else _sub(first, second)
        positive = self.is_positive(
            difference, lambda: _plus(self.polynomial(other), self.polynomial(one), -1), strict=False
        )
        # the greater is ``one`` where ``other`` is not above it; the smaller the other way round
        if up:
            return one, _mul(positive, difference)
        return one, _mul(_sub(ONE, positive), difference)

    # ---- values

    def _compute(self, term: Term) -> Pair:
        values, args = self.values, term.args
        rule = _RULES.get(term.head)
        if rule is not None:
            return rule(*[values[arg] for arg in args])
        match term.head:
            case "const":
                return self._constant(term)
            case "var":
                if term.sort == BOOL:
                    return self.decide("true", term.data, None)
                return self.drawn("var", term.data)
            case "less":
                return self._less(term)
            case "eq":
                return self._equal(term)
            case "max" | "min":
                base, rest = self.extreme(term)
                return _add(values[base], rest)
            case "convert":
                return self._converted(term)
        if term.head.startswith("f:"):
            return self._function(term)
        if term.head in HEADS:
            return HEADS[term.head](self, term)
        raise BadPointError

    def _constant(self, term: Term) -> Pair:
        if isinstance(term.data, float):
            return self.drawn("infinity", term.data) if isinf(term.data) else ZERO
        return _number(term.data if isinstance(term.data, Fraction) else int(term.data))

    def _converted(self, term: Term) -> Pair:
        """An integer as a number or of another width; a number truncated."""
        (arg,) = term.args
        value, source, target = self.values[arg], arg.sort, term.sort
        if source == REAL:
            low, high = range_of(target)
            if value in self._origins and self._origins[value][0] == target:
                return self._origins[value][1]
            known = self._integers.get(value)
            return value if known and low <= known[0] and known[1] <= high else self.drawn("truncated", target, value)
        low, high = range_of(source)
        if target != REAL and not (range_of(target)[0] <= low and high <= range_of(target)[1]):
            return value  # modulo less
        known = self._integers.get(value) or _ends(arg)
        if known is None or not (low <= known[0] and known[1] <= high):
            origin, value = value, self.drawn("integer", source, value)
            known, self._origins[value] = (low, high), (source, origin)
        self._integers[value] = known
        return value

    def _function(self, term: Term) -> Pair:
        name, values = term.head[2:], [self.values[arg] for arg in term.args]
        if term.sort != REAL:
            return self.drawn(name, term.sort, *[arg.sort for arg in term.args], *values)
        if name in ("rint", "floor", "ceil", "trunc") and values[0] in self._integers:
            return values[0]
        own = _FUNCTIONS.get(name)
        if own is not None:
            return own(self, term, *values)
        if name in ODD:
            (value,) = values
            if value == ZERO:
                return ZERO
            return _neg(self.drawn(name, _neg(value))) if value[0] > PRIME // 2 else self.drawn(name, value)
        if name == "cos":
            (value,) = values
            return ONE if value == ZERO else self.drawn(name, min(value, _neg(value)))
        return self.drawn(name, *values)

    def _root(self, value: Pair, term: Term) -> Pair:
        if any(each and pow(each, (PRIME - 1) // 2, PRIME) != 1 for each in value):
            if value[0] == value[1]:  # a number: it is no square at any point
                result = self.drawn("root", value)
                self.positive.add(result)
                return result
            self.rooted.add(term)
        result = _power(value, (PRIME + 1) // 4)
        self.positive.add(result)
        return result

    def exponential(self, polynomial: Polynomial) -> Pair:
        """e to the power of a sum: the product of powers of what each monomial gives."""
        result = ONE
        for monomial, factor in polynomial.items():
            value = self.monomial_value(monomial)
            times = factor * ROOTS
            if factor.denominator == 1 and value in self._logarithms:
                result = _mul(result, _power(self._logarithms[value], int(factor)))
            elif times.denominator == 1:
                result = _mul(result, _power(self.drawn("exp", value), int(times)))
            else:
                base = self.drawn("exp", value, abs(factor))
                result = _mul(result, base if factor > 0 else _inverse(base))
        self.positive.add(result)
        return result

    def monomial_value(self, monomial: Monomial) -> Pair:
        """The values of a monomial."""
        value = ONE
        for base, power in monomial:
            value = _mul(value, _power(base, power))
        return value

    # ---- polynomials

    def polynomial(self, root: Term) -> Polynomial:
        """A term as a sum of products of what is no sum or product; large ones as one unknown."""
        known, stack = self._polynomials, [root]
        while stack:
            term = stack[-1]
            if term in known:
                stack.pop()
                continue
            parts = self._parts(term)
            missing = [part for part in parts if part not in known]
            if missing:
                stack += missing
                continue
            stack.pop()
            made = self._expanded(term, [known[part] for part in parts])
            known[term] = self._unknown(term) if len(made) > MOST_MONOMIALS else made
        return known[root]

    def _parts(self, term: Term) -> Sequence[Term]:
        if term.sort != REAL:
            return ()
        if term.head in ("max", "min"):
            return (self.extreme(term)[0],)
        return term.args if term.head in ("add", "neg", "mul", "div", "cast") else ()

    def _expanded(self, term: Term, parts: list[Polynomial]) -> Polynomial:
        if term.sort != REAL:
            return self._unknown(term)
        match term.head:
            case "const" if not isinstance(term.data, float):
                return {(): Fraction(term.data)} if term.data else {}
            case "add":
                return _plus(parts[0], parts[1])
            case "neg":
                return _scaled(parts[0], Fraction(-1))
            case "cast":
                return parts[0]
            case "mul" if len(parts[0]) * len(parts[1]) <= MOST_MONOMIALS:
                return _times(parts[0], parts[1])
            case "div":
                return self._quotient(term, *parts)
            case "index":
                return self._index_polynomial(term)
            case "fold:add":
                return POLYNOMIALS[term.head](self, term)
            case "max" | "min" if parts:
                rest = self.extreme(term)[1]
                return parts[0] if rest == ZERO else _plus(parts[0], {((rest, 1),): Fraction(1)})
        return self._unknown(term)

    def _index_polynomial(self, term: Term) -> Polynomial:
        """An index, a sum of products of names, as one of what the names stand for."""
        found: Polynomial = {}
        for names, factor in term.data.terms.items():
            powers: dict[Pair, int] = {}
            for name in names:
                value = self.index(name)
                powers[value] = powers.get(value, 0) + 1
            _add_monomial(found, tuple(sorted(powers.items())), Fraction(factor))
        return found

    def _quotient(self, term: Term, above: Polynomial, below: Polynomial) -> Polynomial:
        if len(below) == 1:
            ((monomial, factor),) = below.items()
            inverse = {tuple((base, -power) for base, power in monomial): 1 / factor}
        else:
            value = _inverse(self.values[term.args[1]])
            inverse = {((value, 1),): Fraction(1)}
            if self._known_sign(below) > 0:
                self.positive.add(value)
        return _times(above, inverse)

    def _unknown(self, term: Term) -> Polynomial:
        value = self.values[term]
        return {} if value == ZERO else {((value, 1),): Fraction(1)}


def _ends(term: Term, depth: int = 8) -> tuple[int, int] | None:
    """The least and the greatest value of an integer that is computed of narrower ones, if it does not wrap around."""
    low, high = range_of(term.sort) if term.sort != REAL else (0, 0)
    if term.head == "const" and term.sort != REAL:
        return int(term.data), int(term.data)
    if term.head == "convert" and term.args[0].sort != REAL and term.sort != REAL:
        ends = range_of(term.args[0].sort)
        return ends if low <= ends[0] and ends[1] <= high else None
    if term.head not in ("add", "neg") or term.sort == REAL or not depth:
        return None
    parts = [_ends(arg, depth - 1) for arg in term.args]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    found = (-known[0][1], -known[0][0]) if term.head == "neg" else (sum(e[0] for e in known), sum(e[1] for e in known))
    return found if low <= found[0] and found[1] <= high else None


def _sign_of_ratio(one: int, other: int, most: int = 1 << 20) -> int:
    """1 or -1 if a quotient is that of small integers and positive or negative, else 0."""
    remainders, factors = (PRIME, one * pow(other, -1, PRIME) % PRIME), (0, 1)
    while remainders[1] >= most:
        quotient = remainders[0] // remainders[1]
        remainders = remainders[1], remainders[0] - quotient * remainders[1]
        factors = factors[1], factors[0] - quotient * factors[1]
    if not remainders[1] or abs(factors[1]) >= most:
        return 0
    return 1 if factors[1] > 0 else -1


def _plus(one: dict[Key, Fraction], other: dict[Key, Fraction], sign: int = 1) -> dict[Key, Fraction]:
    result = dict(one)
    for monomial, factor in other.items():
        _add_monomial(result, monomial, sign * factor)
    return result


def _add_monomial(to: dict[Key, Fraction], monomial: Key, factor: Fraction) -> None:
    """Add a monomial; one without a factor is left out."""
    total = to.get(monomial, Fraction(0)) + factor
    if total:
        to[monomial] = total
    else:
        to.pop(monomial, None)


def _scaled(one: Polynomial, by: Fraction) -> Polynomial:
    return {monomial: factor * by for monomial, factor in one.items()}


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for left, factor in one.items():
        for right, and_factor in other.items():
            powers = dict(left)
            for base, power in right:
                powers[base] = powers.get(base, 0) + power
            monomial = tuple(sorted((base, power) for base, power in powers.items() if power))
            _add_monomial(result, monomial, factor * and_factor)
    return result


ODD = {"sin", "tan", "arcsin", "arctan", "arcsinh", "arctanh", "erf", "rint", "trunc"}
"""Functions f of which f(-x) = -f(x)."""

_RULES: dict[str, Callable[..., Pair]] = {
    "add": _add,
    "mul": _mul,
    "neg": _neg,
    "div": lambda a, b: _mul(a, _inverse(b)),
    "cast": lambda a: a,
    "not": lambda a: _sub(ONE, a),
    "and": lambda a, b: a if a == b else _mul(a, b),
    "or": lambda a, b: a if a == b else _sub(_add(a, b), _mul(a, b)),
    "xor": lambda a, b: _sub(_add(a, b), _add(_mul(a, b), _mul(a, b))),
    "choose": lambda condition, a, b: _add(b, _mul(condition, _sub(a, b))),
}


def _exp(points: Round, polynomial: Polynomial, by: int = 1) -> Pair:
    return points.exponential(_scaled(polynomial, Fraction(by)))


def _of_arg(function: Callable[[Round, Polynomial], Pair]) -> Callable[..., Pair]:
    return lambda points, term, value: function(points, points.polynomial(term.args[0]))


def _tanh(points: Round, x: Polynomial) -> Pair:
    return _sub(ONE, _mul((2, 2), _inverse(_add(_exp(points, x, 2), ONE))))


def _half(a: Pair) -> Pair:
    return _mul(a, _number(Fraction(1, 2)))


def _logarithm(points: Round, value: Pair) -> Pair:
    if value == ONE:
        return ZERO
    inverse = _inverse(value)
    result = points.drawn("log", value) if value < inverse else _neg(points.drawn("log", inverse))
    points._logarithms[result] = value
    return result


def _log(points: Round, term: Term, value: Pair) -> Pair:
    (arg,) = term.args
    while arg.head == "cast":
        (arg,) = arg.args
    return points.values[arg.args[0]] if arg.head == "f:exp" else _logarithm(points, value)


def _log_add(points: Round, term: Term, *values: Pair) -> Pair:
    one, other = [_exp(points, points.polynomial(arg)) for arg in term.args]
    return _logarithm(points, _add(one, other))


def _power_of(points: Round, term: Term, base: Pair, exponent: Pair) -> Pair:
    written = term.args[1]
    while written.head == "cast":
        (written,) = written.args
    if written.head == "const":
        by = Fraction(written.data)
        if by.denominator == 1:
            return _power(base, int(by))
        if by.denominator == 2:
            return _power(points._root(base, term), by.numerator)
    return points.drawn("power", base, exponent)


def _absolute(points: Round, term: Term, value: Pair) -> Pair:
    arg = term.args[0]
    if arg.head == "mul" and arg.args[0] is arg.args[1]:
        return value
    positive = points.is_positive(value, lambda: points.polynomial(term.args[0]), strict=False)
    return _mul(value, _sub(_add(positive, positive), ONE))


def _sign(points: Round, term: Term, value: Pair) -> Pair:
    above = points.is_positive(value, lambda: points.polynomial(term.args[0]))
    below = points.is_positive(_neg(value), lambda: _scaled(points.polynomial(term.args[0]), Fraction(-1)))
    return _sub(above, below)


_FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "exp": _of_arg(_exp),
    "expm1": _of_arg(lambda points, x: _sub(_exp(points, x), ONE)),
    "sigmoid": _of_arg(lambda points, x: _inverse(_add(ONE, _exp(points, x, -1)))),
    "tanh": _of_arg(_tanh),
    "sinh": _of_arg(lambda points, x: _half(_sub(_exp(points, x), _exp(points, x, -1)))),
    "cosh": _of_arg(lambda points, x: _half(_add(_exp(points, x), _exp(points, x, -1)))),
    "softplus": _of_arg(lambda points, x: _logarithm(points, _add(ONE, _exp(points, x)))),
    "log": _log,
    "log1p": lambda points, term, value: _logarithm(points, _add(value, ONE)),
    "logaddexp": _log_add,
    "sqrt": lambda points, term, value: points._root(value, term),
    "rsqrt": lambda points, term, value: _inverse(points._root(value, term)),
    "power": _power_of,
    "abs": _absolute,
    "sign": _sign,
    "ceil": lambda points, term, value: _neg(points.drawn("floor", _neg(value))),
}


POLYNOMIALS: dict[str, Callable[[Round, Term], Polynomial]] = {}
"""The same: head -> the term as a polynomial."""

HEADS: dict[str, Callable[[Round, Term], Pair]] = {}
"""What other modules know of terms: head -> value."""
