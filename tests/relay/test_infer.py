"""Type inference: what is found, and what is said when types do not check."""

from __future__ import annotations

import pytest

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.relay.expr import Call, Expr
from eqsat.relay.infer import infer_type
from eqsat.relay.ty import Any

image = relay.var("image", shape=(1, 3, 8, 8))
weight = relay.var("weight", shape=(4, 3, 3, 3))


def type_of(expr: Expr) -> str:
    return str(infer_type(expr).checked_type)


def test_a_call_made_by_hand_has_the_default_attributes() -> None:
    assert type_of(Call(relay.op.get("nn.conv2d"), [image, weight])) == "Tensor[(1, 4, 6, 6), float32]"


def test_an_attribute_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeCheckError, match=r"reshape\(.*\): the call has no attributes: .* 'newshape'"):
        infer_type(Call(relay.op.get("reshape"), [image]))


def test_operator_and_types_are_named() -> None:
    wrong = relay.var("wrong", shape=(4, 5, 3, 3))
    with pytest.raises(TypeCheckError, match=r"nn\.conv2d\(Tensor\[\(1, 3, 8, 8\), float32\], Tensor\[\(4, 5, 3, 3\)"):
        infer_type(relay.nn.conv2d(image, wrong))


def test_the_number_of_arguments_is_checked() -> None:
    with pytest.raises(TypeCheckError, match="add takes 2 arguments"):
        infer_type(Call(relay.op.get("add"), [image]))


def test_unknown_dimensions_survive() -> None:
    batch = relay.var("batch", shape=(Any("n"), 3, 8, 8))
    assert type_of(relay.nn.conv2d(batch, weight)) == "Tensor[(?n, 4, 6, 6), float32]"
    assert type_of(relay.nn.batch_flatten(relay.nn.relu(batch))) == "Tensor[(?n, 192), float32]"


def test_a_free_variable_without_a_type_is_named() -> None:
    with pytest.raises(TypeCheckError, match="untyped"):
        infer_type(relay.nn.relu(relay.var("untyped")))
