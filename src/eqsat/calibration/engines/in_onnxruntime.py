"""onnxruntime, in which models are timed; it imports nothing of ours, as :mod:`eqsat.calibration.engines.worker`."""

from __future__ import annotations

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


def version() -> str:
    """That of the runtime."""
    return str(onnxruntime.__version__)


def kernel(path: str, threads: int, level: str) -> Any:
    """A function that runs a model once, the inputs that are made for it, and the share of its time that counts."""
    optimized = f"{path}.optimized" if level == "all" else ""
    made = session(path, threads, level, optimized)
    feed = {value.name: _array(value) for value in made.get_inputs()}
    if optimized:
        model = onnx.load(optimized)
        if _LAYOUT in {opset.domain for opset in model.opset_import} and any(map(_is_entry, model.graph.node)):
            return _in_layout(model, feed, path, threads)
    return _bound(made, feed)


def whole(path: str, threads: int, level: str, feeds: dict[str, Any]) -> Any:
    """As :func:`kernel`, of a model that is no kernel: it runs as it would for its user, who runs it often."""
    made = session(path, threads, level, apart=False)
    feed = {value.name: feeds[value.name] if value.name in feeds else _array(value) for value in made.get_inputs()}
    if any(array.dtype.kind == "U" for array in feed.values()):
        return lambda: made.run(None, feed), [], 1.0
    return _bound(made, feed)


def session(path: str, threads: int, level: str, optimized: str = "", apart: bool = True, recorded: str = "") -> Any:
    """A session of a model.

    Args:
        path, threads, level: The model, and how it runs.
        optimized: Where what the optimizer makes of the model is written.
        apart: Whether copies of a kernel stay apart.
        recorded: How the name of the file begins to which is written when each node ran.
    """
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if optimized:
        options.optimized_model_filepath = optimized
    if recorded:
        options.enable_profiling = True
        options.profile_file_prefix = recorded
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
    is_bound = True

    def run() -> None:
        nonlocal is_bound
        if is_bound:
            try:
                session.run_with_iobinding(binding)
                return
            except RuntimeError:  # from the second time on if an output is of another rank than the model says
                is_bound = False
        session.run(None, feed)

    return run, list(feed.values()), 1.0


# ---- layouts: what comes before and after a kernel in a model mostly has that which its kernel is fastest with

_LAYOUT = "com.microsoft.nchwc"


def _is_entry(node: Any) -> bool:
    return bool(node.domain == _LAYOUT and node.op_type == "ReorderInput")


def _is_exit(node: Any) -> bool:
    return bool(node.domain == _LAYOUT and node.op_type == "ReorderOutput")


def _in_layout(model: Any, feed: dict[str, Any], path: str, threads: int) -> Any:
    """As :func:`kernel`, of a model whose inputs and outputs are in the layout that it changes them to inside."""
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
        changed = session(f"{path}.before", threads, "off").run(
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
    return _bound(session(path, threads, "off"), feed)


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
