"""What rules know of a constant, asked of another."""

from __future__ import annotations

import numpy as np

import eqsat
from eqsat import relay, rules
from eqsat.egraph.renaming import all_asked, asked_about, renaming
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.relay.expr import Constant

FIRST, SECOND = (relay.const(np.asarray(values, "f4")) for values in ([0.3, 0.7], [1.1, 1.9]))


def saturated() -> Vocabulary:
    """What is known in the e-graph of a product with two vectors, whose own product was computed."""
    x = relay.var("x", shape=(4, 2))
    saturation = eqsat.saturate(x * FIRST * SECOND, rules.sets["algebra"] + rules.sets["fold"])
    return saturation.regions[0].vocabulary


def renamed(vocabulary: Vocabulary, other: list[float]) -> dict[int, int] | None:
    """What takes the place of the first vector, and of what was computed of it, for another vector."""
    new = vocabulary.constant(Constant(np.asarray(other, "f4")))
    return renaming(vocabulary, all_asked(vocabulary), {vocabulary.constant(FIRST): new})


def test_what_was_computed_of_a_constant_is_computed_of_its_like() -> None:
    vocabulary = saturated()
    values = {
        index: np.asarray(vocabulary.atoms[index].value.data)
        for index in (renamed(vocabulary, [0.2, 0.4]) or {}).values()
    }
    assert any(np.array_equal(value, np.asarray([0.2, 0.4], "f4")) for value in values.values())
    assert any(np.allclose(value, [0.22, 0.76]) for value in values.values())


def test_a_constant_that_passes_other_tests_is_not_alike() -> None:
    assert renamed(saturated(), [1, 1]) is None, "a product with it is nothing"


def test_questions_about_two_sorts_of_constants_at_once_are_told() -> None:
    vocabulary = saturated()
    first, second = vocabulary.constant(FIRST), vocabulary.constant(SECOND)
    assert asked_about(vocabulary, {first})
    assert asked_about(vocabulary, {first}, {second}) is None
