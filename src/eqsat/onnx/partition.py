"""An ONNX model cut into what a target computes in one call each, and the rest."""

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
"""The targets whose pattern tables are part of eqsat."""


@dataclass(frozen=True)
class Partitioning:
    """A model before and after.

    Attributes:
        before: The model that was given; it is not changed.
        after: The same with a node for each composite, and a local function for each kind of composite.
        composites: Kind of composite -> number of nodes of it.
        opaque: Operator -> reasons why nodes of it are not understood, with their number.
        folded: Nodes over constants that are not understood: which were computed, and which were left and why.
        extraction: The chosen graph and the report of the saturation; None where no rules acted.
        unmatched: Why there are no composites; None where there are some.
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
    """Cut a model into composites of a target: the cheapest cover of the cheapest graph that the rules lead to.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        target: Whose pattern table is taken; also the domain of the new nodes.
        rules: What acts beside the table, by default ``eqsat.rules.default``; none to cover the graph as it is.
        on_iteration: Called with the report after every iteration of the saturation.
        keywords: Further options, or all of them as ``options``: see :class:`eqsat.Options`.

    Raises:
        ArgumentError: No pattern table is registered for the target, or an option has a wrong value.
        ModelError: The model cannot be read, is not well-formed, or cannot be written with the operators of the
            ``opset``.
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
    """Cut a model as it is into composites of a target, in the order of its table, as Relay's MergeComposite does.

    Args:
        model, target: As for :func:`partition`.
        provenance: Whether nodes say which nodes of the given model they come from.

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
    """The targets that can be asked for: those shipped, and what else has registered a pattern table."""
    return sorted({*SHIPPED, *registered()})


def _table(target: str) -> Any:
    table = get_pattern_table(target)
    if table is None:
        raise ArgumentError(f"there is no pattern table for {target!r}: there are those of {', '.join(targets())}")
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
