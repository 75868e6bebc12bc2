"""Small names of TVM's API that programs for Relay use."""

from __future__ import annotations

import numpy as np

import eqsat
from eqsat import relay
from eqsat.relay import transform


def test_names_that_programs_for_relay_use() -> None:
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], relay.nn.relu(x)).with_attr("Compiler", "mine")
    assert "Compiler" not in function.without_attr("Compiler").attrs
    module = eqsat.IRModule.from_expr(function)
    module.update_func(module.get_global_var("main"), function.without_attr("Compiler"))
    assert "Compiler" not in module["main"].attrs
    seen: list[relay.Expr] = []
    relay.analysis.post_order_visit(function.body, seen.append)
    assert seen[-1] is function.body
    assert np.array_equal(eqsat.nd.array([1.0]).asnumpy(), [1.0])
    assert isinstance(transform.PassContext.list_configs(), dict)
    assert eqsat.tir.IntImm is not None


def test_modules_of_tvm_that_tables_of_external_compilers_import() -> None:
    from eqsat.relay.analysis import analysis
    from eqsat.runtime import NDArray
    from eqsat.tir.expr import Any, SizeVar

    call = relay.nn.relu(relay.var("x", shape=(SizeVar("n", "int32"), 2)))
    typed = relay.transform.InferType()(eqsat.IRModule.from_expr(call))["main"].body
    assert isinstance(typed.op, eqsat.tir.op.Op)
    assert isinstance(typed.checked_type.shape[0], Any)
    assert analysis.free_vars(call) == [call.args[0]]
    assert isinstance(eqsat.nd.array([1.0]), NDArray)
