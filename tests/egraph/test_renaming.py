"""What rules know of a constant, asked of another."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.renaming import all_asked, asked_about, renaming
from eqsat.relay.expr import Constant

FIRST, SECOND = (relay.const(np.asarray(values, "f4")) for values in ([0.3, 0.7], [1.1, 1.9]))


def saturated() -> EGraph:
    """The e-graph of a product with two vectors, whose own product was computed."""
    x = relay.var("x", shape=(4, 2))
    saturation = eqsat.saturate(x * FIRST * SECOND, rules.sets["algebra"] + rules.sets["fold"])
    return saturation.regions[0].egraph


def renamed(egraph: EGraph, other: list[float]) -> dict[int, int] | None:
    """What takes the place of the first vector, and of what was computed of it, for another vector."""
    new = egraph.constant(Constant(np.asarray(other, "f4")))
    return renaming(egraph, all_asked(egraph), {egraph.constant(FIRST): new})


def test_what_was_computed_of_a_constant_is_computed_of_its_like() -> None:
    egraph = saturated()
    values = {
        index: np.asarray(egraph.atoms[index].value.data) for index in (renamed(egraph, [0.2, 0.4]) or {}).values()
    }
    assert any(np.array_equal(value, np.asarray([0.2, 0.4], "f4")) for value in values.values())
    assert any(np.allclose(value, [0.22, 0.76]) for value in values.values())


@pytest.mark.parametrize("other", [[1, 1], [0, 0]])
def test_a_constant_that_passes_other_tests_is_not_alike(other: list[float]) -> None:
    assert renamed(saturated(), other) is None


def test_questions_about_two_sorts_of_constants_at_once_are_told() -> None:
    egraph = saturated()
    first, second = egraph.constant(FIRST), egraph.constant(SECOND)
    assert asked_about(egraph, {first})
    assert asked_about(egraph, {first}, {second}) is None
