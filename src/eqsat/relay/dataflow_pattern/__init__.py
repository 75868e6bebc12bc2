"""Relay's dataflow pattern language: patterns that describe subgraphs, to match, rewrite and partition them."""

from eqsat.relay.dataflow_pattern.explanation import Mismatch, PatternExplanation, Place
from eqsat.relay.dataflow_pattern.language import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ManyPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypedPattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    many,
    wildcard,
)
from eqsat.relay.dataflow_pattern.matcher import match
from eqsat.relay.dataflow_pattern.mismatches import explain
from eqsat.relay.dataflow_pattern.partitioner import partition
from eqsat.relay.dataflow_pattern.rewriter import DFPatternCallback, rewrite
from eqsat.relay.op.op import OpPattern

K_ELEMWISE = int(OpPattern.ELEMWISE)
K_BROADCAST = int(OpPattern.BROADCAST)
K_INJECTIVE = int(OpPattern.INJECTIVE)
K_COMM_REDUCE = int(OpPattern.COMM_REDUCE)
K_OUT_ELEMWISE_FUSABLE = int(OpPattern.OUT_ELEMWISE_FUSABLE)
K_OPAQUE = int(OpPattern.OPAQUE)

is_elemwise = wildcard().has_attr({"TOpPattern": K_ELEMWISE})(wildcard())
"""A pattern of calls of elementwise operators with one argument."""

__all__ = [
    "K_BROADCAST", "K_COMM_REDUCE", "K_ELEMWISE", "K_INJECTIVE", "K_OPAQUE", "K_OUT_ELEMWISE_FUSABLE", "AltPattern",
    "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern", "DFPatternCallback", "DataTypePattern",
    "DominatorPattern", "ExprPattern", "FunctionPattern", "IfPattern", "LetPattern", "ManyPattern", "Mismatch",
    "PatternExplanation", "Place", "ShapePattern", "TupleGetItemPattern", "TuplePattern", "TypePattern",
    "TypedPattern", "VarPattern", "WildcardPattern", "dominates", "explain", "has_attr", "has_dtype", "has_shape",
    "has_type", "is_constant", "is_elemwise", "is_expr", "is_if", "is_let", "is_op", "is_tuple", "is_tuple_get_item",
    "is_var", "many", "match", "partition", "rewrite", "wildcard",
]  # fmt: skip
