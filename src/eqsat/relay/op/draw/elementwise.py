"""Random calls of elementwise operators, reductions, normalizations and quantization."""

from __future__ import annotations

import numpy as np

from eqsat.relay.expr import Constant
from eqsat.relay.op.draw.choices import BYTES, FLOATS, INTEGERS, Draw, Drawn, Known, first_tensor
from eqsat.relay.ty import TensorType


def unary(draw: Draw, known: Known) -> Drawn:
    slope = draw.rng.choice((0.01, 0.25, 1 / 6))
    return [draw.tensor_like(known[0])], {"alpha": slope, "beta": 0.5, "rate": 0.5}


def binary(draw: Draw, known: Known) -> Drawn:
    base = draw.tensor_like(first_tensor(known))
    types = [ty or TensorType(draw.against(base.concrete_shape), base.dtype) for ty in known]
    if known == [None, None]:
        types[draw.rng.randrange(2)] = base
    return types, {}


def where(draw: Draw, known: Known) -> Drawn:
    condition, *choices = known
    types, _ = binary(draw, choices)
    shape = max((ty.concrete_shape for ty in types), key=len)
    return [condition or TensorType(draw.against(shape), "bool"), *types], {}


def like(draw: Draw, known: Known) -> Drawn:
    data, model = known
    base = draw.tensor_like(first_tensor(known))
    shape = base.shape if draw.chance(0.8) else draw.tensor().shape
    return [data or TensorType(shape, base.dtype), model or TensorType(shape, draw.tensor().dtype)], {}


def cast(draw: Draw, known: Known) -> Drawn:
    data = known[0] or draw.tensor(dtype=draw.dtype if draw.chance(0.6) else draw.rng.choice((*FLOATS, *INTEGERS)))
    return [data], {"dtype": draw.rng.choice((*FLOATS, *INTEGERS, "bool", "int16", "uint16"))}


def count(draw: Draw, known: Known) -> Drawn:
    return [draw.tensor_like(known[0])], {"dtype": draw.rng.choice(("int32", "int64"))}


def clip(draw: Draw, known: Known) -> Drawn:
    low, high = sorted(draw.rng.choices((-3.0, -1.0, 0.0, 0.5, 2.0, 6.0, 127.0, 300.0), k=2))
    if draw.chance(0.3):
        low, high = draw.rng.choice(((0.0, 6.0), (0.0, 1.0), (0.0, np.inf), (0.5, np.inf), (-128.0, 127.0)))
    return [draw.tensor_like(known[0])], {"a_min": low, "a_max": high}


# ---- reductions and normalizations


def reduction(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    axes = None if draw.chance(0.15) else draw.axes(len(data.shape))
    attrs = {"axis": axes, "keepdims": draw.chance(0.5), "exclude": draw.chance(0.1)}
    return [data, *[TensorType((), data.dtype) for _ in known[1:]]], attrs


def along_axis(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    return [data], {"axis": draw.axis(len(data.shape)) if draw.chance(0.5) else -1}


def largest(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0], max(draw.rank, 1))
    attrs = {"k": draw.rng.randint(1, 3), "is_ascend": draw.chance(0.5), "axis": -1, "ret_type": "values"}
    return [data], attrs


def per_channel(draw: Draw, known: Known) -> Drawn:
    """Data, and parameters that have an element for each place of one axis."""
    data = draw.tensor_like(known[0])
    rank = len(data.shape)
    axis = draw.rng.choice((1, -1, draw.axis(rank)))
    channels = data.shape[axis] if -rank <= axis < rank else 1
    attrs = {"axis": axis, "epsilon": draw.rng.choice((1e-5, 1e-3)), "num_groups": draw.rng.choice((1, 1, 2))}
    attrs |= {"center": draw.chance(0.8), "scale": draw.chance(0.8)}
    return [data, *[ty or TensorType((channels,), data.dtype) for ty in known[1:]]], attrs


def unit_length(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    return [data], {"eps": 1e-4, "axis": draw.axes(len(data.shape))}


# ---- quantization


def quantized(draw: Draw, known: Known) -> Drawn:
    """Data with one scale and one zero point, whose range holds what is drawn."""
    scale = Constant(np.float32(draw.rng.choice((0.02, 0.5, 3.0))))
    return [known[0] or draw.tensor(max(draw.rank, 1), "float32"), scale, _zero_point(draw)], {
        "out_dtype": draw.rng.choice(BYTES)
    }


def dequantized(draw: Draw, known: Known) -> Drawn:
    scale = Constant(np.float32(draw.rng.choice((0.02, 0.5, 3.0))))
    return [known[0] or draw.tensor(max(draw.rank, 1), draw.rng.choice(BYTES)), scale, _zero_point(draw)], {}


def _zero_point(draw: Draw) -> Constant:
    return Constant(np.int32(draw.rng.choice((0, 3, 100))))
