"""Nodes over constants that the interpreter does not know. They are computed once, before the optimization.

Small nodes are computed here by ONNX's reference implementation. Others are computed in a separate process, which is
started for the first of them and serves the whole model. Nodes that are random, too large, too slow or fail are kept,
and the reason is recorded for the report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from onnx import helper, numpy_helper

from eqsat.egraph.report import Limits
from eqsat.errors import EqsatError, EvaluationError, ModelError
from eqsat.onnx import contrib
from eqsat.onnx.converters.target import attributes
from eqsat.onnx.evaluator import MOST_BYTES, Evaluator
from eqsat.onnx.graphs import nodes_of, subgraphs
from eqsat.onnx.opaque import RANDOM, OpaqueNode, is_small, small_outputs
from eqsat.onnx.reference import one_node_model
from eqsat.onnx.types import DTYPES
from eqsat.relay.expr import Call, Expr, Function, Op
from eqsat.relay.fold import GROWTH_LIMIT, fold_constants, nbytes
from eqsat.relay.traits import Trait
from eqsat.relay.visitor import post_order

_FIRST_IR_VERSION = 8
"""The first IR version in which models have functions, and initializers that are not inputs."""

_DOMAINS = ("", "ai.onnx.ml", contrib.DOMAIN)
"""Domains whose operators onnxruntime or the reference implementation supports."""

_TOO_LARGE = "the result is too large"

Outputs: TypeAlias = "tuple[np.ndarray[Any, Any] | None, ...]"
"""The outputs of a node; None for unused outputs."""


MOST_SECONDS = 60.0
"""Time limit, in seconds, for all nodes of a model that are computed in the separate process."""


@contextmanager
def constant_nodes(model: ir.Model, limits: Limits) -> Iterator[ConstantNodes]:
    """Provide an object that computes the nodes of a model over constants, within the time that the limits allow."""
    with Evaluator(min(MOST_SECONDS, limits.seconds)) as evaluator:
        yield ConstantNodes(model, evaluator)


@dataclass
class Folded:
    """What happened to nodes over constants that the interpreter does not know.

    Attributes:
        computed: Operator type -> number of nodes that were computed.
        left: Operator type -> reasons why nodes of it were kept, with the number of nodes.
    """

    computed: dict[str, int] = field(default_factory=dict)
    left: dict[str, dict[str, int]] = field(default_factory=dict)

    def keep(self, op_type: str, reason: str) -> None:
        """Record why a node is kept."""
        reasons = self.left.setdefault(op_type, {})
        reasons[reason] = reasons.get(reason, 0) + 1


class ConstantNodes:
    """Computes each node of a model once, if all its inputs are constants.

    Args:
        model: The model.
        evaluator: The process that computes nodes that are not small.

    Attributes:
        folded: What was computed and what was kept, for the report.
    """

    def __init__(self, model: ir.Model, evaluator: Evaluator):
        self.model = model
        self.folded = Folded()
        self._evaluator = evaluator
        self._known: dict[bytes, Outputs | None] = {}
        self._computed_nodes: set[ir.Node] = set()
        self._left_nodes: set[ir.Node] = set()

    def take(self, model: ir.Model) -> None:
        """Continue with a model that was derived from the previous one; nodes that were kept there are tried again."""
        self.model = model
        self.folded.left.clear()

    def foreign(self, call: Call, values: Sequence[Any], sources: int) -> Any:
        """Compute an opaque operator for :func:`eqsat.relay.fold.fold_constants`."""
        opaque: OpaqueNode = attributes(call).node
        found = self.outputs(opaque, values, sources)
        return found[0] if found is not None and len(found) == 1 else found

    def fold(self, chosen: Expr) -> Function:
        """Return a chosen graph in which nodes with constant inputs, which rules may have created, are computed.

        Raises:
            ModelError: It is not a function.
        """
        if not isinstance(chosen, Function):
            raise ModelError("a compiler or composite claims the graph, so rules do not change it")
        if not any(isinstance(node, Call) and _is_foreign(node) for node in post_order(chosen.body)):
            return chosen
        body = fold_constants(chosen.body, foreign=self.foreign)
        return Function(chosen.params, body, chosen.ret_type, chosen.type_params, chosen.attrs)

    def outputs(self, opaque: OpaqueNode, inputs: Sequence[Any], sources: int) -> Outputs | None:
        """Return the outputs of a node; None if the node is kept.

        Args:
            opaque: The node.
            inputs: An array or ONNX tensor for each argument of the call; the captured values come last.
            sources: Bytes of the constants that these are computed from.
        """
        node = opaque.node
        if node in self._left_nodes:
            return None
        if opaque.is_wide:
            (inputs,) = inputs
        try:
            found = self._outputs(opaque, inputs, GROWTH_LIMIT + sources)
        except EvaluationError as error:
            self._left_nodes.add(node)
            self.folded.keep(node.op_type, str(error))
            return None
        if found is not None and node not in self._computed_nodes:
            self._computed_nodes.add(node)
            self.folded.computed[node.op_type] = self.folded.computed.get(node.op_type, 0) + 1
        return found

    def _outputs(self, opaque: OpaqueNode, inputs: Sequence[Any], most: int) -> Outputs | None:
        """The outputs, of ``most`` bytes at most; None of a node that computes something else each time."""
        node = opaque.node
        wanted = [index for index, value in enumerate(node.outputs) if value.uses() or value.is_graph_output()]
        parts = (node, *nodes_of(*subgraphs(opaque.attributes)))
        functions = self._functions_of(parts)
        if any(each.op_type in RANDOM for each in (*parts, *nodes_of(*[made.graph for made in functions]))):
            return None
        if any(attr.is_ref() for attr in opaque.attributes):
            return None
        if not functions and node.domain not in _DOMAINS:
            raise EvaluationError(f"nothing here computes operators of domain {node.domain!r}")
        if not all(isinstance(each, (np.ndarray, np.generic, ir.TensorProtocol)) for each in inputs):
            raise EvaluationError("an input is no tensor")
        stated = sum(nbytes(opaque.types[index]) for index in wanted)
        if math.isfinite(stated) and stated > most:
            raise EvaluationError(_TOO_LARGE)
        are_arrays = all(isinstance(each, (np.ndarray, np.generic)) for each in inputs)
        if are_arrays and stated <= most and is_small(opaque, map(np.size, inputs)):
            with suppress(EqsatError):
                return tuple(small_outputs(opaque, inputs))
        if sum(each.nbytes for each in inputs) > MOST_BYTES:
            raise EvaluationError(f"its inputs have more than {MOST_BYTES >> 20} MiB")
        request = self._request(opaque, inputs, wanted, functions)
        key = blake2b(request).digest()
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self._computed(request, most, len(node.outputs), wanted)
        found = self._known[key]
        if found is None:
            raise EvaluationError("an equal node is left")
        return found

    def _computed(self, request: bytes, most: int, count: int, wanted: Sequence[int]) -> Outputs:
        arrays = [numpy_helper.to_array(tensor) for tensor in self._evaluator.outputs(request, most)]
        for array in arrays:
            if array.dtype.name not in DTYPES.values():
                raise EvaluationError(f"its result is of element type {array.dtype.name}, which constants cannot have")
        found: list[np.ndarray[Any, Any] | None] = [None] * count
        for index, array in zip(wanted, arrays, strict=True):
            found[index] = array
        return tuple(found)

    def _functions_of(self, nodes: Iterable[ir.Node]) -> list[ir.Function]:
        """Return the local functions that nodes call, directly or indirectly."""
        known, found = self.model.functions, dict[ir.Function, None]()
        agenda = list(nodes) if known else []
        while agenda:
            function = known.get(agenda.pop().op_identifier())
            if function is not None and function not in found:
                found[function] = None
                agenda += nodes_of(function.graph)
        return list(found)

    def _request(
        self, opaque: OpaqueNode, inputs: Sequence[Any], wanted: Sequence[int], functions: Sequence[ir.Function]
    ) -> bytes:
        """Return a model of one node, with its inputs as initializers."""
        node, count = opaque.node, sum(opaque.given)
        places = opaque.placed(range(count))
        names = ["" if place is None else f"input {place}" for place in places]
        outputs = [f"output {index}" for index in range(len(node.outputs))]
        proto = helper.make_node(node.op_type, names, outputs, domain=node.domain, overload=node.overload)
        proto.attribute.extend([ir.to_proto(attr) for attr in opaque.attributes])
        given = [*filter(None, names), *(value.name for value in opaque.captured)]
        model = one_node_model(
            proto,
            {},
            self.model.opset_imports,
            [_tensor_proto(each, name) for each, name in zip(inputs, given, strict=True)],
            ir_version=max(int(self.model.ir_version), _FIRST_IR_VERSION),
            functions=[ir.to_proto(function) for function in functions],
        )
        kept = [model.graph.output[index] for index in wanted]
        del model.graph.output[:]
        model.graph.output.extend(kept)
        serialized: bytes = model.SerializeToString(deterministic=True)
        return serialized


def _is_foreign(call: Call) -> bool:
    """Return whether a call is a call of an opaque operator."""
    return isinstance(call.op, Op) and call.op.has(Trait.FOREIGN)


def _tensor_proto(value: Any, name: str) -> Any:
    tensor = value if isinstance(value, ir.TensorProtocol) else ir.Tensor(np.asarray(value))
    proto = ir.serde.serialize_tensor(tensor)
    proto.name = name
    return proto
