"""Misuse is told as an error that says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from eqsat import relay
from eqsat.errors import ArgumentError, EqsatError, NoMatchError, PatternError, RewriteError
from eqsat.relay.build_module import bind_params_by_name
from eqsat.relay.dataflow_pattern import (
    DFPatternCallback,
    has_attr,
    has_type,
    is_expr,
    is_op,
    is_tuple,
    match,
    partition,
    rewrite,
    wildcard,
)

from .helpers import variables
from .test_rewrite import Recorder

X = relay.var("x")


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda: wildcard() | 3, "3 is not a pattern"),
        (lambda: is_op("add")(wildcard(), "x"), "'x' is not a pattern"),
        (lambda: is_tuple([wildcard(), None]), "None is not a pattern"),
        (lambda: is_expr(1), "is_expr needs an expression"),
        (lambda: has_attr({"axis": None}), "axis=None matches nothing"),
        (lambda: has_attr({"axis": [1, None]}), "matches nothing"),
        (lambda: has_attr([("axis", 1)]), "needs a dictionary"),
        (lambda: has_type("float32"), "has_type needs a type"),
        (lambda: wildcard().match("x"), "matches expressions, not 'x'"),
        (lambda: match(X, X + X) or match("add", X), "'add' is not a pattern"),
        (lambda: partition("add", X), "partition needs a pattern"),
    ],
)
def test_what_is_no_pattern(misuse: Any, text: str) -> None:
    with pytest.raises(PatternError, match=text):
        misuse()


class TestPatternsDefinedByThemselves:
    def test_a_wildcard_redirected_to_itself(self) -> None:
        w = wildcard()
        with pytest.raises(PatternError, match="defined by itself"):
            w.redirect_to(w)
        assert w.match(X)  # as it was

    def test_through_other_patterns(self) -> None:
        w, v = wildcard(), wildcard()
        v.redirect_to(w.has_attr({"axis": 1}) | is_op("tanh")(None))
        with pytest.raises(PatternError, match="defined by itself"):
            w.redirect_to(v)
        w.redirect_to(is_op("tanh")(v))
        assert w.match(relay.tanh(relay.tanh(X)))

    def test_a_recursive_pattern_used_twice(self) -> None:
        tail = wildcard()
        chain = is_op("tanh")(tail)
        tail.redirect_to(chain | wildcard())
        t = relay.tanh(relay.tanh(X))
        with pytest.raises(PatternError, match="matched 2 expressions"):
            is_op("add")(chain, chain).match(t + t)


@pytest.mark.parametrize("name", ["multiply", "divide"])
@pytest.mark.parametrize("args", [None, 1])
def test_products_and_quotients_need_their_arguments_written(name: str, args: Any) -> None:
    pattern = is_op(name)(None) if args is None else is_op(name)(wildcard())
    if (name, args) == ("divide", 1):
        assert not pattern.match(X + X)
    else:
        with pytest.raises(PatternError, match=rf"is_op\('{name}'\) with (any|1) arguments"):
            pattern.match(X + X)


class TestCallbacks:
    @pytest.mark.parametrize("result", [None, 1.0, "x", [X]])
    def test_a_result_that_is_no_expression(self, result: Any) -> None:
        with pytest.raises(RewriteError, match="callback of Recorder gave"):
            rewrite(Recorder(is_op("tanh")(wildcard()), lambda *_: result), relay.tanh(X))

    def test_forgetting_to_return(self) -> None:
        with pytest.raises(RewriteError, match="return post to leave the match alone"):
            rewrite(Recorder(is_op("tanh")(wildcard()), lambda *_: None), relay.tanh(X))

    def test_asking_for_a_pattern_that_took_no_part(self) -> None:
        taken, other = is_op("tanh")(wildcard()), is_op("exp")(wildcard())
        for stranger in (other, wildcard()):
            callback = Recorder(taken | other, lambda pre, post, m, stranger=stranger: m[stranger][0])
            with pytest.raises(NoMatchError, match=r"node_map has nothing for this (Call|Wildcard)Pattern"):
                rewrite(callback, relay.tanh(X))
        guarded = Recorder(taken | other, lambda pre, post, m: X if other in m else post)
        assert isinstance(rewrite(guarded, relay.tanh(X)), relay.Call)
        with pytest.raises(KeyError):
            rewrite(Recorder(taken, lambda pre, post, m: m[other]), relay.tanh(X))

    def test_forgetting_the_pattern(self) -> None:
        class NoPattern(DFPatternCallback):
            pass

        with pytest.raises(RewriteError, match="NoPattern has no pattern"):
            rewrite(NoPattern(), X)

    def test_forgetting_the_base_constructor(self) -> None:
        class Bare(DFPatternCallback):
            def __init__(self) -> None:
                self.pattern = is_op("tanh")(wildcard())

            def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
                return X

        assert rewrite(Bare(), relay.tanh(X)) is X

    def test_forgetting_the_callback(self) -> None:
        class Silent(DFPatternCallback):
            def __init__(self) -> None:
                super().__init__()
                self.pattern = is_op("tanh")(wildcard())

        with pytest.raises(EqsatError, match="Silent does not define callback"):
            rewrite(Silent(), relay.tanh(X))

    def test_what_is_no_callback(self) -> None:
        with pytest.raises(RewriteError, match="rewrite needs DFPatternCallbacks"):
            rewrite([wildcard()], X)
        with pytest.raises(RewriteError, match="works on expressions"):
            rewrite(Recorder(wildcard()), "x")

    def test_a_module_has_functions(self) -> None:
        module = relay.IRModule.from_expr(relay.tanh(X))
        with pytest.raises(RewriteError, match=r'not .*: give one of its functions, such as mod\["main"\]'):
            rewrite(Recorder(wildcard()), module)  # type: ignore[arg-type]
        for use in (is_op("tanh")(None).partition, is_op("tanh")(None).match):
            with pytest.raises(PatternError, match=r'give one of its functions, such as mod\["main"\]'):
                use(module)  # type: ignore[operator]

    def test_exceptions_of_a_callback_pass_through_and_nothing_is_changed(self) -> None:
        def fail(*_: Any) -> Any:
            raise ZeroDivisionError

        expr = relay.tanh(X) + relay.tanh(X)
        before = expr.args
        with pytest.raises(ZeroDivisionError):
            rewrite(Recorder(is_op("tanh")(wildcard()), fail), expr)
        assert expr.args is before


def test_two_parameters_of_one_name_cannot_be_bound() -> None:
    a, b = variables("p p")
    with pytest.raises(ArgumentError, match="two parameters are named 'p'"):
        bind_params_by_name(relay.Function([a, b], a + b), {"p": 1.0})
