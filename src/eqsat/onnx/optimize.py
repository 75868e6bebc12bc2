"""An ONNX model in, a cheaper one that computes the same out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from eqsat.egraph.report import Limits, Report
from eqsat.errors import ModelError
from eqsat.extraction import CostNode, OpCount
from eqsat.onnx.cost import OnnxCost
from eqsat.onnx.exporter import export_body, export_model
from eqsat.onnx.files import from_proto, to_proto
from eqsat.onnx.imported import Imported, opset_of
from eqsat.onnx.importer import import_model
from eqsat.relay.expr import Call, Constant, Function
from eqsat.relay.visitor import post_order
from eqsat.stages import Extraction, extract, saturate


@dataclass
class Optimization:
    """A model before and after, and how it came about.

    Args:
        before: the model that was given; it is not changed.
        after: the optimized one.
        imported: the model as a function, and which nodes are not understood and why.
        extraction: the chosen graph, its cost, and the report of the saturation.
        seconds: by phase.
    """

    before: ir.Model
    after: ir.Model
    imported: Imported
    extraction: Extraction
    seconds: dict[str, float]


def optimize(model: Any, *args: Any, **kwargs: Any) -> Any:
    """The model, cheaper: ``run(model, ...).after``, of the type that was given.

    Args:
        model: an ``onnx_ir.Model`` or ``onnx.ModelProto``; it is not changed.
        args, kwargs: as :func:`run`.
    """
    if isinstance(model, ir.Model):
        return run(model, *args, **kwargs).after
    import onnx

    if isinstance(model, onnx.ModelProto):
        return to_proto(run(from_proto(model), *args, **kwargs).after)
    raise ModelError(f"a model is an onnx_ir.Model or onnx.ModelProto, not {type(model).__name__}")


def run(
    model: ir.Model,
    rules: Iterable[Any] | None = None,
    limits: Limits | None = None,
    cost_model: Callable[[CostNode], float] | None = None,
    method: str = "auto",
    on_iteration: Callable[[Report], None] | None = None,
    explain: bool = False,
) -> Optimization:
    """Optimize a model and tell how.

    Args:
        model: the model.
        rules: rule sets or rules, by default ``eqsat.rules.default``.
        limits: when saturation stops.
        cost_model: cost of one operator, by default ``OpCount()``.
        method: how to extract: ``tree``, ``dag``, ``local``, ``exact`` or ``auto``.
        on_iteration: called with the report after every iteration of the saturation.
        explain: keep what the extraction's ``explanation`` needs.

    Raises:
        ModelError: the graph is not well-formed.
        EqsatError: as :func:`eqsat.saturate` and :func:`eqsat.extract`.
    """
    start = time.perf_counter()
    cost = OnnxCost(cost_model or OpCount(), opset_of(model))
    report = Report()

    def chosen(function: Function, explain: bool = False) -> tuple[Extraction, Function]:
        extraction = extract(saturate(function, rules, limits, on_iteration, explain), cost, method)
        report.merge(extraction.report)
        if not isinstance(extraction.expr, Function):
            raise ModelError("the graph is one that rules may not look into")
        return extraction, extraction.expr

    def body(imported: Imported) -> ir.Graph:
        function = imported.function
        return export_body(function if _is_single(function) else chosen(function)[1], imported)

    imported = import_model(model, body)
    read = time.perf_counter() - start - sum(report.phases.values())
    extraction, function = chosen(imported.function, explain)
    extraction.report = report
    found = time.perf_counter()
    after = export_model(function, imported)
    seconds = {"import": read, **report.phases, "export": time.perf_counter() - found}
    return Optimization(model, after, imported, extraction, seconds)


def _is_single(function: Function) -> bool:
    """Whether a function is one operator at most, over parameters alone: there is nothing to combine."""
    calls = [node for node in post_order(function.body) if isinstance(node, Call)]
    return len(calls) <= 1 and not any(isinstance(arg, Constant) for call in calls for arg in call.args)
