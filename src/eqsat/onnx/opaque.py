"""Opaque operators: nodes that pass through the e-graph unchanged.

Every ONNX operator that is not understood becomes an operator of the IR named ``onnx.<domain>.<type>``. Its one
attribute holds the node; its arguments are the node's inputs that are there, followed by the values that its subgraphs
take from outside. What ONNX's reference implementation computes of it is computed: small constants are folded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir
from onnx import checker, defs, numpy_helper, shape_inference

from eqsat.egraph.vocabulary import WIDEST_TUPLE
from eqsat.errors import EqsatError, EvaluationError, ModelError
from eqsat.onnx import contrib
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, exports
from eqsat.onnx.definition import Definition
from eqsat.onnx.graphs import attributes_of, captured_values, nodes_of, subgraphs
from eqsat.onnx.imported import opset_of
from eqsat.onnx.reference import MOST_ELEMENTS, compute, one_node_model
from eqsat.onnx.types import result_type, type_of_proto, type_proto
from eqsat.onnx.zeros import is_zero
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.fold import is_folded
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.traits import Trait
from eqsat.relay.ty import UNKNOWN, Type

T = TypeVar("T")

RANDOM = frozenset(
    ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
_STATED_VALUES = 1024
"""Maximum number of elements of a constant input whose value is passed to ONNX's shape inference."""


@dataclass(frozen=True, eq=False)
class OpaqueNode:
    """All data of an opaque operator's node except its inputs.

    Two are equal, and their nodes the same computation, when operator, attributes and output types are.
    Random operators, operators outside the ONNX standard and such with subgraphs equal only themselves.

    Args:
        node: the node as it was read.
        attributes: its attributes, those that hold subgraphs perhaps replaced.
        captured: values that its subgraphs take from outside, in order of first use.
        types: the types of its outputs.
        opset: version of the operators of its domain.
        given: which of its inputs are not left out.
        is_known: whether its operator is one whose outputs follow from inputs and attributes.
        definition: what it computes, where that is known.
    """

    node: ir.Node
    attributes: Sequence[ir.Attr]
    captured: Sequence[ir.Value]
    types: tuple[Type, ...]
    opset: int
    given: tuple[bool, ...]
    is_known: bool
    definition: Definition | None

    @cached_property
    def is_pure(self) -> bool:
        """Whether the outputs depend only on inputs and attributes."""
        node = self.node
        plain = all(attr.type in PLAIN and not attr.is_ref() for attr in node.attributes.values())
        return plain and self.is_known and not node.device_configurations

    @cached_property
    def _key(self) -> object:
        if not self.is_pure:
            return id(self)
        node = self.node
        attributes = tuple((name, node.attributes[name].value) for name in sorted(node.attributes))
        definition = None if self.definition is None else self.definition.key
        return (node.domain, node.op_type, repr(attributes), self.given, self.types, definition)

    @property
    def is_wide(self) -> bool:
        """Whether it has more arguments than e-nodes of tuples: then its call has one, the tuple of them."""
        return sum(self.given) + len(self.captured) > WIDEST_TUPLE

    def placed(self, arguments: Sequence[T]) -> list[T | None]:
        """The arguments at the places of the inputs they are, None for those left out."""
        present = iter(arguments)
        return [next(present) if given else None for given in self.given]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueNode) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        said = [f"{name}={attr.value!r}" for name, attr in sorted(self.node.attributes.items()) if attr.type in PLAIN]
        return f"OpaqueNode({', '.join([self.node.op_type, *said])})"


_STANDARD = ("", "ai.onnx.ml")
PLAIN = (
    ir.AttributeType.INT,
    ir.AttributeType.INTS,
    ir.AttributeType.FLOAT,
    ir.AttributeType.FLOATS,
    ir.AttributeType.STRING,
    ir.AttributeType.STRINGS,
)


def opaque_call(
    node: ir.Node,
    attributes: Sequence[ir.Attr],
    values: dict[ir.Value, Expr],
    types: dict[Expr, Type],
    model: ir.Model,
    stated: Sequence[Type] | None = None,
    definition: Definition | None = None,
) -> Call:
    """The call that stands for ``node``.

    Args:
        node: the node.
        attributes: its attributes, those that hold subgraphs perhaps replaced.
        values: the expression of each value known so far.
        types: the type of each of these expressions.
        model: where the node is from.
        stated: the types of its outputs; by default what ONNX infers.
        definition: what it computes, where that is known.
    """
    captured = captured_values(attributes)
    given = [
        value is not None and not _is_needless(node, index, values[value]) for index, value in enumerate(node.inputs)
    ]
    inputs = [values[value] for value, taken in zip(node.inputs, given, strict=True) if value is not None and taken]
    opset = opset_of(model) if node.domain == "" else model.opset_imports.get(node.domain, 1)
    found = _output_types(node, values, types, model) if stated is None else stated
    if definition is not None:
        found = [ty or other for ty, other in zip(definition.types, found, strict=True)]
    is_known = definition is not None or _is_known(node, model)
    opaque = OpaqueNode(node, attributes, captured, tuple(found), opset, tuple(given), is_known, definition)
    arguments = [*inputs, *(values[value] for value in captured)]
    return Call(
        operator_of(node.domain, node.op_type, node.overload),
        [Tuple(arguments)] if opaque.is_wide else arguments,
        {"node": opaque},
    )


def _is_known(node: ir.Node, model: ir.Model) -> bool:
    if node.domain in _STANDARD:
        return node.op_type not in RANDOM
    return contrib.is_known(node) and node.op_identifier() not in model.functions


def operator_of(domain: str, op_type: str, overload: str = "") -> Op:
    """Return the operator that stands for nodes of a type."""
    name = ".".join(filter(None, ("onnx", domain, op_type, overload)))
    if Op.find(name) is None:
        is_quantization = op_type.endswith("QuantizeLinear")
        define(
            name,
            None,
            Field("node"),
            infer=lambda attrs, args: result_type(list(attrs.node.types)),
            kernel=lambda attrs, *arrays: _computed(attrs.node, arrays),
            outputs=lambda attrs: len(attrs.node.types),
            kind=OpPattern.OPAQUE,
            traits=Trait.FOREIGN
            | (Trait.NON_COMPUTATIONAL if is_quantization else Trait.NONE)
            | (Trait.STATEFUL if op_type in RANDOM else Trait.NONE),
        )
        exports(name)(_to_node)
    return Op.get(name)


def constant_outputs(call: Call) -> list[Constant] | None:
    """The outputs of an opaque call over small constants; None when they are not known."""
    opaque: OpaqueNode = attributes(call).node
    constants = [arg.data for arg in call.args if isinstance(arg, Constant)]
    foldable = isinstance(call.op, Op) and is_folded(call.op) and len(constants) == len(call.args)
    if not foldable or not is_small(opaque, [data.size for data in constants]):
        return None
    try:
        return list(map(Constant, small_outputs(opaque, [data.numpy() for data in constants])))
    except EqsatError:
        return None


def is_small(opaque: OpaqueNode, sizes: Iterable[int]) -> bool:
    """Return whether a node over constants of these sizes may be computed in this process."""
    return opaque.is_pure and sum(sizes) <= MOST_ELEMENTS


def small_outputs(opaque: OpaqueNode, arrays: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a node, by its definition or by the reference implementation.

    Raises:
        EqsatError: It is too large for that, or fails.
    """
    if opaque.definition is not None:
        return opaque.definition.compute(opaque.placed(arrays))
    return compute(opaque.node, opaque.placed(arrays), opaque.opset)


def _computed(opaque: OpaqueNode, arrays: Sequence[Any]) -> Any:
    if not opaque.is_pure:
        raise EvaluationError(f"what {opaque.node.op_type} computes does not depend only on its inputs")
    if opaque.is_wide:
        (arrays,) = arrays
    outputs = tuple(small_outputs(opaque, arrays))
    return outputs if len(outputs) > 1 else outputs[0]


# ---- initial states of recurrent operators that are zero: the same as none

_STATES = {
    ("", "LSTM"): (5, 6),
    ("", "GRU"): (5,),
    ("", "RNN"): (5,),
    (contrib.DOMAIN, "DynamicQuantizeLSTM"): (5, 6),
}
"""Domain and operator -> the inputs that are zero if they are left out, according to the specification."""


def _is_needless(node: ir.Node, index: int, value: Expr) -> bool:
    """Whether a node computes the same without its input ``index``, which is ``value``."""
    return index in _STATES.get((node.domain, node.op_type), ()) and is_zero(value)


# ---- writing

_OPTIONAL_OUTPUTS = {
    (contrib.DOMAIN, "GroupQueryAttention"),
    (contrib.DOMAIN, "SkipLayerNormalization"),
    (contrib.DOMAIN, "SkipSimplifiedLayerNormalization"),
}
"""Operators that are faster without their unused outputs."""


def _to_node(call: Call, target: Target) -> OnnxNode:
    opaque: OpaqueNode = attributes(call).node
    node = opaque.node
    arguments = arguments_of(call)
    count = sum(opaque.given)
    return OnnxNode(
        node.op_type,
        opaque.placed(arguments[:count]),
        lambda captured: attributes_over(opaque, captured),
        domain=node.domain,
        overload=node.overload,
        outputs=len(node.outputs),
        optional_outputs=len(node.outputs) > 1 and (node.domain, node.op_type) in _OPTIONAL_OUTPUTS,
        captured=arguments[count:],
    )


def arguments_of(call: Call) -> Sequence[Expr]:
    """The inputs of an opaque call that are there, then what its subgraphs take from outside."""
    opaque: OpaqueNode = attributes(call).node
    if not opaque.is_wide:
        return call.args
    (whole,) = call.args
    places = range(sum(opaque.given) + len(opaque.captured))
    return whole.fields if isinstance(whole, Tuple) else [TupleGetItem(whole, place) for place in places]


def attributes_over(opaque: OpaqueNode, captured: Sequence[ir.Value]) -> list[ir.Attr]:
    """The attributes of an opaque node, with copies of its subgraphs that take ``captured`` from outside."""
    new = dict(zip(opaque.captured, captured, strict=True))
    return [map_graphs(attr, lambda graph: _copy_graph(graph, new)) for attr in opaque.attributes]


def map_graphs(attr: ir.Attr, change: Callable[[ir.Graph], ir.Graph]) -> ir.Attr:
    """``attr`` if it holds no subgraph, else one that holds what ``change`` makes of them."""
    if attr.is_ref() or attr.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return attr
    if attr.type == ir.AttributeType.GRAPH:
        return ir.Attr(attr.name, attr.type, change(attr.as_graph()), doc_string=attr.doc_string)
    return ir.Attr(attr.name, attr.type, list(map(change, attr.as_graphs())), doc_string=attr.doc_string)


def _copy_graph(graph: ir.Graph, new: dict[ir.Value, ir.Value]) -> ir.Graph:
    """A copy of a subgraph, over the values that ``new`` gives for those from outside."""
    copy = graph.clone(allow_outer_scope_values=True)
    for node in copy.all_nodes():
        for index, value in enumerate(node.inputs):
            if value in new:
                node.replace_input_with(index, new[value])
    return copy


# ---- output types, by ONNX's own inference


def _output_types(node: ir.Node, values: dict[ir.Value, Expr], types: dict[Expr, Type], model: ir.Model) -> list[Type]:
    """Return the types that ONNX infers from the types of the inputs; declarations of the model are not trusted."""
    unknown: list[Type] = [UNKNOWN] * len(node.outputs)
    if node.domain == contrib.DOMAIN and node.op_identifier() not in model.functions:
        return contrib.contrib_types(node, [None if value is None else types[values[value]] for value in node.inputs])
    if node.domain != "" or node.op_identifier() in model.functions:
        return unknown
    outputs = [f"output {index}" for index in range(len(node.outputs))]
    has_subgraphs = any(True for _ in subgraphs(attributes_of(node)))
    taken = [value for value in (*node.inputs, *captured_values(attributes_of(node))) if value is not None]
    protos = {value.name: proto for value in taken if (proto := type_proto(types[values[value]])) is not None}
    if len(protos) < len({value.name for value in taken}) and not has_subgraphs:
        return unknown
    inner = nodes_of(*subgraphs(attributes_of(node)))
    if any(each.op_type == "Einsum" and not _has_equation(each) for each in (node, *inner)):
        return unknown
    try:
        constants = {value.name: _stated_value(values[value], value.name) for value in taken}
        stated = {name: tensor for name, tensor in constants.items() if tensor is not None}
        proto = ir.to_proto(node)
        proto.output[:] = outputs  # some may be left out
        found = _infer(proto, protos, stated, model)
    except _UNINFERABLE:
        return unknown
    names = {dim.dim_param for proto in protos.values() for dim in proto.tensor_type.shape.dim} - {""}
    return [type_of_proto(found[name], names) if name in found else UNKNOWN for name in outputs]


_EQUATION = re.compile(r"({0}(,{0})*)?(->{0})?".format(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"))


def _has_equation(node: ir.Node) -> bool:
    """Return whether the equation of an Einsum is valid; ONNX's inference does not terminate on some others."""
    attr = node.attributes.get("equation")
    equation = None if attr is None else attr.value  # bytes where it is not in UTF-8
    return isinstance(equation, str) and _EQUATION.fullmatch(equation.replace(" ", "")) is not None


_UNINFERABLE = (
    ModelError,  # a constant that cannot be read
    defs.SchemaError,
    checker.ValidationError,
    shape_inference.InferenceError,
    ValueError,
    RuntimeError,
    NotImplementedError,
)
"""Exceptions that inference raises on operators it does not know, and on invalid nodes."""


def _infer(node: Any, inputs: dict[str, Any], constants: dict[str, Any], model: ir.Model) -> dict[str, Any]:
    """Return the types that ONNX infers from a graph of one node."""
    whole = one_node_model(node, inputs, model.opset_imports, constants.values(), ir_version=model.ir_version)
    return {value.name: value.type for value in shape_inference.infer_shapes(whole).graph.output}


def _stated_value(expr: Expr, name: str) -> Any:
    if not isinstance(expr, Constant) or expr.data.size > _STATED_VALUES:
        return None
    return numpy_helper.from_array(np.asarray(expr.data.numpy()), name)
