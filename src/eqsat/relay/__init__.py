"""The IR: a Relay-style graph of typed tensor operators."""

from eqsat.relay import analysis, build_module, dataflow_pattern, expr, op, transform, ty
from eqsat.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    const,
    var,
)
from eqsat.relay.module import IRModule
from eqsat.relay.op import *  # noqa: F403 - relay.add is relay.op.add
from eqsat.relay.op import nn
from eqsat.relay.parser import Span, fromtext, parse, parse_expr
from eqsat.relay.ty import Any, FuncType, IncompleteType, RefType, TensorType, TupleType, Type
from eqsat.relay.visitor import ExprMutator, ExprVisitor
from eqsat.relay.viz import viz

__all__ = [
    "Any",
    "Call",
    "Constant",
    "Expr",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalVar",
    "IRModule",
    "If",
    "IncompleteType",
    "Let",
    "Op",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "Span",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "Var",
    "analysis",
    "build_module",
    "const",
    "dataflow_pattern",
    "expr",
    "fromtext",
    "nn",
    "op",
    "parse",
    "parse_expr",
    "transform",
    "ty",
    "var",
    "viz",
]
