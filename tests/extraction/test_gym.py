"""Reading and writing extraction-gym files, and what is said about bad ones."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from eqsat.errors import ExtractionError
from eqsat.extraction import Problem, read_gym, write_gym

from .strategies import problems


def node(eclass: str, *children: str, cost: Any = 1.0, **more: Any) -> dict[str, Any]:
    return {"op": "f", "cost": cost, "eclass": eclass, "children": list(children), **more}


def read(tmp_path: Path, nodes: Any, roots: Any = ("a",)) -> Problem:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"nodes": nodes, "root_eclasses": list(roots)}))
    return read_gym(path)


def test_children_are_nodes_that_stand_for_their_classes(tmp_path: Path) -> None:
    problem = read(tmp_path, {"x": node("a", "z", cost=2.5), "y": node("b"), "z": node("b", cost=3)})
    assert problem.class_ids == ["a", "b"]
    assert problem.children == [[1], [], []]
    assert problem.costs == [2.5, 1.0, 3.0]
    assert problem.roots.tolist() == [0]


def test_missing_cost_is_one_and_missing_children_are_none(tmp_path: Path) -> None:
    problem = read(tmp_path, {"x": {"op": "x", "eclass": "a"}})
    assert problem.costs == [1.0]
    assert problem.children == [[]]


@pytest.mark.parametrize("name", ["graph.json", "graph.json.xz"])
def test_write_then_read_gives_the_same_problem(tmp_path: Path, name: str) -> None:
    nodes = {"x": node("a", "z", cost=-2.5), "y": node("b", subsumed=True), "z": node("b", "z", cost=3), "w": node("b")}
    problem = read(tmp_path, nodes)
    write_gym(problem, tmp_path / name)
    again = read_gym(tmp_path / name)
    for field in ("node_class", "child_offsets", "child", "cost", "roots", "subsumed"):
        np.testing.assert_array_equal(getattr(again, field), getattr(problem, field))
    assert (again.node_ids, again.class_ids, again.ops) == (problem.node_ids, problem.class_ids, problem.ops)


@given(problem=problems(least_cost=-2))
def test_problems_without_names_can_be_written(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("gym") / "graph.json.xz"
    lacking = set(problem.child.tolist()) - set(problem.node_class.tolist())
    if lacking:
        with pytest.raises(ExtractionError, match="has no node"):
            write_gym(problem, path)
        return
    write_gym(problem, path)
    assert read_gym(path).costs == problem.costs


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({"x": node("a", "gone")}, "node 'x' has the child 'gone', which is no node"),
        ({"x": {"op": "x"}}, "node 'x' lacks 'eclass'"),
        ({"x": 7}, "node 'x' must be an object"),
        ({"x": node("a", cost="dear")}, "node 'x' has 'cost' of the wrong kind"),
        ({"x": node("a", cost=float("nan"))}, "node x .* costs nan"),
        ({"x": node("a", cost=float("inf"))}, "node x .* costs inf"),
        ({"x": node("a", cost=10**400)}, "node 'x' has a 'cost' that is no finite number"),
        ({"x": node("a", cost=1e308), "y": node("a", cost=1e308)}, "scale them down"),
        ({"x": node("b")}, "root class a has no finite extraction: class a has no node"),
        ({"x": node("a", "y"), "y": node("b", "x")}, r"root class a has no .* \(class a -> class b -> class a\)"),
        ({"x": node("a", "y"), "y": node("b", subsumed=True)}, "class b has only subsumed nodes"),
        ([], "the file has 'nodes' of the wrong kind"),
    ],
)
def test_bad_files_are_refused_with_the_reason(tmp_path: Path, nodes: Any, message: str) -> None:
    with pytest.raises(ExtractionError, match=message) as caught:
        read(tmp_path, nodes)
    assert "graph.json" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000, '{"nodes": {}}', '{"nodes": {}, "root_eclasses": []}', "3"])
def test_text_that_is_no_such_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ExtractionError, match=r"bad\.json"):
        read_gym(path)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match="No such file"):
        read_gym(tmp_path / "missing.json")
    broken = tmp_path / "broken.json.xz"
    broken.write_bytes(lzma.compress(b"{}")[:-9])
    with pytest.raises(ExtractionError, match="cannot be read"):
        read_gym(broken)
