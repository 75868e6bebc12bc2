"""DeadCodeElimination and ToGraphNormalForm: fewer lets, or none."""

from __future__ import annotations

from eqsat.relay.expr import Call, Expr, Function, GlobalVar, Let, Op, Var
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.visitor import children_first, post_order, rebuild


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Replace ``let v = e; body`` by ``body`` where nothing alive uses ``v``.

    Args:
        inline_once: whether to put the value of a variable that is used once in the place of its use.
        ignore_impurity: whether to drop values whose evaluation has effects, too.
    """

    def transform(function: Function, mod: IRModule, context: PassContext) -> Expr:
        order = post_order(function)
        impure: set[Expr] = set() if ignore_impurity else _impure_nodes(order, _impure_globals(mod))
        uses = _live_uses(function, impure)
        new: dict[Expr, Expr] = {}
        lets = {node.var: node for node in order if isinstance(node, Let)}
        for node in order:
            let = lets.get(node) if isinstance(node, Var) else None
            if let is not None and let.value in new and inline_once and uses.get(node) == 1 and let.value not in impure:
                new[node] = new[let.value]
            elif isinstance(node, Let) and (
                new[node.var] is not node.var or not (node.value in impure or uses.get(node.var))
            ):
                new[node] = new[node.body]
            else:
                new[node] = rebuild(node, new)
        return new[function]

    return FunctionPass(transform, PassInfo(1, "DeadCodeElimination"))


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


def _impure_globals(mod: IRModule) -> set[str]:
    """Names of functions whose call may do something beside computing its result."""
    callers: dict[str, list[str]] = {}
    impure: list[str] = []
    for variable, function in mod.functions.items():
        name = variable.name_hint
        nodes = post_order(function)
        for node in nodes:
            if isinstance(node, GlobalVar):
                callers.setdefault(node.name_hint, []).append(name)
        # a function that calls itself may not end, which dropping its call would hide
        calls_itself = name in callers and name in callers[name]
        if calls_itself or function.body in _impure_nodes(nodes, set()):
            impure.append(name)
    return set(children_first(impure, lambda name: callers.get(name, [])))


def _impure_nodes(nodes: list[Expr], globals_: set[str]) -> set[Expr]:
    """Those of all nodes of an expression, in post-order, whose evaluation may do more than compute a value.

    ``globals_`` are the names of functions that are impure to call.
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


def ToGraphNormalForm() -> Pass:
    """Replace ``let v = e; body`` by ``body`` with every ``v`` being the one expression ``e``.

    A function that calls itself keeps a let, around each of its uses outside: ``let f = fn … f …; f``.
    """
    return FunctionPass(lambda function, mod, context: _without_lets(function), PassInfo(1, "ToGraphNormalForm"))


def _without_lets(function: Function) -> Expr:
    order = post_order(function)
    lets = {node.var: node for node in order if isinstance(node, Let)}
    recursive: dict[Expr, Var] = {}
    new: dict[Expr, Expr] = {}
    for node in order:
        let = lets.get(node) if isinstance(node, Var) else None
        if isinstance(node, Let):
            new[node] = new[node.body]
        elif let is None:
            new[node] = rebuild(node, new)
        elif let.value in new:
            new[node] = new[let.value]
        else:  # the value is still being visited: it uses its own variable
            new[node] = node
            recursive[let.value] = let.var
        if node in recursive:
            variable = recursive[node]
            new[variable] = Let(variable, new[node], variable)
    return new[function]
