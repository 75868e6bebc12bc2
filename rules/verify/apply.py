"""What the engine makes of instances of a rule's left side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.build import build_captured, build_expr, input_choice, input_nodes
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.group_rules import GroupRule
from eqsat.egraph.report import Limits
from eqsat.egraph.rule import ComposeChains, FoldConstants, Rewrite, Rule
from eqsat.egraph.runner import Runner
from eqsat.egraph.schedule import Schedule
from eqsat.egraph.snapshot import Snapshot
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.infer import extend_types, infer_types
from eqsat.relay.ty import Type
from eqsat.rules.verify.instances import Instance

MOST = 4
"""Right sides that are read back for one instance."""


def right_sides(rule: Rule, instances: Sequence[Instance]) -> list[list[tuple[Expr, ...]]]:
    """For each instance what one application of ``rule`` found equal to its roots; nothing where it does not apply.

    Raises:
        RuleError: the rule fails.
    """
    tuples = [Tuple(instance.roots) for instance in instances]
    whole, types = Tuple(tuples), dict[Expr, Type]()
    for instance, part in zip(instances, tuples, strict=True):
        if instance.module is not None:
            types |= infer_types(part, instance.module)
    extend_types(types, whole)
    limits = Limits(iterations=1, nodes=1_000_000, seconds=60.0)
    with closing(EGraph()) as egraph:
        computing = [FoldConstants()] if isinstance(rule, ComposeChains) else []
        runner = Runner(egraph, whole, types, Schedule.of([rule, *computing]), limits)
        runner.run()
        snapshot = runner.snapshot()
    choice = _complete(snapshot, input_choice(snapshot, runner.lowered))
    class_of = snapshot.handle_class.tolist()
    symbols = {handle: symbol for handle, symbol, _, _ in runner.lowered.nodes}
    nodes = input_nodes(snapshot, runner.lowered).items()
    # of a root that was computed the e-node is gone, and the constant in its place is another side
    original = {handle: node for handle, node in nodes if snapshot.node_symbol[node] == symbols[handle]}
    found: list[list[tuple[Expr, ...]]] = []
    for instance in instances:
        handles = [runner.lowered.handles[root] for root in instance.roots]
        sides = [
            [
                side
                for side in _others(snapshot, choice, class_of[handle], original.get(handle))
                if _is_over(instance, side)
            ]
            for handle in handles
        ]
        for index in _kept(rule, sides):
            sides[index] = [instance.roots[index]] * MOST
        applied = min(map(len, sides))
        found.append([tuple(side[index] for side in sides) for index in range(min(applied, MOST))])
    return found


def _kept(rule: Rule, sides: Sequence[Sequence[Expr]]) -> list[int]:
    """The roots that only have to be there: on the right side they are what they were."""
    if isinstance(rule, GroupRule):
        return [index for index, side in enumerate(sides) if not side] if any(sides) else []
    pairs = zip(rule.lhs, rule.rhs, strict=False) if isinstance(rule, Rewrite) and len(rule.rhs) > 1 else ()
    return [index for index, (left, right) in enumerate(pairs) if left is right]


def _is_over(instance: Instance, side: Expr) -> bool:
    """Whether ``side`` speaks of the instance's variables only: instances that equal one constant share a class."""
    return all(var in instance.values for var in free_vars(side))


def _others(snapshot: Snapshot, choice: NDArray[np.int64], of: int, original: int | None) -> list[Expr]:
    """Expressions of class ``of``, one for each e-node but the original."""
    found = []
    for node in np.flatnonzero(snapshot.node_class == of).tolist():
        if node != original:
            chosen = choice.copy()
            chosen[of] = node
            if _is_acyclic(snapshot, chosen, of):
                found.append(build_expr(snapshot, chosen, of))
            elif all(_is_acyclic(snapshot, choice, child) for child in snapshot.children(node)):
                found.append(_over_itself(snapshot, choice, node))
    return found


def _over_itself(snapshot: Snapshot, choice: NDArray[np.int64], node: int) -> Expr:
    """An e-node over the original of its own class, which it asks for its sizes."""
    symbol = snapshot.symbols[snapshot.node_symbol[node]]
    atom = snapshot.atoms[snapshot.node_atom[node]]
    return build_captured(symbol, atom, [build_expr(snapshot, choice, child) for child in snapshot.children(node)], {})


def _is_acyclic(snapshot: Snapshot, choice: NDArray[np.int64], root: int) -> bool:
    """Whether the graph that ``choice`` describes ends."""
    state: dict[int, bool] = {}
    stack = [root]
    while stack:
        of = stack[-1]
        if state.get(of) is None:
            state[of] = False
            for child in snapshot.children(int(choice[of])):
                if state.get(child) is False:
                    return False
                if child not in state:
                    stack.append(child)
        else:
            state[stack.pop()] = True
    return True


def _complete(snapshot: Snapshot, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """``choice`` with an e-node for every class, of those over classes that have one already."""
    changed = True
    while changed:
        changed = False
        for node, of in enumerate(snapshot.node_class.tolist()):
            if choice[of] < 0 and all(choice[child] >= 0 for child in snapshot.children(node)):
                choice[of] = node
                changed = True
    return choice
