"""``many()``: patterns of tuples that have any number of fields."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import relay
from eqsat.errors import PatternError
from eqsat.relay.dataflow_pattern import DFPatternCallback, is_op, is_tuple, many, rewrite, wildcard
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.structural import structural_equal

VARIABLES = [relay.var(name, shape=(2, 3)) for name in "abcdefghij"]


def joined(*fields: Expr) -> Expr:
    return relay.concatenate(list(fields), axis=0)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_each_field_is_matched_by_a_copy_of_the_pattern(count: int) -> None:
    relus = is_op("concatenate")(is_tuple([many(is_op("nn.relu")(wildcard()))]))
    fields = [relay.nn.relu(variable) for variable in VARIABLES[:count]]
    assert relus.match(joined(*fields))
    assert not relus.match(joined(*fields, VARIABLES[-1]))


def test_shared_patterns_match_the_same_expression_in_all_fields() -> None:
    data = wildcard()
    each = is_op("nn.relu")(data)
    a, b = VARIABLES[:2]
    same, mixed = joined(relay.nn.relu(a), relay.nn.relu(a)), joined(relay.nn.relu(a), relay.nn.relu(b))
    assert is_op("concatenate")(is_tuple([many(each, shared=[data])])).match(same)
    assert not is_op("concatenate")(is_tuple([many(each, shared=[data])])).match(mixed)
    assert is_op("concatenate")(is_tuple([many(each)])).match(mixed)


def test_fields_before_and_behind_one_that_is_looked_for() -> None:
    pattern = is_op("concatenate")(is_tuple([many(wildcard()), is_op("exp")(wildcard()), many(wildcard())]))
    a, b, c = VARIABLES[:3]
    for at in range(4):
        fields = [a, b, c]
        fields.insert(at, relay.exp(a))
        assert pattern.match(joined(*fields))
    assert not pattern.match(joined(a, b, c))


def test_some_fields_match_another_pattern_and_at_least_one_does() -> None:
    pattern = is_tuple([many(is_op("exp")(wildcard()), some=is_op("nn.relu")(wildcard()))])
    a, b = VARIABLES[:2]
    assert pattern.match(Tuple([relay.exp(a), relay.nn.relu(b), relay.exp(b)]))
    assert pattern.match(Tuple([relay.nn.relu(b)]))
    assert not pattern.match(Tuple([relay.exp(a), relay.exp(b)]))
    assert not pattern.match(Tuple([relay.nn.relu(a), b]))


def test_a_callback_is_told_what_all_fields_matched() -> None:
    class Hoist(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.field = wildcard()
            self.pattern = is_op("concatenate")(is_tuple([many(is_op("nn.relu")(self.field))]))

        def callback(self, pre: Expr, post: Expr, node_map: dict) -> Expr:
            return relay.nn.relu(joined(*node_map[self.field]))

    fields = VARIABLES[:7]
    found = rewrite(Hoist(), joined(*[relay.nn.relu(field) for field in fields]))
    assert structural_equal(found, relay.nn.relu(joined(*fields)), map_free_vars=True)


@given(st.integers(0, 6), st.lists(st.booleans(), max_size=4))
def test_arrangements_are_all_ways_to_share_out_fields(count: int, kinds: list[bool]) -> None:
    """``kinds`` says of each field of the pattern whether it is repeated."""
    pattern = is_tuple([many(wildcard()) if kind else wildcard() for kind in kinds])
    left, several = count - kinds.count(False), kinds.count(True)
    found = list(pattern.arrangements(count))
    cuts = combinations_with_replacement(range(left + 1), several - 1) if left >= 0 and several else ()
    expected = [tuple(b - a for a, b in zip((0, *cut), (*cut, left), strict=True)) for cut in cuts]
    assert found == (expected if several else [()] * (left == 0))
    assert all(len(pattern.arranged(counts)) == count for counts in found)


def test_repetitions_stand_among_fields_only() -> None:
    with pytest.raises(PatternError, match="fields of a tuple"):
        is_op("exp")(many(wildcard()))
    recursive = wildcard()
    recursive.redirect_to(is_op("exp")(recursive))
    with pytest.raises(PatternError, match="recursive"):
        is_tuple([many(recursive)]).match(Tuple(VARIABLES[:2]))
