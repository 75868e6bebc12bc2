"""DynamicToStatic: parameters that are known become attributes."""

import pytest

from eqsat import relay
from eqsat.relay import transform

from .compilers import called_ops, module, var


def static(body, *params):
    return transform.DynamicToStatic()(module(body, *params))["main"].body


def shape_of(*shape):
    return relay.shape_of(var("y", *shape))


@pytest.mark.parametrize(
    ("build", "name", "attribute", "value"),
    [
        (lambda x: relay.reshape(x, shape_of(8, 3)), "reshape", "newshape", (8, 3)),
        (lambda x: relay.reshape(x, relay.const([-1, 0]) + relay.const([0, 12])), "reshape", "newshape", (-1, 12)),
        (lambda x: relay.broadcast_to(x, shape_of(5, 2, 3, 4)), "broadcast_to", "shape", (5, 2, 3, 4)),
        (lambda x: relay.tile(x, shape_of(1, 2, 3)), "tile", "reps", (1, 2, 3)),
        (lambda x: relay.full(var("fill"), relay.shape_of(x)), "full", "shape", (2, 3, 4)),
        (lambda x: relay.op.dyn.squeeze(relay.expand_dims(x, 1), relay.const([1])), "squeeze", "axis", (1,)),
        (lambda x: relay.op.dyn.expand_dims(x, relay.const(2)), "expand_dims", "axis", 2),
        (
            lambda x: relay.strided_slice(x, relay.const([0, 0]), shape_of(1, 2), relay.const([1, 1])),
            "strided_slice",
            "end",
            (1, 2),
        ),
    ],
)
def test_parameters_that_are_known(build, name, attribute, value):
    body = static(build(var("x", 2, 3, 4)))
    assert (body.op.name, body.attrs[attribute]) == (name, value)
    assert relay.ty.is_static(body.checked_type)


def test_a_shape_that_another_operator_makes_known():
    x = var("x", 2, 3)
    flat = relay.reshape(x, relay.const([3, 1]) + relay.const([0, 1]))
    body = static(relay.reshape(relay.nn.relu(flat), relay.shape_of(flat)))
    assert body.attrs.newshape == (3, 2)


def test_parameters_that_are_not_known_are_left():
    x, y = var("x", 2, 3), relay.var("y", shape=(2,), dtype="int64")
    assert called_ops(static(relay.reshape(x, y))) == ["dyn.reshape"]


def test_a_branch_that_is_never_taken_goes():
    x = var("x", 2, 2)
    body = static(relay.If(relay.const(True), relay.reshape(x, shape_of(1, 4)), relay.reshape(x, shape_of(1, 4))))
    assert body.attrs.newshape == (1, 4)


def test_the_type_of_a_function_becomes_known():
    x = relay.var("x", shape=(2, 3))
    inner = relay.Function([x], relay.reshape(x, relay.const([1]) + relay.const([5])))
    body = static(inner(var("z", 2, 3)))
    assert body.checked_type == relay.TensorType((6,), "float32")


def test_in_lets():
    x, v = var("x", 2, 3), relay.var("v")
    bound = relay.Let(v, relay.reshape(x, shape_of(3, 2)), relay.nn.relu(relay.reshape(v, shape_of(6))))
    assert called_ops(static(bound)).count("reshape") == 2
