"""The symbolic dimensions of shapes, under the names of ``tvm.te``."""

from eqsat.tir.expr import SizeVar as size_var
from eqsat.tir.expr import Var as var

__all__ = ["size_var", "var"]
