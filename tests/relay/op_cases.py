"""For every operator a strategy of arguments and attributes: the table ``CASES``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
Case = Callable[[Draw], tuple[list[Any], dict[str, Any]]]

FLOATS, INTS = ("float16", "float32", "float64"), ("int8", "int32", "int64", "uint8")
NUMBERS = FLOATS + INTS


# ---- drawing arrays


def fill(draw: Draw, shape: Any, dtype: str, low: int = -3, high: int = 4) -> np.ndarray:
    """Random values of ``dtype``; integers from [low, high)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        return np.asarray(rng.normal(size=shape)).astype(dtype)
    return rng.integers(max(low, np.iinfo(dtype).min, 0 if dtype[0] == "u" else low), high, shape).astype(dtype)


def shapes(least: int = 0, most: int = 4, low: int = 0, high: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(low, high), min_size=least, max_size=most).map(tuple)


def any_of(draw: Draw, *values: Any) -> Any:
    return draw(st.sampled_from(values))


def axis_of(draw: Draw, rank: int, extra: int = 0) -> int:
    """An axis of ``rank`` dimensions (or a place between them), from either end."""
    return draw(st.integers(-rank - extra, rank - 1 + extra))


def broadcasting(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with ``shape``, of no more dimensions."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(dim if draw(st.booleans()) else 1 for dim in kept)


# ---- strategies for families


def unary(*dtypes: str) -> Case:
    return lambda draw: ([fill(draw, draw(shapes()), any_of(draw, *dtypes))], {})


def binary(*dtypes: str, low: int = -3) -> Case:
    def case(draw: Draw) -> Any:
        shape, dtype = draw(shapes()), any_of(draw, *dtypes)
        sides = [fill(draw, shape, dtype, low), fill(draw, broadcasting(draw, shape), dtype, low)]
        return (sides if draw(st.booleans()) else sides[::-1]), {}

    return case


def with_attrs(attrs: Callable[[Draw], dict[str, Any]], *dtypes: str) -> Case:
    return lambda draw: ([fill(draw, draw(shapes()), any_of(draw, *dtypes))], attrs(draw))


def like(other_dtype: str | None = None) -> Case:
    def case(draw: Draw) -> Any:
        shape, dtype = draw(shapes()), any_of(draw, *NUMBERS)
        return [fill(draw, shape, dtype), fill(draw, shape, other_dtype or dtype)], {}

    return case


def filler(draw: Draw) -> Any:
    return [], {"shape": draw(shapes()), "dtype": any_of(draw, *NUMBERS)}


def reduction(least: int, *dtypes: str, last: bool = False) -> Case:
    def case(draw: Draw) -> Any:
        data = fill(draw, draw(shapes(low=least)), any_of(draw, *dtypes))
        axes = draw(st.lists(st.integers(0, data.ndim - 1), unique=True)) if data.ndim else []
        axis = any_of(draw, None, tuple(a - any_of(draw, 0, data.ndim) for a in axes))
        attrs = {"axis": axis, "keepdims": draw(st.booleans()), "exclude": draw(st.booleans())}
        return [data], {**attrs, **({"select_last_index": draw(st.booleans())} if last else {})}

    return case


def variance(draw: Draw) -> Any:
    (data,), attrs = reduction(1, *FLOATS)(draw)
    mean = fill(draw, (1,) * data.ndim, data.dtype.name)
    return [data, mean], {**attrs, "unbiased": draw(st.booleans())}


def on_axis(*dtypes: str, low: int = 0) -> Case:
    """A tensor of at least one dimension and an axis of it."""

    def case(draw: Draw) -> Any:
        data = fill(draw, draw(shapes(1, low=low)), any_of(draw, *dtypes))
        return [data], {"axis": axis_of(draw, data.ndim)}

    return case


def normalisation(count: int, least: int = 1, **attrs: Any) -> Case:
    """Data and ``count`` vectors along an axis."""

    def case(draw: Draw) -> Any:
        data = fill(draw, draw(shapes(least, low=1)), any_of(draw, *FLOATS))
        axis = axis_of(draw, data.ndim)
        if least > 1:
            axis = draw(st.integers(1, data.ndim - 1))  # the batch is no channel
        vectors = [np.abs(fill(draw, data.shape[axis], data.dtype.name)) for _ in range(count)]
        return [data, *vectors], {**attrs, "axis": axis}

    return case


def group_norm(draw: Draw) -> Any:
    groups = any_of(draw, 1, 2)
    data = fill(draw, (2, 2 * groups, *draw(shapes(1, 2, 1))), any_of(draw, *FLOATS))
    vectors = [fill(draw, data.shape[1], data.dtype.name) for _ in range(2)]
    return [data, *vectors], {"num_groups": groups}


def windows(draw: Draw, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Spatial sizes, kernel sizes, and attributes under which the kernel fits."""
    each = st.tuples(*[st.integers(1, 3)] * rank)
    kernel, dilation = draw(each), draw(st.tuples(*[st.integers(1, 2)] * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    sizes = tuple(r + draw(st.integers(0, 3)) for r in reach)
    return sizes, kernel, {"strides": draw(each), "padding": tuple(padding), "dilation": dilation}


def convolution(rank: int) -> Case:
    def case(draw: Draw) -> Any:
        sizes, kernel, attrs = windows(draw, rank)
        groups, inner, outer = any_of(draw, 1, 2), any_of(draw, 1, 2), any_of(draw, 1, 3)
        dtype = any_of(draw, "float16", "float32", "int8")
        data = fill(draw, (any_of(draw, 0, 1, 2), groups * inner, *sizes), dtype)
        weight = fill(draw, (groups * outer, inner, *kernel), dtype)
        attrs |= {"groups": groups, "out_dtype": any_of(draw, "", "int32" if dtype == "int8" else "float32")}
        if rank == 2 and draw(st.booleans()):
            data, attrs["data_layout"] = data.transpose(0, 2, 3, 1), "NHWC"
            weight, attrs["kernel_layout"] = weight.transpose(2, 3, 1, 0), "HWIO"
        elif rank == 2 and draw(st.booleans()):
            weight, attrs["kernel_layout"] = weight.reshape(groups, outer, inner, *kernel), "GOIHW"
        return [data, weight], attrs

    return case


def blocked_convolution(draw: Draw) -> Any:
    sizes, kernel, attrs = windows(draw, 2)
    data, weight = fill(draw, (1, 2, *sizes, 8), "float32"), fill(draw, (2, 2, *kernel, 8, 4), "float32")
    return [data, weight], {**attrs, "kernel_layout": "OIHW8i4o", "out_layout": any_of(draw, "NCHW4c", "NHWC")}


def transposed(rank: int) -> Case:
    def case(draw: Draw) -> Any:
        sizes, kernel, attrs = windows(draw, rank)
        groups, inner, outer = any_of(draw, 1, 2), any_of(draw, 1, 2), any_of(draw, 1, 3)
        attrs["padding"] = tuple(min(pad, (k - 1) // 2) for pad, k in zip(attrs["padding"], kernel * 2, strict=True))
        attrs["output_padding"] = tuple(draw(st.integers(0, step - 1)) for step in attrs["strides"])
        data = fill(draw, (any_of(draw, 0, 2), groups * inner, *sizes), "float32")
        return [data, fill(draw, (groups * inner, outer, *kernel), "float32")], {**attrs, "groups": groups}

    return case


def pooling(rank: int, average: bool = False) -> Case:
    def case(draw: Draw) -> Any:
        sizes, kernel, attrs = windows(draw, rank)
        data = fill(draw, (any_of(draw, 0, 1, 2), 3, *sizes), any_of(draw, "float16", "float32", "int8"))
        attrs |= {"pool_size": kernel, "ceil_mode": draw(st.booleans())}
        if average:
            attrs["count_include_pad"] = draw(st.booleans())
        if rank == 2 and draw(st.booleans()):
            data, attrs["layout"] = data.transpose(0, 2, 3, 1), "NHWC"
        return [data], attrs

    return case


def adaptive(rank: int) -> Case:
    def case(draw: Draw) -> Any:
        size = st.tuples(*[st.integers(1, 4)] * rank)
        return [fill(draw, (2, 3, *draw(size)), any_of(draw, *FLOATS))], {"output_size": any_of(draw, None, draw(size))}

    return case


def attention(masked: bool) -> Case:
    """Queries, keys and values of a few heads, apart or joined, in groups or not; a mask that broadcasts to scores."""

    def case(draw: Draw) -> Any:
        batch, groups, times, queries, keys, width, out = draw(shapes(7, 7, 1, 3))
        dtype, heads = any_of(draw, *FLOATS), groups * times
        parts = [(batch, heads, queries, width), (batch, groups, keys, width), (batch, groups, keys, out)]
        attrs = {"scale": any_of(draw, 0.5, 1.0), "causal": draw(st.booleans())}
        if draw(st.booleans()):
            parts = [(first, length, count * size) for first, count, length, size in parts]
            attrs |= {"query_heads": heads, "key_heads": groups}
        arrays = [fill(draw, part, dtype) for part in parts]
        if masked:
            shape = (*broadcasting(draw, (batch, heads, queries)), any_of(draw, 1, keys))
            mask = fill(draw, shape, any_of(draw, dtype, "bool"))
            if mask.dtype == "bool":
                mask[..., 0] = True  # each query sees some key
            arrays.append(mask)
        return arrays, attrs

    return case


def recurrent(gates: int, states: int, *more: str) -> Case:
    """A layer of a recurrent network, of every direction, with and without lengths and states."""

    def case(draw: Draw) -> Any:
        dtype, first = any_of(draw, "float32", "float64"), draw(st.booleans())
        length, batch, width = draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        units, direction = draw(st.integers(1, 3)), any_of(draw, "forward", "reverse", "bidirectional")
        both = 2 if direction == "bidirectional" else 1
        attrs = {"hidden_size": units, "direction": direction, "batch_first": first, "clip": any_of(draw, None, 0.5)}
        attrs |= {name: draw(st.booleans()) for name in ("lengths", "states", *more)}
        sizes = [(batch, length, width) if first else (length, batch, width), (both, gates * units, width)]
        sizes += [(both, gates * units, units), (both, 2 * gates * units)]
        arguments = [fill(draw, shape, dtype) for shape in sizes]
        arguments += [fill(draw, (batch,), "int32", 0, length + 1) for _ in range(attrs["lengths"])]
        state = (batch, both, units) if first else (both, batch, units)
        return arguments + [fill(draw, state, dtype) for _ in range(states * attrs["states"])], attrs

    return case


def rotary(draw: Draw) -> Any:
    """Heads, apart or joined, and an angle's cosine and sine for each half."""
    batch, heads, places, half = draw(shapes(4, 4, 1, 3))
    dtype, joined = any_of(draw, "float16", "float32"), draw(st.booleans())
    data = (batch, places, heads * 2 * half) if joined else (batch, heads, places, 2 * half)
    arrays = [fill(draw, shape, dtype) for shape in (data, (batch, places, half), (batch, places, half))]
    return arrays, {"heads": heads if joined else 0}


def image_case(draw: Draw) -> Any:
    return [fill(draw, (any_of(draw, 0, 2), *draw(shapes(3, 3, 1))), any_of(draw, *NUMBERS))], {}


def resizing(rank: int) -> Case:
    def case(draw: Draw) -> Any:
        data = fill(draw, (2, 1, *draw(shapes(rank, rank, 1, 3))), "float32")
        attrs = {
            "size": draw(shapes(rank, rank, 1, 5)),
            "method": any_of(draw, "nearest_neighbor", "linear", "cubic"),
            "coordinate_transformation_mode": any_of(draw, "half_pixel", "align_corners", "asymmetric"),
            "out_dtype": any_of(draw, "", "float16"),
        }
        return [data], attrs

    return case


def product(draw: Draw) -> tuple[Any, Any, dict[str, Any], str]:
    """Matrices (M, K) and (K, N) stored as the transposition attributes say."""
    m, k, n = draw(shapes(3, 3))
    dtype = any_of(draw, "float16", "float32", "int8", "int32")
    attrs = {"transpose_a": draw(st.booleans()), "transpose_b": draw(st.booleans())}
    return ((k, m) if attrs["transpose_a"] else (m, k)), ((n, k) if attrs["transpose_b"] else (k, n)), attrs, dtype


def matmul(draw: Draw) -> Any:
    a, b, attrs, dtype = product(draw)
    batch = draw(shapes(0, 2))
    sides = [(*batch, *a), (*broadcasting(draw, batch), *b)]
    return [fill(draw, side, dtype) for side in sides], attrs


def matmul_batched(draw: Draw) -> Any:
    a, b, attrs, dtype = product(draw)
    batch = draw(st.integers(1, 3))
    return [fill(draw, (batch, *a), dtype), fill(draw, (any_of(draw, 1, batch), *b), dtype)], attrs


def dense(draw: Draw) -> Any:
    batch, (k, n) = draw(shapes(0, 2)), draw(shapes(2, 2))
    return [fill(draw, (*batch, k), "float32"), fill(draw, (n, k), "float32")], {"units": any_of(draw, None, n)}


def dense_packed(draw: Draw) -> Any:
    batch, k, n = draw(shapes(3, 3))
    block = any_of(draw, 1, 2)
    weight = fill(draw, (n, k, block), "float32")
    return [fill(draw, (batch, k), "float32"), weight], {"weight_layout": any_of(draw, "NC", f"NC{block}n")}


def reshape(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(low=1)), "float32")
    new = list(draw(st.permutations(data.shape)))
    if new and draw(st.booleans()):
        new[draw(st.integers(0, len(new) - 1))] = -1
    return [data], {"newshape": tuple(new)}


def reshape_codes(draw: Draw) -> Any:
    data = fill(draw, (2, 3, 4), any_of(draw, *NUMBERS))
    return [data], {
        "newshape": any_of(
            draw, (0, -1), (-2,), (-3, -2), (-3, 4), (-4, 1, -1, -2), (0, -4, 3, 1, 0), (24,), (6, -1, 2)
        )
    }


def reshaped_like(draw: Draw) -> Any:
    shape = draw(shapes(low=1))
    return [fill(draw, shape, "float32"), fill(draw, draw(st.permutations(shape)), "int32")], {}


def squeeze(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(high=2)), "float32")
    ones = [axis for axis, dim in enumerate(data.shape) if dim == 1]
    return [data], {
        "axis": any_of(draw, None, tuple(draw(st.lists(st.sampled_from(ones), unique=True)) if ones else ()))
    }


def expand(draw: Draw) -> Any:
    data = fill(draw, draw(shapes()), "float32")
    return [data], {"axis": draw(st.integers(-data.ndim - 1, data.ndim)), "num_newaxis": draw(st.integers(0, 2))}


def transpose(draw: Draw) -> Any:
    data = fill(draw, draw(shapes()), "int8")
    return [data], {"axes": any_of(draw, None, tuple(draw(st.permutations(range(data.ndim)))))}


def concatenate(draw: Draw) -> Any:
    shape = draw(shapes(1))
    axis = axis_of(draw, len(shape))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        part = list(shape)
        part[axis] = draw(st.integers(0, 3))
        parts.append(fill(draw, part, "float32"))
    return [tuple(parts)], {"axis": axis}


def stack(draw: Draw) -> Any:
    shape = draw(shapes())
    return [tuple(fill(draw, shape, "int32") for _ in range(any_of(draw, 1, 3)))], {
        "axis": axis_of(draw, len(shape) + 1)
    }


def split(draw: Draw) -> Any:
    shape = list(draw(shapes(1)))
    axis, sections = axis_of(draw, len(shape)), draw(st.integers(1, 3))
    shape[axis] *= sections
    where = sections if draw(st.booleans()) else tuple(sorted(draw(st.lists(st.integers(0, shape[axis]), max_size=3))))
    return [fill(draw, shape, "float32")], {"indices_or_sections": where, "axis": axis}


def broadcast_to(draw: Draw) -> Any:
    shape = draw(shapes())
    return [fill(draw, broadcasting(draw, shape), "float32")], {"shape": shape}


def broadcast_like(draw: Draw) -> Any:
    shape = draw(shapes())
    return [fill(draw, broadcasting(draw, shape), "float32"), fill(draw, shape, "int8")], {}


def collapse_like(draw: Draw) -> Any:
    (small, large), _ = broadcast_like(draw)
    return [large.astype("float32"), small], {}


def collapse_to(draw: Draw) -> Any:
    (large, small), _ = collapse_like(draw)
    known = any_of(draw, None, small.shape)
    return [large, np.array(small.shape, "int32")], {"shape": known}


def where(draw: Draw) -> Any:
    shape = draw(shapes())
    condition = fill(draw, broadcasting(draw, shape), "bool")
    return [condition, fill(draw, shape, "float32"), fill(draw, broadcasting(draw, shape), "float32")], {}


def strided_slice(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1)), "float32")
    count = draw(st.integers(1, data.ndim))
    bound = st.lists(st.integers(-6, 6), min_size=count, max_size=count)
    attrs = {"begin": draw(bound), "end": draw(bound), "axes": any_of(draw, None, tuple(range(-1, -count - 1, -1)))}
    steps = st.lists(st.sampled_from([-2, -1, 1, 2, 3]), min_size=count, max_size=count)
    return [data], {**attrs, "strides": draw(steps), "slice_mode": any_of(draw, "end", "size")}


def open_slice(draw: Draw) -> Any:
    """A slice one of whose lists may be shorter."""
    arrays, attrs = strided_slice(draw)
    if attrs["axes"] is None:
        short = any_of(draw, "begin", "end", "strides")
        attrs[short] = attrs[short][: draw(st.integers(0, len(attrs[short])))]
    return arrays, attrs


def take(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1, low=1)), "float32")
    axis = any_of(draw, None, axis_of(draw, data.ndim))
    mode = any_of(draw, "clip", "wrap")
    return [data, fill(draw, draw(shapes(0, 2)), "int32", -9, 9)], {"axis": axis, "mode": mode}


def take_batched(draw: Draw) -> Any:
    data = fill(draw, (2, *draw(shapes(2, 3, 1))), "float32")
    axis = draw(st.integers(1, data.ndim - 1))
    return [data, fill(draw, (2, *draw(shapes(0, 2))), "int64", 0, 9)], {"axis": axis, "batch_dims": 1}


def along(draw: Draw) -> tuple[Any, Any, int]:
    data = fill(draw, draw(shapes(1, low=1)), "float32")
    axis = axis_of(draw, data.ndim)
    counts = [draw(st.integers(0, dim)) for dim in data.shape]
    return data, fill(draw, counts, "int64", -data.shape[axis], data.shape[axis]), axis


def gather(draw: Draw) -> Any:
    data, indices, axis = along(draw)
    return [data, indices], {"axis": axis}


def scatter(draw: Draw) -> Any:
    data, indices, axis = along(draw)
    reduction = any_of(draw, "update", "add", "mul", "min", "max", "mean")
    return [data, indices, fill(draw, indices.shape, "float32")], {"axis": axis, "reduction": reduction}


def gather_nd(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(2, low=1)), "float32")
    batch = any_of(draw, 0, 1)
    depth = draw(st.integers(1, data.ndim - batch))
    rest = (*data.shape[:batch], *draw(shapes(0, 2)))
    rows = [fill(draw, rest, "int32", 0, dim) for dim in data.shape[batch : batch + depth]]
    return [data, np.stack(rows)], {"batch_dims": batch}


def scatter_nd(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1, low=1)), "float32")
    depth, rest = draw(st.integers(1, data.ndim)), draw(shapes(0, 2))
    indices = np.stack([fill(draw, rest, "int64", 0, dim) for dim in data.shape[:depth]])
    updates = fill(draw, (*rest, *data.shape[depth:]), "float32")
    return [data, indices, updates], {"mode": any_of(draw, "update", "add", "mul", "min", "max")}


def adv_index(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1, low=1)), "float32")
    shape = draw(shapes(0, 2))
    rows = [fill(draw, broadcasting(draw, shape), "int64", 0, dim) for dim in data.shape]
    return [(data, *rows[: draw(st.integers(1, data.ndim))])], {}


def scalars(dtype: str, *values: float) -> list[Any]:
    return [np.array(value, dtype) for value in values]


def one_hot(draw: Draw) -> Any:
    indices = fill(draw, draw(shapes(0, 3)), "int32", -1, 5)
    attrs = {"depth": draw(st.integers(0, 4)), "axis": axis_of(draw, indices.ndim + 1), "dtype": "float32"}
    return [indices, *scalars("float32", 1, 0)], attrs


def dyn_one_hot(draw: Draw) -> Any:
    arguments, attrs = one_hot(draw)
    return [*arguments, np.array(attrs.pop("depth"), "int32")], attrs


def topk(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1, low=1)), "float32")
    axis = axis_of(draw, data.ndim)
    attrs = {"k": draw(st.integers(0, data.shape[axis])), "axis": axis, "is_ascend": draw(st.booleans())}
    return [data], {**attrs, "ret_type": any_of(draw, "both", "values", "indices"), "dtype": any_of(draw, *INTS[1:3])}


def dyn_topk(draw: Draw) -> Any:
    arguments, attrs = topk(draw)
    return [*arguments, np.array(attrs.pop("k"), "int32")], attrs


def sorting(draw: Draw) -> Any:
    arguments, attrs = on_axis(*NUMBERS)(draw)
    return arguments, {**attrs, "is_ascend": draw(st.booleans())}


def scan(draw: Draw) -> Any:
    arguments, attrs = on_axis(*NUMBERS)(draw)
    flat = {"axis": None} if draw(st.booleans()) else attrs
    return arguments, {**flat, "dtype": any_of(draw, "", "float32"), "exclusive": draw(st.booleans())}


def padding(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(low=2)), any_of(draw, *NUMBERS))
    mode = any_of(draw, "constant", "edge", "reflect")
    width = st.tuples(*[st.integers(-1 if mode == "constant" else 0, 1)] * 2)
    attrs = {"pad_width": tuple(draw(width) for _ in range(data.ndim)), "pad_mode": mode}
    return [data, *scalars("float32", 1)], attrs


def dyn_padding(draw: Draw) -> Any:
    (data, value), attrs = padding(draw)
    width = np.array(attrs.pop("pad_width"), "int64").reshape(-1, 2)
    return [data, width, value], attrs


def mirror(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(low=2)), "float32")
    width = st.tuples(st.integers(0, 1), st.integers(0, 1))
    attrs = {"pad_width": tuple(draw(width) for _ in range(data.ndim)), "mode": any_of(draw, "SYMMETRIC", "REFLECT")}
    return [data], attrs


def layout(draw: Draw) -> Any:
    source, target, shape = any_of(
        draw,
        ("NCHW", "NHWC", (2, 3, 4, 5)),
        ("NCHW", "NCHW4c", (1, 8, 2, 3)),
        ("NCHW4c", "NHWC", (1, 2, 3, 3, 4)),
        ("NCHW4c", "NCHW2c", (1, 2, 3, 3, 4)),
        ("OIHW", "OIHW4i8o", (16, 8, 1, 1)),
        ("OIHW4i8o", "HWIO", (2, 2, 1, 1, 4, 8)),
    )
    return [fill(draw, shape, "float32")], {"src_layout": source, "dst_layout": target}


def depth_to_space(draw: Draw) -> Any:
    block = any_of(draw, 1, 2)
    return [fill(draw, (2, 3 * block**2, 2, 3), "float32")], {"block_size": block, "mode": any_of(draw, "DCR", "CRD")}


def space_to_depth(draw: Draw) -> Any:
    block = any_of(draw, 1, 2)
    data = fill(draw, (2, 2 * block, 3 * block, 5), "float32")
    return [data], {"block_size": block, "layout": "NHWC"}


def space_to_batch(draw: Draw) -> Any:
    data = fill(draw, (2, 4, 6, *draw(shapes(0, 1))), "float32")
    return [data], {"block_shape": (2, 3), "paddings": any_of(draw, ((0, 0), (0, 0)), ((1, 1), (1, 2)))}


def batch_to_space(draw: Draw) -> Any:
    data = fill(draw, (6, 2, 3, *draw(shapes(0, 1))), "float32")
    return [data], {"block_shape": (2, 3), "crops": any_of(draw, ((0, 0), (0, 0)), ((1, 1), (1, 2)))}


def dilate(draw: Draw) -> Any:
    data = fill(draw, draw(shapes()), "float32")
    return [data], {"strides": tuple(draw(st.integers(1, 3)) for _ in data.shape)}


def upsampling(rank: int) -> Case:
    def case(draw: Draw) -> Any:
        data = fill(draw, (1, 2, *draw(shapes(rank, rank, 1, 3))), "float32")
        scales = {f"scale_{axis}": any_of(draw, 1, 2, 1.5) for axis in "dhw"[3 - rank :]}
        return [data], {**scales, "method": any_of(draw, "nearest_neighbor", "bilinear")}

    return case


def meshgrid(draw: Draw) -> Any:
    fields = tuple(fill(draw, draw(shapes(0, 1)), "float32") for _ in range(any_of(draw, 1, 2, 3)))
    return [fields], {"indexing": any_of(draw, "ij", "xy")}


def einsum(draw: Draw) -> Any:
    i, j, k = draw(shapes(3, 3))
    equation, *operands = any_of(
        draw,
        ("ij,jk->ik", (i, j), (j, k)),
        ("ij,kj", (i, j), (k, j)),
        ("...ij,...jk->...ik", (2, i, j), (1, j, k)),
        ("ii->i", (i, i)),
        ("ij->", (i, j)),
    )
    return [tuple(fill(draw, shape, "float32") for shape in operands)], {"equation": equation}


def strided_set(draw: Draw) -> Any:
    data = fill(draw, (4, 5), "float32")
    bounds = [np.array(bound, "int32") for bound in ((1, 0), (3, 5), (1, 2))]
    return [data, fill(draw, (2, 3), "float32"), *bounds], {}


def sequence_mask(draw: Draw) -> Any:
    axis = any_of(draw, 0, 1)
    data = fill(draw, (2, 3, *draw(shapes(0, 1))), "float32")
    return [data, fill(draw, data.shape[1 - axis], "int32", 0, 4)], {"axis": axis}


def reverse_sequence(draw: Draw) -> Any:
    data = fill(draw, (2, 4, *draw(shapes(0, 1))), "float32")
    batch = any_of(draw, 0, 1)
    lengths = fill(draw, data.shape[batch], "int32", 0, data.shape[1 - batch] + 1)
    return [data, lengths], {"seq_axis": 1 - batch, "batch_axis": batch}


def slice_like(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1)), "float32")
    return [data, fill(draw, tuple(draw(st.integers(0, dim)) for dim in data.shape), "int8")], {}


def grid_sample(draw: Draw) -> Any:
    rank = any_of(draw, 2, 3)
    data = fill(draw, (2, 3, *(4, 5, 1)[:rank]), "float32")
    grid = fill(draw, (2, rank, *draw(shapes(rank, rank))), "float32")
    attrs = {"method": any_of(draw, "bilinear", "nearest", "bicubic"), "layout": "NCHW" if rank == 2 else "NCDHW"}
    attrs["padding_mode"] = any_of(draw, "zeros", "border", "reflection")
    return [data, grid], {**attrs, "align_corners": draw(st.booleans())}


def affine_grid(draw: Draw) -> Any:
    data = fill(draw, (any_of(draw, 0, 2), 2, 3), any_of(draw, *FLOATS))
    return [data], {"target_shape": draw(shapes(2, 2, 1))}


def crop_and_resize(draw: Draw) -> Any:
    data, count = fill(draw, (2, 3, 4, 5), any_of(draw, *NUMBERS)), any_of(draw, 0, 1, 3)
    attrs = {"crop_size": draw(shapes(2, 2, 1)), "method": any_of(draw, "bilinear", "nearest_neighbor")}
    attrs |= {"layout": any_of(draw, "NCHW", "NHWC"), "out_dtype": any_of(draw, "", "float64")}
    boxes = fill(draw, (count, 4), "float32")
    data = data if attrs["layout"] == "NCHW" else data.transpose(0, 2, 3, 1)
    return [data, boxes, fill(draw, (count,), "int32", 0, 2)], attrs


def dilation2d(draw: Draw) -> Any:
    sizes, kernel, attrs = windows(draw, 2)
    dtype = any_of(draw, "float16", "float32", "int8")
    data, weight = fill(draw, (any_of(draw, 0, 2), 3, *sizes), dtype), fill(draw, (3, *kernel), dtype)
    attrs["dilations"] = attrs.pop("dilation")
    if draw(st.booleans()):
        data, weight = data.transpose(0, 2, 3, 1), weight.transpose(1, 2, 0)
        attrs |= {"data_layout": "NHWC", "kernel_layout": "HWI"}
    return [data, weight], attrs


# ---- fixed point, searching


def fixed_point(draw: Draw) -> Any:
    data = fill(draw, draw(shapes()), "int32", -(2**20), 2**20)
    return [data], {"multiplier": draw(st.integers(-(2**31), 2**31 - 1)), "shift": draw(st.integers(-9, 9))}


def fixed_point_per_axis(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1)), "int32", -(2**20), 2**20)
    axes = draw(st.lists(st.integers(0, data.ndim - 1), unique=True))
    shape = tuple(data.shape[axis] for axis in axes)
    shifts = [fill(draw, shape, "int32", 0, 5) for _ in range(2)]
    attrs = {"is_lshift_required": draw(st.booleans()), "is_rshift_required": draw(st.booleans()), "axes": axes}
    return [data, fill(draw, shape, "int32", -(2**31), 2**31 - 1), *shifts], attrs


def searchsorted(draw: Draw) -> Any:
    shape, dtype = draw(shapes(1)), any_of(draw, "float32", "int32")
    data = np.sort(fill(draw, shape, dtype))
    values = draw(shapes(1)) if len(shape) == 1 else (*shape[:-1], draw(st.integers(0, 3)))
    return [data, fill(draw, values, dtype)], {"right": draw(st.booleans()), "dtype": any_of(draw, "int32", "int64")}


# ---- detection


def scored_boxes(draw: Draw) -> Any:
    return fill(draw, (*draw(shapes(2, 2)), any_of(draw, 6, 7)), any_of(draw, "float32", "float64"))


def valid_counts(draw: Draw) -> Any:
    return [scored_boxes(draw), np.float32(0.5)], {"id_index": any_of(draw, -1, 0), "score_index": any_of(draw, 0, 1)}


def suppression(draw: Draw) -> Any:
    data = scored_boxes(draw)
    batch, count = data.shape[:2]
    indices = fill(draw, (batch, count), "int32", -1, 5)
    bounds = [np.int32(any_of(draw, -1, 0, 2)), np.float32(any_of(draw, -1, 0.2))]
    attrs = {"top_k": any_of(draw, -1, 2), "id_index": any_of(draw, -1, 0)}
    switches = ("force_suppress", "return_indices", "invalid_to_bottom")
    attrs |= {name: draw(st.booleans()) for name in switches}
    return [data, fill(draw, (batch,), "int32", 0, count + 1), indices, *bounds], attrs


def class_suppression(draw: Draw) -> Any:
    batch, classes, count = draw(shapes(3, 3))
    boxes, scores = fill(draw, (batch, count, 4), "float32"), fill(draw, (batch, classes, count), "float32")
    bounds = [np.int32(any_of(draw, -1, 2)), np.float32(any_of(draw, 0, 0.3)), np.float32(any_of(draw, -1, 0))]
    return [boxes, scores, *bounds], {"output_format": any_of(draw, "onnx", "tensorflow")}


def regular_suppression(draw: Draw) -> Any:
    batch, classes, count = draw(shapes(3, 3))
    boxes, scores = fill(draw, (batch, count, 4), "float32"), fill(draw, (batch, count, classes), "float32")
    limits = {"max_detections_per_class": any_of(draw, 0, 1, 3), "max_detections": any_of(draw, 0, 1, 5)}
    bounds = {"iou_threshold": any_of(draw, 0.0, 0.3), "score_threshold": any_of(draw, -1.0, 0.2)}
    return [boxes, scores], {**limits, "num_classes": draw(st.integers(0, classes)), **bounds}


def regions(**choices: tuple[Any, ...]) -> Case:
    def case(draw: Draw) -> Any:
        data, rois = fill(draw, (2, 3, 5, 6), "float32"), np.abs(fill(draw, (any_of(draw, 0, 1, 3), 5), "float32")) * 3
        rois[:, 0] = np.minimum(rois[:, 0], 1)
        attrs = {name: any_of(draw, *values) for name, values in choices.items()}
        attrs |= {"pooled_size": draw(shapes(2, 2, 1)), "layout": any_of(draw, "NCHW", "NHWC")}
        data = data if attrs["layout"] == "NCHW" else data.transpose(0, 2, 3, 1)
        return [data, rois], {**attrs, "spatial_scale": any_of(draw, 0.5, 1.0)}

    return case


def priors(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(4, 4, 1)), "float32")
    attrs = {"sizes": any_of(draw, (1.0,), (0.3, 1.5)), "ratios": any_of(draw, (1.0,), (1.0, 2.0, 0.5))}
    return [data], {**attrs, "clip": draw(st.booleans()), "steps": any_of(draw, (-1.0, -1.0), (2.0, 1.5))}


def proposal(draw: Draw) -> Any:
    batch, (height, width) = any_of(draw, 0, 1, 2), draw(shapes(2, 2, 1))
    scales, ratios = any_of(draw, (0.5,), (4.0, 8.0)), any_of(draw, (0.5,), (0.5, 1.0, 2.0))
    anchors = len(scales) * len(ratios)
    arrays = [fill(draw, (batch, count * anchors, height, width), "float32") for count in (2, 4)]
    attrs = {"rpn_pre_nms_top_n": any_of(draw, -1, 3), "rpn_post_nms_top_n": draw(st.integers(1, 4))}
    attrs |= {"scales": scales, "ratios": ratios, "iou_loss": draw(st.booleans()), "threshold": 0.7}
    image = np.tile(np.array([48, 40, 1], "float32"), (batch, 1))
    return [*arrays, image], {**attrs, "feature_stride": 16, "rpn_min_size": 16}


def transformed_anchors(draw: Draw) -> Any:
    batch, classes, count = draw(shapes(3, 3))
    parts = [(batch, classes, count), (batch, 4 * count), (1, count, 4)]
    return [fill(draw, part, "float32") for part in parts], {"keep_background": draw(st.booleans())}


# ---- random numbers, sparse tensors, signals


def random_key(draw: Draw) -> np.ndarray:
    words = fill(draw, (10,), "int64", 0, 2**62).astype("uint64")
    words[8:] = any_of(draw, (0, 0), (1, 0), (0, 1), (2**63, 0))
    return words


def drawn_numbers(draw: Draw) -> Any:
    dtype = any_of(draw, "float32", "float64")
    return [random_key(draw), *scalars(dtype, -1, 2)], {"out_shape": draw(shapes()), "out_dtype": dtype}


def choices(draw: Draw) -> Any:
    weights = np.abs(fill(draw, draw(shapes(1, 3, 1)), any_of(draw, "float32", "float64"))) + 1
    return [random_key(draw), weights], {"num_samples": draw(st.integers(0, 3))}


def compressed(draw: Draw, rows: int, columns: int, dtype: str, block: tuple[int, ...] = ()) -> list[Any]:
    """Data, indices and indptr of a sparse matrix."""
    mask = fill(draw, (rows, columns), "bool")
    places = np.nonzero(mask)[1].astype("int32")
    begins = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype("int32")
    return [fill(draw, (len(places), *block), dtype), places, begins]


def sparse_dense(draw: Draw) -> Any:
    dtype, (batch, rows, columns), block = any_of(draw, "float32", "int8"), draw(shapes(3, 3)), any_of(draw, (), (2, 3))
    dense = fill(draw, (batch, columns * (block[1] if block else 1)), dtype)
    return [dense, *compressed(draw, rows, columns, dtype, block)], {"sparse_lhs": draw(st.booleans())}


def sparse_conv2d(draw: Draw) -> Any:
    layout, (batch, rows, channels) = any_of(draw, "NHWC", "NCHW"), draw(shapes(3, 3))
    sizes, kernel, height = draw(shapes(2, 2, 1)), any_of(draw, (1, 1), (3, 3), (1, 3)), any_of(draw, 1, 2)
    data = fill(draw, (batch, *sizes, channels) if layout == "NHWC" else (batch, channels, *sizes), "float32")
    weight, *rest = compressed(draw, rows, channels * kernel[0] * kernel[1], "float32", (height, 1))
    weight = weight[:, :, 0] if draw(st.booleans()) else weight
    return [data, weight, *rest], {"layout": layout, "kernel_size": kernel}


def sparse_square(draw: Draw) -> Any:
    size = draw(st.integers(0, 4))
    return compressed(draw, size, size, "float32"), {}


def sparse_add(draw: Draw) -> Any:
    rows, columns = draw(shapes(2, 2))
    return [fill(draw, (rows, columns), "float32"), *compressed(draw, rows, columns, "float32")], {}


def sparse_to_dense(draw: Draw) -> Any:
    shape, dtype = draw(shapes(1, 3, 1)), any_of(draw, *NUMBERS)
    count = draw(st.integers(0, 3))
    indices = np.stack([fill(draw, (count,), "int32", 0, dim) for dim in shape], axis=1)
    values = any_of(draw, fill(draw, (count,), dtype), fill(draw, (), dtype))
    if len(shape) == 1 and draw(st.booleans()):
        indices = indices[:, 0]
    return [indices, values, *scalars(dtype, 1)], {"output_shape": shape}


def dyn_sparse_to_dense(draw: Draw) -> Any:
    arrays, attrs = sparse_to_dense(draw)
    return [*arrays, ints(*attrs["output_shape"])], {}


def sparse_reshape(draw: Draw) -> Any:
    indices = np.stack([fill(draw, (5,), "int64", 0, dim) for dim in (2, 3, 4)], axis=1)
    return [indices, ints(2, 3, 4), ints(*any_of(draw, (24,), (-1, 6), (4, 3, 2), (2, 2, 3, 2)))], {}


def sparse_rows(draw: Draw) -> Any:
    rows = np.sort(fill(draw, (draw(st.integers(0, 4)),), "int64", 0, 5))
    indices = np.stack([rows, fill(draw, rows.shape, "int64", 0, 3)], axis=1)
    return [indices, fill(draw, rows.shape, "float32"), ints(5, 3), np.ones(1, "float32")], {}


def sliding_window(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1, 3, 1)), "float32")
    axis = draw(st.integers(0, data.ndim - 1))
    window = tuple(draw(st.integers(1, dim)) for dim in data.shape[axis:])
    return [data], {"axis": axis, "window_shape": window, "strides": tuple(draw(st.integers(1, 2)) for _ in window)}


def stft(draw: Draw) -> Any:
    data, length = fill(draw, (*draw(shapes(0, 1)), draw(st.integers(6, 9))), any_of(draw, "float32", "float64")), 4
    attrs = {name: draw(st.booleans()) for name in ("normalized", "onesided")}
    attrs |= {"n_fft": length, "hop_length": draw(st.integers(1, 3)), "win_length": any_of(draw, 3, length)}
    return [data, any_of(draw, np.ones(length, "int32"), fill(draw, (length,), "float32"))], attrs


def dft(draw: Draw) -> Any:
    shape, dtype = draw(shapes(1)), any_of(draw, "float32", "float64")
    return [fill(draw, shape, dtype), fill(draw, shape, dtype)], {"inverse": draw(st.booleans())}


def set_diagonals(draw: Draw) -> Any:
    batch, (rows, columns) = draw(shapes(0, 1)), draw(shapes(2, 2, 1))
    low = draw(st.integers(1 - rows, columns - 1))
    high = draw(st.integers(low, columns - 1))
    lengths = [min(rows + min(k, 0), columns - max(k, 0)) for k in range(low, high + 1)]
    band = () if low == high else (high - low + 1,)
    attrs = {name: draw(st.booleans()) for name in ("super_diag_right_align", "sub_diag_right_align")}
    arrays = [fill(draw, (*batch, *end), "float32") for end in ((rows, columns), (*band, max(lengths)))]
    return arrays, {"k1": low, "k2": high, **attrs}


# ---- gradients, losses, other convolutions


def weight_gradient(draw: Draw) -> Any:
    sizes, kernel, attrs = windows(draw, 2)
    groups, inner, outer, batch = any_of(draw, 1, 2), any_of(draw, 1, 2), any_of(draw, 1, 3), any_of(draw, 0, 1, 2)
    data = fill(draw, (batch, groups * inner, *sizes), "float32")
    grad = fill(draw, (batch, groups * outer, *window_counts(sizes, kernel, attrs)), "float32")
    attrs |= {"groups": groups, "kernel_size": kernel, "out_dtype": any_of(draw, "", "float64")}
    if draw(st.booleans()):
        data, grad = data.transpose(0, 2, 3, 1), grad.transpose(0, 2, 3, 1)
        attrs |= {"data_layout": "NHWC", "kernel_layout": "NHWC", "out_layout": "HWIO"}
    return [grad, data], attrs


def window_counts(sizes: Any, kernel: Any, attrs: dict[str, Any]) -> tuple[int, ...]:
    """How many windows there are along each of two axes."""
    pads = [attrs["padding"][axis] + attrs["padding"][2 + axis] for axis in range(2)]
    axes = zip(sizes, kernel, attrs["strides"], attrs.get("dilation", (1, 1)), pads, strict=True)
    return tuple((dim + pad - (tap - 1) * dilation - 1) // stride + 1 for dim, tap, stride, dilation, pad in axes)


def pool_gradient(average: bool) -> Case:
    def case(draw: Draw) -> Any:
        sizes, kernel, attrs = windows(draw, 2)
        del attrs["dilation"]
        batch, dtype = any_of(draw, 0, 2), any_of(draw, "float16", "float32")
        data = fill(draw, (batch, 3, *sizes), dtype)
        grad = fill(draw, (batch, 3, *window_counts(sizes, kernel, attrs)), dtype)
        attrs["pool_size"] = kernel
        if average:
            attrs["count_include_pad"] = draw(st.booleans())
        if draw(st.booleans()):
            data, grad, attrs["layout"] = data.transpose(0, 2, 3, 1), grad.transpose(0, 2, 3, 1), "NHWC"
        return [grad, data], attrs

    return case


def entropy(draw: Draw) -> Any:
    shape, dtype = draw(shapes(2, 2, 1)), any_of(draw, *FLOATS)
    return [fill(draw, shape, dtype), fill(draw, shape, dtype)], {}


def likelihood(draw: Draw) -> Any:
    classes, dtype, rest = draw(st.integers(1, 4)), any_of(draw, *FLOATS), draw(shapes(0, 3))
    shape = (*rest[:1], classes, *rest[1:])
    arrays = [fill(draw, shape, dtype), fill(draw, rest, "int32", 0, classes), fill(draw, (classes,), dtype)]
    return arrays, {"reduction": any_of(draw, "mean", "sum", "none"), "ignore_index": any_of(draw, -100, 1)}


def deformable(draw: Draw) -> Any:
    sizes, kernel, attrs = windows(draw, 2)
    groups, inner, outer, batch = any_of(draw, 1, 2), any_of(draw, 1, 2), any_of(draw, 1, 3), any_of(draw, 0, 1, 2)
    data, weight = (batch, groups * inner, *sizes), (groups * outer, inner, *kernel)
    offset = (batch, 2 * groups * kernel[0] * kernel[1], *window_counts(sizes, kernel, attrs))
    arrays = [fill(draw, shape, "float32") for shape in (data, offset, weight)]
    attrs |= {"groups": groups, "deformable_groups": groups}
    if draw(st.booleans()):
        places = [(0, 2, 3, 1), (0, 2, 3, 1), (2, 3, 1, 0)]
        arrays = [array.transpose(order) for array, order in zip(arrays, places, strict=True)]
        attrs |= {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return arrays, attrs


def correlation(draw: Draw) -> Any:
    shape = (any_of(draw, 0, 2), any_of(draw, 1, 2), 7, 8)
    attrs = {name: draw(st.integers(1, 2)) for name in ("max_displacement", "stride1", "stride2")}
    attrs |= {"kernel_size": any_of(draw, 1, 3), "padding": (1, 0, 0, 1), "is_multiply": draw(st.booleans())}
    return [fill(draw, shape, "float32"), fill(draw, shape, "float32")], attrs


def fifo(draw: Draw) -> Any:
    buffer = fill(draw, draw(shapes(1)), "float32")
    axis, shape = axis_of(draw, buffer.ndim), list(buffer.shape)
    shape[axis] = draw(st.integers(0, shape[axis]))
    return [fill(draw, shape, "float32"), buffer], {"axis": axis}


def bitpack(draw: Draw) -> Any:
    data = fill(draw, any_of(draw, (2, 16, 3), (16, 2), (8,)), "int32", 0, 8)
    place = next(axis for axis, dim in enumerate(data.shape) if dim % 8 == 0)
    attrs = {"bits": draw(st.integers(1, 3)), "pack_axis": place, "bit_axis": draw(st.integers(0, data.ndim))}
    return [data], {**attrs, "pack_type": "uint8"}


# ---- quantized


def simulated(draw: Draw) -> Any:
    data = fill(draw, draw(shapes(1, low=1)), any_of(draw, *FLOATS))
    axis = axis_of(draw, data.ndim)
    vector = any_of(draw, (), (1,), (data.shape[axis],))
    scale = np.abs(fill(draw, vector, "float32")) + np.float32(0.1)
    return [data, np.int32(any_of(draw, 0, 1, 2, 3)), scale, fill(draw, vector, "int32")], {"axis": axis}


def quantized(draw: Draw, shape: Any, axis: int | None = None, dtype: str = "int8") -> tuple[Any, list[Any]]:
    """Integers, and their scale and zero point, per index of ``axis`` when one is given."""
    data = fill(draw, shape, dtype, -100, 100)
    vector = () if axis is None else (shape[axis],)
    scale = np.abs(fill(draw, vector, "float32")) + np.float32(0.01)
    return data, [scale, fill(draw, vector, "int32")]


def quantize(draw: Draw) -> Any:
    shape = draw(shapes(1, low=1))
    axis = axis_of(draw, len(shape))
    _, parameters = quantized(draw, shape, any_of(draw, None, axis))
    dtype = any_of(draw, "int8", "uint8", "int32")
    return [fill(draw, shape, "float32"), *parameters], {"axis": axis, "out_dtype": dtype}


def dequantize(draw: Draw) -> Any:
    shape = draw(shapes(1, low=1))
    axis = axis_of(draw, len(shape))
    data, parameters = quantized(draw, shape, any_of(draw, None, axis), any_of(draw, "int8", "uint8", "int32"))
    return [data, *parameters], {"axis": axis}


def requantize(draw: Draw) -> Any:
    (data, *parameters), attrs = dequantize(draw)
    rounding = any_of(draw, "None", "UPWARD", "TONEAREST")
    return [data, *parameters, *quantized(draw, ())[1]], {**attrs, "rounding": rounding}


def quantized_unary(draw: Draw) -> Any:
    data, parameters = quantized(draw, draw(shapes(1)))
    return [data, *parameters, *quantized(draw, ())[1]], {}


def quantized_binary(draw: Draw) -> Any:
    shape = draw(shapes())
    (lhs, left), (rhs, right) = quantized(draw, shape), quantized(draw, broadcasting(draw, shape))
    return [lhs, rhs, *left, *right, *quantized(draw, ())[1]], {}


def quantized_product(case: Case, per_channel: bool = True) -> Case:
    def quantize_case(draw: Draw) -> Any:
        (data, weight), attrs = case(draw)
        attrs.pop("out_dtype", None)
        place = attrs.get("kernel_layout", "OIHW").index("O")
        channel = place if per_channel and weight.ndim != 3 and draw(st.booleans()) else None
        lhs, (scale, zero) = quantized(draw, data.shape)
        rhs, (weight_scale, weight_zero) = quantized(draw, weight.shape, channel)
        return [lhs, rhs, zero, weight_zero, scale, weight_scale], attrs

    return quantize_case


def quantized_concatenate(draw: Draw) -> Any:
    (parts,), attrs = concatenate(draw)
    triples = [quantized(draw, part.shape) for part in parts]
    data, scales, zeros = (tuple(t[0] for t in triples), *(tuple(t[1][i] for t in triples) for i in (0, 1)))
    return [data, scales, zeros, *quantized(draw, ())[1]], attrs


def quantized_pool(draw: Draw) -> Any:
    (data,), attrs = pooling(2, average=True)(draw)
    values, parameters = quantized(draw, data.shape)
    return [values, *parameters, *quantized(draw, ())[1]], {"layout": "NCHW", **attrs}


def ints(*values: int) -> Any:
    return np.array(values, "int64").reshape(len(values))


def dyn_shape(draw: Draw) -> Any:
    return [ints(*draw(shapes()))], {"dtype": "float32"}


def dyn_reshape(draw: Draw) -> Any:
    (data,), attrs = reshape(draw)
    return [data, ints(*attrs["newshape"])], {}


def dyn_slice(draw: Draw) -> Any:
    (data,), attrs = strided_slice(draw)
    bounds = [ints(*attrs[name]) for name in ("begin", "end", "strides")]
    return [data, *bounds], {"slice_mode": attrs["slice_mode"]}


def dyn_upsampling(rank: int) -> Case:
    def case(draw: Draw) -> Any:
        (data,), attrs = upsampling(rank)(draw)
        scales = [attrs.pop(f"scale_{axis}") for axis in "dhw"[3 - rank :]]
        return [data, *scalars("float32", *scales)], attrs

    return case


def dyn_resize(draw: Draw) -> Any:
    (data,), attrs = resizing(2)(draw)
    return [data, ints(*attrs.pop("size")), np.zeros(8, "float32")], attrs


CASES: dict[str, Case] = {
    **dict.fromkeys(
        [
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "cos",
            "cosh",
            "erf",
            "exp",
            "fast_erf",
            "fast_exp",
            "fast_tanh",
            "log",
            "log10",
            "log2",
            "rsqrt",
            "sigmoid",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
            "hardswish",
            *(f"nn.{name}" for name in ("celu", "elu", "hard_sigmoid", "mish", "selu", "shrink", "softplus")),
            *(f"nn.{name}" for name in ("softsign", "swish", "thresholded_relu")),
        ],
        unary(*FLOATS),
    ),
    **dict.fromkeys(
        ["abs", "ceil", "copy", "floor", "negative", "nn.relu", "ones_like", "round", "sign", "trunc", "zeros_like"],
        unary(*NUMBERS),
    ),
    **dict.fromkeys(["isfinite", "isinf", "isnan"], unary(*FLOATS)),
    "bitwise_not": unary("bool", *INTS),
    "logical_not": unary("bool"),
    **dict.fromkeys(
        [
            "add",
            "divide",
            "equal",
            "floor_divide",
            "floor_mod",
            "greater",
            "greater_equal",
            "less",
            "less_equal",
            "maximum",
            "minimum",
            "mod",
            "multiply",
            "not_equal",
            "power",
            "subtract",
            "trunc_divide",
            "trunc_mod",
        ],
        binary(*NUMBERS),
    ),
    **dict.fromkeys(
        ["bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"], binary("bool")
    ),
    **dict.fromkeys(["left_shift", "right_shift"], binary(*INTS, low=0)),
    "clip": with_attrs(lambda draw: {"a_min": any_of(draw, -1.0, -1e9), "a_max": any_of(draw, 1.0, 1e9)}, *NUMBERS),
    "cast": with_attrs(lambda draw: {"dtype": any_of(draw, "bool", *NUMBERS)}, "bool", *NUMBERS),
    "cast_like": like("float16"),
    "reinterpret": with_attrs(lambda draw: {"dtype": "int32"}, "float32"),
    "zeros": filler,
    "ones": filler,
    "full": lambda draw: (scalars("float32", 2.5), {**filler(draw)[1], "dtype": any_of(draw, "", "int8")}),
    "full_like": lambda draw: ([*unary(*NUMBERS)(draw)[0], *scalars("float32", 1)], {}),
    "arange": lambda draw: (scalars("int32", *any_of(draw, (0, 5, 2), (5, 0, -1), (1, 1, 1))), {"dtype": "int64"}),
    **dict.fromkeys(["all", "any"], reduction(0, "bool")),
    **dict.fromkeys(["max", "mean", "min", "prod", "sum"], reduction(0, *NUMBERS)),
    **dict.fromkeys(["log_sum", "log_sum_exp", "norm_l1", "norm_l2", "sum_of_squares"], reduction(0, *FLOATS)),
    **dict.fromkeys(["argmax", "argmin"], reduction(1, *NUMBERS, last=True)),
    "variance": variance,
    "reshape": lambda draw: any_of(draw, reshape, reshape_codes)(draw),
    "contrib_reverse_reshape": reshape,
    "reshape_like": reshaped_like,
    "expand_dims": expand,
    "squeeze": squeeze,
    "transpose": transpose,
    "reverse": on_axis(*NUMBERS),
    "concatenate": concatenate,
    "stack": stack,
    "split": split,
    "broadcast_to": broadcast_to,
    "broadcast_to_like": broadcast_like,
    "collapse_sum_like": collapse_like,
    "collapse_sum_to": collapse_to,
    "repeat": lambda draw: (lambda case: (case[0], {**case[1], "repeats": any_of(draw, 0, 1, 2)}))(
        on_axis("int8")(draw)
    ),
    "tile": with_attrs(lambda draw: {"reps": draw(shapes())}, "float32"),
    "where": where,
    "strided_slice": open_slice,
    "strided_set": strided_set,
    "take": lambda draw: any_of(draw, take, take_batched)(draw),
    "gather": gather,
    "gather_nd": gather_nd,
    "scatter_elements": scatter,
    "scatter_nd": scatter_nd,
    "adv_index": adv_index,
    "one_hot": one_hot,
    "signed_one_hot": one_hot,
    "nonzero": unary("bool", "float32", "int8"),
    "argwhere": unary("bool", "float32"),
    "unravel_index": lambda draw: ([fill(draw, draw(shapes(0, 2)), "int64", 0, 6), ints(2, 3)], {}),
    "invert_permutation": lambda draw: ([ints(*draw(st.permutations(range(4))))], {}),
    "sort": sorting,
    "argsort": sorting,
    "topk": topk,
    "cumsum": scan,
    "cumprod": scan,
    "shape_of": unary("float32"),
    "ndarray_size": unary("float32"),
    "layout_transform": layout,
    "meshgrid": meshgrid,
    "einsum": einsum,
    "trilu": lambda draw: (
        [fill(draw, draw(shapes(2)), "float32"), np.array(any_of(draw, -1, 0, 1))],
        {"upper": draw(st.booleans())},
    ),
    "sequence_mask": sequence_mask,
    "reverse_sequence": reverse_sequence,
    "slice_like": slice_like,
    "nn.leaky_relu": with_attrs(lambda draw: {"alpha": 0.1}, *FLOATS),
    **dict.fromkeys(
        ("nn.gelu", "nn.gelu_gate"), with_attrs(lambda draw: {"approximate": any_of(draw, "none", "tanh")}, *FLOATS)
    ),
    "nn.prelu": normalisation(1),
    **dict.fromkeys(["nn.softmax", "nn.log_softmax", "nn.fast_softmax"], on_axis(*FLOATS)),
    "nn.bias_add": normalisation(1),
    "nn.batch_norm": normalisation(4),
    "nn.layer_norm": normalisation(2),
    "nn.rms_norm": normalisation(1),
    "nn.lstm": recurrent(4, 2, "input_forget"),
    "nn.gru": recurrent(3, 1, "linear_before_reset"),
    "nn.rnn": recurrent(1, 1),
    "nn.attention": attention(masked=False),
    "nn.masked_attention": attention(masked=True),
    "nn.rotary_embedding": rotary,
    "nn.instance_norm": normalisation(2, least=2),
    "nn.group_norm": group_norm,
    "nn.l2_normalize": lambda draw: (
        [fill(draw, (2, 3), "float32")],
        {"eps": 1e-3, "axis": any_of(draw, (0,), (1,), (0, 1))},
    ),
    "nn.lrn": lambda draw: (
        [fill(draw, draw(shapes(2, low=1)), any_of(draw, *FLOATS))],
        {"size": any_of(draw, 1, 3, 5)},
    ),
    "nn.dense": dense,
    "nn.matmul": matmul,
    "nn.batch_matmul": matmul_batched,
    "nn.contrib_dense_pack": dense_packed,
    **{f"nn.conv{rank}d": convolution(rank) for rank in (1, 2, 3)},
    "nn.contrib_conv2d_NCHWc": blocked_convolution,
    "nn.contrib_depthwise_conv2d_NCHWc": blocked_convolution,
    **{f"nn.conv{rank}d_transpose": transposed(rank) for rank in (1, 2, 3)},
    **{f"nn.max_pool{rank}d": pooling(rank) for rank in (1, 2, 3)},
    **{f"nn.avg_pool{rank}d": pooling(rank, average=True) for rank in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{rank}d": adaptive(rank) for kind in ("max", "avg") for rank in (1, 2, 3)},
    "nn.global_max_pool2d": image_case,
    "nn.global_avg_pool2d": image_case,
    "nn.batch_flatten": lambda draw: ([fill(draw, draw(shapes(1)), "float32")], {}),
    "nn.pad": padding,
    "nn.mirror_pad": mirror,
    "nn.dropout": unary(*FLOATS),
    "nn.depth_to_space": depth_to_space,
    "nn.space_to_depth": space_to_depth,
    "nn.space_to_batch_nd": space_to_batch,
    "nn.batch_to_space_nd": batch_to_space,
    "nn.dilate": dilate,
    "nn.upsampling": upsampling(2),
    "nn.upsampling3d": upsampling(3),
    **{f"image.resize{rank}d": resizing(rank) for rank in (1, 2, 3)},
    "image.grid_sample": grid_sample,
    "image.affine_grid": affine_grid,
    "image.crop_and_resize": crop_and_resize,
    "image.dilation2d": dilation2d,
    "fixed_point_multiply": fixed_point,
    "fixed_point_multiply_per_axis": fixed_point_per_axis,
    "searchsorted": searchsorted,
    "unique": lambda draw: (
        [fill(draw, draw(shapes(1, 1)), any_of(draw, *NUMBERS))],
        {"sorted": draw(st.booleans()), "return_counts": draw(st.booleans())},
    ),
    "on_device": with_attrs(lambda draw: {"virtual_device": "cuda"}, "float32"),
    "device_copy": with_attrs(lambda draw: {"src_virtual_device": "cpu", "dst_virtual_device": "cuda"}, "float32"),
    "random.threefry_generate": lambda draw: ([random_key(draw)], {"out_shape": draw(shapes())}),
    "random.threefry_split": lambda draw: ([random_key(draw)], {}),
    **dict.fromkeys(["random.normal", "random.uniform"], drawn_numbers),
    "random.multinomial": choices,
    "nn.sparse_conv2d": sparse_conv2d,
    "nn.sparse_dense": sparse_dense,
    "nn.sparse_transpose": sparse_square,
    "nn.sparse_add": sparse_add,
    "sparse_to_dense": sparse_to_dense,
    "dyn.sparse_to_dense": dyn_sparse_to_dense,
    "sparse_reshape": sparse_reshape,
    "sparse_fill_empty_rows": sparse_rows,
    "sliding_window": sliding_window,
    "stft": stft,
    "dft": dft,
    "matrix_set_diag": set_diagonals,
    "nn.conv2d_backward_weight": weight_gradient,
    "nn.max_pool2d_grad": pool_gradient(average=False),
    "nn.avg_pool2d_grad": pool_gradient(average=True),
    **dict.fromkeys(["nn.cross_entropy", "nn.cross_entropy_with_logits"], entropy),
    "nn.nll_loss": likelihood,
    "nn.deformable_conv2d": deformable,
    "nn.correlation": correlation,
    "nn.fifo_buffer": fifo,
    "nn.bitpack": bitpack,
    **dict.fromkeys(["qnn.simulated_quantize", "qnn.simulated_dequantize"], simulated),
    "vision.get_valid_counts": valid_counts,
    "vision.non_max_suppression": suppression,
    "vision.all_class_non_max_suppression": class_suppression,
    "vision.regular_non_max_suppression": regular_suppression,
    "vision.roi_align": regions(sample_ratio=(-1, 2), mode=("avg", "max")),
    "vision.roi_pool": regions(),
    "vision.yolo_reorg": lambda draw: ([fill(draw, (any_of(draw, 0, 2), 4, 2, 6), "float32")], {"stride": 2}),
    "vision.proposal": proposal,
    "vision.multibox_prior": priors,
    "vision.multibox_transform_loc": transformed_anchors,
    **{
        f"annotation.{mark}": unary("float32") for mark in ["stop_fusion", "checkpoint", "bitpack_start", "bitpack_end"]
    },
    **{f"annotation.compiler_{end}": with_attrs(lambda draw: {"compiler": "npu"}, "int8") for end in ("begin", "end")},
    "annotation.cast_hint": with_attrs(lambda draw: {"dtype": "float16"}, "float32"),
    "qnn.quantize": quantize,
    "qnn.dequantize": dequantize,
    "qnn.requantize": requantize,
    **dict.fromkeys(
        [
            f"qnn.{name}"
            for name in [
                "abs",
                "erf",
                "exp",
                "hardswish",
                "leaky_relu",
                "log",
                "rsqrt",
                "sigmoid",
                "softmax",
                "sqrt",
                "tanh",
            ]
        ],
        quantized_unary,
    ),
    **dict.fromkeys([f"qnn.{name}" for name in ["add", "mul", "subtract"]], quantized_binary),
    "qnn.conv2d": quantized_product(convolution(2)),
    "qnn.conv2d_transpose": quantized_product(transposed(2), per_channel=False),
    "qnn.dense": quantized_product(dense),
    "qnn.batch_matmul": quantized_product(matmul_batched, per_channel=False),
    "qnn.concatenate": quantized_concatenate,
    "qnn.avg_pool2d": quantized_pool,
    "dyn.reshape": dyn_reshape,
    "dyn.broadcast_to": lambda draw: (lambda case: ([*case[0], ints(*case[1]["shape"])], {}))(broadcast_to(draw)),
    "dyn.zeros": dyn_shape,
    "dyn.ones": dyn_shape,
    "dyn.full": lambda draw: ([*scalars("float32", 2), ints(*draw(shapes()))], {"dtype": any_of(draw, "", "int8")}),
    "dyn.expand_dims": lambda draw: ([fill(draw, (2, 3), "float32"), np.array(any_of(draw, -1, 0, 2))], {}),
    "dyn.squeeze": lambda draw: ([fill(draw, (2, 1, 1, 3), "float32"), ints(*any_of(draw, (1,), (1, 2), (-2,)))], {}),
    "dyn.tile": lambda draw: ([fill(draw, draw(shapes()), "float32"), ints(*draw(shapes()))], {}),
    "dyn.strided_slice": dyn_slice,
    "dyn.topk": dyn_topk,
    "dyn.one_hot": dyn_one_hot,
    "dyn.nn.pad": dyn_padding,
    "dyn.image.resize2d": dyn_resize,
    "dyn.nn.upsampling": dyn_upsampling(2),
    "dyn.nn.upsampling3d": dyn_upsampling(3),
}
