"""Every shipped rule keeps values, as its soundness class promises, on random instances of its left side.

A few instances of each here, and two of each rule that was proved: ``make prove`` proves these again, and tests every
rule on more instances; ``eqsat rules verify`` takes a hundred.
"""

from __future__ import annotations

import json

import pytest

from eqsat import relay, rules
from eqsat.egraph.mistakes import check_rewrite
from eqsat.egraph.rule import Rewrite, flatten
from eqsat.rules.prove import PROVED_BEFORE
from eqsat.rules.verify import table, verify
from eqsat.rules.verify.examples import EXAMPLES, examples_of

INSTANCES, INSTANCES_IF_PROVED = 10, 2
PROVED = json.loads(PROVED_BEFORE.read_text(encoding="utf-8")).keys()
EVERY = flatten(list(rules.sets.values()))
PORTIONS = [EVERY[start::16] for start in range(16)]


@pytest.mark.parametrize("portion", PORTIONS, ids=lambda portion: portion[0].name)
def test_rules_keep_values(portion) -> None:
    verdicts = [verify(rule, INSTANCES_IF_PROVED if rule.name in PROVED else INSTANCES)[0] for rule in portion]
    failed = [verdict for verdict in verdicts if not verdict.ok]
    assert not failed, table(failed)
    few = {
        verdict.rule for verdict in verdicts if verdict.instances < INSTANCES and not verdict.rule.startswith("fold-")
    }
    assert few <= PROVED


def test_rules_use_what_their_left_sides_match() -> None:
    """The rules of users are checked when they are defined."""
    for rule in EVERY:
        if isinstance(rule, Rewrite):
            check_rewrite(rule)


def test_the_default_rules_assume_nothing_of_values() -> None:
    assert all(rule.soundness is not rules.Soundness.FINITE for rule in rules.default)


def test_a_verdict_depends_on_rule_and_seed_only() -> None:
    rule = rules.default.only("add-zero")
    first, again = (verify(rule, 20, seed=7)[0] for _ in range(2))
    assert (first.status, first.instances) == (again.status, again.instances)


def test_every_example_that_is_kept_is_one_of_a_shipped_rule() -> None:
    assert EXAMPLES.keys() <= {rule.name for rule in EVERY}


def test_a_rule_that_only_has_the_name_of_a_shipped_one_is_drawn_from_its_own_pattern() -> None:
    x = rules.variables("x")[0]
    named_alike = rules.rewrite("mean", relay.nn.relu(relay.nn.relu(x)), relay.nn.relu(x))
    assert examples_of(named_alike) is None
    assert verify(named_alike, 5)[0].ok
