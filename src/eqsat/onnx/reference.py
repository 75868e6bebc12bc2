"""Nodes that the IR has no operator for, computed by ONNX's own reference implementation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from eqsat.errors import EvaluationError
from eqsat.onnx.types import DTYPES

MOST_ELEMENTS = 1 << 14
"""Maximum total number of elements of inputs and outputs; parts of the implementation are Python loops."""

_NAMES = frozenset(DTYPES.values())


def compute(node: ir.Node, arrays: Sequence[Any], opset: int) -> tuple[np.ndarray[Any, Any], ...]:
    """The outputs of one node.

    Args:
        node: a node without subgraphs, whose outputs follow from its inputs.
        arrays: its inputs, None for those that are left out.
        opset: version of the operators of its domain.

    Raises:
        EvaluationError: It is too large, the reference implementation cannot compute it, or an output is not a tensor.
    """
    from onnx.reference import ReferenceEvaluator  # what few models need takes a while to load

    given = {f"i{index}": array for index, array in enumerate(arrays) if array is not None}
    if not given or sum(map(np.size, given.values())) > MOST_ELEMENTS:
        raise EvaluationError(f"{node.op_type} of no input, or more than {MOST_ELEMENTS} elements, is not computed")
    inputs = ["" if array is None else f"i{index}" for index, array in enumerate(arrays)]
    outputs = [f"o{index}" for index in range(len(node.outputs))]
    proto = helper.make_node(node.op_type, inputs, outputs, domain=node.domain)
    proto.attribute.extend([ir.to_proto(attr) for attr in node.attributes.values()])
    model = one_node_model(proto, dict.fromkeys(given), {node.domain: opset})
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(model).run(None, given)
    except Exception as error:  # whatever the implementation of an operator runs into
        raise EvaluationError(f"{node.op_type} cannot be computed: {error}") from None
    return tuple(_tensor(node, value) for value in found)


def one_node_model(
    node: Any, inputs: Mapping[str, Any], opsets: Mapping[str, int], constants: Iterable[Any] = (), **said: Any
) -> Any:
    """A model of one node over inputs of the given types, None where these are not known."""
    graph = helper.make_graph(
        [node],
        "one",
        [onnx.ValueInfoProto(name=name, type=type) for name, type in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        list(constants),
    )
    return helper.make_model(graph, opset_imports=[helper.make_operatorsetid(*each) for each in opsets.items()], **said)


def _tensor(node: ir.Node, value: Any) -> np.ndarray[Any, Any]:
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.name not in _NAMES or value.size > MOST_ELEMENTS:
        raise EvaluationError(f"{node.op_type} gives no tensor of the IR, or a large one")
    return np.asarray(value, order="C")
