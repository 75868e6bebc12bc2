"""Partitioning: matches of a pattern are replaced by calls of functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.collector import paused_gc
from eqsat.errors import PatternError
from eqsat.relay.adt import Match
from eqsat.relay.dataflow_pattern.analysis import analyse
from eqsat.relay.dataflow_pattern.graph import BINDERS, DataflowGraph
from eqsat.relay.dataflow_pattern.groups import PARTITIONED, Group, find_groups
from eqsat.relay.dataflow_pattern.language import DFPattern, FunctionPattern, implements_method
from eqsat.relay.expr import Call, Expr, Function, If, Let, Op, Tuple, TupleGetItem, Var, expression_hint
from eqsat.relay.visitor import post_order, rebuild, substitute


@implements_method
@paused_gc()
def partition(
    pattern: DFPattern,
    expr: Expr,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Expr], Any] = lambda _: True,
) -> Expr:
    """Return ``expr`` with every match of ``pattern`` replaced by a call of a function literal.

    What wildcards and other leaves matched becomes an argument. Constants that ``is_constant()`` or
    ``is_expr(constant)`` matched stay inside, as do variables that a let inside binds.

    Args:
        pattern: The pattern.
        expr: The graph; it is not changed.
        attrs: Attributes of the functions, in addition to ``PartitionedFromPattern``, which lists the operators.
        check: A function that is called with the root of each match; if it returns False, the match stays unchanged.

    Raises:
        PatternError: The check returns neither a bool nor an int.
    """
    if not isinstance(pattern, DFPattern) or not isinstance(expr, Expr):
        given = f"{pattern!r} and {expr!r}{expression_hint(expr)}"
        raise PatternError(f"partition needs a pattern and an expression, not {given}")
    if isinstance(pattern, FunctionPattern):
        warnings.warn("Partioning a Function that isn't called doesn't make sense, skipping", stacklevel=2)
        return expr
    graph = DataflowGraph(expr)
    groups = find_groups(pattern, graph)
    entering = analyse(pattern).entering_lets
    carved: dict[Expr, Group] = {}
    for root in [node for node in graph.order if node in groups]:
        if passes(check, root):
            group = close_binders(groups[root], entering, graph)
            if group is not None:
                carved[root] = group
    return carve(expr, carved, lambda group: group_function(group, attrs or {}))


def carve(expr: Expr, groups: Mapping[Expr, Group], function_of: Callable[[Group], Function]) -> Expr:
    """``expr`` with a call of ``function_of(group)`` at each group's root; what only groups need is not visited."""

    def operands(node: Expr) -> Sequence[Expr]:
        return groups[node].inputs if node in groups else node.children()

    new: dict[Expr, Expr] = {}
    for node in post_order(expr, children=operands) if groups else ():
        if node in groups:
            args = [new[child] for child in groups[node].inputs]
            new[node] = Call(function_of(groups[node]), args, span=node.span)
        else:
            new[node] = rebuild(node, new)
    return new.get(expr, expr)


def passes(check: Callable[[Expr], Any], root: Expr) -> bool:
    """The verdict of a partition's check; raises PatternError when it is neither a bool nor an int."""
    verdict = check(root)
    if not isinstance(verdict, (bool, int, np.bool_, np.integer)):
        raise PatternError(f"the check of a partition must give a bool, not {verdict!r}")
    return bool(verdict)


def close_binders(group: Group, entering: Sequence[DFPattern], graph: DataflowGraph) -> Group | None:
    """``group`` with the variables that it binds inside; None when an argument would need one of them.

    ``entering`` are the patterns that may have looked into a let.
    """
    lets = [node for pattern in entering for node in group.bound.get(pattern, ()) if type(node) is Let]
    if not lets and BINDERS.isdisjoint(map(type, group.interior)):
        return group
    inside = set(group.interior)
    if not inside.issuperset(lets):
        return None
    bound = {variable for node in group.interior for variable in node.binds}
    inputs = [node for node in group.inputs if node not in bound]
    inside |= bound
    if any(user not in inside for variable in bound for user in graph.users.get(variable, ())):
        return None
    return Group(group.root, group.bound, inputs, post_order(group.root, stop=inputs), group.number)


def group_function(group: Group, attrs: Mapping[str, Any]) -> Function:
    """What ``group`` computes as a function of its inputs, with ``attrs`` besides the operators' names."""
    params = [Var(f"FunctionVar_{group.number}_{k}") for k in range(len(group.inputs))]
    body = substitute(group.root, dict(zip(group.inputs, params, strict=True)))
    name = "".join([_label(node) for node in group.interior if type(node) is not Op])
    return Function(params, body, attrs={PARTITIONED: name, **attrs})


def _label(node: Expr) -> str:
    if isinstance(node, Call):
        return f"{node.op.name}_" if isinstance(node.op, Op) else "Call_"
    if isinstance(node, TupleGetItem):
        return f"TupleGetItem{node.index}_"
    return _LABELS.get(type(node), "")


_LABELS: dict[type[Expr], str] = {Function: "Function", If: "If_", Let: "Let_", Match: "Match_", Tuple: "Tuple_"}
