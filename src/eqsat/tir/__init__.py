"""The names that TVM's users take from ``tvm.tir``."""

from eqsat.tir import expr, op
from eqsat.tir.expr import Any, IntImm, SizeVar, Var

__all__ = ["Any", "IntImm", "SizeVar", "Var", "expr", "op"]
