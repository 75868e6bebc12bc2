"""Quadratic forms as products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.expr import Call, Expr, const
from eqsat.relay.op import add, multiply
from eqsat.relay.transform.simplify.rule import Find, op_name, rule, scalar, tensor_type

_DTYPES = ("int32", "float32", "float64")
_EQUAL_ROOTS = 1e-4


@dataclass(frozen=True)
class _Term:
    """coefficient * left * right."""

    coefficient: float
    left: Expr
    right: Expr


@rule(is_op("add")(is_op("add")(wildcard(), wildcard()), wildcard()))
def binomial(pre: Call, post: Call, find: Find) -> Expr | None:
    """a*x*x + b*x*y + c*y*y = a * ((x + p*y) * (x + q*y)) with p + q = b/a and p*q = c/a, up to rounding."""
    dtype = tensor_type(pre).dtype
    terms = [term for term in map(_term, _summands(post)) if term is not None]
    squares = [term for term in terms if term.left is term.right]
    mixed = [term for term in terms if term.left is not term.right]
    if dtype not in _DTYPES or len(squares) != 2 or len(mixed) != 1:
        return None
    (xx, yy), (xy,) = squares, mixed
    if {xx.left, yy.left} != {xy.left, xy.right}:
        return None
    if yy.coefficient == 1 and xx.coefficient > 1:
        xx, yy = yy, xx
    return _factored(xx, xy, yy, dtype)


def _factored(xx: _Term, xy: _Term, yy: _Term, dtype: str) -> Expr | None:
    a, b, c = xx.coefficient, xy.coefficient, yy.coefficient
    discriminant = b * b - 4 * a * c
    if a == 0 or discriminant < 0:
        return None
    root = 0.0 if discriminant < _EQUAL_ROOTS else math.sqrt(discriminant)
    p, q = (b + root) / (2 * a), (b - root) / (2 * a)
    if dtype == "int32" and not (p.is_integer() and q.is_integer() and a * p * q == c):
        return None
    x, y = xx.left, yy.left
    first = _plus(x, y, p, dtype)
    product: Expr = multiply(first, first if p == q else _plus(x, y, q, dtype))
    return product if a == 1 else multiply(const(a, dtype), product)


def _plus(x: Expr, y: Expr, factor: float, dtype: str) -> Expr:
    """x + factor * y."""
    scaled = y if factor == 1 else multiply(y, const(factor, dtype))
    total: Expr = add(x, scaled)
    return total


def _summands(root: Call) -> list[Expr]:
    """The operands of a sum of sums, two levels deep, the nested sum's first."""
    nested = next(arg for arg in root.args if op_name(arg) == "add")
    other = root.args[1] if root.args[0] is nested else root.args[0]
    return [*nested.children()[1:], other]


def _term(expr: Expr) -> _Term | None:
    """``expr`` as a product of two expressions and possibly a number."""
    factors = list(_factors(expr))
    numbers = [number for number in map(scalar, factors) if number is not None]
    rest = [factor for factor in factors if scalar(factor) is None]
    if len(rest) != 2 or len(numbers) > 1:
        return None
    return _Term(float(numbers[0]) if numbers else 1.0, rest[0], rest[1])


def _factors(expr: Expr) -> Iterator[Expr]:
    """The operands of a product of products, two levels deep."""
    if op_name(expr) != "multiply":
        return
    for operand in expr.children()[1:]:
        if op_name(operand) == "multiply" and scalar(operand) is None:
            yield from operand.children()[1:]
        else:
            yield operand
