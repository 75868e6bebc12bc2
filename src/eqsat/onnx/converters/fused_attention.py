"""What ONNX Runtime's own attention operators compute: masks, caches, and heads that share keys.

Heads that are joined are (batch, place, head * element), heads that are apart (batch, head, place, element). A cache
holds keys and values of earlier places, apart; the new ones follow them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from eqsat.onnx.contrib import DOMAIN
from eqsat.onnx.converters.fused import sum_of
from eqsat.onnx.converters.source import Source, build, defines
from eqsat.relay.expr import Constant, Expr, Tuple, TupleGetItem
from eqsat.relay.infer import extend_types

define = partial(defines, domain=DOMAIN)


class _Heads(NamedTuple):
    """Queries, keys and values.

    Attributes:
        parts: The three tensors.
        queries: The number of heads of queries.
        keys: The number of heads of keys and values.
        joined: Whether keys and values are joined; queries always are.
    """

    parts: tuple[Expr, Expr, Expr]
    queries: int
    keys: int
    joined: bool = True

    def present(self) -> list[Expr]:
        """Keys and values as a cache holds them."""
        return [_apart(part, self.keys) if self.joined else part for part in self.parts[1:]]

    def behind(self, past: Sequence[Expr]) -> _Heads:
        """The same with keys and values behind those of a cache."""
        key, value = (build("concatenate", Tuple(pair), axis=2) for pair in zip(past, self.present(), strict=True))
        return self._replace(parts=(self.parts[0], key, value), joined=False)

    def attend(self, mask: Expr | None, **attrs: Any) -> Expr:
        """The attention of all heads, joined."""
        name = "nn.attention" if mask is None else "nn.masked_attention"
        masks = [] if mask is None else [mask]
        if self.joined:
            return build(name, *self.parts, *masks, query_heads=self.queries, key_heads=self.keys, **attrs)
        query, *rest = self.parts
        apart = build(name, _apart(query, self.queries), *rest, *masks, **attrs)
        return build("reshape", build("transpose", apart, axes=(0, 2, 1, 3)), newshape=(0, 0, -1))


def _apart(part: Expr, heads: int) -> Expr:
    return build("transpose", build("reshape", part, newshape=(0, 0, heads, -1)), axes=(0, 2, 1, 3))


def _scale(source: Source, width: Any, heads: int) -> float:
    given = source.float("scale", 0.0)
    source.require(given or (isinstance(width, int) and width % heads == 0), "the size of heads is not known")
    return given or 1 / math.sqrt(width // heads)


def _typed(expr: Expr, source: Source) -> Expr:
    """``expr``, whose type the source knows from now on."""
    extend_types(source.types, expr)  # type: ignore[arg-type]
    return expr


def _sliced(data: Expr, widths: Sequence[int], axis: int) -> list[Expr]:
    """Parts of these widths along an axis."""
    ends = [0, *accumulate(widths)]
    return [build("strided_slice", data, begin=(begin,), end=(end,), axes=(axis,)) for begin, end in pairwise(ends)]


def _known_widths(parts: Sequence[Expr], source: Source) -> list[int]:
    widths = [source.type(part).shape[2] for part in parts]
    known = [width for width in widths if isinstance(width, int)]
    source.require(len(known) == len(parts), "its sizes are not known")
    return known


# ---- masks, which are added to scores


def _counted(source: Source, *sizes: Any) -> list[int]:
    known = [size for size in sizes if isinstance(size, int)]
    source.require(len(known) == len(sizes), "the numbers of queries or keys are not known")
    return known


def _padding(mask: Expr, heads: _Heads, filtered: float, source: Source) -> Expr:
    """Zeros for keys that are shown and ``filtered`` for others.

    A mask is (batch, key) or (batch, query, key), of ones for keys that are shown; or it tells for each batch where the
    keys end, and perhaps behind these numbers where they begin.
    """
    key = source.type(_typed(heads.parts[1], source))
    rank, batch, keys = source.rank(mask), key.shape[0], key.shape[1 if heads.joined else 2]
    if rank == 1:
        batch, keys = _counted(source, batch, keys)
        (given,) = source.static_shape(mask)
        source.require(given in (batch, 2 * batch), "its mask is of sums of lengths")
        bounds = [_each_batch(part) for part in _rows(mask, given // batch, batch)]
        places = Constant(np.arange(keys, dtype="int32"))
        shown = build("less", places, bounds[0])
        if len(bounds) > 1:
            shown = build("logical_and", shown, build("greater_equal", places, bounds[1]))
    else:
        source.require(rank in (2, 3) and source.type(mask).shape[-1] == keys, "its mask is not of all keys")
        zero = Constant(np.zeros((), source.type(mask).dtype))
        shown = build("greater", build("expand_dims", mask, axis=1, num_newaxis=4 - rank), zero)
    return build("where", shown, Constant(np.asarray(0, key.dtype)), Constant(np.asarray(filtered, key.dtype)))


def _rows(data: Expr, count: int, length: int) -> list[Expr]:
    return [data] if count == 1 else _sliced(data, [length] * count, 0)


def _each_batch(data: Expr) -> Expr:
    """(batch) -> (batch, 1, 1, 1)"""
    return build("reshape", data, newshape=(-1, 1, 1, 1))


def _earlier(queries: Any, keys: Any, window: int, dtype: str, source: Source) -> Expr:
    """A mask that hides from each of the last places the keys behind it, and those before its window, if it has one."""
    queries, keys = _counted(source, queries, keys)
    ages = np.arange(keys - queries, keys)[:, None] - np.arange(keys)
    shown = (ages >= 0) & ((ages < window) | (window < 1))
    return Constant(np.where(shown, 0, -np.inf).astype(dtype))


# ---- the operators


@define("MultiHeadAttention")
def _multi_head_attention(source: Source) -> Sequence[Expr | None]:
    query, key, value, biases, padding, added, *past, length, indirection = source.optional(1, 10)
    shared = length is not None or indirection is not None
    source.require(None not in (key, value) and not shared, "all is one tensor, or a cache is shared")
    parts, heads = [query, key, value], source.int("num_heads", 0)
    source.require(heads > 0 and all(source.rank(part) == 3 for part in parts), "its heads are apart")
    source.require(not source.int("unidirectional", 0), "which queries see which keys depends on the version")
    filtered = source.float("mask_filter_value", -10000.0)
    scale = _scale(source, source.type(query).shape[2], heads)
    if biases is not None:
        pieces = _sliced(biases, _known_widths(parts, source), 0)
        parts = [build("add", *pair) for pair in zip(parts, pieces, strict=True)]
    whole = _Heads((parts[0], parts[1], parts[2]), heads, heads)
    if None not in past:
        whole = whole.behind(past)
    source.require(None in past or not any(part is None for part in past), "it has one of two caches")
    shown = None if padding is None else _padding(padding, whole, filtered, source)
    mask = None if shown is None and added is None else sum_of(shown, added)
    return [whole.attend(mask, scale=scale), *whole.present()]


@define("GroupQueryAttention")
def _group_query_attention(source: Source) -> Sequence[Expr | None]:
    """With as many places in each batch: no query sees keys behind its own place."""
    query, key, value, *rest = source.optional(1, 16)
    past, (last, count, cos, sin, *more) = rest[:2], rest[2:]
    parts, heads, groups = [query, key, value], source.int("num_heads", 0), source.int("kv_num_heads", 0)
    given = not any(part is not None for part in more) and None not in (*parts, last, count)
    source.require(given, "it has positions, biases or sinks, or all in one tensor")
    source.require(heads > 0 < groups and all(source.rank(part) == 3 for part in parts), "its heads are not told")
    source.require(not source.int("smooth_softmax", 0), "it has another softmax")
    source.require((past[0] is None) == (past[1] is None), "it has one of two caches")
    new, total = source.type(query).shape[1], source.scalar(count)
    (old,) = _counted(source, 0 if past[0] is None else source.type(past[0]).shape[2])
    whole = isinstance(new, int) and source.type(key).shape[1] == new and old + new == total
    source.require(whole and all(each + 1 == total for each in source.integers(last)), "some places are not there")
    scale = _scale(source, source.type(query).shape[2], heads)
    if source.int("do_rotary", 0):
        parts[:2] = _turned(parts[:2], (heads, groups), cos, sin, range(old, total), source)
    else:
        source.ignore("rotary_interleaved")
    attrs = {"scale": scale, "softcap": source.float("softcap", 0.0)}
    found = _Heads((parts[0], parts[1], parts[2]), heads, groups)
    window = source.int("local_window_size", -1)
    if past[0] is None and window < 1:
        return [found.attend(None, causal=True, **attrs), *found.present()]
    found = found if past[0] is None else found.behind(past)
    earlier = _earlier(new, total, window, source.type(query).dtype, source)
    return [found.attend(earlier, **attrs), *found.present()]


def _turned(
    parts: Sequence[Expr], heads: Sequence[int], cos: Expr | None, sin: Expr | None, places: range, source: Source
) -> list[Expr]:
    """Queries and keys, turned by the angles of their places."""
    source.require(cos is not None and sin is not None, "it has no angles")
    batch, *_ = source.type(parts[0]).shape
    (batch,) = _counted(source, batch)
    at = Constant(np.broadcast_to(np.arange(places.start, places.stop), (batch, len(places))).copy())
    angles = [build("take", table, at, axis=0, mode="fast") for table in (cos, sin) if table is not None]
    (half,) = _counted(source, source.type(cos).shape[1] if cos is not None else None)
    said = {"interleaved": bool(source.int("rotary_interleaved", 0)), "width": 2 * half}
    return [
        build("nn.rotary_embedding", part, *angles, heads=count, **said)
        for part, count in zip(parts, heads, strict=True)
    ]


@define("Attention")
def _joined_attention(source: Source) -> Sequence[Expr | None]:
    data, weights, biases, padding, past, added, length = source.optional(2, 7)
    source.require(length is None and not source.int("past_present_share_buffer", 0), "it shares a buffer")
    source.require(not source.int("do_rotary", 0), "it turns queries and keys")
    heads, width = source.int("num_heads", 0), source.static_shape(weights)[1]
    source.require(heads > 0 and source.rank(weights) == 2, "its heads are not told")
    product = build("nn.matmul", data, weights)
    product = product if biases is None else build("add", product, biases)
    return attention_of_product(product, width, heads, padding, past, added, source)


def attention_of_product(
    product: Expr,
    width: int,
    heads: int,
    padding: Expr | None,
    past: Expr | None,
    added: Expr | None,
    source: Source,
) -> Sequence[Expr | None]:
    """The attention of queries, keys and values that are one tensor, and the cache."""
    given, filtered = source.ints("qkv_hidden_sizes"), source.float("mask_filter_value", -10000.0)
    source.require(given is not None or width % (3 * heads) == 0, "its heads are not told")
    widths = tuple(given or (width // 3,) * 3)
    if given is None:
        thirds = build("split", product, indices_or_sections=3, axis=2)
        parts: list[Expr] = [TupleGetItem(thirds, index) for index in range(3)]
    else:
        parts = _sliced(product, widths, 2)
    whole = _Heads((parts[0], parts[1], parts[2]), heads, heads)
    scale, causal = _scale(source, widths[0], heads), bool(source.int("unidirectional", 0))
    masks = [added]
    if past is not None:
        whole = whole.behind([build("take", past, Constant(np.asarray(at)), axis=0) for at in range(2)])
        if causal:
            of = source.type(_typed(whole.parts[1], source))
            queries = source.type(_typed(product, source)).shape[1]
            masks.append(_earlier(queries, of.shape[2], 0, of.dtype, source))
            causal = False
    if padding is not None:
        masks.append(_padding(padding, whole, filtered, source))
    mask = sum_of(*masks) if any(each is not None for each in masks) else None
    present = build("stack", Tuple(whole.present()), axis=0) if widths[1] == widths[2] else None
    return [whole.attend(mask, scale=scale, causal=causal), present]
