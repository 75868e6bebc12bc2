"""What whole models take by the nodes that onnxruntime runs of them.

Its optimizer fuses nodes, splits others, and changes layouts between them. What it makes of a model is read from the
model that it optimized, and each of these nodes is a kernel, which is measured without the optimizer.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from eqsat.calibration.copies import are_fewer, copies_of, is_drawn, weights_of_copy, with_output
from eqsat.calibration.engines.in_onnxruntime import DTYPES
from eqsat.calibration.engines.lowering import MOST_TOLD, bodies_of, graphs_of
from eqsat.calibration.engines.process import answers
from eqsat.calibration.kernels import IR_VERSION, MOST_BYTES
from eqsat.calibration.measuring import Setup, save_feed
from eqsat.calibration.profile import Profile, calibrate
from eqsat.files import scratch_folder
from eqsat.onnx.files import Given, save_to_run

_FASTER = 8.0
"""By how much a node may be faster than in the runs in which it was seen."""

_TOLD = 8
"""Most elements of an array that a key spells out."""


@dataclass(frozen=True)
class Operand:
    """What a node takes or gives.

    Attributes:
        dtype, shape: Its type.
        value: What it holds, where that is known; of weights only their type.
        is_constant: Whether it is a constant of the model.
    """

    dtype: str
    shape: tuple[int, ...]
    value: onnx.TensorProto | None = field(default=None, repr=False)
    is_constant: bool = False

    @property
    def bytes(self) -> float:
        """How many it has."""
        return float(math.prod(self.shape) * np.dtype(self.dtype).itemsize)

    def __str__(self) -> str:
        said = f"{'const ' * self.is_constant}{self.dtype}{[*self.shape]}"
        if self.value is None or is_drawn(self.value):
            return said
        array = numpy_helper.to_array(self.value)
        return f"{said}={array.tolist()}" if array.size <= _TOLD else f"{said}#{_digest(array.tobytes())}"


@dataclass(frozen=True)
class NodeKernel:
    """A node of an optimized model, as a kernel.

    Attributes:
        key: Equal for equal nodes with equal operands, weights aside.
        family: Its operator.
        node: The node.
        operands: What it takes; None where an operand is left out.
        results: What it gives.
        opsets: Those of its model.
        seen: Seconds that it took in the runs in which it was seen.
        all_weights: Bytes of the weights of its model, rounded up to a power of two.
    """

    key: str
    family: str
    node: onnx.NodeProto = field(repr=False)
    operands: tuple[Operand | None, ...] = field(repr=False)
    results: tuple[Operand, ...] = field(repr=False)
    opsets: tuple[onnx.OperatorSetIdProto, ...] = field(repr=False)
    seen: float
    all_weights: float

    @property
    def flops(self) -> float:
        """Floating-point operations: none are counted."""
        return 0.0

    @property
    def bytes(self) -> float:
        """Bytes that it reads and writes."""
        return sum(each.bytes for each in (*self.operands, *self.results) if each is not None)

    def copies(self, runtime: str) -> tuple[onnx.ModelProto, int]:
        """Return a model that computes it as often as it takes to be seen, and how often that is.

        Where it can, each copy takes what the copy before it gives, as nodes of networks mostly do.
        """
        weights = _weights(self.operands)
        first = next(place for place, name in enumerate(self.node.output) if name)
        chained = next((place for place, each in enumerate(self.operands) if each == self.results[0]), None)
        results = 0.0 if chained is not None else sum(each.bytes for each in self.results)
        count = copies_of(self.seen / _FASTER, weights, results, self.all_weights)
        graph = onnx.GraphProto(name="kernel")
        for place, each in enumerate(self.operands):
            if each is not None and each.value is None:
                element = helper.np_dtype_to_tensor_dtype(np.dtype(each.dtype))
                graph.input.append(helper.make_tensor_value_info(f"x{place}", element, each.shape))
        for copy in range(count):
            node = graph.node.add()
            node.CopyFrom(self.node)
            node.name = ""
            node.output[:] = [name and f"y{place}/{copy}" for place, name in enumerate(self.node.output)]
            node.input[:] = [
                "" if each is None else f"x{place}" if each.value is None else f"w{place}/{copy}"
                for place, each in enumerate(self.operands)
            ]
            if copy and chained is not None:
                node.input[chained] = f"y{first}/{copy - 1}"
            for name, each in zip(node.input, self.operands, strict=True):
                if each is not None and each.value is not None:
                    graph.initializer.append(weights_of_copy(each.value, name, copy))
        model = helper.make_model(graph, opset_imports=self.opsets, ir_version=IR_VERSION)
        return with_output(model), count


@dataclass(frozen=True)
class Lowered:
    """What onnxruntime runs of a model.

    Attributes:
        kernels: Its kernels by key, and how often each runs.
        rest: Seconds that nodes took which are no kernels, such as those of texts, in the runs in which they were seen.
        nodes: How often any node runs.
    """

    kernels: Mapping[str, tuple[NodeKernel, float]]
    rest: float
    nodes: float

    def seconds(self, profile: Profile) -> float:
        """Return what all nodes take together; what could not be measured takes what it did when it was seen."""
        total = self.rest + self.nodes * (profile.change or 0.0)
        for key, (kernel, runs) in self.kernels.items():
            entry = profile.entries.get(key)
            total += runs * (kernel.seen if entry is None or entry.seconds is None else entry.seconds)
        return total


def predicted_as_run(models: Sequence[Given], feed: Mapping[str, Any], profile: Profile) -> list[float | None]:
    """Return the seconds that models take by the nodes that the runtime runs of them.

    A model has None if it does not run, and all have where the runtime does not tell what its optimizer makes of them,
    or the optimizer is off.

    Args:
        models: The models.
        feed: What they take, by name of the input.
        profile: What kernels take; those that it does not have are measured and added.

    Raises:
        ModelError: A model cannot be written, or the runtime is missing or does not start.
    """
    if profile.setup.runtime != "onnxruntime" or profile.setup.level == "off":
        return [None] * len(models)
    found = [lowered(model, feed, profile.setup) for model in models]
    kernels = {key: kernel for each in found if each is not None for key, (kernel, _) in each.kernels.items()}
    calibrate(profile, kernels.values(), level="off")
    return [None if each is None else each.seconds(profile) for each in found]


def lowered(model: Given, feed: Mapping[str, Any], setup: Setup) -> Lowered | None:
    """Return what onnxruntime runs of a model; None where it does not run.

    Args:
        model: The model.
        feed: What it takes, by name of the input.
        setup: How it runs.

    Raises:
        ModelError: The model cannot be written.
    """
    with scratch_folder() as folder:
        save_to_run(model, folder / "model.onnx")
        request = {
            "model": str(folder / "model.onnx"),
            "threads": setup.threads,
            "level": setup.level,
            "feeds": str(save_feed(feed, folder)),
            "folder": str(folder),
        }
        ran = next((said["nodes"] for said in answers("lowering", request) if "nodes" in said), None)
        if ran is None:
            return None
        integers = dict(np.load(folder / "integers.npz"))
        return _lowered(onnx.load(folder / "optimized.onnx"), ran, {**feed, **integers})


def _lowered(model: onnx.ModelProto, ran: Mapping[str, Any], values: Mapping[str, Any]) -> Lowered:
    graphs = list(graphs_of(model.graph))
    nodes = {node.name: node for graph in graphs for node in graph.node if node.name in ran}
    known = {
        value.name: operand for graph in graphs for value in graph.input if (operand := _declared(value)) is not None
    }
    known |= {name: operand for name, each in values.items() if (operand := _held(name, np.asarray(each))) is not None}
    for name, node in nodes.items():
        made, results = [each for each in node.output if each], ran[name]["results"]
        if len(made) == len(results):
            types = {each: Operand(dtype, tuple(shape)) for each, (dtype, shape) in zip(made, results, strict=True)}
            known = types | known
    for value in (value for graph in graphs for value in graph.initializer):
        if (dtype := helper.tensor_dtype_to_np_dtype(value.data_type).name) in DTYPES.values():
            held = onnx.TensorProto(data_type=value.data_type, dims=value.dims) if is_drawn(value) else value
            known[value.name] = Operand(dtype, tuple(value.dims), held, is_constant=True)
    opsets = tuple(model.opset_import)
    all_weights = 2.0 ** math.ceil(math.log2(max(1.0, _weights(known.values()))))
    kernels: dict[str, NodeKernel] = {}
    runs: Counter[str] = Counter()
    rest = 0.0
    for name, node in nodes.items():
        kernel = _kernel(node, known, opsets, ran[name]["seconds"], all_weights)
        if kernel is not None:
            kernels.setdefault(kernel.key, kernel)
            runs[kernel.key] += ran[name]["runs"]
        elif not bodies_of(node):  # what bodies take is what their nodes take
            rest += ran[name]["runs"] * ran[name]["seconds"]
    every = sum(ran[name]["runs"] for name in nodes)
    return Lowered({key: (kernel, runs[key]) for key, kernel in kernels.items()}, rest, every)


def _declared(value: onnx.ValueInfoProto) -> Operand | None:
    """An input of a body, if its sizes are told."""
    ty = value.type.tensor_type
    sizes = tuple([dim.dim_value for dim in ty.shape.dim])
    if not ty.HasField("shape") or 0 in sizes or ty.elem_type == onnx.TensorProto.UNDEFINED:
        return None
    dtype = helper.tensor_dtype_to_np_dtype(ty.elem_type).name
    return Operand(dtype, sizes) if dtype in DTYPES.values() else None


def _held(name: str, array: NDArray[Any]) -> Operand | None:
    """An input of a model, or integers that its nodes compute."""
    if array.dtype.name not in DTYPES.values():
        return None
    told = array.dtype.kind in "iub" and array.size <= MOST_TOLD
    return Operand(array.dtype.name, array.shape, numpy_helper.from_array(array, name) if told else None)


def _kernel(
    node: onnx.NodeProto,
    known: Mapping[str, Operand],
    opsets: tuple[onnx.OperatorSetIdProto, ...],
    seen: float,
    all_weights: float,
) -> NodeKernel | None:
    """A node as a kernel, None where it is none that can be measured by itself."""
    operands = tuple([known.get(name) for name in node.input])
    results = tuple([known[name] for name in node.output if name in known])
    if bodies_of(node) or not results or any(name and name not in known for name in (*node.input, *node.output)):
        return None
    attributes = sorted(map(helper.printable_attribute, node.attribute))
    version = next(each.version for each in opsets if each.domain == node.domain)
    taken = ", ".join("" if each is None else str(each) for each in operands)
    family = f"{node.domain or 'ai.onnx'}.{node.op_type}"
    key = f"{family} {version}({taken}){{{', '.join(attributes)}}}"
    if are_fewer(_weights(operands), all_weights):
        key += f" among weights of {all_weights:.0f} bytes"
    kernel = NodeKernel(key, family, node, operands, results, opsets, seen, all_weights)
    return kernel if kernel.bytes <= MOST_BYTES else None


def _weights(operands: Iterable[Operand | None]) -> float:
    """The bytes of the constants among operands."""
    return sum(each.bytes for each in operands if each is not None and each.is_constant)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]
