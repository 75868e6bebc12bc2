"""An ONNX model in, a cheaper one that computes the same out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from eqsat.collector import paused_gc
from eqsat.cost import CostFunction, OpCount
from eqsat.egraph.report import Limits, Report
from eqsat.errors import ModelError
from eqsat.layers.optimize import optimize_with_report
from eqsat.onnx.cost import OnnxCost
from eqsat.onnx.exporter import export_body, export_model
from eqsat.onnx.files import from_proto, to_proto
from eqsat.onnx.graphs import nodes_of
from eqsat.onnx.imported import Imported, opset_of
from eqsat.onnx.importer import import_model
from eqsat.pipeline.explain import Explanation
from eqsat.pipeline.extract import Extraction
from eqsat.relay.expr import Function
from eqsat.rules import RuleSet, Soundness, attending, default

ATTENTION_SINCE = 23
"""The first opset with operators for attention and rotary embeddings."""

WITHOUT_ATTENTION = default.without(*[rule.name for rule in attending if rule.soundness is not Soundness.FINITE])
"""The default rules without those that find them."""


@dataclass
class Optimization:
    """A model before and after, and how it came about.

    Args:
        before: the model that was given; it is not changed.
        after: the optimized one.
        imported: the model as a function, and which nodes are not understood and why.
        extraction: the chosen graph and the report of all saturations.
        bodies: what was chosen for the bodies of control flow, inner ones first.
        seconds: by phase.
    """

    before: ir.Model
    after: ir.Model
    imported: Imported
    extraction: Extraction
    bodies: list[Extraction]
    seconds: dict[str, float]

    @property
    def extractions(self) -> list[Extraction]:
        """That of the graph, then those of the bodies."""
        return [self.extraction, *self.bodies]

    @property
    def input_cost(self) -> float:
        """Cost of the model that was given, each body counted once."""
        return sum(each.input_cost for each in self.extractions)

    @property
    def cost(self) -> float:
        """Cost of the optimized model."""
        return sum(each.cost for each in self.extractions)

    @property
    def lower_bound(self) -> float:
        """Proven lower bound on the cost."""
        return sum(each.lower_bound for each in self.extractions)

    @property
    def optimal(self) -> bool:
        """Whether every choice is proved cheapest."""
        return all(each.optimal for each in self.extractions)

    @property
    def explanations(self) -> list[Explanation]:
        """How the graph and the bodies follow from what was given.

        Raises:
            ArgumentError: the model was optimized without ``explain=True``.
        """
        return [explanation for each in self.extractions for explanation in each.explanations]


@paused_gc()
def optimize(model: Any, *args: Any, **kwargs: Any) -> Any:
    """The model, cheaper: ``run(model, ...).after``, of the type that was given.

    Args:
        model: an ``onnx_ir.Model`` or ``onnx.ModelProto``; it is not changed.
        args, kwargs: as :func:`run`.
    """
    if isinstance(model, ir.Model):
        return run(model, *args, **kwargs).after
    if isinstance(model, onnx.ModelProto):
        return to_proto(run(from_proto(model), *args, **kwargs).after)
    raise ModelError(f"a model is an onnx_ir.Model or onnx.ModelProto, not {type(model).__name__}")


@paused_gc()
def run(
    model: ir.Model,
    rules: Iterable[Any] | None = None,
    limits: Limits | None = None,
    cost_model: CostFunction | None = None,
    method: str = "auto",
    on_iteration: Callable[[Report], None] | None = None,
    explain: bool = False,
) -> Optimization:
    """Optimize a model and tell how.

    Args:
        model: the model.
        rules: rule sets or rules, by default those of :func:`rules_for`.
        limits: when saturation stops.
        cost_model: cost of one operator, by default ``OpCount()``.
        method: how to extract: ``tree``, ``dag``, ``local``, ``exact`` or ``auto``.
        on_iteration: called with the report after every iteration of the saturation.
        explain: keep what the ``explanations`` need.

    Raises:
        ModelError: the graph is not well-formed.
        EqsatError: as :func:`eqsat.saturate` and :func:`eqsat.extract`.
    """
    start = time.perf_counter()
    cost = OnnxCost(cost_model or OpCount(), opset_of(model))
    report = Report()
    if rules is None:
        rules = rules_for(model)

    def chosen(imported: Imported) -> tuple[Extraction, Function]:
        extraction = optimize_with_report(imported.function, rules, limits, cost, method, on_iteration, explain)
        report.merge(extraction.report)
        if not isinstance(extraction.expr, Function):
            raise ModelError("the graph is one that rules may not look into")
        return extraction, extraction.expr

    def body(imported: Imported) -> ir.Graph:
        extraction, function = chosen(imported)
        bodies.append(extraction)
        return export_body(function, imported)

    bodies: list[Extraction] = []
    imported = import_model(model, body)
    read = time.perf_counter() - start - sum(report.phases.values())
    extraction, function = chosen(imported)
    extraction.report = report
    found = time.perf_counter()
    after = export_model(function, imported)
    seconds = {"import": read, **report.phases, "export": time.perf_counter() - found}
    return Optimization(model, after, imported, extraction, bodies, seconds)


def rules_for(model: ir.Model) -> RuleSet:
    """The rules that a model is optimized by if none are asked for: ``eqsat.rules.default``.

    Of these the exact ones only for a model that quantizes by what it computes, where a last bit decides a step of
    all, and none that finds what the opset of the model has no operator for.
    """
    found = default if opset_of(model) >= ATTENTION_SINCE else WITHOUT_ATTENTION
    return found.sound(Soundness.EXACT) if _quantizes_by_values(model) else found


def _quantizes_by_values(model: ir.Model) -> bool:
    """Whether scales are computed from the values they quantize, which magnifies every rounding."""
    return any(node.op_type.startswith("DynamicQuantize") for node in nodes_of(model.graph))
