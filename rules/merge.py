"""Products that share an operand merged into one, as TASO and TENSAT do: sibling convolutions, matrix products, gates.

Weights are joined by concatenation and the result is split again; where weights are constants the concatenation is
done before run time. Whether one large product is cheaper than several is for the cost model to say: this set is
opt-in, and meant to be used with a model of a device.

Of TASO's and TENSAT's rules left out: those on sums and concatenations of a product with a product of that product
follow, for constant weights, from the chains and common factors of :mod:`eqsat.rules.linear`, and gain nothing for
others; products of one weight that nothing joins yet, joined along the batch, make steps of a recurrence depend on
themselves; two activations joined and split again are nothing but growth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqsat.egraph.author import attrs_of, compute, constants, like, rewrite, type_of, value_of, variables, when
from eqsat.egraph.group_rules import GroupRule
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_op, is_tuple, is_tuple_get_item
from eqsat.relay.expr import Constant, Var
from eqsat.relay.op import concatenate, sigmoid, split, tanh
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.draw import Draw
from eqsat.rules.siblings import (
    BatchMatrices,
    Convolutions,
    Enlarged,
    Gates,
    Matrices,
    Siblings,
    Stacked,
    b,
    divided,
    is_nchw,
    joined,
    w,
    x,
    y,
)

ROUNDING = Soundness.ROUNDING

u, v = variables("u v")
(k,) = constants("k")

# ---- instances for the verifier


def _tensor(draw: Draw, name: str, *shape: int) -> Any:
    return Var(name, TensorType(shape, "float32"))


def sibling_convs(biased: bool, activation: Any, sizes: Sequence[int]) -> Callable[[Draw], Any]:
    """Two or three convolutions of one image, with kernels of these sizes."""

    def examples(draw: Draw) -> Any:
        channels, side = draw.rng.randint(1, 3), draw.rng.randint(3, 6)
        stride = draw.rng.choice((1, 1, 2))
        data = _tensor(draw, "x", draw.rng.choice((1, 1, 2)), channels, side, side)
        first = draw.rng.choice(sizes)
        roots = []
        for index in range(draw.rng.randint(2, 3)):
            size = sizes[index % len(sizes)] if len(sizes) > 1 and draw.chance(0.8) else first
            length = draw.rng.randint(1, 4)
            weight = _tensor(draw, f"w{index}", length, channels, size, size)
            value = nn.conv2d(data, weight, padding=size // 2, strides=stride)
            value = nn.bias_add(value, _tensor(draw, f"b{index}", length)) if biased else value
            roots.append(value if activation is None else activation(value))
        return tuple(roots)

    return examples


def sibling_denses(biased: bool, activation: Any) -> Callable[[Draw], Any]:
    """Two or three dense layers of one matrix."""

    def examples(draw: Draw) -> Any:
        inner = draw.rng.randint(1, 4)
        data = _tensor(draw, "x", draw.rng.randint(0, 3), inner)
        roots = []
        for index in range(draw.rng.randint(2, 3)):
            length = draw.rng.randint(1, 4)
            value = nn.dense(data, _tensor(draw, f"w{index}", length, inner))
            value = nn.bias_add(value, _tensor(draw, f"b{index}", length), axis=-1) if biased else value
            roots.append(value if activation is None else activation(value))
        return tuple(roots)

    return examples


def sibling_matmuls(biased: bool, activation: Any) -> Callable[[Draw], Any]:
    """Two or three products of one matrix, or of several, with matrices that are not transposed."""

    def examples(draw: Draw) -> Any:
        inner, batch = draw.rng.randint(1, 4), [2] * draw.rng.choice((0, 0, 1))
        data = _tensor(draw, "x", *batch, draw.rng.randint(1, 3), inner)
        lead = batch if draw.chance(0.5) and not biased else []
        roots = []
        for index in range(draw.rng.randint(2, 3)):
            length = draw.rng.randint(1, 4)
            value = nn.matmul(data, _tensor(draw, f"w{index}", *lead, inner, length))
            value = nn.bias_add(value, _tensor(draw, f"b{index}", length), axis=-1) if biased else value
            roots.append(value if activation is None else activation(value))
        return tuple(roots)

    return examples


def sibling_batches(draw: Draw) -> Any:
    """Two or three products of one batch of matrices with transposed ones."""
    inner, batch = draw.rng.randint(1, 4), draw.rng.randint(1, 3)
    data = _tensor(draw, "x", batch, draw.rng.randint(1, 3), inner)
    lead = draw.rng.choice((batch, 1))
    weights = [_tensor(draw, f"w{at}", lead, draw.rng.randint(1, 4), inner) for at in range(draw.rng.randint(2, 3))]
    return tuple(nn.batch_matmul(data, weight) for weight in weights)


def stacked_denses(draw: Draw) -> Any:
    """Two or three dense layers of one matrix, mostly of as many outputs."""
    inner, length = draw.rng.randint(1, 4), draw.rng.randint(1, 4)
    data = _tensor(draw, "x", draw.rng.randint(0, 3), inner)
    lengths = [length if draw.chance(0.9) else 2 for _ in range(draw.rng.randint(2, 3))]
    return tuple(nn.dense(data, _tensor(draw, f"w{at}", each, inner)) for at, each in enumerate(lengths))


def gate_sums(activation: Any) -> Callable[[Draw], Any]:
    """Two or three sums of products of the same two matrices."""

    def examples(draw: Draw) -> Any:
        rows, inner, other = draw.rng.randint(1, 3), draw.rng.randint(1, 4), draw.rng.randint(1, 4)
        data, state = _tensor(draw, "x", rows, inner), _tensor(draw, "y", rows, other)
        roots = []
        for index in range(draw.rng.randint(2, 3)):
            length = draw.rng.randint(1, 4)
            value = nn.dense(data, _tensor(draw, f"w{index}", length, inner))
            value = value + nn.dense(state, _tensor(draw, f"v{index}", length, other))
            roots.append(value if activation is None else activation(value))
        return tuple(roots)

    return examples


# ---- the rules

ACTIVATIONS: dict[str, Any] = {"": None, "-relu": nn.relu, "-sigmoid": sigmoid, "-tanh": tanh}

conv, dense, matmul = nn.conv2d(x, w), nn.dense(x, w), nn.matmul(x, w)
batch_matmul = nn.batch_matmul(x, w)


def sibling_rules() -> list[GroupRule]:
    """One rule for each thing that may follow the products."""
    found: list[GroupRule] = []
    for suffix, activation in ACTIVATIONS.items():
        for bias in (False, True):
            name = f"{'-bias' * bias}{suffix}"
            biased_conv, biased_dense = (nn.bias_add(conv, b), nn.bias_add(dense, b)) if bias else (None, None)
            if suffix in ("", "-relu"):
                equal = sibling_convs(bias, activation, (1,)), sibling_convs(bias, activation, (1, 3))
                same = Convolutions(conv, biased_conv, activation, 1)
                found.append(same.rule(f"sibling-convs{name}", equal[0]))
                found.append(Enlarged(conv, biased_conv, activation, 1).rule(f"enlarged-convs{name}", equal[1]))
            rows = Siblings(dense, biased_dense, activation, -1)
            found.append(rows.rule(f"sibling-denses{name}", sibling_denses(bias, activation)))
            matrices = Matrices(matmul, nn.bias_add(matmul, b) if bias else None, activation, -1)
            found.append(matrices.rule(f"sibling-matmuls{name}", sibling_matmuls(bias, activation)))
        found.append(Gates(activation).rule(f"gates{suffix}", gate_sums(activation)))
    found.append(Stacked(dense, None, None, 0).rule("stacked-denses", stacked_denses))
    found.append(BatchMatrices(batch_matmul, None, None, -1).rule("sibling-batch-matmuls", sibling_batches))
    return found


def is_whole(count: int) -> Callable[..., bool]:
    """Guard: ``count`` parts are all there are, and they are joined along the axis they were cut on."""

    def holds(concat: Any, parts: Any, ty: TensorType) -> bool:
        cuts = parts.indices_or_sections
        sections = cuts if isinstance(cuts, int) else len(cuts) + 1
        rank = len(ty.shape)
        return bool(sections == count and axis_index(concat.axis, rank) == axis_index(parts.axis, rank))

    return holds


def joined_again(count: int) -> Any:
    """concat(split(x).0, split(x).1, ..) = x"""
    parts = split(x)
    whole = concatenate(is_tuple([is_tuple_get_item(parts, index) for index in range(count)]))
    return rewrite(
        f"concat-of-split-{count}",
        whole,
        x,
        when(is_whole(count), attrs_of(whole), attrs_of(parts), type_of(x)),
        examples=lambda draw: _cut_and_joined(draw, count),
    )


def _cut_and_joined(draw: Draw, count: int) -> Any:
    axis = draw.rng.randrange(2)
    lengths = [draw.rng.randint(1, 3) for _ in range(count)]
    shape = [draw.rng.randint(0, 3)] * 2
    shape[axis] = sum(lengths)
    return joined(divided(_tensor(draw, "x", *shape), lengths, axis), axis - draw.rng.choice((0, 2)))


first_conv, second_conv = nn.conv2d(x, u), nn.conv2d(y, v)
inner_dense = nn.dense(x, u)
outer_dense = nn.dense(inner_dense, k)


def may_add_up(first: Any, second: Any, weight: Any, other: Any, ty: TensorType, another: TensorType) -> bool:
    """Guard: two convolutions differ in their operands only, so that their sum is one over more channels."""
    plain = first is not None and first == second and is_nchw(first) and first.groups == 1
    static = all(map(is_static, (weight, other, ty, another)))
    return bool(plain and static and weight.shape[2:] == other.shape[2:] and ty == another)


def _plain_dense(first: Any, second: Any) -> bool:
    return first.get("out_dtype") in (None, "") and second.get("out_dtype") in (None, "")


def is_matrix(value: Any) -> bool:
    return bool(value.ndim == 2)


def _dense_of_dense(draw: Draw) -> Any:
    inner, between, outer = (draw.rng.randint(1, 4) for _ in range(3))
    data = _tensor(draw, "x", draw.rng.randint(0, 3), inner)
    weight = Constant(draw.array(TensorType((outer, between), "float32")))
    return nn.dense(nn.dense(data, _tensor(draw, "u", between, inner)), weight)


def _added_convs(draw: Draw) -> Any:
    side, length, size = draw.rng.randint(2, 5), draw.rng.randint(1, 3), draw.rng.choice((1, 3))
    sums = []
    for name in "xy":
        channels = draw.rng.randint(1, 3)
        data = _tensor(draw, name, 1, channels, side, side)
        sums.append(nn.conv2d(data, _tensor(draw, f"w{name}", length, channels, size, size), padding=size // 2))
    return sums[0] + sums[1]


def are_denses_of_rows(first: Any, second: Any, ty: TensorType, other: TensorType, *weights: TensorType) -> bool:
    """Guard: two dense layers of as many rows and outputs, whose sum broadcasts nothing."""
    same = ty.shape[:-1] == other.shape[:-1] and is_static(ty) and is_static(other)
    return bool(_plain_dense(first, second) and same and weights[0].shape[0] == weights[1].shape[0])


def is_by_rows(concat: Any, first: Any, second: Any, ty: TensorType) -> bool:
    """Guard: results of dense layers of equal attributes are joined along another axis than the outputs."""
    return bool(first == second and axis_index(concat.axis, len(ty.shape)) < len(ty.shape) - 1)


def is_by_batch(concat: Any, first: Any, second: Any, ty: TensorType) -> bool:
    """Guard: results of convolutions of equal attributes are joined along the batch."""
    return bool(first == second and is_nchw(first) and axis_index(concat.axis, len(ty.shape)) == 0)


def one_weight(name: str, first: Any, second: Any, holds: Any, examples: Any) -> Any:
    """concat(f(x, w), f(y, w)) = f(concat(x, y), w)"""
    whole = concatenate(is_tuple([first, second]))
    axis = compute(lambda attrs, ty: axis_index(attrs.axis, len(ty.shape)), attrs_of(whole), type_of(first))
    return rewrite(
        name,
        whole,
        like(first, concatenate(is_tuple([x, y]), axis=axis), w),
        when(holds, attrs_of(whole), attrs_of(first), attrs_of(second), type_of(first)),
        soundness=ROUNDING,
        examples=examples,
    )


def _joined_denses(draw: Draw) -> Any:
    inner, weight = draw.rng.randint(1, 4), draw.rng.randint(1, 4)
    shared = _tensor(draw, "w", weight, inner)
    rows = [_tensor(draw, name, draw.rng.randint(0, 3), 2, inner) for name in "xy"]
    return concatenate([nn.dense(row, shared) for row in rows], axis=draw.rng.choice((0, -3)))


def _joined_convs(draw: Draw) -> Any:
    size = draw.rng.choice((1, 3))
    shared = _tensor(draw, "w", 2, 3, size, size)
    images = [_tensor(draw, name, draw.rng.randint(1, 2), 3, 4, 4) for name in "xy"]
    return concatenate([nn.conv2d(image, shared, padding=size // 2) for image in images], axis=0)


def _added_denses(draw: Draw) -> Any:
    rows, length = draw.rng.randint(0, 3), draw.rng.randint(1, 4)
    inner = [draw.rng.randint(1, 4) for _ in range(2)]
    parts = [nn.dense(_tensor(draw, f"x{n}", rows, n), _tensor(draw, f"w{n}", length, n)) for n in inner]
    return parts[0] + parts[1]


first_dense, second_dense = nn.dense(x, u), nn.dense(y, v)

siblings = RuleSet("siblings", [*sibling_rules(), *[joined_again(count) for count in range(2, 7)]])

sums = RuleSet(
    "sums",
    [
        # conv(x, u) + conv(y, v) = conv(concat(x, y), concat(u, v))
        rewrite(
            "add-convs",
            first_conv + second_conv,
            like(
                first_conv,
                concatenate(is_tuple([x, y]), axis=1),
                concatenate(is_tuple([u, v]), axis=1),
            ),
            when(
                may_add_up,
                attrs_of(first_conv),
                attrs_of(second_conv),
                type_of(u),
                type_of(v),
                type_of(first_conv),
                type_of(second_conv),
            ),
            soundness=ROUNDING,
            examples=_added_convs,
        ),
        # x u' + y v' = concat(x, y) concat(u, v)'
        rewrite(
            "add-denses",
            first_dense + second_dense,
            like(first_dense, concatenate(is_tuple([x, y]), axis=-1), concatenate(is_tuple([u, v]), axis=1)),
            when(
                are_denses_of_rows,
                attrs_of(first_dense),
                attrs_of(second_dense),
                type_of(x),
                type_of(y),
                type_of(u),
                type_of(v),
            ),
            soundness=ROUNDING,
            examples=_added_denses,
        ),
        one_weight("joined-denses", nn.dense(x, w), nn.dense(y, w), is_by_rows, _joined_denses),
        one_weight("joined-convs", nn.conv2d(x, w), nn.conv2d(y, w), is_by_batch, _joined_convs),
        # (x u') k' = x (k u)'; k is at hand, so that of the ways to multiply a chain of weights only one is made
        rewrite(
            "dense-of-dense",
            outer_dense,
            like(
                outer_dense,
                x,
                is_op("nn.matmul")(k, u),
                units=compute(lambda attrs: attrs.units, attrs_of(outer_dense)),
            ),
            when(_plain_dense, attrs_of(inner_dense), attrs_of(outer_dense)),
            when(is_matrix, value_of(k)),
            soundness=Soundness.FINITE,
            examples=_dense_of_dense,
        ),
    ],
)

merge = RuleSet("merge", [siblings, sums])
