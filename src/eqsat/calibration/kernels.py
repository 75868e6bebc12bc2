"""What is measured: a kernel, which is what one written node or one composite of the runtime computes.

A kernel is known by its key, a text that says operators, attributes, types, and which inputs are constants.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import onnx
import onnx_ir as ir

from eqsat.calibration.copies import (
    LAUNCH,
    NEEDED_ONLY,
    add_nodes,
    copies_gathered,
    copies_of,
    weights_of_copy,
    with_output,
)
from eqsat.calibration.gathered import gathered
from eqsat.cost import CostNode
from eqsat.cost.models import byte_count, flops, moved_bytes
from eqsat.cost.stand_ins import stand_ins
from eqsat.errors import EqsatError, ModelError
from eqsat.onnx.exporter import export_model
from eqsat.onnx.files import to_proto
from eqsat.onnx.imported import Imported
from eqsat.onnx.types import DTYPES, element_type
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem, Var
from eqsat.relay.fold import nbytes
from eqsat.relay.infer import infer_types
from eqsat.relay.results import body_of, results_of
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import post_order, substitute

OPSET = 21
"""The opset that kernels are written in where no other is told: the newest of the oldest supported onnxruntime.

A runtime may have other code for other versions of an operator: onnxruntime's average pools take several times as long
since opset 19.
"""

IR_VERSION = 10
"""That of the first onnx package with this opset."""

DOMAINS = {"": OPSET, "com.microsoft": 1, "ai.onnx.ml": 3}

VERSION = " @"
"""What is in the key of a kernel before the opset, if it is another one."""

_FLOPS, _BYTES = 1e12, 2e11
"""Operations and bytes in a second, of a fast processor."""

MOST_BYTES = 1 << 29
"""Bytes of all tensors of a kernel up to which it is measured."""


@dataclass(frozen=True)
class Kernel:
    """What is measured.

    Attributes:
        key: Equal for equal kernels.
        family: Names of the operators; kernels of one family differ in sizes and attributes.
        graph: What it computes, over variables and constants.
        seen: What cost models see of it, also the opset that it is written in.
    """

    key: str
    family: str
    graph: Expr
    seen: CostNode

    @property
    def flops(self) -> float:
        """Its floating-point operations."""
        return flops(self.seen)

    @property
    def bytes(self) -> float:
        """The bytes that it reads and writes."""
        return moved_bytes(self.seen)

    def copies(self, runtime: str) -> tuple[onnx.ModelProto, int]:
        """Return a model that computes it as often as it takes to be seen in a runtime, and how often that is.

        Raises:
            ModelError: It cannot be written.
        """
        weights, least = constant_bytes(self), _least_seconds(self.seen)
        if runtime in NEEDED_ONLY:
            count = copies_gathered(least, weights, self.bytes - weights)
            return gathered([written_model(self)] * count), count
        count = copies_of(least, weights, 0.0 if is_overwriting(self) else byte_count(self.seen.type))
        return kernel_model(self, count), count

    @property
    def opset(self) -> int:
        """The version of the standard operators that it is written in."""
        return self.seen.version or OPSET


@lru_cache(maxsize=1 << 14)
def _single(node: CostNode) -> Kernel | None:
    op = Op.find(node.op)
    if op is None or not all(map(_is_measurable, node.arg_types)):
        return None
    arguments = stand_ins(node, {})
    definition = getattr(node.attrs["node"], "definition", None) if _is_foreign(node) and node.attrs else None
    if definition is not None:  # what it computes may depend on values
        given = [each for each in definition.inputs if each is not None]
        arguments = [
            each if isinstance(each, Constant) else stand for each, stand in zip(given, arguments, strict=True)
        ]
    return _described(Call(op, arguments, node.attrs), node, told=False)


def _is_foreign(node: CostNode) -> bool:
    """Whether it is an operator of the runtime's own, which is written as it is."""
    op = Op.find(node.op)
    return op is not None and op.has(Trait.FOREIGN)


def kernel_of(node: CostNode) -> Kernel | None:
    """Return the kernel that computes what a cost model sees of a node; None where it cannot be told or made.

    So it is where a size is not known, an operator or element type is none of ONNX, or it holds too many bytes.
    """
    if node.graph is not None:
        return _described(node.graph, node, told=True)
    return None if node.body and not _is_foreign(node) else _single(node)


def _is_measurable(ty: Type | None) -> bool:
    """Whether ``ty`` is that of tensors of known shapes that ONNX has, too."""
    if isinstance(ty, TupleType):
        return all(map(_is_measurable, ty.fields))
    return is_static(ty) and ty.dtype in DTYPES.values()


def _described(graph: Expr, seen: CostNode, told: bool) -> Kernel | None:
    """The kernel of a graph; ``told``: what its scalars are is known."""
    names: dict[Expr, str] = {}
    lines: list[str] = []
    operators: list[str] = []
    held, inputs = 0.0, 0
    for node in post_order(graph):
        if isinstance(node, Var):
            ty = node.type_annotation
            if not isinstance(ty, TensorType) or not _is_measurable(ty):
                return None
            held, inputs = held + nbytes(ty), inputs + 1
            names[node] = f"x{inputs} {ty.dtype}{[*ty.concrete_shape]}"
        elif isinstance(node, Constant):
            data = node.data
            held += nbytes(TensorType(data.shape, data.dtype))
            value = f"={data.numpy().reshape(-1)[0]:.6g}" if told and data.size == 1 and data.dtype != "bool" else ""
            names[node] = f"const {data.dtype}{[*data.shape]}{value}"
        elif isinstance(node, Tuple):
            names[node] = f"({', '.join(names[field] for field in node.fields)})"
        elif isinstance(node, TupleGetItem):
            names[node] = f"{names[node.tuple_value]}.{node.index}"
        elif isinstance(node, Call) and isinstance(node.op, Op):
            operators.append(node.op.name)
            names[node] = f"%{len(lines)}"
            said = ", ".join(f"{name}={value!r}" for name, value in sorted((node.attrs or {}).items()))
            lines.append(f"{node.op.name}({', '.join(names[arg] for arg in node.args)}){{{said}}}")
        elif not isinstance(node, Op):
            return None
    if not lines or held > MOST_BYTES:
        return None
    if not isinstance(graph, Call):
        lines.append(names[graph])
    if seen.version not in (None, OPSET):
        lines[-1] += f"{VERSION}{seen.version}"
    return Kernel("; ".join(lines), "+".join(operators), graph, seen)


# ---- as models


def _least_seconds(node: CostNode) -> float:
    """Seconds that a kernel takes at least: what it computes and writes, on a fast processor."""
    return LAUNCH + max(flops(node) / _FLOPS, byte_count(node.type) / _BYTES)


def constant_bytes(kernel: Kernel) -> float:
    """Return the bytes of the constants that a kernel takes."""
    data = [node.data for node in post_order(kernel.graph) if isinstance(node, Constant)]
    return sum(nbytes(TensorType(each.shape, each.dtype)) for each in data)


def kernel_model(kernel: Kernel, copies: int = 1) -> onnx.ModelProto:
    """Return an ONNX model that computes a kernel several times.

    All copies take the same inputs, and each has weights of its own, as the nodes of a model have. Only an elementwise
    kernel takes what the copy before it computed, which the runtime overwrites, as it does in most networks. What the
    copies compute is no output, which would be copied: the output is an input.

    Raises:
        ModelError: It cannot be written.
    """
    try:
        single = written_model(kernel)
    except EqsatError:
        raise
    except Exception as error:  # attributes and stand-ins that no model has together
        raise ModelError(f"{kernel.family} cannot be written: {error}") from None
    graph = single.graph
    made = {name for node in graph.node for name in node.output if name}
    nodes, initializers = list(graph.node), list(graph.initializer)
    weights = {value.name for value in initializers}
    same = [value.name for value in graph.input if value.type == graph.output[0].type]
    overwritten = same[0] if same and is_overwriting(kernel) else None
    before = result = graph.output[0].name
    for copy in range(1, copies):
        new = {name: f"{name}/{copy}" for name in (*made, *weights)}
        if overwritten is not None:
            new[overwritten], before = before, new[result]
        for value in initializers:
            graph.initializer.append(weights_of_copy(value, new[value.name], copy))
        add_nodes(graph, nodes, new)
    for value in list(graph.initializer)[: len(initializers)]:
        value.CopyFrom(weights_of_copy(value, value.name, 0))
    del graph.output[:]
    return with_output(single)


def is_overwriting(kernel: Kernel) -> bool:
    """Tell whether a kernel's result can take the place of one of its inputs."""
    nodes = post_order(kernel.graph)
    calls = [node for node in nodes if isinstance(node, Call)]
    given = [node.type_annotation for node in nodes if isinstance(node, Var)]
    return kernel.seen.type in given and all(
        isinstance(node.op, Op) and node.op.has(Trait.ELEMENTWISE) for node in calls
    )


def written_model(kernel: Kernel) -> onnx.ModelProto:
    """Return an ONNX model that computes a kernel once.

    Raises:
        ModelError: It gives what is no tensor of known shape.
    """
    return model_of(_with_exponents(kernel.graph), kernel.opset)


def model_of(graph: Expr, opset: int = OPSET) -> onnx.ModelProto:
    """Return an ONNX model of a graph over variables, which become its inputs.

    Args:
        graph: The graph.
        opset: The version of the standard operators.

    Raises:
        ModelError: It gives what is no tensor of known shape.
    """
    params = [node for node in post_order(graph) if isinstance(node, Var)]
    named = [Var(f"x{number}", node.type_annotation) for number, node in enumerate(params)]
    new: dict[Expr, Expr] = dict(zip(params, named, strict=True))
    body = substitute(graph, new)
    types = infer_types(body)
    ty = types[body]
    results = results_of(body, ty)
    tensors = list(ty.fields) if isinstance(ty, TupleType) else [ty]
    inputs = [_value(node.name_hint, node.type_annotation) for node in named]
    outputs = [_value(f"y{number}", each) for number, each in enumerate(tensors)]
    made = ir.Node("", "Identity", inputs[:1], outputs=outputs)  # an output is what a node makes
    source = ir.Graph(inputs, outputs, nodes=[made], opset_imports=DOMAINS | {"": opset}, name="kernel")
    model = ir.Model(source, ir_version=IR_VERSION)
    names = Counter([value.name or "" for value in (*inputs, *outputs)])
    function = Function(named, body_of(results))
    written: onnx.ModelProto = to_proto(export_model(function, Imported(model, source, function, names)))
    return written


def _with_exponents(graph: Expr) -> Expr:
    """A power of an exponent that is not known as a square: others take many times as long, and are rare."""
    if not isinstance(graph, Call) or not isinstance(graph.op, Op) or graph.op.name != "power":
        return graph
    base, exponent = graph.args
    if not isinstance(exponent, Constant) or exponent.data.size != 1:
        return graph
    return Call(graph.op, [base, Constant(np.full(exponent.data.shape, 2, exponent.data.dtype))], graph.attrs)


def _value(name: str, ty: Type | None) -> ir.Value:
    if not isinstance(ty, TensorType) or not is_static(ty):
        raise ModelError("it gives what is no tensor of known shape")
    return ir.Value(name=name, type=ir.TensorType(element_type(ty.dtype)), shape=ir.Shape(ty.concrete_shape))
