"""Values of terms of which indices and sizes are not known: elements at indices, and folds over them.

A sum is brought to a normal form before it has a value: its body is multiplied out, factors that do not depend on the
index go before it, a sum of sums is one over several indices, and a sum of products of which the factors share no
index is a product of sums. What is left, a product under a sum that none of this divides, is a random number that is
told by the sizes and by the value of the product at indices that all sums over such sizes share, in the order of them
that gives the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from itertools import permutations
from itertools import product as combinations
from typing import Any, TypeAlias

from eqsat.relay.order import children_first
from eqsat.rules.prove.field import (
    HEADS,
    MOST_MONOMIALS,
    ONE,
    POLYNOMIALS,
    ZERO,
    BadPointError,
    Pair,
    Polynomial,
    Round,
    _add,
    _add_monomial,
    _mul,
    _neg,
    _number,
    _plus,
    _sub,
)
from eqsat.rules.prove.sizes import LEAST, Poly, Scope
from eqsat.rules.prove.terms import BOOL, REAL, Term

Factors: TypeAlias = tuple[Term, ...]
Sum: TypeAlias = dict[Factors, Fraction]
MOST_INDICES = 4
"""Indices of one size under one sum, of which all orders are tried."""


class Normal:
    """Brings folds of one maker of terms to their normal form.

    Args:
        scope: what is known of indices.
    """

    def __init__(self, scope: Scope):
        self.scope = scope
        self._free: dict[Term, frozenset[str]] = {}
        self._heights: dict[Term, int] = {}
        self._sums: dict[Term, Sum] = {}

    # ---- indices in terms

    def free(self, root: Term) -> frozenset[str]:
        """The names of indices and sizes that a term depends on."""
        known = self._free
        for term in _unknown(root, known):
            found = {name for arg in term.args for name in known[arg]} - self.bound(term)
            known[term] = frozenset(found.union(*[self.scope.free(poly) for poly in _polys(term)]))
        return known[root]

    def bound(self, term: Term) -> set[str]:
        """The indices over which a term is a fold."""
        if term.head == "sum":
            return {name for name, _ in term.data}
        return {term.data[0]} if term.head.startswith("fold:") else set()

    def height(self, root: Term) -> int:
        """How many folds are one in another."""
        known = self._heights
        for term in _unknown(root, known):
            known[term] = max([known[arg] for arg in term.args], default=0) + bool(self.bound(term))
        return known[root]

    def put(self, root: Term, values: Mapping[str, Poly]) -> Term:
        """A term at other indices."""
        known: dict[Term, Term] = {}
        for term in children_first([root], lambda term: () if self.free(term).isdisjoint(values) else term.args):
            if self.free(term).isdisjoint(values):
                known[term] = term
                continue
            data = term.data
            if term.head == "read":
                data = (data[0], tuple(self.scope.put(poly, values) for poly in data[1]))
            elif term.head == "index":
                data = self.scope.put(data, values)
            known[term] = term.terms.make(term.head, tuple(known[arg] for arg in term.args), data, term.sort)
        return known[root]

    # ---- sums

    def expanded(self, term: Term) -> Sum:
        """A term as a sum of products of others."""
        if term not in self._sums:
            found = self._expanded(term)
            self._sums[term] = {(term,): Fraction(1)} if len(found) > MOST_MONOMIALS else found
        return self._sums[term]

    def _expanded(self, term: Term) -> Sum:
        args = term.args
        itself: Sum = {(term,): Fraction(1)}
        if term.head == "index":
            return self._of_poly(term)
        if term.head == "const":
            return itself if isinstance(term.data, float) else {(): Fraction(int(term.data) if term.sort != REAL
                                                                     else term.data)} if term.data else {}  # fmt: skip
        if term.head == "fold:add":
            return self._summed(term)
        if term.sort == BOOL:
            return itself
        if term.head in ("add", "neg", "cast", "mul"):
            parts = [self.expanded(arg) for arg in args]
            if term.head == "add":
                return _plus(parts[0], parts[1])
            if term.head == "mul":
                return _times(*parts) if len(parts[0]) * len(parts[1]) <= MOST_MONOMIALS else itself
            return parts[0] if term.head == "cast" else {each: -factor for each, factor in parts[0].items()}
        if term.head == "div" and args[1].head == "const":
            return {each: factor / Fraction(args[1].data) for each, factor in self.expanded(args[0]).items()}
        if term.head == "div":
            return self._divided(term)
        if term.head == "choose":
            return self._chosen(term)
        if term.head == "f:exp":
            return self._exponential(term)
        return itself

    def _of_poly(self, term: Term) -> Sum:
        found: Sum = {}
        for names, factor in term.data.terms.items():
            factors = [term.terms.make("index", (), Poly.name(name), REAL) for name in names]
            _note(found, factors, Fraction(factor))
        return found

    def _divided(self, term: Term) -> Sum:
        terms, (above, below) = term.terms, term.args
        divisor = self.expanded(below)
        if len(divisor) == 1:
            ((factors, number),) = divisor.items()
        else:
            factors, number = (below,), Fraction(1)
        one = terms.const(1, REAL)
        inverse = {tuple(sorted((_inverse(terms, one, each) for each in factors), key=_order)): 1 / number}
        return _times(self.expanded(above), inverse)

    def _chosen(self, term: Term) -> Sum:
        """b + (a - b) if the condition holds."""
        terms, (condition, a, b) = term.terms, term.args
        one, zero = terms.const(1, term.sort), terms.const(0, term.sort)
        if a is one and b is zero:
            return {(term,): Fraction(1)}
        holds: Sum = {(terms.make("choose", (condition, one, zero), None, term.sort),): Fraction(1)}
        first, second = self.expanded(a), self.expanded(b)
        return _plus(second, _times(holds, _plus(first, {each: -factor for each, factor in second.items()})))

    def _exponential(self, term: Term) -> Sum:
        terms, factors = term.terms, []
        for each, factor in self.expanded(term.args[0]).items():
            product = terms.const(factor, REAL)
            for part in each:
                product = terms.mul(product, part)
            made = terms.function("exp", product)
            self._sums[made] = {(made,): Fraction(1)}
            factors.append(made)
        return {tuple(sorted(factors, key=_order)): Fraction(1)}

    def _summed(self, term: Term) -> Sum:
        (body,), (name, size) = term.args, term.data
        terms = term.terms
        total: Sum = {}
        for factors, number in self.expanded(body).items():
            inner = [each for each in factors if name in self.free(each)]
            outer: Sum = {tuple(each for each in factors if name not in self.free(each)): number}
            if inner:
                total = _plus(total, _times(outer, self._product_of_sums(terms, name, size, inner)))
            else:
                total = _plus(total, _times(outer, self.expanded(terms.make("index", (), size, REAL))))
        return total

    def _product_of_sums(self, terms: Any, name: str, size: Poly, factors: list[Term]) -> Sum:
        """The sum over an index of a product of terms that all depend on it."""
        chosen = self._picked(name, size, factors)
        if chosen is not None:
            return chosen
        indices, flat = {name: size}, []
        for each in factors:
            if each.head != "sum":
                flat.append(each)
                continue
            renamed: dict[str, Poly] = {}
            for inner, inner_size in each.data:
                new = inner
                while new in indices:
                    new += "'"
                indices[new] = self.scope.above[new] = inner_size
                renamed[inner] = Poly.name(new)
            flat += [self.put(factor, renamed) for factor in each.args]
        found = []
        while flat:
            group, names = [flat.pop()], set[str]()
            while True:
                names = set().union(*[self.free(each) for each in group]) & set(indices)
                more = [each for each in flat if not names.isdisjoint(self.free(each))]
                if not more:
                    break
                group += more
                flat = [each for each in flat if each not in more]
            if names:
                data = tuple(sorted((each, indices[each]) for each in names))
                found.append(terms.make("sum", tuple(sorted(group, key=_order)), data, group[0].sort))
            else:
                found += group
        return {tuple(sorted(found, key=_order)): Fraction(1)}

    def _picked(self, name: str, size: Poly, factors: list[Term]) -> Sum | None:
        """The sum where a factor says that the index is equal to another, which is below the size."""
        for place, each in enumerate(factors):
            if each.head != "choose" or each.args[0].head != "eq":
                continue
            sides = [arg.data for arg in each.args[0].args if arg.head == "index"]
            if len(sides) != 2:
                continue
            for one, other in (sides, sides[::-1]):
                if one == Poly.name(name) and name not in self.scope.free(other):
                    if not (self.scope.is_at_least(other) and self.scope.is_below(other, size)):
                        continue
                    total: Sum = {(): Fraction(1)}
                    for rest in [*factors[:place], *factors[place + 1 :]]:
                        total = _times(total, self.expanded(self.put(rest, {name: other})))
                    return total
        return None


def _polys(term: Term) -> Iterable[Poly]:
    if term.head == "read":
        return term.data[1]  # type: ignore[no-any-return]
    if term.head == "index":
        return (term.data,)
    if term.head == "sum":
        return [size for _, size in term.data]
    return (term.data[1],) if term.head.startswith("fold:") else ()


def _unknown(root: Term, known: Mapping[Term, Any]) -> list[Term]:
    """The terms below one, itself included, of which something is not known yet, each after its arguments."""
    if root in known:
        return []
    return [
        each for each in children_first([root], lambda term: () if term in known else term.args) if each not in known
    ]


def _order(term: Term) -> int:
    return term.number


def _inverse(terms: Any, one: Term, term: Term) -> Term:
    if term.head == "div" and term.args[0] is one:
        return term.args[1]
    return terms.div(one, term)  # type: ignore[no-any-return]


def _note(to: Sum, factors: Iterable[Term], number: Fraction) -> None:
    _add_monomial(to, tuple(sorted(factors, key=_order)), number)


def _times(one: Sum, other: Sum) -> Sum:
    result: Sum = {}
    for left, number in one.items():
        for right, by in other.items():
            _note(result, (*left, *right), number * by)
    return result


# ---- values


def ranges(points: Round, pair: Iterable[Term]) -> list[tuple[Polynomial, bool]]:
    """What is known of the indices and sizes in terms, as linear constraints: forms that are not below 0."""
    found: list[tuple[Polynomial, bool]] = []
    for term in pair:
        if term.terms.normal is None:
            continue
        normal = _normal(term)
        for name in sorted(normal.free(term)):
            index, above = Poly.name(name), normal.scope.above.get(name)
            known = [index - Poly({(): LEAST})] if above is None else [index, above - index - Poly({(): 1})]
            found += [(points.polynomial(term.terms.make("index", (), each, REAL)), False) for each in known]
    return found


def _normal(term: Term) -> Normal:
    found = term.terms.normal
    if found is None:
        raise BadPointError
    return found  # type: ignore[no-any-return]


def _poly_value(points: Round, poly: Poly) -> Pair:
    total = ZERO
    for names, factor in poly.terms.items():
        product = _number(factor)
        for name in names:
            product = _mul(product, points.index(name))
        total = _add(total, product)
    return total


def _read(points: Round, term: Term) -> Pair:
    leaf, polys = term.data
    key = (leaf, *[_poly_value(points, poly) for poly in polys])
    if term.sort == BOOL:
        return points.decide("true", key, None)
    return points.drawn("var", key)


def _index(points: Round, term: Term) -> Pair:
    return _poly_value(points, term.data)


def _at(points: Round, normal: Normal, terms: Iterable[Term], values: Mapping[str, Poly]) -> Pair:
    """The product of terms at other indices."""
    product = ONE
    for each in terms:
        term = normal.put(each, values)
        product = _mul(product, points.value(term))
        if term in points.rooted:
            raise BadPointError
    return product


def _expanded_value(points: Round, found: Sum) -> Pair:
    total = ZERO
    for factors, number in found.items():
        total = _add(total, _mul(_number(number), _at(points, _normal_of(factors), factors, {})))
    return total


def _normal_of(factors: Factors) -> Any:
    return _normal(factors[0]) if factors else None


def _least(
    normal: Normal, indices: Iterable[tuple[str, Poly]], height: int, value: Callable[[Mapping[str, Poly]], Pair]
) -> tuple[Any, Pair]:
    """The least of the values in all orders of the indices of one size, and the sizes."""
    groups: dict[Any, list[str]] = {}
    for name, size in indices:
        groups.setdefault(size.key, []).append(name)
    if any(len(names) > MOST_INDICES for names in groups.values()):
        raise BadPointError
    shared = {}
    for key, names in groups.items():
        shared[key] = [normal.scope.named(f"{height}:{place}:{key}", Poly(dict(key))) for place in range(len(names))]
    found = []
    for orders in combinations(*[permutations(shared[key]) for key in groups]):
        chosen = {name: index for names, order in zip(groups.values(), orders, strict=True)
                  for name, index in zip(names, order, strict=True)}  # fmt: skip
        found.append(value(chosen))
    return tuple(sorted((key, len(names)) for key, names in groups.items())), min(found)


def _sum(points: Round, term: Term) -> Pair:
    normal, plain = _normal(term), points.plain()
    sizes, value = _least(normal, term.data, normal.height(term), lambda values: _at(plain, normal, term.args, values))
    result = points.drawn("sum", sizes, value)
    if all(term.args.count(each) % 2 == 0 or each.head in _POSITIVE for each in term.args):
        points.positive.add(result)
    return result


_POSITIVE = ("f:exp", "f:sqrt", "f:rsqrt", "f:abs", "f:sigmoid")


def _sum_polynomial(points: Round, term: Term) -> Polynomial:
    result: dict[Any, Fraction] = {}
    for factors, number in _normal(term).expanded(term).items():
        powers: dict[Pair, int] = {}
        for each in factors:
            value = points.value(each)
            powers[value] = powers.get(value, 0) + 1
        monomial = tuple(sorted(powers.items()))
        result[monomial] = result.get(monomial, Fraction(0)) + number
    return {monomial: number for monomial, number in result.items() if number}


def _fold(points: Round, term: Term) -> Pair:
    normal, plain = _normal(term), points.plain()
    kind = term.head.removeprefix("fold:")
    if kind == "add":
        return _expanded_value(points, normal.expanded(term))
    indices, body = [term.data], term.args[0]
    while body.head == term.head:
        indices.append(body.data)
        body = body.args[0]
    indices = [(name, size) for name, size in indices if name in normal.free(body)]
    if kind in ("max", "min", "and", "or") and not indices:
        return points.value(body)
    height = normal.height(term)
    if kind not in ("max", "min") or term.sort != REAL:
        sizes, value = _least(normal, indices, height, lambda values: _at(plain, normal, [body], values))
        if term.sort == BOOL:
            return points.decide("true", (kind, sizes, value), None)
        return points.drawn(term.head, term.sort, sizes, value)
    names = {name for name, _ in indices}
    parts = normal.expanded(body)
    outer = {each: number for each, number in parts.items()
             if all(names.isdisjoint(normal.free(factor)) for factor in each)}  # fmt: skip
    base = _expanded_value(points, outer)

    def inner(values: Mapping[str, Poly]) -> Pair:
        value = _sub(_at(plain, normal, [body], values), base)
        return value if kind == "max" else _neg(value)

    sizes, value = _least(normal, indices, height, inner)
    rest = points.drawn("fold:max", sizes, value)
    return _add(base, rest if kind == "max" else _neg(rest))


POLYNOMIALS["fold:add"] = _sum_polynomial
HEADS.update({"read": _read, "index": _index, "sum": _sum})
HEADS.update({f"fold:{kind}": _fold for kind in ("add", "mul", "max", "min", "and", "or")})
