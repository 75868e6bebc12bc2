"""Times models in onnxruntime, run as a program: a model that crashes or hangs ends nothing else.

The first line of standard input is a JSON object: ``threads``, ``level``, ``rounds``, ``seconds``; ``models``, a list
of paths; and ``empty``, the path of a model that runs before each run of another, so that all find the runtime alike.
The models run in turn.

On standard output comes a JSON line for each thing that begins or is done: ``{"at": index}`` before a model is loaded
and run for the first time, ``{"failed": index, "why": text}`` where that fails, and at last ``{"seconds": [[...],
...]}``, the seconds of the runs of each model.

This file imports nothing of ours, so that it starts fast and holds little.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np
import onnx
import onnxruntime

LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

KEPT_APART = {"CommonSubexpressionElimination"}
"""Optimizers that would make one of the copies of a kernel."""

DTYPES = {
    "tensor(bool)": "bool",
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    onnxruntime.set_default_logger_severity(4)
    request = json.loads(sys.stdin.readline())

    def tell(said: dict[str, Any]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    empty, _ = _prepared(request["empty"], request["threads"], LEVELS["off"])
    runs: dict[int, Any] = {}
    inputs: dict[int, Any] = {}
    for index, path in enumerate(request["models"]):
        tell({"at": index})
        try:
            runs[index], inputs[index] = _prepared(path, request["threads"], LEVELS[request["level"]])
            runs[index]()
        except Exception as error:
            runs.pop(index, None)
            tell({"failed": index, "why": " ".join(str(error).split())[:200]})
    seconds: list[list[float]] = [[] for _ in request["models"]]
    least, most = request["rounds"]
    clock = time.thread_time if request["threads"] == 1 else time.perf_counter  # not what other programs take
    end = time.perf_counter() + request["seconds"]
    for done in range(most):
        if done >= least and time.perf_counter() > end:
            break
        tell({"at": -1})
        for index, run in runs.items():
            for array in inputs[index]:
                array.max(initial=0)  # what a kernel takes was just computed: it is at hand
            empty()
            start = clock()
            run()
            seconds[index].append(clock() - start)
    tell({"seconds": seconds})


def _prepared(path: str, threads: int, level: Any) -> Any:
    """A function that runs a model once, and the inputs that are made for it here."""
    optimized = f"{path}.optimized" if level == LEVELS["all"] else ""
    session = _session(path, threads, level, optimized)
    feed = {value.name: _array(value) for value in session.get_inputs()}
    if optimized:
        model = onnx.load(optimized)
        if _LAYOUT in {opset.domain for opset in model.opset_import} and any(map(_is_entry, model.graph.node)):
            return _in_layout(model, feed, path, threads)
    return _bound(session, feed)


def _session(path: str, threads: int, level: Any, optimized: str = "") -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if optimized:
        options.optimized_model_filepath = optimized
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"], disabled_optimizers=KEPT_APART
    )


def _array(value: Any) -> Any:
    """What an input is given: floats are of one magnitude, and of integers 0 is an index wherever one is asked for."""
    dtype = np.dtype(DTYPES[value.type])
    if dtype.kind == "f":
        return np.random.default_rng(0).uniform(0.1, 1.0, value.shape).astype(dtype)
    return np.zeros(value.shape, dtype)


def _bound(session: Any, feed: dict[str, Any]) -> Any:
    binding = session.io_binding()
    for value in session.get_inputs():
        binding.bind_cpu_input(value.name, feed[value.name])
    for value in session.get_outputs():
        binding.bind_output(value.name, "cpu")
    return lambda: session.run_with_iobinding(binding), list(feed.values())


# ---- layouts: what comes before and after a kernel in a model mostly has that which its kernel is fastest with

_LAYOUT = "com.microsoft.nchwc"


def _is_entry(node: Any) -> bool:
    return bool(node.domain == _LAYOUT and node.op_type == "ReorderInput")


def _is_exit(node: Any) -> bool:
    return bool(node.domain == _LAYOUT and node.op_type == "ReorderOutput")


def _in_layout(model: Any, feed: dict[str, Any], path: str, threads: int) -> Any:
    """As :func:`_prepared`, of a model whose inputs and outputs are in the layout that it changes them to inside."""
    graph = model.graph
    before = [node for node in graph.node if _is_entry(node) and node.input[0] in feed]
    read = {name for node in graph.node for name in node.input}
    after = [node for node in graph.node if _is_exit(node) and node.output[0] not in read]
    rest = [node for node in graph.node if node not in before and node not in after]
    feed = dict(feed)
    if before:
        names = [node.output[0] for node in before]
        inputs = list(graph.input)
        changes = _part(model, before, inputs, names)
        onnx.save(changes, f"{path}.before")
        changed = _session(f"{path}.before", threads, LEVELS["off"]).run(
            names, {name: feed[name] for node in before for name in node.input}
        )
        feed |= dict(zip(names, changed, strict=True))
    kept = {name for node in rest for name in node.input}
    inputs = [value for value in graph.input if value.name in kept]
    for node in before:
        like = feed[node.output[0]]
        inputs.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, like.shape))
    inside = {node.output[0]: node.input[0] for node in after}
    onnx.save(_part(model, rest, inputs, [inside.get(value.name, value.name) for value in graph.output]), path)
    return _bound(_session(path, threads, LEVELS["off"]), feed)


def _part(model: Any, nodes: Any, inputs: Any, outputs: Any) -> Any:
    """A model of some of the nodes of one; what is float or has its type said goes out."""
    said = {value.name: value for value in model.graph.output}
    results = [
        said.get(name) or onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs
    ]
    taken = {name for node in nodes for name in node.input}
    weights = [value for value in model.graph.initializer if value.name in taken]
    used = [value for value in inputs if value.name in taken]
    graph = onnx.helper.make_graph(list(nodes), "part", used, results, weights)
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


if __name__ == "__main__":
    main()
