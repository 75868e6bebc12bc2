"""Operators that take a shape or dtype from another tensor, that fill a tensor, or that do nothing at run time."""

from __future__ import annotations

from eqsat.egraph.author import compute, constants, like, rewrite, type_of, variables, when
from eqsat.egraph.rule import Rewrite, RuleSet
from eqsat.egraph.vocabulary import is_exact
from eqsat.relay.dataflow_pattern import DFPattern, is_if, is_op, is_tuple_get_item
from eqsat.relay.op import broadcast_to, cast
from eqsat.relay.ty import TensorType
from eqsat.rules.operators import binary
from eqsat.rules.shape import reshaped
from eqsat.rules.types import same_dtype, same_type, static_shape
from eqsat.rules.values import all_false, all_true, scalar

x, y = variables("x y")
(number,) = constants("number")


def dtype_of(ty: TensorType) -> str:
    return ty.dtype


def fill(name: str, root: DFPattern, *operands: DFPattern) -> DFPattern:
    """``zeros``, ``ones`` or ``full`` of the shape and dtype of ``root``."""
    shape, dtype = compute(static_shape, type_of(root)), compute(dtype_of, type_of(root))
    return is_op(name)(*operands).has_attr({"shape": shape, "dtype": dtype})


zeros_like, ones_like = is_op("zeros_like")(x), is_op("ones_like")(x)
full_like = is_op("full_like")(x, number)
reshape_like = is_op("reshape_like")(x, y)
broadcast_to_like = is_op("broadcast_to_like")(x, y)
cast_like = is_op("cast_like")(x, y)

concrete = RuleSet(
    "concrete",
    [
        rewrite("zeros-like", zeros_like, fill("zeros", zeros_like)),
        rewrite("ones-like", ones_like, fill("ones", ones_like)),
        rewrite(
            "full-like",
            full_like,
            fill("full", full_like, number),
            when(same_dtype, type_of(full_like), type_of(number)),
        ),
        rewrite("reshape-like", reshape_like, reshaped(x, reshape_like)),
        rewrite(
            "broadcast-to-like",
            broadcast_to_like,
            broadcast_to(x, shape=compute(static_shape, type_of(broadcast_to_like))),
        ),
        rewrite("cast-like", cast_like, cast(x, dtype=compute(dtype_of, type_of(cast_like)))),
    ],
)


def filled_operand(name: str, value: float | None) -> list[Rewrite]:
    """f(fill, x) = f(number, x) where ``x`` has the result's shape"""
    filling = is_op(name)(number) if value is None else is_op(name)()
    of = number if value is None else scalar(value, x)
    found = []
    for form, call in (("first", binary(filling, x)), ("second", binary(x, filling))):
        operands = (of, x) if form == "first" else (x, of)
        found.append(
            rewrite(
                f"{name}-as-{form}-operand",
                call,
                like(call, *operands),
                when(same_type, type_of(filling), type_of(x)),
                when(is_exact, type_of(x)),
                when(same_dtype, type_of(x), type_of(number if value is None else filling)),
            )
        )
    return found


by_shape = is_op("dyn.full")(number, y)
its_shape = is_op("shape_of")(by_shape)
filled_by_shape = {"first": binary(by_shape, x), "second": binary(x, by_shape)}


fills = RuleSet(
    "fills",
    [
        *filled_operand("zeros", 0),
        *filled_operand("ones", 1),
        *filled_operand("full", None),
        *[
            rewrite(
                f"shaped-fill-as-{form}-operand",
                call,
                like(call, *((number, x) if form == "first" else (x, number))),
                when(same_type, type_of(by_shape), type_of(x)),
                when(is_exact, type_of(x)),
                when(same_dtype, type_of(x), type_of(number)),
            )
            for form, call in filled_by_shape.items()
        ],
        rewrite("shape-of-fill", its_shape, y, when(same_type, type_of(its_shape), type_of(y))),
    ],
)

# ---- what is not there at run time

dropped, copied = is_op("nn.dropout")(x), is_op("copy")(x)


nothing = RuleSet(
    "nothing",
    [
        rewrite("dropout", is_tuple_get_item(dropped, 0), x),
        rewrite("copy", copied, x),
        rewrite("if-true", is_if(all_true, x, y), x),
        rewrite("if-false", is_if(all_false, x, y), y),
    ],
)

likes = RuleSet("likes", [concrete, fills, nothing])
