"""Two slices that divide an axis are one split, as of the halves of a rotary embedding or a gated unit."""

from __future__ import annotations

from eqsat.egraph.author import attrs_of, refuse, rewrite, type_of, variables
from eqsat.egraph.rule import Refusal, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_tuple_get_item
from eqsat.relay.op import split, strided_slice
from eqsat.relay.ty import TensorType
from eqsat.rules.slices import ranges
from eqsat.rules.types import Shape
from eqsat.rules.values import computed_parts

(x,) = variables("x")

head, tail = strided_slice(x), strided_slice(x)


def halves(first: Attrs, second: Attrs, ty: TensorType) -> tuple[Shape, int] | Refusal:
    """Where two slices divide an axis, and that axis."""
    one, other = ranges(first, ty), ranges(second, ty)
    if not isinstance(one, dict) or not isinstance(other, dict):
        return refuse("what the slices take is not known")
    parts = [{axis: part for axis, part in found.items() if part != _whole(ty, axis)} for found in (one, other)]
    if parts[0].keys() != parts[1].keys() or len(parts[0]) != 1:
        return refuse("the slices do not take parts of one axis")
    ((axis, low),) = parts[0].items()
    high = parts[1][axis]
    if low.step != 1 or high.step != 1 or (low.start, low.stop, high.stop) != (0, high.start, ty.shape[axis]):
        return refuse("the slices do not follow each other, or leave something out")
    return (high.start,), axis


def _whole(ty: TensorType, axis: int) -> range:
    """The range of all elements of an axis."""
    dim = ty.shape[axis]
    return range(dim) if isinstance(dim, int) else range(0)


divided = computed_parts(halves, attrs_of(head), attrs_of(tail), type_of(x))
parts = split(x, indices_or_sections=divided(0), axis=divided(1))

partitions = RuleSet(
    "partitions",
    [
        rewrite(
            "halves-are-split",
            (head.has_attr({"begin": (0,)}), tail),
            (is_tuple_get_item(parts, 0), is_tuple_get_item(parts, 1)),
        )
    ],
)
