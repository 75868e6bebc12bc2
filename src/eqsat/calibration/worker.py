"""Times models in onnxruntime, run as a program: a model that crashes or hangs ends nothing else.

The first line of standard input is a JSON object: ``threads``, ``level``, ``rounds``, ``seconds``; ``models``, a list
of paths; ``reference``, the path of a model that runs before and after each run of another, so that all find the
runtime alike, and by whose time theirs are told; and ``feeds``, the path of arrays by name that the models take, or
null where they are kernels, whose inputs are made up. The models run in turn, kernels always in one order, whole models
in any.

On standard output comes a JSON line for each thing that begins or is done: ``{"at": index}`` before a model is loaded
and run for the first time, ``{"failed": index, "why": text}`` where that fails, and at last ``{"seconds": [[...],
...], "reference": [[...], ...]}``, the seconds of the runs of each model, and of those of the reference beside them.

This file imports nothing of ours, so that it starts fast and holds little.
"""

from __future__ import annotations

import json
import os
import random
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

_SILENT = 1.0
"""Seconds after which it is told that the models still run."""

_LONG = 5e-3
"""Seconds from which on it does not matter what a kernel finds in the caches: it runs once in its turn."""

_FEWEST, _PATIENCE = 3, 5
"""Fewest runs of kernels, where the least number of them takes more than this many times as long as asked."""

_TOGETHER, _MOST_TOGETHER = 1e-3, 9
"""Seconds for which a whole model runs more than once in its turn, and how many times more at most."""


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    onnxruntime.set_default_logger_severity(4)
    request = json.loads(sys.stdin.readline())

    def tell(said: dict[str, Any]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    reference, _ = _prepared(request["reference"], request["threads"], LEVELS["off"])
    feeds = None if request["feeds"] is None else dict(np.load(request["feeds"]))
    runs: dict[int, Any] = {}
    inputs: dict[int, Any] = {}
    for index, path in enumerate(request["models"]):
        tell({"at": index})
        try:
            how = path, request["threads"], LEVELS[request["level"]]
            runs[index], inputs[index] = _prepared(*how) if feeds is None else _whole(*how, feeds)
            runs[index]()
        except Exception as error:
            runs.pop(index, None)
            tell({"failed": index, "why": " ".join(str(error).split())[:200]})
    seconds: list[list[float]] = [[] for _ in request["models"]]
    beside: list[list[float]] = [[] for _ in request["models"]]
    least, most = request["rounds"]
    clock = time.thread_time if request["threads"] == 1 else time.perf_counter  # not what other programs take

    def referred() -> float:
        reference()  # what ran before left nothing of it in the caches
        start = clock()
        reference()
        return clock() - start

    references: list[float] = []
    places: list[int] = []
    told = time.perf_counter()
    end, late = told + request["seconds"], told + _PATIENCE * request["seconds"]
    for done in range(most):
        now = time.perf_counter()
        if (done >= least and now > end) or (done >= _FEWEST and now > late and feeds is None):
            break
        order = [*runs]
        if feeds is not None:
            random.Random(done).shuffle(order)  # none shall always find the caches that another left
        for index in order:
            if time.perf_counter() > told + _SILENT:
                told = time.perf_counter()
                tell({"at": -1})
            run = runs[index]
            for array in inputs[index]:
                array.max(initial=0)  # what a kernel takes was just computed: it is at hand
            references.append(referred())
            places.append(index)
            begun, start = time.perf_counter(), clock()
            run()  # a model runs often: what another one left in the caches is no part of what this one takes
            took, once = time.perf_counter() - begun, clock() - start
            if feeds is None and took > _LONG:
                seconds[index].append(once)
                continue
            often = 0 if feeds is None else _MOST_TOGETHER
            count = 1 + int(min(_TOGETHER / took, often))
            start = clock()
            for _ in range(count):
                run()
            seconds[index].append((clock() - start) / count)
    references.append(referred())
    for place, index in enumerate(places):
        beside[index].append((references[place] + references[place + 1]) / 2)
    tell({"seconds": seconds, "reference": beside})


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


def _whole(path: str, threads: int, level: Any, feeds: dict[str, Any]) -> Any:
    """As :func:`_prepared`, of a model that is no kernel: it runs as it would for its user, who runs it often."""
    session = _session(path, threads, level, apart=False)
    feed = {value.name: feeds[value.name] if value.name in feeds else _array(value) for value in session.get_inputs()}
    if any(array.dtype.kind == "U" for array in feed.values()):
        return lambda: session.run(None, feed), []
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feed.items()}
    return lambda: session.run_with_ort_values(None, values), list(feed.values())


def _session(path: str, threads: int, level: Any, optimized: str = "", apart: bool = True) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if optimized:
        options.optimized_model_filepath = optimized
    disabled = KEPT_APART if apart else set()
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled)


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
