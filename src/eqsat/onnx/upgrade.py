"""A model over newer standard operators: each that is understood is spelled anew."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
from onnx import defs

from eqsat.errors import ModelError
from eqsat.onnx.constants import ConstantNodes
from eqsat.onnx.converters.source import is_standard
from eqsat.onnx.exporter import export_model
from eqsat.onnx.files import Given, load
from eqsat.onnx.graphs import attributes_of, nodes_of, subgraphs
from eqsat.onnx.imported import opset_of
from eqsat.onnx.importer import NEWEST_OPSET, import_model
from eqsat.onnx.opaque import OpaqueNode
from eqsat.onnx.provenance import Provenance
from eqsat.relay.expr import Call
from eqsat.relay.visitor import post_order


def at_opset(
    model: Given, opset: int | None, constants: ConstantNodes | None = None, provenance: bool = False
) -> ir.Model:
    """``model`` over version ``opset`` of the standard operators; the same model if that is its version.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        opset: The version, not below the model's own; None for the model's own.
        constants: Computes nodes over constants that are not understood, if it is given.
        provenance: Whether the nodes of a model that is made say where they are from.

    Raises:
        ModelError: The version is older or not known, or a node that is not understood is of another version of its
            operator there.
    """
    model = load(model)
    old = opset_of(model)
    if opset is None or old == opset:
        return model
    if not old < opset <= NEWEST_OPSET:
        raise ModelError(f"a model of opset {old} can be raised to {old + 1} to {NEWEST_OPSET}, not to {opset}")
    imported = import_model(model, constants=constants)
    for expr in post_order(imported.function.body):
        opaque = None if not isinstance(expr, Call) or expr.attrs is None else expr.attrs.get("node")
        if isinstance(opaque, OpaqueNode):
            for node in (opaque.node, *nodes_of(*subgraphs(attributes_of(opaque.node)))):
                name = node.op_type
                if node.domain == "" and _version(name, old) != _version(name, opset):
                    raise ModelError(
                        f"{name} node {node.name!r} is not understood, and {name} is another version of itself in "
                        f"opset {opset}: keep opset {old}, or convert the model before"
                    )
    told = Provenance(model) if provenance else None
    return export_model(imported.function, replace(imported, opset=opset), provenance=told)


def _version(op_type: str, opset: int) -> int | None:
    """The opset since which an operator is as it is in ``opset``; None if it has none."""
    if not is_standard(op_type, opset):
        return None
    return int(defs.get_schema(op_type, opset).since_version)
