"""What rules that assume finite values would save, for models in which such rules are likely to act."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import onnx_ir as ir

from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.report import Limits
from eqsat.egraph.rule import PythonRule, Rewrite, Soundness, roots_of
from eqsat.onnx.graphs import node_count
from eqsat.onnx.imported import opset_of
from eqsat.onnx.optimize import ATTENTION_SINCE, Optimization, rules_for, run
from eqsat.pipeline.options import Options
from eqsat.rules import RuleSet, attending, nans
from eqsat.rules.activations import activations, gates
from eqsat.rules.functions import functions

TAKEN_FOR_GRANTED = RuleSet("taken for granted", [attending, nans, activations, gates, functions]).sound(
    Soundness.FINITE
)
"""The rules that hold where a mask shows a key to each query, no exponential overflows, and NaN is nowhere."""

_WRITTEN_OUT = {"IsNaN", "Exp", "Log"}
"""Operators of which little is left where those rules act."""

LEAST_SECONDS = 5.0
"""Time that small models may take, in seconds."""


@dataclass(frozen=True)
class Offer:
    """What finite rules would save.

    Attributes:
        nodes: The number of nodes that the model would have less.
        rules: The names of the finite rules that achieve this, all of them in the set ``finite``.
    """

    nodes: int
    rules: list[str]

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{nodes} fewer with --rules default --rules finite: {', '.join(self.rules)}"


def finite_offer(done: Optimization) -> Offer | None:
    """Return what finite rules would save in addition to the default rules; None if they save nothing.

    They are tried only if the result tests for NaN, computes an exponential or a logarithm, or weights by a softmax
    although its opset has attention, and if one of them may match. They are tried on the result, which is smaller than
    the given model, and may take half as long as the optimization did.
    """
    if not any(_may_be_saved(done.after)) or not _may_match(done):
        return None
    spent = sum(done.seconds.values())
    seconds = max(LEAST_SECONDS, spent / 2)
    limits = replace(done.options.limits, seconds=min(done.options.limits.seconds, seconds))
    tried = _tried(done, limits, seconds)
    fewer = node_count(done.after) - node_count(tried.after)
    names = {rule.name for rule in TAKEN_FOR_GRANTED}
    used = [rule.name for rule in tried.extraction.report.rules.values() if rule.updates and rule.name in names]
    return Offer(fewer, sorted(used)) if fewer > 0 and used else None


def _may_match(done: Optimization) -> bool:
    """Return whether one of those rules may match in what the default rules make of the model."""
    report, applied = done.extraction.report, {rule.name for rule in done.options.schedule.rules}
    if report.stop_reason != "saturated" or not applied.issuperset(rule.name for rule in rules_for(done.after)):
        return True  # the default rules may make more of it
    regions = [posed.region for posed in done.extraction.problems]
    looks = [Prefilter(region.snapshot, region.vocabulary) for region in regions]
    lefts = [roots_of(rule) for rule in TAKEN_FOR_GRANTED if isinstance(rule, (Rewrite, PythonRule))]
    return any(all(map(look.may_match, roots)) for look in looks for roots in lefts)


def _tried(done: Optimization, limits: Limits, seconds: float) -> Optimization:
    """The result, optimized once more with the rules."""
    options = Options(limits=limits, seconds=seconds, method=done.options.method, runtime=done.options.runtime)
    return run(done.after, options=replace(options, rules=[rules_for(done.after), TAKEN_FOR_GRANTED]))


def _may_be_saved(model: ir.Model) -> Iterator[bool]:
    """For each node whether those rules may act there."""
    attends = opset_of(model) >= ATTENTION_SINCE
    for node in model.graph:
        first = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
        weighs = node.op_type == "MatMul" and first is not None and first.op_type in ("Softmax", "Where")
        yield node.op_type in _WRITTEN_OUT or (attends and weighs)
