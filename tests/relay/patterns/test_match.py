"""What each kind of pattern matches."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay.build_module import bind_params_by_name
from eqsat.relay.dataflow_pattern import (
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

from .helpers import bindings, matches, variables

ADD, SUBTRACT = relay.op.get("add"), relay.op.get("subtract")


class TestOperatorsAndCalls:
    def test_an_operator_matches_itself(self) -> None:
        assert matches(is_op("add"), ADD)
        assert not matches(is_op("add"), SUBTRACT)

    def test_one_of_two_operators(self) -> None:
        either = is_op("add") | is_op("subtract")
        assert matches(either, ADD)
        assert matches(either, SUBTRACT)
        x, y = variables("x y")
        assert matches(either(wildcard(), wildcard()), x - y)

    def test_a_call_needs_operator_and_arguments(self) -> None:
        x, y = variables("x y")
        assert matches(is_op("add")(wildcard(), wildcard()), x + y)
        assert not matches(is_op("add")(wildcard(), wildcard()), x - y)
        assert not matches(is_op("add")(wildcard()), x + y)
        assert not matches(is_op("add")(wildcard(), wildcard()), x)

    def test_any_arguments(self) -> None:
        x, y = variables("x y")
        any_call = wildcard()(None)
        assert matches(any_call, x + y)
        assert matches(any_call, relay.nn.relu(x))
        assert not matches(any_call, x)
        pattern = is_op("add")(None)
        assert list(bindings(pattern, x + y) or ()) == [pattern.op, pattern]

    @pytest.mark.parametrize("name", ["add", "multiply"])
    def test_sums_and_products_match_in_both_orders(self, name: str) -> None:
        x, y = variables("x y")
        pattern = is_op(name)(is_var("x"), is_var("y"))
        assert matches(pattern, relay.Call(relay.op.get(name), [x, y]))
        assert matches(pattern, relay.Call(relay.op.get(name), [y, x]))

    @pytest.mark.parametrize("name", ["subtract", "divide", "maximum", "equal"])
    def test_no_other_operator_is_commuted(self, name: str) -> None:
        x, y = variables("x y")
        pattern = is_op(name)(is_var("x"), is_var("y"))
        assert matches(pattern, relay.Call(relay.op.get(name), [x, y]))
        assert not matches(pattern, relay.Call(relay.op.get(name), [y, x]))

    def test_the_pattern_decides_on_commutation(self) -> None:
        x, y = variables("x y")
        for operator in (is_op("add") | is_op("multiply"), is_op("add").has_attr({"TOpPattern": 1}), wildcard()):
            assert not matches(operator(is_var("y"), is_var("x")), x + y)

    def test_callees_that_are_no_operators(self) -> None:
        x, f = variables("x f")
        call = relay.Call(f, [x])
        assert matches(is_var("f")(is_var("x")), call)
        assert matches(wildcard()(wildcard()), relay.Call(relay.GlobalVar("g"), [x]))
        assert not matches(is_var()(wildcard()), relay.Call(relay.GlobalVar("f"), [x]))

    def test_a_variable_is_found_by_name(self) -> None:
        x = relay.var("x")
        assert matches(is_var("x"), x)
        assert matches(is_var(), x)
        assert not matches(is_var("y"), x)
        assert not matches(is_var(), relay.GlobalVar("x"))


FORMS = {
    "(A*B)/C": lambda a, b, c: (a * b) / c,
    "(B*A)/C": lambda a, b, c: (b * a) / c,
    "A*(B/C)": lambda a, b, c: a * (b / c),
    "(B/C)*A": lambda a, b, c: (b / c) * a,
    "B*(A/C)": lambda a, b, c: b * (a / c),
    "(A/C)*B": lambda a, b, c: (a / c) * b,
    "A/(C/B)": lambda a, b, c: a / (c / b),
}


class TestReassociation:
    """Products with quotients: `(A * B) / C` and `A * (B / C)` match each other, and no more."""

    def matched_forms(self, build) -> list[str]:
        pattern = build(is_var("A"), is_var("B"), is_var("C"))
        exprs = variables("A B C")
        return [name for name, form in FORMS.items() if matches(pattern, form(*exprs))]

    def test_a_quotient_of_a_product_matches_six_forms(self) -> None:
        assert self.matched_forms(lambda a, b, c: (a * b) / c) == list(FORMS)[:6]

    @pytest.mark.parametrize("name", ["A*(B/C)", "(B/C)*A"])
    def test_a_product_with_a_quotient_matches_four(self, name: str) -> None:
        assert self.matched_forms(FORMS[name]) == list(FORMS)[:4]

    def test_a_product_of_quotients(self) -> None:
        a, b, c, d = (is_var(name) for name in "ABCD")
        pattern = (a / b) * (c / d)
        va, vb, vc, vd = variables("A B C D")
        assert matches(pattern, (va * (vc / vd)) / vb)
        assert not matches(pattern, (vc * (va / vb)) / vd)
        assert not matches(pattern, ((va / vb) * vc) / vd)

    def test_bindings_prefer_the_first_factor_under_the_quotient(self) -> None:
        a, b, c = wildcard(), wildcard(), wildcard()
        product = a * b
        pattern = product / c
        va, vb, vc = variables("a b c")
        bound = bindings(pattern, va * (vb / vc))
        assert bound is not None
        assert (bound[a], bound[b], bound[c]) == ([vb], [va], [vc])
        assert pattern in bound
        assert product not in bound  # the product that was written did not match as such

    def test_sums_are_not_reassociated(self) -> None:
        a, b, c = (is_var(name) for name in "ABC")
        va, vb, vc = variables("A B C")
        assert not matches((a + b) + c, va + (vb + vc))


class TestChoices:
    """One match at most: a choice that succeeded is final."""

    def test_a_pattern_used_twice_matches_one_object(self) -> None:
        x, y = variables("x y")
        a = wildcard()
        assert matches(a + a, x + x)
        assert not matches(a + a, x + y)
        relu = is_op("nn.relu")(wildcard())
        assert not matches(relu + relu, relay.nn.relu(x) + relay.nn.relu(x))

    def test_operand_order_is_not_reconsidered(self) -> None:
        x, y = variables("x y")
        a, b = wildcard(), wildcard()
        assert matches((a + b) * a, (x + y) * x)
        assert not matches((a + b) * a, (y + x) * x)

    def test_an_alternative_is_not_reconsidered(self) -> None:
        x, y = variables("x y")
        r = wildcard()
        pattern = is_op("subtract")(is_op("nn.relu")(r) | wildcard(), r)
        assert not matches(pattern, relay.nn.relu(x) - y)

    def test_a_failed_alternative_leaves_no_binding(self) -> None:
        x, y = variables("x y")
        a, b = is_var(), is_constant()
        left, right = is_op("add")(a, b), is_op("add")(a, wildcard())
        bound = bindings(left | right, x + y)
        assert bound is not None
        assert left not in bound
        assert b not in bound
        assert bound[a] == [x]

    def test_optional_tries_the_shorter_form_first(self) -> None:
        x = relay.var("x")
        base = wildcard()
        option = base.optional(is_op("nn.relu"))
        bound = bindings(option, relay.nn.relu(x))
        assert bound is not None
        assert option.right not in bound


class TestFunctionsAndControlFlow:
    def test_functions(self) -> None:
        x, y = variables("x y")
        a, b = wildcard(), wildcard()
        assert matches(FunctionPattern([a, b], a + b), relay.Function([x, y], x + y))
        assert not matches(FunctionPattern([a, b], a - b), relay.Function([x, y], x + y))
        assert not matches(FunctionPattern([a], wildcard()), relay.Function([x, y], x + y))

    def test_functions_of_any_parameters(self) -> None:
        x, y = variables("x y")
        pattern = FunctionPattern(None, wildcard() + wildcard())
        assert matches(pattern, relay.Function([x], x + x))
        assert matches(pattern, relay.Function([x, y], x + y))

    def test_if(self) -> None:
        x, y = is_var("x"), is_var("y")
        pattern = is_if(is_op("less")(x, y), x, y)
        vx, vy = variables("x y")
        assert matches(pattern, relay.If(vx < vy, vx, vy))
        assert not matches(pattern, relay.If(vx > vy, vx, vy))
        assert not matches(pattern, relay.If(vx < vy, vy, vx))

    def test_let(self) -> None:
        x, y, let = is_var("x"), is_var("y"), is_var("let")
        pattern = is_let(let, is_op("less")(x, y), let)
        vx, vy, lv = variables("x y let")
        assert matches(pattern, relay.Let(lv, vx < vy, lv))
        assert not matches(pattern, relay.Let(lv, vx > vy, lv))
        assert not matches(pattern, relay.Let(lv, vx < vy, lv * vx))

    def test_patterns_do_not_see_the_value_of_a_let_variable(self) -> None:
        x, v = variables("x v")
        let = relay.Let(v, relay.nn.relu(x), relay.tanh(v))
        assert not matches(is_op("tanh")(is_op("nn.relu")(wildcard())), let.body)


class TestOptional:
    def test_bias_is_optional(self) -> None:
        conv = is_op("nn.conv2d")(wildcard(), wildcard())
        pattern = is_op("nn.relu")(conv.optional(lambda p: is_op("nn.bias_add")(p, wildcard())))
        x, w, b = variables("x w b")
        bare = relay.nn.conv2d(x, w)
        assert matches(pattern, relay.nn.relu(bare))
        assert matches(pattern, relay.nn.relu(relay.nn.bias_add(bare, b)))
        assert not matches(pattern, relay.tanh(bare))
        assert not matches(pattern, relay.nn.relu(relay.nn.dense(x, w)))
        assert not matches(pattern, relay.nn.relu(relay.add(bare, b)))

    def test_options_in_a_row(self) -> None:
        conv = is_op("nn.conv2d")(wildcard(), wildcard())
        pattern = conv.optional(is_op("nn.relu")).optional(is_op("tanh"))
        x, w = variables("x w")
        conv2d = relay.nn.conv2d(x, w)
        for expr in (conv2d, relay.nn.relu(conv2d), relay.tanh(conv2d), relay.tanh(relay.nn.relu(conv2d))):
            assert matches(pattern, expr)
        assert not matches(pattern, relay.nn.relu(relay.tanh(conv2d)))


class TestConstantsAndExpressions:
    def test_a_bound_parameter_is_a_constant(self) -> None:
        conv = is_op("nn.conv2d")(wildcard(), is_constant())
        pattern = is_op("nn.bias_add")(conv, wildcard())
        x = relay.var("x", shape=(1, 3, 224, 224))
        w = relay.var("w", shape=(3, 3, 3, 3))
        b = relay.var("b", shape=(3,))
        function = relay.Function([x, w, b], relay.nn.bias_add(relay.nn.conv2d(x, w), b))
        assert not matches(pattern, function.body)
        bound = bind_params_by_name(function, {"w": eqsat.nd.array(np.ones((3, 3, 3, 3), "float32"))})
        assert matches(pattern, bound.body)
        assert [param.name_hint for param in bound.params] == ["x", "b"]

    def test_an_expression_matches_by_structure(self) -> None:
        x, y = variables("x y")
        assert matches(is_expr(x + y), relay.add(x, y))
        assert not matches(is_expr(x + y), y + x)
        assert not matches(is_expr(x), y)

    def test_a_constant_matches_by_dtype_shape_and_bytes(self) -> None:
        zero = is_expr(relay.const(0.0))
        assert matches(zero, relay.const(0.0))
        assert not matches(zero, relay.const(0))
        assert not matches(zero, relay.const(-0.0))
        assert not matches(zero, relay.const(np.zeros(1, "float32")))
        either = is_expr(relay.const(0)) | is_expr(relay.const(0.0))
        assert matches(wildcard() + either, relay.var("x") + relay.const(0))

    def test_a_tuple_of_constants_is_no_constant(self) -> None:
        assert not matches(is_constant(), relay.Tuple([relay.const(1)]))


class TestTuples:
    def test_fields(self) -> None:
        x, y = variables("x y")
        pattern = is_tuple([is_var("x"), wildcard(), is_op("add")])
        assert matches(pattern, relay.Tuple([x, y, ADD]))
        assert not matches(pattern, relay.Tuple([y, x, ADD]))
        assert not matches(pattern, relay.Tuple([x, y]))
        assert matches(is_tuple([]), relay.Tuple([]))

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_any_fields(self, count: int) -> None:
        fields = variables("x y z")[:count]
        assert matches(is_op("concatenate")(is_tuple(None)), relay.concatenate(fields, axis=0))

    def test_projections(self) -> None:
        x, y = variables("x y")
        pair = relay.Tuple([x, y])
        fields = is_tuple([wildcard(), wildcard()])
        assert matches(is_tuple_get_item(fields, 1), relay.TupleGetItem(pair, 1))
        assert not matches(is_tuple_get_item(fields, 2), relay.TupleGetItem(pair, 1))
        for anything in (None, -1):
            assert matches(is_tuple_get_item(fields, anything), relay.TupleGetItem(pair, 0))


class TestDiamonds:
    def setup_method(self) -> None:
        self.conv = is_op("nn.conv2d")(is_var(), is_var())
        self.diamond = is_op("add")(is_op("nn.relu")(self.conv), is_op("nn.leaky_relu")(self.conv))
        x, w = variables("x w")
        self.conv2d, self.other = relay.nn.conv2d(x, w), relay.nn.conv2d(x, w)

    def test_a_diamond(self) -> None:
        assert matches(self.diamond, relay.nn.relu(self.conv2d) + relay.nn.leaky_relu(self.conv2d))

    def test_a_branch_is_no_diamond(self) -> None:
        assert not matches(self.diamond, relay.nn.relu(self.conv2d))
        assert not matches(self.diamond, relay.nn.leaky_relu(self.conv2d))

    def test_two_equal_convolutions_are_no_diamond(self) -> None:
        assert not matches(self.diamond, relay.nn.relu(self.conv2d) + relay.nn.leaky_relu(self.other))

    def test_a_diamond_below_the_root_is_not_the_root(self) -> None:
        inside = relay.nn.relu(self.conv2d) + relay.nn.leaky_relu(self.conv2d)
        assert not matches(self.diamond, inside + self.conv2d)


class TestRecursion:
    def test_a_chain_of_any_length(self) -> None:
        x, w = variables("x w")
        tail = wildcard()
        chain = is_op("cast")(tail)
        tail.redirect_to(chain | is_op("nn.dense")(wildcard(), wildcard()))
        dense = relay.nn.dense(x, w)
        casts = [dense]
        for _ in range(6):
            casts.append(relay.cast(casts[-1], "float32"))
        assert matches(chain, casts[-1])
        assert not matches(chain, relay.cast(x, "float32"))
        bound = bindings(chain, casts[-1])
        assert bound is not None
        assert bound[chain] == casts[1:]  # innermost first
