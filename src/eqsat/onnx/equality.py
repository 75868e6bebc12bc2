"""Deciding whether two ONNX models are equal; the result of :func:`eqsat.equal` refers to their nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, Unpack

import numpy as np
import onnx_ir as ir

from eqsat.collector import paused_gc
from eqsat.egraph.report import Limits
from eqsat.equality.compare import Comparison
from eqsat.equality.joining import join
from eqsat.equality.result import Equality
from eqsat.equality.samples import Sample, given_samples
from eqsat.errors import EqsatError, ModelError
from eqsat.onnx.constants import ConstantNodes, constant_nodes
from eqsat.onnx.converters.target import attributes
from eqsat.onnx.definition import definition_rules
from eqsat.onnx.feeds import KINDS, settings
from eqsat.onnx.files import Given
from eqsat.onnx.graphs import nodes_of
from eqsat.onnx.imported import Origin, opset_of
from eqsat.onnx.importer import import_model
from eqsat.onnx.mapped import load_mapped
from eqsat.onnx.opaque import RANDOM
from eqsat.onnx.optimize import rules_for
from eqsat.onnx.ranges import MOVES
from eqsat.pipeline.options import Options, Rules, SaturateKeywords, takes
from eqsat.relay.expr import Call, Expr, Function, Tuple
from eqsat.rules import RuleSet, spelled

_SETTINGS = 12
"""Number of combinations of sizes and ranges of inputs that are tried."""

_MOST_BYTES = 1 << 28
"""Largest result, in bytes, that ONNX's reference implementation computes for one operator."""


@takes(SaturateKeywords)
@paused_gc()
def equal(
    first: Given,
    second: Given,
    rules: Rules | None = None,
    limits: Limits | None = None,
    *,
    inputs: Sequence[Mapping[str, Any]] = (),
    match: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
    exact_constants: bool = False,
    **keywords: Unpack[SaturateKeywords],
) -> Equality:
    """Decide whether two models compute the same values, and if not, find where they differ: see :func:`eqsat.equal`.

    Args:
        first, second: Models in any form that :func:`eqsat.onnx.load` takes. Inputs correspond by name if the names are
            the same, otherwise by order; outputs correspond by order.
        rules: The rules that may prove the equality; by default those of :func:`eqsat.onnx.optimize` and
            ``eqsat.rules.spelled``.
        limits: The limits of saturation. The time limit applies to the whole call, the others to each saturation.
        inputs: The inputs on which to compare; each is a mapping from the input names of the first model to arrays. By
            default, inputs are generated.
        match: Name of an input of ``second`` -> name of the corresponding input of ``first``.
        dims: The sizes of dynamic dimensions of the first model in generated inputs, as for :func:`eqsat.onnx.verify`.
        exact_constants: Whether a constant may replace a computation of the other model only if both agree in every
            bit. By default, they may differ by rounding.
        keywords: The option ``on_error``, or all options as ``options``: see :class:`eqsat.Options`.

    Raises:
        ModelError: A model cannot be read, or uses random operators.
        ArgumentError: The inputs or outputs differ in number or type.
        EqsatError: As for :func:`eqsat.saturate`.
    """
    options = Options.of(keywords, rules=rules, limits=limits)
    start = time.perf_counter()
    models = [load_mapped(first), load_mapped(second)]
    for model, side in zip(models, ("first", "second"), strict=True):
        _refuse_random(model, side)
    with ExitStack() as stack:
        constants = [stack.enter_context(constant_nodes(model, options.limits)) for model in models]
        functions = [import_model(model, None, each).function for model, each in zip(models, constants, strict=True)]
        joined = join(functions[0], functions[1], match)
        if options.rules is None:
            options = Options.of({"options": options, "rules": _rules(models, functions)})
        foreign = _Foreign(models, constants)
        comparison = Comparison(joined, options, foreign, _place, _Computed(), exact_constants)
        comparison.seconds["read"] = time.perf_counter() - start
        if inputs:
            feeds = given_samples(joined.params, inputs)
            return comparison.answer(lambda: feeds)
        return comparison.answer(lambda: _samples(models[0], comparison, dims))


def _rules(models: Sequence[ir.Model], functions: Sequence[Function]) -> RuleSet:
    """Return the rules that apply to the models, and those for the definitions of their nodes."""
    found = rules_for(max(models, key=opset_of))
    sounds = {rule.soundness for rule in found}
    both = Function([], Tuple([function.body for function in functions]))
    return RuleSet(
        found.name, (*found, *spelled, *[rule for rule in definition_rules(both) if rule.soundness in sounds])
    )


def _refuse_random(model: ir.Model, side: str) -> None:
    names = [node.op_type for node in nodes_of(model.graph) if node.op_type in RANDOM and _is_random(node)]
    if names:
        told = ", ".join(dict.fromkeys(names))
        raise ModelError(f"the {side} model computes with random numbers and cannot be compared: it uses {told}")


def _is_random(node: ir.Node) -> bool:
    """Return whether a node of a random operator computes random numbers; a Dropout does so only in training."""
    return node.op_type != "Dropout" or (len(node.inputs) > 2 and node.inputs[2] is not None)


class _Computed:
    """Knows which constants of models the importer computed; another tool may have rounded them differently."""

    def __init__(self) -> None:
        self._known: dict[ir.Node, bool] = {}

    def __call__(self, constant: Expr) -> bool:
        origin = constant.span
        return isinstance(origin, Origin) and isinstance(origin.node, ir.Node) and self._computes(origin.node)

    def _computes(self, root: ir.Node) -> bool:
        """Return whether a node computes floats, instead of only moving given ones."""
        agenda = [root]
        while agenda:
            node = agenda[-1]
            data = node.inputs if node.op_type == "Concat" else node.inputs[:1]
            makers = [maker for value in data if value is not None and (maker := value.producer()) is not None]
            missing = [maker for maker in makers if maker not in self._known]
            if not missing:
                agenda.pop()
                moves = node.op_type in MOVES or node.op_type.startswith("Constant")
                self._known[node] = not moves or any(self._known[maker] for maker in makers)
            agenda += missing
        return self._known[root]


class _Foreign:
    """Computes the operators of two models that the IR does not have."""

    def __init__(self, models: Sequence[ir.Model], constants: Sequence[ConstantNodes]):
        self._constants = constants
        self._of = {id(node): place for place, model in enumerate(models) for node in nodes_of(model.graph)}

    def __call__(self, call: Call, values: Sequence[Any], sources: int) -> Any:
        node = attributes(call).node.node
        return self._constants[self._of.get(id(node), 0)].foreign(call, values, max(sources, _MOST_BYTES))


def _samples(model: ir.Model, comparison: Comparison, dims: Mapping[str, int] | None) -> Iterator[Sample]:
    """Yield inputs with sizes and ranges for which the models can be evaluated."""
    params = {param.name_hint: param for param in comparison.joined.params}
    random = np.random.default_rng(0)
    for setting in islice(settings(model, dims), _SETTINGS):
        try:
            feed = {params[name]: array for name, array in setting.feed(random).items() if name in params}
        except EqsatError:
            continue
        if comparison.can_take(feed):
            yield feed
            for kind in [kind for kind in KINDS if kind != "normal"]:
                yield {params[name]: array for name, array in setting.feed(random, kind).items() if name in params}
            for value in (0, 1):
                yield {param: np.full_like(array, value) for param, array in feed.items()}
            return


def _place(node: Expr) -> str:
    """Return where a node of a graph comes from: the ONNX node and the value that it computes."""
    origin = node.span
    if not isinstance(origin, Origin):
        return str(origin or "")
    made = f"value {origin}" if origin.values else ""
    if origin.node is None:
        return f"initializer {origin}"
    name = f" {origin.node.name!r}" if origin.node.name else ""
    return ", ".join(filter(None, (f"{origin.node.op_type} node{name}", made)))
