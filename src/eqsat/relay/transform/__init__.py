"""Passes over modules, under Relay's names. Higher layers register theirs as ``relay.transform.<name>``."""

from typing import TYPE_CHECKING, Any

from eqsat.lazy import load_name
from eqsat.registry import get_global_func
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

if TYPE_CHECKING:
    from eqsat.relay.transform.annotate_spans import AnnotateSpans
    from eqsat.relay.transform.annotate_target import AnnotateTarget
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

_MODULE_OF = {
    "AlterOpLayout": "layouts",
    "AnnotateSpans": "annotate_spans",
    "AnnotateTarget": "annotate_target",
    "BackwardFoldScaleAxis": "fold_scale_axis",
    "CanonicalizeOps": "write_out",
    "CombineParallelBatchMatmul": "combine_parallel",
    "CombineParallelConv2D": "combine_parallel",
    "CombineParallelDense": "combine_parallel",
    "ConvertLayout": "layouts",
    "DeadCodeElimination": "lets",
    "DefuseOps": "inline",
    "DynamicToStatic": "dynamic_to_static",
    "EliminateCommonSubexpr": "eliminate_common_subexpr",
    "FakeQuantizationToInteger": "fake_quantization_to_integer",
    "FoldConstant": "fold_constant",
    "FoldConstantExpr": "fold_constant",
    "FoldScaleAxis": "fold_scale_axis",
    "ForwardFoldScaleAxis": "fold_scale_axis",
    "FuseOps": "fuse_ops",
    "InferCorrectLayoutOutput": "layouts",
    "Inline": "inline",
    "InlineCompilerFunctionsBoundTo": "compiler_functions",
    "LayoutConfig": "layouts",
    "Legalize": "legalize",
    "MergeCompilerRegions": "merge_compiler_regions",
    "MergeComposite": "merge_composite",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols": "compiler_functions",
    "PartitionGraph": "partition_graph",
    "RemoveUnusedFunctions": "inline",
    "SimplifyExpr": "simplify",
    "SimplifyExprPostAlterOp": "simplify",
    "SimplifyInference": "write_out",
    "ToANormalForm": "normal_forms",
    "ToANormalFormExpr": "normal_forms",
    "ToGraphNormalForm": "lets",
    "ToMixedPrecision": "mixed_precision",
}
"""Where the passes are; each is loaded on first use."""

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
    """A pass that is not loaded yet, or that a higher layer has registered."""
    registered = None if name in _MODULE_OF else get_global_func(f"relay.transform.{name}", allow_missing=True)
    return registered or load_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]
