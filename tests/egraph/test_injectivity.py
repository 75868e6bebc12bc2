"""Arguments are equal where an injective operator makes the same of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eqsat
from eqsat import relay
from eqsat.relay.expr import Expr
from eqsat.relay.op.op import Op
from eqsat.relay.traits import Trait
from eqsat.rules import Injectivity, rewrite, variables
from eqsat.rules.verify import verify

(x,) = variables("x")
ANY = relay.Any()


def turned(data):
    return relay.transpose(data, axes=(1, 0))


def flat(data):
    return relay.reshape(data, newshape=(-1,))


def costs(wrap: Callable, shape: tuple) -> tuple[float, float]:
    """Costs of wrap(exp), exp and sqrt, where wrap(exp) equals wrap(sqrt): without the rule, and with it."""
    data = relay.var("x", shape=shape)
    graph: Expr = relay.Tuple([wrap(relay.exp(data)), relay.exp(data), relay.sqrt(data)])
    equal = rewrite("equal", wrap(relay.exp(x)), wrap(relay.sqrt(x)))
    without, found = (eqsat.extract(eqsat.saturate(graph, rules)) for rules in ([equal], [equal, Injectivity()]))
    return without.cost, found.cost


@pytest.mark.parametrize("wrap", [turned, flat])
def test_what_becomes_the_same_is_the_same(wrap: Callable) -> None:
    assert costs(wrap, (2, 3)) == (3.0, 2.0)


def test_values_of_unknown_shapes_may_look_the_same_when_they_are_flat() -> None:
    assert costs(flat, (ANY, ANY)) == (3.0, 3.0)


def test_an_operator_that_is_not_injective_tells_nothing() -> None:
    assert costs(relay.abs, (2, 3)) == (3.0, 3.0)


def test_the_explanation_names_the_rule() -> None:
    data = relay.var("x", shape=(2, 3))
    graph = relay.Tuple([turned(relay.exp(data)), relay.exp(data), relay.sqrt(data)])
    equal = rewrite("equal", turned(relay.exp(x)), turned(relay.sqrt(x)))
    extraction = eqsat.extract(eqsat.saturate(graph, [equal, Injectivity()], explain=True))
    assert "injectivity" in [step.rule for step in extraction.explanation.steps()]


def test_the_verifier_refutes_an_operator_that_is_not_injective(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify(Injectivity())[0].ok
    monkeypatch.setattr(Op.get("sign"), "traits", Op.get("sign").traits | Trait.INJECTIVE)
    assert verify(Injectivity(), 1000)[0].status == "unsound"
