"""Operators that take a shape or dtype from another tensor, where that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.op import broadcast_to, cast, collapse_sum_to, full, ones, reshape, zeros
from eqsat.relay.transform.simplify.rule import Find, any_op, op_name, rule, tensor_type
from eqsat.relay.ty import TensorType, is_static

_WITHOUT_LIKE: dict[str, Callable[[Sequence[Expr], TensorType], Expr]] = {
    "broadcast_to_like": lambda args, ty: broadcast_to(args[0], ty.concrete_shape),
    "cast_like": lambda args, ty: cast(args[0], ty.dtype),
    "collapse_sum_like": lambda args, ty: collapse_sum_to(args[0], Constant(np.array(ty.concrete_shape, "int32"))),
    "full_like": lambda args, ty: full(args[1], ty.concrete_shape, ty.dtype),
    "ones_like": lambda args, ty: ones(ty.concrete_shape, ty.dtype),
    "reshape_like": lambda args, ty: reshape(args[0], ty.concrete_shape),
    "zeros_like": lambda args, ty: zeros(ty.concrete_shape, ty.dtype),
}


@rule(any_op(*_WITHOUT_LIKE)(None))
def known_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """reshape_like(x, y) = reshape(x, shape of y), and so on."""
    ty, name = tensor_type(pre), op_name(post)
    return _WITHOUT_LIKE[name](post.args, ty) if name == "cast_like" or is_static(ty) else None
