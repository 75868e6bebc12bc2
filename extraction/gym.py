"""Reading and writing files of the extraction gym (https://github.com/egraphs-good/extraction-gym).

A file is JSON, plain or compressed with xz:

`{"nodes": {id: {"op", "cost", "eclass", "children": [node ids], "subsumed"}}, "root_eclasses": [...]}`; a node id
among the children stands for its e-class. `cost` is 1, `children` empty and `subsumed` false where missing.
"""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.errors import ExtractionError

from .problem import Problem


def read_gym(path: str | os.PathLike[str]) -> Problem:
    """Read the problem in an extraction-gym file (`.json` or `.json.xz`).

    Raises:
        ExtractionError: The file cannot be read, is not of this format, names a child that is not there, or describes a
            problem that `Problem` rejects.
    """
    try:
        return _parse(_load(Path(path)))
    except ExtractionError as error:
        raise ExtractionError(f"{path}: {error}") from error.__cause__


def write_gym(problem: Problem, path: str | os.PathLike[str]) -> None:
    """Write the problem as an extraction-gym file, compressed where the name ends in `.xz`.

    Raises:
        ExtractionError: The format cannot express the problem: it has several objectives, or a child class has no node.
    """
    if len(problem.objectives) > 1:
        raise ExtractionError(f"{path}: the format has one cost for a node, the problem {len(problem.objectives)}")
    target = Path(path)
    text = json.dumps({"nodes": _nodes(problem), "root_eclasses": [_class(problem, r) for r in problem.roots]})
    data = text.encode()
    target.write_bytes(lzma.compress(data) if target.suffix == ".xz" else data)


def _load(path: Path) -> Any:
    try:
        data = path.read_bytes()
        return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)
    except (OSError, lzma.LZMAError) as error:
        raise ExtractionError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (ValueError, RecursionError) as error:
        raise ExtractionError(f"is not JSON: {error}") from error


def _parse(data: Any) -> Problem:
    nodes = _field(data, "nodes", dict, "the file")
    classes: dict[str, int] = {}
    index_of: dict[str, int] = {}
    for name, node in nodes.items():
        eclass = _field(node, "eclass", str, f"node {name!r}")
        index_of[name] = classes.setdefault(eclass, len(classes))
    roots = [classes.setdefault(str(r), len(classes)) for r in _field(data, "root_eclasses", list, "the file")]
    child, offsets, cost, subsumed = [], [0], [], []
    for name, node in nodes.items():
        where = f"node {name!r}"
        for kid in _field(node, "children", list, where, []):
            if not isinstance(kid, str) or kid not in index_of:
                raise ExtractionError(f"{where} has the child {kid!r}, which is no node of the file")
            child.append(index_of[kid])
        offsets.append(len(child))
        try:
            cost.append(float(_field(node, "cost", (int, float), where, 1.0)))
        except OverflowError:
            raise ExtractionError(f"{where} has a 'cost' that is no finite number") from None
        subsumed.append(_field(node, "subsumed", bool, where, False))
    return Problem(
        np.array(list(index_of.values()), np.int64),
        np.array(offsets, np.int64),
        np.array(child, np.int64),
        np.array(cost, np.float64),
        np.array(roots, np.int64),
        subsumed=np.array(subsumed, bool) if any(subsumed) else None,
        num_classes=len(classes),
        node_ids=list(nodes),
        class_ids=list(classes),
        ops=[str(node.get("op", "")) for node in nodes.values()],
    )


def _field(owner: Any, key: str, kind: Any, where: str, default: Any = None) -> Any:
    if not isinstance(owner, dict):
        raise ExtractionError(f"{where} must be an object, not {type(owner).__name__}")
    value = owner.get(key, default)
    if value is None:
        raise ExtractionError(f"{where} lacks {key!r}")
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ExtractionError(f"{where} has {key!r} of the wrong kind: {value!r:.60}")
    return value


def _nodes(problem: Problem) -> dict[str, dict[str, Any]]:
    ids = problem.node_ids if problem.node_ids is not None else [str(n) for n in range(problem.num_nodes)]
    first = {int(c): ids[n] for n, c in reversed(list(enumerate(problem.node_class)))}
    owners, excluded = problem.node_class.tolist(), problem.excluded.tolist()
    nodes: dict[str, dict[str, Any]] = {}
    for n, children in enumerate(problem.children):
        missing = [c for c in children if c not in first]
        if missing:
            raise ExtractionError(
                f"{problem.node_name(n)} has as a child {problem.class_name(missing[0])}, "
                "which has no node: the format cannot say that"
            )
        nodes[ids[n]] = {
            "op": problem.ops[n] if problem.ops is not None else "",
            "cost": problem.costs[n],
            "eclass": _class(problem, owners[n]),
            "children": [first[c] for c in children],
        } | ({"subsumed": True} if excluded[n] else {})
    return nodes


def _class(problem: Problem, index: int) -> str:
    return problem.class_ids[index] if problem.class_ids is not None else str(int(index))
