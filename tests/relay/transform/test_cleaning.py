"""Passes that leave out what is computed twice, in vain, or before run time; and lets."""

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import PassError
from eqsat.relay import transform

from .compilers import assert_same, called_ops, module, parse, var

relu, tanh = relay.nn.relu, relay.tanh


def folded(body, **options):
    return transform.FoldConstant(**options)(module(body))["main"].body


class TestFoldConstant:
    def test_operators_over_constants(self):
        x = var("x", 3)
        body = folded(x + (relay.const([1.0, 2.0, 3.0]) + relay.const(2.0)) * relay.const(3.0))
        np.testing.assert_array_equal(body.args[1].data.numpy(), [9, 12, 15])

    def test_tuples_of_constants(self):
        joined = relay.concatenate((relay.const([1.0]), relay.const([2.0])), 0)
        np.testing.assert_array_equal(folded(joined).data.numpy(), [1, 2])
        parts = relay.split(relay.const([1.0, 2.0]), 2, axis=0)
        np.testing.assert_array_equal(folded(parts[1]).data.numpy(), [2])

    def test_projections_branches_and_lets(self):
        x, y = var("x", 2), var("y", 2)
        assert isinstance(folded(relay.TupleGetItem(relay.Tuple([x, y]), 1)), relay.Var)
        assert called_ops(folded(relay.If(relay.const(True), relu(x), tanh(x)))) == ["nn.relu"]
        assert called_ops(folded(relay.If(relay.const(False), relu(x), tanh(x)))) == ["tanh"]
        bound = relay.var("v")
        body = folded(relay.Let(bound, relay.const(1.0) + relay.const(1.0), x + bound))
        assert isinstance(body, relay.Call)
        assert body.args[1].data.numpy() == 2

    def test_marks_of_devices(self):
        def marked(expr):
            return relay.annotation.on_device(expr, "cuda", constrain_result=True)

        x, one = var("x", 2), marked(relay.const(1.0))
        total = folded(x + marked(one + one)).args[1]
        assert total.op.name == "on_device"
        assert total.args[0].data.numpy() == 2
        joined = relay.concatenate(marked(relay.Tuple([marked(relay.const([1.0])), relay.const([2.0])])), 0)
        np.testing.assert_array_equal(folded(joined).data.numpy(), [1, 2])
        bound = relay.var("v")
        assert called_ops(folded(relay.Let(bound, one, relu(x) * bound))) == ["nn.relu", "on_device", "multiply"]
        assert called_ops(folded(relay.If(marked(relay.const(True)), relu(x), tanh(x)))) == ["nn.relu"]
        field = folded(relay.TupleGetItem(marked(relay.Tuple([tanh(x), relu(x)])), 1))
        assert called_ops(field) == ["nn.relu", "on_device"]
        assert dict(field.attrs) == dict(marked(x).attrs)
        copied = relay.device_copy(relay.const(1.0), "cpu", "cuda")
        assert called_ops(folded(copied)) == ["device_copy"]

    def test_shapes_that_are_known(self):
        assert folded(relay.shape_of(relu(var("x", 2, 3)))).data.numpy().tolist() == [2, 3]
        assert folded(relay.ndarray_size(var("x", 2, 3))).data.numpy() == 6
        unknown = relay.var("x", shape=(relay.Any(), 3))
        assert called_ops(folded(relay.shape_of(unknown))) == ["shape_of"]

    def test_what_is_kept(self):
        assert called_ops(folded(relay.zeros((1000,), "float32"))) == ["zeros"]
        quantized = relay.qnn.op.quantize(relay.const([1.0]), relay.const(0.5), relay.const(0), out_dtype="int8")
        assert called_ops(folded(quantized)) == ["qnn.quantize"]
        np.testing.assert_array_equal(folded(quantized, fold_qnn=True).data.numpy(), [2])
        param = var("p", 1)
        primitive = relay.Function([param], param + (relay.const(1.0) + relay.const(1.0)), attrs={"Primitive": 1})
        assert called_ops(folded(primitive(var("x", 1)))) == ["add", "add"]


class TestEliminateCommonSubexpr:
    def shared(self, body, skip=None):
        return transform.EliminateCommonSubexpr(skip)(module(body))["main"].body

    def test_equal_calls_become_one(self):
        x = var("x", 4)
        body = self.shared((relu(x) + relay.const(1.0)) * (relu(x) + relay.const(1.0)))
        assert body.args[0] is body.args[1]
        assert called_ops(body) == ["nn.relu", "add", "multiply"]

    def test_tuples_of_equal_operands_and_projections(self):
        x = var("x", 4)
        parts = relay.split(x, 2, axis=0)
        body = self.shared(relay.concatenate((parts[0], x), 0) + relay.concatenate((parts[0], x), 0))
        assert body.args[0] is body.args[1]

    @pytest.mark.parametrize(
        "build",
        [
            lambda x: relay.clip(x, 0, 1) + relay.clip(x, 0, 2),
            lambda x: (x - relay.const(1.0)) + (x - relay.const(2.0)),
            lambda x: (x - relay.const([1.0] * 4)) + (x - relay.const([1.0] * 4)),
            lambda x: (x - relu(x)) + (relu(x) - x),
        ],
    )
    def test_what_is_not_the_same_stays(self, build):
        body = self.shared(build(var("x", 4)))
        assert body.args[0] is not body.args[1]

    def test_skipping(self):
        x = var("x", 4)
        body = self.shared(relu(x) + relu(x), lambda expr: expr.op.name == "nn.relu")
        assert body.args[0] is not body.args[1]
        with pytest.raises(PassError, match="fskip of EliminateCommonSubexpr must give a bool, not 'no'"):
            self.shared(relu(x) + relu(x), lambda expr: "no")


class TestDeadCodeElimination:
    def cleaned(self, text, **options):
        mod = transform.DeadCodeElimination(**options)(parse(text))
        return mod, mod["main"].body

    def test_unused_lets_go_with_all_that_only_they_need(self):
        mod, _ = self.cleaned("def @main(%x: int32) { let %a = %x + 1; let %b = %a + 1; let %c = %a; %a }")
        assert_same(mod, parse("def @main(%x: int32) { let %a = %x + 1; %a }"))

    def test_used_ones_stay_or_are_inlined(self):
        text = "def @main(%x: int32) { let %a = %x + 1; let %b = %a + 1; %b * %b }"
        assert_same(self.cleaned(text)[0], parse(text))
        once, _ = self.cleaned(text, inline_once=True)
        assert_same(once, parse("def @main(%x: int32) { let %b = (%x + 1) + 1; %b * %b }"))

    def test_effects_stay(self):
        text = "def @main(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, 2); ref_read(%r) }"
        assert_same(self.cleaned(text)[0], parse(text))
        _, body = self.cleaned("def @main(%x: int32) { let %r = ref(%x); %x }", ignore_impurity=True)
        assert isinstance(body, relay.Var)


class TestToGraphNormalForm:
    def test_values_take_the_place_of_their_variables(self):
        mod = parse("def @main(%x: int32) { let %a = %x + 1; let %b = %a * %a; %b - %a }")
        body = transform.ToGraphNormalForm()(mod)["main"].body
        square, total = body.args
        assert square.args[0] is square.args[1] is total
        assert relay.interpreter.evaluate(body, {"x": 3}) == 12

    def test_functions_that_call_themselves_keep_a_let(self):
        text = """def @main(%n: int32) -> int32 {
          let %f = fn (%i: int32) -> int32 { if (%i == 0) { 0 } else { %i + %f(%i - 1) } };
          let %m = %n + 1;
          %f(%m)
        }"""
        mod = transform.ToGraphNormalForm()(parse(text))
        lets = [node for node in relay.visitor.post_order(mod["main"]) if isinstance(node, relay.Let)]
        assert [let.var.name_hint for let in lets] == ["f"]
        assert relay.interpreter.evaluate(mod, {"n": 3}) == 10

    def test_patterns_then_see_through(self):
        mod = parse("def @main(%x: float32) { let %a = tanh(%x); nn.relu(%a) }")
        pattern = relay.dataflow_pattern.is_op("nn.relu")(relay.dataflow_pattern.is_op("tanh")(None))
        assert not pattern.match(mod["main"].body.body)
        assert pattern.match(transform.ToGraphNormalForm()(mod)["main"].body)


def test_unused_functions():
    text = """
def @double(%x: int32) -> int32 { %x + %x }
def @unused(%x: int32) -> int32 { %x }
def @main(%x: int32) -> int32 { @double(@double(%x)) }"""
    used = transform.RemoveUnusedFunctions()(parse(text))
    assert sorted(name.name_hint for name in used.get_global_vars()) == ["double", "main"]
    with pytest.raises(PassError, match="no entry function 'other'"):
        transform.RemoveUnusedFunctions(["other"])(parse(text))


@pytest.mark.parametrize(
    "run",
    [
        transform.FoldConstant(),
        transform.EliminateCommonSubexpr(),
        transform.DeadCodeElimination(),
        transform.ToGraphNormalForm(),
    ],
)
def test_deep_graphs(run):
    x = var("x")
    body = x
    for _ in range(5_000):
        bound = relay.var("v")
        body = relay.Let(bound, tanh(x) + relay.const(1.0), body)
    for _ in range(5_000):
        body = relu(body)
    assert run(module(body))["main"].ret_type == relay.TensorType((), "float32")
