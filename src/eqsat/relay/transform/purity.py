"""Which expressions do nothing but compute their value."""

from __future__ import annotations

from eqsat.relay.expr import Call, Expr, Function, GlobalVar, Let, Op, Var
from eqsat.relay.module import IRModule
from eqsat.relay.visitor import post_order


def impure_globals(mod: IRModule) -> set[str]:
    """Names of functions whose call may do something beside computing its result."""
    callers: dict[str, list[str]] = {}
    impure: dict[str, None] = {}
    for variable, function in mod.functions.items():
        name = variable.name_hint
        nodes = post_order(function)
        for node in nodes:
            if isinstance(node, GlobalVar):
                callers.setdefault(node.name_hint, []).append(name)
        # a function that calls itself may not end, which dropping its call would hide
        calls_itself = name in callers and name in callers[name]
        if calls_itself or function.body in impure_nodes(nodes, set()):
            impure[name] = None
    work = list(impure)
    for name in work:
        for caller in callers.get(name, ()):
            if caller not in impure:
                impure[caller] = None
                work.append(caller)
    return set(impure)


def impure_nodes(nodes: list[Expr], globals_: set[str]) -> set[Expr]:
    """The nodes, of ``nodes`` in post-order, whose evaluation may do more than compute a value.

    Args:
        nodes: all nodes of an expression in post-order.
        globals_: names of functions that are impure to call.
    """
    values = {node.var: node.value for node in nodes if isinstance(node, Let)}
    impure: set[Expr] = set()
    for node in nodes:
        if isinstance(node, Function):
            continue  # a function value does nothing until it is called
        if _acts(node, values, impure, globals_) or any(child in impure for child in node.children()):
            impure.add(node)
    return impure


def _acts(node: Expr, values: dict[Var, Expr], impure: set[Expr], globals_: set[str]) -> bool:
    if node.has_effects:
        return True
    if not isinstance(node, Call):
        return False
    callee = values.get(node.op, node.op) if isinstance(node.op, Var) else node.op
    if isinstance(callee, Op):
        return bool(callee.get_attr("TOpIsStateful"))
    if isinstance(callee, GlobalVar):
        return callee.name_hint in globals_
    return not isinstance(callee, Function) or callee.body in impure
