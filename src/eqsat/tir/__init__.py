"""The names that TVM's users take from ``tvm.tir``."""

from eqsat.relay.transform.layouts.layout import Layout
from eqsat.tir import expr, op
from eqsat.tir.expr import Any, IntImm, SizeVar, Var, const

__all__ = ["Any", "IntImm", "Layout", "SizeVar", "Var", "const", "expr", "layout", "op"]

layout = Layout.parse
