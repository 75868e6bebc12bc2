"""The interpreter on every kind of node, on deep graphs, and on bad input."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.errors import EvaluationError
from eqsat.relay.expr import Op
from eqsat.relay.interpreter import evaluate, evaluate_op
from eqsat.relay.op.op import define
from eqsat.relay.op.types import same_type


def f32(*values: float) -> Any:
    return np.array(values, "float32")


def test_calls_share_one_computation() -> None:
    x = relay.var("x", shape=(2,))
    y = relay.nn.relu(x)
    assert evaluate(y + y * y, {x: f32(-1, 3)}).tolist() == [0, 12]


def test_variables_by_object_name_and_copy() -> None:
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], -x)
    assert evaluate(function, {x: f32(1, 2)}).tolist() == [-1, -2]
    assert evaluate(function, {"x": [1, 2]}).dtype == np.float32
    typed = relay.transform.InferType()(eqsat.IRModule.from_expr(function))
    assert evaluate(typed, {x: f32(1, 2)}).tolist() == [-1, -2]


def test_tuples_and_projections() -> None:
    x = relay.var("x", shape=(4,))
    parts = relay.split(x, 2)
    pair = relay.Tuple([parts[1], relay.Tuple([parts[0]])])
    second, (first,) = evaluate(pair, {x: f32(1, 2, 3, 4)})
    assert (first.tolist(), second.tolist()) == ([1, 2], [3, 4])


def test_only_the_chosen_branch_is_evaluated() -> None:
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(1,))
    poison = relay.var("poison", shape=(1,))
    choice = relay.If(c, relay.exp(x), x + poison)
    outer = relay.Function([c, x, poison], choice)
    inner = relay.Function([x], relay.If(relay.const(True), x, relay.Call(relay.GlobalVar("missing"), [x])))
    assert evaluate(outer, {c: np.array(True), x: f32(0), poison: f32(np.nan)}).tolist() == [1]
    assert evaluate(inner, {x: f32(5)}).tolist() == [5]


def test_let_and_closures() -> None:
    x, y, f, a = (relay.var(name) for name in "xyfa")
    body = relay.Let(f, relay.Function([a], a * y), relay.Call(f, [relay.Call(f, [x])]))
    assert evaluate(relay.Let(y, x + x, body), {x: np.float32(3)}) == 108


def test_recursive_function_deeper_than_pythons_stack() -> None:
    """let f = fn(n, total) { if n < 1 then total else f(n - 1, total + n) }; f(20000, 0)."""
    f = relay.var("f")
    n, total = relay.var("n", shape=(), dtype="int64"), relay.var("total", shape=(), dtype="int64")
    one = relay.const(np.int64(1), "int64")
    loop = relay.If(n < one, total, relay.Call(f, [n - one, total + n]))
    start = [relay.const(np.int64(value), "int64") for value in (20_000, 0)]
    assert evaluate(relay.Let(f, relay.Function([n, total], loop), relay.Call(f, start))) == 200_010_000


def test_functions_of_a_module() -> None:
    x, y = relay.var("x", shape=(1,)), relay.var("y", shape=(1,))
    module = eqsat.IRModule()
    module["double"] = relay.Function([y], y + y)
    module["main"] = relay.Function([x], relay.Call(module.get_global_var("double"), [x * x]))
    assert evaluate(module, {x: f32(3)}).tolist() == [18]
    assert evaluate(module["main"], {x: f32(3)}, module).tolist() == [18]


def test_references_are_read_after_what_was_written_before() -> None:
    r, x, unit, old = relay.var("r"), relay.var("x", shape=(1,)), relay.var("unit"), relay.var("old")
    body = relay.Let(unit, relay.RefWrite(r, x * x), relay.Tuple([old, relay.RefRead(r)]))
    program = relay.Let(r, relay.RefCreate(x), relay.Let(old, relay.RefRead(r), body))
    before, after = evaluate(program, {x: f32(4)})
    assert (before.item(), after.item()) == (4, 16)


def test_an_operator_may_be_passed_as_a_value() -> None:
    f, a, x = relay.var("f"), relay.var("a"), relay.var("x", shape=(1,))
    apply = relay.Function([f, a], relay.Call(f, [a]))
    assert evaluate(relay.Call(apply, [relay.op.get("negative"), x]), {x: f32(1)}).tolist() == [-1]


@pytest.mark.parametrize("bind", [False, True])
def test_depth_of_many_nodes(bind: bool) -> None:
    x = relay.var("x", shape=())
    steps = [relay.var(f"v{i}") for i in range(10_000)] if bind else []
    value: Any = x
    if bind:
        body: Any = steps[-1]
        for step, before in zip(reversed(steps), [*reversed(steps[:-1]), x], strict=True):
            body = relay.Let(step, relay.negative(before), body)
        value = body
    else:
        for _ in range(20_000):
            value = relay.negative(value)
    assert evaluate(value, {x: np.float32(7)}) == 7


def test_values_are_dropped_after_their_last_use() -> None:
    alive: list[Any] = []
    most = 0

    def kernel(attrs: Any, data: Any) -> Any:
        nonlocal most
        result = data + 1
        alive.append(weakref.ref(result))
        most = max(most, sum(reference() is not None for reference in alive))
        return result

    probe = define("test.probe", "data", infer=same_type, kernel=kernel)
    try:
        value: Any = relay.var("x", shape=(3,))
        for _ in range(50):
            value = probe(value)
        gc.disable()
        assert evaluate(value, {"x": f32(0, 0, 0)}).tolist() == [50] * 3
    finally:
        gc.enable()
        del Op._registry["test.probe"]
    assert most <= 3


def test_results_of_rank_zero_are_arrays() -> None:
    result = evaluate(relay.sum(relay.const(f32(1, 2))))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()


def test_default_attributes_of_a_call_built_by_hand() -> None:
    call = relay.Call(relay.op.get("nn.softmax"), [relay.const(f32(0, 0))])
    assert evaluate(call).tolist() == [0.5, 0.5]


# ---- bad input


def test_missing_and_unknown_values_are_named() -> None:
    x, y = relay.var("x", shape=(1,)), relay.var("y", shape=(1,))
    with pytest.raises(EvaluationError, match="no value is given for %x, %y"):
        evaluate(x + y)
    with pytest.raises(EvaluationError, match="no variable is named 'z'"):
        evaluate(x + y, {"z": f32(1)})
    with pytest.raises(EvaluationError, match="several variables are named 'x'"):
        evaluate(x + relay.var("x"), {"x": f32(1)})


@pytest.mark.parametrize("given", [f32(1, 2), np.zeros((1,), "float64")])
def test_values_must_have_the_declared_type(given: Any) -> None:
    x = relay.var("x", shape=(1,))
    with pytest.raises(EvaluationError, match=r"%x must be Tensor\[\(1\), float32\] and is given"):
        evaluate(-x, {x: given})


def test_failing_kernels_name_operator_and_types() -> None:
    x, y = relay.var("x"), relay.var("y")
    with pytest.raises(EvaluationError, match=r"add\(Tensor\[\(2\), float32\], Tensor\[\(3\), float32\]\)"):
        evaluate(x + y, {x: f32(1, 2), y: f32(1, 2, 3)})


def test_an_operator_without_kernel_is_named() -> None:
    hollow = define("test.hollow", "data", infer=same_type)
    try:
        with pytest.raises(EvaluationError, match=r"operator test\.hollow has no kernel"):
            evaluate(hollow(relay.const(1.0)))
    finally:
        del Op._registry["test.hollow"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.Call(x, [x]), "no function is called with 1 arguments"),
        (lambda x: relay.TupleGetItem(x, 0), "projection .0 of a value that is no tuple"),
        (lambda x: relay.TupleGetItem(relay.Tuple([x]), 1), "projection .1 of a tuple of 1"),
        (lambda x: relay.If(relay.Tuple([x]), x, x), "condition of an if must be a bool scalar"),
        (lambda x: relay.RefRead(x), "a reference is needed"),
        (lambda x: relay.Call(relay.GlobalVar("f"), [x]), "@f is used but the module has no such function"),
        (lambda x: relay.Call(relay.Function([], x), [x]), "a function of 0 parameters is called with 1"),
    ],
)
def test_ill_formed_programs(build: Any, message: str) -> None:
    x = relay.var("x", shape=(1,))
    with pytest.raises(EvaluationError, match=message):
        evaluate(build(x), {x: f32(1)})


def test_evaluate_op_gives_arrays() -> None:
    op = relay.op.get("split")
    attrs = relay.split(relay.var("x"), 2).astuple().attrs
    first, second = evaluate_op(op, attrs, [f32(1, 2)])
    assert (first.tolist(), second.tolist()) == ([1], [2])


# ---- bfloat16


def rounded(values: Any) -> Any:
    return np.asarray(values, "float32").astype("bfloat16")


def test_bfloat16_is_computed_in_float32_and_rounded_once() -> None:
    x = relay.var("x", shape=(8, 64), dtype="bfloat16")
    data = rounded(np.random.default_rng(0).normal(size=(8, 64)))
    wide = data.astype("float32")
    for build, reference in (
        (relay.tanh, np.tanh),
        (relay.sum, np.sum),
        (lambda x: relay.max(x, axis=1), lambda a: a.max(axis=1)),
        (lambda x: relay.nn.matmul(x, x, transpose_b=True), lambda a: a @ a.T),
    ):
        value = evaluate(build(x), {x: data})
        assert value.dtype == "bfloat16"
        assert np.array_equal(value, rounded(reference(wide)))


def test_casts_from_and_to_bfloat16() -> None:
    x = relay.var("x", shape=(3,))
    there = relay.cast(x, "bfloat16")
    data = np.array([1.0, 1.00390625, 3e38], "float32")
    assert np.array_equal(evaluate(relay.cast(there, "float32"), {x: data}), rounded(data).astype("float32"))
    assert evaluate(relay.zeros((2,), "bfloat16")).dtype == "bfloat16"
    assert evaluate(relay.less(there, relay.const(2.0, "bfloat16")), {x: data}).tolist() == [True, True, False]


def test_tuples_of_bfloat16() -> None:
    x = relay.var("x", shape=(4,), dtype="bfloat16")
    parts = relay.split(x, 2)
    joined = relay.concatenate([parts[1], parts[0]], 0)
    assert evaluate(joined, {x: rounded([1, 2, 3, 4])}).tolist() == [3, 4, 1, 2]
    folded = relay.transform.FoldConstant()(eqsat.IRModule.from_expr(relay.exp(relay.const([0.0], "bfloat16")) + x))
    assert folded["main"].body.args[0].data.dtype == "bfloat16"


def test_a_value_is_computed_alike_however_it_is_laid_out_in_memory() -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((32, 16, 1, 1)).astype("float32")
    spread = np.broadcast_to(np.float32(0.3), (1, 16, 1, 1))
    x, w = relay.var("x", shape=spread.shape), relay.var("w", shape=weight.shape)
    results = [
        evaluate(relay.nn.conv2d(x, w, kernel_size=(1, 1)), {x: each, w: weight}) for each in (spread, spread.copy())
    ]
    assert np.array_equal(*results)
