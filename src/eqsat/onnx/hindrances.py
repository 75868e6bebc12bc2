"""Why a rule did not act on an ONNX model, or why its result was not chosen."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import Unpack

from eqsat.brief import listed
from eqsat.egraph.rule import Rule
from eqsat.egraph.schedule import Schedule
from eqsat.errors import ModelError, RuleError
from eqsat.onnx.cost import onnx_cost
from eqsat.onnx.files import Given
from eqsat.onnx.imported import Imported, Origin, opset_of
from eqsat.onnx.importer import import_model
from eqsat.onnx.optimize import acting_rules
from eqsat.onnx.upgrade import at_opset
from eqsat.pipeline.options import ModelKeywords, Options, Rules, takes
from eqsat.pipeline.outcome import WhyNot
from eqsat.pipeline.saturate import saturate
from eqsat.relay.expr import Expr
from eqsat.relay.visitor import post_order
from eqsat.rules import sets


@takes(ModelKeywords)
def why_not(
    model: Given,
    rule: str | Rule,
    node: str | None = None,
    rules: Rules | None = None,
    **keywords: Unpack[ModelKeywords],
) -> WhyNot:
    """Return the outcome of a rule when a model is optimized: why it does not act, or why its result is not chosen.

    Bodies of control flow are not examined.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        rule: A rule, or the name of a rule that applies to the model or is shipped.
        node: The name of a node, or of one of its outputs, to which the answer is restricted.
        rules, keywords: How the model is optimized, as for :func:`eqsat.onnx.run`.

    Raises:
        ModelError: The model cannot be read, or has no such node.
        RuleError: There is no such rule, or the rule has no pattern that could be matched.
        EqsatError: As for :func:`eqsat.onnx.run`.
    """
    options = Options.of(keywords, rules=rules)
    raised = at_opset(model, options.opset)
    imported = import_model(raised)
    at = None if node is None else _node(imported, node)
    acting = acting_rules(raised, options)
    asked = rule if not isinstance(rule, str) else _named(rule, acting)
    saturation = saturate(imported.function, options=replace(options, rules=acting, explain=True))
    cost = onnx_cost(options.cost_model, opset_of(raised), options.runtime, options.contrib)
    return saturation.why_not(asked, at, cost)


def _named(name: str, acting: Rules) -> Rule:
    """The rule of a name: one of those that act, else one that is shipped."""
    shipped = {rule.name: rule for each in sets.values() for rule in each}
    known = shipped | {rule.name: rule for rule in Schedule.of(acting).rules}
    if name not in known:
        near = get_close_matches(name, known)
        hint = f"; near to it are {listed(near)}" if near else "; `eqsat rules list` names the sets"
        raise RuleError(f"there is no rule {name!r}{hint}")
    return known[name]


def _node(imported: Imported, name: str) -> Expr:
    """The node of the graph that an ONNX node, or the node of a value, was read as."""
    if not isinstance(name, str):
        raise ModelError(f"a node is given by its name, not by {name!r}")
    names: dict[str, Expr] = {}
    for expr in post_order(imported.function.body):
        if isinstance(expr.span, Origin) and expr.span.node is not None:
            made = [value.name for value in expr.span.values]
            names.update({each: expr for each in (expr.span.node.name, *made) if each})
    if name not in names:
        near = get_close_matches(name, names)
        hint = f"; near to it are {listed(near)}" if near else ""
        raise ModelError(f"the model has no node or value {name!r}{hint}")
    return names[name]
