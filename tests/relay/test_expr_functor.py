"""``ExprFunctor``: classes whose methods say what is done with each class of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from eqsat import relay


class Depth(relay.ExprFunctor):
    def visit_call(self, call: Any) -> int:
        return 1 + max(self.visit(arg) for arg in call.args)

    def visit_var(self, var: Any) -> int:
        return 0


def test_each_node_is_visited_once_by_the_method_of_its_class() -> None:
    expr: Any = relay.var("x")
    for _ in range(100):
        expr = expr + expr
    assert Depth().visit(expr) == 100


def test_a_class_without_a_method_is_not_visited() -> None:
    with pytest.raises(NotImplementedError, match="Depth does not define visit_constant"):
        Depth().visit(relay.var("x") + relay.const(1.0))


def test_a_method_for_all_other_nodes() -> None:
    class Kinds(relay.ExprFunctor):
        def visit_other(self, expr: relay.Expr) -> str:
            return expr.kind

        def visit_var(self, var: Any) -> str:
            return str(var.name_hint)

    assert [Kinds().visit(node) for node in (relay.var("x"), relay.Tuple([]))] == ["x", "tuple"]


def test_visitors_are_functors() -> None:
    assert issubclass(relay.ExprVisitor, relay.ExprFunctor)
    x = relay.var("x")
    function = relay.Function([x], relay.TupleGetItem(relay.Tuple([x, x + x]), 1))
    assert relay.ExprMutator().visit(function) is function
