"""`python -m eqsat.extraction`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from eqsat.extraction import Problem, write_gym
from eqsat.extraction.__main__ import main


def test_the_table_has_a_row_for_each_file_and_method(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    write_gym(Problem.from_lists([[(2.0, [1])], [(5.5, [])]], [0]), file)
    result = CliRunner().invoke(main, [str(file), "--method", "tree", "--method", "exact"])
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.splitlines() if "graph.json" in line]
    assert [row[-6:-1] for row in rows] == [["tree", "7.5", "2", "no", "7.5"], ["exact", "7.5", "7.5", "yes", "7.5"]]


def test_the_same_as_json(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    write_gym(Problem.from_lists([[(2.0, [1])], [(5.5, [])]], [0]), file)
    rows = json.loads(CliRunner().invoke(main, [str(file), "--method", "exact", "--json"]).output)
    assert [(row["method"], row["cost"], row["lower_bound"], row["optimal"]) for row in rows] == [
        ("exact", 7.5, 7.5, True)
    ]


def test_a_file_that_cannot_be_read_fails_and_the_others_are_solved(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    write_gym(Problem.from_lists([[(2.0, [])]], [0]), file)
    result = CliRunner().invoke(main, [str(tmp_path / "none.json"), str(file)])
    assert result.exit_code == 1
    assert "none.json: cannot be read" in result.output
    assert "graph.json" in result.output


def test_names_are_no_commands_to_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[31mred\r\x9b2J[bold]"
    file, wrong = tmp_path / f"{name}.json", tmp_path / "wrong.json"
    node = {"op": name, "children": [], "eclass": name, "cost": 2.0}
    file.write_text(json.dumps({"nodes": {name: node}, "root_eclasses": [name]}))
    wrong.write_text(json.dumps({"nodes": {name: node}, "root_eclasses": [f"{name}2"]}))
    result = CliRunner().invoke(main, [str(file), str(wrong)])
    assert result.exit_code == 1
    assert result.output.replace("\n", "").isprintable()
    assert result.stderr.count("\n") == 1
    assert "[bold].json" in result.stdout
