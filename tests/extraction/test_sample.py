"""Costs on e-graphs of the public extraction-gym benchmark."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

from eqsat.extraction import Problem, auto, dag, exact, local, read_gym, tree
from eqsat.extraction.solution import walk

DATA = Path(__file__).parents[1] / "data" / "extraction-gym"
TABLE = (DATA / "known_costs.tsv").read_text(encoding="utf-8")
KNOWN = {row["file"]: row for row in csv.DictReader(TABLE.splitlines(), delimiter="\t")}
LONG = "tensat__vgg.json"  # CP-SAT proves it, in some tens of seconds: the benchmark has it
PROVED = [f for f, row in KNOWN.items() if row["proven"] == "yes" and not f.startswith(LONG)]


@cache
def problem_of(file: str) -> Problem:
    return read_gym(DATA / file)


@pytest.mark.parametrize("file", KNOWN)
def test_greedy_costs(file: str) -> None:
    problem, row = problem_of(file), KNOWN[file]
    greedy = min(tree(problem).cost, dag(problem).cost)
    published = min(float(row["tree_greedy_dag"]), float(row["greedy_dag"]))
    # ties between equally cheap trees are broken in other ways, which matters on one graph
    assert greedy <= published * (1.03 if "flexc" in file else 1.00001) or published < 0


@pytest.mark.parametrize("file", PROVED)
def test_known_optima_are_proved_again(file: str) -> None:
    problem = problem_of(file)
    result = exact(problem, seconds=60.0)
    assert result.cost == pytest.approx(float(KNOWN[file]["best_known"]), rel=1e-5)
    assert result.optimal
    walk(problem, result.choice)


@pytest.mark.parametrize("file", PROVED[::2])
def test_auto_reaches_the_best_known_cost(file: str) -> None:
    result = auto(problem_of(file), seconds=60.0)  # none takes nearly as long
    assert result.cost == pytest.approx(float(KNOWN[file]["best_known"]), rel=1e-5)


@pytest.mark.parametrize("file", [file for file in KNOWN if not file.startswith("maxsat")])  # which takes the longest
def test_local_search_reaches_the_best_known_cost(file: str) -> None:
    result = local(problem_of(file))
    assert result.cost == pytest.approx(float(KNOWN[file]["best_known"]), rel=1e-5)
