"""Partitioning of ONNX models into composites of a target and the remaining nodes."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Unpack

import onnx_ir as ir

from eqsat.brief import listed, one_line
from eqsat.composites.rules import composite_rules
from eqsat.egraph.runner import OnIteration
from eqsat.errors import ArgumentError
from eqsat.notebook import page, preview, table
from eqsat.onnx.constants import Folded, constant_nodes
from eqsat.onnx.cost import onnx_cost
from eqsat.onnx.files import Given, PickledModel, load
from eqsat.onnx.imported import Imported, opset_of
from eqsat.onnx.importer import import_model
from eqsat.onnx.local_functions import export_partitioned
from eqsat.onnx.provenance import Provenance
from eqsat.onnx.unmatched import Unmatched, why_unmatched
from eqsat.onnx.upgrade import at_opset
from eqsat.pipeline.extract import Extraction, extract
from eqsat.pipeline.options import ModelKeywords, Options, Rules, takes
from eqsat.pipeline.saturate import bodies_of, saturate_bodies
from eqsat.relay.expr import Function
from eqsat.relay.infer import infer_type
from eqsat.relay.module import IRModule
from eqsat.relay.op.contrib import dnnl, get_pattern_table, tensorrt
from eqsat.relay.op.contrib.register import registered
from eqsat.relay.transform.merge_composite import merge_composite

SHIPPED = {"dnnl": dnnl, "tensorrt": tensorrt}
"""The targets whose pattern tables eqsat ships."""


@dataclass(frozen=True)
class Partitioning:
    """A model before and after partitioning.

    Attributes:
        before: The given model; it is not changed.
        after: The partitioned model, with one node for each composite and one local function for each kind of
            composite.
        composites: Kind of composite -> number of its nodes.
        opaque: Operator -> reasons why nodes of it are not understood, with the number of nodes.
        folded: The nodes over constants that are not understood: those that were computed, and those that were kept,
            with the reasons.
        extraction: The chosen graph, with the report of the saturation; None if no rules were applied.
        unmatched: Why there are no composites; None if there are some.
    """

    before: ir.Model
    after: ir.Model
    composites: Counter[str]
    opaque: dict[str, dict[str, int]]
    folded: Folded
    extraction: Extraction | None
    unmatched: Unmatched | None

    def __copy__(self) -> Partitioning:
        return replace(self)  # with the models themselves, not what stands for them in pickles

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: models as files of them are."""
        return vars(self) | {name: PickledModel(getattr(self, name)) for name in ("before", "after")}

    def __repr__(self) -> str:
        return one_line(f"Partitioning({listed([f'{count} x {name}' for name, count in self.composites.items()])})")

    def _repr_html_(self) -> str:
        composites = table(("composite", "nodes"), list(self.composites.items()))
        return (
            preview(repr(self), composites)
            if self.extraction is None
            else page(self.extraction, repr(self), composites)
        )


@takes(ModelKeywords)
def partition(
    model: Given,
    target: str,
    rules: Rules | None = None,
    *,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[ModelKeywords],
) -> Partitioning:
    """Partition a model into composites of a target: the cheapest cover of the cheapest graph that the rules lead to.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        target: The target whose pattern table is used; it is also the domain of the new nodes.
        rules: The rules to apply in addition to the table, by default ``eqsat.rules.default``. An empty list covers the
            given graph unchanged.
        on_iteration: A function that is called with the report after every iteration of the saturation.
        keywords: Further options, or all of them as ``options``: see :class:`eqsat.Options`.

    Raises:
        ArgumentError: No pattern table is registered for the target, or an option has a wrong value.
        ModelError: The model cannot be read, is not well-formed, or cannot be written with the operators of ``opset``.
        EqsatError: As for :func:`eqsat.saturate` and :func:`eqsat.extract`.
    """
    options = Options.of(keywords, rules=rules)
    table = _table(target)
    given = load(model)
    with constant_nodes(given, options.limits) as constants:
        start = time.perf_counter()
        model = at_opset(given, options.opset, constants, options.provenance)
        constants.take(model)
        imported = import_model(model, constants=constants)
        options = replace(
            options,
            rules=options.schedule.beside(composite_rules(table)),
            cost_model=onnx_cost(options.cost_model, opset_of(model), options.runtime),
        )
        bodies = bodies_of(imported.function)
        saturation = saturate_bodies(imported.function, bodies, options, on_iteration, start, traces=options.provenance)
        chosen = extract(saturation, options=options)
        best = constants.fold(chosen.expr)
        provenance = Provenance(model) if options.provenance else None
        if provenance is not None:
            provenance.dropped = chosen.dropped
        return _partitioning(given, best, imported, target, constants.folded, provenance, chosen)


def merge(model: Given, target: str, *, provenance: bool = True) -> Partitioning:
    """Partition a model without rules, in the order of the target's pattern table, as Relay's MergeComposite does.

    Args:
        model, target: As for :func:`partition`.
        provenance: Whether the written nodes store which nodes of the given model they come from.

    Raises:
        ArgumentError: No pattern table is registered for the target.
        ModelError: The model cannot be read, or is not well-formed.
    """
    table = _table(target)
    given = load(model)
    imported = import_model(given)
    typed: Any = infer_type(imported.function)
    cut = merge_composite(typed, IRModule(), table)
    return _partitioning(given, cut, imported, target, Folded(), Provenance(given) if provenance else None)


def targets() -> list[str]:
    """Return the available targets: those that eqsat ships, and those with another registered pattern table."""
    return sorted({*SHIPPED, *registered()})


def _table(target: str) -> Any:
    table = get_pattern_table(target)
    if table is None:
        raise ArgumentError(f"there is no pattern table for {target!r}; known targets are {', '.join(targets())}")
    return table


def _partitioning(
    given: ir.Model,
    function: Function,
    imported: Imported,
    target: str,
    folded: Folded,
    provenance: Provenance | None,
    extraction: Extraction | None = None,
) -> Partitioning:
    after = export_partitioned(function, imported, target, provenance)
    composites = Counter(node.op_type for node in after.graph if node.domain == target)
    unmatched = None if composites else why_unmatched(function, _table(target))
    return Partitioning(given, after, composites, imported.opaque, folded, extraction, unmatched)
