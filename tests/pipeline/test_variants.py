"""Equal graphs, made by applying rules at random in either direction."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.errors import ArgumentError, RuleError
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate
from eqsat.relay.structural import structural_equal
from eqsat.rules import rewrite, variables
from eqsat.rules.verify.instantiate import Mismatch
from eqsat.spellings.backwards import Backwards, _Guess, _Part
from eqsat.spellings.walk import STEPS

x, y = variables("x y")


def network() -> relay.Expr:
    """A dense layer, a gate and a norm over the last axis."""
    data, weight = relay.var("data", shape=(3, 8)), relay.var("weight", shape=(4, 8))
    scores = relay.nn.dense(data * relay.const(2.0) + relay.const(1.0), weight)
    gated = scores * relay.sigmoid(scores)
    return gated - relay.mean(gated, axis=[-1], keepdims=True)


def values() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "data": random.standard_normal((3, 8)).astype("float32"),
        "weight": random.standard_normal((4, 8)).astype("float32"),
    }


def test_variants_are_equal_and_all_different() -> None:
    found = eqsat.variants(network(), count=30, seed=1)
    expected = evaluate(network(), values())
    for each in found:
        np.testing.assert_allclose(evaluate(each.graph, values()), expected, rtol=1e-4, atol=1e-5)
    texts = {str(each.graph) for each in found} | {
        str(eqsat.relay.transform.InferType()(network_module())["main"].body)
    }
    assert len(texts) == 31
    assert len({len(str(each.graph).splitlines()) for each in found}) > 5
    assert all(1 <= len(each.rules) <= STEPS for each in found)
    assert len({rule for each in found for rule in each.rules}) > 20


def network_module() -> eqsat.IRModule:
    return eqsat.IRModule.from_expr(network())


def test_variants_of_a_function_and_of_a_module_are_such() -> None:
    module = network_module()
    (function,) = [each.graph for each in eqsat.variants(module["main"], count=1)]
    assert isinstance(function, relay.Function)
    assert [param.name_hint for param in function.params] == [param.name_hint for param in module["main"].params]
    (variant,) = eqsat.variants(module, count=1)
    assert isinstance(variant.graph, eqsat.IRModule)
    assert str(variant.graph) != str(module)


def test_a_claimed_function_has_no_variants() -> None:
    function = network_module()["main"].with_attr("Compiler", "dnnl")
    assert eqsat.variants(function, count=3) == []


a, b = relay.var("a", shape=(2, 3)), relay.var("b", shape=(2, 3))
BACKWARDS = [
    (rewrite("swap", x * y, y * x), a * b, b * a),
    (rules.default.only("subtract-constant"), a + relay.const(2.0), a - relay.const(-2.0)),
    (rules.default.only("relu-twice"), relay.nn.relu(a), relay.nn.relu(relay.nn.relu(a))),
    (
        rules.default.only("transpose-out-of-unary"),
        relay.transpose(relay.nn.relu(a), axes=[1, 0]),
        relay.nn.relu(relay.transpose(a, axes=[1, 0])),
    ),
    (rules.default.only("multiply-one"), a - b, (a - b) * relay.const(1.0)),
]


@pytest.mark.parametrize(("rule", "given", "wanted"), BACKWARDS)
def test_rules_run_backwards(rule, given, wanted) -> None:
    found = eqsat.variants(given, count=20, rules=[rule], steps=1)
    assert any(structural_equal(each.graph, wanted) for each in found)


def test_a_variable_inside_of_what_another_one_is_leads_nowhere() -> None:
    """w + where(x, y, z) is w + w, where w is the choice."""
    choice = relay.where(relay.const(np.array(False)), a, a)
    rule = rules.default.only("expand-into-condition-of-summand")
    assert eqsat.variants(choice + choice, count=5, rules=[rule], steps=1) == []
    assert eqsat.variants(b + choice, count=5, rules=[rule], steps=1) != []


def test_what_is_made_backwards_leads_back() -> None:
    """Each rule that is run from right to left is one that saturation then finds from left to right."""
    graph = network()
    cost = eqsat.extract(eqsat.saturate(graph)).cost
    for each in eqsat.variants(graph, count=10, seed=3, steps=4):
        assert eqsat.extract(eqsat.saturate(each.graph)).cost == cost, each.rules


def test_there_may_be_fewer() -> None:
    a = relay.var("a", shape=(2,))
    found = eqsat.variants(a + relay.var("b", shape=(2,)), count=5, rules=[rewrite("swap", x + y, y + x)])
    assert len(found) == 1
    assert eqsat.variants(a, count=5, rules=rules.fold) == []


@pytest.mark.parametrize("asked", [rules.uses_of, rules.place_of])
def test_rules_that_ask_for_uses_or_places_take_no_part(asked) -> None:
    asking = rewrite("swap", x - y, y - x, rules.when(lambda number: number > 0, asked(x)))
    assert eqsat.variants(network(), rules=[asking]) == []


@pytest.mark.parametrize(
    ("keywords", "words"), [({"count": 0}, "count=0"), ({"steps": 0}, "steps=0"), ({"count": 1.5}, "1.5")]
)
def test_bad_numbers_are_refused(keywords, words) -> None:
    with pytest.raises(ArgumentError, match=words):
        eqsat.variants(network(), **keywords)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ArgumentError, match="variants takes an expression or IRModule"):
        eqsat.variants("x + y")  # type: ignore[arg-type]
    with pytest.raises(RuleError):
        eqsat.variants(network(), rules=["add-zero"])


def test_a_deep_graph_has_variants() -> None:
    expr = relay.var("x", shape=(2,))
    for _ in range(20_000):
        expr = relay.nn.relu(relay.negative(expr))
    assert len(eqsat.variants(expr, count=1, rules=rules.default.only("relu-twice"), steps=1)) == 1


def test_hash_seeds_make_no_difference() -> None:
    """Equal seeds give equal graphs, in every process."""
    program = (
        "import eqsat; from eqsat import relay; x = relay.var('x', shape=(2, 3));"
        "g = relay.nn.softmax(relay.nn.relu(x * relay.const(2.0)));"
        "print([(str(v.graph), v.rules) for v in eqsat.variants(g, count=5, seed=7)])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (Random(0).randrange(1000), Random(1).randrange(1000))
    ]
    assert said[0] == said[1] != ""


def test_no_constant_is_guessed_whose_size_is_not_known() -> None:
    """As for a scale of rows, of which an axis has any size."""
    (rule,) = [rule for rule in rules.default if rule.name == "scale-into-matmul"]
    data, weight = relay.var("data", shape=(relay.Any("n"), 4)), relay.const(np.ones((4, 1), "float32"))
    product = relay.nn.matmul(data, weight)
    for expr in (data, weight, product):
        expr._checked_type = infer_type(expr).checked_type
    backwards = Backwards(rule)
    matcher = Matcher(backwards.pattern, DataflowGraph(product))
    assert matcher.match(product)
    guess = _Guess(backwards, _Part(product, {each: found[0] for each, found in matcher.bound.items()}), Random(0))
    with pytest.raises(Mismatch):
        guess.constant(relay.dataflow_pattern.is_constant(), product.checked_type)
