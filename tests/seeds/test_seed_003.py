"""Conv + batch norm + relu layers for an external compiler: single, consecutive and parallel.

A hand-written annotator forgot ``compiler_begin`` where one region's result enters the next, and the
partitioner nested the earlier layers in the later ones without a word.
"""

import numpy as np
import pytest

import eqsat as tvm
from eqsat import relay
from eqsat.errors import PassError
from eqsat.relay.dataflow_pattern import is_op, is_tuple_get_item, wildcard
from eqsat.relay.expr import Call
from eqsat.relay.op.annotation import compiler_begin, compiler_end

TARGET = "accelerator"  # one of which nothing is registered: patterns alone say what it takes
OUT_CHANNELS = 16
SIZE = 16


def get_layers(prefix, data):
    weight = relay.var(prefix + "weight")
    bn_gamma = relay.var(prefix + "bn_gamma")
    bn_beta = relay.var(prefix + "bn_beta")
    bn_mmean = relay.var(prefix + "bn_mean")
    bn_mvar = relay.var(prefix + "bn_var")
    layer = relay.nn.conv2d(data=data, weight=weight, kernel_size=(3, 3), channels=OUT_CHANNELS, padding=(1, 1))
    layer = relay.nn.batch_norm(layer, bn_gamma, bn_beta, bn_mmean, bn_mvar)[0]
    return relay.nn.relu(layer)


def get_net(kind):
    data = relay.var("data", relay.TensorType((1, 3, SIZE, SIZE), "float32"))
    last = get_layers("layer1_", data)
    if kind == "consecutive":
        last = get_layers("layer3_", get_layers("layer2_", last))
    if kind == "parallel":
        last = relay.concatenate((last, get_layers("layer1_2_", data)), axis=1)
    return relay.Function(relay.analysis.free_vars(last), last)


class ConvBNReluAnnotator(relay.ExprMutator):
    """The annotator of the report, a state machine."""

    def __init__(self, backend):
        super().__init__()
        self.in_compiler = 0
        self.backend = backend

    def enters(self, arg):
        return isinstance(arg, relay.expr.Var)

    def annotate_call(self, call):
        new_args = []
        for arg in call.args:
            new_arg = super().visit(arg)
            if self.enters(new_arg):
                new_arg = compiler_begin(new_arg, self.backend)
            new_args.append(new_arg)
        return relay.Call(call.op, new_args, call.attrs, call.type_args)

    def visit_call(self, call):
        if call.op.name == "nn.conv2d":
            if self.in_compiler == 1:
                self.in_compiler = 2
                return self.annotate_call(call)
        elif call.op.name == "nn.batch_norm":
            if self.in_compiler == 1:
                return self.annotate_call(call)
        elif call.op.name == "nn.relu":
            self.in_compiler = 1
            op = self.annotate_call(call)
            op = compiler_end(op, self.backend)
            self.in_compiler = 0
            return op
        return super().visit_call(call)


class RepairedAnnotator(ConvBNReluAnnotator):
    """The same with the missing begin."""

    def enters(self, arg):
        return super().enters(arg) or (isinstance(arg, Call) and arg.op.name == "annotation.compiler_end")


def conv_bn_relu_table():
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    norm = is_op("nn.batch_norm")(conv, wildcard(), wildcard(), wildcard(), wildcard())
    return [("conv_bn_relu", is_op("nn.relu")(is_tuple_get_item(norm, 0)))]


def by_hand(annotator):
    def annotate(mod):
        mod = mod.copy()
        mod["main"] = annotator(TARGET).visit(mod["main"])
        return relay.transform.InferType()(mod)

    return annotate


WAYS = {
    "repaired by hand": by_hand(RepairedAnnotator),
    "from patterns": relay.transform.AnnotateTarget(TARGET, pattern_table=conv_bn_relu_table()),
}
REGIONS = {"single": 1, "consecutive": 3, "parallel": 2}


def regions(mod):
    return {name.name_hint: f for name, f in mod.functions.items() if f.attrs.get("Compiler") == TARGET}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", REGIONS)
def test_each_layer_becomes_one_function(kind, way):
    mod = tvm.IRModule.from_expr(get_net(kind))
    partitioned = tvm.transform.Sequential([relay.transform.PartitionGraph()])(WAYS[way](mod))
    functions = regions(partitioned)
    assert len(functions) == REGIONS[kind]
    for function in functions.values():
        calls = [node for node in relay.visitor.post_order(function) if isinstance(node, relay.Call)]
        assert [call.op.name for call in calls] == ["nn.conv2d", "nn.batch_norm", "nn.relu"]
        assert len(function.params) == 6


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", REGIONS)
def test_partitioned_networks_compute_the_same(kind, way):
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(get_net(kind)))
    partitioned = relay.transform.PartitionGraph()(WAYS[way](mod))
    rng = np.random.default_rng(0)
    inputs = {
        param.name_hint: rng.uniform(0.1, 1, param.checked_type.shape).astype("float32") for param in mod["main"].params
    }
    expected = relay.interpreter.evaluate(mod, inputs)
    np.testing.assert_array_equal(relay.interpreter.evaluate(partitioned, inputs), expected)


@pytest.mark.parametrize("kind", ["single", "parallel"])
def test_the_annotator_of_the_report_is_right_for(kind):
    mod = relay.transform.PartitionGraph()(by_hand(ConvBNReluAnnotator)(tvm.IRModule.from_expr(get_net(kind))))
    assert len(regions(mod)) == REGIONS[kind]


@pytest.mark.parametrize("run", [relay.transform.PartitionGraph(), relay.transform.MergeCompilerRegions()])
def test_the_forgotten_begin_is_named(run):
    mod = by_hand(ConvBNReluAnnotator)(tvm.IRModule.from_expr(get_net("consecutive")))
    with pytest.raises(
        PassError,
        match=r"argument 0 \(data\) of nn\.conv2d lacks compiler_begin for target 'accelerator'; "
        r"it is nn\.relu, left by compiler_end",
    ):
        run(mod)


def test_patterns_annotate_as_the_repaired_annotator_does():
    mod = tvm.IRModule.from_expr(get_net("consecutive"))
    by_pattern, by_visitor = (WAYS[way](mod) for way in WAYS)
    assert tvm.ir.structural_equal(by_pattern, by_visitor)
