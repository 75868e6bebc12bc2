"""What depends on constants alone is computed, where that makes no file large."""

from __future__ import annotations

import numpy as np

from eqsat import relay
from eqsat.relay.expr import Constant, Expr
from eqsat.relay.fold import fold_constants


def expanded(*shape: int) -> Expr:
    return relay.broadcast_to(relay.const(0.5), relay.const(np.asarray(shape)))


def test_what_is_expanded_to_a_constant_shape() -> None:
    folded = fold_constants(relay.nn.relu(expanded(1, 2, 3)))
    assert isinstance(folded, Constant)
    np.testing.assert_array_equal(folded.data.numpy(), np.full((1, 2, 3), 0.5))


def test_what_would_be_large_is_kept() -> None:
    large = expanded(1 << 20, 1 << 20)
    assert fold_constants(large) is large


def test_what_would_be_large_is_computed_on_the_way_to_something_small() -> None:
    large = relay.zeros((2048, 512), "float32") + relay.const(1.0)
    total = fold_constants(relay.sum(large))
    assert isinstance(total, relay.Constant)
    assert total.data.numpy() == 2048 * 512
    assert not isinstance(fold_constants(large), relay.Constant)


def test_what_is_too_large_to_be_computed_is_kept() -> None:
    total = relay.sum(relay.zeros((1 << 16, 1 << 14), "float32"))  # of 4 GB
    assert fold_constants(total) == total


def test_constants_of_an_expression_without_its_module() -> None:
    x = relay.var("x", shape=(2,))
    folded = relay.transform.FoldConstantExpr(x + (relay.const(1.0) + relay.const(2.0)), relay.IRModule())
    assert float(folded.args[1].data.numpy()) == 3
