"""Rules are checked where they are written, and act as equations."""

from __future__ import annotations

from typing import Any

import pytest

import eqsat
from eqsat import extraction, relay, rules
from eqsat.egraph.author import given
from eqsat.egraph.schedule import Backoff, Phase, Schedule
from eqsat.errors import ArgumentError, LimitError, RuleError, TypeCheckError
from eqsat.relay.dataflow_pattern import DFPattern, DFPatternCallback, is_op, is_var, wildcard
from eqsat.relay.expr import Expr
from eqsat.rules import FoldConstants, RuleSet, refuse, rewrite, rule, type_of, variables, when

a, b, c = variables("a b c")
x = relay.var("x", shape=(2, 3))
y = relay.var("y", shape=(3,))

commute = rewrite("commute", a + b, b + a)
associate = rewrite("associate", (a + b) + c, a + (b + c))


class TestWhatARuleMayNotSay:
    def test_a_right_side_variable_must_be_matched(self) -> None:
        with pytest.raises(RuleError, match=r"rule r: the right side uses 'b'"):
            rewrite("r", a + a, b)

    def test_a_guard_s_variable_must_be_matched(self) -> None:
        with pytest.raises(RuleError, match=r"rule r: a guard uses 'b'"):
            rewrite("r", a + a, a, when(lambda ty: True, type_of(b)))

    def test_the_left_side_must_name_something(self) -> None:
        with pytest.raises(RuleError, match="matches everything"):
            rewrite("r", a, a)

    def test_two_rules_of_one_name(self) -> None:
        with pytest.raises(RuleError, match="two different rules are named 'commute'"):
            RuleSet("s", [commute, rewrite("commute", a * b, b * a)])

    @pytest.mark.parametrize("what", ["default", 3, [None], [["default"]]])
    def test_what_is_no_rule(self, what: object) -> None:
        with pytest.raises(RuleError, match="is no rule, rule set or DFPatternCallback"):
            eqsat.saturate(x + y, what)  # type: ignore[arg-type]

    def test_a_rule_that_changes_the_type_is_named_with_both_types(self) -> None:
        with pytest.raises(RuleError, match=r"rule bad joined .*Tensor\[\(2, 3\), float32\] .* float32"):
            eqsat.saturate(x + y, [rewrite("bad", a + b, relay.sum(a))])

    def test_a_python_rule_s_parameters_are_labels(self) -> None:
        with pytest.raises(RuleError, match="labelled 'z'"):

            @rule("r", a + b)
            def _(z: Expr) -> Expr:
                return z


class TestCallbacks:
    def test_a_relay_callback_is_a_rule(self) -> None:
        class TanhOfSigmoid(DFPatternCallback):
            def __init__(self) -> None:
                super().__init__()
                self.inner = wildcard()
                self.pattern = is_op("tanh")(is_op("sigmoid")(self.inner))

            def callback(self, pre: Expr, post: Expr, node_map: dict[DFPattern, list[Expr]]) -> Expr:
                assert pre.checked_type == x.type_annotation
                return relay.nn.relu(node_map[self.inner][0])

        best = eqsat.extract(eqsat.saturate(relay.tanh(relay.sigmoid(x)), [TanhOfSigmoid()]))
        assert eqsat.ir.structural_equal(best.expr, relay.nn.relu(x))

    @pytest.mark.parametrize("others", [[], [commute]])
    def test_operands_are_seen_exchanged_where_they_do_not_match_as_written(self, others: list[Any]) -> None:
        seen: list[tuple[Expr, Expr]] = []

        class Sum(DFPatternCallback):
            def __init__(self, left: DFPattern) -> None:
                super().__init__()
                self.left, self.right = left, wildcard()
                self.pattern = self.left + self.right

            def callback(self, pre: Expr, post: Expr, node_map: dict[DFPattern, list[Expr]]) -> Expr:
                assert pre.args == (x, y)
                seen.append((node_map[self.left][0], node_map[self.right][0]))
                return post

        eqsat.saturate(x + y, [Sum(wildcard()), *others])
        assert set(seen) == {(x, y)}
        seen.clear()
        eqsat.saturate(x + y, [Sum(is_var("y")), *others])
        assert set(seen) == {(y, x)}

    def test_instances_of_one_class_are_rules_of_their_own(self) -> None:
        class Drop(DFPatternCallback):
            def __init__(self, name: str) -> None:
                super().__init__()
                self.inner = wildcard()
                self.pattern = is_op(name)(self.inner)

            def callback(self, pre: Expr, post: Expr, node_map: dict[DFPattern, list[Expr]]) -> Expr:
                return node_map[self.inner][0]

        relu, tanh = Drop("nn.relu"), Drop("tanh")
        graph = relay.nn.relu(relay.tanh(x))
        together = RuleSet("all", [relu]) + RuleSet("others", [tanh, relu])
        apart = Schedule((Phase.of([relu]), Phase.of([tanh])))
        for rules_given in ([relu, tanh, relu], together, apart):
            saturation = eqsat.saturate(graph, rules_given)
            assert eqsat.extract(saturation).expr is x
            assert list(saturation.report.rules) == ["Drop", "Drop-2"]
        with pytest.raises(RuleError, match="two different rules are named 'Drop'"):
            RuleSet("s", [relu, rewrite("Drop", is_op("tanh")(a), a)])

    def test_refusals_are_counted_by_reason(self) -> None:
        @rule("never", is_op("tanh")(a))
        def never(a: Expr) -> object:
            return refuse("not today")

        report = eqsat.saturate(relay.tanh(relay.tanh(x)), [never]).report
        assert report.rules["never"].refusals == {"not today": 2}

    def test_a_failing_rule_is_named(self) -> None:
        @rule("broken", is_op("tanh")(a))
        def broken(a: Expr) -> object:
            raise ValueError("oops")

        with pytest.raises(RuleError, match=r"rule broken failed on .*tanh.*oops"):
            eqsat.saturate(relay.tanh(x), [broken])


class TestSaturation:
    @pytest.mark.parametrize("backoff", [None, Backoff(), Backoff(match_limit=10, ban_length=1)])
    def test_associativity_and_commutativity_of_eight_leaves(self, backoff: Backoff | None) -> None:
        total: Expr = relay.var("v0", shape=(4,))
        for index in range(1, 8):
            total = total + relay.var(f"v{index}", shape=(4,))
        schedule = Schedule((Phase.of([commute, associate]),), backoff=backoff)
        done = eqsat.saturate(total, schedule, eqsat.Limits(iterations=200))
        assert done.stop_reason == "saturated"
        assert done.node_count == 8 + (3**8 - 2**9 + 1)  # every way to split every subset of the leaves
        assert done.class_count == 2**8 - 1

    def test_associativity_and_commutativity_of_ten_leaves(self) -> None:
        total: Expr = relay.var("v0", shape=(3,))
        for index in range(1, 10):
            total = total + relay.var(f"v{index}", shape=(3,))
        limits = eqsat.Limits(iterations=100, nodes=10**6, seconds=300)
        saturation = eqsat.saturate(total, [commute, associate], limits)
        assert saturation.stop_reason == "saturated"
        assert saturation.node_count == 57_002 + 10

    def test_limits_must_be_positive(self) -> None:
        for wrong in ({"iterations": 0}, {"nodes": -1}, {"seconds": 0.0}, {"memory": 0}):
            with pytest.raises(LimitError, match="give a number above 0"):
                eqsat.Limits(**wrong)

    def test_an_ill_typed_graph_names_operator_and_types(self) -> None:
        with pytest.raises(TypeCheckError, match=r"add\(Tensor\[\(2, 3\), float32\], Tensor\[\(7\), float32\]\)"):
            eqsat.saturate(x + relay.var("q", shape=(7,)))

    def test_constants_are_folded_where_they_are_small(self) -> None:
        graph = x * (relay.const(2.0) * relay.const(3.0))
        best = eqsat.extract(eqsat.saturate(graph, [FoldConstants()]), extraction.OpCount())
        assert eqsat.ir.structural_equal(best.expr, x * relay.const(6.0))

    def test_a_bound_variable_stays_inside_its_function(self) -> None:
        p = relay.var("p", shape=(3,))
        inner = relay.Function([p], relay.nn.relu(relay.nn.relu(p)) + y)
        best = eqsat.optimize(inner(relay.nn.relu(y)))
        assert relay.analysis.free_vars(best) == [y]
        assert isinstance(best, relay.Call)
        assert isinstance(best.op, relay.Function)
        assert eqsat.ir.structural_equal(best.op, relay.Function([p], relay.nn.relu(p) + y))

    def test_default_rules_hold_nothing_that_assumes_finite_values(self) -> None:
        assert all(each.soundness is not rules.Soundness.FINITE for each in rules.default)


class TestFailingRules:
    """A rule whose Python part raises."""

    class Broken(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_op("nn.relu")(wildcard())

        def callback(self, pre, post, node_map):
            raise KeyError("no such layer")

    def test_the_error_names_rule_match_and_cause(self) -> None:
        with pytest.raises(RuleError, match=r"Broken failed on .*nn\.relu.*no such layer") as raised:
            eqsat.saturate(relay.nn.relu(y), [self.Broken()])
        assert isinstance(raised.value.__cause__, KeyError)

    def test_the_run_goes_on_when_asked_to(self) -> None:
        x = wildcard()
        twice = rewrite("twice", relay.nn.relu(relay.nn.relu(x)), relay.nn.relu(x))
        saturation = eqsat.saturate(relay.nn.relu(relay.nn.relu(y)), [self.Broken(), twice], on_error="skip")
        assert eqsat.ir.structural_equal(eqsat.extract(saturation).expr, relay.nn.relu(y))
        assert saturation.report.failures
        assert "KeyError: 'no such layer'" in saturation.report.failures[0].traceback
        assert "failed: rule Broken failed on" in str(saturation.report)

    def test_a_failing_guard_says_what_it_was_given(self) -> None:
        x = wildcard()
        rule = rewrite("guarded", is_op("nn.relu")(x), x, when(lambda ty: ty.shape[7], type_of(x)))
        with pytest.raises(RuleError, match=r"guarded: its Python part failed on Tensor\[\(3\), float32\]: IndexError"):
            eqsat.saturate(relay.nn.relu(y), [rule])
        skipped = eqsat.saturate(relay.nn.relu(y), [rule], on_error="skip")
        assert [failure.rule for failure in skipped.report.failures] == ["guarded"]

    def test_there_is_no_third_way(self) -> None:
        with pytest.raises(ArgumentError, match="on_error is 'raise' or 'skip'"):
            eqsat.saturate(y, [], on_error="ignore")


def test_python_is_asked_only_about_what_the_graph_computes_in_succession() -> None:
    u, v = variables("u v")
    first, second = relay.nn.relu(u), relay.nn.relu(v)
    asked: list[tuple[int, int]] = []

    def note(one: int, other: int) -> bool:
        asked.append((one, other))
        return False

    places = (rules.place_of(first), rules.place_of(second))
    near = rewrite("near", (first, second), (second, first), when(note, *places), rules.successive(3, first, second))
    inputs = [relay.var(f"x{number}", shape=(3,)) for number in range(40)]
    eqsat.saturate(relay.Tuple([*map(relay.nn.relu, inputs)]), [near])
    assert sorted(asked) == [(k, k + d) for k in range(40) for d in (1, 2) if k + d < 40]


def test_what_only_moves_elements_is_computed_where_they_are() -> None:
    u, v = variables("u v")
    given, made = relay.nn.relu(u), relay.tanh(v)
    asked: list[tuple[int, int]] = []
    row = relay.reshape(given)
    written = rewrite("made", row, relay.reshape(relay.tanh(u), newshape=(6,)))
    places = (rules.place_of(given), rules.place_of(made))
    asking = rewrite("asks", (given, made), (made, given), when(lambda *found: asked.append(found), *places))
    matrix = relay.nn.relu(relay.nn.relu(relay.var("x", shape=(2, 3))))
    eqsat.saturate(relay.reshape(matrix, newshape=(6,)), [written, asking])
    assert sorted(asked) == [(0, 1), (1, 1)]


def test_rules_for_what_is_given_leave_alone_what_rules_made() -> None:
    u, v = variables("u v")
    made = rewrite("made", relay.exp(u), relay.abs(relay.tanh(u)))
    tangent = relay.tanh(v)
    back = rewrite("back", tangent, relay.abs(relay.sigmoid(v)), given(tangent))
    x = relay.var("x", shape=(2,))
    for graph, matches in ((relay.exp(x), 0), (relay.negative(relay.tanh(x)), 1)):
        assert eqsat.saturate(graph, [made, back]).report.rule("back").matches == matches


class TestSingleUse:
    """A guard on how often the input graph reads a value."""

    sunk = rewrite("sink", relay.nn.relu(relay.tanh(a)), relay.sigmoid(a), rules.single_use(a))

    def cheap_sigmoid(self, graph: Expr) -> Expr:
        cost = {"sigmoid": 0.1}
        return eqsat.optimize(graph, [self.sunk], cost_model=lambda node: cost.get(node.op, 1.0))

    def test_one_reader(self) -> None:
        assert eqsat.ir.structural_equal(self.cheap_sigmoid(relay.nn.relu(relay.tanh(x))), relay.sigmoid(x))

    def test_two_readers(self) -> None:
        graph = relay.nn.relu(relay.tanh(x)) + x
        assert eqsat.ir.structural_equal(self.cheap_sigmoid(graph), graph)

    def test_the_result_of_the_graph_is_a_reader(self) -> None:
        graph = relay.Tuple([relay.nn.relu(relay.tanh(x)), x])
        assert eqsat.ir.structural_equal(self.cheap_sigmoid(graph), graph)

    def test_what_is_equal_to_it_is_no_reader(self) -> None:
        same = rewrite("same", relay.where(b, a, a), a)
        graph = relay.nn.relu(relay.tanh(relay.where(relay.var("c", shape=(3,), dtype="bool"), x, x)))
        best = eqsat.optimize(graph, [same, self.sunk], cost_model=lambda node: {"sigmoid": 0.1}.get(node.op, 1.0))
        assert eqsat.ir.structural_equal(best, relay.sigmoid(x))

    def test_equal_nodes_read_it_twice(self) -> None:
        best = self.cheap_sigmoid(relay.nn.relu(relay.tanh(x)) * relay.nn.relu(relay.tanh(x)))
        once = relay.nn.relu(relay.tanh(x))
        assert eqsat.ir.structural_equal(best, once * once)
