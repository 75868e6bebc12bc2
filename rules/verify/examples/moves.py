"""Instances of rules on slices, gathers, and what moves or repeats whole rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from eqsat.egraph.rule import Examples
from eqsat.relay import nn
from eqsat.relay.expr import Constant, Expr, Var, const
from eqsat.relay.op import (
    add,
    argsort,
    broadcast_to,
    clip,
    concatenate,
    cumprod,
    cumsum,
    gather,
    maximum,
    multiply,
    negative,
    one_hot,
    repeat,
    reshape,
    reverse,
    scatter_elements,
    scatter_nd,
    signed_one_hot,
    sort,
    split,
    stack,
    strided_slice,
    subtract,
    take,
    transpose,
)
from eqsat.relay.op.draw import Draw
from eqsat.relay.ty import TensorType
from eqsat.rules.types import Shape


def divisions(draw: Draw, count: int) -> tuple[Expr, ...]:
    """Slices of one axis that mostly divide it."""
    length, axis = draw.rng.randint(count, 7), draw.rng.randrange(3)
    shape = [2, 3, 2]
    shape[axis] = length
    data = Var("x", TensorType(shape, draw.dtype))
    cuts = sorted(draw.rng.sample(range(1, length), count - 1))
    begins, ends = [0, *cuts], [*cuts, length]
    if draw.chance(0.2):
        begins[-1] = draw.rng.randrange(1, length)
    along = [axis - draw.rng.choice((0, 3))]
    return tuple(
        [strided_slice(data, begin=[first], end=[end], axes=along) for first, end in zip(begins, ends, strict=True)]
    )


def nested_parts(draw: Draw) -> tuple[Expr, ...]:
    """Slices of one axis, and a slice that mostly is what they take together."""
    length, axis = draw.rng.randint(4, 8), draw.rng.randrange(3)
    shape = [2, 3, 2]
    shape[axis] = length
    data = Var("x", TensorType(shape, draw.dtype))
    first, middle, last, *others = sorted(draw.rng.sample(range(length + 1), draw.rng.randint(3, 4)))
    bounds = [(first, middle), (middle, last), (first, others[0] if others and draw.chance(0.3) else last)]
    return tuple([strided_slice(data, begin=[begin], end=[end], axes=[axis]) for begin, end in bounds])


def repeated_rows(draw: Draw, first: bool) -> Expr:
    """A tensor beside a constant whose rows mostly are alike."""
    rows, columns = draw.rng.randint(2, 3), draw.rng.randint(2, 3)
    ty = TensorType((rows, columns), draw.dtype)
    constant = draw.array(ty)
    if draw.chance(0.8):
        constant = np.repeat(constant[:1], rows, axis=0)
    operands = [Var("x", ty), const(constant)]
    return subtract(*(reversed(operands) if first else operands))


def squared_rows(draw: Draw) -> tuple[Expr, ...]:
    """The same rows of a table and of one that mostly has its squares."""
    table = draw.array(TensorType((4, 3), draw.rng.choice(("float32", "float16"))))
    places = Var("i", TensorType((5,), "int64"))
    other = table * (table if draw.chance(0.8) else table.dtype.type(2))
    return take(const(table), places, axis=0), take(const(other), places, axis=0)


def third(draw: Draw, index: int) -> Expr:
    """A slice that mostly takes a third of an axis."""
    width, axis = draw.rng.randint(1, 3), draw.rng.randrange(3)
    shape = [2, 3, 2]
    shape[axis] = 3 * width + draw.chance(0.1)
    at = index * width
    return strided_slice(Var("x", TensorType(shape, draw.dtype)), begin=[at], end=[at + width], axes=[axis])


def rows_written(draw: Draw, every: bool) -> Expr:
    """Rows that are mostly written one after the other: all of a tensor, or those that a slice takes mostly."""
    count = draw.rng.randint(1, 3)
    start = 0 if every else draw.rng.randint(0, 2)
    length = count + (draw.chance(0.1) if every else start + draw.rng.randint(0, 2))
    rows = [*range(start, start + count)]
    if draw.chance(0.1):
        rows.reverse()
    mode = "update" if draw.chance(0.9) else "add"
    data, rest = (Var(name, TensorType((size, 2, 3), draw.dtype)) for name, size in (("x", length), ("u", count)))
    written = scatter_nd(data, const(np.asarray([rows])), rest, mode)
    return written if every else strided_slice(written, begin=[start], end=[start + count], axes=[0])


def block_written(draw: Draw, form: str, is_along_axis: bool) -> Expr:
    """A part of one axis that is replaced in full, mostly; at tuples of places, axes behind them are whole."""
    shape = [draw.rng.randint(1, 3) for _ in range(draw.rng.randint(1, 3))]
    axis = draw.rng.randrange(len(shape))
    before, behind = {"first": (0, 1), "last": (1, 0), "middle": (1, 1)}[form]
    before, behind = (part * draw.rng.randint(1, 2) for part in (before, behind))
    block, length = [*shape], shape[axis]
    shape[axis] += before + behind
    ranges = [range(before, before + length) if at == axis else range(size) for at, size in enumerate(block)]
    if draw.chance(0.1):
        ranges[axis] = ranges[axis][::-1]
    places = np.array(np.meshgrid(*ranges, indexing="ij"))
    data, rest = (Var(name, TensorType(sizes, draw.dtype)) for name, sizes in (("x", shape), ("u", block)))
    mode = "update" if draw.chance(0.9) else "add"
    if is_along_axis:
        return scatter_elements(data, const(places[axis], "int64"), rest, axis, mode)
    count = draw.rng.randint(axis + 1, len(shape))  # of the axes that are named
    named = places[:count].reshape(count, *block[:count], -1)[..., 0]
    return scatter_nd(data, const(named, "int64"), rest, mode)


def one_hot_product(draw: Draw, product: str, operator: Any = one_hot) -> Any:
    """A product of one-hot rows with a constant table, by indices that are in range."""
    depth, units = draw.rng.choice((3, 5, 256)), draw.rng.randint(1, 4)
    places = Var("i", TensorType([draw.rng.randint(1, 3) for _ in range(draw.rng.randint(1, 2))], "int64"))
    rows = operator(clip(places, 0, depth - 1), const(1.0), const(0.0), depth, -1, "float32")
    if product == "dense":
        return nn.dense(rows, draw.constant((units, depth), "float32"))
    return nn.matmul(rows, draw.constant((depth, units), "float32"))


def repeated_heads(draw: Draw) -> Any:
    """Heads of which mostly each is repeated, or all are."""
    heads, times = draw.rng.randint(1, 3), draw.rng.randint(1, 3)
    lead, row = draw.rng.choice(((), (2,))), draw.rng.choice(((4, 5), (2, 3)))
    each = draw.chance(0.5)
    parts = (*lead, *((heads, 1) if each else (1, heads)), *row)
    split = Var("x", TensorType(parts, draw.dtype))
    shape = (*lead, *((heads, times) if each else (times, heads)), *row)
    spread = broadcast_to(split, shape) if draw.chance(0.5) else broadcast_to(split, const(np.asarray(shape)))
    return reshape(spread, newshape=(*lead, heads * times, *row) if draw.chance(0.8) else (-1, row[-1]))


def shuffled_channels(draw: Draw) -> Any:
    """Channels in groups, mostly exchanged with what is in a group."""
    groups, size, side = draw.rng.randint(1, 3), draw.rng.randint(1, 3), draw.rng.choice((4, 5))
    lead = draw.rng.choice(((), (2,), (1, 3)))
    image = (*lead, groups * size, side, side)
    order = [*range(len(lead)), len(lead) + 1, len(lead), len(lead) + 2, len(lead) + 3]
    if draw.chance(0.1):
        draw.rng.shuffle(order)
    split = reshape(Var("x", TensorType(image, draw.dtype)), newshape=(*lead, groups, size, side, side))
    return reshape(transpose(split, axes=order), newshape=image if draw.chance(0.7) else (-1, side))


def view_of_rows(draw: Draw) -> tuple[Any, tuple[int, ...]]:
    """A view of rows that mostly keeps them whole, and its shape."""
    shape = (2, draw.rng.randint(1, 3), draw.rng.randint(1, 3), 8)
    rows = (prod(shape[:-1]), 8) if draw.chance(0.9) else (prod(shape[:-2]), shape[-2] * 8)
    return reshape(Var("x", TensorType(rows, draw.dtype)), newshape=shape), shape


def transposed_rows(draw: Draw) -> Any:
    view, _ = view_of_rows(draw)
    order = draw.rng.sample(range(3), 3)
    return transpose(view, axes=[*order, 3] if draw.chance(0.9) else [3, *order])


def gathered_rows(draw: Draw) -> Any:
    view, shape = view_of_rows(draw)
    axis = draw.rng.choice((0, 1, 2, 2, 3))
    indices = np.asarray([draw.rng.randrange(shape[axis]) for _ in range(3)])
    return take(view, Constant(indices), axis=axis - draw.rng.choice((0, 4)), mode="fast")


def transposed_groups(draw: Draw, by_sizes: bool) -> Any:
    """A transpose of axes of which two are joined, mostly parted again as they were."""
    shape = [draw.rng.randint(1, 3) for _ in range(4)]
    at = draw.rng.randrange(3)
    joined = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
    order = draw.rng.sample(range(3), 3)
    data = Var("x", TensorType(shape, draw.dtype))
    whole = reshape(data, const(np.asarray(joined))) if by_sizes else reshape(data, newshape=joined)
    turned = transpose(whole, axes=order)
    parts = [shape[at : at + 2] if axis == at else [joined[axis]] for axis in order]
    if draw.chance(0.1):
        parts[0].reverse()
    sizes = [dim for part in parts for dim in part]
    return reshape(turned, const(np.asarray(sizes))) if by_sizes else reshape(turned, newshape=sizes)


def constant_behind_view(draw: Draw, operator: Callable[[Expr, Expr], Any]) -> Any:
    """A view of a product, whose axes it joins or parts, beside a constant that mostly varies along whole ones."""
    lead, parts, rows = draw.rng.randint(1, 2), [draw.rng.randint(1, 3) for _ in range(2)], draw.rng.randint(2, 4)
    joined, parted = (lead, prod(parts), rows), (lead, *parts, rows)
    before, after = (joined, parted) if draw.chance(0.5) else (parted, joined)
    own = [dim if draw.chance(0.1) else 1 for dim in after[:-1]]
    constant = Constant(draw.array(TensorType((*own, rows)[draw.rng.randint(0, len(own)) :], draw.dtype)))
    weight = Constant(draw.array(TensorType((3, rows), draw.dtype)))
    product = nn.matmul(Var("x", TensorType((*before[:-1], 3), draw.dtype)), weight)
    return operator(reshape(product, newshape=after), constant)


def along_an_axis(draw: Draw, calls: Sequence[Callable[[Expr, int], Any]], new: int = 0) -> Any:
    """A call of one of some operators on a tensor of two or three axes, with an axis from either end."""
    shape = [draw.rng.randint(1, 3) for _ in range(draw.rng.randint(2, 3))]
    rank = len(shape) + new
    return draw.rng.choice(calls)(Var("x", TensorType(shape, draw.dtype)), draw.rng.randrange(-rank, rank))


ALONG_AXES: tuple[Callable[[Expr, int], Any], ...] = (
    nn.softmax,
    nn.log_softmax,
    cumsum,
    cumprod,
    argsort,
    sort,
    reverse,
    lambda data, axis: repeat(data, 2, axis),
)


def of_transposed(draw: Draw, make: Callable[[Draw, Var, Var], Any], both: bool = False) -> tuple[Any, ...]:
    """Transposes, mostly of one order, of what is computed from a tensor, or from two, and of that tensor or both."""
    shape = [draw.rng.randint(1, 3) for _ in range(draw.rng.randint(2, 4))]
    data, other = (Var(name, TensorType(shape, draw.dtype)) for name in "xy")
    order, last = draw.rng.sample(range(len(shape)), len(shape)), [*range(len(shape))]
    turned = [transpose(each, axes=order) for each in (data, other)[: 1 + both]]
    return transpose(make(draw, data, other), axes=last if draw.chance(0.1) else order), *turned


def shape_of_variable(data: Var) -> Shape:
    ty = data.type_annotation
    assert isinstance(ty, TensorType)
    return ty.concrete_shape


def number_operand(draw: Draw, data: Var, *_: Var) -> Expr:
    """A constant that broadcasts against a tensor, of as many axes or fewer."""
    shape = [draw.rng.choice((1, dim)) for dim in shape_of_variable(data)]
    return draw.constant(shape[draw.rng.randint(0, 1) :], draw.dtype)


def part_of_axis(draw: Draw, data: Var, *_: Var) -> Any:
    """A slice of one or two axes."""
    rank = len(shape_of_variable(data))
    axes = draw.rng.sample(range(rank), draw.rng.randint(1, 2))
    begin = [draw.rng.randint(0, 1) for _ in axes]
    return strided_slice(
        data, begin=begin, end=[3 for _ in axes], axes=[axis - draw.rng.choice((0, rank)) for axis in axes]
    )


def field_of_split(draw: Draw, data: Var, *_: Var) -> Any:
    """A part of a split along an axis from either end."""
    shape = shape_of_variable(data)
    axis = draw.rng.randrange(-len(shape), len(shape))
    return split(data, shape[axis], axis)[draw.rng.randrange(shape[axis])]


def joined_with_nothing(draw: Draw) -> Expr:
    """A concatenation of several tensors, one of which mostly has no elements."""
    axis, shape = draw.rng.randrange(3), [2, 3, 2]
    lengths = [draw.chance(0.1), *[draw.rng.randint(0, 3) for _ in range(draw.rng.randint(1, 3))]]
    draw.rng.shuffle(lengths)
    types = [TensorType([*shape[:axis], int(length), *shape[axis + 1 :]], draw.dtype) for length in lengths]
    return concatenate([Var(f"x{index}", ty) for index, ty in enumerate(types)], axis - draw.rng.choice((0, 3)))


EXAMPLES: dict[str, Examples] = {
    **{
        f"transpose-of-{name}-of-transposed": partial(of_transposed, make=make, both=name == "binary")
        for name, make in {
            "unary": lambda draw, x, y: draw.rng.choice((nn.relu, negative))(x),
            "binary": lambda draw, x, y: draw.rng.choice((add, maximum, multiply, subtract))(x, y),
            "constant": lambda draw, x, y: draw.rng.choice((add, multiply, subtract))(x, number_operand(draw, x)),
            "ordered-constant": lambda draw, x, y: subtract(number_operand(draw, x), x),
            "slice": part_of_axis,
            "split": field_of_split,
        }.items()
    },
    "concat-of-nothing": joined_with_nothing,
    "axis-of-one-operand-from-front": partial(along_an_axis, calls=ALONG_AXES),
    "axis-of-two-operands-from-front": partial(
        along_an_axis,
        calls=[
            lambda data, axis: gather(data, axis, argsort(data, axis, dtype="int64")),
            lambda data, axis: take(data, const([0, 0]), axis),
        ],
    ),
    "axis-of-stack-from-front": partial(
        along_an_axis, calls=[lambda data, axis: stack([data, nn.relu(data)], axis)], new=1
    ),
    "halves-are-split": partial(divisions, count=2),
    **{
        f"{name}-of-{form}-block": partial(block_written, form=form, is_along_axis=is_along_axis)
        for name, is_along_axis in (("scatter", False), ("scatter-along-axis", True))
        for form in ("first", "last", "middle")
    },
    "scatter-of-every-row": partial(rows_written, every=True),
    "slice-of-what-was-written": partial(rows_written, every=False),
    "take-of-squares": squared_rows,
    "repeated-constant-once": partial(repeated_rows, first=False),
    "repeated-ordered-constant-once": partial(repeated_rows, first=True),
    "parts-are-split": lambda draw: nested_parts(draw) if draw.chance(0.5) else divisions(draw, draw.rng.randint(3, 5)),
    **{f"third-{index}-of-split": partial(third, index=index) for index in range(3)},
    "in-range-one-hot-dense": partial(one_hot_product, product="dense"),
    "in-range-one-hot-matmul": partial(one_hot_product, product="matmul"),
    **{
        f"in-range-signed-one-hot-{kind}": partial(one_hot_product, product=kind, operator=signed_one_hot)
        for kind in ("dense", "matmul")
    },
    "shift-into-view-of-product": partial(constant_behind_view, operator=add),
    "scale-into-view-of-product": partial(constant_behind_view, operator=multiply),
    "repeat-is-gather": repeated_heads,
    "dynamic-repeat-is-gather": repeated_heads,
    "shuffle-is-gather": shuffled_channels,
    "transpose-of-joined-axes": partial(transposed_groups, by_sizes=False),
    "transpose-of-axes-joined-by-sizes": partial(transposed_groups, by_sizes=True),
    "transpose-of-rows": transposed_rows,
    "gather-of-rows": gathered_rows,
}
