"""Rewriting of a model for a newer opset."""

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
    """Return ``model`` with the operators of version ``opset``; the same model if that is its version.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        opset: The version of the standard operators, not older than the model's own; None for the model's own.
        constants: An object that computes nodes over constants that are not understood; optional.
        provenance: Whether the nodes of a new model store where they come from.

    Raises:
        ModelError: The version is older than the model's or not known, or the operator of a node that is not understood
            changed up to this version.
    """
    model = load(model)
    old = opset_of(model)
    if opset is None or old == opset:
        return model
    if not old < opset <= NEWEST_OPSET:
        raise ModelError(
            f"a model of opset {old} can be converted to the opsets {old + 1} to {NEWEST_OPSET}, not to {opset}"
        )
    imported = import_model(model, constants=constants)
    for expr in post_order(imported.function.body):
        opaque = None if not isinstance(expr, Call) or expr.attrs is None else expr.attrs.get("node")
        if isinstance(opaque, OpaqueNode):
            for node in (opaque.node, *nodes_of(*subgraphs(attributes_of(opaque.node)))):
                name = node.op_type
                if node.domain == "" and _version(name, old) != _version(name, opset):
                    raise ModelError(
                        f"{name} node {node.name!r} is not understood, and {name} has another version in opset "
                        f"{opset}: keep opset {old}, or convert the model first"
                    )
    told = Provenance(model) if provenance else None
    return export_model(imported.function, replace(imported, opset=opset), provenance=told)


def _version(op_type: str, opset: int) -> int | None:
    """Return the opset in which an operator got the version that ``opset`` has; None if there is no such operator."""
    if not is_standard(op_type, opset):
        return None
    return int(defs.get_schema(op_type, opset).since_version)
