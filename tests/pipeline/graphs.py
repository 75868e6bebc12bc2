"""Random well-typed graphs out of what the shipped rules speak of, and values for their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.random import Generator, default_rng

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate
from eqsat.relay.structural import structural_equal, structural_hash
from eqsat.relay.visitor import rewrite_post_order

IMAGE = (1, 3, 5, 5)


def inputs(root: Expr, seed: int = 0) -> dict[Any, Any]:
    """A value for each free variable, by name."""
    rng = default_rng(seed)
    shapes = {var.name_hint: var.type_annotation.concrete_shape for var in variables(root)}
    return {name: rng.uniform(-2, 2, shape).astype("f4") for name, shape in shapes.items()}


def variables(root: Expr) -> list[Any]:
    """The variables that a graph, or the body of a function, is a function of."""
    return list(root.params) if isinstance(root, relay.Function) else list(free_vars(root))


def assert_same_values(left: Expr, right: Expr, rtol: float = 1e-4) -> None:
    """Fail unless both graphs give the same values, up to rounding, on some inputs."""
    env = inputs(left)
    _compare(evaluate(left, env), evaluate(right, env), rtol)


def _compare(left: Any, right: Any, rtol: float) -> None:
    if isinstance(left, tuple):
        for a, b in zip(left, right, strict=True):
            _compare(a, b, rtol)
        return
    assert left.dtype == right.dtype
    scale = max(1.0, float(np.max(np.abs(left), initial=0)))
    np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol * scale)


@st.composite
def typed_graphs(draw: st.DrawFn, size: int = 10) -> Expr:
    """A graph of up to about ``size`` operators over images and matrices, float32."""
    rng = default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = [_typed(relay.var("image", shape=IMAGE)), _typed(relay.var("matrix", shape=(4, 6)))]
    for _ in range(draw(st.integers(1, size))):
        of = pool[-1 - min(int(rng.integers(0, 4)), len(pool) - 1)]
        made = _grow(rng, of, pool)
        if made is not None:
            pool.append(_typed(made))
    return Tuple([pool[-1], pool[-2]]) if draw(st.booleans()) else pool[-1]


def _typed(expr: Expr) -> Expr:
    return infer_type(expr)


def _grow(rng: Generator, of: Expr, pool: list[Expr]) -> Expr | None:
    shape = of.checked_type.concrete_shape
    same = [other for other in pool if other.checked_type == of.checked_type]
    kinds = ["unary", "binary", "constant", "constant", "transpose", "reshape", "cast"]
    kinds += ["conv", "batch_norm", "bias"] * (len(shape) == 4) + ["dense"] * (len(shape) == 2)
    match kinds[int(rng.integers(len(kinds)))]:
        case "unary":
            unary = [nn.relu, relay.negative, relay.tanh]
            return unary[int(rng.integers(len(unary)))](of)
        case "binary":
            other = same[int(rng.integers(len(same)))]
            return [of + other, of - other, of * relay.tanh(other)][int(rng.integers(3))]
        case "constant":
            constant = _constant(rng, shape)
            return [of + constant, constant + of, of - constant, of * constant, of / relay.const(1.0)][
                int(rng.integers(5))
            ]
        case "transpose":
            axes = rng.permutation(len(shape)).tolist()
            return relay.transpose(of, axes)
        case "reshape":
            flat = relay.reshape(of, (-1,))
            return relay.reshape(flat, shape) if rng.integers(2) else relay.reshape(of, (shape[0], -1))
        case "cast":
            return relay.cast(relay.cast(of, "float64"), "float32")
        case "conv":
            weight = _array(rng, (4, shape[1], 3, 3)) / 8
            return nn.conv2d(of, relay.const(weight), padding=1)
        case "bias":
            return nn.bias_add(of, relay.const(_array(rng, (shape[1],))))
        case "batch_norm":
            statistics = [relay.const(np.abs(_array(rng, (shape[1],))) + 0.5) for _ in range(4)]
            return nn.batch_norm(of, *statistics)[0]
        case "dense":
            return nn.dense(of, relay.const(_array(rng, (3, shape[1])) / 2))
    return None


def _constant(rng: Generator, shape: tuple[int, ...]) -> Expr:
    kind = int(rng.integers(4))
    if kind == 0:
        return relay.const(np.float32(rng.integers(0, 2)))
    if kind == 1 and len(shape) == 4:
        return relay.const(_array(rng, (shape[1], 1, 1)))
    return relay.const(_array(rng, (shape[-1],) if kind == 2 else ()))


def _array(rng: Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(-1, 1, shape).astype("float32")


@st.composite
def mixed_graphs(draw: st.DrawFn, size: int = 12) -> Expr:
    """A graph of every kind of node but lets, in which no two nodes are equal and none is constant.

    Operators with equal attributes occur beside each other, and the first dimension may be unknown.
    """
    rng = default_rng(draw(st.integers(0, 2**32 - 1)))
    of = relay.TensorType((draw(st.sampled_from([4, relay.Any("n"), relay.Any()])), 6), "float32")
    inputs = [relay.Var(name, of) for name in "xy"]
    pool: list[Expr] = [*inputs]
    for _ in range(draw(st.integers(1, size))):
        make = _MIXED[int(rng.integers(len(_MIXED)))]
        pool.append(make(rng, *[pool[-1 - min(int(rng.integers(5)), len(pool) - 1)] for _ in range(2)]))
    body = without_copies(Tuple(pool[-3:]) if draw(st.booleans()) else pool[-1])
    return relay.Function(inputs, body) if draw(st.booleans()) else body


def without_copies(root: Expr) -> Expr:
    """``root`` with one node in place of all that are equal."""
    alike: dict[int, list[Expr]] = {}

    def first(old: Expr, new: Expr) -> Expr:
        others = alike.setdefault(structural_hash(new), [])
        others.append(new)
        return next(other for other in others if structural_equal(other, new))

    return rewrite_post_order(root, first)


def _call_a_function(rng: Generator, x: Expr, y: Expr) -> Expr:
    param = relay.var("p")
    return relay.Function([param], relay.tanh(param) + y)(x)


_MIXED: list[Any] = [
    lambda rng, x, y: nn.relu(x),
    lambda rng, x, y: x * y,
    lambda rng, x, y: relay.clip(x, -1.0, float(rng.integers(3))),
    lambda rng, x, y: nn.bias_add(x, relay.const(_array(rng, (6,))), axis=1),
    lambda rng, x, y: nn.softmax(x, axis=1),
    lambda rng, x, y: nn.log_softmax(x, axis=1),
    lambda rng, x, y: relay.split(relay.concatenate([x, y], axis=1), 2, axis=1)[int(rng.integers(2))],
    lambda rng, x, y: relay.squeeze(relay.expand_dims(x, axis=1), axis=[1]),
    lambda rng, x, y: x - relay.sum(y, axis=1, keepdims=True),
    lambda rng, x, y: relay.cast(relay.cast(x, "float64"), "float32"),
    lambda rng, x, y: relay.TupleGetItem(Tuple([x, nn.relu(y)]), int(rng.integers(2))),
    lambda rng, x, y: relay.If(relay.sum(x) > relay.const(np.float32(0)), nn.relu(x), y),
    _call_a_function,
]
