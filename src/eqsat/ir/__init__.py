"""The names that TVM's users take from ``tvm.ir``."""

from eqsat.ir import container, instrument, module, op, tensor_type, transform
from eqsat.ir.container import Array, Map
from eqsat.ir.node import load_json, make_node, save_json
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Expr as RelayExpr
from eqsat.relay.expr import GlobalVar, Op
from eqsat.relay.module import IRModule
from eqsat.relay.op.op import register_op_attr
from eqsat.relay.structural import assert_structural_equal, structural_equal, structural_hash
from eqsat.relay.ty import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

__all__ = [
    "Array",
    "Attrs",
    "FuncType",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "IncompleteType",
    "Map",
    "Op",
    "RefType",
    "RelayExpr",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeVar",
    "assert_structural_equal",
    "container",
    "instrument",
    "load_json",
    "make_node",
    "module",
    "op",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
    "tensor_type",
    "transform",
]
