"""What FuseOps computes together, and that DefuseOps undoes it."""

import numpy as np
import pytest

from eqsat import relay, tir
from eqsat.relay import transform
from eqsat.relay.visitor import post_order
from eqsat.target import Target

from .compilers import assert_same, assert_same_values, called_ops, functions_in, module, var

relu, tanh, exp = relay.nn.relu, relay.tanh, relay.exp


def fused(mod):
    return [called_ops(function) for function in functions_in(transform.FuseOps()(mod)["main"].body)]


def conv(data, name="w"):
    return relay.nn.conv2d(data, var(name, 4, 4, 3, 3), padding=(1, 1))


def image(name="x"):
    return var(name, 1, 4, 6, 6)


def diamond(meet):
    data = conv(image())
    return relay.add(relu(data), tanh(data)) if meet else relay.Tuple([relu(data), tanh(data)])


@pytest.mark.parametrize(
    ("build", "groups"),
    [
        (lambda: exp(relu(tanh(image()))), [["tanh", "nn.relu", "exp"]]),
        (lambda: relu(conv(image()) + relay.const(1.0)), [["nn.conv2d", "add", "nn.relu"]]),
        (lambda: relu(relay.nn.bias_add(conv(image()), var("b", 4))), [["nn.conv2d", "nn.bias_add", "nn.relu"]]),
        (lambda: conv(relu(image())), [["nn.relu"], ["nn.conv2d"]]),
        (lambda: relu(conv(relu(conv(image())), "v")), [["nn.conv2d", "nn.relu"], ["nn.conv2d", "nn.relu"]]),
        (lambda: diamond(meet=True), [["nn.conv2d", "nn.relu", "tanh", "add"]]),
        (lambda: diamond(meet=False), [["nn.conv2d"], ["nn.relu"], ["tanh"]]),
        (
            lambda: relu(relay.concatenate((relu(image()), tanh(image("y"))), 1)),
            [["nn.relu", "tanh", "concatenate", "nn.relu"]],
        ),
        (lambda: relay.sum(exp(image())), [["exp", "sum"]]),
        (lambda: exp(relay.sum(image())), [["sum"], ["exp"]]),
        (lambda: relu(relay.transpose(image(), (0, 2, 3, 1))), [["transpose", "nn.relu"]]),
        (lambda: relay.Tuple([relu(image()), tanh(image("y"))]), [["nn.relu"], ["tanh"]]),
        (lambda: exp(relay.annotation.stop_fusion(tanh(image()))), [["tanh"], ["exp"]]),
    ],
)
def test_groups(build, groups):
    mod = module(build())
    assert fused(mod) == groups
    assert_same_values(mod, transform.FuseOps()(mod))


def test_a_mark_that_stops_fusion_goes():
    body = exp(relay.annotation.stop_fusion(relay.annotation.stop_fusion(tanh(image()))))
    calls = called_ops(transform.FuseOps()(module(body))["main"])
    assert sorted(calls) == ["exp", "tanh"]


def test_projections_of_a_split_are_fused_with_it():
    parts = relay.split(image(), 2, axis=1)
    assert fused(module(relay.add(parts[0], parts[1]))) == [["split", "add"]]


def test_what_two_branches_need_is_no_inside_of_either():
    value = exp(image())
    body = relay.If(relay.var("c", "bool"), relu(value), tanh(value))
    assert fused(module(body)) == [["exp"], ["nn.relu"], ["tanh"]]


def test_scalars_stay_and_tensors_become_parameters():
    weight = np.ones((6, 6), "float32")
    mod = module(image() * relay.const(weight) + relay.const(2.0))
    (function,) = functions_in(transform.FuseOps()(mod)["main"].body)
    assert [str(param.type_annotation) for param in function.params] == [
        "Tensor[(1, 4, 6, 6), float32]",
        "Tensor[(6, 6), float32]",
    ]
    assert [param.name_hint for param in function.params] == ["p0", "p1"]
    assert dict(function.attrs) == {"Primitive": 1}
    with transform.PassContext(config={"relay.FuseOps.link_params": True}):
        (linked,) = functions_in(transform.FuseOps()(mod)["main"].body)
    assert len(linked.params) == 1


def test_an_input_used_twice_is_one_parameter():
    x = image()
    (function,) = functions_in(transform.FuseOps()(module(x * tanh(x)))["main"].body)
    assert len(function.params) == 1


def test_reshapes_alone_are_marked():
    (function,) = functions_in(transform.FuseOps()(module(relay.reshape(image(), (4, 36))))["main"].body)
    assert dict(function.attrs) == {"Primitive": 1, "relay.reshape_only": 1}


def test_level_0_makes_each_operator_a_function():
    functions = functions_in(transform.FuseOps(0)(module(relu(tanh(image()))))["main"].body)
    assert [called_ops(function) for function in functions] == [["tanh"], ["nn.relu"]]


def test_groups_have_a_greatest_size():
    out = image()
    for _ in range(300):
        out = tanh(out)
    sizes = [len(group) for group in fused(module(out))]
    assert sum(sizes) == 300
    assert max(sizes) <= transform.fuse_ops.MAX_FUSED
    with transform.PassContext(config={"relay.FuseOps.max_depth": 10}):
        assert max(len(group) for group in fused(module(out))) <= 10


def sum_of(count, shape=(4, 4)):
    """The sum of the exponentials of inputs, from left to right."""
    terms = [exp(relay.var(f"x{index}", relay.TensorType(shape))) for index in range(count)]
    body = terms[0]
    for term in terms[1:]:
        body = relay.add(body, term)
    return module(body)


@pytest.mark.parametrize(
    ("target", "shape", "inputs"),
    [
        ("metal", (4, 4), 30),  # and the result
        ("metal -max_function_args=9", (4, 4), 8),
        ("metal -max_function_args=17", (relay.Any(), 4), 3),  # a size and two strides with each; a size of the result
        ("llvm", (4, 4), 40),  # no limit
    ],
)
def test_the_target_limits_the_arguments(target, shape, inputs):
    with Target(target):
        functions = functions_in(transform.FuseOps()(sum_of(40, shape))["main"].body)
    assert max(len(function.params) for function in functions) == inputs
    assert sum(len(called_ops(function)) for function in functions) == 79


def test_arguments_before_are_counted_when_the_groups_before_are_known():
    body = exp(relu(conv(relay.const(np.ones((1, 4, 6, 6), "float32")))) * relay.const(2.0))
    two = module(relay.add(relu(tanh(relay.sum(body))), var("y", 1)))
    assert fused(two) == [["nn.conv2d", "nn.relu", "multiply", "exp"], ["sum"], ["tanh", "nn.relu", "add"]]
    with Target("metal"):
        assert fused(two) == [["nn.conv2d", "nn.relu", "multiply", "exp"], ["sum"], ["tanh", "nn.relu", "add"]]


def test_deep_graphs_of_limited_arguments():
    out = image()
    for _ in range(2_000):  # constants are not counted, so the arguments are those of the input, far below
        out = relu(relay.nn.conv2d(out, relay.const(np.ones((4, 4, 1, 1), "float32"))))
    with Target("opencl"):
        groups = fused(module(out))
    assert groups == [["nn.conv2d", "nn.relu"]] * 2_000


def test_dimensions_of_another_dtype_become_those_of_the_argument():
    p = relay.var("p", shape=(tir.const(2, "int64"),))
    x = relay.var("x", shape=(2,))
    inner = transform.InferType()(module(relay.Function([p], relu(p))(x)))["main"].body.op
    assert [size.dtype for size in inner.params[0].type_annotation.shape] == ["int32"]
    assert [size.dtype for size in inner.ret_type.shape] == ["int32"]


def test_functions_for_others_are_left_alone():
    param = image()
    inner = relay.Function([param], relu(tanh(param)))
    for attrs, expected in (({"Primitive": 1}, [["tanh", "nn.relu"]]), ({"Composite": "c"}, None)):
        function = inner.with_attr(attrs)
        found = functions_in(transform.FuseOps()(module(function(image())))["main"].body)
        if expected is None:  # fused inside
            (composite,) = (f for f in found if "Composite" in f.attrs)
            assert [called_ops(f) for f in functions_in(composite.body)] == [["tanh", "nn.relu"]]
        else:
            assert [called_ops(f) for f in found] == expected
    external = module(relu(tanh(image())))
    external["main"] = external["main"].with_attr("Compiler", "t")
    assert fused(external) == []


@pytest.mark.parametrize("meet", [True, False])
def test_twice_is_once_and_defusing_undoes_it(meet):
    mod = module(diamond(meet))
    once = transform.FuseOps()(mod)
    assert_same(transform.FuseOps()(once), once)
    assert_same(transform.DefuseOps()(once), mod)


def test_deep_graphs():
    out = image()
    for _ in range(5_000):
        out = relu(relay.add(out, relay.const(1.0)))
    functions = functions_in(transform.FuseOps()(module(out))["main"].body)
    assert sum(len(called_ops(function)) for function in functions) == 10_000
    assert len(post_order(functions[0].body)) < 4 * transform.fuse_ops.MAX_FUSED
