"""Constants as arguments of a carved function: operator fusion lifts them, and partitioning does too.

The report this program is from shows, in text form 0.0.4, that partitioning left the constant inside the
function while fusion handed it in. Both hand it in here: every expected text is the report's, but that of the
partitioned graph, which has the constant as the second argument instead of embedded, and without its type:
the fusion before it had written that into the node that both graphs shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat as tvm
from eqsat import relay
from eqsat.relay.build_module import bind_params_by_name
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.printer import pretty

FUSED = """\
free_var %x: Tensor[(1, 3, 224, 224), float32]
free_var %b: Tensor[(3), float32]
%1 = fn (%p0: Tensor[(1, 3, 224, 224), float32], %p1: Tensor[(3, 3, 3, 3), float64], %p2: Tensor[(3), float32], Primitive=1) -> Tensor[(1, 3, 222, 222), float32] {
  %0 = nn.conv2d(%p0, %p1, padding=[0, 0, 0, 0]) /* ty=Tensor[(1, 3, 222, 222), float32] */;
  nn.bias_add(%0, %p2) /* ty=Tensor[(1, 3, 222, 222), float32] */
};
%1(%x, meta[relay.Constant][0] /* ty=Tensor[(3, 3, 3, 3), float64] */ /* ty=Tensor[(3, 3, 3, 3), float64] */, %b) /* ty=Tensor[(1, 3, 222, 222), float32] */
// meta data omitted. you can use show_meta_data=True to include meta data
"""  # noqa: E501 - the text as it was reported

PARTITIONED = """\
free_var %x: Tensor[(1, 3, 224, 224), float32]
free_var %b: Tensor[(3), float32]
%1 = fn (%FunctionVar_0_0, %FunctionVar_0_1, %FunctionVar_0_2, Composite="aa", PartitionedFromPattern="nn.conv2d_nn.bias_add_") {
  %0 = nn.conv2d(%FunctionVar_0_0, %FunctionVar_0_1, padding=[0, 0, 0, 0]);
  nn.bias_add(%0, %FunctionVar_0_2)
};
%1(%x, meta[relay.Constant][0], %b)
// meta data omitted. you can use show_meta_data=True to include meta data
"""  # noqa: E501


@pytest.fixture
def mod() -> tvm.IRModule:
    x = relay.var("x", shape=(1, 3, 224, 224))
    w = relay.var("w", shape=(3, 3, 3, 3))
    b = relay.var("b", shape=(3,))

    conv2d = relay.op.nn.conv2d(x, w)
    out = relay.op.nn.bias_add(conv2d, b)
    func = relay.Function([x, w, b], out)
    mod = tvm.IRModule.from_expr(func)

    mod["main"] = bind_params_by_name(mod["main"], {"w": tvm.nd.array(np.ones(shape=(3, 3, 3, 3)))})
    return mod


def partition(mod: tvm.IRModule) -> Any:
    conv2d = is_op("nn.conv2d")(wildcard(), wildcard())
    pattern = is_op("nn.bias_add")(conv2d, wildcard())
    return pattern.partition(mod["main"].body, {"Composite": "aa"})


def test_fusion_hands_the_constant_in(mod: tvm.IRModule) -> None:
    fused = relay.transform.FuseOps()(mod)["main"].body
    assert pretty(fused, version="0.0.4") == FUSED


def test_partitioning_hands_the_constant_in(mod: tvm.IRModule) -> None:
    assert pretty(partition(mod), version="0.0.4") == PARTITIONED


def test_both_give_functions_of_three_parameters(mod: tvm.IRModule) -> None:
    for call in (relay.transform.FuseOps()(mod)["main"].body, partition(mod)):
        assert len(call.op.params) == len(call.args) == 3
        assert isinstance(call.args[1], relay.Constant)


def test_the_reported_text_can_be_read(mod: tvm.IRModule) -> None:
    weight = '\n#[metadata]\n{"relay.Constant": [{"dtype": "float64", "shape": [0, 3, 3, 3], "data": ""}]}'
    call = relay.parse_expr(FUSED + weight)
    assert [param.name_hint for param in call.op.params] == ["p0", "p1", "p2"]
    assert call.op.attrs["Primitive"] == 1
