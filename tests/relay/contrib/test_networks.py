"""Known networks, partitioned for external compilers: how many functions each gets, and that values stay the same.

The compilers are those of the shipped tables, and ones whose tables are written as in TVM.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.ir import register_op_attr
from eqsat.ir.op import Op
from eqsat.relay import transform
from eqsat.relay.build_module import bind_params_by_name
from eqsat.relay.dataflow_pattern import is_constant, is_op, wildcard
from eqsat.relay.expr_functor import ExprMutator, ExprVisitor
from eqsat.relay.interpreter import evaluate
from eqsat.relay.op.contrib import get_pattern_table, register_pattern_table
from eqsat.relay.op.strategy.generic import is_depthwise_conv2d
from eqsat.relay.testing import bert, mobilenet, resnet, squeezenet
from eqsat.target import Target

NETWORKS = {
    "resnet": resnet.get_workload(1, 10, 18, (3, 32, 32)),
    "mobilenet": mobilenet.get_workload(num_classes=10, image_shape=(3, 32, 32)),
    "squeezenet": squeezenet.get_workload(num_classes=10, image_shape=(3, 64, 64)),
    "bert": bert.get_workload(length=8, num_layers=2, hidden=32, heads=4, vocabulary=64),
}


def flat(value: Any) -> list[np.ndarray[Any, Any]]:
    return [part for field in value for part in flat(field)] if isinstance(value, tuple) else [np.asarray(value)]


def computed(mod: eqsat.IRModule) -> list[np.ndarray[Any, Any]]:
    (data,) = mod["main"].params
    ty: Any = data.checked_type
    random = np.random.default_rng(0)
    whole = "int" in ty.dtype
    value = random.integers(0, 64, ty.concrete_shape) if whole else random.standard_normal(ty.concrete_shape)
    return flat(evaluate(mod["main"].body, {data: value.astype(ty.dtype)}, mod))


def bound(network: str) -> eqsat.IRModule:
    mod, params = NETWORKS[network]
    return transform.InferType()(eqsat.IRModule.from_expr(bind_params_by_name(mod["main"], params)))


def external(mod: eqsat.IRModule, target: str) -> list[Any]:
    names = mod.get_global_vars()
    return [mod[name] for name in names if "Compiler" in mod[name].attrs and mod[name].attrs["Compiler"] == target]


def assert_same(mod: eqsat.IRModule, network: str) -> None:
    for found, expected in zip(computed(mod), computed(bound(network)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


SIMPLIFIED = [
    transform.CanonicalizeOps(),
    transform.InferType(),
    transform.SimplifyInference(),
    transform.FoldConstant(),
    transform.FoldScaleAxis(),
]
"""What is done for a compiler that knows no batch normalization."""


def partition(mod: eqsat.IRModule, target: str, table: Any, prepared: Any = (), merge: bool = True) -> eqsat.IRModule:
    steps = [
        *prepared,
        transform.MergeComposite(table),
        transform.AnnotateTarget(target),
        *([transform.MergeCompilerRegions()] if merge else []),
        transform.PartitionGraph(),
    ]
    with eqsat.transform.PassContext(opt_level=3):
        return transform.Sequential(steps)(mod)


# ---- the shipped tables


@pytest.mark.parametrize(
    ("target", "network", "merged", "apart"),
    [("dnnl", "resnet", 2, 42), ("dnnl", "mobilenet", 2, 30), ("tensorrt", "resnet", 1, 43)],
)
def test_how_many_functions_a_compiler_gets(target: str, network: str, merged: int, apart: int) -> None:
    table = get_pattern_table(target)
    for merge, count in ((True, merged), (False, apart)):
        result = partition(bound(network), target, table, SIMPLIFIED, merge)
        assert len(external(result, target)) == count
        assert_same(result, network)


@pytest.mark.parametrize("target", ["dnnl", "tensorrt"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_shipped_tables_leave_the_values_of_networks_alone(target: str, network: str) -> None:
    result = partition(bound(network), target, get_pattern_table(target))
    assert external(result, target)
    assert_same(result, network)


# ---- a compiler as one writes it for TVM


@register_op_attr("nn.max_pool2d", "target.acme")
def max_pool2d(call: relay.Call) -> bool:
    return isinstance(call.attrs, relay.op.op_attrs.MaxPool2DAttrs) and call.attrs.layout == "NCHW"


def is_supported_conv2d(call: relay.Call) -> bool:
    while call.op.name != "nn.conv2d":
        call = call.args[0]
    data, weight = (arg.checked_type for arg in call.args)
    attrs = call.attrs
    layouts = attrs.data_layout, attrs.kernel_layout
    depthwise = is_depthwise_conv2d(data.shape, layouts[0], weight.shape, layouts[1], attrs.groups)
    current = Target.current()
    return not depthwise and "".join(layouts) == "NCHWOIHW" and (current is None or current.kind.name == "llvm")


@register_pattern_table("acme")
def pattern_table() -> Any:
    conv2d = is_op("nn.conv2d")(wildcard(), is_constant())
    conv2d = conv2d.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))
    conv2d = conv2d.optional(is_op("nn.relu"))
    dense = is_op("nn.dense")(wildcard(), is_constant())
    dense = dense.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))
    return [("acme.conv2d", conv2d, is_supported_conv2d), ("acme.dense", dense)]


class RemoveDropout(ExprMutator):
    def visit_tuple_getitem(self, op: relay.TupleGetItem) -> relay.Expr:
        visited: Any = super().visit_tuple_getitem(op)
        value = visited.tuple_value
        dropped = isinstance(value, relay.Call) and isinstance(value.op, Op) and value.op.name == "nn.dropout"
        return value.args[0] if dropped and visited.index == 0 else visited


@transform.function_pass(opt_level=0)
class RemoveDropoutPass:
    def transform_function(self, function: Any, mod: eqsat.IRModule, context: Any) -> Any:
        return RemoveDropout().visit(function)


class IsComputeIntensive(ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def visit_call(self, call: relay.Call) -> None:
        self.found = self.found or (isinstance(call.op, Op) and call.op.name in ("nn.conv2d", "nn.dense"))
        super().visit_call(call)


def prune(mod: eqsat.IRModule) -> eqsat.IRModule:
    """Give back the functions that only move and compare."""
    useless = []
    for name in mod.get_global_vars():
        visitor = IsComputeIntensive()
        visitor.visit(mod[name].body)
        if "Compiler" in mod[name].attrs and not visitor.found:
            useless.append(name)
    return transform.InlineCompilerFunctionsBoundTo(useless)(mod)


@pytest.mark.parametrize(
    ("network", "count", "kept"), [("resnet", 22, 22), ("mobilenet", 15, 15), ("squeezenet", 45, 26), ("bert", 13, 13)]
)
def test_a_table_written_for_tvm_partitions_networks(network: str, count: int, kept: int) -> None:
    with Target("llvm"):
        result = partition(bound(network), "acme", get_pattern_table("acme"), [RemoveDropoutPass()], merge=False)
    pruned = prune(result)
    assert (len(external(result, "acme")), len(external(pruned, "acme"))) == (count, kept)
    assert_same(result, network)
    assert_same(pruned, network)


def test_the_current_target_decides_what_is_taken() -> None:
    with Target("cuda"):
        result = partition(bound("squeezenet"), "acme", get_pattern_table("acme"))
    names = {name for function in external(result, "acme") for name in relay.testing.count_ops(function)}
    assert names == {"nn.max_pool2d"}
