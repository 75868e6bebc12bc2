"""Operators whose shape parameters are tensors, as those with attributes where these tensors are constants.

Relay's DynamicToStatic also knows ``dyn.nn.upsampling``, ``dyn.nn.upsampling3d`` and ``dyn.sparse_to_dense``: there are
no such operators here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.author import attrs_of, compute, constants, rewrite, value_of, variables
from eqsat.egraph.rule import RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op
from eqsat.relay.expr import Call, Constant, Expr, Op, Var
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import TensorType
from eqsat.rules.draw import Draw, complete

Reading = Callable[[NDArray[Any]], Any]
Drawing = Callable[[Draw], tuple[list[TensorType], dict[str, Any]]]


def ints(value: NDArray[Any]) -> tuple[int, ...]:
    return tuple(map(int, np.atleast_1d(value)))


def floats(value: NDArray[Any]) -> tuple[float, ...]:
    return tuple(map(float, value))


def integer(value: NDArray[Any]) -> int:
    return int(value.item())


def pairs(value: NDArray[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(ints, value))


def of_constants(name: str, drawing: Drawing | None = None, **readings: Reading) -> Any:
    """dyn.f(x, 5) = f(x, attribute=5)

    Args:
        name: the operator that has attributes.
        drawing: types of its arguments and its attributes, for the verifier; where :mod:`eqsat.rules.draw` knows none.
        readings: for each attribute how it is read from a constant.
    """
    static, dynamic = Op.get(name), Op.get(f"dyn.{name}")
    labels = dynamic.arguments or ()
    operands = {label: (constants if label in readings else variables)(label)[0] for label in labels}
    call = is_op(dynamic.name)(*operands.values())
    shared = {field.name for field in dynamic.fields}
    attrs = {field.name: _attribute(call, field.name) for field in static.fields if field.name in shared}
    attrs |= {label: compute(reading, value_of(operands[label])) for label, reading in readings.items()}
    plain = is_op(name)(*[operands[label] for label in static.arguments or ()])

    def examples(draw: Draw) -> Expr:
        types, drawn = drawing(draw) if drawing else complete(draw, static, [None] * len(static.arguments or ()), {})
        args = {label: Var(label, ty) for label, ty in zip(static.arguments or (), types, strict=True)}
        given = {label: _constant(drawn[label], reading) for label, reading in readings.items()}
        kept = {name: value for name, value in drawn.items() if name in shared}
        return Call(dynamic, [(args | given)[label] for label in labels], make_attrs(dynamic, kept))

    return rewrite(f"{name}-of-constants", call, plain.has_attr(attrs), examples=examples)


def _attribute(call: Any, name: str) -> Any:
    def read(attrs: Attrs) -> Any:
        return attrs[name]

    return compute(read, attrs_of(call))


def _constant(value: Any, reading: Reading) -> Constant:
    return Constant(np.asarray(() if value is None else value, "float32" if reading is floats else "int64"))


# ---- for the verifier


def _largest(draw: Draw) -> Any:
    data = draw.tensor(max(draw.rank, 1))
    return [data], {"k": draw.rng.randint(1, 3), "is_ascend": draw.chance(0.5), "axis": -1, "ret_type": "values"}


def _hot(draw: Draw) -> Any:
    scalar = TensorType((), "float32")
    indices = draw.tensor(dtype=draw.rng.choice(("int32", "int64")))
    return [indices, scalar, scalar], {"depth": draw.rng.randint(1, 4), "axis": -1, "dtype": "float32"}


def _image(draw: Draw) -> Any:
    size = (draw.rng.randint(1, 6), draw.rng.randint(1, 6))
    method = draw.rng.choice(("nearest_neighbor", "linear"))
    image = TensorType((1, 2, draw.rng.randint(1, 4), draw.rng.randint(1, 4)), "float32")
    return [image], {"size": size, "roi": (0.0, 0.0, 0.0, 0.0), "method": method}


dynamic = RuleSet(
    "dynamic",
    [
        of_constants("reshape", newshape=ints),
        of_constants("broadcast_to", shape=ints),
        of_constants("squeeze", axis=ints),
        of_constants("expand_dims", axis=integer),
        of_constants("tile", reps=ints),
        of_constants("strided_slice", begin=ints, end=ints, strides=ints),
        of_constants("zeros", shape=ints),
        of_constants("ones", shape=ints),
        of_constants("full", shape=ints),
        of_constants("nn.pad", pad_width=pairs),
        of_constants("topk", _largest, k=integer),
        of_constants("one_hot", _hot, depth=integer),
        of_constants("image.resize2d", _image, size=ints, roi=floats),
    ],
)
