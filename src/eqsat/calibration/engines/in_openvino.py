"""OpenVINO, in which models are timed; it imports nothing of ours, as :mod:`eqsat.calibration.engines.worker`."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np
import openvino

LEVELS = {"all": None}
"""OpenVINO always optimizes what it compiles."""

_COUNTED = 5
"""Runs in which it is seen what changes of layout take."""


def version() -> str:
    """That of the runtime."""
    return str(openvino.__version__).split("-")[0]


def kernel(path: str, threads: int, level: str) -> Any:
    """A function that runs a model once, the inputs that are made for it, and the share of its time that counts.

    What changes layouts and element types before and after a kernel does not count: what comes before and after it in a
    network mostly has that which its kernel is fastest with.
    """
    compiled = _compiled(path, threads)
    at_borders = {node.get_friendly_name() for node in compiled.get_runtime_model().get_ops() if _is_change(node)}
    request, inputs = _request(compiled, {})
    share = 1.0 - _share(_compiled(path, threads, counted=True), at_borders) if at_borders else 1.0
    return request.infer, inputs, share


def whole(path: str, threads: int, level: str, feeds: dict[str, Any]) -> Any:
    """As :func:`kernel`, of a model that is no kernel: its inputs have the sizes of what it takes."""
    request, inputs = _request(_compiled(path, threads, feeds), feeds)
    return request.infer, [each for each in inputs if each.dtype.kind not in "US"], 1.0


def _compiled(path: str, threads: int, feeds: Any = None, counted: bool = False) -> Any:
    core = openvino.Core()
    try:
        model = core.read_model(path)
    except RuntimeError as error:  # it begins with the places of OpenVINO's sources
        lines = [line for line in str(error).splitlines() if not line.startswith(("Exception from ", "Check '"))]
        raise RuntimeError("\n".join(lines) or str(error)) from None
    fed = {port: feeds[port.any_name].shape for port in model.inputs if feeds and port.any_name in feeds}
    if any(port.partial_shape.is_dynamic for port in fed):
        model.reshape({port: [*shape] for port, shape in fed.items()})
    how = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1, "PERF_COUNT": counted}
    return core.compile_model(model, "CPU", how | ({"INFERENCE_NUM_THREADS": threads} if threads else {}))


def _request(compiled: Any, feeds: dict[str, Any]) -> Any:
    """What runs a model, and what it takes: inputs of one type that are not given are one array, which caches hold."""
    request = compiled.create_infer_request()
    made: dict[Any, Any] = {}
    for port in compiled.inputs:
        if port.any_name in feeds:
            made[port.any_name] = openvino.Tensor(np.ascontiguousarray(feeds[port.any_name]))
            request.set_tensor(port, made[port.any_name])
            continue
        dtype, shape = port.element_type.to_dtype(), tuple(port.shape)
        if (dtype, shape) not in made:
            made[dtype, shape] = openvino.Tensor(_array(np.dtype(dtype), shape))
        request.set_tensor(port, made[dtype, shape])
    return request, [each.data for each in made.values()]


def _array(dtype: Any, shape: tuple[int, ...]) -> Any:
    """What an input is given: floats are of one magnitude, and of integers 0 is an index wherever one is asked for."""
    if dtype.kind == "f":
        return np.random.default_rng(0).uniform(0.1, 1.0, shape).astype(dtype)
    return np.zeros(shape, dtype)


def _is_change(node: Any) -> bool:
    """Whether a node was put between others for their layouts or element types."""
    facts = node.get_rt_info()
    kind = facts["layerType"].astype(str)
    return kind == "Reorder" or (kind == "Convert" and not facts["originalLayersNames"].astype(str))


def _share(compiled: Any, names: set[str]) -> float:
    """The share of the time of a model that nodes take."""
    request, _ = _request(compiled, {})
    request.infer()
    shares = []
    for _ in range(_COUNTED):
        start = time.perf_counter()
        request.infer()
        took = time.perf_counter() - start
        shares.append(sum(each.real_time.total_seconds() for each in _counters(request, names)) / took)
    return min(float(median(shares)), 1.0)


def _counters(request: Any, names: set[str]) -> Any:
    return [each for each in request.profiling_info if each.node_name in names]
