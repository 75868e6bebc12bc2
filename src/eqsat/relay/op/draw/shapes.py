"""Random calls of operators that move, pick and repeat elements."""

from __future__ import annotations

from math import prod

import numpy as np

from eqsat.relay.expr import Constant
from eqsat.relay.op.draw.choices import FLOATS, Draw, Drawn, Known, fields_of, first_tensor
from eqsat.relay.op.rearrange import einsum_terms
from eqsat.relay.ty import TensorType, TupleType

EQUATIONS = (
    "ij,jk->ik", "bhid,bhjd->bhij", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "ij,kj->ki", "abi,ic->cab",
    "bqd,dhk->bqhk", "bqhk,hkd->bqd", "i,i->", "ij,j->i", "bij,bkij->bk",
)  # fmt: skip
"""Sums of products of two tensors: matrix products of all kinds."""


def transpose(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    rank = len(data.shape)
    axes = list(range(rank))
    if draw.chance(0.8):
        draw.rng.shuffle(axes)
    axes = [axis - rank if draw.chance(0.1) else axis for axis in axes]
    return [data], {"axes": None if draw.chance(0.15) else tuple(axes)}


def reshape(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    size = rest = prod(data.concrete_shape)
    shape: list[int] = []
    for _ in range(draw.rng.randrange(4)):
        factor = draw.rng.choice([d for d in range(1, 7) if rest % d == 0]) if rest else draw.dim()
        shape.append(factor)
        rest = rest // factor if factor else 0
    if draw.chance(0.25):
        shape = [*data.concrete_shape, *[1] * draw.rng.randrange(2)]
    elif size:
        shape.insert(draw.rng.randint(0, len(shape)), -1 if draw.chance(0.3) else rest)
    return [data], {"newshape": tuple(shape), "allowzero": 0 in shape}


def squeeze(draw: Draw, known: Known) -> Drawn:
    data = known[0] or TensorType([1 if draw.chance(0.5) else dim for dim in draw.tensor().shape], draw.dtype)
    axes = [axis for axis, dim in enumerate(data.shape) if dim == 1 and draw.chance(0.7)]
    return [data], {"axis": None if draw.chance(0.3) else tuple(axes)}


def expand_dims(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    rank = len(data.shape)
    return [data], {"axis": draw.rng.randint(-rank - 1, rank), "num_newaxis": draw.rng.choice((1, 1, 2))}


def strided_slice(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    rank = len(data.shape)
    axes = draw.axes(rank) if draw.chance(0.7) else None
    count = rank if axes is None else len(axes)
    begin = [draw.rng.choice((0, 0, 1, 2, -1, -3)) for _ in range(count)]
    end = [draw.rng.choice((1, 2, 3, 5, 2**31 - 1, -1)) for _ in range(count)]
    strides = tuple(draw.rng.choice((1, 1, 1, 2)) for _ in range(count))
    mode = {"slice_mode": "size"} if draw.chance(0.1) else {}
    return [data], {"begin": tuple(begin), "end": tuple(end), "strides": strides, "axes": axes, **mode}


def concatenate(draw: Draw, known: Known) -> Drawn:
    fields = fields_of(known[0], (1, 2, 2, 3), draw)
    base = first_tensor(fields) or draw.tensor(max(draw.rank, 1))
    axis = draw.axis(len(base.shape))
    types = []
    for field in fields:
        shape = list(base.shape)
        if shape:
            shape[axis] = draw.dim()
        types.append(field or TensorType(shape, base.dtype))
    return [TupleType(types)], {"axis": axis}


def stack(draw: Draw, known: Known) -> Drawn:
    fields = fields_of(known[0], (1, 2, 3), draw)
    base = first_tensor(fields) or draw.tensor()
    return [TupleType([ty or base for ty in fields])], {"axis": draw.rng.randint(0, len(base.shape))}


def split(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    axis = draw.axis(len(data.shape))
    length = data.concrete_shape[axis] if data.shape else 0
    cuts = tuple(sorted(draw.rng.randint(0, length) for _ in range(draw.rng.choice((0, 1, 1, 2, 3, 4, 5)))))
    return [data], {"indices_or_sections": 1 if not cuts and draw.chance(0.5) else cuts, "axis": axis}


def broadcast_to(draw: Draw, known: Known) -> Drawn:
    shape = draw.tensor_like(known[0]).concrete_shape
    grown = [draw.dim() if dim == 1 and draw.chance(0.7) else dim for dim in shape]
    data = known[0] or TensorType(draw.against(shape), draw.dtype)
    if draw.chance(0.3):
        grown = [draw.dim(), *grown][-4:]
    return [data], {"shape": tuple(grown)}


def take(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    axis = None if draw.chance(0.1) else draw.axis(len(data.shape))
    length = prod(data.concrete_shape) if axis is None else data.concrete_shape[axis]
    indices = known[1]
    if indices is None and length and draw.chance(0.5):
        places = draw.rng.choice((np.arange(length), np.repeat(np.arange(length), 2), np.arange(length)[::-1][:2]))
        indices = Constant(places.reshape(draw.rng.choice(((-1,), (-1,), (1, -1), (-1, 1)))))
    indices = indices or draw.tensor(draw.rng.choice((0, 1, 1, 2)), draw.rng.choice(("int32", "int64")))
    return [data, indices], {"axis": axis, "mode": draw.rng.choice(("clip", "clip", "wrap"))}


def gather_nd(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0], max(draw.rank, 1))
    rank = len(data.shape)
    depth = draw.rng.randint(1, rank)
    if draw.chance(0.5):
        places = [draw.rng.randint(1, 3) for _ in range(draw.rng.randint(0, 2))]
        return [data, known[1] or TensorType((depth, *places), "int64")], {}
    leading = data.concrete_shape[:depth]
    indices = np.indices(leading if draw.chance(0.8) else leading[::-1]).reshape(depth, -1, *[1] * draw.chance(0.5))
    return [data, known[1] or Constant(indices)], {}


def one_hot(draw: Draw, known: Known) -> Drawn:
    scalar = TensorType((), draw.rng.choice(FLOATS))
    indices = known[0] or draw.tensor(dtype=draw.rng.choice(("int32", "int64", "uint8")))
    depth = draw.rng.choice((1, 2, 4, 256))
    return [indices, *[ty or scalar for ty in known[1:]]], {"depth": depth, "axis": -1, "dtype": scalar.dtype}


def pad(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    rank = len(data.shape)
    spatial = range(2 if rank > 2 and draw.chance(0.8) else 0, rank)
    width = [(draw.rng.randrange(3), draw.rng.randrange(3)) if axis in spatial else (0, 0) for axis in range(rank)]
    mode = draw.rng.choice(("constant", "constant", "constant", "edge"))
    return [data, known[1] or TensorType((), data.dtype)][: len(known)], {"pad_width": tuple(width), "pad_mode": mode}


def mirror_pad(draw: Draw, known: Known) -> Drawn:
    data = known[0] or TensorType([draw.rng.randint(2, 4) for _ in range(draw.rng.randint(1, 4))], draw.dtype)
    width = [(draw.rng.randrange(2), draw.rng.randrange(2)) for _ in data.shape]
    return [data], {"pad_width": tuple(width), "mode": draw.rng.choice(("SYMMETRIC", "REFLECT"))}


def trade(draw: Draw, known: Known) -> Drawn:
    """An image whose channels and whose extents can be cut into blocks."""
    block = draw.rng.choice((1, 2))
    data = known[0] or TensorType([draw.dim(), 4 * draw.dim(), 2 * draw.dim(), 2 * draw.dim()], draw.dtype)
    return [data], {"block_size": block, "stride": block, "mode": draw.rng.choice(("DCR", "CRD"))}


def sliding_window(draw: Draw, known: Known) -> Drawn:
    """Windows over the last axes."""
    data = draw.tensor_like(known[0])
    axis = draw.rng.choice(range(len(data.shape)))
    window = [draw.rng.randint(1, max(dim, 1)) for dim in data.concrete_shape[axis:]]
    return [data], {"axis": axis, "window_shape": window, "strides": [draw.rng.choice((1, 2)) for _ in window]}


def batch_to_space(draw: Draw, known: Known) -> Drawn:
    data = known[0] or TensorType([4, *(draw.rng.randint(1, 3) for _ in range(3))], draw.dtype)
    crops = tuple((draw.rng.randrange(2), 0) for _ in range(2))
    return [data], {"block_shape": (2, draw.rng.choice((1, 2))), "crops": crops}


def repeat(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    rank = len(data.shape)
    reps = tuple(draw.rng.choice((1, 1, 2, 3)) for _ in range(rank))
    return [data], {"repeats": draw.rng.choice((1, 2, 3)), "axis": draw.axis(rank), "reps": reps}


def fill(draw: Draw, known: Known) -> Drawn:
    ty = draw.tensor()
    return [value or TensorType((), ty.dtype) for value in known], {"shape": ty.shape, "dtype": ty.dtype}


def full_like(draw: Draw, known: Known) -> Drawn:
    data = draw.tensor_like(known[0])
    return [data, known[1] or TensorType((), data.dtype)], {}


def layout_transform(draw: Draw, known: Known) -> Drawn:
    layouts = ("NCHW", "NHWC", "NCHW4c", "NCHW2c", "HWCN")
    first, second = draw.rng.choice(layouts), draw.rng.choice(layouts)
    data = known[0]
    if data is None:
        block = int(first[4]) if len(first) > 4 else 0
        sizes = {"N": 2, "C": 4 // block if block else 4, "H": draw.dim(), "W": draw.dim()}
        data = TensorType([sizes[letter] for letter in first[:4]] + [block] * bool(block), draw.dtype)
    return [data], {"src_layout": first, "dst_layout": second}


def einsum(draw: Draw, known: Known) -> Drawn:
    equation, dtype = draw.rng.choice(EQUATIONS), draw.rng.choice(FLOATS)
    terms, _ = einsum_terms(equation, 2)
    sizes = {letter: draw.dim() for letter in "".join(terms)}
    fields = [TensorType([sizes[letter] for letter in term], dtype) for term in terms]
    if isinstance(known[0], list):
        fields = [ty or field for ty, field in zip(known[0], fields, strict=False)]
    return [TupleType(fields)], {"equation": equation}
