"""MergeCompilerRegions: neighbouring regions of one target become one."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Let, Op, Var
from eqsat.relay.module import IRModule
from eqsat.relay.regions import AnnotatedRegion, AnnotatedRegionSet
from eqsat.relay.transform.acyclic_graph import AcyclicGraph
from eqsat.relay.transform.annotation import BEGIN, END, is_begin, is_end
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.visitor import post_order, rewrite_post_order


def MergeCompilerRegions() -> Pass:
    """Merge each region with those of its target that feed it, wherever no value would have to leave the
    merged region and come back into it.

    The regions are taken in data-flow order, so the result is greedy. Paths through operators that no
    region holds count as paths.
    """

    def transform(function: Function, mod: IRModule, context: PassContext) -> Function:
        regions = _Merger(function).run()
        merged = rewrite_post_order(function, lambda old, new: _without_inner_edge(old, new, regions))
        return merged if isinstance(merged, Function) else function

    return FunctionPass(transform, PassInfo(0, "MergeCompilerRegions"))


def _without_inner_edge(old: Expr, new: Expr, regions: AnnotatedRegionSet) -> Expr:
    if not (is_begin(old) and is_begin(new)):
        return new
    left = new.args[0]
    inner = is_end(left) and regions.get_region(old) is regions.get_region(old.args[0])
    return left.args[0] if is_end(left) and inner else new


class _Merger:
    """Merges the regions of one function. A *unit* is a region or a node that is in none."""

    def __init__(self, function: Function):
        self.order = post_order(function)
        self.regions = AnnotatedRegionSet(function, BEGIN, END)
        self.bound_to = bindings(self.order)
        self.graph = AcyclicGraph()
        self.numbers: dict[Expr | int, int] = {}

    def run(self) -> AnnotatedRegionSet:
        for node in self.order:
            if is_end(node):
                for unit in self._unplaced(node):
                    self._place(unit)
        return self.regions

    def _key(self, node: Expr) -> Expr | int:
        region = self.regions.get_region(node)
        return node if region is None else region.id

    def _needs(self, node: Expr) -> list[Expr]:
        """What must be computed before the unit of ``node``."""
        region = self.regions.get_region(node)
        if region is not None:
            return [entry.args[0] for entry in region.args]
        return [child for child in operands(node, self.bound_to) if not isinstance(child, (Op, GlobalVar, Constant))]

    def _unplaced(self, node: Expr) -> list[Expr]:
        """The units before ``node`` and its own that are not in the graph yet, in data-flow order."""
        order: list[Expr] = []
        done: set[Expr | int] = set()
        opened: set[Expr | int] = set()
        stack = [node]
        while stack:
            key = self._key(stack[-1])
            if key in self.numbers or key in done:
                stack.pop()
            elif key in opened:
                done.add(key)
                order.append(stack.pop())
            else:
                opened.add(key)
                needed = [other for other in self._needs(stack[-1]) if self._key(other) not in self.numbers]
                for other in needed:
                    if self._key(other) in opened and self._key(other) not in done:
                        raise self._cycle(other)
                stack.extend(reversed(needed))
        return order

    def _cycle(self, node: Expr) -> PassError:
        region = self.regions.get_region(node)
        where = "a node outside of all regions" if region is None else f"the region of target {region.target!r}"
        return PassError(f"{where} depends on its own result: split the regions annotated around it")

    def _place(self, unit: Expr) -> None:
        region = self.regions.get_region(unit)
        needs = self._needs(unit)
        number = self.graph.add(self.numbers[self._key(other)] for other in needs)
        self.numbers[self._key(unit)] = number
        if region is not None:
            self._absorb(region, needs, number)

    def _absorb(self, region: AnnotatedRegion, needs: Sequence[Expr], number: int) -> None:
        """Merge into ``region`` the regions before it that have its target."""
        for node in needs:
            parent = self.regions.get_region(node)
            if parent is None or parent is region or parent.target != region.target:
                continue
            other = self.numbers[parent.id]
            if not self.graph.passes_another(other, number):
                self.graph.unite(other, number)
                region = self.regions.merge(parent, region)


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
