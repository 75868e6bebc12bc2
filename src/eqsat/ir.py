"""The names that TVM's users take from ``tvm.ir``."""

from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import GlobalVar, Op
from eqsat.relay.module import IRModule
from eqsat.relay.op.op import register_op_attr
from eqsat.relay.structural import assert_structural_equal, structural_equal, structural_hash
from eqsat.relay.ty import FuncType, IncompleteType, RefType, TensorType, TupleType, Type

__all__ = [
    "Attrs",
    "FuncType",
    "GlobalVar",
    "IRModule",
    "IncompleteType",
    "Op",
    "RefType",
    "TensorType",
    "TupleType",
    "Type",
    "assert_structural_equal",
    "register_op_attr",
    "structural_equal",
    "structural_hash",
]
