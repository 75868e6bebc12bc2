"""Instances of rules that find attention of heads and rotary embeddings."""

from __future__ import annotations

from functools import partial
from itertools import product as combinations
from typing import Any

import numpy as np

from eqsat.egraph.rule import Examples
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Var, const
from eqsat.relay.op import (
    broadcast_to,
    concatenate,
    cos,
    expand_dims,
    isnan,
    negative,
    reshape,
    sin,
    split,
    squeeze,
    strided_slice,
    take,
    tanh,
    transpose,
    where,
)
from eqsat.relay.op.draw import FLOATS, Draw
from eqsat.relay.ty import TensorType


def sizes(draw: Draw, count: int) -> list[int]:
    return [draw.rng.randint(1, 3) for _ in range(count)]


def mask_of(draw: Draw, batch: int, queries: int, keys: int, dtype: str) -> TensorType:
    return TensorType((draw.rng.choice((1, batch)), 1, queries, keys), dtype)


def written_out(draw: Draw, name: str) -> Any:
    """softmax(c q k' + mask) v, as far as ``name`` tells of factor, cap and mask."""
    batch, count, queries, keys, width, out = sizes(draw, 6)
    dtype = draw.rng.choice(("float32", "float64"))
    shapes = [(batch, count, queries, width), (batch, count, keys, width), (batch, count, keys, out)]
    query, key, value = (Var(label, TensorType(shape, dtype)) for label, shape in zip("qkv", shapes, strict=True))
    scores = nn.matmul(query, key, transpose_b=draw.chance(0.9) or width == keys)
    if "scaled" in name:
        scores = scores * const(np.asarray(draw.rng.choice((0.5, 0.125)), dtype))
    if "capped" in name:
        scores = tanh(scores) * const(np.asarray(2, dtype))
    if "masked" in name:
        ty = mask_of(draw, batch, queries, keys, dtype)
        scores = scores + (const(draw.array(ty)) if "constant" in name else Var("mask", ty))
    return nn.matmul(nn.softmax(scores), value)


def least(dtype: str) -> float:
    return float(np.finfo(dtype).min)


def scores_of(draw: Draw, batch: int, count: int, queries: int, keys: int, dtype: str) -> Any:
    """c q k', which is of real numbers."""
    width = draw.rng.randint(1, 3)
    query = Var("q", TensorType((batch, count, queries, width), dtype))
    key = Var("k", TensorType((batch, count, keys, width), dtype))
    scores = nn.matmul(query, key, transpose_b=True)
    return scores * const(np.asarray(0.5, dtype)) if draw.chance(0.5) else scores


def without_nan(draw: Draw) -> Any:
    """Zeros in the place of the NaN of a softmax that has none."""
    batch, count, queries, keys = sizes(draw, 4)
    soft = nn.softmax(scores_of(draw, batch, count, queries, keys, "float32"))
    return where(isnan(soft), const(np.float32(0)), soft)


def nan_of_other(draw: Draw) -> Any:
    """What is NaN among probabilities, asked of other scores under the same mask."""
    batch, count, queries, keys = sizes(draw, 4)
    mask = Var("mask", TensorType((batch, 1, queries, keys), "float32"))
    scores = scores_of(draw, batch, count, queries, keys, "float32")
    asked, soft = nn.softmax(scores * const(np.float32(0.3)) + mask), nn.softmax(scores + mask)
    return where(isnan(asked), const(np.float32(0)), soft)


def two_numbers(draw: Draw) -> Any:
    """The choice of a constant that mostly is one of two numbers everywhere, or of the second one."""
    shape = (2, 3)
    low = draw.rng.choice((-1e4, -np.inf))
    numbers = draw.rng.choice(((0, low), (0, low), (0,), (0, 1, low)))
    constant = np.asarray([draw.rng.choice(numbers) for _ in range(6)], "float32").reshape(shape)
    second = np.full((1,) * draw.rng.randint(0, 2), low, "float32")
    return where(Var("z", TensorType((draw.rng.choice((1, 2)), 3), "bool")), const(constant), const(second))


def hidden(draw: Draw) -> Any:
    """The softmax of scores of which some are hidden by the least number."""
    batch, count, queries, keys = sizes(draw, 4)
    shown = Var("shown", TensorType((batch, 1, draw.rng.choice((1, queries)), keys), "bool"))
    bias = draw.array(TensorType((1, count, 1, keys), "float32")) if draw.chance(0.5) else np.float32(0)
    mask = where(shown, const(bias), const(np.float32(least("float32"))))
    return nn.softmax(scores_of(draw, batch, count, queries, keys, "float32") + mask)


def chosen(draw: Draw, form: str) -> Any:
    """The softmax of scores or the least number, by a condition, with numbers above that added before or after."""
    batch, count, queries, keys = sizes(draw, 4)
    shown = Var("shown", TensorType((batch, 1, draw.rng.choice((1, queries)), keys), "bool"))
    scores, low = scores_of(draw, batch, count, queries, keys, "float32"), const(np.float32(least("float32")))
    added = draw.constant((1, 1, 1, keys), "float32")
    if "biased" in form:
        return nn.softmax(where(shown, scores + added, low))
    return nn.softmax((where(shown, low, scores) if "other" in form else where(shown, scores, low)) + added)


def chosen_of_known(draw: Draw, is_hidden: bool) -> Any:
    """The softmax of scores or the least number, by a known condition, with a known mask, which may have it, too."""
    batch, count, queries, keys = sizes(draw, 4)
    scores, low = scores_of(draw, batch, count, queries, keys, "float32"), const(np.float32(least("float32")))
    shown, added = (np.asarray([[draw.chance(0.8) for _ in range(keys)] for _ in range(queries)]) for _ in range(2))
    mask = const(np.where(added, np.float32(0), np.float32(least("float32"))))
    return nn.softmax((where(const(~shown), low, scores) if is_hidden else where(const(shown), scores, low)) + mask)


def by_conditions(draw: Draw, name: str) -> Any:
    """softmax(c q k' + mask) v of masks that are made from conditions."""
    batch, count, queries, keys, width, out = sizes(draw, 6)
    query, key, value = (
        Var(label, TensorType((batch, count, length, size), "float32"))
        for label, length, size in (("q", queries, width), ("k", keys, width), ("v", keys, out))
    )
    scores = nn.matmul(query, key, transpose_b=True)
    if "scaled" in name:
        scores = scores * const(np.float32(0.5))
    if "capped" in name:
        scores = tanh(scores) * const(np.float32(2))
    shown = Var("shown", TensorType((draw.rng.choice((1, batch)), 1, draw.rng.choice((1, queries)), keys), "bool"))
    low = np.float32(-np.inf if "guarded" in name else -1e4)
    if "biased" in name:
        scores = scores + draw.constant((1, count, queries, keys), "float32")
    soft = nn.softmax(scores + where(shown, const(np.float32(0)), const(low)))
    return nn.matmul(where(isnan(soft), const(np.float32(0)), soft) if "guarded" in name else soft, value)


def one_row(draw: Draw) -> Any:
    """Attention by a mask that is the same for all queries."""
    batch, count, queries, keys, width, out = sizes(draw, 6)
    query, key, value = (
        Var(label, TensorType((batch, count, length, size), "float32"))
        for label, length, size in (("q", queries + 1, width), ("k", keys, width), ("v", keys, out))
    )
    mask = Var("mask", TensorType((draw.rng.choice((1, batch)), 1, 1, keys), draw.rng.choice(("float32", "bool"))))
    return nn.masked_attention(query, key, value, mask, scale=0.5, causal=draw.chance(0.3))


def bias_and_low(draw: Draw, is_scaled: bool) -> Any:
    """The softmax of scores and a bias, with zero or a low number in the bias."""
    batch, count, queries, keys, width = sizes(draw, 5)
    query, key = (
        Var(each, TensorType((batch, count, at, width), "float32"))
        for each, at in zip("qk", (queries, keys), strict=True)
    )
    scores = nn.matmul(query, key, transpose_b=True)
    shown = Var("shown", TensorType((batch, 1, draw.rng.choice((1, queries)), keys), "bool"))
    low = const(np.float32(draw.rng.choice((least("float32"), least("float32") / 2, -np.inf))))
    bias = draw.constant((1, count, queries, keys), "float32") + where(shown, const(np.float32(0)), low)
    return nn.softmax((scores * const(np.float32(0.5)) if is_scaled else scores) + bias)


def three_products(draw: Draw, product: str) -> tuple[Any, ...]:
    """Heads of three products of one operand, transposed."""
    batch, places, width, size = sizes(draw, 4)
    dtype = draw.rng.choice(FLOATS)
    shape = (batch * places, width) if product == "dense" or draw.chance(0.3) else (batch, places, width)
    data, found = Var("x", TensorType(shape, dtype)), []
    for _ in range(3):
        count = draw.rng.randint(1, 3)
        outputs = count * size
        if product == "dense":
            value = nn.dense(data, draw.constant((outputs, width), dtype))
        else:
            value = nn.matmul(data, draw.constant((width, outputs), dtype))
        found.append(transpose(reshape(value, newshape=(batch, places, count, size)), axes=(0, 2, 1, 3)))
    return tuple(found)


def part_of_heads(draw: Draw, name: str) -> Any:
    """A part of the heads of a product, or of one with a bias, of which the heads are joined."""
    batch, places, width, size = sizes(draw, 4)
    groups, count, axis = draw.rng.randint(1, 3), draw.rng.randint(2, 6), draw.rng.choice((2, 3))
    inner = (count, groups, size) if axis == 2 else (groups, count, size)
    dtype, outputs = draw.rng.choice(FLOATS), groups * count * size
    data = Var("x", TensorType((batch, places, width), dtype))
    value: Any
    if "dense" in name:
        value = nn.dense(data, draw.constant((outputs, width), dtype))
    elif "matmul" in name:
        value = nn.matmul(data, draw.constant((width, outputs), dtype))
    else:
        value = Var("y", TensorType((batch, places, outputs), dtype))
    if "bias" in name:
        value = value + draw.constant((outputs,), dtype)
    view = reshape(value, newshape=(batch, places, *inner))
    length = draw.rng.choice([each for each in range(1, count + 1) if not count % each or draw.chance(0.2)])
    first = draw.rng.randint(0, count // length - 1) * length
    if "place" in name:
        part = take(view, const(first), axis=axis)
    else:
        part = strided_slice(view, begin=[first], end=[first + length], axes=[axis])
    return reshape(part, newshape=(batch, places, -1))


def product_of_rows(draw: Draw, biased: bool) -> Any:
    """A product of rows with a matrix, mostly viewed as the batch that the rows come from, or as another one."""
    batch, places, width, outputs = sizes(draw, 4)
    dtype = draw.rng.choice(FLOATS)
    given = (batch, places, width) if draw.chance(0.8) else (places, width, batch)
    rows = reshape(Var("x", TensorType(given, dtype)), newshape=(-1, width))
    if draw.chance(0.5):
        product = nn.matmul(rows, draw.constant((width, outputs), dtype))
    else:
        product = nn.dense(rows, draw.constant((outputs, width), dtype))
    value = product + draw.constant((outputs,), dtype) if biased else product
    return reshape(value, newshape=(places, batch, outputs) if draw.chance(0.1) else (batch, places, outputs))


def normalized_rows(draw: Draw) -> Any:
    """All rows of a batch, which are normalized by constants, mostly along the last axis."""
    batch, places, width = sizes(draw, 3)
    dtype, along = draw.rng.choice(FLOATS), draw.rng.choice((-1, 1, 0))
    rows = reshape(Var("x", TensorType((batch, places, width), dtype)), newshape=(-1, width))
    length = width if along else batch * places
    return nn.layer_norm(rows, *[draw.constant((length,), dtype) for _ in range(2)], axis=along)


def expanded_ones(draw: Draw, by_sizes: bool) -> Any:
    """An expansion of a transpose of a view that has axes of one element."""
    shape = sizes(draw, draw.rng.randint(2, 4))
    data = Var("x", TensorType((*shape[:-2], shape[-2] * shape[-1]), draw.rng.choice(FLOATS)))
    for _ in range(draw.rng.randint(1, 2)):
        shape = [*shape]
        shape.insert(draw.rng.randint(0, len(shape)), 1)
    order = draw.rng.sample(range(len(shape)), len(shape))
    lengths = [draw.rng.randint(1, 3) if shape[axis] == 1 else shape[axis] for axis in order]
    turned = transpose(reshape(data, newshape=tuple(shape)), axes=order)
    return broadcast_to(turned, const(np.array(lengths), "int64") if by_sizes else tuple(lengths))


def part_of_three(draw: Draw) -> Any:
    """A part of a transposed tensor along an axis that the part is viewed without."""
    shape = [draw.rng.randint(1, 3) for _ in range(4)]
    axis = draw.rng.randrange(3)
    shape[axis] = draw.rng.randint(2, 3)
    order = draw.rng.sample(range(4), 4)
    turned = transpose(Var("x", TensorType(shape, draw.dtype)), axes=order)
    parts: Any = split(turned, indices_or_sections=shape[axis], axis=order.index(axis))
    return squeeze(parts[draw.rng.randrange(shape[axis])], axis=[order.index(axis)])


def groups_of_heads(draw: Draw, masked: bool, transposed: bool) -> Any:
    """Attention whose heads are transposed before the places, or whose keys and values are repeated."""
    batch, keys, times, queries, places, width, out = sizes(draw, 7)
    dtype = draw.rng.choice(FLOATS)
    shapes = [(batch, keys * times, queries, width), (batch, keys, places, width), (batch, keys, places, out)]
    parts: list[Any] = []
    for name, (first, heads, length, size) in zip("qkv", shapes, strict=True):
        part: Expr
        if transposed:
            part = transpose(Var(name, TensorType((first, length, heads, size), dtype)), axes=(0, 2, 1, 3))
        else:
            part = Var(name, TensorType((first, heads, length, size), dtype))
            if name != "q":
                rows = np.repeat if draw.chance(0.8) else np.tile
                part = take(part, const(rows(np.arange(heads), times)), axis=1, mode="fast")
        parts.append(part)
    if masked:
        parts.append(Var("mask", mask_of(draw, batch, queries, places, dtype)))
    operator = nn.masked_attention if masked else nn.attention
    return operator(*parts, scale=draw.rng.choice((0.5, 1.0)), causal=draw.chance(0.3))


def heads_of_one(draw: Draw, masked: bool, shared: bool) -> Any:
    """Attention by keys and values of one head, for queries that are transposed before the places, or of one head."""
    batch, heads, queries, places, width, out = sizes(draw, 6)
    dtype = draw.rng.choice(FLOATS)
    shape = (batch, queries, heads, width) if shared else (batch, 1, queries, width)
    query: Expr = Var("q", TensorType(shape, dtype))
    lengths = {"k": width, "v": out}
    parts = [transpose(query, axes=(0, 2, 1, 3)) if shared else query]
    parts += [Var(name, TensorType((batch, 1, places, length), dtype)) for name, length in lengths.items()]
    parts += [Var("mask", mask_of(draw, batch, queries, places, dtype))] * masked
    operator = nn.masked_attention if masked else nn.attention
    return operator(*parts, scale=draw.rng.choice((0.5, 1.0)), causal=draw.chance(0.3))


def repeated_heads(draw: Draw, embedded: bool) -> Any:
    """Heads that are repeated, or elements that are, before they are turned by angles or put in front of the places."""
    batch, heads, places, half = sizes(draw, 4)
    dtype = draw.rng.choice(("float32", "float16"))
    shape = (batch, heads, places, 2 * half) if embedded else (batch, places, heads, 2 * half)
    axis = draw.rng.choice((1, 2, -2, -3))
    rows = np.repeat(np.arange(shape[axis]), draw.rng.randint(1, 3))
    if axis % 4 == 2 and embedded:
        rows = np.arange(places)[::-1]
    data = take(Var("x", TensorType(shape, dtype)), const(rows), axis=axis, mode="fast")
    if not embedded:
        return transpose(data, axes=(0, 2, 1, 3) if draw.chance(0.8) else (0, 2, 3, 1))
    return nn.rotary_embedding(data, *[Var(name, TensorType((batch, places, half), dtype)) for name in "cs"])


def heads_as_rows(draw: Draw, masked: bool) -> Any:
    """Attention of queries whose heads are viewed as rows, with a mask of the keys or of the rows, or without."""
    batch, keys, times, queries, places, width, out = sizes(draw, 7)
    dtype = draw.rng.choice(FLOATS)
    query = Var("q", TensorType((batch, keys * times, queries, width), dtype))
    parts: list[Any] = [reshape(query, newshape=(batch, keys, times * queries, width))]
    parts += [Var(name, TensorType((batch, keys, places, size), dtype)) for name, size in (("k", width), ("v", out))]
    if masked:
        rows = times * queries if draw.chance(0.2) else 1
        parts.append(Var("mask", TensorType((batch, 1, rows, places)[draw.rng.randint(0, 2) :], dtype)))
    operator = nn.masked_attention if masked else nn.attention
    return operator(*parts, scale=draw.rng.choice((0.5, 1.0)), causal=draw.chance(0.2))


def rotated(data: Var, half: int, cosine: Expr, sine: Expr) -> Any:
    """A rotary embedding written out."""
    parts: Any = split(data, indices_or_sections=(half,), axis=-1)
    return data * cosine + concatenate([negative(parts[1]), parts[0]], axis=-1) * sine


def rotated_by_constants(draw: Draw, signed: bool = False) -> Any:
    """A written-out embedding by constants of one or of all batches, of which the sines may have the signs."""
    batch, heads, places, half = sizes(draw, 4)
    dtype = draw.rng.choice(FLOATS)
    angle = draw.array(TensorType((draw.rng.choice((1, batch)), 1, places, half), dtype))
    other = angle if draw.chance(0.8) else angle + angle.dtype.type(1)
    joined = np.concatenate([angle, other], axis=-1)
    data = Var("x", TensorType((batch, heads, places, 2 * half), dtype))
    if not signed:
        return rotated(data, half, const(np.cos(joined)), const(np.sin(joined)))
    parts: Any = split(data, indices_or_sections=(half,), axis=-1)
    sines = np.sin(joined) * np.repeat([-1, 1], half).astype(dtype)
    return data * const(np.cos(joined)) + concatenate([parts[1], parts[0]], axis=-1) * const(sines)


def rotated_by_angles(draw: Draw) -> Any:
    """A written-out embedding by angles of one or of all batches."""
    batch, heads, places, half = sizes(draw, 4)
    dtype = draw.rng.choice(("float32", "float16"))
    angle = Var("angles", TensorType((draw.rng.choice((1, batch)), places, half), dtype))
    joined = concatenate([angle, angle], axis=-1)
    data = Var("x", TensorType((batch, heads, places, 2 * half), dtype))
    return rotated(data, half, expand_dims(cos(joined), axis=1), expand_dims(sin(joined), axis=1))


def rotated_in_halves(draw: Draw) -> Any:
    """An embedding whose halves are computed each by itself, of factors of one or of all batches."""
    batch, heads, places, half = sizes(draw, 4)
    dtype = draw.rng.choice(FLOATS)
    data = Var("x", TensorType((batch, heads, places, 2 * half), dtype))
    first, second = (split(data, indices_or_sections=(half,), axis=-1)[index] for index in range(2))
    shape = draw.rng.choice(((places, half), (batch, 1, places, half)))
    cosines, more_cosines, sines, more_sines = (Var(name, TensorType(shape, dtype)) for name in ("c", "d", "s", "t"))
    low = first * cosines - second * sines
    return concatenate([low, second * more_cosines + first * more_sines], axis=-1)


def rotated_heads(draw: Draw) -> Any:
    batch, heads, places, half = sizes(draw, 4)
    dtype = draw.rng.choice(("float32", "float16"))
    data = transpose(Var("x", TensorType((batch, places, heads, 2 * half), dtype)), axes=(0, 2, 1, 3))
    return nn.rotary_embedding(data, *[Var(name, TensorType((batch, places, half), dtype)) for name in "cs"])


def rotated_head(draw: Draw) -> Any:
    batch, places, half = sizes(draw, 3)
    dtype = draw.rng.choice(("float32", "float16"))
    data = Var("x", TensorType((batch, 1, places, 2 * half), dtype))
    return nn.rotary_embedding(data, *[Var(name, TensorType((batch, places, half), dtype)) for name in "cs"])


def keys_with_joined_batches(draw: Draw) -> Any:
    """The transpose of keys, whose batches and heads are joined meanwhile, mostly."""
    batch, count, places, width = sizes(draw, 4)
    keys = Var("k", TensorType((batch, count, places, width), draw.rng.choice(FLOATS)))
    joined = reshape(keys, newshape=(batch * count, places, width))
    turned = transpose(joined, axes=(0, 2, 1) if draw.chance(0.8) else (1, 0, 2))
    shape = (batch, count, width, places) if draw.chance(0.9) else (batch * count * places, width)
    return reshape(turned, newshape=shape)


def product_of_batches(draw: Draw) -> Any:
    """A view that splits the batches of a product, mostly."""
    batch, count, rows, inner, columns = sizes(draw, 5)
    dtype = draw.rng.choice(("float32", "float64"))
    left = Var("q", TensorType((batch * count, rows, inner), dtype))
    right = Var("k", TensorType((batch * count, columns, inner), dtype))
    shape = (batch, count, rows, columns) if draw.chance(0.9) else (batch, count * rows, columns)
    return reshape(nn.matmul(left, right, transpose_b=True), newshape=shape)


def product_of_unlike_batches(draw: Draw, fewer: int) -> Any:
    """A product of batches of matrices, of which the operand at place ``fewer`` has fewer axes, mostly."""
    batch, count, rows, inner, columns = sizes(draw, 5)
    operands = [
        Var(name, TensorType(((batch, count) if at != fewer else (count,) * draw.chance(0.9)) + shape, "float32"))
        for at, (name, shape) in enumerate((("x", (rows, inner)), ("y", (inner, columns))))
    ]
    return nn.matmul(*operands)


def swapped_neighbours(draw: Draw, data: Var, shape: tuple[int, ...]) -> Any:
    """(-b, a) for neighbours a and b along the last axis of ``data``, which has this shape."""
    start = 1 if draw.chance(0.9) else 0
    ends = draw.rng.choice((2**31, shape[-1]))
    second, first = (strided_slice(data, [at], [ends], strides=[2], axes=[-1]) for at in (start, 1 - start))
    stacked = concatenate([expand_dims(negative(second), axis=-1), expand_dims(first, axis=-1)], axis=-1)
    return reshape(stacked, newshape=shape)


def stacked_neighbours(draw: Draw) -> Any:
    """These, times a factor."""
    lead, width = draw.rng.choice(((), (2,), (1, 2))), 2 * draw.rng.randint(1, 3)
    shape = (*lead, width)
    swapped = swapped_neighbours(draw, Var("x", TensorType(shape, draw.dtype)), shape)
    return swapped * Var("u", TensorType(draw.rng.choice(((), (width,), shape)), draw.dtype))


def neighbours_by_constants(draw: Draw, behind: bool) -> Any:
    """A written-out embedding of neighbours, by constants of one or of all batches."""
    batch, heads, places, half = sizes(draw, 4)
    dtype = draw.rng.choice(("float32", "float16"))
    between = (places, 1) if behind else (1, places)
    angle = draw.array(TensorType((draw.rng.choice((1, batch)), *between, half), dtype))
    other = angle if draw.chance(0.8) else angle + angle.dtype.type(1)
    cosine = np.stack([np.cos(angle), np.cos(other)], axis=-1).reshape(*angle.shape[:3], 2 * half)
    sine = np.stack([-np.sin(angle), np.sin(other)], axis=-1).reshape(*angle.shape[:3], 2 * half)
    shape = (batch, places, heads, 2 * half) if behind else (batch, heads, places, 2 * half)
    data = Var("x", TensorType(shape, dtype))
    swapped = take(data, const(np.arange(2 * half) ^ 1), axis=-1, mode="fast")
    return data * const(cosine) + swapped * const(sine)


def partly_rotated(draw: Draw, behind: bool) -> Any:
    """An embedding of the first elements of each head, mostly joined with the others."""
    batch, heads, places, half, left = sizes(draw, 5)
    dtype = draw.rng.choice(("float32", "float16"))
    shape = (batch, places, heads, 2 * half + left) if behind else (batch, heads, places, 2 * half + left)
    parts: Any = split(Var("x", TensorType(shape, dtype)), indices_or_sections=(2 * half,), axis=-1)
    angles = [Var(name, TensorType((batch, places, half), dtype)) for name in "cs"]
    turned = transpose(parts[0], axes=(0, 2, 1, 3)) if behind else parts[0]
    embedded = nn.rotary_embedding(turned, *angles, interleaved=draw.chance(0.5))
    return concatenate([transpose(embedded, axes=(0, 2, 1, 3)) if behind else embedded, parts[1]], axis=-1)


FORMS = ("", "scaled-", "capped-", "scaled-capped-")
WRITTEN_OUT = [f"{form}{mask}attention" for form in FORMS for mask in ("", "masked-", "constant-masked-")]

EXAMPLES: dict[str, Examples] = {
    "transpose-out-of-views": keys_with_joined_batches,
    "neighbours-are-gathered": stacked_neighbours,
    "rotary-embedding-of-neighbours": partial(neighbours_by_constants, behind=False),
    "rotary-embedding-of-neighbours-behind-places": partial(neighbours_by_constants, behind=True),
    "rotary-embedding-of-some": partial(partly_rotated, behind=False),
    "rotary-embedding-of-some-behind-places": partial(partly_rotated, behind=True),
    "matmul-of-more-axes": partial(product_of_unlike_batches, fewer=1),
    "more-axes-by-matmul": partial(product_of_unlike_batches, fewer=0),
    "view-into-product": product_of_batches,
    **{name: partial(written_out, name=name) for name in WRITTEN_OUT},
    **{
        f"{form}{mask}-attention": partial(by_conditions, name=form + mask)
        for form in FORMS
        for mask in ("open-masked", "biased-masked", "guarded-masked")
    },
    "nan-of-real": without_nan,
    "nan-of-any": without_nan,
    "nan-of-other-scores": nan_of_other,
    "where-of-two-numbers": two_numbers,
    "half-of-the-least": hidden,
    **{
        f"least-in-{side}known-masked-scores": partial(chosen_of_known, is_hidden=bool(side)) for side in ("", "other-")
    },
    **{
        f"least-in-{form}-scores": partial(chosen, form=form)
        for form in ("masked", "other-masked", "biased", "biased-scaled")
    },
    "mask-of-each-query": one_row,
    "low-in-bias-of-scores": partial(bias_and_low, is_scaled=False),
    "low-in-bias-of-scaled-scores": partial(bias_and_low, is_scaled=True),
    **{f"three-{product}s": partial(three_products, product=product) for product in ("dense", "matmul")},
    "layer-norm-of-given-rows": normalized_rows,
    "expand-of-transpose-without-ones": partial(expanded_ones, by_sizes=False),
    "dynamic-expand-of-transpose-without-ones": partial(expanded_ones, by_sizes=True),
    "product-of-batches": partial(product_of_rows, biased=False),
    "biased-product-of-batches": partial(product_of_rows, biased=True),
    "parts-of-transposed": part_of_three,
    **{
        f"{cut}-of-heads{product}": partial(part_of_heads, name=cut + product)
        for cut, product in combinations(
            ("slice", "place"),
            ("", *[f"-of-{each}{bias}" for each in ("matmul", "dense") for bias in ("", "-with-bias")]),
        )
    },
    **{
        f"{cut}-of-neighbours-of-{product}": partial(part_of_heads, name=f"{cut}-of-{product}")
        for cut, product in combinations(("slice", "place"), ("matmul", "dense"))
    },
    "joined-heads": partial(groups_of_heads, masked=False, transposed=True),
    "joined-heads-masked": partial(groups_of_heads, masked=True, transposed=True),
    "grouped-heads": partial(groups_of_heads, masked=False, transposed=False),
    "grouped-heads-masked": partial(groups_of_heads, masked=True, transposed=False),
    "heads-first-of-repeated": partial(repeated_heads, embedded=False),
    "rotary-embedding-of-repeated": partial(repeated_heads, embedded=True),
    "rows-as-heads": partial(heads_as_rows, masked=False),
    "rows-as-heads-masked": partial(heads_as_rows, masked=True),
    "rotary-embedding": rotated_by_constants,
    "rotary-embedding-by-signs": partial(rotated_by_constants, signed=True),
    "rotary-in-halves": rotated_in_halves,
    "rotary-embedding-by-angles": rotated_by_angles,
    "rotary-embedding-of-batches": rotated_by_angles,
    "joined-rotary-embedding": rotated_heads,
    "rotary-embedding-of-one-head": rotated_head,
    **{
        f"joined-heads{masked}-of-{number}": partial(heads_of_one, masked=bool(masked), shared=number == "shared")
        for masked in ("", "-masked")
        for number in ("shared", "one")
    },
}
