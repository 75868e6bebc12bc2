"""Sums and products with constants, and with themselves."""

from __future__ import annotations

import numpy as np

from eqsat.relay.dataflow_pattern import is_constant, is_op, wildcard
from eqsat.relay.expr import Call, Constant, Expr, Op, const
from eqsat.relay.op import add, multiply, rsqrt
from eqsat.relay.op.op import OpPattern
from eqsat.relay.traits import Trait
from eqsat.relay.transform.simplify.rule import Find, any_op, op_name, rule, scalar, tensor_type

_x, _c1, _c2 = wildcard(), is_constant(), is_constant()


@rule(is_op("add")(None))
def add_to_itself(pre: Call, post: Call, find: Find) -> Expr | None:
    """x + x = x * 2."""
    left, right = post.args
    return multiply(left, const(2, tensor_type(pre).dtype)) if left is right else None


@rule(is_op("divide")(wildcard(), is_op("sqrt")(_x)))
def divide_by_sqrt(pre: Call, post: Call, find: Find) -> Expr | None:
    """n / sqrt(x) = n * rsqrt(x), up to rounding."""
    product: Expr = multiply(post.args[0], rsqrt(find(_x)))
    return product


_NEUTRAL = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}
_FILLED_WITH = {"zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1}


@rule(any_op(*_NEUTRAL)(None))
def neutral_operand(pre: Call, post: Call, find: Find) -> Expr | None:
    """x + 0 = x - 0 = x * 1 = x / 1 = x, where x has the result's type."""
    neutral, commutes = _NEUTRAL[op_name(post)], Op.get(op_name(post)).has(Trait.COMMUTATIVE)
    for kept, dropped in ((0, 1), (1, 0)):
        may_drop = dropped == 1 or commutes
        same_type = pre.args[kept].checked_type == pre.checked_type
        if may_drop and same_type and _is_filled_with(post.args[dropped], neutral):
            return post.args[kept]
    return None


def _is_filled_with(expr: Expr, value: int) -> bool:
    number = scalar(expr)
    return bool(number == value) if number is not None else _FILLED_WITH.get(op_name(expr)) == value


@rule(wildcard().has_attr({"TOpPattern": int(OpPattern.BROADCAST)})(wildcard(), wildcard()))
def filled_operand(pre: Call, post: Call, find: Find) -> Expr | None:
    """op(x, full(c)) = op(x, c) for broadcasting operators, where x has the result's type."""
    ty = tensor_type(pre)
    # with attributes, such as bias_add's axis, the second argument may not be of another rank
    if post.attrs:
        return None
    for kept, filled in ((1, 0), (0, 1)):
        value = _filling(post.args[filled], ty.dtype)
        if value is not None and pre.args[kept].checked_type == ty:
            args = list(post.args)
            args[filled] = value
            return Call(post.op, args, post.attrs)
    return None


def _filling(expr: Expr, dtype: str) -> Constant | None:
    """The scalar that ``expr`` repeats over a tensor."""
    name = op_name(expr)
    if name in _FILLED_WITH:
        return const(_FILLED_WITH[name], dtype)
    value = scalar(expr.children()[1 + (name == "full_like")]) if name in ("full", "full_like") else None
    return None if value is None else const(value, dtype)


@rule((_x + _c1) * _c2)
def multiply_of_add(pre: Call, post: Call, find: Find) -> Expr | None:
    """(x + c1) * c2 = x * c2 + (c1 * c2), up to rounding."""
    x, c1, c2 = find(_x), find(_c1), find(_c2)
    return None if isinstance(x, Constant) else add(multiply(x, c2), _folded(np.multiply, c1, c2))


@rule((_x + _c1) + _c2 | (_x * _c1) * _c2)
def constant_chain(pre: Call, post: Call, find: Find) -> Expr | None:
    """(x + c1) + c2 = x + (c1 + c2), and likewise for products, up to rounding."""
    x, compute = find(_x), np.add if op_name(post) == "add" else np.multiply
    return None if isinstance(x, Constant) else Call(post.op, (x, _folded(compute, find(_c1), find(_c2))), post.attrs)


def _folded(compute: np.ufunc, left: Constant, right: Constant) -> Constant:
    with np.errstate(all="ignore"):
        return Constant(np.asarray(compute(left.data.numpy(), right.data.numpy())))
