"""Random calls of operators that compute: elementwise ones, reductions, quantization, products, windows of images."""

from __future__ import annotations

from typing import Any

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


def fixed_point(draw: Draw, known: Known) -> Drawn:
    multiplier = draw.rng.choice((2**30, 1395864320, -(2**30), 0))
    data = known[0] or TensorType(draw.tensor().shape, "int32")
    return [data], {"multiplier": multiplier, "shift": draw.rng.choice((-3, 0, 1, 4))}


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
    return _with_parameters(draw, known, "float32"), {"out_dtype": draw.rng.choice(BYTES)}


def dequantized(draw: Draw, known: Known) -> Drawn:
    return _with_parameters(draw, known, draw.rng.choice(BYTES)), {}


def _with_parameters(draw: Draw, known: Known, dtype: str) -> list[Any]:
    scale = Constant(np.float32(draw.rng.choice((0.02, 0.5, 3.0))))
    data = known[0] or draw.tensor(max(draw.rank, 1), dtype)
    return [data, scale, Constant(np.int32(draw.rng.choice((0, 3, 100))))]


# ---- products, and what else works on images


def dense(draw: Draw, known: Known) -> Drawn:
    data, weight = known
    inner = next((ty.shape[-1] for ty in known if ty and ty.shape), draw.dim())
    dtype = (first_tensor(known) or draw.tensor()).dtype
    lead = [draw.dim() for _ in range(draw.rng.choice((1, 1, 2)))]
    return [data or TensorType((*lead, inner), dtype), weight or TensorType((draw.dim(), inner), dtype)], {}


def matmul(draw: Draw, known: Known) -> Drawn:
    outer = [draw.dim() for _ in range(draw.rng.choice((0, 0, 1)))]
    return _matrices(draw, known, [outer, []], (draw.chance(0.3), draw.chance(0.3)))


def batch_matmul(draw: Draw, known: Known) -> Drawn:
    base = first_tensor(known)
    batch = [draw.dim() if base is None else base.shape[0]]
    return _matrices(draw, known, [batch, batch], (draw.chance(0.3), draw.chance(0.5)))


def _matrices(draw: Draw, known: Known, leading: list[list[Any]], transposed: tuple[bool, bool]) -> Drawn:
    """Two tensors of matrices, with leading axes, that may be transposed."""
    inner_axes = (-2 if transposed[0] else -1, -1 if transposed[1] else -2)
    sizes = [ty.shape[axis] for ty, axis in zip(known, inner_axes, strict=True) if ty and len(ty.shape) > 1]
    inner = sizes[0] if sizes else draw.dim()
    dtype = (first_tensor(known) or draw.tensor()).dtype
    types = []
    for side, ty in enumerate(known):
        core = [draw.dim(), inner] if (side == 0) != transposed[side] else [inner, draw.dim()]
        types.append(ty or TensorType((*leading[side], *core), dtype))
    return types, {"transpose_a": transposed[0], "transpose_b": transposed[1]}


def convolution(draw: Draw, known: Known, rank: int, transposed: bool = False) -> Drawn:
    """A convolution over ``rank`` spatial axes."""
    data, weight = known
    dtype = (first_tensor(known) or draw.tensor()).dtype
    channels = data.shape[1] if data and len(data.shape) > 1 else draw.rng.choice((1, 2, 4))
    groups = draw.rng.choice((1, 1, channels, 2 if channels % 2 == 0 else 1)) or 1
    kernel = [draw.rng.choice((1, 2, 3)) for _ in range(rank)]
    outer = groups * draw.rng.choice((1, 2))
    core = (channels, outer // groups) if transposed else (outer, channels // groups)
    size = [draw.rng.choice((3, 4, 5)) for _ in range(rank)]
    attrs: dict[str, Any] = {"groups": groups, "strides": [draw.rng.choice((1, 1, 2)) for _ in range(rank)]}
    attrs["padding"] = tuple(draw.rng.choice((0, 1)) for _ in range(2 * rank))
    if draw.chance(0.2):
        attrs["padding"] = (0,) * (2 * rank)
    attrs["dilation"] = [draw.rng.choice((1, 1, 1, 2))] * rank
    if weight is not None and len(weight.shape) == rank + 2:
        kernel, outer = list(weight.shape[2:]), weight.shape[0]
        if not transposed and data is not None and weight.shape[1]:
            attrs["groups"] = max(1, channels // weight.shape[1])
        elif data is None:
            channels = weight.shape[1] * attrs["groups"]
    if draw.chance(0.5):
        attrs |= {"kernel_size": tuple(kernel), "channels": outer}
    batch = draw.rng.choice((1, 2))
    types = [data or TensorType((batch, channels, *size), dtype), weight or TensorType((*core, *kernel), dtype)]
    return types, attrs


def pool(draw: Draw, known: Known, rank: int) -> Drawn:
    """A pool over ``rank`` spatial axes."""
    data = known[0] or TensorType((draw.rng.choice((1, 2)), draw.dim(), *[4] * rank), draw.dtype)
    window = tuple(draw.rng.choice((1, 2, 3)) for _ in range(rank))
    if draw.chance(0.3):
        window = (draw.rng.choice((1, 2)),) * rank
    padding = tuple(draw.rng.choice((0, 0, 1)) for _ in range(2 * rank)) if draw.chance(0.7) else (0,) * (2 * rank)
    attrs: dict[str, Any] = {"pool_size": window, "padding": padding, "ceil_mode": draw.chance(0.2)}
    attrs |= {"strides": (draw.rng.choice((1, 2)),) * rank, "count_include_pad": draw.chance(0.5)}
    return [data], attrs


def resize(draw: Draw, known: Known) -> Drawn:
    image = known[0] or TensorType((1, 2, draw.rng.randint(1, 4), draw.rng.randint(1, 4)), "float32")
    size = (draw.rng.randint(1, 6), draw.rng.randint(1, 6))
    method = draw.rng.choice(("nearest_neighbor", "linear"))
    return [image], {"size": size, "roi": (0.0, 0.0, 0.0, 0.0), "method": method}


def attention(draw: Draw, known: Known) -> Drawn:
    """Attention of heads: queries, keys and values of (batch, head, place, element), and perhaps a mask."""
    batch, heads, times, queries, places, width, out = (draw.rng.randint(1, 3) for _ in range(7))
    base = first_tensor(known[:3])
    if base is not None and len(base.shape) == 4:
        batch, heads, places, width = base.concrete_shape
    dtype = draw.rng.choice(FLOATS) if base is None else base.dtype
    query_heads = heads * times if known[0] is None else heads
    shapes = [(batch, query_heads, queries, width), (batch, heads, places, width), (batch, heads, places, out)]
    shapes += [(draw.rng.choice((1, batch)), 1, queries, places)]
    types = [ty or TensorType(shape, dtype) for ty, shape in zip(known, shapes, strict=False)]
    how = {"scale": draw.rng.choice((0.5, 1.0)), "causal": draw.chance(0.3)}
    return types, how | {"softcap": draw.rng.choice((0.0, 0.0, 2.0))}
