"""Conversion of a function of the IR to an ONNX model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.collector import paused_gc
from eqsat.errors import ModelError
from eqsat.onnx import contrib
from eqsat.onnx.converters import OnnxNode, Target, exporter_of
from eqsat.onnx.converters.target import Operand, as_attribute, expressions, op_name
from eqsat.onnx.graphs import copy_value, nodes_of
from eqsat.onnx.imported import INITIALIZERS_ARE_INPUTS, Imported, Origin, constant_initializers, origin_of
from eqsat.onnx.initializers import Initializers, Names
from eqsat.onnx.provenance import Provenance
from eqsat.onnx.schemas import input_names
from eqsat.pipeline.provenance import Derived, owners
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import extend_types, infer_types
from eqsat.relay.results import results_of
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import post_order

_BROADCASTING = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
_ELEMENTWISE = _BROADCASTING | {"Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Sigmoid", "Sqrt", "Tanh"}


def export_model(
    function: Function,
    imported: Imported,
    composite: Callable[[Call], OnnxNode] | None = None,
    provenance: Provenance | None = None,
) -> ir.Model:
    """Return ``function`` as a model that replaces the imported one.

    Inputs, outputs, opsets, versions, metadata and local functions are those of the imported model. Values that are
    still computed keep their names if the ``span`` of an expression says where it comes from.

    Args:
        function: A function with the parameters of ``imported.function``, in order, and with as many results.
        imported: The imported model.
        composite: A function that writes calls of function literals; without it, such calls are an error.
        provenance: A function that stores in nodes where they come from; without it, they store nothing.

    Raises:
        ModelError: An operator has no ONNX form in the opset of the model.
    """
    with paused_gc():
        names = imported.names.copy()
        return _model_like(imported, _Exporter(function, imported, names, composite, provenance).graph())


def export_with_values(function: Function, imported: Imported) -> tuple[ir.Model, dict[Expr, list[str]]]:
    """As :func:`export_model`; also return the names of the values that each expression is written as."""
    with paused_gc():
        exporter = _Exporter(function, imported, imported.names.copy(), None)
        model = _model_like(imported, exporter.graph())
    return model, exporter.value_names()


def export_body(
    function: Function, body: Imported, provenance: Provenance | None = None
) -> tuple[ir.Graph, dict[Expr, list[str]]]:
    """Return ``function`` as a graph that replaces a subgraph, with the same values from outside.

    Also return the names of the values that each expression is written as.

    Args and errors: as :func:`export_model`.
    """
    exporter = _Exporter(function, body, body.names, provenance=provenance)
    return exporter.graph(), exporter.value_names()


class _Exporter:
    def __init__(
        self,
        function: Function,
        imported: Imported,
        names: Counter[str],
        composite: Callable[[Call], OnnxNode] | None = None,
        provenance: Provenance | None = None,
    ):
        self.imported, self.provenance = imported, provenance
        self.source = imported.graph
        self.opset_imports = dict(imported.graph.opset_imports)
        if "" in self.opset_imports:
            self.opset_imports[""] = imported.opset
        self.captured = imported.captured
        self.constants = constant_initializers(imported.graph, imported.model.ir_version)
        is_outermost = imported.graph is imported.model.graph
        self.lists_initializers = is_outermost and imported.ir_version <= INITIALIZERS_ARE_INPUTS
        self.composite = composite
        self.function = function
        types = infer_types(function)
        self.results = results_of(function.body, types[function.body])
        for result in self.results:
            extend_types(types, result)
        self.owners = {} if provenance is None else owners(post_order(*self.results))
        self.parts: list[Expr] = []  # what the node that is being written is for
        self.written_for: dict[ir.Node, list[Expr]] = {}
        uses = Counter(self.results)
        for expr in post_order(*self.results):
            uses.update(expr.children())
        self.target = Target(imported.opset, types, uses)
        self.spelled: dict[Call, OnnxNode | Expr] = {}
        self.values: dict[Expr, Sequence[ir.Value]] = {}
        self.origins: dict[tuple[Expr, int], Origin] = {}
        self.output_of: dict[tuple[Expr, int], ir.Value] = {}
        self.names, self.node_names = Names(names), Names(Counter())
        self.nodes: list[ir.Node] = []
        self.helpers: dict[Hashable, ir.Value] = {}  # nodes written for others: by operator, inputs and attributes
        self.initializers = Initializers(self.names, imported.tensors, imported.outer)

    def graph(self) -> ir.Graph:
        """Return the graph, with its names, types and metadata."""
        source = self.source
        # an input or initializer as such is given; what nodes make is written
        outputs = [None if value.producer() is None else copy_value(value) for value in source.outputs]
        for value in outputs:
            if value is not None:
                self.names.claim(value.name)
        inputs = self._bind_parameters()
        roots = [self._resolve(result) for result in self.results]
        for root, value in zip(roots, outputs, strict=True):
            if value is not None and isinstance(root, (Call, TupleGetItem)):
                self.output_of.setdefault(_place(root), value)
        order = post_order(*roots, children=self._operands)
        self._find_origins(order)
        self._write_constants(roots, outputs)
        used = {_place(expr) for expr in (*order, *roots) if isinstance(expr, TupleGetItem)}
        for expr in order:
            if isinstance(expr, Call):
                self._write_call(expr, used)
        self.parts = []
        written: dict[ir.Value, ir.Value] = {}  # one value may be several outputs
        for root, output, value in zip(roots, outputs, source.outputs, strict=True):
            if value not in written:
                written[value] = self._finish(root, output, value)
        self._tell_provenance()
        return ir.Graph(
            self._all_inputs(inputs),
            [written[value] for value in source.outputs],
            nodes=self.nodes,
            initializers=list(self.initializers.values.values()),
            doc_string=source.doc_string,
            opset_imports=self.opset_imports,
            name=source.name,
            metadata_props=dict(source.metadata_props),
        )

    def value_names(self) -> dict[Expr, list[str]]:
        """The names of the values that each expression is written as, once the graph is."""
        return {expr: [value.name or "" for value in values] for expr, values in self.values.items()}

    # ---- inputs and outputs

    def _bind_parameters(self) -> dict[str, ir.Value]:
        """Values of the function's parameters, by name; those that are initializers too are written as such."""
        graph, params = self.source, self.function.params
        for param, value in zip(params, self.captured, strict=False):
            self.values[param] = [value]
        params = params[len(self.captured) :]
        sources = [value for value in graph.inputs if value.name not in self.constants]
        sources += [graph.initializers[param.name_hint] for param in params[len(sources) :]]
        inputs = {}
        for param, source in zip(params, sources, strict=True):
            value = inputs[source.name] = copy_value(source)
            self.values[param] = [value]
            self.names.claim(value.name)
            if source.name in graph.initializers:
                self.initializers.add(value, source.const_value)
        return inputs

    def _all_inputs(self, inputs: dict[str, ir.Value]) -> list[ir.Value]:
        """Return the inputs in their old order, with the initializers that the IR version requires in the list."""
        listed = {value.name: inputs[value.name] for value in self.source.inputs if value.name in inputs}
        if self.lists_initializers:
            known = {**inputs, **self.initializers.values}
            listed = {value.name: known[value.name] for value in self.source.inputs if value.name in known}
            listed.update(self.initializers.values)
        return list(listed.values())

    def _write_constants(self, roots: Sequence[Expr], outputs: Sequence[ir.Value | None]) -> None:
        """Write results that are constants, except weights, as nodes; other users take them from there."""
        for root, output in zip(roots, outputs, strict=True):
            if output is None or not isinstance(root, Constant) or root in self.initializers:
                continue
            origin = origin_of(root)
            if origin is not None and origin.node is None:  # a weight
                continue
            tensor = ir.AttrTensor("value", self.initializers.tensor(root))
            self._add_node(OnnxNode("Constant", []), [], [tensor], [output], origin_of(root))
            self.initializers.stand_in(root, output)

    def _finish(self, root: Expr, output: ir.Value | None, source: ir.Value) -> ir.Value:
        """An output of the graph; written here when it is an input, a weight, or the same as another output.

        Args:
            root: what it is.
            output: the value that nodes have or will have made; None for an input or initializer as such.
            source: the value that it takes the place of.
        """
        if output is None:
            value = self._value(root, source.name)
            if value.name == source.name:
                return value
            output = copy_value(source)
        if output.producer() is None:
            self._add_node(OnnxNode("Identity", []), [self._value(root, source.name)], [], [output])
        return output

    # ---- what to write

    def _spell(self, call: Call) -> OnnxNode | Expr:
        if call not in self.spelled:
            exporter = exporter_of(call.op) if isinstance(call.op, Op) else None
            if self.composite is not None and isinstance(call.op, Function):
                self.spelled[call] = self.composite(call)
            elif exporter is None:
                raise ModelError(f"cannot write {op_name(call)} to ONNX: it has no ONNX form")
            else:
                self.spelled[call] = exporter(call, self.target)
        return self.spelled[call]

    def _resolve(self, expr: Expr) -> Expr:
        """Return the expression that is written for ``expr``: itself, or one of equal value."""
        while True:
            if isinstance(expr, Call):
                spelled = self._spell(expr)
                if isinstance(spelled, OnnxNode):
                    return expr
                expr = spelled
            elif isinstance(expr, TupleGetItem):
                of = expr.tuple_value
                if isinstance(of, Tuple):
                    expr = of.fields[expr.index]
                    continue
                spelled = self._spell(of) if isinstance(of, Call) else of
                if not isinstance(spelled, OnnxNode):
                    raise ModelError(f"cannot write an output of a {type(spelled).__name__} node to ONNX")
                if expr.index not in spelled.same:
                    return expr
                expr = spelled.same[expr.index]
            elif isinstance(expr, (Var, Constant)):
                return expr
            else:
                raise ModelError(f"cannot write a {type(expr).__name__} node to ONNX")

    def _operands(self, expr: Expr) -> Sequence[Expr]:
        if isinstance(expr, TupleGetItem):
            return (expr.tuple_value,)
        if not isinstance(expr, Call):
            return ()
        node = self._spell(expr)
        return [self._resolve(operand) for operand in expressions(node)] if isinstance(node, OnnxNode) else ()

    def _find_origins(self, order: Sequence[Expr]) -> None:
        """Find where each output of each call comes from; a projection is more precise than the call it projects."""
        for expr in order:
            origin = origin_of(expr)
            if isinstance(expr, TupleGetItem) and origin is not None:
                self.origins.setdefault(_place(expr), origin)
            elif isinstance(expr, Call) and origin is not None:
                for index, value in enumerate(origin.values):
                    self.origins[expr, index] = Origin(origin.node, (value,))

    # ---- writing

    def _write_call(self, call: Call, used: Collection[tuple[Expr, int]]) -> None:
        node = self._spell(call)
        if not isinstance(node, OnnxNode):
            return
        is_written = [(call, index) in used or not node.optional_outputs for index in range(node.outputs)]
        while not is_written[-1]:
            is_written.pop()
        outputs = [
            self._output(call, index, node) if written else ir.Value(name="")
            for index, written in enumerate(is_written)
        ]
        self.parts = self._parts_of(call)
        self.values[call] = outputs
        self._write(node, outputs, self.origins.get((call, 0)))

    def _parts_of(self, call: Call) -> list[Expr]:
        """Return a call and those of its operands that are not written as separate nodes."""
        parts: list[Expr] = [call]
        todo, seen = list[Expr](call.args if self.provenance is not None else ()), set[Expr]()
        while todo:
            expr = todo.pop()
            if expr not in self.values and expr not in seen and not isinstance(expr, (Var, Constant)):
                seen.add(expr)
                parts.append(expr)
                todo += expr.children()
        return parts

    def _tell_provenance(self) -> None:
        """Store in the nodes where they come from."""
        if self.provenance is None:
            return
        for node, exprs in self.written_for.items():
            maker = None if exprs else self._maker(node)
            spans = [span for expr in exprs for span in self._spans(expr)]
            told = self.provenance.told(self.imported, spans, [] if maker is None else [maker])
            if told.origins:
                node.metadata_props.update(told.properties)

    def _spans(self, expr: Expr) -> list[Any]:
        """The spans that say where an expression is from; of a composite that no rule made, those of what is inside."""
        span = self.owners.get(expr)
        if isinstance(span, Derived) or not (isinstance(expr, Call) and isinstance(expr.op, Function)):
            return [span]
        return [span, *owners(post_order(expr.op.body)).values()]

    def _maker(self, node: ir.Node) -> ir.Node | None:
        """What makes, in the given graph, the output for which a node is written that is not a call."""
        names = {value.name for value in node.outputs}
        return next((value.producer() for value in self.source.outputs if value.name in names), None)

    def _output(self, call: Call, index: int, node: OnnxNode) -> ir.Value:
        if (call, index) in self.output_of:
            return self.output_of[call, index]
        origin = self.origins.get((call, index))
        if origin is None:
            return ir.Value(name=self.names.fresh(node.op_type))
        source = origin.values[0]
        value = copy_value(source)
        if source.name and not self.names.claim(source.name):
            value.name = self.names.fresh(source.name)
        return value

    def _write(self, node: OnnxNode, outputs: Sequence[ir.Value], origin: Origin | None) -> None:
        """Write a node and its few helper nodes."""
        base = next((value.name for value in outputs if value.name), node.op_type)
        inputs = self._inputs(node, base)
        if callable(node.attributes):
            attributes = list(node.attributes([self._value(expr, base) for expr in map(self._resolve, node.captured)]))
        else:
            attributes = [as_attribute(*each) for each in node.plain_attributes.items()]
        self._add_node(node, inputs, attributes, outputs, origin)

    def _inputs(self, node: OnnxNode, base: str) -> list[ir.Value | None]:
        return [self._operand(node, index, base) for index in range(len(node.inputs))]

    def _helper(self, node: OnnxNode, base: str) -> ir.Value:
        """Return the output of a helper node; equal nodes are written once."""
        inputs = self._inputs(node, base)
        key = (node.domain, node.op_type, *map(id, inputs), node.attribute_keys)
        if key not in self.helpers:
            value = self.helpers[key] = ir.Value(name=self.names.fresh(base))
            self._add_node(node, inputs, [as_attribute(*each) for each in node.plain_attributes.items()], [value])
        else:
            self.written_for[self.helpers[key].producer()] += self.parts
        return self.helpers[key]

    def _operand(self, node: OnnxNode, index: int, base: str) -> ir.Value | None:
        operand = node.inputs[index]
        if operand is None:
            return None
        if isinstance(operand, OnnxNode):
            return self._helper(operand, f"{base}_{operand.op_type}")
        if isinstance(operand, np.ndarray):
            rank = self._rank_of_column(node) if operand.size == 1 else 0
            number = operand.reshape((1,) * rank) if operand.ndim < rank else operand
            return self.initializers.array(number, self._hint(node, index, base))
        operand = self._resolve(operand)
        hint = self._hint(node, index, base) if isinstance(operand, Constant) else base
        return self._value(operand, hint)

    def _rank_of_column(self, node: OnnxNode) -> int:
        """The rank of an operand whose last axis has one element, where numbers are broadcast against it; else 0.

        There onnxruntime (1.32) takes 50 times as long for a number of fewer axes as for one of as many.
        """
        if node.domain or node.op_type not in _BROADCASTING:
            return 0
        shapes = [self._shape(each) for each in node.inputs]
        return max([len(shape) for shape in shapes if shape and shape[-1] == 1], default=0)

    def _shape(self, operand: Operand) -> Sequence[Any]:
        """The shape of an operand, also where it is made by elementwise nodes; empty where that is not known."""
        while isinstance(operand, OnnxNode):
            parts = [each for each in operand.inputs if isinstance(each, (Expr, OnnxNode))]
            if operand.op_type not in _ELEMENTWISE or not parts:
                return ()
            operand = parts[0]
        ty = self.target.types.get(operand) if isinstance(operand, Expr) else None
        return ty.shape if isinstance(ty, TensorType) else ()

    def _hint(self, node: OnnxNode, index: int, base: str) -> str:
        """Return the name of a new initializer, after the value that it is used for and its input."""
        names = input_names(node.op_type, self.target.opset) if node.domain == "" else ()
        return f"{base}_{names[min(index, len(names) - 1)] if names else f'input{index}'}"

    def _add_node(
        self,
        node: OnnxNode,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr],
        outputs: Sequence[ir.Value],
        origin: Origin | None = None,
    ) -> None:
        source = origin.node if origin else None
        name = source.name if source is not None and self.node_names.claim(source.name) else ""
        written = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            attributes,
            overload=node.overload,
            outputs=outputs,
            name=name,
            doc_string=source.doc_string if source is not None else None,
            metadata_props=dict(source.metadata_props) if source is not None else None,
            device_configurations=source.device_configurations if source is not None else (),
        )
        self.nodes.append(written)
        self.written_for[written] = list(self.parts)

    # ---- values

    def _value(self, expr: Expr, hint: str) -> ir.Value:
        """The value of an expression that is written already; constants are written here."""
        if isinstance(expr, Constant):
            return self.initializers.constant(expr, hint)
        place = _place(expr)
        values = self.values[place[0]]
        if place[1] >= len(values):
            raise ModelError(f"cannot write output {place[1]} of {op_name(expr.tuple_value)} to ONNX")  # type: ignore[attr-defined]
        return values[place[1]]


def _place(expr: Expr) -> tuple[Expr, int]:
    """The call that makes a value, and the index among its outputs."""
    return (expr.tuple_value, expr.index) if isinstance(expr, TupleGetItem) else (expr, 0)


def _model_like(imported: Imported, graph: ir.Graph) -> ir.Model:
    model = imported.model
    if contrib.DOMAIN not in graph.opset_imports and any(node.domain == contrib.DOMAIN for node in nodes_of(graph)):
        graph.opset_imports[contrib.DOMAIN] = 1
    return ir.Model(
        graph,
        ir_version=imported.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=[_copy_function(function) for function in model.functions.values()],
        metadata_props=dict(model.metadata_props),
        device_configurations=model.device_configurations,
    )


def _copy_function(function: ir.Function) -> ir.Function:
    try:
        return function.clone()
    except RuntimeError:
        raise ModelError(
            f"local function {function.name!r} of domain {function.domain!r} uses a value that no earlier node computes"
        ) from None
