"""Constants in an e-graph: equal content, one atom."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import relay
from eqsat.egraph.exact_constants import OPERATIONS, PRIMES
from eqsat.egraph.symbols import SAMPLED
from eqsat.egraph.vocabulary import Vocabulary


@pytest.mark.parametrize("size", [3, SAMPLED, 100_003])
def test_constants_are_one_where_all_their_bytes_are_equal(size: int) -> None:
    vocabulary = Vocabulary()
    values = np.arange(size, dtype="float32")
    first, equal = relay.const(values), relay.const(values.copy())
    assert vocabulary.constant(first) == vocabulary.constant(equal)
    differs_anywhere = set()
    for place in [0, 1, size // 2 + 1, size - 1]:
        changed = values.copy()
        changed[place] = -1.0
        assert vocabulary.constant(relay.const(changed)) == vocabulary.constant(relay.const(changed.copy()))
        differs_anywhere.add(vocabulary.constant(relay.const(changed)))
    assert vocabulary.constant(first) not in differs_anywhere
    assert len(differs_anywhere) == len({0, 1, size // 2 + 1, size - 1})


def test_constants_of_equal_bytes_but_other_types_differ() -> None:
    vocabulary = Vocabulary()
    values = np.zeros(SAMPLED, dtype="float32")
    views = [values, values.view("int32"), values.reshape(-1, 2)]
    assert len({vocabulary.constant(relay.const(view)) for view in views}) == len(views)


def test_a_large_constant_that_stands_alone_is_not_digested() -> None:
    constant = relay.const(np.ones((512, 512), "float32"))
    vocabulary = Vocabulary()
    first = vocabulary.constant(constant)
    assert constant.data._digest is None
    assert vocabulary.constant(relay.const(np.ones((512, 512), "float32"))) == first
    other = np.ones((512, 512), "float32")
    other[3, 7] = 2
    assert vocabulary.constant(relay.const(other)) != first


@pytest.mark.parametrize("shape", [(), (1,), (2,), (7,), (4, 5), (33, 3), (0,)])
def test_quotients_of_residues_times_the_divisors_are_the_dividends(shape: tuple[int, ...]) -> None:
    primes, rng = PRIMES.reshape(-1, *[1] * len(shape)), np.random.default_rng(0)
    divide = OPERATIONS["divide"][0]
    dividends, divisors = (rng.integers(1, PRIMES.min(), size=(len(PRIMES), *shape)) for _ in range(2))
    assert np.array_equal(divide(dividends, divisors) % primes * divisors % primes, dividends)
    assert not np.any(divide(dividends, np.zeros_like(divisors)))
