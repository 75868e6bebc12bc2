"""Certificates of functions, and what the checker refuses though nothing of it was changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.certificates.certificate import Certificate, Step
from eqsat.certificates.checker import Pair
from eqsat.certificates.checker import check as check_steps
from eqsat.certificates.terms import Terms
from eqsat.egraph.rule_version import version_of
from eqsat.errors import CertificateError
from eqsat.relay import nn
from eqsat.relay.ty import TensorType

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.models import MODELS

x = relay.var("x", shape=(2, 4))
y = relay.var("y", shape=(2, 4))


def certified(graph: Any, *rule_sets: Any) -> tuple[Any, Certificate]:
    saturation = eqsat.saturate(graph, list(rule_sets) or None, explain=True)
    extraction = eqsat.extract(saturation)
    return extraction.expr, eqsat.certify(extraction)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "BERT-base"])
def test_certificates_of_benchmark_networks_check(name: str) -> None:
    graph = MODELS[name]()
    best, certificate = certified(graph)
    assert eqsat.check(graph, best, certificate).proved


def test_expressions_have_certificates_too() -> None:
    graph = nn.relu(nn.relu(x)) + y * relay.const(0.0)
    best, certificate = certified(graph)
    assert eqsat.check(graph, best, certificate).proved


def test_variables_of_one_name_are_different() -> None:
    other = relay.var("x", shape=(2, 4))
    graph = relay.Function([x, other], nn.relu(nn.relu(x)) - other)
    best, certificate = certified(graph)
    assert eqsat.check(graph, best, certificate).proved
    swapped = relay.Function([other, x], best.body)
    with pytest.raises(CertificateError, match="another model"):
        eqsat.check(graph, swapped, certificate)


def test_chains_of_constants_are_computed_as_the_optimizer_computes_them() -> None:
    draw = np.random.default_rng(0)
    graph = x
    for _ in range(8):
        graph = graph * relay.const(draw.normal(size=4).astype("f")) + relay.const(draw.normal(size=4).astype("f"))
    best, certificate = certified(graph)
    assert eqsat.check(graph, best, certificate).proved
    assert certificate.soundness == "rounding"


# ---- steps that are none


def refused(before: Any, after: Any, steps: Callable[[Pair], list[Step]], *known: str, match: str) -> None:
    """A certificate made by hand is refused."""
    functions = [relay.Function([x, y], body) for body in (before, after)]
    pair = Pair(*functions)
    shipped = {rule.name: rule for each in rules.sets.values() for rule in each}
    certificate = Certificate(*pair.digests, None, {name: version_of(shipped[name]) for name in known}, "exact")
    certificate.steps = steps(pair)
    with pytest.raises(CertificateError, match=match):
        check_steps(Pair(*functions), certificate, shipped.values())


def roots(rule: str) -> Callable[[Pair], list[Step]]:
    return lambda pair: [Step(rule, (pair.roots[0],), (pair.roots[1],))]


def test_what_no_rule_says_is_refused() -> None:
    refused(x + y, x - y, roots("relu-twice"), "relu-twice", match=r"step 1, relu-twice: its left side does not match")
    refused(x + y, x - y, lambda pair: [], match="the steps do not lead from the first model to the second")


def test_a_wrong_value_is_refused() -> None:
    one, two = relay.const(np.float32(1)), relay.const(np.float32(2))
    refused(one + two, relay.const(np.float32(3.001)), roots("fold-constants"), match="has another value")
    refused(x + y, one, roots("fold-constants"), match="is not a constant")


def test_operands_of_a_difference_are_not_exchanged() -> None:
    refused(x - y, y - x, roots("commute"), match="not calls of one commutative operator")
    refused(x + y, y + y, roots("commute"), match="the same operands in exchanged order")


def test_a_condition_that_does_not_hold_is_refused() -> None:
    wide = relay.const(np.ones((3, 2, 4), "f"))
    refused(x * wide, x, roots("multiply-one"), "multiply-one", match="its sides are of types")


def test_what_is_not_known_to_be_numbers_is_refused() -> None:
    quotient = x / y
    guarded = relay.where(relay.isnan(nn.softmax(quotient)), relay.const(np.float32(0)), nn.softmax(quotient))
    refused(guarded, nn.softmax(quotient), roots("nan-of-real"), "nan-of-real", match="step 1, nan-of-real: ")


def test_functions_of_other_arguments_are_told() -> None:
    narrow = relay.var("y", shape=(4,))
    with pytest.raises(CertificateError, match=r"take different arguments: %x: Tensor\[\(2, 4\), float32\], %y.* and"):
        Pair(relay.Function([x, y], x + y), relay.Function([x, narrow], x + narrow))


def test_what_has_functions_in_it_has_no_certificate() -> None:
    inner = relay.Function([y], nn.relu(y))
    with pytest.raises(CertificateError):
        certified(relay.Function([x], inner(x)))


# ---- terms


def test_terms_are_closed_under_congruence() -> None:
    terms = Terms()
    one, other = (terms.variable(var, key, TensorType((2, 4))) for key, var in enumerate((x, y)))
    op = relay.op.get("nn.relu")
    calls = [terms.call(op, None, [term]) for term in (one, other)]
    above = [terms.call(op, None, [term]) for term in calls]
    assert not terms.same(*above)
    terms.equate(one, other)
    assert terms.same(*calls)
    assert terms.same(*above)
    assert terms.same(terms.call(op, None, [above[0]]), terms.call(op, None, [above[1]]))
    assert terms.type_of(above[0]) == TensorType((2, 4))


def test_deep_graphs_are_checked_in_linear_time(count_calls: Callable[..., int]) -> None:
    def calls(depth: int) -> int:
        graph = x
        for _ in range(depth):
            graph = nn.relu(nn.relu(relay.tanh(graph)))
        graph = relay.Function([x], graph)
        best, certificate = certified(graph, rules.sets["activations"])
        return count_calls(lambda: eqsat.check(graph, best, certificate))

    assert calls(400) < 6 * calls(100)


def test_versions_differ_where_rules_do() -> None:
    a = rules.variables("a")[0]

    def rule(limit: int) -> Any:
        return rules.rewrite("mine", nn.relu(a), a, rules.when(lambda ty: len(ty.shape) > limit, rules.type_of(a)))

    assert version_of(rule(1)) == version_of(rule(1))
    assert version_of(rule(1)) != version_of(rule(2))
    other = rules.rewrite("mine", nn.relu(a), a, rules.when(lambda ty: len(ty.shape) >= 1, rules.type_of(a)))
    assert version_of(other) not in (version_of(rule(1)), version_of(rule(2)))
