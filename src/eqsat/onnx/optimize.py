"""An ONNX model in, a cheaper one that computes the same out."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Unpack, overload

import onnx
import onnx_ir as ir

from eqsat.brief import one_line
from eqsat.collector import paused_gc
from eqsat.egraph.report import Report
from eqsat.egraph.runner import OnIteration
from eqsat.layers.optimize import optimize_with_report
from eqsat.notebook import preview, table
from eqsat.onnx.constants import ConstantNodes, Folded, constant_nodes
from eqsat.onnx.cost import onnx_cost
from eqsat.onnx.definition import definition_rules
from eqsat.onnx.exporter import export_body, export_model
from eqsat.onnx.files import Given, PickledModel, load, to_proto
from eqsat.onnx.graphs import nodes_of
from eqsat.onnx.imported import Imported, opset_of
from eqsat.onnx.importer import import_model
from eqsat.onnx.upgrade import at_opset
from eqsat.pipeline.extract import Extraction, Extractions
from eqsat.pipeline.options import ModelKeywords, Options, Rules, takes
from eqsat.relay.expr import Expr, Function
from eqsat.rules import RuleSet, Soundness, attending, default

_log = logging.getLogger(__name__)

ATTENTION_SINCE = 23
"""The first opset with operators for attention and rotary embeddings."""

WITHOUT_ATTENTION = default.without(*[rule.name for rule in attending if rule.soundness is not Soundness.FINITE])
"""The default rules without those that find them."""


@dataclass(frozen=True)
class Body:
    """The body of a node that was optimized by itself.

    Attributes:
        imported: It as a function.
        extraction: What was chosen.
        function: The same with what is constant computed.
        graph: What takes the place of the body.
        names: The names of the values there that each expression is written as.
    """

    imported: Imported
    extraction: Extraction
    function: Function
    graph: ir.Graph
    names: dict[Expr, list[str]]


@dataclass
class Optimization(Extractions):
    """A model before and after, and how it came about.

    Attributes:
        before: The model that was given; it is not changed.
        after: The optimized one.
        options: How it was optimized; the cost model is that of the nodes that are written.
        imported: The model as a function, and which nodes are not understood and why.
        extractions: What was chosen for the graph, with the report of all saturations, then for the bodies of control
            flow, inner ones first.
        folded: Nodes over constants that are not understood: which were computed, and which were left and why.
        seconds: Time of each phase, in seconds.
        written: The bodies as they were read and written; none where this comes from a pickle.
    """

    before: ir.Model
    after: ir.Model
    options: Options
    imported: Imported
    extractions: list[Extraction]
    folded: Folded
    seconds: dict[str, float]
    written: list[Body] = field(default_factory=list)

    def __copy__(self) -> Optimization:
        return replace(self)  # with the models themselves, not what stands for them in pickles

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but ``imported`` and ``written``, whose nodes refer to a model in memory."""
        state = {name: value for name, value in vars(self).items() if name not in ("imported", "written")}
        return state | {name: PickledModel(state[name]) for name in ("before", "after")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, imported=import_model(at_opset(state["before"], state["options"].opset)), written=[])

    def __repr__(self) -> str:
        nodes = f"{len(self.after.graph)} nodes, were {len(self.before.graph)}"
        return one_line(f"Optimization({nodes}; {self.extraction!r})")

    def _repr_html_(self) -> str:
        operators = [Counter(node.op_type for node in each.graph) for each in (self.before, self.after)]
        counts = [(name, *[each[name] for each in operators]) for name in sorted(operators[0] | operators[1])]
        seconds = table(("phase", "seconds"), list(self.seconds.items()))
        return preview(repr(self), table(("operator", "before", "after"), counts), seconds)

    @property
    def extraction(self) -> Extraction:
        """That of the graph, without the bodies."""
        return self.extractions[0]

    @property
    def bodies(self) -> list[Extraction]:
        """Those of the bodies of control flow, inner ones first."""
        return self.extractions[1:]


@overload
def optimize(
    model: onnx.ModelProto,
    rules: Rules | None = None,
    *,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[ModelKeywords],
) -> onnx.ModelProto: ...
@overload
def optimize(  # type: ignore[overload-cannot-match]  # the types of onnx are not read here
    model: ir.Model | str | os.PathLike[str],
    rules: Rules | None = None,
    *,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[ModelKeywords],
) -> ir.Model: ...
@takes(ModelKeywords)
def optimize(
    model: Given,
    rules: Rules | None = None,
    *,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[ModelKeywords],
) -> ir.Model | onnx.ModelProto:
    """A cheaper model that computes the same.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed. Of an ``onnx.ModelProto`` the
            result is one, too, and otherwise an ``onnx_ir.Model``.
        rules, on_iteration, keywords: As for :func:`run`.

    Raises:
        ModelError: It is no model, or its graph is not well-formed.
        EqsatError: As for :func:`eqsat.optimize`.
    """
    after = run(model, on_iteration=on_iteration, options=Options.of(keywords, rules=rules)).after
    return to_proto(after) if isinstance(model, onnx.ModelProto) else after


@takes(ModelKeywords)
@paused_gc()
def run(
    model: Given,
    rules: Rules | None = None,
    *,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[ModelKeywords],
) -> Optimization:
    """Optimize a model and tell how.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        rules: Rule sets or rules, by default those of :func:`rules_for`.
        on_iteration: Called with the report after every iteration of a saturation.
        keywords: Further options, or all of them as ``options``: see :class:`eqsat.Options`. Those about time hold
            for the whole call, bodies of control flow included.

    Raises:
        ModelError: The model cannot be read, is not well-formed, or cannot be written with the operators of the
            ``opset``.
        EqsatError: As for :func:`eqsat.optimize`.
    """
    options = Options.of(keywords, rules=rules)
    start = time.perf_counter()
    given = load(model)
    with constant_nodes(given, options.limits) as constants:
        return _run(given, on_iteration, options, start, constants)


def _run(
    given: ir.Model, on_iteration: OnIteration | None, options: Options, start: float, constants: ConstantNodes
) -> Optimization:
    """As :func:`run`; the call began at ``start``, by ``time.perf_counter()``."""
    model = at_opset(given, options.opset, constants)
    constants.take(model)
    defines = options.rules is None
    acting = rules_for(model) if options.rules is None else options.rules
    cost = onnx_cost(options.cost_model, opset_of(model), options.runtime)
    options = replace(options, rules=acting, cost_model=cost)
    report = Report()

    def chosen(imported: Imported, has_inputs: bool) -> tuple[Extraction, Function]:
        left = options.after(time.perf_counter() - start, report.phases.get("extract", 0.0))
        left = replace(left, rules=with_definitions(left.rules, imported)) if defines else left
        extraction = optimize_with_report(
            imported.function, on_iteration=on_iteration, has_inputs=has_inputs, options=left
        )
        report.merge(extraction.report)
        return extraction, constants.fold(extraction.expr)

    def improved(imported: Imported) -> ir.Graph:
        extraction, function = chosen(imported, has_inputs=False)
        graph, names = export_body(function, imported)
        bodies.append(Body(imported, extraction, function, graph, names))
        return graph

    bodies: list[Body] = []
    imported = import_model(model, improved, constants)
    read = time.perf_counter() - start - sum(report.phases.values())
    unknown = ", ".join(imported.opaque) or "nothing"
    _log.info("read a model of %d nodes in %.2f s; not understood: %s", len(model.graph), read, unknown)
    extraction, function = chosen(imported, has_inputs=True)
    extraction.report = report
    found = time.perf_counter()
    after = export_model(function, imported)
    seconds = {"import": read, **report.phases, "export": time.perf_counter() - found}
    _log.info("made a model of %d nodes in %.2f s", len(after.graph), sum(seconds.values()))
    extractions = [extraction, *[body.extraction for body in bodies]]
    return Optimization(given, after, options, imported, extractions, constants.folded, seconds, bodies)


def with_definitions(rules: Rules | None, imported: Imported) -> Rules | None:
    """``rules`` with those that nodes of a model equal their definitions, as sound as the rules are."""
    found = definition_rules(imported.function)
    if not found or not isinstance(rules, RuleSet):
        return rules
    sounds = {rule.soundness for rule in rules}
    return RuleSet(rules.name, (*rules, *[rule for rule in found if rule.soundness in sounds]))


def rules_for(model: ir.Model) -> RuleSet:
    """The rules that a model is optimized by if none are asked for: ``eqsat.rules.default``.

    Of these the exact ones only for a model that quantizes by what it computes, where a last bit decides a step of
    all, and none that finds what the opset of the model has no operator for.
    """
    found = default if opset_of(model) >= ATTENTION_SINCE else WITHOUT_ATTENTION
    # scales that are computed from the values they quantize magnify every rounding
    quantizes_by_values = any(node.op_type.startswith("DynamicQuantize") for node in nodes_of(model.graph))
    return found.sound(Soundness.EXACT) if quantizes_by_values else found
