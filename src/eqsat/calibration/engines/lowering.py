"""Has onnxruntime optimize a model, and tells which nodes it then runs; run as a program, as the worker is.

The first line of standard input is a JSON object: ``model``, a path; ``threads``, and the ``level`` of the optimizer;
``feeds``, the path of arrays by name that the model takes; and ``folder``, where files may be written.

On standard output comes a JSON line ``{}`` at the beginning of each step, for a large model takes long in all, and at
last ``{"nodes": {name: {...}, ...}}``, for each node that ran: ``seconds``, the median of what onnxruntime
tells of its runs; ``runs``, how often it ran in one run of the model; and ``results``, the dtype and shape of each of
its results, fewer where some are no tensors.

The folder then has ``optimized.onnx``, in which all nodes, also those of bodies, have names of their own, and
``integers.npz``, the integers and booleans by name that nodes take and that are neither constants nor inputs.

This file imports nothing of ours, so that it starts fast and holds little.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx

_RUNS = 3
"""How often the model runs."""

MOST_TOLD = 1 << 16
"""Most elements of an array that is kept for what it holds: nodes take shapes, indices and masks."""

_EVENT = "_kernel_time"
"""What follows the name of a node in the events that onnxruntime records."""


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    request = json.loads(sys.stdin.readline())
    sys.path.append(str(Path(__file__).parent))  # as the last: no library finds modules of ours
    engine = importlib.import_module("in_onnxruntime")

    def tell(said: dict[str, Any]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    def begin() -> None:
        tell({})

    begin()
    threads, folder, feeds = request["threads"], Path(request["folder"]), dict(np.load(request["feeds"]))
    path = str(folder / "optimized.onnx")
    engine.session(request["model"], threads, request["level"], path, apart=False)
    begin()
    model = onnx.load(path)
    nodes = [node for graph in graphs_of(model.graph) for node in graph.node]
    for number, node in enumerate(nodes):
        node.name = f"n{number}"
    onnx.save(model, path)

    begin()
    recording = engine.session(path, threads, "off", apart=False, recorded=str(folder / "events"))
    fed = {value.name: feeds[value.name] for value in recording.get_inputs()}
    for _ in range(_RUNS):
        begin()
        recording.run(None, fed)
    ran = _ran(json.loads(Path(recording.end_profiling()).read_text(encoding="utf-8")), engine.DTYPES)

    made = {node.name: [name for name in node.output if name] for node in model.graph.node}
    taken = {name for node in nodes for name in node.input}
    known = {value.name for value in (*model.graph.output, *model.graph.initializer)}
    wanted = [
        name
        for node, each in ran.items()
        if len(each["results"]) == len(made.get(node, ()))
        for name, (dtype, shape) in zip(made[node], each["results"], strict=True)
        if name in taken and name not in known and np.dtype(dtype).kind in "iub" and math.prod(shape) <= MOST_TOLD
    ]
    begin()
    asked = [*wanted, *[value.name for value in model.graph.output]]
    model.graph.output.extend([onnx.helper.make_empty_tensor_value_info(name) for name in wanted])
    onnx.save(model, folder / "more.onnx")
    values = engine.session(str(folder / "more.onnx"), threads, "off", apart=False).run(asked, fed)
    found = {name: each for name, each in zip(asked, values, strict=True) if isinstance(each, np.ndarray)}
    integers: dict[str, Any] = {name: each for name, each in found.items() if each.dtype.kind in "iub"}
    np.savez(folder / "integers.npz", **integers)
    tell({"nodes": ran})


def graphs_of(graph: Any) -> Iterator[Any]:
    """Yield a graph and the bodies in it."""
    waiting = [graph]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += [body for node in found.node for body in bodies_of(node)]


def bodies_of(node: Any) -> list[Any]:
    """Return the graphs that a node has."""
    one = [each.g for each in node.attribute if each.type == onnx.AttributeProto.GRAPH]
    return one + [graph for each in node.attribute if each.type == onnx.AttributeProto.GRAPHS for graph in each.graphs]


def _ran(events: list[dict[str, Any]], dtypes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What was recorded of each node."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_EVENT):
            found.setdefault(event["name"].removesuffix(_EVENT), []).append(event)
    return {
        name: {
            "seconds": median(each["dur"] for each in runs) * 1e-6,
            "runs": len(runs) / _RUNS,
            "results": [
                (dtypes[f"tensor({ty})"], shape)
                for result in runs[0]["args"]["output_type_shape"]
                for ty, shape in result.items()
                if f"tensor({ty})" in dtypes
            ],
        }
        for name, runs in found.items()
    }


if __name__ == "__main__":
    main()
