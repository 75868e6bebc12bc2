"""Conversion of an ONNX model to a function of the IR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx import defs

from eqsat.collector import paused_gc
from eqsat.egraph.rule import Soundness
from eqsat.errors import EqsatError, ModelError
from eqsat.nd import NDArray
from eqsat.onnx.constants import ConstantNodes
from eqsat.onnx.control_flow import (
    Inlined,
    carried_values,
    first_round,
    next_round,
    possible_branch,
    results_of_round,
    truth_of,
)
from eqsat.onnx.converters import Declined, OnnxNode, Source, Target, exporter_of, importer_of
from eqsat.onnx.converters.source import OLDEST_OPSET, definer_of
from eqsat.onnx.converters.target import attributes
from eqsat.onnx.definition import Definition, defined
from eqsat.onnx.files import Given, errors_of, load
from eqsat.onnx.graphs import attributes_of, captured_values, copy_value, nodes_of, topological_order
from eqsat.onnx.imported import Imported, Origin, constant_initializers, opset_of
from eqsat.onnx.initializers import name_counts
from eqsat.onnx.opaque import constant_outputs, map_graphs, opaque_call
from eqsat.onnx.types import DTYPES, rank_type, relay_type
from eqsat.onnx.weights import elements_of
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, TupleGetItem, Var
from eqsat.relay.fold import Folding, is_folded
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.known_sizes import KnownSizes
from eqsat.relay.results import body_of
from eqsat.relay.static_forms import static_form
from eqsat.relay.ty import UNKNOWN, IncompleteType, TupleType, Type

NEWEST_OPSET = defs.onnx_opset_version()
"""The last opset that the installed onnx package knows."""

_PASSES = 8
"""Maximum number of passes that look for conditions with a constant value; each pass may reveal others."""

_ROUNDS = 4
"""Number of times that the types of a Loop's carried values are widened before they are treated as unknown."""

_MOST_SHOWN = 4096
"""Maximum number of elements of a constant on whose values the definition of a node may depend."""

_MALFORMED = (ValueError, ArithmeticError, IndexError, TypeError)
"""Exceptions that NumPy and Python raise on attributes and constants of invalid nodes."""


Body = Callable[[Imported], ir.Graph]
"""A function that returns the replacement of a subgraph."""


def import_model(model: Given, body: Body | None = None, constants: ConstantNodes | None = None) -> Imported:
    """Return the graph of ``model`` as a function.

    A node that is not understood becomes a call of an opaque operator, see :mod:`eqsat.onnx.opaque`; it is not an
    error.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        body: A function that returns a replacement for each subgraph of nodes that are not understood, inner subgraphs
            first. Subgraphs stay unchanged if it is None or raises an EqsatError.

    Raises:
        ModelError: The graph has a cycle, uses a value that no node computes, or uses operators of an unknown opset.
    """
    model = load(model)
    with errors_of(model), paused_gc():
        if opset_of(model) > NEWEST_OPSET:
            raise ModelError(
                f"opset {opset_of(model)} is not known: the installed onnx package supports opsets up to "
                f"{NEWEST_OPSET}; install a newer one"
            )
        context = _Context(model, name_counts(model), body, constants)
        if body is not None:
            _decide_conditions(context)
        return _Importer(context, model.graph).run()


def import_with_bodies(
    model: Given, constants: ConstantNodes | None = None
) -> tuple[Imported, dict[ir.Graph, Imported]]:
    """As :func:`import_model`; also return the subgraphs of nodes that are not understood, as functions."""
    bodies: dict[ir.Graph, Imported] = {}

    def kept(imported: Imported) -> ir.Graph:
        bodies[imported.graph] = imported
        return imported.graph

    return import_model(model, kept, constants), bodies


def _decide_conditions(context: _Context) -> None:
    """Find conditions of Ifs that have the same truth value in every run, even if the values are not constants."""
    graph = context.model.graph
    if any(node.op_type == "If" for node in nodes_of(graph)):
        looking = replace(context, body=lambda body: body.graph)
        for _ in range(_PASSES):
            known = len(context.decided), len(context.inlined)
            _Importer(looking, graph).run()
            if (len(context.decided), len(context.inlined)) == known:
                break


@dataclass(frozen=True)
class _Context:
    """The state that the importers of all graphs of a model share.

    Args:
        model, names, body, constants: as for :class:`Imported` and :func:`import_model`.
        decided: the truth of values that have the same in every run, as far as they are found.
        inlined: branches of conditions that are known, as far as they are found.
        dims: names for dimensions that nothing else names.
        follows_rounds: whether types of what a Loop carries are found by typing its body.
    """

    model: ir.Model
    names: Counter[str]
    body: Body | None
    constants: ConstantNodes | None
    decided: dict[ir.Value, bool] = field(default_factory=dict)
    inlined: Inlined = field(default_factory=Inlined)
    dims: Iterator[str] = field(default_factory=lambda: (f"%{index}" for index in count()))
    follows_rounds: bool = True


class _Importer:
    def __init__(self, context: _Context, graph: ir.Graph, carried: Mapping[ir.Value, Type] | None = None):
        self.context = context
        self.model = context.model
        self.graph = graph
        self.carried = carried or {}
        self.captured: list[ir.Value] = []
        self.outer: dict[NDArray, ir.Value] = {}
        self.params: list[Var] = []
        self.opset = opset_of(context.model)
        self.values: dict[ir.Value, Expr] = {}
        self.types: dict[Expr, Type] = {}
        self.typing = Inferencer(self.types, names=context.dims)
        self.sizes = KnownSizes(self.types, self.typing.elements)
        self.opaque: dict[str, dict[str, int]] = {}
        self.tensors: dict[NDArray, Any] = {}
        self.foreign: dict[Expr, ir.TensorProtocol] = {}  # initializers of element types that the IR does not have
        constants = context.constants
        self.folding = Folding(foreign=None if constants is None else constants.foreign)

    def run(self) -> Imported:
        graph = self.graph
        constants = constant_initializers(graph, self.model.ir_version)
        for value in graph.inputs:
            if value.name not in constants:
                self._parameter(value, self._input_type(value))
        for value in [value for value in graph.initializers.values() if not self._bind_initializer(value)]:
            self._parameter(value, relay_type(value))
            self.foreign[self.values[value]] = value.const_value
        self.sizes.add(self.params)
        for node in topological_order(graph):
            self._bind_node(node)
        outputs = [self._value(value, "the graph's outputs") for value in graph.outputs]
        body = body_of(outputs)
        used = set(free_vars(body)) if self.foreign else ()  # not those that have been computed with
        function = Function([each for each in self.params if each not in self.foreign or each in used], body)
        return Imported(
            self.model,
            graph,
            function,
            self.context.names,
            self.opaque,
            self.tensors,
            self.captured,
            self.outer,
            {value.name: expr for value, expr in self.values.items() if value.name},
        )

    def _input_type(self, value: ir.Value) -> Type:
        if self.graph is self.model.graph:
            return relay_type(value)
        carried = self.carried.get(value, UNKNOWN)
        return rank_type(value) if carried == UNKNOWN else carried

    def _parameter(self, value: ir.Value, ty: Type) -> None:
        variable = Var(value.name or "", ty)
        self.values[value], self.types[variable] = variable, ty
        self.params.append(variable)

    def capture(self, value: ir.Value, expr: Expr, ty: Type, placeholder: ir.Value) -> None:
        """Take ``value`` from outside, where it is ``expr``; nodes that are written here take ``placeholder``."""
        if isinstance(expr, Constant):
            self.values[value], self.types[expr] = expr, ty
            self.outer[expr.data] = placeholder
        else:
            self._parameter(value, ty)
            self.captured.append(placeholder)

    def _bind_initializer(self, value: ir.Value) -> bool:
        """Import an initializer as a constant; return False if the IR does not have its element type.

        One that callers can override is a parameter already.
        """
        if value in self.values:
            return True
        if value.const_value is None:
            raise ModelError(f"initializer {value.name!r} has no data")
        constant = self._constant(value.const_value)
        if constant is None:
            return False
        constant.span = Origin(None, (value,))
        self._bind(value, constant)
        return True

    def _bind(self, value: ir.Value, expr: Expr) -> None:
        if expr not in self.types:
            self.typing.run(expr)
        self.values[value] = expr

    def _value(self, value: ir.Value, user: ir.Node | str) -> Expr:
        try:
            return self.values[value]
        except KeyError:
            who = user if isinstance(user, str) else f"the inputs of {user.op_type} node {user.name!r}"
            raise ModelError(f"{who} use {value.name!r}, which no node computes") from None

    def _constant(self, tensor: Any) -> Constant | None:
        """Return a tensor as a constant whose data is read on demand; None if the IR does not have its element type."""
        name = DTYPES.get(tensor.dtype)
        if name is None:
            return None
        data = NDArray(
            tuple(tensor.shape.numpy()), name, partial(_read, tensor), is_kept=not isinstance(tensor, ir.ExternalTensor)
        )
        self.tensors[data] = tensor
        return Constant(data)

    # ---- nodes

    def _constant_node(self, source: Source) -> Expr:
        """A Constant node, whatever the attribute that holds its value."""
        source.ignore(*source.node.attributes)
        value = source.node.attributes.get("value")
        if value is not None and value.type == ir.AttributeType.TENSOR and not value.is_ref():
            tensor = value.value  # the general way, below, takes longer than the rest of the node
        else:
            tensor = ir.convenience.get_const_tensor(source.node.outputs[0])
        constant = None if tensor is None else self._constant(tensor)
        source.require(constant is not None, "its value is not understood")
        return constant  # type: ignore[return-value]

    def _bind_node(self, node: ir.Node) -> None:
        branch = self._taken_branch(node)
        if branch is not None:
            self._bind_branch(node, branch)
            return
        inputs = [None if value is None else self._value(value, node) for value in node.inputs]
        try:
            outputs = self._outputs_of(node, inputs)
        except (Declined, EqsatError, *_MALFORMED) as why:
            reason = f"it is malformed: {why}" if isinstance(why, _MALFORMED) else str(why)
            outputs = self._passed_through(node, why.types if isinstance(why, Declined) else None, reason)
        for value, expr in zip(node.outputs, outputs, strict=False):
            self._bind(value, expr)

    def _taken_branch(self, node: ir.Node) -> ir.Graph | None:
        """The branch of an If whose condition is known, as far as the IR has its constants."""
        if node.op_type != "If" or node.domain != "" or len(node.inputs) != 1 or node.inputs[0] is None:
            return None
        condition = self._settled(self._value(node.inputs[0], node))
        if isinstance(condition, Constant) and condition.data.size == 1:
            taken = bool(condition.data.numpy().reshape(-1)[0])
        else:
            value, opposite = truth_of(node.inputs[0])
            if value not in self.context.decided:
                return None
            taken = self.context.decided[value] ^ opposite
        attr = node.attributes.get("then_branch" if taken else "else_branch")
        if attr is None or attr.is_ref() or attr.type != ir.AttributeType.GRAPH:
            return None
        branch = attr.as_graph()
        tensors = [value.const_value for value in branch.initializers.values()]
        return branch if all(tensor is not None and tensor.dtype in DTYPES for tensor in tensors) else None

    def _bind_branch(self, node: ir.Node, branch: ir.Graph) -> None:
        """Bind the nodes of a branch as if they stood where the If does."""
        self.context.inlined.add(branch, node)
        for value in branch.initializers.values():
            self._bind_initializer(value)
        for inner in topological_order(branch):
            self._bind_node(inner)
        for value, result in zip(node.outputs, branch.outputs, strict=False):
            self.values[value] = self._value(result, "a branch's outputs")

    def _understood(self, node: ir.Node, inputs: Sequence[Expr | None]) -> list[Expr]:
        """The expressions of the outputs, by the operator's importer; raises Declined or EqsatError."""
        source = Source(node, inputs, self.types, self.typing.elements, self.opset, self.sizes)
        source.require(node.domain == "" and node.op_identifier() not in self.model.functions, "it is not standard")
        if self.opset < OLDEST_OPSET:
            raise Declined(f"opset {self.opset} is older than {OLDEST_OPSET}")
        source.require(not node.device_configurations, "it is placed on devices")
        importer = self._constant_node if node.op_type == "Constant" else importer_of(node.op_type)
        if importer is None:
            raise Declined("there is no such operator in the IR")
        found = importer(source)
        outputs = [found] if isinstance(found, Expr) else list(found)
        source.require(source.used_outputs() <= len(outputs), "more of its outputs are used")
        source.check_read()
        placed = [self._placed(node, value, expr) for value, expr in zip(node.outputs, outputs, strict=False)]
        if any(isinstance(self.types.get(value), IncompleteType) for value in inputs if value is not None):
            self._check_writable(placed, inputs)
        return placed

    def _defined(self, node: ir.Node, inputs: Sequence[Expr | None]) -> Sequence[Expr]:
        """Return the expressions of a node with a definition: the definition if that is one node, else an opaque call.

        Raises Declined or EqsatError where the definition is not for such a node.
        """
        if node.op_identifier() in self.model.functions or node.device_configurations:
            raise Declined("it is not standard")
        try:
            definition = self._definition(node, inputs, shows_floats=False)
        except (Declined, EqsatError):
            definition = self._definition(node, inputs, shows_floats=True)
        if definition.rewrites and definition.soundness is Soundness.EXACT and len(definition.results) == 1:
            (whole,) = definition.over(inputs)
            if whole is not None and self._is_one_node(whole, inputs):
                return [self._placed(node, node.outputs[0], whole)]
        return self._passed_through(node, None, None, definition)

    def _definition(self, node: ir.Node, inputs: Sequence[Expr | None], shows_floats: bool) -> Definition:
        """Return the definition of a node; it may depend on small constants, on floats only if they are shown.

        Raises Declined or EqsatError where it is not defined.
        """
        stands: list[Expr | None] = []
        types: dict[Expr, Type] = {}
        for expr in inputs:
            is_shown = isinstance(expr, Constant) and expr.data.size <= _MOST_SHOWN
            is_shown = is_shown and (shows_floats or np.dtype(expr.data.dtype).kind in "biu")  # type: ignore[union-attr]
            stand = expr if expr is None or is_shown else Var("", self.types[expr])
            if expr is not None and stand is not None:
                types[stand] = self.types[expr]
            stands.append(stand)
        return defined(node, stands, Inferencer(types, names=self.context.dims), self.opset)

    def _is_one_node(self, expr: Expr, inputs: Sequence[Expr | None]) -> bool:
        """Whether ``expr`` is written as one node over ``inputs``."""
        exporter = exporter_of(expr.op) if isinstance(expr, Call) and isinstance(expr.op, Op) else None
        if exporter is None or not isinstance(expr, Call):
            return False
        arguments = [
            argument for argument in expr.args if argument not in inputs and not isinstance(argument, Constant)
        ]
        if arguments:
            return False
        self.typing.run(expr)
        form = exporter(expr, Target(self.opset, self.types, Counter()))
        return isinstance(form, OnnxNode) and not any(isinstance(operand, OnnxNode) for operand in form.inputs)

    def _check_writable(self, results: Sequence[Expr], inputs: Sequence[Expr | None]) -> None:
        """Raise an EqsatError if a result has no ONNX form, because some operators need a type that is not known."""
        target, known = Target(self.opset, self.types, Counter()), set(inputs)
        agenda = list(results)
        while agenda:
            expr = agenda.pop()
            exporter = exporter_of(expr.op) if isinstance(expr, Call) and isinstance(expr.op, Op) else None
            if expr not in known and isinstance(expr, Call) and exporter is not None:
                exporter(expr, target)
            agenda += [] if expr in known else expr.children()
            known.add(expr)

    def _placed(self, node: ir.Node, value: ir.Value, expr: Expr) -> Expr:
        """``expr``, new and type-checked, with its origin; shapes computed from constants as constants."""
        if expr in self.types:
            return expr
        self.typing.run(expr)
        if isinstance(expr, (Call, TupleGetItem)):
            expr = static_form(expr, self.types, self.typing.elements)
        if isinstance(expr, (Call, TupleGetItem)):
            expr = self.sizes.form(expr)
        if expr.span is None:
            is_sequence = isinstance(self.types.get(expr), TupleType)  # which is not written
            expr.span = Origin(node, () if is_sequence else (value,))
        return expr

    def _outputs_of(self, node: ir.Node, inputs: Sequence[Expr | None]) -> Sequence[Expr]:
        """The outputs of a node that is understood, or whose constants are; raises Declined or EqsatError."""
        if self.foreign and any(each in self.foreign for each in inputs):
            computed = self._computed(node, None)
            if computed is not None:
                return computed
        if definer_of(node.domain, node.op_type) is None:
            return self._understood(node, inputs)
        return self._defined(node, inputs)

    def _passed_through(
        self, node: ir.Node, types: Sequence[Type] | None, reason: str | None, definition: Definition | None = None
    ) -> Sequence[Expr]:
        """Return an opaque call for a node; ``reason`` says why it is not understood, None if it is."""
        computed = self._computed(node, types, definition)
        if computed is not None:
            return computed
        call = opaque_call(node, self._attributes(node), self.values, self.types, self.model, types, definition)
        known = constant_outputs(call)
        if known is not None:
            return known
        if reason is not None:
            reasons = self.opaque.setdefault(node.op_type, {})
            reasons[reason] = reasons.get(reason, 0) + 1
        call.span = Origin(node, tuple(node.outputs))
        self.typing.run(call)
        if len(node.outputs) == 1:
            return [call]
        parts: list[Expr] = [TupleGetItem(call, index) for index in range(len(node.outputs))]
        for part, value in zip(parts, node.outputs, strict=True):
            part.span = Origin(node, (value,))
        return parts

    def _computed(
        self, node: ir.Node, types: Sequence[Type] | None, definition: Definition | None = None
    ) -> list[Expr] | None:
        """The outputs of a node that is not understood, where all that it takes is constant and it can be computed."""
        constants = self.context.constants
        taken = [value for value in (*node.inputs, *captured_values(attributes_of(node))) if value is not None]
        exprs = [self._value(value, node) for value in taken]
        if constants is None or not exprs:
            return None
        if not all(expr in self.foreign or self.folding.is_constant(expr) for expr in exprs):
            return None
        whole = list(attributes_of(node))
        call = opaque_call(node, whole, self.values, self.types, self.model, types, definition)
        if not isinstance(call.op, Op) or not is_folded(call.op):
            return None
        inputs, sources = [], 0
        for expr in call.args:
            foreign = self.foreign.get(expr)
            found = self.folding.find(expr) if foreign is None else (foreign, foreign.nbytes)
            if found is None:
                return None
            inputs.append(found[0])
            sources += found[1]
        outputs = constants.outputs(attributes(call).node, inputs, sources)
        if outputs is None:
            return None
        unused = TupleGetItem(call, 0)  # stands for what nothing uses
        return [unused if output is None else Constant(output) for output in outputs]

    def _settled(self, expr: Expr) -> Expr:
        """Return the value of an expression over constants as a constant if it can be computed; else the expression."""
        if isinstance(expr, Constant) or not self.folding.is_constant(expr):
            return expr
        found = self.folding.find(expr)
        if found is None or isinstance(found[0], tuple):
            return expr
        constant = Constant(np.asarray(found[0]))
        self.typing.run(constant)
        return constant

    # ---- subgraphs

    def _attributes(self, node: ir.Node) -> list[ir.Attr]:
        """Return the attributes of a node that is not understood, with its subgraphs replaced."""
        attributes = list(attributes_of(node))
        captured = captured_values(attributes)
        for value in captured:
            self._value(value, node)
        placeholders = {value: copy_value(value) for value in captured if self.context.body is not None}
        for value, placeholder in placeholders.items():
            self.values[placeholder] = self.values[value]
        results: dict[str, Sequence[Type]] = {}
        carried = self._carried(node, placeholders)

        def improve(name: str) -> Callable[[ir.Graph], ir.Graph]:
            return lambda graph: self._improved(self._inner(graph, placeholders, carried), name, results)

        improved = [map_graphs(attr, improve(attr.name)) for attr in attributes]
        if results and node.op_type == "If":
            self._decide(node, results)
        return improved

    def _inner(
        self,
        graph: ir.Graph,
        placeholders: Mapping[ir.Value, ir.Value],
        carried: Mapping[ir.Value, Type],
        context: _Context | None = None,
    ) -> _Importer:
        """The importer of a subgraph that takes ``placeholders`` from here."""
        inner = _Importer(context or self.context, graph, carried)
        inner.tensors = self.tensors
        for value, placeholder in placeholders.items():
            expr = self._settled(self.values[value])
            inner.capture(value, expr, self.types[expr], placeholder)
        return inner

    def _improved(self, inner: _Importer, name: str, results: dict[str, Sequence[Type]]) -> ir.Graph:
        """What takes the place of a subgraph; the types of its outputs go to ``results``, under ``name``."""
        body, graph = self.context.body, inner.graph
        if body is None or any(value in self.values for value in graph.outputs):
            return graph
        try:
            imported = inner.run()
            results[name] = inner.types_of(graph.outputs)
            return body(imported)
        except EqsatError:
            return graph

    def types_of(self, values: Iterable[ir.Value]) -> list[Type]:
        """The types of values that are bound."""
        return [self.types[self.values[value]] for value in values]

    def _carried(self, node: ir.Node, placeholders: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, Type]:
        """Types that the inputs of a Loop's body have in every round, as far as its body tells."""
        found = carried_values(node)
        if found is None or self.context.body is None or not self.context.follows_rounds:
            return {}
        graph, initial, inputs = found
        looking = replace(self.context, body=lambda body: body.graph, follows_rounds=False)
        assumed = first_round(inputs, self.types_of(initial))
        for _ in range(_ROUNDS):
            inner = self._inner(graph, placeholders, assumed, looking)
            try:
                inner.run()
                widened = next_round(assumed, inner.types_of(results_of_round(graph, len(inputs))))
            except EqsatError:
                return {}
            if widened == assumed:
                return assumed
            assumed = widened
        return {}

    def _decide(self, node: ir.Node, results: dict[str, Sequence[Type]]) -> None:
        """Record the value of an If's condition if it is the same in every run."""
        inlined = self.context.inlined
        taken = possible_branch(node, results, inlined)
        if taken is not None and node.inputs and node.inputs[0] is not None:
            value, opposite = truth_of(node.inputs[0])
            producer = value.producer()
            if producer is not None and inlined.home(producer) is inlined.home(node):
                self.context.decided[value] = taken ^ opposite


def _read(tensor: Any) -> np.ndarray[Any, Any]:
    try:
        return elements_of(tensor)
    except Exception as error:  # the library raises whatever the inconsistency runs into
        raise ModelError(f"the data of tensor {tensor.name!r} cannot be read: {error}") from None
