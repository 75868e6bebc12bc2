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


def test_constants_of_an_expression_without_its_module() -> None:
    x = relay.var("x", shape=(2,))
    folded = relay.transform.FoldConstantExpr(x + (relay.const(1.0) + relay.const(2.0)), relay.IRModule())
    assert float(folded.args[1].data.numpy()) == 3
