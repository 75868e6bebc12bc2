"""Every shipped rule keeps values, as its soundness class promises, on random instances of its left side.

A dozen instances of each here; ``eqsat rules verify`` takes a hundred.
"""

from __future__ import annotations

import pytest

from eqsat import rules
from eqsat.egraph.rule import flatten
from eqsat.rules.verify import table, verify

INSTANCES = 10
EVERY = flatten(list(rules.sets.values()))
PORTIONS = [EVERY[start::32] for start in range(32)]


@pytest.mark.parametrize("portion", PORTIONS, ids=lambda portion: portion[0].name)
def test_rules_keep_values(portion) -> None:
    verdicts = verify(portion, INSTANCES)
    failed = [verdict for verdict in verdicts if not verdict.ok]
    assert not failed, table(failed)
    assert all(verdict.instances >= INSTANCES for verdict in verdicts if verdict.rule != "fold-constants")


def test_the_default_rules_assume_nothing_of_values() -> None:
    assert all(rule.soundness is not rules.Soundness.FINITE for rule in rules.default)


def test_a_verdict_depends_on_rule_and_seed_only() -> None:
    rule = rules.default.only("add-zero")
    first, again = (verify(rule, 20, seed=7)[0] for _ in range(2))
    assert (first.status, first.instances) == (again.status, again.instances)
