"""What the e-graph asks of egglog, whatever its version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from eqsat.egraph import engine as module
from eqsat.egraph.engine import Engine

SUMS = 12
JOINED = "(= e (n1 b c)) (= c (n0 a))"


@pytest.fixture(params=[True, False], ids=["looks first", "does not"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine with two tables of e-nodes, with rows."""
    monkeypatch.setattr(module, "_loses_matches", lambda: request.param)
    with closing(Engine()) as made:
        for text in (
            "(sort Expr)",
            "(constructor n0 (i64) Expr)",
            "(constructor n1 (i64 Expr) Expr)",
            "(ruleset load)",
        ):
            made.declare(text)
        for number in range(SUMS):
            made.rule("load", "", f"(n1 {number} (n0 {number}))")
        made.run("load")
        yield made


def test_rules_that_are_declared_late_find_all_matches(engine: Engine) -> None:
    engine.relation("found", "Expr")
    for number in range(8):
        engine.declare(f"(ruleset r{number})")
        engine.rule(f"r{number}", JOINED, f"(set (found e) ()) (n0 {1000 + number})", f"rule {number}")
    for number in range(8):
        assert engine.run(f"r{number}").matches == {f"rule {number}": SUMS}
    assert engine.sizes()["found"] == SUMS


def test_tables_are_looked_at_for_each_batch_of_rules_that_join_them(engine: Engine) -> None:
    for number in range(3):
        engine.declare(f"(ruleset r{number})")
        engine.rule(f"r{number}", JOINED, f"(n0 {1000 + number})")
        assert engine.run(f"r{number}").updated
    assert engine.sizes().get("looked", 0) == 0  # these rules never run
