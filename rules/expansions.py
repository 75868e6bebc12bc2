"""Expansions by ``broadcast_to``: operators that broadcast take them in, others let them through."""

from __future__ import annotations

from eqsat.egraph.author import constants, like, rewrite, type_of, variables, when
from eqsat.egraph.rule import Rewrite, RuleSet
from eqsat.egraph.vocabulary import is_exact
from eqsat.errors import TypeCheckError
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.expr import Expr, const
from eqsat.relay.op import greater, where
from eqsat.relay.op.types import broadcast_shape
from eqsat.relay.ty import Dim, TensorType
from eqsat.rules.operators import binary, unary

x, y, z, sizes = variables("x y z sizes")
c, d = constants("c d")


def broadcasts(root: TensorType, *operands: TensorType) -> bool:
    """Guard: operands of these types broadcast to the shape of the root by themselves."""
    shape: tuple[Dim, ...] = ()
    try:
        for ty in operands:
            shape = broadcast_shape(shape, ty.shape)
    except TypeCheckError:
        return False
    return is_exact(root) and shape == root.shape


def absorbed(name: str, spread: DFPattern, *rest: DFPattern) -> list[Rewrite]:
    """Operators that take in an expansion, or let it through.

    Args:
        name: how the rules call the expansion.
        spread: the pattern of ``x``, expanded.
        rest: the arguments of the expansion behind ``x``.
    """
    first, second, applied = binary(spread, y), binary(y, spread), unary(spread)
    choices = {
        "condition": (where(spread, y, z), (x, y, z)),
        "choice": (where(y, spread, z), (y, x, z)),
        "other-choice": (where(y, z, spread), (y, z, x)),
    }
    selected = where(spread, c, d)

    return [
        rewrite(
            f"{name}-into-first-operand",
            first,
            like(first, x, y),
            when(broadcasts, type_of(first), type_of(x), type_of(y)),
        ),
        rewrite(
            f"{name}-into-second-operand",
            second,
            like(second, y, x),
            when(broadcasts, type_of(second), type_of(y), type_of(x)),
        ),
        *[
            rewrite(
                f"{name}-into-{place}", call, where(*operands), when(broadcasts, type_of(call), *map(type_of, operands))
            )
            for at, (place, (call, operands)) in enumerate(choices.items())
        ],
        # f(expand(x)) = expand(f(x))
        rewrite(f"{name}-after-function", applied, like(spread, like(applied, x), *rest)),
        rewrite(
            f"{name}-after-choice",
            selected,
            like(spread, where(x, c, d), *rest),
            when(are_scalars, type_of(c), type_of(d)),
        ),
    ]


def are_scalars(*types: TensorType) -> bool:
    return not any(ty.shape for ty in types)


def _operands(place: int, spread: Expr, other: Expr) -> list[Expr]:
    """The operands of ``where``, with ``spread`` at a place."""
    return [spread if at == place else other if at else greater(other, const(0.0)) for at in range(3)]


broadcasting = RuleSet(
    "broadcasting",
    [
        absorbed("expand", is_op("broadcast_to")(x)),
        absorbed("dynamic-expand", is_op("dyn.broadcast_to")(x, sizes), sizes),
    ],
)
