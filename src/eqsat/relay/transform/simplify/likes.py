"""Operators that take a shape or dtype from another tensor, where that is known."""

from __future__ import annotations

import numpy as np

from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.op import broadcast_to, cast, collapse_sum_to, full, ones, reshape, zeros
from eqsat.relay.transform.simplify.rule import Find, binary, rule, tensor_type, unary
from eqsat.relay.ty import is_static


@rule(unary("zeros_like"))
def zeros_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """zeros_like(x) = zeros(shape, dtype)."""
    ty = pre.checked_type
    return zeros(ty.concrete_shape, ty.dtype) if is_static(ty) else None


@rule(unary("ones_like"))
def ones_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """ones_like(x) = ones(shape, dtype)."""
    ty = pre.checked_type
    return ones(ty.concrete_shape, ty.dtype) if is_static(ty) else None


@rule(binary("full_like"))
def full_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """full_like(x, v) = full(v, shape, dtype)."""
    ty = pre.checked_type
    return full(post.args[1], ty.concrete_shape, ty.dtype) if is_static(ty) else None


@rule(binary("reshape_like"))
def reshape_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """reshape_like(x, y) = reshape(x, shape)."""
    ty = pre.checked_type
    return reshape(post.args[0], ty.concrete_shape) if is_static(ty) else None


@rule(binary("collapse_sum_like"))
def collapse_sum_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """collapse_sum_like(x, y) = collapse_sum_to(x, shape)."""
    ty = pre.checked_type
    shape = Constant(np.array(ty.concrete_shape, dtype="int32")) if is_static(ty) else None
    return None if shape is None else collapse_sum_to(post.args[0], shape)


@rule(binary("broadcast_to_like"))
def broadcast_to_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """broadcast_to_like(x, y) = broadcast_to(x, shape)."""
    ty = pre.checked_type
    return broadcast_to(post.args[0], ty.concrete_shape) if is_static(ty) else None


@rule(binary("cast_like"))
def cast_like(pre: Call, post: Call, find: Find) -> Expr | None:
    """cast_like(x, y) = cast(x, dtype of y)."""
    ty = tensor_type(pre)
    return None if ty is None else cast(post.args[0], ty.dtype)
