"""Terms: what one element of a tensor is, as a function of the elements of the inputs.

Terms are numbered as they are made, arguments first, and equal ones are one. Laws that keep every bit of a
floating-point number are applied when a term is made, so that two terms are one only where their values have equal
bits. What else is equal over the real numbers, :mod:`eqsat.rules.prove.field` finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from math import ceil, copysign, floor, inf, isinf, isnan, trunc
from typing import Any

import numpy as np

from eqsat.errors import EqsatError

REAL, BOOL = "real", "bool"
"""The sorts of terms; those of integers are the names of their dtypes."""

COMMUTE = {"add", "mul", "and", "or", "xor", "eq", "bitwise_and", "bitwise_or", "bitwise_xor"}
"""Functions of which the arguments are kept in ascending order."""


_WHOLE = ("floor", "ceil", "rint", "trunc")
"""Functions that give whole numbers, and leave them."""


_FOLDED: dict[str, Callable[[Fraction], int]] = {"floor": floor, "ceil": ceil, "rint": round, "trunc": trunc}
"""How they are computed of constants."""


class NoTermError(EqsatError):
    """There is no term for something that a kernel asks."""


class UnsuitedError(NoTermError):
    """An instance of which nothing is shown, though others may be: it has no value, or sizes do not divide evenly."""


def sort_of(dtype: Any) -> str:
    """The sort of elements of a dtype."""
    kind = np.dtype(dtype).kind
    return BOOL if kind == "b" else str(np.dtype(dtype)) if kind in "iu" else REAL


def range_of(sort: str) -> tuple[int, int]:
    """The least and the greatest value of a sort of integers or truth values."""
    if sort == BOOL:
        return 0, 1
    info = np.iinfo(sort)
    return int(info.min), int(info.max)


class Term:
    """One term: a function of others, a constant or a variable. :class:`Terms` makes them.

    Attributes:
        terms: what made it.
        number: of its kind, in the order in which they were made.
        head: the function's name, ``const`` or ``var``.
        args: the arguments.
        data: the value of a constant, what tells variables from each other, or what else the function is given.
        sort: that of its values.
    """

    __slots__ = ("args", "data", "head", "number", "sort", "terms")

    def __init__(self, terms: Terms, number: int, head: str, args: tuple[Term, ...], data: Any, sort: str):
        self.terms, self.number, self.head, self.args, self.data, self.sort = terms, number, head, args, data, sort

    def __repr__(self) -> str:
        if not self.args:
            return str(self.data)
        return f"{self.head}({', '.join(map(repr, self.args))})"

    # NumPy's loops over objects use these

    def __add__(self, other: Any) -> Any:
        return self.terms.add(self, self.terms.lift(other, self.sort))

    def __radd__(self, other: Any) -> Any:
        return self.terms.add(self.terms.lift(other, self.sort), self)

    def __mul__(self, other: Any) -> Any:
        return self.terms.mul(self, self.terms.lift(other, self.sort))

    def __rmul__(self, other: Any) -> Any:
        return self.terms.mul(self.terms.lift(other, self.sort), self)

    def __sub__(self, other: Any) -> Any:
        return self.terms.sub(self, self.terms.lift(other, self.sort))

    def __rsub__(self, other: Any) -> Any:
        return self.terms.sub(self.terms.lift(other, self.sort), self)

    def __truediv__(self, other: Any) -> Any:
        if self.sort != REAL:
            raise NoTermError("a quotient of integers")
        return self.terms.div(self, self.terms.lift(other, self.sort))

    def sqrt(self) -> Term:
        return self.terms.function("sqrt", self)

    # where a kernel needs numbers, only constants are

    def _number(self) -> Any:
        if self.head != "const":
            raise NoTermError("a kernel needs the numbers themselves")
        return self.data

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __index__(self) -> int:
        return int(self._number())

    def __bool__(self) -> bool:
        return bool(self._number())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Term):
            return self is other
        raise NoTermError("a kernel compares elements")

    __hash__ = object.__hash__

    def __lt__(self, other: object) -> bool:
        raise NoTermError("a kernel compares elements")

    __le__ = __gt__ = __ge__ = __lt__


class Terms:
    """Makes terms.

    Attributes:
        made: all of them.
        assumed: what must hold besides for the terms to say what floating-point kernels compute.
        normal: brings terms with indices to a normal form, where there are such.
    """

    def __init__(self, most: int = 200_000) -> None:
        self.made: list[Term] = []
        self.assumed: set[str] = set()
        self.most = most
        self.normal: Any = None
        self._known: dict[Hashable, Term] = {}

    def make(self, head: str, args: tuple[Term, ...] = (), data: Any = None, sort: str = REAL) -> Term:
        """The term of a function, its arguments and what else it is given."""
        if head in COMMUTE and len(args) == 2 and args[0].number > args[1].number:
            args = args[::-1]
        key = (head, *[arg.number for arg in args], data, type(data), sort)
        term = self._known.get(key)
        if term is None:
            if len(self.made) >= self.most:
                raise NoTermError(f"the sides have more than {self.most} terms")
            term = self._known[key] = Term(self, len(self.made), head, args, data, sort)
            self.made.append(term)
        return term

    def const(self, value: Any, sort: str) -> Term:
        """A constant: a fraction, an infinite float, -0.0, an integer or a truth value."""
        if sort == BOOL:
            return self.make("const", (), bool(value), sort)
        if sort != REAL:
            if isinstance(value, float) and not value.is_integer():
                raise UnsuitedError("a number is no integer")
            info = np.iinfo(sort)
            size = int(info.max) - int(info.min) + 1
            return self.make("const", (), (int(value) - int(info.min)) % size + int(info.min), sort)
        if isinstance(value, Fraction):
            return self.make("const", (), value, sort)
        number = float(value)
        if isnan(number):
            raise NoTermError("NaN is no real number")
        if isinf(number) or (number == 0 and copysign(1, number) < 0):
            return self.make("const", (), number, sort)
        return self.make("const", (), Fraction(number), sort)

    def lift(self, value: Any, sort: str) -> Term:
        """``value`` as a term."""
        return value if isinstance(value, Term) else self.const(value, sort)

    def add(self, a: Term, b: Term) -> Term:
        if a.sort == BOOL:
            return self.logic("or", a, b)
        for one, other in ((a, b), (b, a)):
            if one.head == "const":
                if _is_minus_zero(one) or (one.data == 0 and one.sort != REAL):
                    return other
                if isinstance(one.data, float) and isinf(one.data):
                    if other.head == "const" and isinstance(other.data, float) and other.data == -one.data:
                        raise NoTermError("infinity less infinity is no number")
                    self.assumed.add("no input is infinite or NaN")
                    return one
        if a.head == b.head == "const":
            return self._folded(_exact(a) + _exact(b), a.sort)
        return self.make("add", (a, b), None, a.sort)

    def neg(self, a: Term) -> Term:
        if a.head == "neg":
            return a.args[0]
        if a.head == "const":
            if a.sort == REAL and a.data == 0:
                return self.const(0.0 if _is_minus_zero(a) else -0.0, REAL)
            return self.const(-a.data, a.sort)
        return self.make("neg", (a,), None, a.sort)

    def sub(self, a: Term, b: Term) -> Term:
        return self.add(a, self.neg(b))

    def mul(self, a: Term, b: Term) -> Term:
        if a.sort == BOOL:
            return self.logic("and", a, b)
        negative = False
        if a.head == "neg":
            a, negative = a.args[0], True
        if b.head == "neg":
            b, negative = b.args[0], not negative
        result = self._product(a, b)
        return self.neg(result) if negative else result

    def _product(self, a: Term, b: Term) -> Term:
        for one, other in ((a, b), (b, a)):
            if one.head == "const":
                if one.data == 1:
                    return other
                if one.data == -1:
                    return self.neg(other)
                if one.data == 0 and one.sort != REAL:
                    return one
                if isinstance(one.data, float) and isinf(one.data):
                    if other.head != "const" or other.data == 0:
                        raise NoTermError("a product with infinity")
                    return self.const(one.data * float(other.data), REAL)
        if a.head == b.head == "const":
            return self._folded(_exact(a) * _exact(b), a.sort)
        return self.make("mul", (a, b), None, a.sort)

    def div(self, a: Term, b: Term) -> Term:
        """The quotient of real numbers."""
        if a.head == "neg":
            return self.neg(self.div(a.args[0], b))
        if b.head == "neg":
            return self.neg(self.div(a, b.args[0]))
        if b.head == "const":
            if b.data == 1:
                return a
            if b.data == 0:
                raise NoTermError("a quotient by zero")
            if isinstance(b.data, float):
                raise NoTermError("a quotient by infinity")
            if a.head == "const" and not isinstance(a.data, float):
                return self._folded(_exact(a) / _exact(b), REAL)
        if a.head == "const" and isinstance(a.data, float) and isinf(a.data):
            raise NoTermError("a quotient of infinity")
        return self.make("div", (a, b))

    def _folded(self, value: Any, sort: str) -> Term:
        if sort == REAL:
            self.assumed.add("constants are computed without rounding")
        return self.const(Fraction(value) if sort == REAL else value, sort)

    def extreme(self, a: Term, b: Term) -> Term:
        """The greater of two."""
        return self._extreme("max", a, b)

    def least(self, a: Term, b: Term) -> Term:
        """The smaller of two."""
        return self._extreme("min", a, b)

    def _extreme(self, head: str, a: Term, b: Term) -> Term:
        """The greater of two where ``head`` is ``max``, the smaller where it is ``min``."""
        is_max = head == "max"
        if a is b:
            return a
        if a.sort == BOOL:
            return self.logic("or" if is_max else "and", a, b)
        never, always = (-inf, inf) if is_max else (inf, -inf)
        for one, other in ((a, b), (b, a)):
            if one.head == "const" and one.data == (never if one.sort == REAL else range_of(one.sort)[not is_max]):
                return other
            if one.head == "const" and one.data == always:
                self.assumed.add("no input is infinite or NaN")
                return one
        if a.head == b.head == "const":
            return a if (a.data >= b.data if is_max else a.data <= b.data) else b
        # ordered by number: which of +0 and -0 is the greater kernels do not say
        low, high = (a, b) if a.number < b.number else (b, a)
        return self.make(head, (low, high), None, a.sort)

    def less(self, a: Term, b: Term) -> Term:
        """Whether ``a`` is less than ``b``."""
        if a is b:
            return self.const(False, BOOL)
        if a.head == b.head == "const":
            return self.const(a.data < b.data, BOOL)
        for one, result in ((a, a.data == -inf), (b, b.data == inf)):
            if one.head == "const" and one.sort == REAL and isinstance(one.data, float) and isinf(one.data):
                self.assumed.add("no input is infinite or NaN")
                return self.const(result, BOOL)
        return self.make("less", (a, b), None, BOOL)

    def equal(self, a: Term, b: Term) -> Term:
        """Whether two are equal."""
        if a is b:
            return self.const(True, BOOL)
        if a.sort == BOOL:
            return self.not_(self.logic("xor", a, b))
        if a.head == b.head == "const":
            return self.const(a.data == b.data, BOOL)
        for one in (a, b):
            if one.head == "const" and isinstance(one.data, float) and isinf(one.data):
                self.assumed.add("no input is infinite or NaN")
                return self.const(False, BOOL)
        return self.make("eq", (a, b), None, BOOL)

    def not_(self, a: Term) -> Term:
        if a.head == "not":
            return a.args[0]
        return self.const(not a.data, BOOL) if a.head == "const" else self.make("not", (a,), None, BOOL)

    def logic(self, head: str, a: Term, b: Term) -> Term:
        """``and``, ``or`` or ``xor`` of truth values."""
        for one, other in ((a, b), (b, a)):
            if one.head == "const":
                if head == "xor":
                    return self.not_(other) if one.data else other
                return other if bool(one.data) is (head == "and") else one
        if a is b:
            return self.const(False, BOOL) if head == "xor" else a
        return self.make(head, (a, b), None, BOOL)

    def choose(self, condition: Term, a: Term, b: Term) -> Term:
        """``a`` where the condition holds, ``b`` elsewhere."""
        if condition.head == "const":
            return a if condition.data else b
        if a is b:
            return a
        if condition.head == "not":
            return self.choose(condition.args[0], b, a)
        for each in (a, b):
            if each.head == "const" and isinstance(each.data, float) and isinf(each.data):
                raise NoTermError("infinity where a condition says so")
        if a.sort == BOOL:
            return self.logic("or", self.logic("and", condition, a), self.logic("and", self.not_(condition), b))
        return self.make("choose", (condition, a, b), None, a.sort)

    def function(self, name: str, *args: Term, sort: str = REAL) -> Term:
        """A function that the real numbers have no term for, or not one that keeps every bit."""
        if name in _WHOLE and args[0].head[2:] in _WHOLE:
            return args[0]
        if name in _FOLDED and args[0].head == "const" and isinstance(args[0].data, Fraction):
            return self.const(Fraction(_FOLDED[name](args[0].data)), sort)
        if name == "sign" and args[0].head == "f:sign":
            return args[0]
        return self.make(f"f:{name}", args, None, sort)

    def convert(self, a: Term, dtype: Any) -> Term:
        """``a`` as an element of another dtype."""
        sort = sort_of(dtype)
        if a.sort == sort == REAL:
            if a.head == "const" or (a.head == "cast" and a.data == str(np.dtype(dtype))):
                return a
            return self.make("cast", (a,), str(np.dtype(dtype)))
        if a.sort == sort:
            return a
        if sort == BOOL:
            return self.not_(self.equal(a, self.const(0, a.sort)))
        if a.sort == BOOL:
            return self.choose(a, self.const(1, sort), self.const(0, sort))
        if a.head == "const" and not (isinstance(a.data, float) and isinf(a.data)):
            return self.const(Fraction(a.data) if sort == REAL else int(a.data), sort)
        if a.head == "choose":
            return self.choose(a.args[0], *[self.convert(each, dtype) for each in a.args[1:]])
        if a.head == "convert" and REAL not in (a.data, a.sort, sort) and _bytes(a.sort) >= _bytes(sort):
            return self.convert(a.args[0], dtype)  # each takes the last bits
        return self.make("convert", (a,), a.sort, sort)


def _bytes(sort: str) -> int:
    return np.dtype(sort).itemsize


def _exact(term: Term) -> Any:
    """The value of a constant, exactly."""
    return Fraction(term.data) if isinstance(term.data, float) else term.data


def _is_minus_zero(term: Term) -> bool:
    return term.sort == REAL and isinstance(term.data, float) and term.data == 0


Elementwise = Callable[..., Term]
