"""The classes of attributes: one for each operator, or for several whose attributes are alike, named as in TVM."""

from __future__ import annotations

import copy
import pickle

import pytest

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.op import op_attrs

X, W = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (nn.conv2d(X, W), "Conv2DAttrs"),
        (nn.conv2d_transpose(X, relay.var("v", shape=(3, 4, 3, 3))), "Conv2DTransposeAttrs"),
        (nn.max_pool2d(X), "MaxPool2DAttrs"),
        (nn.global_avg_pool2d(X), "GlobalPool2DAttrs"),
        (nn.space_to_batch_nd(X, [2, 2], [[0, 0], [0, 0]]), "SpaceToBatchNDAttrs"),
        (nn.leaky_relu(X), "LeakyReluAttrs"),
        (nn.prelu(X, relay.var("a", shape=(3,))), "PReluAttrs"),
        (relay.mean(X), "ReduceAttrs"),
        (relay.image.resize2d(X, (4, 4)), "Resize2DAttrs"),
    ],
)
def test_attributes_are_of_the_class_of_their_operator(call: relay.Call, name: str) -> None:
    assert type(call.attrs).__name__ == name
    assert isinstance(call.attrs, getattr(op_attrs, name))
    assert not isinstance(call.attrs, op_attrs.DenseAttrs)


def test_the_class_stays_whatever_is_made_of_attributes() -> None:
    attrs = nn.conv2d(X, W, padding=1).attrs
    assert attrs is not None
    for other in (attrs.replace(groups=1), pickle.loads(pickle.dumps(attrs)), copy.deepcopy(attrs)):
        assert (type(other), other) == (type(attrs), attrs)
    assert type(relay.parse_expr(relay.Function([X, W], nn.conv2d(X, W)).astext()).body.attrs) is type(attrs)


def test_attributes_of_no_operator_are_of_no_such_class() -> None:
    assert type(Attrs({"Compiler": "mine"})) is Attrs


def test_a_class_of_no_operator_is_refused() -> None:
    with pytest.raises(AttributeError, match="no operator has attributes of class 'NopeAttrs'"):
        op_attrs.NopeAttrs  # noqa: B018
