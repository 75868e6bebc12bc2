"""Passes over modules, under Relay's names. Higher layers register theirs as ``relay.transform.<name>``."""

from typing import Any

from eqsat.registry import get_global_func
from eqsat.relay.transform.annotate_spans import AnnotateSpans
from eqsat.relay.transform.annotate_target import AnnotateTarget
from eqsat.relay.transform.base import (
    FunctionPass,
    InferType,
    InferTypeLocal,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    Sequential,
    function_pass,
    module_pass,
)
from eqsat.relay.transform.combine_parallel import (
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
)
from eqsat.relay.transform.compiler_functions import (
    InlineCompilerFunctionsBoundTo,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
)
from eqsat.relay.transform.dynamic_to_static import DynamicToStatic
from eqsat.relay.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from eqsat.relay.transform.fake_quantization_to_integer import FakeQuantizationToInteger
from eqsat.relay.transform.fold_constant import FoldConstant, FoldConstantExpr
from eqsat.relay.transform.fold_scale_axis import BackwardFoldScaleAxis, FoldScaleAxis, ForwardFoldScaleAxis
from eqsat.relay.transform.fuse_ops import FuseOps
from eqsat.relay.transform.inline import DefuseOps, Inline, RemoveUnusedFunctions
from eqsat.relay.transform.layouts import AlterOpLayout, ConvertLayout, InferCorrectLayoutOutput, LayoutConfig
from eqsat.relay.transform.legalize import Legalize
from eqsat.relay.transform.lets import DeadCodeElimination, ToGraphNormalForm
from eqsat.relay.transform.merge_compiler_regions import MergeCompilerRegions
from eqsat.relay.transform.merge_composite import MergeComposite
from eqsat.relay.transform.mixed_precision import ToMixedPrecision
from eqsat.relay.transform.normal_forms import ToANormalForm, ToANormalFormExpr
from eqsat.relay.transform.partition_graph import PartitionGraph
from eqsat.relay.transform.simplify import SimplifyExpr, SimplifyExprPostAlterOp
from eqsat.relay.transform.write_out import CanonicalizeOps, SimplifyInference

__all__ = [
    "AlterOpLayout", "AnnotateSpans", "AnnotateTarget", "BackwardFoldScaleAxis", "CanonicalizeOps",
    "CombineParallelBatchMatmul", "CombineParallelConv2D", "CombineParallelDense", "ConvertLayout",
    "DeadCodeElimination", "DefuseOps", "DynamicToStatic", "EliminateCommonSubexpr", "FakeQuantizationToInteger",
    "FoldConstant", "FoldConstantExpr", "FoldScaleAxis", "ForwardFoldScaleAxis", "FunctionPass", "FuseOps",
    "InferCorrectLayoutOutput", "InferType", "InferTypeLocal", "Inline", "InlineCompilerFunctionsBoundTo",
    "LayoutConfig", "Legalize", "MergeCompilerRegions", "MergeComposite", "ModulePass",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols", "PartitionGraph", "Pass", "PassContext", "PassInfo",
    "RemoveUnusedFunctions", "Sequential", "SimplifyExpr", "SimplifyExprPostAlterOp", "SimplifyInference",
    "ToANormalForm", "ToANormalFormExpr", "ToGraphNormalForm", "ToMixedPrecision", "function_pass", "module_pass",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A pass that a higher layer has registered."""
    make = get_global_func(f"relay.transform.{name}", allow_missing=True)
    if make is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return make
