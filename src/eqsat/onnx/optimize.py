"""Optimization of ONNX models."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Unpack, overload

import onnx
import onnx_ir as ir

from eqsat.brief import one_line
from eqsat.collector import paused_gc
from eqsat.cost import CostFunction
from eqsat.cost.runtimes import CONTRIB
from eqsat.egraph.report import Report
from eqsat.egraph.runner import OnIteration
from eqsat.egraph.schedule import Schedule
from eqsat.layers.optimize import Saturated
from eqsat.notebook import page, table
from eqsat.onnx.constants import ConstantNodes, Folded, constant_nodes
from eqsat.onnx.contrib import DOMAIN
from eqsat.onnx.cost import onnx_cost
from eqsat.onnx.definition import definition_rules
from eqsat.onnx.exporter import export_body, export_model
from eqsat.onnx.files import Given, PickledModel, load, to_proto
from eqsat.onnx.graphs import nodes_of
from eqsat.onnx.imported import Imported, opset_of
from eqsat.onnx.importer import import_model
from eqsat.onnx.provenance import Provenance, without_provenance
from eqsat.onnx.upgrade import at_opset
from eqsat.pipeline.extract import Extraction, Extractions
from eqsat.pipeline.options import ModelKeywords, Options, Rules, takes
from eqsat.relay.expr import Expr, Function
from eqsat.rules import RuleSet, Soundness, attending, default, in_sight, unhalved

_log = logging.getLogger(__name__)

GELU_SINCE = 20
"""The first opset with an operator for GELU."""

ATTENTION_SINCE = 23
"""The first opset with operators for attention and rotary embeddings."""

WITHOUT_ATTENTION = default.without(*[rule.name for rule in attending if rule.soundness is not Soundness.FINITE])
"""The default rules, without those that introduce these operators."""

WITHOUT_GELU = WITHOUT_ATTENTION.without(*[rule.name for rule in unhalved])
"""The same without those that only find what is one operator since then."""


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
    """A model before and after optimization, and how the result was found.

    Attributes:
        before: The given model; it is not changed.
        after: The optimized model.
        options: The options of the optimization. The cost model is that of the written nodes.
        imported: The given model as a function, with the nodes that are not understood and the reasons.
        extractions: The extraction of the graph, with the report of all saturations, followed by those of the bodies of
            control flow, inner ones first.
        folded: The nodes over constants that are not understood: those that were computed, and those that were kept,
            with the reasons.
        seconds: Phase -> time in seconds.
        written: The bodies as they were read and written; empty if the object was unpickled.
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
        return page(self.extraction, repr(self), table(("operator", "before", "after"), counts), seconds)

    @property
    def extraction(self) -> Extraction:
        """The extraction of the graph, without the bodies of control flow."""
        return self.extractions[0]

    @property
    def bodies(self) -> list[Extraction]:
        """The extractions of the bodies of control flow, inner ones first."""
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
    """Return a cheaper model that computes the same values.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed. The result is an
            ``onnx.ModelProto`` if the model is one, and otherwise an ``onnx_ir.Model``.
        rules, on_iteration, keywords: As for :func:`run`.

    Raises:
        ModelError: The model cannot be read, or its graph is not well-formed.
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
    """Optimize a model, and return the result with all that is known about it.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        rules: Rule sets or rules, by default those of :func:`rules_for`.
        on_iteration: A function that is called with the report after every iteration of a saturation.
        keywords: Further options, or all of them as ``options``: see :class:`eqsat.Options`. Time limits apply to the
            whole call, including bodies of control flow.

    Raises:
        ModelError: The model cannot be read, is not well-formed, or cannot be written with the operators of ``opset``.
        EqsatError: As for :func:`eqsat.optimize`.
    """
    with forms(model, on_iteration, Options.of(keywords, rules=rules)) as found:
        return found.choose()


@contextmanager
def forms(model: Given, on_iteration: OnIteration | None, options: Options) -> Iterator[Forms]:
    """Return a context that saturates a model; while it is open, optimized models can be chosen from the result.

    Arguments and errors are those of :func:`run`.
    """
    start = time.perf_counter()
    given = load(model)
    with constant_nodes(given, options.limits) as constants:
        yield Forms(given, on_iteration, options, start, constants)


class Forms:
    """A model with everything that the rules proved equal to its parts, from which cheapest models are chosen.

    Several models can be chosen, each by another cost model.

    Args:
        given, on_iteration, options: As for :func:`run`.
        start: When the call began, as a value of ``time.perf_counter()``.
        constants: The object that computes nodes over constants.

    Attributes:
        options: The options, with the rules that apply.
    """

    def __init__(
        self,
        given: ir.Model,
        on_iteration: OnIteration | None,
        options: Options,
        start: float,
        constants: ConstantNodes,
    ):
        model = at_opset(given, options.opset, constants, options.provenance)
        constants.take(model)
        self._provenance = Provenance(model) if options.provenance else None
        defines = options.rules is None
        acting = acting_rules(model, options)
        self.given, self.constants, self._opset = given, constants, opset_of(model)
        self.options = replace(options, rules=acting)
        self._report, self._bodies = Report(), list[Body]()
        bodies_options = self._by(options.cost_model, options.runtime)

        def saturated(imported: Imported, has_inputs: bool) -> Saturated:
            left = bodies_options.after(time.perf_counter() - start, self._report.phases.get("extract", 0.0))
            left = replace(left, rules=with_definitions(left.rules, imported)) if defines else left
            return Saturated(imported.function, left, on_iteration, has_inputs, options.provenance)

        def improved(imported: Imported) -> ir.Graph:
            found = saturated(imported, has_inputs=False)
            extraction = found.extract(found.options)
            self._report.merge(extraction.report)
            function = constants.fold(extraction.expr)
            graph, names = export_body(function, imported, self._telling(extraction))
            self._bodies.append(Body(imported, extraction, function, graph, names))
            return graph

        self.imported = import_model(model, improved, constants)
        self._read = time.perf_counter() - start - sum(self._report.phases.values())
        unknown = ", ".join(self.imported.opaque) or "nothing"
        _log.info("read a model of %d nodes in %.2f s; not understood: %s", len(model.graph), self._read, unknown)
        self._saturated = saturated(self.imported, has_inputs=True)

    def _by(self, cost_model: CostFunction, runtime: str) -> Options:
        contrib = self.options.contrib and runtime in CONTRIB
        cost = onnx_cost(cost_model, self._opset, runtime, contrib)
        return replace(self.options, cost_model=cost, runtime=runtime, contrib=contrib)

    def _telling(self, extraction: Extraction) -> Provenance | None:
        """What writes where the nodes of a chosen graph are from."""
        if self._provenance is not None:
            self._provenance.dropped = extraction.dropped
        return self._provenance

    @paused_gc()
    def choose(
        self, cost_model: CostFunction | None = None, runtime: str | None = None, seconds: float | None = None
    ) -> Optimization:
        """Return the cheapest model.

        Args:
            cost_model, runtime: What to count, by default that of the options. Bodies of control flow are always chosen
                by the options.
            seconds: Time limit of extraction, in seconds; by default that of the options.
        """
        given = self.options
        options = self._by(cost_model or given.cost_model, runtime or given.runtime)
        saturating = self._saturated.options
        left = replace(saturating, cost_model=options.cost_model, runtime=options.runtime, contrib=options.contrib)
        extraction = self._saturated.extract(left if seconds is None else replace(left, seconds=seconds))
        extraction.report, report = self._report.copy(), extraction.report
        extraction.report.merge(report)
        function = self.constants.fold(extraction.expr)
        found = time.perf_counter()
        after = export_model(function, self.imported, provenance=self._telling(extraction))
        if self._provenance is None:
            without_provenance(after)
        else:
            self._provenance.complete(after)
        phases = {"import": self._read, **extraction.report.phases, "export": time.perf_counter() - found}
        _log.info("made a model of %d nodes in %.2f s", len(after.graph), sum(phases.values()))
        extractions, folded = [extraction, *[body.extraction for body in self._bodies]], self.constants.folded
        return Optimization(self.given, after, options, self.imported, extractions, folded, phases, self._bodies)


def with_definitions(rules: Rules | None, imported: Imported) -> Rules | None:
    """Return ``rules`` and the rules that equate nodes of a model with their definitions, if they are as sound."""
    found = definition_rules(imported.function)
    if not found or not isinstance(rules, RuleSet):
        return rules
    sounds = {rule.soundness for rule in rules}
    return RuleSet(rules.name, (*rules, *[rule for rule in found if rule.soundness in sounds]))


def acting_rules(model: ir.Model, options: Options) -> Rules:
    """Return the rules that apply to a model: those that the options name or imply."""
    taken = any(function.domain == DOMAIN for function in model.functions.values())  # a name may mean another operator
    if not options.contrib or taken:
        found = rules_for(model) if options.rules is None else options.rules
        has_gelu = opset_of(model) >= GELU_SINCE or isinstance(found, Schedule)
        return found if has_gelu else in_sight(found)
    from eqsat.onnx.contrib_rules import contrib  # defines their operators

    if options.rules is not None:
        return options.rules if isinstance(options.rules, Schedule) else [*options.rules, contrib]
    found = rules_for(model, attends=True)
    sounds = {rule.soundness for rule in found}
    return RuleSet(found.name, (*found, *contrib.sound(*sounds)))


def rules_for(model: ir.Model, attends: bool = False) -> RuleSet:
    """Return the rules that apply to a model by default, taken from ``eqsat.rules.default``.

    For a model that quantizes computed values, only the exact rules are returned, because a different last bit could
    change a quantized value by a whole step. Rules that introduce operators which the opset does not have are left out.

    Args:
        model: The model.
        attends: Whether operators for attention are available even if the opset of the model has none.
    """
    opset = opset_of(model)
    older = WITHOUT_ATTENTION if opset >= GELU_SINCE else WITHOUT_GELU
    found = default if attends or opset >= ATTENTION_SINCE else older
    # scales that are computed from the values they quantize magnify every rounding
    quantizes_by_values = any(node.op_type.startswith("DynamicQuantize") for node in nodes_of(model.graph))
    return found.sound(Soundness.EXACT) if quantizes_by_values else found
