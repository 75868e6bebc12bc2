"""The tutorial of the pattern language: its programs as they stand there, with the texts it prints.

The programs differ from the tutorial's in one thing: where it shows the text of a graph that it does not build,
the graph of that text is built.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat as tvm
from eqsat import relay
from eqsat.relay.build_module import bind_params_by_name
from eqsat.relay.dataflow_pattern import (
    K_ELEMWISE,
    DFPatternCallback,
    FunctionPattern,
    dominates,
    has_dtype,
    has_shape,
    is_constant,
    is_elemwise,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)
from eqsat.relay.printer import pretty


class TestPatternExamples:
    def test_match_op_or(self) -> None:
        is_add_or_sub = is_op("add") | is_op("subtract")
        assert is_add_or_sub.match(relay.op.op.get("add"))
        assert is_add_or_sub.match(relay.op.op.get("subtract"))

    def test_no_match_attr(self) -> None:
        op = is_op("nn.dense").has_attr({"TOpPattern": K_ELEMWISE})
        op_pat = op(wildcard(), wildcard())
        x = relay.var("x")
        y = relay.var("y")
        assert not op_pat.match(relay.op.nn.dense(x, y))

    def test_match_data_layout(self) -> None:
        is_conv2d = is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"data_layout": "NHWC"})
        x = relay.var("x")
        y = relay.var("y")
        assert not is_conv2d.match(relay.op.nn.conv2d(x, y))
        assert is_conv2d.match(relay.op.nn.conv2d(x, y, data_layout="NHWC"))

    def test_match_kernel_size(self) -> None:
        is_conv2d = is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"kernel_size": [3, 3]})
        x = relay.var("x")
        y = relay.var("y")
        assert is_conv2d.match(relay.op.nn.conv2d(x, y, kernel_size=[3, 3]))

    def test_match_optional(self) -> None:
        conv_node = is_op("nn.conv2d")(wildcard(), wildcard())
        bias_node = is_op("nn.bias_add")(conv_node, wildcard())
        pat = bias_node.optional(lambda x: is_op("nn.relu")(x))
        x = relay.var("x")
        y = relay.var("y")
        z = relay.var("z")
        conv2d = relay.op.nn.conv2d(x, y)
        bias = relay.op.nn.bias_add(conv2d, z)
        assert pat.match(bias)
        relu = relay.op.nn.relu(bias)
        assert pat.match(relu)

    def test_match_type(self) -> None:
        x = relay.var("x", shape=(10, 10), dtype="float32")
        assert has_dtype("float32").match(x)
        assert has_shape((10, 10)).match(x)

        conv2d = is_op("nn.conv2d")(wildcard(), wildcard())
        pat3 = is_op("nn.relu")(conv2d).has_shape((1, 32, 28, 28))
        x = relay.var("x", shape=(1, 3, 28, 28), dtype="float32")
        w = relay.var("w", shape=(32, 3, 3, 3), dtype="float32")
        conv2d = relay.nn.conv2d(x, w, strides=(1, 1), padding=(1, 1))
        relu = relay.nn.relu(conv2d)
        assert pat3.match(relu)

    def test_match_tuple(self) -> None:
        x = relay.var("x")
        y = relay.var("y")
        z = relay.var("z")
        tuple_pattern = is_tuple((wildcard(), wildcard(), wildcard()))
        assert tuple_pattern.match(relay.expr.Tuple((x, y, z)))

    def test_match_tuple_get_item(self) -> None:
        bn_node = is_op("nn.batch_norm")(wildcard(), wildcard(), wildcard(), wildcard(), wildcard())
        tuple_get_item_node = is_tuple_get_item(bn_node, 0)
        pat = is_op("nn.relu")(tuple_get_item_node)
        x = relay.var("x", shape=(1, 8))
        gamma = relay.var("gamma", shape=(8,))
        beta = relay.var("beta", shape=(8,))
        moving_mean = relay.var("moving_mean", shape=(8,))
        moving_var = relay.var("moving_var", shape=(8,))
        bn_node = relay.nn.batch_norm(x, gamma, beta, moving_mean, moving_var)
        assert pat.match(relay.nn.relu(bn_node[0]))
        assert not pat.match(relay.nn.relu(bn_node[1]))

    def test_match_func(self) -> None:
        x = relay.var("x")
        y = relay.var("y")
        wc1 = wildcard()
        wc2 = wildcard()
        func_pattern = FunctionPattern([wc1, wc2], wc1 + wc2)
        assert func_pattern.match(relay.Function([x, y], x + y))

    def test_match_constant(self) -> None:
        conv2d = is_op("nn.conv2d")(wildcard(), is_constant())
        pattern = is_op("nn.bias_add")(conv2d, wildcard())

        x = relay.var("x", shape=(1, 3, 224, 224))
        w = relay.var("w", shape=(3, 3, 3, 3))
        b = relay.var("b", shape=(3,))
        conv2d = relay.op.nn.conv2d(x, w)
        out = relay.op.nn.bias_add(conv2d, b)
        func = relay.Function([x, w, b], out)
        mod = tvm.IRModule.from_expr(func)

        assert not pattern.match(mod["main"].body)
        mod["main"] = bind_params_by_name(mod["main"], {"w": tvm.nd.array(np.ones(shape=(3, 3, 3, 3)))})
        assert pattern.match(mod["main"].body)

    def test_match_plus_zero(self) -> None:
        zero = is_expr(relay.const(0)) | is_expr(relay.const(0.0))
        pattern = wildcard() + zero
        x = relay.Var("x")
        y = x + relay.const(0)
        assert pattern.match(y)

    def test_match_function(self) -> None:
        pattern = wildcard().has_attr({"Composite": "add"})
        x = relay.var("x")
        y = relay.var("y")
        f = relay.Function([x, y], x + y).with_attr("Composite", "add")
        assert pattern.match(f)

    def test_match_if(self) -> None:
        x = is_var("x")
        y = is_var("y")
        pat = is_if(is_op("less")(x, y), x, y)
        x = relay.var("x")
        y = relay.var("y")
        cond = x < y
        assert pat.match(relay.expr.If(cond, x, y))

    def test_match_let(self) -> None:
        x = is_var("x")
        y = is_var("y")
        let_var = is_var("let")
        pat = is_let(let_var, is_op("less")(x, y), let_var)
        x = relay.var("x")
        y = relay.var("y")
        lv = relay.var("let")
        cond = x < y
        assert pat.match(relay.expr.Let(lv, cond, lv))


class TestDiamonds:
    @pytest.fixture
    def out(self) -> relay.Expr:
        inp = relay.var("input")
        weight = relay.var("weight")
        conv2d = relay.op.nn.conv2d(inp, weight)
        relu = relay.op.nn.relu(conv2d)
        leaky_relu = relay.op.nn.leaky_relu(conv2d, alpha=0)
        return relu + leaky_relu

    def test_match_diamond(self, out: relay.Expr) -> None:
        is_conv2d = is_op("nn.conv2d")(is_var(), is_var())
        path1 = is_op("nn.relu")(is_conv2d)
        path2 = is_op("nn.leaky_relu")(is_conv2d)
        diamond = is_op("add")(path1, path2)
        assert diamond.match(out)

    def test_match_dom_diamond(self, out: relay.Expr) -> None:
        is_conv2d = is_op("nn.conv2d")(is_var(), is_var())
        reduction = is_op("add")(wildcard(), wildcard())
        diamond = dominates(is_conv2d, is_elemwise, reduction)
        assert diamond.match(out)


class TestFuzzyMatching:
    def test_any_number_of_fields_parameters_and_arguments(self) -> None:
        tuple_pattern = is_tuple(None)
        func_pattern = FunctionPattern(None, wildcard() + wildcard())
        call_pattern = func_pattern(None)
        x, y = relay.var("x"), relay.var("y")
        for fields in ([], [x], [x, y]):
            assert tuple_pattern.match(relay.Tuple(fields))
        for params in ([x], [x, y]):
            function = relay.Function(params, x + x)
            assert func_pattern.match(function)
            assert call_pattern.match(function(*params))

    def test_a_body_that_the_pattern_leaves_open(self) -> None:
        x, y = relay.var("x"), relay.var("y")
        pattern = FunctionPattern([is_var(), is_var()], wildcard() + wildcard())
        assert pattern.match(relay.Function([x, y], x + y))
        assert pattern.match(relay.Function([x, y], x * x + y))


class BatchnormCallback(DFPatternCallback):
    # A callback class to rewrite the matched pattern to a batch_norm op.
    def __init__(self, require_type: bool = False):
        super().__init__(require_type)
        self.x = wildcard()
        self.var = wildcard()
        self.mean = wildcard()
        self.beta = wildcard()
        self.gamma = wildcard()
        self.eps = wildcard()

        self.pattern = self.gamma * (self.x - self.mean) / is_op("sqrt")(self.var + self.eps) + self.beta

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        x = node_map[self.x][0]
        var = node_map[self.var][0]
        mean = node_map[self.mean][0]
        beta = node_map[self.beta][0]
        gamma = node_map[self.gamma][0]
        eps = node_map[self.eps][0]
        return relay.op.nn.batch_norm(x, gamma, beta, mean, var, epsilon=eps.data.numpy().item())[0]


class PlusZeroCallback(DFPatternCallback):
    # The match of the tutorial's test_match_plus_zero, put to use.
    def __init__(self) -> None:
        super().__init__()
        self.x = wildcard()
        self.pattern = self.x + (is_expr(relay.const(0)) | is_expr(relay.const(0.0)))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return node_map[self.x][0]


class TestRewriting:
    def test_batch_norm(self) -> None:
        x = relay.var("x")
        var = relay.var("var")
        mean = relay.var("mean")
        beta = relay.var("beta")
        gamma = relay.var("gamma")
        BN = gamma * (x - mean) / relay.op.sqrt(var + relay.const(1e-5)) + beta

        out = rewrite(BatchnormCallback(), BN)
        assert tvm.ir.structural_equal(out, relay.op.nn.batch_norm(x, gamma, beta, mean, var, epsilon=1e-5)[0])
        assert str(out) == (
            "free_var %x;\nfree_var %gamma;\nfree_var %beta;\nfree_var %mean;\nfree_var %var;\n"
            "%0 = nn.batch_norm(%x, %gamma, %beta, %mean, %var, epsilon=9.999999747378752e-06f);\n"  # float32's 1e-5
            "%0.0"
        )

    @pytest.mark.parametrize("rules", [[], [tvm.rules.default]])
    @pytest.mark.parametrize("explain", [False, True])
    def test_batch_norm_in_saturation(self, rules: list[Any], explain: bool) -> None:
        x = relay.var("x", shape=(4, 8))
        gamma, beta, mean, var = (relay.var(name, shape=(8,)) for name in ("gamma", "beta", "mean", "var"))
        BN = gamma * (x - mean) / relay.op.sqrt(var + relay.const(1e-5)) + beta

        saturation = tvm.saturate(BN, rules=[*rules, BatchnormCallback()], explain=explain)
        assert saturation.stop_reason == "saturated"
        out = tvm.extract(saturation).expr
        assert tvm.ir.structural_equal(out, relay.op.nn.batch_norm(x, gamma, beta, mean, var, epsilon=1e-5)[0])
        assert saturation.report.rules["BatchnormCallback"].matches == 1

    @pytest.mark.parametrize("zero", [0, 0.0])
    def test_plus_zero(self, zero: float) -> None:
        x = relay.Var("x")
        assert rewrite(PlusZeroCallback(), x + relay.const(zero)) is x
        assert rewrite(PlusZeroCallback(), relay.const(zero) + x) is x
        kept = x + relay.const(1)
        assert rewrite(PlusZeroCallback(), kept) is kept


GRAPH = """\
free_var %x: Tensor[(1, 3, 224, 224), float32]
free_var %w: Tensor[(3, 3, 3, 3), float32]
%0 = nn.conv2d(%x, %w, padding=[0, 0, 0, 0]) /* ty=Tensor[(1, 3, 222, 222), float32] */;
free_var %b: Tensor[(3), float32]
nn.bias_add(%0, %b) /* ty=Tensor[(1, 3, 222, 222), float32] */"""

PARTITIONED = """\
free_var %x: Tensor[(1, 3, 224, 224), float32]
free_var %w: Tensor[(3, 3, 3, 3), float32]
free_var %b: Tensor[(3), float32]
%1 = fn (%FunctionVar_0_0, %FunctionVar_0_1, %FunctionVar_0_2, PartitionedFromPattern="nn.conv2d_nn.bias_add_") {
  %0 = nn.conv2d(%FunctionVar_0_0, %FunctionVar_0_1, padding=[0, 0, 0, 0]);
  nn.bias_add(%0, %FunctionVar_0_2)
};
%1(%x, %w, %b)"""


class TestPartitioning:
    """The tutorial's texts are of the form 0.0.4; it breaks the line of the function after its parameters."""

    @pytest.fixture
    def bias(self) -> relay.Expr:
        x = relay.var("x", shape=(1, 3, 224, 224))
        w = relay.var("w", shape=(3, 3, 3, 3))
        b = relay.var("b", shape=(3,))
        return relay.op.nn.bias_add(relay.op.nn.conv2d(x, w), b)

    @pytest.fixture
    def pattern(self) -> Any:
        return is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())

    def test_the_graph(self, bias: relay.Expr) -> None:
        typed = relay.transform.InferType()(tvm.IRModule.from_expr(bias))["main"].body
        assert pretty(typed, version="0.0.4") == GRAPH

    def test_a_function_for_the_match(self, pattern: Any, bias: relay.Expr) -> None:
        assert pretty(pattern.partition(bias), version="0.0.4") == PARTITIONED

    def test_attributes_of_the_function(self, pattern: Any, bias: relay.Expr) -> None:
        expected = PARTITIONED.replace("Partitioned", 'Composite="one_layer", Partitioned')
        assert pretty(pattern.partition(bias, {"Composite": "one_layer"}), version="0.0.4") == expected

    @pytest.mark.parametrize("batch", [1, 2])
    def test_check(self, batch: int) -> None:
        def check(pre: Any) -> bool:
            conv = pre.args[0]
            return (conv.attrs.data_layout == "NCHW") and bool(conv.checked_type.shape[0] == 1)

        pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
        x = relay.var("input", shape=(batch, 3, 8, 8))
        w = relay.var("weight", shape=(3, 3, 3, 3))
        relu = relay.op.nn.relu(relay.op.nn.conv2d(x, w))
        typed = relay.transform.InferType()(tvm.IRModule.from_expr(relu))["main"].body
        partitioned = pattern.partition(typed, check=check)
        assert isinstance(partitioned.op, relay.Function) == (batch == 1)
        assert (partitioned is typed) == (batch != 1)
