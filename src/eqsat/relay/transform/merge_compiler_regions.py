"""MergeCompilerRegions: neighbouring regions of one target become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Let, Op, Var
from eqsat.relay.module import IRModule
from eqsat.relay.regions import AnnotatedRegion, AnnotatedRegionSet
from eqsat.relay.transform.acyclic_graph import AcyclicGraph
from eqsat.relay.transform.annotation import BEGIN, END, is_begin, is_end, needs_first
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.visitor import post_order, rewrite_post_order

Unit: TypeAlias = AnnotatedRegion | Expr
"""A region, or a node that is in none."""


def MergeCompilerRegions() -> Pass:
    """Merge each region with those of its target that feed it, wherever no value would have to leave the
    merged region and come back into it.

    The regions are taken in data-flow order, so the result is greedy. Paths through operators that no
    region holds count as paths.
    """

    def transform(function: Function, mod: IRModule, context: PassContext) -> Expr:
        regions = _Merger(function).run()
        return rewrite_post_order(function, lambda old, new: _without_inner_edge(old, new, regions))

    return FunctionPass(transform, PassInfo(0, "MergeCompilerRegions"))


def _without_inner_edge(old: Expr, new: Expr, regions: AnnotatedRegionSet) -> Expr:
    if not (is_begin(old) and is_begin(new)):
        return new
    left = new.args[0]
    inner = is_end(left) and regions.get_region(old) is regions.get_region(old.args[0])
    return left.args[0] if is_end(left) and inner else new


class _Merger:
    """Merges the regions of one function."""

    def __init__(self, function: Function):
        self.order = post_order(function)
        self.regions = AnnotatedRegionSet(function, BEGIN, END)
        self.bound_to = bindings(self.order)
        self.graph = AcyclicGraph()
        self.numbers: dict[Unit, int] = {}

    def run(self) -> AnnotatedRegionSet:
        ends = [self._unit(node) for node in self.order if is_end(node)]
        for unit in needs_first(ends, self._needs, _cycle):
            self.numbers[unit] = self.graph.add(self.numbers[other] for other in self._needs(unit))
            if isinstance(unit, AnnotatedRegion):
                self._absorb(unit)
        return self.regions

    def _unit(self, node: Expr) -> Unit:
        return self.regions.get_region(node) or node

    def _needs(self, unit: Unit) -> list[Unit]:
        """What must be computed before ``unit``."""
        if isinstance(unit, AnnotatedRegion):
            return [self._unit(entry.args[0]) for entry in unit.args]
        needed = operands(unit, self.bound_to)
        return [self._unit(child) for child in needed if not isinstance(child, (Op, GlobalVar, Constant))]

    def _absorb(self, region: AnnotatedRegion) -> None:
        """Merge into ``region`` the regions before it that have its target."""
        number = self.numbers[region]
        for source in [entry.args[0] for entry in region.args]:
            parent = self.regions.get_region(source)
            if parent is None or parent is region or parent.target != region.target:
                continue
            other = self.numbers[parent]
            if not self.graph.passes_another(other, number):
                self.graph.unite(other, number)
                region = self.regions.merge(parent, region)


def _cycle(unit: Unit) -> PassError:
    where = "a node outside of all regions"
    if isinstance(unit, AnnotatedRegion):
        where = f"the region of target {unit.target!r}"
    return PassError(f"{where} depends on its own result: split the regions annotated around it")


def bindings(nodes: Sequence[Expr]) -> dict[Expr, list[Expr]]:
    """Variable -> what it may stand for: values bound by let, arguments of functions called directly.

    ``nodes`` are in post-order. A function that calls itself is not listed, to keep the graph acyclic: its
    variable comes before it.
    """
    index = {node: number for number, node in enumerate(nodes)}
    bound: dict[Expr, list[Expr]] = {}
    for node in nodes:
        if isinstance(node, Let):
            if not isinstance(node.value, Function) or index[node.value] < index[node.var]:
                bound.setdefault(node.var, []).append(node.value)
        elif isinstance(node, Call) and isinstance(node.op, Function):
            for param, arg in zip(node.op.params, node.args, strict=False):
                bound.setdefault(param, []).append(arg)
    return bound


def operands(node: Expr, bound_to: dict[Expr, list[Expr]]) -> Sequence[Expr]:
    """What the value of ``node`` depends on: its children, or what it is bound to."""
    return bound_to.get(node, ()) if isinstance(node, Var) else node.children()
