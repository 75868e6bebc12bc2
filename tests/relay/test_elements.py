"""What type inference knows of integers that a graph computes from shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.relay.elements import Elements
from eqsat.relay.expr import Call, Expr
from eqsat.relay.infer import infer_types, unknown_sizes
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.interpreter import evaluate
from eqsat.relay.static_forms import static_form
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType

N, M = AnyDim("n"), AnyDim("m")
x = relay.var("x", TensorType((N, M, 12)))
shape = relay.shape_of(x, dtype="int64")


def ints(*values: int) -> Expr:
    return relay.const(np.asarray(values), "int64")


def at(place: int) -> Expr:
    return relay.strided_slice(shape, [place], [place + 1])


def typing_of(expr: Expr) -> tuple[dict[Expr, Any], Elements]:
    types: dict[Expr, Any] = {}
    typing = Inferencer(types, names=unknown_sizes())
    typing.run(expr)
    return types, typing.elements


def known(expr: Expr) -> list[Dim]:
    found = typing_of(expr)[1].of(expr)
    assert found is not None
    return found.reshape(-1).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("expr", "elements"),
    [
        (shape, [N, M, 12]),
        (relay.take(shape, relay.const(1, "int64"), axis=0), [M]),
        (relay.concatenate([at(0), ints(-1), at(2)], 0), [N, -1, 12]),
        (at(0) * at(1), [AnyDim("m*n")]),
        (at(1) + ints(3), [AnyDim("m + 3")]),
        (relay.divide(at(0) * ints(4), ints(2)), [AnyDim("2*n")]),
        (relay.divide(at(0) - ints(1), ints(2)) + ints(1), [AnyDim("trunc(n - 1, 2) + 1")]),
        (relay.divide(at(0) - ints(2), ints(2)), [AnyDim()]),
        (relay.where(relay.equal(ints(-1, 5, 1), ints(-1)), shape, ints(7, 5, 1)), [N, 5, 1]),
        (relay.equal(shape, ints(-1)), [0, 0, 0]),
        (relay.greater(at(0) + ints(1), at(0)), [1]),
        (relay.cast(relay.cast(at(2), "int32"), "int64"), [12]),
        (relay.full(relay.const(1, "int64"), (3,), "int64") * shape, [N, M, 12]),
        (relay.prod(relay.concatenate([at(1), at(2)], 0)), [AnyDim("12*m")]),
        (relay.equal(at(0), at(1)), [AnyDim()]),
        (relay.maximum(at(0), at(1)), [AnyDim()]),
    ],
)
def test_elements(expr: Expr, elements: list[Dim]) -> None:
    assert known(expr) == elements


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (relay.reshape(x, relay.concatenate([at(0), at(1), ints(3, -1)], 0)), (N, M, 3, 4)),
        (relay.reshape(x, relay.concatenate([at(0) * at(1), ints(12)], 0)), (AnyDim("m*n"), 12)),
        (relay.reshape(x, relay.concatenate([ints(-1), at(1)], 0)), (AnyDim("12*n"), M)),
        (relay.zeros(relay.concatenate([at(1), ints(2)], 0), "float32"), (M, 2)),
        (relay.arange(relay.const(0, "int64"), relay.squeeze(at(0)), relay.const(1, "int64"), "int64"), (N,)),
        (relay.strided_slice(x, ints(0), at(1), ints(1)), (AnyDim("min(m, n)"), M, 12)),
        (relay.reshape(x, relay.cast(relay.var("s", shape=(2,), dtype="int64"), "int64")), (AnyDim(), AnyDim())),
        (relay.reshape(x, at(0) - ints(5)), (AnyDim(),)),  # it may be -1
    ],
)
def test_results_that_known_elements_size(expr: Expr, result: tuple[Dim, ...]) -> None:
    assert infer_types(expr)[expr].shape == result  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("expr", "operator", "attribute", "value"),
    [
        (relay.reshape(x, relay.concatenate([at(0), at(1), ints(3, -1)], 0)), "reshape", "newshape", (0, 0, 3, 4)),
        (relay.reshape(x, relay.concatenate([at(0) * at(1), ints(12)], 0)), "reshape", "newshape", (-1, 12)),
        (relay.zeros(relay.concatenate([at(2), ints(2)], 0), "float32"), "zeros", "shape", (12, 2)),
    ],
)
def test_parameters_that_are_known_become_attributes(expr: Call, operator: str, attribute: str, value: object) -> None:
    form = static_form(expr, *typing_of(expr))
    assert isinstance(form, Call)
    assert isinstance(form.op, relay.Op)
    assert (form.op.name, form.attrs[attribute]) == (operator, value)  # type: ignore[index]


def test_an_expansion_to_its_own_shape_is_no_expansion() -> None:
    expr = relay.broadcast_to(x, shape)
    assert static_form(expr, *typing_of(expr)) is x


def test_what_takes_two_unknown_sizes_stays_dynamic() -> None:
    expr = relay.reshape(x, relay.concatenate([ints(12), at(0), at(1)], 0))
    assert static_form(expr, *typing_of(expr)) is expr


OPERATIONS: list[Callable[[Expr, Expr], Expr]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: relay.concatenate([a, b], 0),
    lambda a, b: relay.where(relay.equal(a, b), a, b),
    lambda a, b: relay.where(relay.less(a, b), b, a),
    lambda a, b: relay.maximum(a, b),
    lambda a, b: relay.reverse(a, 0),
    lambda a, b: relay.tile(a, (2,)),
    lambda a, b: relay.cast(relay.greater_equal(a, b), "int64"),
    lambda a, b: relay.divide(a, ints(2)),
    lambda a, b: relay.divide(a, ints(3)),
]


NAMED: dict[str, Any] = {"min": min, "trunc": lambda dividend, divisor: int(dividend / divisor)}
"""Functions that names of dimensions speak of."""


@st.composite
def computations(draw: st.DrawFn, depth: int = 4) -> Expr:
    """Integers computed in a random way from the shape of ``x``."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.one_of(st.sampled_from([shape, at(0), at(1)]), st.integers(-2, 6).map(ints)))
    build = draw(st.sampled_from(OPERATIONS))
    return build(draw(computations(depth=depth - 1)), draw(computations(depth=depth - 1)))


@given(computations(), st.integers(0, 5), st.integers(1, 5))
def test_elements_are_what_is_computed(expr: Expr, n: int, m: int) -> None:
    """Where names read as Python over the sizes, each known element is the number that the interpreter finds."""
    try:
        found = typing_of(expr)[1].of(expr)
    except TypeCheckError:  # operands that do not broadcast
        return
    if found is None:
        return
    values = evaluate(expr, {x: np.zeros((n, m, 12), "float32")})
    for dim, value in zip(found.reshape(-1).tolist(), np.asarray(values).reshape(-1).tolist(), strict=True):
        if dim != AnyDim():
            assert (dim if isinstance(dim, int) else eval(dim.name, NAMED, {"n": n, "m": m})) == value


def test_names_are_given_to_dimensions_that_operators_leave_unknown() -> None:
    taken = relay.reshape(x, relay.var("s", shape=(2,), dtype="int64"))
    doubled = relay.exp(taken) + taken
    types = infer_types(doubled, names=unknown_sizes())
    assert types[doubled] == types[taken] == TensorType((AnyDim("#0"), AnyDim("#1")))


def test_no_names_are_given_where_functions_are_called() -> None:
    """What a function gives differs from call to call."""
    data, size = relay.var("d", shape=(6,)), relay.var("s", shape=(2,), dtype="int64")
    function = relay.Function([data, size], relay.reshape(data, size))
    called = Call(function, [relay.var("a", shape=(6,)), relay.var("t", shape=(2,), dtype="int64")])
    types = infer_types(called, names=unknown_sizes())
    assert types[called] == TensorType((AnyDim(), AnyDim()))


def test_sizes_at_the_end_of_a_long_chain_are_known() -> None:
    expr: Expr = at(0)
    for _ in range(20_000):
        expr = expr + ints(1)
    assert known(expr) == [AnyDim("n + 20000")]
