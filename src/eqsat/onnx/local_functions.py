"""Composite functions as ONNX local functions.

A call of a composite becomes one node in the domain of its target; what it computes becomes a function of the
model, so that any runtime can run the model, and a runtime of the target can take the node as a whole. Composites
that compute the same are one function, whatever their shapes and weights: weights are inputs of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir

from eqsat.errors import ModelError
from eqsat.onnx.converters import OnnxNode
from eqsat.onnx.exporter import export_model
from eqsat.onnx.imported import INITIALIZERS_ARE_INPUTS, Imported
from eqsat.onnx.initializers import name_counts
from eqsat.onnx.provenance import Provenance, without_provenance
from eqsat.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from eqsat.relay.infer import infer_types
from eqsat.relay.ty import TupleType, Type
from eqsat.relay.visitor import post_order, substitute

COMPOSITE = "Composite"

FIRST_IR_VERSION = 8
"""The first IR version in which models have functions."""

SETTING_BYTES = 64
"""Size up to which integers inside composites are axes, shapes and the like, and stay there."""


def export_partitioned(
    function: Function, imported: Imported, target: str, provenance: Provenance | None = None
) -> ir.Model:
    """``function`` as a model whose composites are nodes of the domain ``target``, with a local function each.

    Args:
        function: a partitioned graph: calls of function literals that have the attribute ``Composite``.
        imported: the model it comes from, as for :func:`export_model`.
        target: the domain. A composite named ``target.x`` becomes a function ``x``.
        provenance: writes into nodes where they are from; those of the functions, which several may call, do not say.

    Raises:
        ModelError: an operator has no ONNX form in the model's opset, or a function literal is not a composite.
    """
    functions = _LocalFunctions(imported, target)
    for node in post_order(function.body):  # named in the order of the data flow
        if isinstance(node, Call) and isinstance(node.op, Function):
            functions.add(node.op)
    model = export_model(function, imported, functions.node, provenance)
    if provenance is None:
        without_provenance(model)
    else:
        provenance.complete(model)
    if not functions.made:
        return model
    if model.ir_version <= INITIALIZERS_ARE_INPUTS:
        inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
        model.graph.inputs[:] = inputs
    model.ir_version = max(model.ir_version or 0, FIRST_IR_VERSION)
    model.opset_imports[target] = 1
    for local in functions.made.values():
        model.functions[local.identifier()] = local
    return model


class _Known(NamedTuple):
    """The written form of calls of a composite: the name of its local function, its inputs and its outputs."""

    name: str
    types: Sequence[Type | None]
    weights: Sequence[Constant]
    outputs: int


class _LocalFunctions:
    """The local functions of one model; ``made`` holds them by what they compute."""

    def __init__(self, imported: Imported, target: str):
        self.imported = imported
        self.target = target
        self.made: dict[bytes, ir.Function] = {}
        self.taken = {name for domain, name, _ in imported.model.functions if domain == target}
        self.counts = Counter[str]()
        self.known: dict[Function, _Known] = {}

    def add(self, function: Expr) -> _Known:
        """The local function of a composite, new or known."""
        if not isinstance(function, Function) or COMPOSITE not in function.attrs:
            raise ModelError("cannot write a function literal to ONNX: it is not a composite")
        if function not in self.known:
            self.known[function] = self._made(function)
        return self.known[function]

    def node(self, call: Call) -> OnnxNode:
        """Return the written form of a call of a composite."""
        known = self.add(call.op)
        inputs = [part for arg, ty in zip(call.args, known.types, strict=True) for part in _parts(arg, ty)]
        return OnnxNode(known.name, [*inputs, *known.weights], domain=self.target, outputs=known.outputs)

    def _made(self, function: Function) -> _Known:
        flat, weights = _flat(function)
        graph = self._graph(flat)
        _forget_origins(graph)
        bare = ir.Function(self.target, "", graph=graph, attributes=[])
        key = ir.to_proto(bare).SerializeToString(deterministic=True)
        if key not in self.made:
            self.made[key] = ir.Function(self.target, self._name(function), graph=graph, attributes=[])
        types = [param.type_annotation for param in function.params]
        return _Known(self.made[key].name, types, weights, len(graph.outputs))

    def _name(self, function: Function) -> str:
        base = str(function.attrs[COMPOSITE]).removeprefix(f"{self.target}.")
        name = base
        while name in self.taken:
            self.counts[base] += 1
            name = f"{base}_{self.counts[base] + 1}"
        self.taken.add(name)
        return name

    def _graph(self, flat: Function) -> ir.Graph:
        """The graph of a function whose parameters are tensors; constants are nodes, as functions have no weights."""
        body_type = infer_types(flat)[flat.body]
        count = len(body_type.fields) if isinstance(body_type, TupleType) else 1
        inputs = [ir.Value(name=param.name_hint) for param in flat.params]
        outputs = [ir.Value(name=f"y{index}") for index in range(count)]
        shell = ir.Graph(
            inputs,
            outputs,
            nodes=[ir.Node(self.target, "Whole", inputs, outputs=outputs)],
            opset_imports=dict(self.imported.model.opset_imports),
        )
        model = ir.Model(shell, ir_version=FIRST_IR_VERSION)
        imported = Imported(model, shell, flat, name_counts(model), tensors=self.imported.tensors)
        graph = export_model(flat, imported).graph
        first = next(iter(graph), None)
        for value in list(graph.initializers.values()):
            constant = ir.node("Constant", [], {"value": value.const_value})
            value.replace_all_uses_with(constant.outputs[0])
            graph.insert_before(first, constant) if first is not None else graph.append(constant)
        graph.initializers.clear()
        return graph


def _parts(arg: Expr, ty: Type | None) -> Sequence[Expr]:
    """The tensors that an argument consists of."""
    if not isinstance(ty, TupleType):
        return [arg]
    return arg.fields if isinstance(arg, Tuple) else [TupleGetItem(arg, index) for index in range(len(ty.fields))]


def _flat(function: Function) -> tuple[Function, list[Constant]]:
    """The function with a parameter for each tensor, and for each weight inside; the weights."""
    new: dict[Expr, Expr] = {}
    params: list[Var] = []

    def parameter(ty: Type | None) -> Var:
        params.append(Var(f"x{len(params)}", ty))
        return params[-1]

    for param in function.params:
        ty = param.type_annotation
        new[param] = Tuple([parameter(field) for field in ty.fields]) if isinstance(ty, TupleType) else parameter(ty)
    nodes = post_order(function.body)
    weights = [node for node in nodes if isinstance(node, Constant) and _is_weight(node)]
    types = infer_types(function)
    for weight in weights:
        new[weight] = parameter(types[weight])
    return Function(params, substitute(function.body, new)), weights


def _is_weight(constant: Constant) -> bool:
    """Return whether a constant is data, and not a setting such as a bound, an axis or a shape."""
    data = constant.data
    return data.size > 1 and ("float" in data.dtype or data.nbytes > SETTING_BYTES)


def _forget_origins(graph: ir.Graph) -> None:
    """Remove names, types and documentation, which belong to the place that the function comes from."""
    for index, node in enumerate(graph):
        node.name, node.doc_string = None, None
        node.metadata_props.clear()
        for place, value in enumerate(node.outputs):
            value.type, value.shape, value.doc_string = None, None, None
            value.metadata_props.clear()
            if not value.is_graph_output():
                value.name = f"t{index}_{place}"
