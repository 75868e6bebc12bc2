"""The engine's tables of the tests that patterns ask for."""

from __future__ import annotations

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.vocabulary import Test as Question


def test_no_table_has_a_name_that_the_engine_makes_of_another() -> None:
    """It appends numbers to the names of tables: what it calls the second use of one is no other table."""
    egraph = EGraph()
    facts = [egraph.predicate(Question("type", f"of {number}", lambda ty: True)) for number in range(13)]
    assert len(set(facts)) == len(facts)
    names = {fact.split()[0] for fact in facts}
    assert not any(name != other and name.startswith(other) for name in names for other in names)
