"""DeadCodeElimination: drop lets whose variable is not used."""

from __future__ import annotations

from eqsat.relay.expr import Expr, Function, Let, Var
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.transform.purity import impure_globals, impure_nodes
from eqsat.relay.visitor import post_order, rebuild


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Replace ``let v = e; body`` by ``body`` where nothing alive uses ``v``.

    Args:
        inline_once: whether to put the value of a variable that is used once in the place of its use.
        ignore_impurity: whether to drop values whose evaluation has effects, too.
    """

    def transform(function: Function, mod: IRModule, context: PassContext) -> Function:
        order = post_order(function)
        impure: set[Expr] = set() if ignore_impurity else impure_nodes(order, impure_globals(mod))
        uses = _live_uses(function, impure)
        new: dict[Expr, Expr] = {}
        lets = {node.var: node for node in order if isinstance(node, Let)}
        for node in order:
            let = lets.get(node) if isinstance(node, Var) else None
            if let is not None and let.value in new and inline_once and _is_inlined(let, uses, impure):
                new[node] = new[let.value]
            elif isinstance(node, Let) and (not _is_kept(node, uses, impure) or new[node.var] is not node.var):
                new[node] = new[node.body]
            else:
                new[node] = rebuild(node, new)
        cleaned = new[function]
        return cleaned if isinstance(cleaned, Function) else function

    return FunctionPass(transform, PassInfo(1, "DeadCodeElimination"))


def _is_kept(let: Let, uses: dict[Expr, int], impure: set[Expr]) -> bool:
    return let.value in impure or uses.get(let.var, 0) > 0


def _is_inlined(let: Let, uses: dict[Expr, int], impure: set[Expr]) -> bool:
    return uses.get(let.var, 0) == 1 and let.value not in impure


def _live_uses(root: Expr, impure: set[Expr]) -> dict[Expr, int]:
    """How often each node is used by what the result or an effect needs; a let does not use its variable."""
    uses: dict[Expr, int] = {}
    waiting: dict[Expr, Expr] = {}
    stack: list[Expr] = [root]
    while stack:
        node = stack.pop()
        uses[node] = uses.get(node, 0) + 1
        if uses[node] > 1:
            continue
        if isinstance(node, Let):
            stack.append(node.body)
            if node.value in impure or node.var in uses:
                stack.append(node.value)
            else:
                waiting[node.var] = node.value
        elif isinstance(node, Function):
            stack.append(node.body)
        elif node in waiting:
            stack.append(waiting.pop(node))
        else:
            stack.extend(node.children())
    return uses
