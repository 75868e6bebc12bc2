"""Passes over modules, under Relay's names; one file each."""

from eqsat.relay.transform.annotate_target import AnnotateTarget
from eqsat.relay.transform.base import (
    FunctionPass,
    Pass,
    PassContext,
    PassInfo,
    Sequential,
    function_pass,
    module_pass,
)
from eqsat.relay.transform.infer_type import InferType
from eqsat.relay.transform.merge_compiler_regions import MergeCompilerRegions
from eqsat.relay.transform.merge_composite import MergeComposite
from eqsat.relay.transform.partition_graph import PartitionGraph

__all__ = [
    "AnnotateTarget",
    "FunctionPass",
    "InferType",
    "MergeCompilerRegions",
    "MergeComposite",
    "PartitionGraph",
    "Pass",
    "PassContext",
    "PassInfo",
    "Sequential",
    "function_pass",
    "module_pass",
]
