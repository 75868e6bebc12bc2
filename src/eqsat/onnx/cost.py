"""ONNX as a target of extraction: which nodes an operator is written as, and what cost models see of each.

What a cost model sees of a written node is what the importer makes of it. So the cost of a chosen graph is the cost
of the model that is written, and importing that model gives the same cost again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from eqsat.cost import CostFunction, CostNode
from eqsat.cost.kernels import cost_nodes
from eqsat.cost.models import NOTHING
from eqsat.cost.runtimes import NO_RUNTIME, kernels_of
from eqsat.cost.stand_ins import stand_in, stand_in_call, stand_ins
from eqsat.cost.target import TargetCost, Written, WrittenNode, as_it_is, is_written_as_it_is
from eqsat.errors import EqsatError
from eqsat.onnx.converters import Declined, OnnxNode, Source, Target, exporter_of, importer_of
from eqsat.onnx.converters.target import Operand, as_attribute
from eqsat.onnx.schemas import admits
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import extend_types, unknown_sizes
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.static_forms import static_form
from eqsat.relay.ty import UNKNOWN, TensorType, Type


@dataclass(frozen=True)
class OnnxTarget:
    """The standard operators of one ONNX opset; implements :class:`eqsat.cost.target.Target`.

    Args:
        opset: the version of the standard operators.
    """

    opset: int

    def write(self, node: CostNode) -> Written | None:
        if is_written_as_it_is(node):
            return as_it_is(_with_body(node))
        return _spell(node, self.opset, -1, None).written

    def partners(self, node: CostNode) -> Mapping[int, Collection[str]]:
        return {} if is_written_as_it_is(node) else _spell(node, self.opset, -1, None).partners

    def write_together(self, node: CostNode, index: int, inner: CostNode) -> Written | None:
        return _spell(node, self.opset, index, inner).written


def onnx_cost(model: CostFunction, opset: int, runtime: str = NO_RUNTIME, contrib: bool = False) -> TargetCost:
    """Return a cost model of graphs that are written to ONNX.

    Args:
        model: the cost of one node.
        opset: the version of the standard operators.
        runtime: the name of the runtime whose kernels count, see :mod:`eqsat.cost.runtimes`.
        contrib: Whether the runtime's own operators may be written. At equal cost they are preferred to kernels that
            the runtime's optimizer fuses from other nodes, because the optimizer may be off.

    Raises:
        ArgumentError: there is no such runtime.
    """
    return TargetCost(model, OnnxTarget(opset), kernels_of(runtime), contrib, opset)


@lru_cache(maxsize=1 << 10)
def _with_body(node: CostNode) -> CostNode:
    """Return the node that a cost model sees for a runtime's own operator, with its definition as body if known."""
    opaque = None if node.attrs is None or node.body else node.attrs.get("node")
    definition = getattr(opaque, "definition", None)
    if definition is None:
        return node
    types: dict[Expr, Type] = {}
    result = next((each for each in definition.results if each is not None), None)
    if result is None:
        return node
    extend_types(types, result)
    return replace(
        node, body=tuple([each for expr, each in cost_nodes(result, types).items() if isinstance(expr, Call)])
    )


class _Spelling(NamedTuple):
    """The written form of one or two operators, and the operators that the exporter searched for in the arguments."""

    written: Written | None
    partners: Mapping[int, Collection[str]]


@lru_cache(maxsize=1 << 13)
def _spell(node: CostNode, opset: int, index: int, inner: CostNode | None) -> _Spelling:
    """Return the exporter's form of ``node``, including ``inner`` if that computes argument ``index``."""
    target = _AskedTarget(node, opset, index, inner)
    try:
        exporter = exporter_of(target.asked.op) if isinstance(target.asked.op, Op) else None
        form = None if exporter is None else exporter(target.asked, target)
        if form is None or (inner is not None and not target.takes_inner(form)):
            return _Spelling(None, target.partners)
        written = _Reader(target).read(form) if isinstance(form, OnnxNode) else ()
        return _Spelling(written, target.partners)
    except EqsatError:
        return _Spelling(None, target.partners)


class _AskedTarget(Target):
    """The graph that the exporter receives: variables stand for the arguments, of which only the types are known.

    Args:
        node: the operator to write.
        opset: the version of the standard operators.
        index, inner: the argument that is a call which nothing else uses, and that call.

    Attributes:
        asked: the operator over the stand-ins.
        places: stand-in -> number of the argument, those of ``inner`` in the place of argument ``index``.
        partners: names of the operators that the exporter looked for, by number of the argument.
    """

    def __init__(self, node: CostNode, opset: int, index: int, inner: CostNode | None):
        types: dict[Expr, Type] = {}
        arguments = stand_ins(node, types)
        flat, self.inner = list(arguments), None
        if inner is not None:
            below = stand_ins(inner, types)
            self.inner = arguments[index] = stand_in_call(inner, below, types)
            flat[index : index + 1] = below
        super().__init__(opset, types, Counter() if self.inner is None else Counter([self.inner]))
        self.cost_node = node
        self.asked = stand_in_call(node, arguments, types)
        self.places: dict[Expr, int] = {}
        for place, argument in enumerate(flat):
            self.places.update(dict.fromkeys([argument, *_fields(argument)], place))
        self.partners: dict[int, set[str]] = {}

    def made_by(self, expr: Expr, *names: str) -> Call | None:
        if self.inner is None and expr in self.places:
            self.partners.setdefault(self.places[expr], set()).update(names)
        return super().made_by(expr, *names)

    def transposed(self, data: Expr, order: Sequence[int]) -> Operand:
        return data.data.numpy().transpose(order) if isinstance(data, Constant) else super().transposed(data, order)

    def takes_inner(self, form: OnnxNode | Expr) -> bool:
        """Return whether the written form includes the computation of ``inner``."""
        agenda: list[Operand] = [form]
        while agenda:
            operand = agenda.pop()
            if operand is self.inner:
                return False
            if isinstance(operand, OnnxNode):
                agenda += operand.inputs
        return True


class _Reader:
    """Reads the nodes of a written form as the importer would, each over stand-ins for what it takes."""

    def __init__(self, target: _AskedTarget):
        self.target = target
        self.found: dict[Hashable, int] = {}
        self.written: list[WrittenNode] = []
        self.results: list[Expr] = []
        self.types = dict(target.types)
        self.typing = Inferencer(self.types, names=unknown_sizes())

    def read(self, form: OnnxNode) -> Written:
        """Return the nodes of ``form``, inputs first; equal ones once, as the exporter writes them."""
        number: dict[int, int] = {}
        agenda = [form]
        while agenda:
            node = agenda[-1]
            waiting = [each for each in node.inputs if isinstance(each, OnnxNode) and id(each) not in number]
            if waiting:
                agenda += waiting
            else:
                number[id(agenda.pop())] = self._add(node, number)
        return tuple(self.written)

    def _add(self, node: OnnxNode, number: Mapping[int, int]) -> int:
        inputs: list[int] = []
        arguments: list[Expr | None] = []
        embedded: list[Hashable] = []
        for operand in node.inputs:
            if operand is None:
                embedded.append(None)
                arguments.append(None)
            elif isinstance(operand, np.ndarray):
                embedded.append((operand.dtype.str, operand.shape, operand.tobytes()))
                constant = Constant(operand)
                self.typing.run(constant)
                arguments.append(constant)
            else:
                embedded.append(True)
                if isinstance(operand, OnnxNode):
                    inputs.append(~number[id(operand)])
                    arguments.append(self.results[number[id(operand)]])
                else:
                    inputs.append(self.target.places[operand])
                    arguments.append(operand)
        key = (node.domain, node.op_type, tuple(embedded), node.attribute_keys)
        if (key, *inputs) not in self.found:
            self.found[key, *inputs] = len(self.written)
            seen, result = self._import(node, arguments)
            self.written.append(WrittenNode(key, seen, tuple(inputs)))
            self.results.append(result)
        return self.found[key, *inputs]

    def _import(self, node: OnnxNode, arguments: Sequence[Expr | None]) -> tuple[CostNode, Expr]:
        """Return the node that a cost model sees, and a variable for its first output."""
        inputs = [None if argument is None else ir.Value(name=str(place)) for place, argument in enumerate(arguments)]
        attributes = [as_attribute(name, value) for name, value in node.plain_attributes.items()]
        read = ir.Node(node.domain, node.op_type, inputs, attributes, num_outputs=node.outputs)
        try:
            importer = importer_of(node.op_type)
            if importer is None:
                raise Declined("there is no such operator in the IR")
            found = importer(Source(read, arguments, self.types, self.typing.elements, self.target.opset))
            outputs = [self._placed(each) for each in ([found] if isinstance(found, Expr) else found)]
        except (Declined, EqsatError):
            types = tuple([self.types.get(argument) for argument in arguments if argument is not None])
            seen = CostNode(f"onnx.{node.op_type}", None, types, self.target.cost_node.type)
            return seen, stand_in(UNKNOWN, False, self.types)
        ty = self.types[outputs[0]]
        dtypes = tuple([None if argument is None else _dtype_of(self.types[argument]) for argument in arguments])
        if not node.domain and not admits(node.op_type, self.target.opset, dtypes, _dtype_of(ty)):
            raise self.target.unwritable(self.target.asked, f"{node.op_type} of these element types")
        return self._seen(outputs), stand_in(ty, False, self.types)

    def _placed(self, expr: Expr) -> Expr:
        """Type an output and bring it to the form that the importer gives it."""
        self.typing.run(expr)
        if isinstance(expr, (Call, TupleGetItem)):
            expr = static_form(expr, self.types, self.typing.elements)
            self.typing.run(expr)
        return expr

    def _seen(self, outputs: Sequence[Expr]) -> CostNode:
        """Return what a cost model sees of what one node was read as: one operator, or a kernel of several."""
        graph = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        nodes = cost_nodes(graph, self.types)
        calls = [node for expr, node in nodes.items() if isinstance(expr, Call)]
        if len(calls) < 2:
            return calls[0] if calls else NOTHING
        types = tuple([node.type for expr, node in nodes.items() if isinstance(expr, (Var, Constant))])
        return CostNode(calls[-1].op, calls[-1].attrs, types, calls[-1].type, body=tuple(calls), graph=graph)


def _dtype_of(ty: Type) -> str | None:
    return ty.dtype if isinstance(ty, TensorType) else None


def _fields(expr: Expr) -> Iterator[Expr]:
    """Yield the fields of a tuple and of the tuples in it."""
    agenda = list(expr.fields) if isinstance(expr, Tuple) else []
    while agenda:
        field = agenda.pop()
        yield field
        agenda += field.fields if isinstance(field, Tuple) else ()
