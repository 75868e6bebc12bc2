"""Functions for external compilers: back into their callers, and out of them."""

from __future__ import annotations

from typing import Any

import pytest

import eqsat
from eqsat import relay
from eqsat.errors import PassError
from eqsat.relay import transform
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.structural import assert_structural_equal

TABLE = [("mine.sum_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard())))]


def graph() -> eqsat.IRModule:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    first = relay.nn.relu(x + y)
    return transform.InferType()(eqsat.IRModule.from_expr(relay.nn.relu(relay.tanh(first) + y)))


def partitioned() -> eqsat.IRModule:
    steps = [transform.MergeComposite(TABLE), transform.AnnotateTarget("mine"), transform.PartitionGraph()]
    return transform.Sequential(steps)(graph())


def external(mod: eqsat.IRModule) -> list[Any]:
    return [variable for variable in mod.get_global_vars() if "Compiler" in mod[variable].attrs]


def test_partitioning_is_undone() -> None:
    mod = partitioned()
    names = external(mod)
    assert len(names) == 2
    assert_structural_equal(transform.InlineCompilerFunctionsBoundTo(names)(mod), graph())


def test_only_the_named_functions_are_inlined() -> None:
    mod = partitioned()
    first, second = external(mod)
    result = transform.InlineCompilerFunctionsBoundTo([first])(mod)
    assert [variable.name_hint for variable in external(result)] == [second.name_hint]
    assert transform.InlineCompilerFunctionsBoundTo([])(mod).get_global_vars() == mod.get_global_vars()


@pytest.mark.parametrize("name", ["main", "absent"])
def test_functions_of_no_compiler_are_not_inlined(name: str) -> None:
    with pytest.raises(PassError, match=f"no function '{name}' for an external compiler"):
        transform.InlineCompilerFunctionsBoundTo([relay.GlobalVar(name)])(partitioned())


def called_where_it_stands(**attrs: Any) -> eqsat.IRModule:
    x, p = relay.var("x", shape=(2, 3)), relay.var("p", shape=(2, 3))
    function = relay.Function([p], relay.nn.relu(p)).with_attr(attrs)
    return eqsat.IRModule.from_expr(function(relay.tanh(function(x))))


def test_functions_are_outlined_once_for_each_symbol() -> None:
    mod = called_where_it_stands(Compiler="mine", global_symbol="mine_0")
    result = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols()(mod)
    assert {variable.name_hint for variable in result.get_global_vars()} == {"main", "mine_0"}
    assert result["main"].body.op.name_hint == "mine_0"
    inlined = transform.InlineCompilerFunctionsBoundTo([relay.GlobalVar("mine_0")])(result)
    x = relay.var("x", shape=(2, 3))
    expected = eqsat.IRModule.from_expr(relay.nn.relu(relay.tanh(relay.nn.relu(x))))
    assert_structural_equal(inlined, transform.InferType()(expected))


def test_the_filter_keeps_functions_of_others() -> None:
    mod = called_where_it_stands(Compiler="mine", global_symbol="mine_0")
    result = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols("theirs")(mod)
    assert [variable.name_hint for variable in result.get_global_vars()] == ["main"]


def test_a_function_without_a_symbol_is_not_outlined() -> None:
    with pytest.raises(PassError, match="a function for 'mine' has no attribute 'global_symbol'"):
        transform.OutlineCompilerFunctionsWithExistingGlobalSymbols()(called_where_it_stands(Compiler="mine"))
