"""Reshapes, transpositions and layout changes that follow each other or change nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from eqsat.relay.dataflow_pattern import wildcard
from eqsat.relay.expr import Call, Expr
from eqsat.relay.op import layout_transform, reshape, transpose
from eqsat.relay.transform.simplify.rule import Find, any_op, op_name, rule, tensor_type
from eqsat.relay.ty import is_static

_x = wildcard()
_RESHAPES = ("reshape", "contrib_reverse_reshape")
_TRANSPOSES = ("transpose", "layout_transform")


@rule(any_op(*_RESHAPES)(any_op(*_RESHAPES)(_x)))
def reshape_of_reshape(pre: Call, post: Call, find: Find) -> Expr | None:
    """reshape(reshape(x)) = reshape(x, shape)."""
    ty = pre.checked_type
    return reshape(find(_x), ty.concrete_shape) if is_static(ty) else None


@rule(any_op(*_TRANSPOSES)(any_op(*_TRANSPOSES)(_x)))
def transpose_of_transpose(pre: Call, post: Call, find: Find) -> Expr | None:
    """Two transpositions or layout changes are one, or none."""
    inner, x = pre.args[0], find(_x)
    if not isinstance(inner, Call):
        return None
    first, second = _axes(inner), _axes(pre)
    if first is not None and second is not None:
        composed: Expr = transpose(x, [first[axis] for axis in second])
        return composed
    if first is not None:
        src, dst = _layouts(pre)
        return _relayout(x, [src[first.index(axis)] for axis in range(len(first))], dst)
    src, dst = _layouts(inner)
    if second is not None:
        return _relayout(x, src, [dst[axis] for axis in second])
    middle, last = _layouts(pre)
    return _relayout(x, src, last) if dst == middle else None


@rule(any_op(*_TRANSPOSES)(None))
def transpose_to_same(pre: Call, post: Call, find: Find) -> Expr | None:
    """transpose(x) = x where every axis stays; layout_transform(x) = x where the layout stays."""
    axes = _axes(pre)
    return post.args[0] if axes is not None and axes == sorted(axes) else None


def _axes(call: Call) -> list[int] | None:
    """Where each axis of the result comes from; None when axes are split or joined."""
    if op_name(call) == "layout_transform":
        src, dst = _layouts(call)
        return [src.index(axis) for axis in dst] if sorted(src) == sorted(dst) else None
    rank = len(tensor_type(call).shape)
    axes = None if call.attrs is None else call.attrs.axes
    return [axis % rank for axis in axes] if axes else list(range(rank))[::-1]


def _layouts(call: Call) -> tuple[list[str], list[str]]:
    """Source and destination layout as lists of axes, such as N, C, H, W, 4c."""
    attrs: Any = call.attrs
    src, dst = (re.findall(r"\d*[A-Za-z]", text) for text in (attrs.src_layout, attrs.dst_layout))
    return src, dst


def _relayout(x: Expr, src: Sequence[str], dst: Sequence[str]) -> Expr:
    if list(src) == list(dst):
        return x
    changed: Expr = layout_transform(x, "".join(src), "".join(dst))
    return changed
