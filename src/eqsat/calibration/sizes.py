"""Kernels of open sizes as they are where these are known: what cost models see of a node, with numbers for names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eqsat.cost import CostNode
from eqsat.onnx.opaque import OpaqueNode
from eqsat.relay.dims import size_by
from eqsat.relay.expr import Expr, Op, Var
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import Dim, TensorType, TupleType, Type
from eqsat.relay.visitor import post_order, substitute

Sizes = Mapping[str, int]
"""Name of an open dimension -> its size."""


def bound_node(node: CostNode, sizes: Sizes) -> CostNode:
    """Return what is seen of a node where dimensions have these sizes."""
    graph = node.graph
    if graph is not None:
        named = [each for each in post_order(graph) if isinstance(each, Var)]
        new: dict[Expr, Expr] = {each: Var(each.name_hint, bound_type(each.type_annotation, sizes)) for each in named}
        graph = substitute(graph, new)
    attrs = node.attrs
    if attrs is not None and isinstance(opaque := attrs.get("node"), OpaqueNode):
        types = tuple([bound_type(ty, sizes) or ty for ty in opaque.types])
        attrs = make_attrs(Op.get(node.op), {"node": replace(opaque, types=types)})
    return replace(
        node,
        attrs=attrs,
        arg_types=tuple([bound_type(ty, sizes) for ty in node.arg_types]),
        type=bound_type(node.type, sizes),
        body=tuple([bound_node(each, sizes) for each in node.body]),
        graph=graph,
    )


def bound_type(ty: Type | None, sizes: Sizes) -> Type | None:
    """Return a type with the sizes that are known."""
    if isinstance(ty, TupleType):
        fields = [bound_type(field, sizes) for field in ty.fields]
        return TupleType([field for field in fields if field is not None])
    return TensorType([_bound(dim, sizes) for dim in ty.shape], ty.dtype) if isinstance(ty, TensorType) else ty


def _bound(dim: Dim, sizes: Sizes) -> Dim:
    size = size_by(dim, sizes)
    return dim if size is None or size < 0 else size
