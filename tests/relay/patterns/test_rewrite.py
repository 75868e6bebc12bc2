"""Rewriting by callbacks: order, fixpoint, what a callback is given, what its result does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import IRModule, relay
from eqsat.errors import RewriteError
from eqsat.ir import structural_equal
from eqsat.relay.dataflow_pattern import (
    DFPattern,
    DFPatternCallback,
    FunctionPattern,
    dominates,
    is_constant,
    is_expr,
    is_op,
    is_var,
    rewrite,
    wildcard,
)
from eqsat.relay.visitor import post_order

from .helpers import variables
from .oracle_callbacks import AddToSubtractOnce, BnRecognise


class Recorder(DFPatternCallback):
    """Calls `change(pre, post, node_map)` and keeps what it was called with."""

    def __init__(self, pattern: DFPattern, change: Any = lambda pre, post, node_map: post, **options: bool):
        super().__init__(**options)
        self.pattern, self.change = pattern, change
        self.calls: list[Any] = []

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        self.calls.append((pre, post, node_map))
        return self.change(pre, post, node_map)


def to_subtract(**options: bool) -> Recorder:
    a, b = wildcard(), wildcard()
    return Recorder(a + b, lambda pre, post, m: m[a][0] - m[b][0], **options)


class TestRewriting:
    def test_a_sum_becomes_a_difference(self) -> None:
        x, y = variables("x y")
        assert structural_equal(rewrite(to_subtract(), x + y), x - y)
        assert structural_equal(to_subtract().rewrite(x + y), x - y)

    def test_operands_may_call_functions(self) -> None:
        x, w, p, y = variables("x w p y")
        call = relay.Call(relay.Function([p], relay.nn.relu(p)), [x])
        assert structural_equal(rewrite(to_subtract(), call + y), call - y)
        assert structural_equal(rewrite(to_subtract(), relay.nn.dense(call, w) + y), relay.nn.dense(call, w) - y)

    def test_a_composite_call_is_inlined(self) -> None:
        x, y, a, b = variables("x y a b")
        add = relay.Function([x, y], x + y).with_attr("Composite", "add")
        left, right = wildcard(), wildcard()
        inline = Recorder(
            wildcard().has_attr({"Composite": "add"})(left, right), lambda pre, post, m: m[left][0] + m[right][0]
        )
        assert structural_equal(rewrite(inline, relay.Call(add, [a, b])), a + b)

    def test_the_identity_changes_nothing_in_nested_matches(self) -> None:
        x, y = variables("x y")
        a, b = wildcard(), wildcard()
        expr = (x + y) + (x + y)
        keep = Recorder(a + (a | b))
        assert rewrite(keep, expr) is expr

    def test_rewriting_reaches_a_fixpoint(self) -> None:
        x = relay.var("x")
        w = wildcard()
        inner = is_op("tanh")(w)
        merge = Recorder(is_op("tanh")(inner), lambda pre, post, m: relay.tanh(m[w][0]))
        t1 = relay.tanh(x)
        t2 = relay.tanh(t1)
        t3 = relay.tanh(t2)
        t4 = relay.tanh(t3)
        assert structural_equal(rewrite(merge, t4), relay.tanh(x))
        # two groups in the first pass, inputs first; what the second is given has the first one's result
        assert [pre for pre, _, _ in merge.calls[:2]] == [t2, t4]
        assert structural_equal(merge.calls[1][2][w][0], relay.tanh(x))
        assert len(merge.calls) == 3


class TestWhatACallbackIsGiven:
    def test_pre_post_and_node_map(self) -> None:
        x, y = variables("x y")
        a, b = is_op("tanh")(wildcard()), wildcard()
        keep = Recorder(a + b)
        expr = relay.tanh(x) + y
        rewrite(keep, expr)
        ((pre, post, node_map),) = keep.calls
        assert pre is post is expr
        assert node_map[keep.pattern] == [expr]
        assert node_map[a] == [expr.args[0]]
        assert node_map[b] == [y]
        assert node_map[keep.pattern.op] == [relay.op.get("add")]

    def test_patterns_that_took_no_part_are_absent(self) -> None:
        x, y = variables("x y")
        left, right = is_constant(), is_var()
        keep = Recorder((left | right) + wildcard())
        rewrite(keep, x + y)
        node_map = keep.calls[0][2]
        assert left not in node_map
        assert node_map[right] == [x]

    def test_post_has_rewritten_operands_and_pre_has_not(self) -> None:
        x, y, z = variables("x y z")
        recorder = to_subtract()
        expr = x + (y + z)
        rewrite(recorder, expr)
        pre, post, node_map = recorder.calls[1]
        assert pre is expr
        assert structural_equal(post, x + (y - z))
        assert node_map[recorder.pattern] == [post]

    def test_returning_pre_discards_what_happened_to_the_operands(self) -> None:
        x, y, z = variables("x y z")
        a, b = wildcard(), wildcard()
        inner = Recorder(a + b, lambda pre, post, m: pre if pre is expr else m[a][0] - m[b][0])
        expr = x + (y + z)
        assert rewrite(inner, expr) is expr

    def test_a_shared_match_is_replaced_once(self) -> None:
        x, y = variables("x y")
        shared = x + y
        recorder = to_subtract()
        result = rewrite(recorder, shared * shared)
        assert len(recorder.calls) == 1
        assert result.args[0] is result.args[1]

    def test_several_outputs_stand_for_their_tuple(self) -> None:
        x = relay.var("x")
        recorder = Recorder(is_op("tanh")(wildcard()), lambda pre, post, m: relay.split(x, 2))
        assert structural_equal(rewrite(recorder, relay.tanh(x)), relay.split(x, 2).astuple())

    def test_types_on_demand(self) -> None:
        x = relay.var("x", shape=(2, 3), dtype="float16")
        seen: list[Any] = []
        note = Recorder(is_op("tanh")(wildcard()), lambda pre, post, m: seen.append(pre.checked_type) or post)
        note.require_type = True
        rewrite(note, relay.tanh(x))
        assert seen == [relay.TensorType((2, 3), "float16")]

    def test_types_of_called_functions_come_from_the_module(self) -> None:
        x = relay.var("x", shape=(2,))
        mod = IRModule({"f": relay.Function([x], relay.tanh(x), x.type_annotation)})
        y = relay.var("y", shape=(2,))
        expr = relay.nn.relu(relay.Call(mod.get_global_var("f"), [y]))
        note = Recorder(is_op("nn.relu")(wildcard()), require_type=True)
        assert structural_equal(rewrite(note, expr, mod), expr)
        assert note.calls[0][0].args[0].checked_type == relay.TensorType((2,))


class TestOrderAndLimits:
    def test_callbacks_take_turns_in_order(self) -> None:
        x, y = variables("x y")
        first = to_subtract()
        a, b = wildcard(), wildcard()
        second = Recorder(a - b, lambda pre, post, m: m[a][0] * m[b][0])
        assert structural_equal(rewrite([first, second], x + y), x * y)
        assert structural_equal(rewrite([second, first], x + y), x * y)

    def test_rewrite_once_is_one_pass_that_changes_something(self) -> None:
        x, y, z = variables("x y z")
        add_zero = lambda pre, post, m: post + relay.const(0.0)  # noqa: E731
        once = Recorder(is_op("nn.relu")(wildcard()), add_zero, rewrite_once=True)
        expr = relay.nn.relu(x) * relay.nn.relu(y)
        both = relay.Function([x, y], expr)
        assert len([n for n in post_order(rewrite(once, both)) if isinstance(n, relay.Constant)]) == 2
        assert structural_equal(rewrite(AddToSubtractOnce(), (x + y) + z), (x - y) - z)

    def test_rewrite_once_waits_for_a_match(self) -> None:
        x, y = variables("x y")
        a, b = wildcard(), wildcard()
        later = Recorder(a * b, lambda pre, post, m: (m[a][0] * m[b][0]) / y, rewrite_once=True)
        make = Recorder(is_op("tanh")(a), lambda pre, post, m: m[a][0] * x)
        assert structural_equal(rewrite([later, make], relay.tanh(x)), (x * x) / y)

    def test_rewriting_that_does_not_settle(self) -> None:
        x, y = variables("x y")
        a, b = wildcard(), wildcard()
        swap = Recorder(a + b, lambda pre, post, m: m[b][0] + m[a][0])
        with pytest.raises(RewriteError, match="Observed 100 rewrite passes, possible conflicting passes"):
            rewrite(swap, relay.Function([x, y], x + y))
        # over free variables both orders are equal: one pass, no error
        assert structural_equal(rewrite(swap, x + y), y + x)

    def test_rewriting_that_grows_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("eqsat.relay.dataflow_pattern.rewriter._GROWTH_FREE", 10_000)
        x = relay.var("x")
        double = Recorder(is_op("tanh")(wildcard()), lambda pre, post, m: relay.tanh(post))
        with pytest.raises(RewriteError, match="grow without end"):
            rewrite(double, relay.tanh(x))

    def test_many_callbacks_do_not_use_up_the_passes(self) -> None:
        x, y = variables("x y")
        assert structural_equal(rewrite([to_subtract() for _ in range(120)], x + y), x - y)


class BatchNorm:
    x, var, mean, beta, gamma = variables("x var mean beta gamma")
    eps = relay.const(1e-5)

    @classmethod
    def recognised(cls, x: Any, gamma: Any = None, beta: Any = None) -> Any:
        return relay.nn.batch_norm(x, gamma or cls.gamma, beta or cls.beta, cls.mean, cls.var, epsilon=1e-5)[0]


class TestBatchNorm(BatchNorm):
    @pytest.mark.parametrize(
        "write",
        [
            lambda x, v, m, b, g, eps: g * (x - m) / relay.sqrt(v + eps) + b,
            lambda x, v, m, b, g, eps: b + g * (x - m) / relay.sqrt(v + eps),
            lambda x, v, m, b, g, eps: (g * (x - m)) / relay.sqrt(eps + v) + b,
            lambda x, v, m, b, g, eps: g * ((x - m) / relay.sqrt(v + eps)) + b,
        ],
    )
    def test_every_way_of_writing_it(self, write) -> None:
        expr = write(self.x, self.var, self.mean, self.beta, self.gamma, self.eps)
        assert structural_equal(rewrite(BnRecognise(), expr), self.recognised(self.x), map_free_vars=False)

    def test_a_difference_is_none(self) -> None:
        expr = self.gamma * (self.x - self.mean) / relay.sqrt(self.var + self.eps) - self.beta
        assert rewrite(BnRecognise(), expr) is expr

    def test_one_on_top_of_another(self) -> None:
        def written(x: Any, gamma: Any, beta: Any, end: Any) -> Any:
            return end(gamma * (x - self.mean) / relay.sqrt(self.var + self.eps), beta)

        gamma, beta = variables("gamma2 beta2")
        inner = written(self.x, self.gamma, self.beta, relay.add)
        double = written(inner, gamma, beta, relay.add)
        expected = self.recognised(self.recognised(self.x), gamma, beta)
        assert structural_equal(rewrite(BnRecognise(), double), expected)
        different = written(self.x, self.gamma, self.beta, relay.subtract)
        partial = written(different, gamma, beta, relay.add)
        assert structural_equal(rewrite(BnRecognise(), partial), self.recognised(different, gamma, beta))


def simplifiers() -> list[DFPatternCallback]:
    """x + 0, x - 0, x * 1, x / 1, 0 * x and 0 / x."""
    x = wildcard()
    zero = is_expr(relay.const(0)) | is_expr(relay.const(0.0))
    one = is_expr(relay.const(1)) | is_expr(relay.const(1.0))
    to_x: Any = lambda pre, post, m: m[x][0]  # noqa: E731
    to_zero: Any = lambda pre, post, m: m[zero][0]  # noqa: E731
    patterns = {x + zero: to_x, x - zero: to_x, x * one: to_x, x / one: to_x, zero * x: to_zero, zero / x: to_zero}
    return [Recorder(pattern, change) for pattern, change in patterns.items()]


@pytest.mark.parametrize("number", [int, float])
def test_algebraic_simplification(number: type) -> None:
    x, y = variables("x y")
    zero, one = relay.const(number(0)), relay.const(number(1))
    for expr, expected in [
        (x + zero, x),
        (x - zero, x),
        (x * one, x),
        (x / one, x),
        (zero / x, zero),
        (zero * x, zero),
        (zero + x * one, x),
    ]:
        assert rewrite(simplifiers(), expr) is expected
    compound = (x + zero * y) / one + (y * one) - zero / x
    assert structural_equal(rewrite(simplifiers(), compound), x + y)


def test_functions_with_any_body() -> None:
    x, w, p, q, b = variables("x w p q b")
    conv = relay.nn.conv2d(p, q)
    function = relay.Function([p, q], relay.nn.relu(conv))
    call = relay.Call(function, [x, w]) + b
    pattern = FunctionPattern([wildcard(), wildcard()], wildcard())(wildcard(), wildcard()) + wildcard()
    assert rewrite(Recorder(pattern, lambda pre, post, m: x), call) is x


def test_four_regions_stacked() -> None:
    x, w = variables("x w")

    def region(data: Any, small: bool) -> Any:
        conv = relay.nn.conv2d(data, w)
        one = relay.nn.relu(conv) if small else relay.tanh(relay.nn.relu(conv))
        return one + relay.nn.leaky_relu(conv, alpha=0.0)

    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    path = wildcard().has_attr({"TOpPattern": 0})(None)
    pattern = dominates(conv, path, is_op("add")(wildcard(), wildcard()))
    keep_conv = Recorder(pattern, lambda pre, post, m: m[conv][0])
    expr = expected = x
    for small in (True, False, True, False):
        expr, expected = region(expr, small), relay.nn.conv2d(expected, w)
    assert structural_equal(rewrite(keep_conv, expr), expected)


class TestRecursivePatterns:
    def test_a_chain_is_rewritten_as_one(self) -> None:
        x, w = variables("x w")
        expr = relay.nn.dense(x, w)
        for dtype in ("float16", "float32") * 3:
            expr = relay.cast(expr, dtype)
        tail = wildcard()
        chain = is_op("cast")(tail)
        tail.redirect_to(chain | is_op("nn.dense")(wildcard(), wildcard()))
        recorder = Recorder(chain, lambda pre, post, m: relay.nn.relu(post), rewrite_once=True)
        result = rewrite(recorder, expr)
        assert structural_equal(result, relay.nn.relu(expr))
        assert len(recorder.calls) == 1


def test_leaf_patterns_that_own_their_node() -> None:
    x = relay.var("x")
    swap = Recorder(is_op("tanh"), lambda pre, post, m: relay.op.get("sigmoid"))
    assert structural_equal(rewrite(swap, relay.tanh(x)), relay.sigmoid(x))
    negate = Recorder(
        is_constant(), lambda pre, post, m: relay.const(-np.abs(post.data.numpy())) if post.data.numpy() > 0 else post
    )
    assert structural_equal(rewrite(negate, x + relay.const(2.0)), x + relay.const(-2.0))
    never = Recorder(is_var())
    assert rewrite(never, x + x) is not None
    assert never.calls == []
