"""Sizes and indices that are not known: polynomials with integer coefficients in names.

A name is that of a size, of which only is known that it is at least 2; of an index, which is at least 0 and below a
size; or of a quotient that is rounded down. :class:`Size` is an integer that carries the polynomial it was computed by,
so that the operators' own code computes shapes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from eqsat.rules.prove.terms import NoTermError, UnsuitedError

Product: TypeAlias = tuple[str, ...]
LEAST = 2
"""The least value of a size that has a name; axes of size 1 are told from others."""


class Poly:
    """A sum of products of names, compared by value."""

    __slots__ = ("_hash", "key", "terms")

    def __init__(self, terms: Mapping[Product, int]):
        self.terms = {names: factor for names, factor in terms.items() if factor}
        self.key = tuple(sorted(self.terms.items()))
        self._hash = hash(self.key)

    @staticmethod
    def of(value: Any) -> Poly:
        """A size, an integer or a polynomial as a polynomial."""
        if isinstance(value, Poly):
            return value
        return value.poly if isinstance(value, Size) else _constant(int(value))

    @staticmethod
    def name(name: str) -> Poly:
        return Poly({(name,): 1})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return " + ".join("*".join((*([str(factor)] if factor != 1 or not names else []), *names))
                          for names, factor in self.key) or "0"  # fmt: skip

    def __add__(self, other: Poly) -> Poly:
        found = dict(self.terms)
        for names, factor in other.terms.items():
            found[names] = found.get(names, 0) + factor
        return Poly(found)

    def __neg__(self) -> Poly:
        return Poly({names: -factor for names, factor in self.terms.items()})

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        found: dict[Product, int] = {}
        for one, factor in self.terms.items():
            for two, by in other.terms.items():
                names = tuple(sorted((*one, *two)))
                found[names] = found.get(names, 0) + factor * by
        return Poly(found)

    @property
    def constant(self) -> int | None:
        """The value of a polynomial without names, None for others."""
        return self.terms.get((), 0) if not any(self.terms) else None

    def names(self) -> set[str]:
        return {name for names in self.terms for name in names}

    def put(self, value_of: Callable[[str], Poly]) -> Poly:
        """The polynomial with polynomials in the place of names."""
        total = ZERO
        for names, factor in self.terms.items():
            product = Poly({(): factor})
            for name in names:
                product = product * value_of(name)
            total = total + product
        return total

    def divided(self, by: Poly) -> tuple[Poly, Poly]:
        """A polynomial and a rest: ``by`` times the one and the other are this. By a sum, all or nothing is divided."""
        if len(by.terms) != 1:
            if self.terms and by.terms:
                (names, factor), (first, by_factor) = next(iter(self.terms.items())), next(iter(by.terms.items()))
                rest = _without(names, first)
                if rest is not None and factor % by_factor == 0:
                    times = Poly({rest: factor // by_factor})
                    if times * by == self:
                        return times, ZERO
            return ZERO, self
        ((names, factor),) = by.terms.items()
        whole: dict[Product, int] = {}
        left: dict[Product, int] = {}
        for product, count in self.terms.items():
            rest = _without(product, names)
            if rest is None or (product and count % factor):
                left[product] = count
            else:
                whole[rest], left[product] = divmod(count, factor)
        return Poly(whole), Poly(left)


def _without(product: Product, names: Product) -> Product | None:
    left = list(product)
    for name in names:
        if name not in left:
            return None
        left.remove(name)
    return tuple(left)


@lru_cache(maxsize=1 << 12)
def _constant(value: int) -> Poly:
    return Poly({(): value})


ZERO, ONE = Poly({}), Poly({(): 1})


class Scope:
    """What is known of names.

    Attributes:
        above: of each index the size that it is below.
        quotients: of each quotient what is divided by what.
        assumed: whether sizes were compared of which the order is not known; then it is that of the sizes drawn.
    """

    def __init__(self) -> None:
        self.above: dict[str, Poly] = {}
        self.quotients: dict[str, tuple[Poly, Poly]] = {}
        self.assumed = False
        self._count = 0

    def restart(self) -> None:
        """Give the same names again."""
        self._count = 0

    def index(self, size: Any) -> Poly:
        """A new index below a size; 0 where the size is 1."""
        if Poly.of(size) == ONE:
            return ZERO
        self._count += 1
        return self.named(f"i{self._count}", Poly.of(size))

    def named(self, name: str, size: Poly) -> Poly:
        self.above[name] = size
        return Poly.name(name)

    def is_at_least(self, poly: Poly, least: int = 0) -> bool:
        """Whether it is certain that a polynomial is at least a number."""
        bound = poly - Poly({(): least})
        for _ in range(8):  # an index may be below a size that has other indices in it
            indices = {name for name in bound.names() if name in self.above or name in self.quotients}
            if not indices:
                break
            bound = self._lowered(bound, indices)
        moved = bound.put(lambda name: Poly({(name,): 1, (): LEAST}))
        return all(factor >= 0 for factor in moved.terms.values())

    def _lowered(self, bound: Poly, indices: set[str]) -> Poly:
        """The polynomial with indices as small as they get where they count, as large where they are taken off."""
        total = ZERO
        for names, factor in bound.terms.items():
            product = Poly({(): factor})
            for name in names:
                if name not in indices:
                    product = product * Poly.name(name)
                elif factor > 0:
                    product = ZERO
                elif name in self.above:
                    product = product * (self.above[name] - ONE)
                else:
                    product = product * self.quotients[name][0]  # a quotient is at most what is divided
            total = total + product
        return total

    def is_below(self, one: Poly, other: Poly) -> bool | None:
        """Whether an index is below another, None where that depends."""
        if self.is_at_least(other - one, 1):
            return True
        return False if self.is_at_least(one - other) else None

    def divide(self, poly: Poly, by: Poly) -> tuple[Poly, Poly]:
        """The quotient, rounded down, and the rest of a polynomial that is not negative."""
        whole, rest = poly.divided(by)
        if self.is_at_least(rest) and self.is_at_least(by - rest, 1):
            return whole, rest
        quotient = self._quotient(rest, by)
        return whole + quotient, rest - by * quotient

    def _quotient(self, rest: Poly, by: Poly) -> Poly:
        if len(by.terms) == 1:
            ((names, factor),) = by.terms.items()
            for common in [Poly.name(name) for name in dict.fromkeys(names)] + [Poly({(): factor})]:
                whole, left = rest.divided(common)
                if common != ONE and self.is_at_least(left) and self.is_at_least(common - left, 1):
                    return self.divide(whole, by.divided(common)[0])[0]
        if len(rest.terms) == 1 and next(iter(rest.terms.values())) == 1:
            (names,) = rest.terms
            if len(names) == 1 and names[0] in self.quotients:
                above, below = self.quotients[names[0]]
                return self.divide(above, below * by)[0]
        name = f"[{rest!r} / {by!r}]"
        self.quotients[name] = rest, by
        return Poly.name(name)

    def put(self, poly: Poly, values: Mapping[str, Poly]) -> Poly:
        """A polynomial with others in the place of names, also in quotients."""
        if not any(name in values or name in self.quotients for name in poly.names()):
            return poly
        return poly.put(lambda name: self._put(name, values))

    def _put(self, name: str, values: Mapping[str, Poly]) -> Poly:
        if name in values:
            return values[name]
        if name in self.quotients:
            above, below = (self.put(each, values) for each in self.quotients[name])
            return self.divide(above, below)[0]
        return Poly.name(name)

    def free(self, poly: Poly) -> Iterator[str]:
        """The names that a polynomial depends on."""
        for name in poly.names():
            if name in self.quotients:
                for each in self.quotients[name]:
                    yield from self.free(each)
            else:
                yield name


class Size(int):
    """An integer that was computed from sizes.

    Attributes:
        poly: how.
        scope: where comparisons are noted of which the result is not certain.
    """

    poly: Poly
    scope: Scope

    def __new__(cls, value: int, poly: Poly, scope: Scope) -> Any:
        if poly.constant is not None:
            return poly.constant
        made = super().__new__(cls, value)
        made.poly, made.scope = poly, scope
        return made

    def _made(self, value: int, poly: Poly) -> Any:
        return Size(value, poly, self.scope)

    def __add__(self, other: Any) -> Any:
        return self._made(int(self) + int(other), self.poly + Poly.of(other)) if _is_whole(other) else NotImplemented

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return self._made(int(self) * int(other), self.poly * Poly.of(other)) if _is_whole(other) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self._made(-int(self), -self.poly)

    def __sub__(self, other: Any) -> Any:
        return self._made(int(self) - int(other), self.poly - Poly.of(other)) if _is_whole(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return self._made(int(other) - int(self), Poly.of(other) - self.poly) if _is_whole(other) else NotImplemented

    def __floordiv__(self, other: Any) -> Any:
        return _divmod(self, other, self.scope)[0]

    def __rfloordiv__(self, other: Any) -> Any:
        return _divmod(other, self, self.scope)[0]

    def __mod__(self, other: Any) -> Any:
        return _divmod(self, other, self.scope)[1]

    def __rmod__(self, other: Any) -> Any:
        return _divmod(other, self, self.scope)[1]

    def __divmod__(self, other: Any) -> Any:
        return _divmod(self, other, self.scope)

    def __truediv__(self, other: Any) -> Any:
        raise NoTermError("a size is divided")

    __rtruediv__ = __pow__ = __rpow__ = __truediv__  # type: ignore[assignment]

    def _above(self, other: Any, least: int) -> bool:
        """Whether it is at least that much above another."""
        difference = self.poly - Poly.of(other)
        if self.scope.is_at_least(difference, least):
            return True
        if not self.scope.is_at_least(-difference, 1 - least):
            self.scope.assumed = True
        return int(self) - int(other) >= least

    def __lt__(self, other: Any) -> bool:
        return not self._above(other, 0)

    def __ge__(self, other: Any) -> bool:
        return self._above(other, 0)

    def __gt__(self, other: Any) -> bool:
        return self._above(other, 1)

    def __le__(self, other: Any) -> bool:
        return not self._above(other, 1)

    def __eq__(self, other: object) -> bool:
        if not _is_whole(other):
            return False
        difference = self.poly - Poly.of(other)
        if not difference.terms:
            return True
        if not self.scope.is_at_least(difference, 1) and not self.scope.is_at_least(-difference, 1):
            self.scope.assumed = True
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __bool__(self) -> bool:
        return self != 0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _divmod(above: Any, below: Any, scope: Scope) -> tuple[Any, Any]:
    whole, rest = Poly.of(above).divided(Poly.of(below))
    if rest.constant is None and scope.is_at_least(rest) and scope.is_at_least(Poly.of(below) - rest, 1):
        return _sized(int(above) // int(below), whole, scope), _sized(int(above) % int(below), rest, scope)
    if rest.constant is None or not 0 <= rest.constant < int(below):
        raise UnsuitedError("a size is divided by what need not divide it")
    return _sized(int(above) // int(below), whole, scope), rest.constant


def _sized(value: int, poly: Poly, scope: Scope) -> Any:
    return Size(value, poly, scope)


def product(dims: Iterable[Any]) -> Poly:
    """The product of sizes."""
    total = ONE
    for dim in dims:
        total = total * Poly.of(dim)
    return total
