"""An ONNX model cut into what a target computes in one call each, and the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from eqsat.composites.rules import composite_rules
from eqsat.cost import CostFunction, OpCount
from eqsat.egraph.report import Limits, Report
from eqsat.errors import ArgumentError, ModelError
from eqsat.onnx.cost import OnnxCost
from eqsat.onnx.imported import Imported, opset_of
from eqsat.onnx.importer import import_model
from eqsat.onnx.local_functions import export_partitioned
from eqsat.pipeline.extract import extract
from eqsat.pipeline.saturate import saturate
from eqsat.relay.expr import Function
from eqsat.relay.infer import infer_type
from eqsat.relay.module import IRModule
from eqsat.relay.op.contrib import dnnl, get_pattern_table, tensorrt
from eqsat.relay.op.contrib.register import registered
from eqsat.relay.transform.merge_composite import merge_composite
from eqsat.rules import default

SHIPPED = {"dnnl": dnnl, "tensorrt": tensorrt}
"""The targets whose pattern tables are part of eqsat."""


@dataclass(frozen=True)
class Partitioning:
    """A model before and after.

    Args:
        before: the model that was given; it is not changed.
        after: the same with a node for each composite, and a local function for each kind of composite.
        composites: kind of composite -> nodes of it.
        opaque: operator -> reasons why nodes of it are not understood, with their number.
        report: what the rules did.
    """

    before: ir.Model
    after: ir.Model
    composites: Counter[str]
    opaque: dict[str, dict[str, int]]
    report: Report


def partition(
    model: ir.Model,
    target: str,
    rules: Iterable[Any] | None = None,
    limits: Limits | None = None,
    cost_model: CostFunction | None = None,
    method: str = "auto",
    on_iteration: Callable[[Report], None] | None = None,
) -> Partitioning:
    """Cut a model into composites of a target: the cheapest cover of the cheapest graph that the rules lead to.

    Args:
        model: the model.
        target: whose pattern table is taken; also the domain of the new nodes.
        rules: what acts beside the table, by default ``eqsat.rules.default``; none to cover the graph as it is.
        limits: when saturation stops.
        cost_model: cost of one node, a composite's included, by default ``OpCount()``.
        method: how to extract, as :func:`eqsat.extract`.
        on_iteration: called with the report after every iteration of the saturation.

    Raises:
        ArgumentError: no pattern table is registered for the target.
        ModelError: the graph is not well-formed.
        EqsatError: as :func:`eqsat.saturate` and :func:`eqsat.extract`.
    """
    table = _table(target)
    imported = import_model(model)
    acting = [*([default] if rules is None else rules), composite_rules(table)]
    saturation = saturate(imported.function, acting, limits, on_iteration=on_iteration)
    chosen = extract(saturation, OnnxCost(cost_model or OpCount(), opset_of(model)), method)
    return _partitioning(chosen.expr, imported, target, chosen.report)


def merge(model: ir.Model, target: str) -> Partitioning:
    """Cut a model as it is into composites of a target, in the order of its table, as Relay's MergeComposite does.

    Args and errors: as :func:`partition`.
    """
    table = _table(target)
    imported = import_model(model)
    typed: Any = infer_type(imported.function)
    return _partitioning(merge_composite(typed, IRModule(), table), imported, target, Report())


def targets() -> list[str]:
    """The targets that can be asked for: those shipped, and what else has registered a pattern table."""
    return sorted({*SHIPPED, *registered()})


def _table(target: str) -> Any:
    table = get_pattern_table(target)
    if table is None:
        raise ArgumentError(f"there is no pattern table for {target!r}: there are those of {', '.join(targets())}")
    return table


def _partitioning(function: Any, imported: Imported, target: str, report: Report) -> Partitioning:
    if not isinstance(function, Function):
        raise ModelError("the graph is one that rules may not look into")
    after = export_partitioned(function, imported, target)
    composites = Counter(node.op_type for node in after.graph if node.domain == target)
    return Partitioning(imported.model, after, composites, imported.opaque, report)
