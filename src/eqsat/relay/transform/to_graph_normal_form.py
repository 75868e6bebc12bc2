"""ToGraphNormalForm: sharing instead of lets."""

from __future__ import annotations

from eqsat.relay.expr import Expr, Function, Let, Var
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.visitor import post_order, rebuild


def ToGraphNormalForm() -> Pass:
    """Replace ``let v = e; body`` by ``body`` with every ``v`` being the one expression ``e``.

    A function that calls itself keeps a let, around each of its uses outside: ``let f = fn … f …; f``.
    """
    return FunctionPass(lambda function, mod, context: _without_lets(function), PassInfo(1, "ToGraphNormalForm"))


def _without_lets(function: Function) -> Function:
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
    result = new[function]
    return result if isinstance(result, Function) else function
