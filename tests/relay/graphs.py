"""Random graphs with every kind of node, well scoped but not well typed, for laws that types do not matter to."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqsat import relay
from eqsat.relay.ty import IntImm, Type

_NAMES = st.one_of(st.sampled_from(["x", "y", "x1", "_a", "0", "", "a/b"]), st.text(max_size=6))
_GLOBALS = st.sampled_from([relay.GlobalVar(name) for name in ("main", "conv.0", "a b", "")])
_DIMS = st.one_of(
    st.integers(0, 4), st.just(relay.Any()), st.builds(relay.Any, st.sampled_from(["n", "batch size", "N"]))
)
_DTYPES = st.sampled_from(["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
_TENSORS = st.builds(relay.TensorType, st.lists(_DIMS, max_size=3), _DTYPES)
_TYPES: st.SearchStrategy[Type] = st.recursive(
    _TENSORS,
    lambda inner: st.one_of(
        st.builds(relay.TupleType, st.lists(inner, max_size=3)),
        st.builds(relay.FuncType, st.lists(inner, max_size=2), inner),
        st.builds(relay.ty.RefType, inner),
        st.just(relay.IncompleteType()),
    ),
    max_leaves=4,
)
_FLOATS = st.one_of(st.floats(), st.sampled_from([0.1, 1.0, -0.0, float("inf"), float("nan"), 1e-5, 1 / 3]))
_PLAIN_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    _FLOATS,
    _NAMES,
    st.builds(IntImm, st.sampled_from(["int64", "int16", "uint8"]), st.integers(0, 100)),
    st.builds(lambda: np.arange(4, dtype="float32").reshape(2, 2)),
    _TYPES,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    _PLAIN_VALUES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=2)),
    max_leaves=5,
)
"""Values that an attribute may hold."""


@st.composite
def constants(draw: st.DrawFn) -> relay.Constant:
    dtype = draw(_DTYPES)
    shape = draw(st.sampled_from([(), (), (), (2,), (2, 0), (1, 2, 1)]))
    size = int(np.prod(shape))
    item = np.dtype(dtype).itemsize
    if dtype == "bool":
        values = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), "bool")
    else:
        values = np.frombuffer(draw(st.binary(min_size=size * item, max_size=size * item)), dtype)
    if dtype.startswith("float") and draw(st.booleans()):
        values = np.array([draw(_FLOATS) for _ in range(size)], "float64")
        with np.errstate(over="ignore"):
            values = values.astype(dtype)
    return relay.Constant(values.reshape(shape))


@st.composite
def exprs(draw: st.DrawFn, size: int = 12) -> relay.Expr:
    """An expression of up to ``size`` nodes and as many in each nested scope, with free variables."""
    pool: list[relay.Expr] = [draw(variables()) for _ in range(draw(st.integers(1, 3)))]
    return _grow(draw, pool, draw(st.integers(size // 3, size)), depth=2)


LIST = relay.GlobalTypeVar("List")
_ELEMENT = relay.TypeVar("A")
CONS = relay.Constructor("Cons", [_ELEMENT, LIST(_ELEMENT)], LIST)
NIL = relay.Constructor("Nil", [], LIST)
LIST_TYPE = relay.TypeData(LIST, [_ELEMENT], [CONS, NIL])


@st.composite
def modules_with_matches(draw: st.DrawFn) -> relay.IRModule:
    """A module that defines ``List`` and has a function that matches on such values."""
    pool: list[relay.Expr] = [*(draw(variables()) for _ in range(2)), CONS, NIL]
    for kind in draw(st.lists(st.sampled_from([_match, _match, _call, _function]), min_size=1, max_size=4)):
        pool.append(kind(draw, pool, 2))
    body = pool[-1]
    type_params = draw(st.lists(st.builds(relay.TypeVar, st.sampled_from(["A", "B"])), max_size=2, unique_by=str))
    params = [relay.Var(draw(_NAMES), type_param) for type_param in type_params]
    function = relay.Function([*params, *relay.analysis.free_vars(body)], body, None, type_params)
    return relay.IRModule({"function": function}, {LIST: LIST_TYPE})


@st.composite
def variables(draw: st.DrawFn) -> relay.Var:
    return relay.Var(draw(_NAMES), draw(st.one_of(st.none(), _TYPES)))


def _grow(draw: st.DrawFn, pool: list[relay.Expr], size: int, depth: int) -> relay.Expr:
    """Add ``size`` nodes to ``pool``; the last one is given."""
    kinds = _LEAF_KINDS + _FLAT_KINDS + (_SCOPED_KINDS if depth else [])
    for _ in range(size):
        pool.append(draw(st.sampled_from(kinds))(draw, pool, depth))
    return pool[-1]


def _pick(draw: st.DrawFn, pool: list[relay.Expr]) -> relay.Expr:
    # recent nodes more often, for depth
    return pool[-1 - min(draw(st.integers(0, 3 * len(pool))) // 3, len(pool) - 1)]


def _inner(draw: st.DrawFn, pool: list[relay.Expr], depth: int, *bound: relay.Var) -> relay.Expr:
    return _grow(draw, [*pool, *bound], draw(st.integers(0, 4)), depth - 1)


def _call(draw: st.DrawFn, pool: list[relay.Expr], depth: int) -> relay.Expr:
    build = draw(st.sampled_from(_CALLS))
    call: relay.Expr = build(draw, *(_pick(draw, pool) for _ in range(2)))
    return call


_CALLS: list[Any] = [
    lambda draw, x, y: relay.add(x, y),
    lambda draw, x, y: relay.nn.relu(x),
    lambda draw, x, y: relay.nn.conv2d(
        x, y, padding=draw(st.sampled_from([0, 1, (1, 2)])), groups=draw(st.integers(1, 3))
    ),
    lambda draw, x, y: relay.nn.dense(x, y, units=draw(st.sampled_from([None, 3]))),
    lambda draw, x, y: relay.clip(x, draw(_FLOATS), draw(_FLOATS)),
    lambda draw, x, y: relay.transpose(x, draw(st.sampled_from([None, (1, 0)]))),
    lambda draw, x, y: relay.split(x, draw(st.sampled_from([2, (1, 2)]))).astuple(),
    lambda draw, x, y: relay.nn.bias_add(x, y, axis=1),
    lambda draw, x, y: relay.nn.softmax(x, axis=draw(st.integers(0, 1))),
    lambda draw, x, y: relay.concatenate([x, y], axis=draw(st.integers(0, 1))),
    lambda draw, x, y: relay.cast(x, "float16"),
    lambda draw, x, y: relay.Call(relay.op.get("nn.conv2d"), [x, y]),
    lambda draw, x, y: relay.Call(relay.op.get("add"), [x, y], draw(st.dictionaries(_NAMES, VALUES, max_size=2))),
    lambda draw, x, y: relay.Call(draw(_GLOBALS), [x, y]),
    lambda draw, x, y: relay.Call(x, [y, y]),
    lambda draw, x, y: relay.Call(x, [y], relay.nn.conv2d(x, y, strides=2).attrs),
]


def _function(draw: st.DrawFn, pool: list[relay.Expr], depth: int) -> relay.Expr:
    params = draw(st.lists(variables(), max_size=3))
    attrs = draw(st.dictionaries(_NAMES, VALUES, max_size=2))
    body = _inner(draw, pool, depth, *params)
    return relay.Function(params, body, draw(st.one_of(st.none(), _TYPES)), attrs=attrs)


def _let(draw: st.DrawFn, pool: list[relay.Expr], depth: int) -> relay.Expr:
    variable = draw(variables())
    return relay.Let(variable, _inner(draw, pool, depth), _inner(draw, pool, depth, variable))


def _match(draw: st.DrawFn, pool: list[relay.Expr], depth: int) -> relay.Expr:
    patterns = draw(st.lists(_PATTERNS, max_size=3))
    clauses = [relay.Clause(pattern, _inner(draw, pool, depth, *pattern.variables)) for pattern in patterns]
    return relay.Match(_pick(draw, pool), clauses, draw(st.booleans()))


_PATTERNS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.builds(relay.PatternWildcard),
        st.builds(relay.PatternVar, variables()),
        st.builds(lambda: relay.PatternConstructor(NIL)),
    ),
    lambda inner: st.one_of(
        st.builds(lambda head, tail: relay.PatternConstructor(CONS, [head, tail]), inner, inner),
        st.builds(relay.PatternTuple, st.lists(inner, max_size=2)),
    ),
    max_leaves=3,
)
_LEAF_KINDS: list[Any] = [
    lambda draw, pool, depth: draw(variables()),
    lambda draw, pool, depth: draw(constants()),
    lambda draw, pool, depth: relay.op.get("add"),
    lambda draw, pool, depth: draw(_GLOBALS),
]
_FLAT_KINDS: list[Any] = [
    *([_call] * 6),
    lambda draw, pool, depth: relay.Tuple([_pick(draw, pool) for _ in range(draw(st.integers(0, 3)))]),
    lambda draw, pool, depth: relay.TupleGetItem(_pick(draw, pool), draw(st.integers(0, 2))),
    lambda draw, pool, depth: relay.RefCreate(_pick(draw, pool)),
    lambda draw, pool, depth: relay.RefRead(_pick(draw, pool)),
    lambda draw, pool, depth: relay.RefWrite(_pick(draw, pool), _pick(draw, pool)),
]
_SCOPED_KINDS: list[Any] = [
    _function,
    _let,
    lambda draw, pool, depth: relay.If(_pick(draw, pool), _inner(draw, pool, depth), _inner(draw, pool, depth)),
]
