"""Random types, attributes and values for instances of rules: how each operator likes its arguments.

An operator's entry completes the types of its arguments, of which some are known, and draws attributes that
fit them. What an entry draws need not type-check: such draws are thrown away.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eqsat.errors import RuleError, TypeCheckError
from eqsat.relay.expr import Op
from eqsat.relay.op.op import OpPattern
from eqsat.relay.ty import TensorType, TupleType

Known: TypeAlias = "TensorType | TupleType | list[Known] | None"
"""What is known of an argument: its type, for a tuple pattern what is known of its fields, or nothing."""
Drawn: TypeAlias = tuple[list[Any], dict[str, Any]]
"""Argument types, and attributes."""

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int32", "int64", "int8", "uint8")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 300.0, -300.0)


class Draw:
    """One instance's random choices: a few sizes, a rank and a dtype that most of its tensors share.

    Args:
        rng: where randomness comes from.
        finite: whether variables hold finite numbers only.
    """

    def __init__(self, rng: random.Random, finite: bool = False):
        self.rng = rng
        self.dims = rng.choices((1, 2, 3, 4, 5), k=3)
        if rng.random() < 0.1:
            self.dims[0] = 0
        self.rank = rng.choices((0, 1, 2, 3, 4), (1, 3, 6, 5, 5))[0]
        self.dtype = rng.choices((*FLOATS, *INTEGERS, "bool"), (10, 4, 2, 3, 2, 2, 1, 1))[0]
        self.special = not finite and rng.random() < 0.3
        self.positive = rng.random() < 0.3
        self.attrs: dict[str, dict[str, Any]] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def dim(self) -> int:
        return self.rng.choice(self.dims)

    def tensor(self, rank: int | None = None, dtype: str | None = None) -> TensorType:
        """A tensor type; mostly of the common rank and dtype."""
        if rank is None:
            rank = self.rank if self.chance(0.85) else self.rng.randrange(5)
        return TensorType([self.dim() for _ in range(rank)], dtype or self.dtype)

    def against(self, shape: Sequence[Any]) -> tuple[int, ...]:
        """A shape that broadcasts with ``shape``: the same, a scalar, one of its axes, or any mixture."""
        way = self.rng.random()
        if way < 0.35 or not shape:
            return tuple(shape) if way < 0.9 or len(shape) > 3 else (self.dim(), *shape)
        if way < 0.5:
            return ()
        kept = self.rng.randrange(len(shape))
        if way < 0.75:
            some = [dim if axis == kept else 1 for axis, dim in enumerate(shape)]
        else:
            some = [dim if self.chance(0.6) else 1 for dim in shape]
            kept = 0
        return tuple(some[self.rng.randint(0, kept) :])

    def array(self, ty: TensorType, special: bool = False) -> NDArray[Any]:
        """Values of a type: small numbers, with ``special`` NaNs, infinities, zeros and extremes, too."""
        shape, dtype = ty.concrete_shape, np.dtype(ty.dtype)
        source = np.random.default_rng(self.rng.getrandbits(63))
        if dtype.kind == "b":
            return source.random(shape) < 0.5
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            low, high = (info.min, info.max) if special else (max(info.min, -4), 5)
            return np.asarray(source.integers(low, high, shape, endpoint=True), dtype)
        values = np.asarray(source.normal(0, 2, shape))
        if self.positive:
            values = np.abs(values)
        if special:
            some = source.random(shape) < 0.2
            values = np.where(some, source.choice(SPECIAL, shape), values)
        return np.asarray(values, dtype)


def complete(draw: Draw, op: Op, known: list[Any], fixed: dict[str, Any]) -> Drawn:
    """Types of all arguments of ``op`` and attributes of a call.

    Args:
        draw: random choices.
        op: the operator.
        known: what is known of each argument.
        fixed: attribute values that the pattern asks for.

    Raises:
        RuleError: it is not known here how to draw arguments of ``op``.
        TypeCheckError: nothing fits what is known.
    """
    entry = _ENTRIES.get(op.name) or _by_kind(op)
    if entry is None:
        raise RuleError(f"no way is known to draw arguments of {op.name}: give the rule examples=")
    try:
        types, attrs = entry(draw, known)
    except (IndexError, ZeroDivisionError) as error:
        raise TypeCheckError(f"{op.name}: what is known of its arguments does not suit it") from error
    again = draw.attrs.get(op.name)
    if again is not None and draw.chance(0.5):
        attrs = again  # rules that join two calls of one operator often want equal attributes
    draw.attrs.setdefault(op.name, attrs)
    names = {field.name for field in op.fields}
    return types, {**{name: value for name, value in attrs.items() if name in names}, **fixed}


def can_complete(op: Op) -> bool:
    """Whether :func:`complete` knows the operator."""
    return op.name in _ENTRIES or _by_kind(op) is not None


def _by_kind(op: Op) -> Callable[[Draw, list[Any]], Drawn] | None:
    if op.arguments == ("data",) and not op.fields:
        return _elementwise
    if op.arguments is not None and len(op.arguments) == 2 and op.attr_map.get("TOpPattern") == OpPattern.BROADCAST:
        return _broadcast
    return _reduction if op.attr_map.get("TOpPattern") == OpPattern.COMM_REDUCE else None


def _first(draw: Draw, known: list[Any], rank: int | None = None) -> TensorType:
    ty = known[0]
    return ty if isinstance(ty, TensorType) else draw.tensor(rank)


def _axis(draw: Draw, rank: int) -> int:
    """An axis, often counted from the back."""
    return draw.rng.randint(-rank, rank - 1) if rank else 0


def _axes(draw: Draw, rank: int) -> tuple[int, ...]:
    """Some distinct axes, in order, perhaps counted from the back."""
    chosen = sorted(draw.rng.sample(range(rank), draw.rng.randint(min(1, rank), min(rank, 2))))
    return tuple(axis - rank if draw.chance(0.3) else axis for axis in chosen)


def _elementwise(draw: Draw, known: list[Any]) -> Drawn:
    return [_first(draw, known)], {}


def _broadcast(draw: Draw, known: list[Any]) -> Drawn:
    base = next((ty for ty in known if isinstance(ty, TensorType)), None) or draw.tensor()
    types: list[Any] = [ty or TensorType(draw.against(base.shape), base.dtype) for ty in known]
    if known == [None, None]:
        types[draw.rng.randrange(2)] = base
    return types, {}


def _where(draw: Draw, known: list[Any]) -> Drawn:
    condition, x, y = known
    types, _ = _broadcast(draw, [x, y])
    shape = max((types[0].shape, types[1].shape), key=len)
    return [condition or TensorType(draw.against(shape), "bool"), *types], {}


def _like(draw: Draw, known: list[Any]) -> Drawn:
    data, like = known
    base = data or like or draw.tensor()
    shape = base.shape if draw.chance(0.8) else draw.tensor().shape
    return [data or TensorType(shape, base.dtype), like or TensorType(shape, draw.tensor().dtype)], {}


def _cast(draw: Draw, known: list[Any]) -> Drawn:
    dtype = draw.rng.choice((*FLOATS, *INTEGERS, "bool", "int16", "uint16"))
    return [known[0] or draw.tensor(dtype=draw.dtype if draw.chance(0.6) else draw.rng.choice((*FLOATS, *INTEGERS)))], {
        "dtype": dtype
    }


def _counted(draw: Draw, known: list[Any]) -> Drawn:
    return [_first(draw, known)], {"dtype": draw.rng.choice(("int32", "int64"))}


def _clip(draw: Draw, known: list[Any]) -> Drawn:
    low, high = sorted(draw.rng.choices((-3.0, -1.0, 0.0, 0.5, 2.0, 6.0, 127.0, 300.0), k=2))
    if draw.chance(0.3):
        low, high = draw.rng.choice(((0.0, 6.0), (0.0, np.inf), (-128.0, 127.0), (0.0, 255.0)))
    return [_first(draw, known)], {"a_min": low, "a_max": high}


def _leaky(draw: Draw, known: list[Any]) -> Drawn:
    return [_first(draw, known)], {"alpha": draw.rng.choice((0.01, 0.25, 0.5)), "rate": 0.5}


# ---- reductions and normalisations


def _reduction(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    axes = None if draw.chance(0.15) else _axes(draw, len(data.shape))
    attrs = {"axis": axes, "keepdims": draw.chance(0.5), "exclude": draw.chance(0.1)}
    return [data, *[TensorType((), data.dtype) for _ in known[1:]]], attrs


def _along_axis(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    return [data], {"axis": _axis(draw, len(data.shape)) if draw.chance(0.5) else -1}


def _per_channel(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    rank = len(data.shape)
    axis = draw.rng.choice((1, -1, _axis(draw, rank)))
    channels = data.shape[axis] if -rank <= axis < rank else 1
    attrs = {"axis": axis, "epsilon": draw.rng.choice((1e-5, 1e-3)), "num_groups": draw.rng.choice((1, 1, 2))}
    attrs |= {"center": draw.chance(0.8), "scale": draw.chance(0.8)}
    return [data, *[ty or TensorType((channels,), data.dtype) for ty in known[1:]]], attrs


def _l2(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    return [data], {"eps": 1e-4, "axis": _axes(draw, len(data.shape))}


# ---- shapes


def _transpose(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    rank = len(data.shape)
    axes: Any = list(range(rank))
    if draw.chance(0.8):
        draw.rng.shuffle(axes)
    axes = [axis - rank if draw.chance(0.1) else axis for axis in axes]
    return [data], {"axes": None if draw.chance(0.15) else tuple(axes)}


def _reshape(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    size = prod(data.shape)  # type: ignore[arg-type]
    shape: list[int] = []
    rest = size
    for _ in range(draw.rng.randrange(4)):
        factor = draw.rng.choice([d for d in range(1, 7) if rest % d == 0]) if rest else draw.dim()
        shape.append(factor)
        rest = rest // factor if factor else 0
    if draw.chance(0.25):
        shape = [*data.concrete_shape, *[1] * draw.rng.randrange(2)]
    elif size:
        shape.insert(draw.rng.randint(0, len(shape)), -1 if draw.chance(0.3) else rest)
    return [data], {"newshape": tuple(shape), "allowzero": 0 in shape}


def _squeeze(draw: Draw, known: list[Any]) -> Drawn:
    data = known[0]
    if data is None:
        data = draw.tensor()
        data = TensorType([1 if draw.chance(0.5) else dim for dim in data.shape], data.dtype)
    ones = [axis for axis, dim in enumerate(data.shape) if dim == 1]
    axes = [axis for axis in ones if draw.chance(0.7)]
    return [data], {"axis": None if draw.chance(0.3) else tuple(axes)}


def _expand_dims(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    rank = len(data.shape)
    return [data], {"axis": draw.rng.randint(-rank - 1, rank), "num_newaxis": draw.rng.choice((1, 1, 2))}


def _slice(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    rank = len(data.shape)
    axes = _axes(draw, rank) if draw.chance(0.7) else None
    count = rank if axes is None else len(axes)
    begin = [draw.rng.choice((0, 0, 1, 2, -1, -3)) for _ in range(count)]
    end = [draw.rng.choice((1, 2, 3, 5, 2**31 - 1, -1)) for _ in range(count)]
    strides = tuple(draw.rng.choice((1, 1, 1, 2)) for _ in range(count))
    mode = {"slice_mode": "size"} if draw.chance(0.1) else {}
    return [data], {"begin": tuple(begin), "end": tuple(end), "strides": strides, "axes": axes, **mode}


def _join(draw: Draw, known: list[Any]) -> Drawn:
    fields = known[0] if isinstance(known[0], list) else [None] * draw.rng.choice((1, 2, 2, 3))
    if isinstance(known[0], TupleType):
        fields = list(known[0].fields)
    base = next((ty for ty in fields if isinstance(ty, TensorType)), None) or draw.tensor(max(draw.rank, 1))
    axis = _axis(draw, len(base.shape))
    types = []
    for field in fields:
        shape = list(base.shape)
        if shape:
            shape[axis] = draw.dim()
        types.append(field or TensorType(shape, base.dtype))
    return [TupleType(types)], {"axis": axis}


def _stack(draw: Draw, known: list[Any]) -> Drawn:
    fields = known[0] if isinstance(known[0], list) else [None] * draw.rng.choice((1, 2, 3))
    base = next((ty for ty in fields if isinstance(ty, TensorType)), None) or draw.tensor()
    return [TupleType([ty or base for ty in fields])], {"axis": draw.rng.randint(0, len(base.shape))}


def _split(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    axis = _axis(draw, len(data.shape))
    dim = data.shape[axis] if data.shape else 0
    cuts = tuple(sorted(draw.rng.randint(0, dim) for _ in range(draw.rng.choice((0, 1, 1, 2, 3, 5)))))  # type: ignore[arg-type]
    return [data], {"indices_or_sections": 1 if not cuts and draw.chance(0.5) else cuts, "axis": axis}


def _broadcast_to(draw: Draw, known: list[Any]) -> Drawn:
    shape = known[0].shape if known[0] is not None else draw.tensor().shape
    grown = [draw.dim() if dim == 1 and draw.chance(0.7) else dim for dim in shape]
    data = known[0] or TensorType(draw.against(shape), draw.dtype)
    if draw.chance(0.3):
        grown = [draw.dim(), *grown][-4:]
    return [data], {"shape": tuple(grown)}


def _take(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    indices = known[1] or draw.tensor(draw.rng.choice((0, 1, 1, 2)), draw.rng.choice(("int32", "int64")))
    axis = None if draw.chance(0.1) else _axis(draw, len(data.shape))
    return [data, indices], {"axis": axis, "mode": draw.rng.choice(("clip", "clip", "wrap"))}


def _pad(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    rank = len(data.shape)
    spatial = range(2 if rank > 2 and draw.chance(0.8) else 0, rank)
    width = [(draw.rng.randrange(3), draw.rng.randrange(3)) if axis in spatial else (0, 0) for axis in range(rank)]
    mode = draw.rng.choice(("constant", "constant", "constant", "edge"))
    return [data, known[1] or TensorType((), data.dtype)][: len(known)], {"pad_width": tuple(width), "pad_mode": mode}


def _repeat(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    rank = len(data.shape)
    reps = tuple(draw.rng.choice((1, 1, 2, 3)) for _ in range(rank))
    return [data], {"repeats": draw.rng.choice((1, 2, 3)), "axis": _axis(draw, rank), "reps": reps}


def _fill(draw: Draw, known: list[Any]) -> Drawn:
    ty = draw.tensor()
    return [known_one or TensorType((), ty.dtype) for known_one in known], {"shape": ty.shape, "dtype": ty.dtype}


def _full_like(draw: Draw, known: list[Any]) -> Drawn:
    data = _first(draw, known)
    return [data, known[1] or TensorType((), data.dtype)], {}


def _layout(draw: Draw, known: list[Any]) -> Drawn:
    layouts = ("NCHW", "NHWC", "NCHW4c", "NCHW2c", "HWCN")
    first, second = draw.rng.choice(layouts), draw.rng.choice(layouts)
    data = known[0]
    if data is None:
        sizes = {"N": 2, "C": 4, "H": draw.dim(), "W": draw.dim()}
        block = int(first[4]) if len(first) > 4 else 0
        if block:
            sizes["C"] = 4 // block
        shape = [sizes[letter] for letter in first[:4]] + ([block] if block else [])
        data = TensorType(shape, draw.dtype)
    return [data], {"src_layout": first, "dst_layout": second}


# ---- products and windows


def _dense(draw: Draw, known: list[Any]) -> Drawn:
    data, weight = known
    inner = data.shape[-1] if data and data.shape else weight.shape[-1] if weight and weight.shape else draw.dim()
    dtype = (data or weight or draw.tensor()).dtype
    lead = [draw.dim() for _ in range(draw.rng.choice((1, 1, 2)))]
    return [data or TensorType((*lead, inner), dtype), weight or TensorType((draw.dim(), inner), dtype)], {}


def _matmul(batched: bool) -> Callable[[Draw, list[Any]], Drawn]:
    def entry(draw: Draw, known: list[Any]) -> Drawn:
        left, right = known
        flags = draw.chance(0.3), draw.chance(0.5 if batched else 0.3)
        inner_at = (-2 if flags[0] else -1, -1 if flags[1] else -2)
        sizes = [ty.shape[at] for ty, at in zip(known, inner_at, strict=True) if ty and len(ty.shape) > 1]
        inner = sizes[0] if sizes else draw.dim()
        dtype = (left or right or draw.tensor()).dtype
        lead = [(left or right).shape[0] if left or right else draw.dim()] if batched else []
        outer = 0 if batched else draw.rng.choice((0, 0, 1))
        types = []
        for side, ty in enumerate(known):
            core = [draw.dim(), inner] if (side == 0) != flags[side] else [inner, draw.dim()]
            more = lead if batched else [draw.dim()] * (outer if side == 0 else 0)
            types.append(ty or TensorType((*more, *core), dtype))
        return types, {"transpose_a": flags[0], "transpose_b": flags[1]}

    return entry


def _conv(rank: int, transposed: bool = False) -> Callable[[Draw, list[Any]], Drawn]:
    def entry(draw: Draw, known: list[Any]) -> Drawn:
        data, weight = known
        dtype = (data or weight or draw.tensor()).dtype
        channels = data.shape[1] if data and len(data.shape) > 1 else draw.rng.choice((1, 2, 4))
        groups = draw.rng.choice((1, 1, channels, 2 if channels % 2 == 0 else 1)) or 1
        kernel = [draw.rng.choice((1, 2, 3)) for _ in range(rank)]
        outer = groups * draw.rng.choice((1, 2))
        core = (channels, outer // groups) if transposed else (outer, channels // groups)
        size = [draw.rng.choice((3, 4, 5)) for _ in range(rank)]
        attrs: dict[str, Any] = {"groups": groups, "strides": [draw.rng.choice((1, 1, 2)) for _ in range(rank)]}
        attrs["padding"] = tuple(draw.rng.choice((0, 1)) for _ in range(2 * rank))
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

    return entry


def _pool(rank: int) -> Callable[[Draw, list[Any]], Drawn]:
    def entry(draw: Draw, known: list[Any]) -> Drawn:
        data = known[0] or TensorType((draw.rng.choice((1, 2)), draw.dim(), *[4] * rank), draw.dtype)
        window = tuple(draw.rng.choice((1, 2, 3)) for _ in range(rank))
        padding = tuple(draw.rng.choice((0, 0, 1)) for _ in range(2 * rank))
        attrs: dict[str, Any] = {"pool_size": window, "padding": padding, "ceil_mode": draw.chance(0.2)}
        attrs |= {"strides": (draw.rng.choice((1, 2)),) * rank, "count_include_pad": draw.chance(0.5)}
        return [data], attrs

    return entry


_ENTRIES: dict[str, Callable[[Draw, list[Any]], Drawn]] = {
    "where": _where,
    "cast": _cast,
    "shape_of": _counted,
    "ndarray_size": _counted,
    "clip": _clip,
    "nn.leaky_relu": _leaky,
    "nn.dropout": _leaky,
    "argmax": _reduction,
    "argmin": _reduction,
    "nn.bias_add": _per_channel,
    "nn.prelu": _per_channel,
    "nn.batch_norm": _per_channel,
    "nn.layer_norm": _per_channel,
    "nn.rms_norm": _per_channel,
    "nn.instance_norm": _per_channel,
    "nn.group_norm": _per_channel,
    "nn.l2_normalize": _l2,
    "transpose": _transpose,
    "reshape": _reshape,
    "contrib_reverse_reshape": _reshape,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "strided_slice": _slice,
    "concatenate": _join,
    "stack": _stack,
    "split": _split,
    "broadcast_to": _broadcast_to,
    "take": _take,
    "nn.pad": _pad,
    "repeat": _repeat,
    "tile": _repeat,
    "reverse": _repeat,
    "full": _fill,
    "zeros": _fill,
    "ones": _fill,
    "full_like": _full_like,
    "layout_transform": _layout,
    "nn.dense": _dense,
    "nn.matmul": _matmul(batched=False),
    "nn.batch_matmul": _matmul(batched=True),
    "hardswish": _elementwise,
    "nn.gelu": _elementwise,
    "nn.hard_sigmoid": _elementwise,
    "nn.swish": _elementwise,
}
for _name in ("nn.softmax", "nn.log_softmax", "nn.fast_softmax"):
    _ENTRIES[_name] = _along_axis
for _name in ("reshape_like", "broadcast_to_like", "cast_like", "collapse_sum_like"):
    _ENTRIES[_name] = _like
for _rank in (1, 2, 3):
    _ENTRIES[f"nn.conv{_rank}d"] = _conv(_rank)
    _ENTRIES[f"nn.conv{_rank}d_transpose"] = _conv(_rank, transposed=True)
    _ENTRIES[f"nn.max_pool{_rank}d"] = _ENTRIES[f"nn.avg_pool{_rank}d"] = _pool(_rank)
    _ENTRIES[f"nn.global_max_pool{_rank}d"] = _ENTRIES[f"nn.global_avg_pool{_rank}d"] = _pool(_rank)
