"""Signs, conditions and elementary functions: what undoes itself, and what one operator does in place of several."""

from __future__ import annotations

from eqsat.egraph.author import compute, constants, like, non_constant, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, RuleSet, Soundness
from eqsat.nd import bits
from eqsat.relay.dataflow_pattern import is_op
from eqsat.relay.op import (
    abs,
    cos,
    equal,
    erf,
    exp,
    logical_and,
    logical_not,
    logical_or,
    negative,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
    where,
)
from eqsat.relay.ty import TensorType
from eqsat.rules.operators import binary
from eqsat.rules.shape import broadcasts, expanded
from eqsat.rules.types import floats, is_scalar, keeps_floats, same_type
from eqsat.rules.values import all_false, all_negative, all_true, half, minus_one, nonzero, one, scalar, two, zero

x, y, z = variables("x y z")
a, b, c = constants("a b c")

ROUNDING = Soundness.ROUNDING
FINITE = Soundness.FINITE

equal_to_true, equal_to_false = equal(x, all_true), equal(x, all_false)
inverse_twice = one / (one / x)

with_neutral = {
    "and-true": logical_and(x, all_true),
    "true-and": logical_and(all_true, x),
    "or-false": logical_or(x, all_false),
    "false-or": logical_or(all_false, x),
}
decided = {"where-true": (where(all_true, x, y), x), "where-false": (where(all_false, x, y), y)}


def is_condition(ty: TensorType) -> bool:
    """Guard: elements are true or false."""
    return ty.dtype == "bool"


known = where(z, a, b)


def stays_small(number: TensorType, *chosen: TensorType) -> bool:
    """Guard: a constant and each of two that are chosen are combined to nothing larger."""
    return all(broadcasts(number, number, ty) or broadcasts(ty, number, ty) for ty in chosen)


with_choice, choice_first = binary(c, known), binary(known, c)
sides = {"constant-with-choice": (with_choice, (c, a), (c, b)), "choice-with-constant": (choice_first, (a, c), (b, c))}


def differs(value: Array, number: Array) -> Array:
    """Where a constant is another number, or a zero of the other sign."""
    found: Array = bits(value) != bits(number)
    return found


def other_number(value: Array, number: Array) -> Array:
    """The first element of a constant that is not a given number."""
    first: Array = value[differs(value, number)][0]
    return first


def of_two_numbers(value: Array, number: Array) -> bool:
    """Guard: a constant has one number in some places, of several, and a given one in all others."""
    if number.size != 1 or number.ndim > value.ndim or value.size < 2 or value.dtype.kind not in "fiu":
        return False
    places = differs(value, number)
    if not places.any():
        return False
    return not differs(value[places], other_number(value, number)).any()


# what is chosen for x is a constant
shifts, scales = where(z, x + a, x + b), where(z, x * a, x * b)
chosen_constants = {"shifts": (shifts, x + where(z, a, b)), "scales": (scales, x * where(z, a, b))}

# a condition as numbers, and back
as_condition = {
    "truth-as-numbers": (is_op("cast")(where(z, nonzero, zero)), z),
    "falsehood-as-numbers": (is_op("cast")(where(z, zero, nonzero)), logical_not(z)),
}


# signs, and functions applied once more
repeated = RuleSet(
    "repeated",
    [
        *[
            rewrite(f"{name}-twice", is_op(name)(is_op(name)(x)), is_op(name)(x))
            for name in ("floor", "ceil", "round", "sign")
        ],
        # x >= y is y <= x
        rewrite("greater-or-equal-is-less-or-equal", is_op("greater_equal")(x, y), is_op("less_equal")(y, x)),
        rewrite("greater-is-less", is_op("greater")(x, y), is_op("less")(y, x)),
        rewrite("equal-to-true", equal_to_true, x),
        rewrite("equal-to-false", equal_to_false, logical_not(x), when(same_type, type_of(equal_to_false), type_of(x))),
        rewrite("not-twice", logical_not(logical_not(x)), x),
        rewrite("reciprocal-twice", inverse_twice, x, keeps_floats(inverse_twice, x), soundness=ROUNDING),
        # x + (-y) = x - y
        rewrite("add-negative", x + negative(y), x - y),
        rewrite("subtract-negative", x - negative(y), x + y),
        # -(x - y) = y - x, but for the sign of 0
        rewrite("negate-difference", negative(x - y), y - x, soundness=ROUNDING),
        # (-x)(-y) = x y
        rewrite("multiply-negatives", negative(x) * negative(y), x * y),
        rewrite("divide-negatives", negative(x) / negative(y), x / y, floats(x)),
        *[rewrite(name, whole, x) for name, whole in with_neutral.items()],
        # where the constant is larger than x
        *[rewrite(f"{name}-expands", whole, expanded(x, whole)) for name, whole in with_neutral.items()],
        rewrite("where-not", where(logical_not(z), x, y), where(z, y, x)),
        rewrite("where-both", where(z, x, x), x),
        rewrite("and-itself", logical_and(z, z), z, when(is_condition, type_of(z))),
        rewrite("or-itself", logical_or(z, z), z, when(is_condition, type_of(z))),
        *[
            rewrite(f"chosen-{name}", whole, moved, keeps_floats(whole, x), non_constant(x), non_constant(z))
            for name, (whole, moved) in chosen_constants.items()
        ],
        # of a known condition and another one, the known one chooses among constants
        rewrite("where-known-and-other", where(logical_and(a, z), b, c), where(z, where(a, b, c), c)),
        # of a constant that is b here and there, such as a mask, the other number is chosen by both conditions
        rewrite(
            "where-of-two-numbers",
            known,
            where(
                logical_and(compute(differs, value_of(a), value_of(b)), z),
                compute(other_number, value_of(a), value_of(b)),
                b,
            ),
            when(of_two_numbers, value_of(a), value_of(b)),
        ),
        # f(c, where(z, a, b)) = where(z, f(c, a), f(c, b))
        *[
            rewrite(
                name,
                whole,
                where(z, like(whole, *first), like(whole, *second)),
                when(stays_small, type_of(c), type_of(a), type_of(b)),
            )
            for name, (whole, first, second) in sides.items()
        ],
        *[
            rewrite(name, whole, condition, when(same_type, type_of(whole), type_of(z)), when(is_condition, type_of(z)))
            for name, (whole, condition) in as_condition.items()
        ],
        *[rewrite(name, whole, part) for name, (whole, part) in decided.items()],
        *[rewrite(f"{name}-expands", whole, expanded(part, whole)) for name, (whole, part) in decided.items()],
    ],
)

opposite, multiple = x * minus_one, x * a
above_one, above_one_by_negative = one + exp(opposite), one + exp(x)
logistic, logistic_of_negative = one / above_one, one / above_one_by_negative
odds = exp(x) / above_one_by_negative
by_logistic, by_logistic_of_negative = y / above_one, y / above_one_by_negative
two_sigmoids = sigmoid(x) * two + minus_one
half_of_tanh = tanh(x) * half + half
difference_by_sum = (exp(x) - exp(opposite)) / (exp(x) + exp(opposite))
reciprocal_of_root = one / sqrt(x)
reciprocal_of_rsqrt = one / rsqrt(x)

# each of them saves an operator
functions = RuleSet(
    "functions",
    [
        rewrite("abs-of-square", abs(x * x), x * x, floats(x)),
        rewrite("abs-of-exp", abs(exp(x)), exp(x), floats(x)),
        rewrite("abs-of-sqrt", abs(sqrt(x)), sqrt(x), floats(x), soundness=ROUNDING),
        rewrite("abs-of-sigmoid", abs(sigmoid(x)), sigmoid(x)),
        rewrite("square-of-abs", abs(x) * abs(x), x * x),
        rewrite("cos-of-negative", cos(negative(x)), cos(x), floats(x)),
        rewrite("cos-of-opposite", cos(opposite), cos(x), keeps_floats(opposite, x)),
        # f(x a) = -f(x (-a)), where a is a negative number
        *[
            rewrite(
                f"{name}-of-negative",
                odd(multiple),
                negative(odd(x * negative(a))),
                when(is_scalar, type_of(a)),
                when(all_negative, value_of(a)),
                keeps_floats(multiple, x),
                non_constant(x),
                soundness=ROUNDING,
            )
            for name, odd in (("erf", erf), ("tanh", tanh), ("sin", sin))
        ],
        rewrite(
            "reciprocal-of-root", reciprocal_of_root, rsqrt(x), keeps_floats(reciprocal_of_root, x), soundness=ROUNDING
        ),
        rewrite(
            "reciprocal-of-rsqrt",
            reciprocal_of_rsqrt,
            sqrt(x),
            keeps_floats(reciprocal_of_rsqrt, x),
            soundness=ROUNDING,
        ),
        # 1 / (1 + e^-x)
        rewrite("sigmoid", logistic, sigmoid(x), keeps_floats(logistic, x), soundness=ROUNDING),
        rewrite(
            "sigmoid-of-negative",
            logistic_of_negative,
            sigmoid(x * scalar(-1, x)),
            keeps_floats(logistic_of_negative, x),
            soundness=ROUNDING,
        ),
        # y / (1 + e^-x) = y sigmoid(x)
        rewrite("divide-by-logistic", by_logistic, y * sigmoid(x), keeps_floats(above_one, x), soundness=ROUNDING),
        rewrite(
            "divide-by-logistic-of-negative",
            by_logistic_of_negative,
            y * sigmoid(x * scalar(-1, x)),
            keeps_floats(above_one_by_negative, x),
            soundness=ROUNDING,
        ),
        # e^x / (1 + e^x)
        rewrite("sigmoid-of-odds", odds, sigmoid(x), keeps_floats(odds, x), soundness=FINITE),
        # 2 sigmoid(x) - 1 = tanh(x / 2)
        rewrite("tanh", two_sigmoids, tanh(x * scalar(0.5, x)), keeps_floats(two_sigmoids, x), soundness=ROUNDING),
        # (1 + tanh x) / 2 = sigmoid(2 x)
        rewrite(
            "sigmoid-of-tanh",
            half_of_tanh,
            sigmoid(x * scalar(2, x)),
            keeps_floats(half_of_tanh, x),
            soundness=ROUNDING,
        ),
        # (e^x - e^-x) / (e^x + e^-x)
        rewrite(
            "tanh-of-exponentials", difference_by_sum, tanh(x), keeps_floats(difference_by_sum, x), soundness=FINITE
        ),
    ],
)
