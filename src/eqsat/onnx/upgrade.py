"""Rewriting of a model for a newer opset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir
from onnx import helper, version_converter

from eqsat.errors import ModelError
from eqsat.onnx.constants import ConstantNodes
from eqsat.onnx.converters.target import attributes
from eqsat.onnx.exporter import export_model
from eqsat.onnx.files import Given, from_proto, load
from eqsat.onnx.graphs import nodes_of, subgraphs
from eqsat.onnx.imported import opset_of
from eqsat.onnx.importer import NEWEST_OPSET, import_model
from eqsat.onnx.opaque import OpaqueNode, arguments_of, attributes_over
from eqsat.onnx.provenance import Provenance
from eqsat.onnx.reference import one_node_model
from eqsat.onnx.schemas import schema_of
from eqsat.onnx.types import type_proto
from eqsat.relay.expr import Call, Expr, Function, Tuple, TupleGetItem
from eqsat.relay.infer import infer_types
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order, rewrite_post_order, substitute


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
        ModelError: The version is older than the model's or not known, or a node that is not understood changed up to
            this version and ONNX's version converter cannot convert it.
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
    function = imported.function
    calls = [expr for expr in post_order(function.body) if isinstance(expr, Call)]
    changed = [call for call in calls if _is_changed(call, old, opset)]
    if changed:
        function = Function(function.params, _with_converted(function, changed, model, opset))
    told = Provenance(model) if provenance else None
    return export_model(function, replace(imported, opset=opset), provenance=told)


def _is_changed(call: Call, old: int, opset: int) -> bool:
    """Whether a call is a node that is not understood, with an operator that has another version in ``opset``."""
    opaque = None if call.attrs is None else call.attrs.get("node")
    if not isinstance(opaque, OpaqueNode):
        return False
    nodes = (opaque.node, *nodes_of(*subgraphs(opaque.attributes)))
    return any(node.domain == "" and _version(node.op_type, old) != _version(node.op_type, opset) for node in nodes)


def _with_converted(function: Function, changed: Sequence[Call], model: ir.Model, opset: int) -> Expr:
    """Return the body of a function of ``model`` with other nodes in the place of those that changed."""
    types = infer_types(function)
    taken = {call: [types[arg] for arg in arguments_of(call)] for call in changed}

    def visit(given: Expr, expr: Expr) -> Expr:
        if isinstance(given, Call) and isinstance(expr, Call) and given in taken:
            expr = _converted(expr, taken[given], model, opset)
        elif isinstance(expr, TupleGetItem) and isinstance(expr.tuple_value, Tuple):
            expr = expr.tuple_value.fields[expr.index]
        else:
            return expr
        expr.span = given.span
        return expr

    return rewrite_post_order(function.body, visit)


def _converted(call: Call, types: Sequence[Type], model: ir.Model, opset: int) -> Expr:
    """Return what a node that is not understood computes, over the operators that ONNX's own converter makes of it.

    Args:
        call: The node.
        types: The types of its arguments.
        model: The model that it is from.
        opset: The version of the operators to make.

    Raises:
        ModelError: The converter cannot convert it.
    """
    opaque: OpaqueNode = attributes(call).node
    name = opaque.node.op_type
    given = [f"i{place}" for place in range(sum(opaque.given))]
    captured = [f"c{place}" for place in range(len(opaque.captured))]
    node = helper.make_node(
        name,
        ["" if value is None else value for value in opaque.placed(given)],
        [f"o{place}" for place in range(len(opaque.node.outputs))],
        domain=opaque.node.domain,
        overload=opaque.node.overload,
    )
    values = [ir.Value(name=value) for value in captured]
    node.attribute.extend(map(ir.to_proto, attributes_over(opaque, values)))
    inputs = dict(zip([*given, *captured], map(type_proto, types), strict=True))
    try:
        whole = one_node_model(node, inputs, model.opset_imports, ir_version=model.ir_version)
        converted = import_model(from_proto(version_converter.convert_version(whole, opset)))
    except (RuntimeError, ModelError) as error:
        raise ModelError(
            f"{name} node {opaque.node.name!r} is not understood, and cannot be converted to opset {opset} ({error}): "
            "keep its opset, or convert the model first"
        ) from None
    return substitute(converted.function.body, dict(zip(converted.function.params, arguments_of(call), strict=True)))


def _version(op_type: str, opset: int) -> int | None:
    """Return the opset in which an operator got the version that ``opset`` has; None if there is no such operator."""
    schema = schema_of(op_type, opset)
    return None if schema is None else schema.since
