"""``relay.testing``: passes over expressions, initial weights, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay import testing, transform
from eqsat.relay.testing import init


def test_a_pass_runs_over_a_function_or_over_a_body() -> None:
    x = relay.var("x", shape=(2,))
    body = relay.add(relay.const(1.0), relay.const(2.0)) + x
    found: Any = testing.run_opt_pass(body, transform.FoldConstant())
    assert isinstance(found, relay.Call)
    assert float(found.args[0].data.numpy()) == 3
    function = testing.run_opt_pass(relay.Function([x], body), transform.FoldConstant())
    assert isinstance(function, relay.Function)
    assert eqsat.ir.structural_equal(function.body, found, map_free_vars=True)


def test_types_are_inferred() -> None:
    x = relay.var("x", shape=(2, 3))
    typed = testing.run_infer_type(relay.nn.softmax(x))
    assert typed.checked_type == relay.TensorType((2, 3))


@pytest.mark.parametrize("given", [transform.FoldConstant, "FoldConstant", None])
def test_what_is_no_pass_is_refused(given: Any) -> None:
    with pytest.raises(eqsat.EqsatError, match="run_opt_pass takes a pass"):
        testing.run_opt_pass(relay.var("x", shape=()), given)


def test_operators_are_counted_once_for_each_call() -> None:
    x = relay.var("x", shape=(2,))
    shared = x + x
    function = relay.Function([x], shared * shared)
    assert testing.count_ops(function(relay.nn.relu(shared))) == {"add": 1, "multiply": 1, "nn.relu": 1}


def workload(names: dict[str, tuple[int, ...]], **options: Any) -> Any:
    params = [relay.var(name, shape=shape) for name, shape in names.items()]
    return testing.create_workload(relay.Function(params, relay.Tuple(params)), **options)


def test_how_a_name_ends_says_how_a_parameter_is_filled() -> None:
    names = ["data", "a_bias", "a_gamma", "a_beta", "a_moving_mean", "a_moving_var"]
    module, weights = workload(dict.fromkeys(names, (2,)))
    assert {name: list(value.numpy()) for name, value in weights.items()} == {
        "a_bias": [0, 0],
        "a_gamma": [1, 1],
        "a_beta": [0, 0],
        "a_moving_mean": [0, 0],
        "a_moving_var": [1, 1],
    }
    assert module["main"].checked_type is not None


def test_weights_depend_on_the_seed_alone() -> None:
    first, again, other = (workload({"a_weight": (4, 5, 3)}, seed=seed)[1]["a_weight"].numpy() for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("factor", "counted"), [("avg", 100), ("in", 120), ("out", 80)])
def test_xavier_weights_are_in_a_range_by_inputs_and_outputs(factor: str, counted: int) -> None:
    initializer = init.Xavier(factor_type=factor, magnitude=4)
    _, weights = workload({"a_weight": (80, 120, 1)}, initializer=initializer)
    bound = np.sqrt(4 / counted)
    assert 0.95 * bound < np.abs(weights["a_weight"].numpy()).max() <= bound


def test_a_depthwise_weight_has_one_input() -> None:
    filled = np.zeros((8, 1, 3, 3), np.float32)
    init.Xavier()("a_depthwise_weight", filled)
    assert 0.5 < np.abs(filled).max() <= np.sqrt(3 / 9)


def test_constant_weights_sum_to_one() -> None:
    _, weights = workload({"a_weight": (4, 5)}, initializer=init.Constant())
    np.testing.assert_allclose(weights["a_weight"].numpy(), 1 / 20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: workload({"a_scale": (2,)}), "parameter 'a_scale' cannot be initialized"),
        (lambda: workload({"a_weight": (2,)}), "weight 'a_weight' is a vector"),
        (
            lambda: workload({"a_weight": (2, relay.Any())}),
            "'a_weight' is of type Tensor.*: weights need a known shape",
        ),
        (lambda: init.Xavier("gaussian"), "no distribution 'gaussian'"),
        (lambda: init.Xavier(factor_type="both"), "factor 'both'"),
    ],
)
def test_what_cannot_be_initialized_is_said(call: Any, message: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=message):
        call()
