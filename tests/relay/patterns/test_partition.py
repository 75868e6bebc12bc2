"""Partitioning: what becomes a function, its name, parameters and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import PatternError
from eqsat.ir import structural_equal
from eqsat.relay.dataflow_pattern import (
    DFPattern,
    FunctionPattern,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from eqsat.relay.infer import infer_type

from .helpers import variables
from .test_rewrite import BatchNorm

relu, tanh = relay.nn.relu, relay.tanh


def carved(body: Any, params: list[Any], name: str, **attrs: Any) -> relay.Function:
    """The function that partitioning makes, over the given variables as parameters."""
    return relay.Function(params, body, attrs={"PartitionedFromPattern": name, **attrs})


def same(a: relay.Expr, b: relay.Expr) -> bool:
    return structural_equal(a, b, map_free_vars=False)


def names(function: Any) -> list[str]:
    return [param.name_hint for param in function.params]


class TestWhatIsMade:
    def test_a_match_becomes_a_call_of_a_function(self) -> None:
        x, w, p, q = variables("x w p q")
        result = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard())).partition(relu(relay.nn.conv2d(x, w)))
        expected = carved(relu(relay.nn.conv2d(p, q)), [p, q], "nn.conv2d_nn.relu_")
        assert same(result, relay.Call(expected, [x, w]))
        assert names(result.op) == ["FunctionVar_0_0", "FunctionVar_0_1"]

    def test_attributes_come_after_the_name_and_may_replace_it(self) -> None:
        x = relay.var("x")
        result = is_op("tanh")(wildcard()).partition(tanh(x), {"Composite": "t", "level": 3})
        assert dict(result.op.attrs) == {"PartitionedFromPattern": "tanh_", "Composite": "t", "level": 3}
        renamed = is_op("tanh")(wildcard()).partition(tanh(x), {"PartitionedFromPattern": "mine"})
        assert renamed.op.attrs["PartitionedFromPattern"] == "mine"

    def test_parameters_follow_the_pattern_not_the_expression(self) -> None:
        x, y = variables("x y")
        b = is_op("tanh")(wildcard())
        result = (b + wildcard()).partition(y + tanh(x))
        assert result.args == (x, y)
        p, q = variables("p q")
        assert same(result.op, carved(q + tanh(p), [p, q], "tanh_add_"))

    def test_an_expression_that_two_leaves_match_is_one_parameter(self) -> None:
        x, w = variables("x w")
        conv = is_op("nn.conv2d")(wildcard(), wildcard())
        pattern = is_op("add")(conv, is_op("nn.conv2d")(wildcard(), wildcard()))
        result = pattern.partition(relay.nn.conv2d(x, w) + relay.nn.conv2d(x, w))
        assert result.args == (x, w)

    def test_numbers_count_matches_from_the_output(self) -> None:
        x = relay.var("x")
        inner = tanh(x)
        result = is_op("tanh")(wildcard()).partition(relu(tanh(relu(inner))))
        outer = result.args[0]
        assert names(outer.op) == ["FunctionVar_0_0"]
        assert names(outer.args[0].args[0].op) == ["FunctionVar_1_0"]

    def test_refused_matches_are_counted(self) -> None:
        x, w = variables("x w")
        conv = relay.nn.conv2d(x, w)
        pattern = is_op("nn.conv2d")(wildcard(), wildcard()).optional(is_op("nn.relu"))
        result = pattern.partition(relu(conv) + conv)
        assert names(result.args[1].op) == ["FunctionVar_1_0", "FunctionVar_1_1"]
        assert result.args[0].args[0] is result.args[1]

    @pytest.mark.parametrize(
        ("build", "pattern", "name"),
        [
            (lambda x: relay.concatenate([x, x], 0), is_op("concatenate")(is_tuple(None)), "Tuple_concatenate_"),
            (lambda x: relay.split(x, 2)[1], is_tuple_get_item(is_op("split")(wildcard())), "split_TupleGetItem1_"),
            (
                lambda x: relay.If(x, tanh(x), x),
                is_if(wildcard(), is_op("tanh")(wildcard()), wildcard()),
                "tanh_If_",
            ),
            (lambda x: relay.Call(x, [tanh(x)]), is_var()(is_op("tanh")(is_var())), "tanh_Call_"),
        ],
    )
    def test_names_list_what_the_body_does(self, build: Any, pattern: DFPattern, name: str) -> None:
        result: Any = pattern.partition(build(relay.var("x")))
        assert result.op.attrs["PartitionedFromPattern"] == name


class TestConstants:
    """Lifted to arguments or embedded in the body: the leaf that matched decides."""

    @pytest.mark.parametrize(
        ("weight", "embedded"),
        [
            (lambda c: wildcard(), False),
            (lambda c: is_constant(), True),
            (lambda c: is_expr(c), True),
            (lambda c: is_var() | is_constant(), True),
            (lambda c: is_constant() | is_var(), True),
            (lambda c: wildcard() | is_constant(), False),
            (lambda c: is_constant() | wildcard(), True),
        ],
    )
    def test_one_constant(self, weight: Any, embedded: bool) -> None:
        x = relay.var("x")
        c = relay.const(np.ones((3, 3, 3, 3), "float32"))
        result = is_op("nn.conv2d")(wildcard(), weight(c)).partition(relay.nn.conv2d(x, c))
        assert result.args == ((x,) if embedded else (x, c))
        assert (result.op.body.args[1] is c) is embedded

    def test_variables_are_parameters_whichever_alternative(self) -> None:
        x, w = variables("x w")
        result = is_op("nn.conv2d")(wildcard(), is_var() | is_constant()).partition(relay.nn.conv2d(x, w))
        assert result.args == (x, w)

    def test_a_variable_pattern_matches_no_constant(self) -> None:
        expr = relay.nn.conv2d(relay.var("x"), relay.const(1.0))
        assert is_op("nn.conv2d")(wildcard(), is_var()).partition(expr) is expr

    def test_an_argument_wins_over_embedding(self) -> None:
        c = relay.const(1.0)
        result = is_op("subtract")(is_constant(), wildcard()).partition(c - c)
        assert result.args == (c,)
        assert result.op.body.args == (result.op.params[0],) * 2

    def test_arguments_of_any_arity_are_lifted(self) -> None:
        c = relay.const(1.0)
        assert is_op("tanh")(None).partition(tanh(c)).args == (c,)
        assert is_op("concatenate")(is_tuple(None)).partition(relay.concatenate([c], 0)).args == (c,)


class TestBatchNorms(BatchNorm):
    def pattern(self) -> DFPattern:
        x, var, mean, beta, gamma = (wildcard() for _ in range(5))
        return gamma * (x - mean) / is_op("sqrt")(var + is_constant()) + beta

    def written(self, x: Any, gamma: Any, beta: Any) -> Any:
        return gamma * (x - self.mean) / relay.sqrt(self.var + self.eps) + beta

    def test_one(self) -> None:
        result = self.pattern().partition(self.written(self.x, self.gamma, self.beta))
        assert result.args == (self.gamma, self.x, self.mean, self.var, self.beta)
        assert result.op.attrs["PartitionedFromPattern"] == "subtract_multiply_add_sqrt_divide_add_"

    def test_two_are_two_functions(self) -> None:
        gamma, beta = variables("g2 b2")
        inner = self.written(self.x, self.gamma, self.beta)
        result = self.pattern().partition(self.written(inner, gamma, beta))
        below = result.args[1]
        assert below.args == (self.gamma, self.x, self.mean, self.var, self.beta)
        assert below.op is not result.op
        assert same(below.op, result.op)


class TestRefusals:
    def test_an_inner_value_used_outside(self) -> None:
        x, w, b = variables("x w b")
        conv = relay.nn.conv2d(x, w)
        pattern = is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard()))
        expr = relay.Tuple([relu(relay.nn.bias_add(conv, b)), conv])
        assert pattern.partition(expr) is expr

    def test_overlapping_matches_refuse_each_other(self) -> None:
        norm = relay.nn.batch_norm(*variables("x g b m v"))
        expr = relay.Tuple([norm[0], norm[1]])
        pattern = is_tuple_get_item(is_op("nn.batch_norm")(None))
        assert pattern.partition(expr) is expr

    def test_an_outside_user_that_flows_back_is_no_obstacle(self) -> None:
        x, y = variables("x y")
        total = x + y
        expr = relay.multiply(total, relay.sigmoid(total))
        pattern = is_op("multiply")(is_op("add")(wildcard(), wildcard()), wildcard())
        result = pattern.partition(expr)
        assert result.args[:2] == (x, y)
        assert same(result.args[2], relay.sigmoid(x + y))

    def test_branches_share_no_interior_with_the_outside(self) -> None:
        c, x = variables("c x")
        shared = relu(x)
        expr = relay.If(c, tanh(shared), relay.sigmoid(shared))
        assert is_op("tanh")(is_op("nn.relu")(wildcard())).partition(expr) is expr

    def test_what_partitioning_made_is_not_matched_again(self) -> None:
        x = relay.var("x")
        pattern = is_op("tanh")(wildcard())
        once = pattern.partition(tanh(x))
        assert pattern.partition(once) is once
        by_hand = relay.Call(relay.Function([x], tanh(x), attrs={"Composite": "mine"}), [relay.var("y")])
        assert pattern.partition(by_hand) is not by_hand

    def test_a_second_pattern_takes_what_is_left(self) -> None:
        x, w, b = variables("x w b")
        conv_bias = is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
        conv_bias_relu = is_op("nn.relu")(conv_bias)
        expr = relu(relay.nn.bias_add(relay.nn.conv2d(x, w), b))
        expr = relay.nn.bias_add(relay.nn.conv2d(expr, w), b)
        for name, pattern in (("conv_bias_relu", conv_bias_relu), ("conv_bias", conv_bias)):
            expr = pattern.partition(expr, {"Composite": name})
        assert expr.op.attrs["Composite"] == "conv_bias"
        assert expr.op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.bias_add_"
        assert expr.args[0].op.attrs["Composite"] == "conv_bias_relu"
        assert expr.args[0].op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.bias_add_nn.relu_"


class TestChecks:
    def test_the_check_sees_the_original_root(self) -> None:
        x, w = variables("x w")
        pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))

        def nchw(root: Any) -> bool:
            return root.args[0].attrs.data_layout == "NCHW"

        good = relu(relay.nn.conv2d(x, w))
        bad = relu(relay.nn.conv2d(x, w, data_layout="NHWC"))
        assert pattern.partition(good, check=nchw) is not good
        assert pattern.partition(bad, check=nchw) is bad

    def test_the_check_sees_types_of_a_typed_graph(self) -> None:
        x, w = relay.var("x", shape=(1, 10, 10, 10)), relay.var("w", shape=(10, 10, 3, 3))
        pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))

        def one_image(root: Any) -> bool:
            return bool(root.args[0].checked_type.shape[0] == 1)

        single = infer_type(relu(relay.nn.conv2d(x, w)))
        assert pattern.partition(single, check=one_image) is not single
        y = relay.var("y", shape=(2, 10, 10, 10))
        double = infer_type(relu(relay.nn.conv2d(y, w)))
        assert pattern.partition(double, check=one_image) is double

    def test_checks_run_once_for_each_group_inputs_first(self) -> None:
        x = relay.var("x")
        t1 = tanh(x)
        t2 = tanh(t1)
        seen: list[Any] = []
        is_op("tanh")(wildcard()).partition(t2, check=lambda root: seen.append(root) or True)
        assert seen == [t1, t2]

    def test_a_refused_group_still_holds_its_nodes(self) -> None:
        x = relay.var("x")
        expr = tanh(tanh(x))
        pattern = is_op("tanh")(is_op("tanh")(wildcard())) | is_op("tanh")(wildcard())
        assert pattern.partition(expr, check=lambda root: root is not expr) is expr

    @pytest.mark.parametrize("verdict", [None, 1.0, "yes", relay.const(1)])
    def test_a_verdict_is_a_bool_or_an_int(self, verdict: Any) -> None:
        with pytest.raises(PatternError, match="must give a bool"):
            is_op("tanh")(wildcard()).partition(tanh(relay.var("x")), check=lambda root: verdict)

    @pytest.mark.parametrize("verdict", [True, 1, np.True_])
    def test_numpy_truth_counts(self, verdict: Any) -> None:
        expr = tanh(relay.var("x"))
        assert is_op("tanh")(wildcard()).partition(expr, check=lambda root: verdict) is not expr


class TestAnyArity:
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_tuples(self, count: int) -> None:
        fields = variables("x y z")[:count]
        result = is_op("concatenate")(is_tuple(None)).partition(relay.concatenate(fields, 0))
        assert result.args == tuple(fields)

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_function_parameters(self, count: int) -> None:
        params, args = variables("p q r")[:count], variables("x y z")[:count]
        b = relay.var("b")
        body = params[0] + params[-1]
        for param in params[1:-1]:
            body = body + param
        expr = relay.Call(relay.Function(params, body), args) + b
        pattern = FunctionPattern(None, wildcard() + wildcard())(None) + wildcard()
        result = pattern.partition(expr)
        assert result.args == (*args, b)
        adds = "add_" * (2 if count == 3 else 1)
        assert result.op.attrs["PartitionedFromPattern"] == f"{adds}FunctionCall_add_"


class TestFunctions:
    def expr(self) -> tuple[Any, Any]:
        x, w, b, p, q = variables("x w b p q")
        function = relay.Function([p, q], relay.nn.conv2d(p, q))
        return relay.Call(function, [x, w]) + b, (x, w, b)

    def test_a_called_function_is_inside(self) -> None:
        expr, args = self.expr()
        a, b = wildcard(), wildcard()
        function = FunctionPattern([a, b], is_op("nn.conv2d")(a, b))
        result = (function(wildcard(), wildcard()) + wildcard()).partition(expr)
        assert result.args == args
        assert same(result.op.body.args[0].op, expr.args[0].op)

    def test_so_is_one_with_a_body_left_open(self) -> None:
        expr, args = self.expr()
        function = FunctionPattern([wildcard(), wildcard()], wildcard())
        result = (function(wildcard(), wildcard()) + wildcard()).partition(expr)
        assert result.args == args

    def test_one_of_two_functions(self) -> None:
        expr, args = self.expr()
        a, b, c = wildcard(), wildcard(), wildcard()
        either = FunctionPattern([a, b], is_op("nn.conv2d")(a, b)) | FunctionPattern([c], is_op("tanh")(c))
        assert (either(None) + wildcard()).partition(expr).args == args

    def test_parameters_that_the_body_does_not_use_stay_inside(self) -> None:
        p, q, x, y = variables("p q x y")
        expr = relay.Call(relay.Function([p, q], tanh(p)), [x, y])
        result = FunctionPattern([wildcard(), wildcard()], wildcard())(wildcard(), wildcard()).partition(expr)
        assert result.args == (x, y)

    def test_a_function_that_is_not_called_is_left_alone(self) -> None:
        x = relay.var("x")
        function = relay.Function([x], tanh(x))
        for params in ([wildcard()], None):
            with pytest.warns(UserWarning, match="isn't called doesn't make sense, skipping"):
                assert FunctionPattern(params, wildcard()).partition(function) is function


class TestLets:
    def test_a_variable_that_a_let_inside_binds_stays_inside(self) -> None:
        x, v, p = variables("x v p")
        expr = relay.Let(v, tanh(x), relu(v))
        bound = wildcard()
        result = is_let(bound, is_op("tanh")(wildcard()), is_op("nn.relu")(bound)).partition(expr)
        assert result.args == (x,)
        assert same(result.op, carved(relay.Let(v, tanh(p), relu(v)), [p], "tanh_nn.relu_Let_"))

    def test_a_match_whose_argument_would_need_that_variable_is_left_alone(self) -> None:
        x, v = variables("x v")
        expr = relay.Let(v, tanh(x), relu(v))
        assert is_let(wildcard(), wildcard(), wildcard()).partition(expr) is expr

    def test_values_and_bodies_of_lets_are_searched(self) -> None:
        x, v = variables("x v")
        result: Any = is_op("tanh")(wildcard()).partition(relay.Let(v, tanh(x), tanh(v)))
        assert result.value.args == (x,)
        assert result.body.args == (v,)


def test_regions_take_side_inputs_as_arguments() -> None:
    x, w, b = variables("x w b")
    conv = relay.nn.conv2d(x, w)
    expr = relu(relay.nn.bias_add(conv, b))
    any_op = wildcard().has_attr({"TOpPattern": 1})(None)
    region = is_op("nn.relu")(wildcard()).dominates(is_op("nn.conv2d")(wildcard(), wildcard()), any_op)
    result = region.partition(expr)
    assert result.args == (x, w, b)
    assert result.op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.bias_add_nn.relu_"


def test_an_input_inside_the_match_cuts_the_body() -> None:
    x, y = variables("x y")
    s = x + y
    a, b = wildcard(), wildcard()
    result = is_op("multiply")(is_op("add")(a, b), wildcard()).partition(s * s)
    assert result.args == (x, y, s)
    assert result.op.body.args == (result.op.params[2],) * 2


def test_operators_as_roots() -> None:
    x = relay.var("x")
    result: Any = wildcard().partition(tanh(x))
    assert isinstance(result.op, relay.Call)
    assert result.op.op.body is relay.op.get("tanh")
    assert result.args == (x,)
