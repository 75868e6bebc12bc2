"""What stands for the arguments of an operator where only their types are known, and whether they are constant."""

from __future__ import annotations

import numpy as np

from eqsat.cost.models import CostNode
from eqsat.nd import NDArray
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from eqsat.relay.ty import UNKNOWN, TupleType, Type, is_static


def stand_ins(node: CostNode, types: dict[Expr, Type], number: int = 1) -> list[Expr]:
    """Return arguments of the types, and as constant, as those of ``node``.

    Args:
        node: What a cost model sees of the operator.
        types: Gets the types of the arguments.
        number: What all elements of constants are.
    """
    constant = node.arg_constant or (False,) * len(node.arg_types)
    return [stand_in(ty, known, types, number) for ty, known in zip(node.arg_types, constant, strict=True)]


def stand_in(ty: Type | None, constant: bool, types: dict[Expr, Type], number: int = 1) -> Expr:
    """Return an expression of a type: a constant, a variable, or a tuple of variables."""
    if isinstance(ty, TupleType):
        made: Expr = Tuple([stand_in(field, False, types, number) for field in ty.fields])
    elif constant and is_static(ty):
        shape, element = ty.concrete_shape, np.full((), number, ty.dtype)
        made = Constant(NDArray(shape, ty.dtype, lambda: np.broadcast_to(element, shape)))  # one element, however large
    else:
        made = Var("", ty)
    types[made] = UNKNOWN if ty is None else ty
    return made


def stand_in_call(node: CostNode, arguments: list[Expr], types: dict[Expr, Type]) -> Call:
    """Return the operator of ``node`` over stand-ins."""
    call = Call(Op.get(node.op), arguments, node.attrs)
    if node.type is not None:
        types[call] = node.type
    return call
