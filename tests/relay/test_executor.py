"""``create_executor``: what programs for TVM evaluate with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay import testing

X, Y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
ONES, TWOS = np.ones(2, np.float32), np.full(2, 2, np.float32)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm", "aot"])
def test_a_function_is_called_with_its_arguments(kind: str) -> None:
    executor = relay.build_module.create_executor(kind, device=eqsat.cpu(0), target="llvm")
    call = executor.evaluate(relay.Function([X, Y], X - Y))
    for result in (call(ONES, TWOS), call(ONES, y=eqsat.nd.array(TWOS)), call(y=relay.const(TWOS), x=ONES)):
        np.testing.assert_array_equal(result.numpy(), [-1, -1])


def test_other_expressions_are_evaluated_at_once() -> None:
    executor = relay.create_executor()
    assert executor.evaluate(relay.const(1.0) + relay.const(2.0)).numpy() == 3
    np.testing.assert_array_equal(executor.evaluate(X + Y, {X: ONES, Y: relay.const(TWOS)}).numpy(), [3, 3])


def test_main_is_evaluated_with_the_weights_of_the_executor() -> None:
    module, weights = testing.mlp.get_workload()
    data = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    expected = relay.interpreter.evaluate(module, {"data": data, **weights})
    found = relay.create_executor("graph", mod=module, params=weights).evaluate()(data)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    found = relay.create_executor("graph", mod=module).evaluate()(data, **weights)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_functions_of_the_module_are_called() -> None:
    module = eqsat.parser.parse("""
    #[version = "0.0.5"]
    def @twice(%x: Tensor[(2), float32]) { add(%x, %x) }
    def @main(%x: Tensor[(2), float32]) { (@twice(%x), %x) }
    """)
    executor = relay.create_executor(mod=module)
    double, same = executor.evaluate()(ONES)
    assert (double.numpy().tolist(), same.numpy().tolist()) == ([2, 2], [1, 1])
    assert executor.evaluate(module.get_global_var("twice"))(TWOS).numpy().tolist() == [4, 4]
    assert executor.evaluate(relay.Function([X], module.get_global_var("twice")(X)))(TWOS).numpy().tolist() == [4, 4]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: relay.create_executor("fast"), "there is no executor 'fast': use one of"),
        (lambda: relay.create_executor().evaluate(X + Y, {X: ONES}), "%y is free in what is evaluated"),
        (lambda: relay.create_executor().evaluate(relay.Function([X], X))(), r"takes \['x'\] and is given 0 values"),
        (lambda: relay.create_executor().evaluate(relay.Function([X], X))(ONES, x=ONES), r"given 1 values and \['x'\]"),
        (lambda: relay.create_executor().evaluate(relay.Function([X], X))(z=ONES), r"given 0 values and \['z'\]"),
        (lambda: relay.create_executor().evaluate(), "the module has no function 'main'"),
    ],
)
def test_what_cannot_be_evaluated_is_said(use: Any, message: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=message):
        use()
