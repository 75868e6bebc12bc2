"""CanonicalizeOps: operators that stand for others are written out."""

from __future__ import annotations

from typing import Any

from eqsat.relay.expr import Expr
from eqsat.relay.op.types import axis_index
from eqsat.relay.transform.base import Pass, PassInfo, typed_pass
from eqsat.relay.transform.channels import along_axis
from eqsat.relay.transform.simplify.rule import op_name
from eqsat.relay.visitor import rewrite_post_order


def CanonicalizeOps() -> Pass:
    """Replace ``nn.bias_add`` by ``add`` of the bias, shaped to broadcast along its axis."""
    return typed_pass(lambda function: rewrite_post_order(function, written_out), PassInfo(3, "CanonicalizeOps"))


def written_out(old: Any, new: Any) -> Expr:
    """What stands for ``new``, of which ``old`` is the typed form; ``new`` itself where nothing does."""
    result: Expr = new
    if op_name(new) == "nn.bias_add":
        data, bias = new.args
        rank = len(old.checked_type.shape)
        result = data + along_axis(bias, axis_index(new.attrs.axis, rank), rank)
    return result
