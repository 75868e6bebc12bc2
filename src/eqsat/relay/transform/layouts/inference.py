"""Which layouts operators take and give: the operator attribute ``FInferCorrectLayout`` of Relay's operators.

A rule is asked twice of a call: as it was written, for the layouts that its attributes and its arguments imply; and
once arguments have other layouts, for those that it can take, with the attributes that it has then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.op.types import axes_indices, axis_index
from eqsat.relay.traits import Trait
from eqsat.relay.transform.layouts.layout import Known, Layout, Part, changed_like, fitted_blocks, moved_axes
from eqsat.relay.ty import TensorType, TupleType, Type


@dataclass(frozen=True)
class InferCorrectLayoutOutput:
    """What a rule answers.

    Args:
        input_layouts: of each argument; fields of a tuple count one by one.
        output_layouts: of each output.
        new_attrs: the attributes of the call with these layouts.
    """

    input_layouts: Sequence[Any]
    output_layouts: Sequence[Any]
    new_attrs: Any


Answer: TypeAlias = InferCorrectLayoutOutput | None
"""None says that the operator takes the layouts as they were written and no others."""

Layouts: TypeAlias = Sequence[Known]

Rule: TypeAlias = Callable[[Any, Layouts | None, Layouts, Sequence[Type]], Answer]
"""``rule(attrs, new, old, types)``: the layouts of the arguments, None where nothing has changed yet; those that they
had as written; and their types as written."""

CHANNEL = Layout.parse("C")


def inferred(op: Op, attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    """What the rule of an operator answers; None where there is none, or a layout is not known.

    A rule that is registered as the operator attribute ``FInferCorrectLayout`` may give layouts as strings.
    """
    rule: Rule | None = op.get_attr("FInferCorrectLayout") or _RULES.get(op.name) or _of_traits(op)
    answer = None if rule is None else rule(attrs, new, old, types)
    if answer is None:
        return None
    inputs, outputs = (list(map(_known, each)) for each in (answer.input_layouts, answer.output_layouts))
    if None in inputs or None in outputs:
        return None
    return InferCorrectLayoutOutput(inputs, outputs, answer.new_attrs)


def _known(layout: Any) -> Known:
    return layout if isinstance(layout, Layout) else Layout.parse(str(layout)) if layout else None


def _of_traits(op: Op) -> Rule | None:
    if not op.has(Trait.ELEMENTWISE):
        return None
    return {1: _same, 2: _broadcast}.get(len(op.arguments or ()))


def _shape(ty: Type) -> Any:
    return ty.shape if isinstance(ty, TensorType) else ()


def _first(layouts: Layouts) -> Known:
    return next((layout for layout in layouts if layout is not None), None)


def _answer(inputs: Layouts, outputs: Layouts, attrs: Any) -> Answer:
    return InferCorrectLayoutOutput(inputs, outputs, attrs)


# ---- operators of any layout


def _same(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout = _first(old) if new is None else new[0]
    return _answer([layout] * len(old), [layout], attrs)


def _broadcast(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    shapes = list(map(_shape, types))
    large = 0 if len(shapes[0]) >= len(shapes[1]) else 1
    layouts = list(old)
    for defined, other in ((0, 1), (1, 0)):
        known = old[defined]
        if known is not None and old[other] is None:
            if len(shapes[defined]) < len(shapes[other]):
                return None
            layouts[other] = known.last(len(shapes[other]))
            large = defined
    first, second = layouts
    if first is None or second is None:
        return None
    if new is None:
        return _answer(layouts, [layouts[large]], attrs)
    left, right = new
    if left is None or right is None:
        return None
    # the operand of more axes decides, and the other changes in the same way
    leader = 0 if len(left.axes) >= len(right.axes) else 1
    led = 1 - leader
    pairs = [(first, left), (second, right)]
    wanted = changed_like(pairs[led][0], *pairs[leader])
    if wanted is None:
        return None
    result = [left, right]
    result[led] = fitted_blocks(wanted, pairs[led][0], shapes[led])
    if leader != large and result[large] != pairs[large][1]:
        return None
    return _answer(result, [pairs[large][1]], attrs)


# ---- operators whose attributes state layouts


def _products(others: int = 0) -> Rule:
    """Convolutions, to whose layouts the others adapt, with so many further arguments of channels."""

    def rule(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
        data, kernel = Layout.parse(attrs.data_layout), Layout.parse(attrs.kernel_layout)
        out = Layout.parse(attrs.out_layout) if attrs.out_layout else data
        return _answer([data, kernel, *[CHANNEL] * others], [out], attrs)

    return rule


def _deformable(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    """The moves have the layout of the data."""
    found = _products()(attrs, new, old, types)
    data, kernel = found.input_layouts  # type: ignore[union-attr]
    return _answer([data, data, kernel], found.output_layouts, attrs)  # type: ignore[union-attr]


def _regions(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    """Pools of regions, which take the layout that they state; a region is a row of five numbers."""
    layout = Layout.parse(attrs.layout)
    return _answer([layout, Layout.parse("NC")], [layout], attrs)


def _dense(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout = Layout.parse("NC")
    return _answer([layout, layout], [layout], attrs) if len(_shape(types[0])) == 2 else None


def _image(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    """Operators that treat the channels alike take any layout of the same axes that divides none but these."""
    stated = Layout.parse(attrs.layout)
    if attrs.get("out_layout"):
        return _answer([stated], [stated], attrs) if attrs.out_layout == attrs.layout else None
    wanted = stated if new is None else new[0]
    if wanted is None or set(wanted.axes) != set(stated.axes) or any(wanted.block(axis) for axis in "DHW"):
        wanted = stated
    return _answer([wanted], [wanted], attrs.replace(layout=wanted.name))


def _upsampling(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    stated = Layout.parse(attrs.layout)
    wanted = stated if new is None else new[0]
    if wanted is None or any(wanted.index(axis) != stated.index(axis) or wanted.block(axis) for axis in "DHW"):
        wanted = stated
    return _image(attrs.replace(layout=wanted.name), None, old, types)


def _resize(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    stated = Layout.parse(attrs.layout)
    follows = new is not None and new[0] is not None and old[0] == stated and len(new[0]) == len(stated)
    return _image(attrs, new if follows else None, old, types)


def _with_channels(rule: Rule, others: int, count: int = 1) -> Rule:
    """The rule of the first ``count`` arguments, of a call with so many others, of channels or scalars."""

    def extended(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
        first = rule(attrs, new and new[:count], old[:count], types[:count])
        if first is None:
            return None
        return _answer([*first.input_layouts, *[CHANNEL] * others], first.output_layouts, first.new_attrs)

    return extended


# ---- operators with axes


def _along_axis(inputs: int, outputs: int, keeps_batch: bool = False) -> Rule:
    """Operators along the attribute ``axis``, with so many arguments, all but the first of channels, and outputs."""

    def rule(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
        layout = old[0]
        if layout is None:
            return None
        if new is not None and new[0] is not None:
            axes = moved_axes([axis_index(attrs.axis, len(_shape(types[0])))], layout, new[0])
            if axes is None or (keeps_batch and moved_axes([0], layout, new[0]) != [0]):
                return None
            layout, attrs = new[0], attrs.replace(axis=axes[0])
        return _answer([layout, *[CHANNEL] * (inputs - 1)], [layout, *[CHANNEL] * (outputs - 1)], attrs)

    return rule


def _top_k(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    found = _along_axis(1, 1)(attrs, new, old, types)
    count = 2 if attrs.ret_type == "both" else 1
    return found and _answer(found.input_layouts, [*found.output_layouts] * count, found.new_attrs)


def _l2_normalize(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout = old[0]
    if layout is not None and new is not None and new[0] is not None:
        axes = moved_axes(axes_indices(attrs.axis, len(layout)), layout, new[0])
        if axes is None:
            return None
        layout, attrs = new[0], attrs.replace(axis=axes)
    return _answer([layout], [layout], attrs)


def _concatenate(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    (fields,) = types
    if not isinstance(fields, TupleType):
        return None
    axis = axis_index(attrs.axis, len(_shape(fields.fields[0])))
    first = _first(old)
    if first is None or len(first) <= axis or first[axis][1]:
        return None
    if new is not None and new[0] is not None and set(new) == {new[0]}:
        index = new[0].index(first[axis][0])
        if index is not None:
            return _answer(new, [new[0]], attrs.replace(axis=index))
    return _answer([first] * len(old), [first], attrs)


def _quantized_concatenate(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    count = len(types[0].fields) if isinstance(types[0], TupleType) else 0
    found = _concatenate(attrs, new and new[:count], old[:count], types[:1])
    if found is None:
        return None
    return _answer([*found.input_layouts, *[CHANNEL] * (len(old) - count)], found.output_layouts, found.new_attrs)


def _transpose(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout = old[0]
    if layout is None:
        return None
    axes = [axis_index(axis, len(layout)) for axis in attrs.axes or reversed(range(len(layout)))]
    if new is not None and new[0] is not None and len(new[0]) == len(layout):
        moved = moved_axes(axes, layout, new[0])
        if moved is not None:
            layout, axes = new[0], moved
    out = Layout(tuple([layout[axis] for axis in axes]))
    return _answer([layout], [out], attrs.replace(axes=axes))


def _squeeze(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout, shape = old[0], _shape(types[0])
    if layout is None:
        return None
    axes = [index for index, dim in enumerate(shape) if dim == 1]
    if attrs.axis is not None:
        axes = list(axes_indices(attrs.axis, len(shape)))
    if new is not None and new[0] is not None:
        moved = moved_axes(axes, layout, new[0])
        if moved is None:
            return None
        layout, axes, attrs = new[0], moved, attrs.replace(axis=moved)
    out = Layout(tuple([part for index, part in enumerate(layout.parts) if index not in axes]))
    return _answer([layout], [out], attrs)


def _slice(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout = old[0]
    if layout is None or new is None or new[0] in (None, layout):
        return _answer([layout], [layout], attrs)
    wanted: Any = new[0]
    if wanted.parts[: len(layout)] == layout.parts:
        bounds = _blocked_bounds(attrs, layout, wanted, _shape(types[0]))
        return None if bounds is None else _answer([wanted], [wanted], bounds)
    if layout.parts[: len(wanted)] == wanted.parts:
        return _answer([layout], [layout], attrs)
    if attrs.axes is not None:
        axes = moved_axes(attrs.axes, layout, wanted) if len(wanted) == len(layout) else None
        return None if axes is None else _answer([wanted], [wanted], attrs.replace(axes=axes))
    order = moved_axes(range(len(wanted)), wanted, layout) if len(wanted) == len(layout) else None
    if order is None:
        return None
    shape = _shape(types[0])
    given: list[tuple[str, Callable[[int], Any]]] = [
        ("begin", lambda index: 0), ("end", lambda index: shape[index]), ("strides", lambda index: 1)
    ]  # fmt: skip
    changes = {name: [attrs[name][at] if at < len(attrs[name]) else other(at) for at in order] for name, other in given}
    if attrs.slice_mode == "size":
        changes["strides"] = [1] * len(order)
    if not all(isinstance(bound, int) for bounds in changes.values() for bound in bounds):
        return None
    return _answer([wanted], [wanted], attrs.replace(**changes))


def _blocked_bounds(attrs: Any, old: Layout, new: Layout, shape: Sequence[Any]) -> Attrs | None:
    """The attributes of a slice once axes are divided into blocks; None if it cuts a block."""
    begins, ends = list(attrs.begin), list(attrs.end)
    if len(ends) != len(begins) or len(attrs.strides) > len(begins):
        return None
    for place, axis in enumerate(attrs.axes if attrs.axes is not None else range(len(begins))):
        block = new.block(old[axis][0])
        if block is None:
            continue
        if place < len(attrs.strides) and attrs.strides[place] != 1:
            return None
        if attrs.slice_mode == "size" and ends[place] < 0:
            if not isinstance(shape[axis], int):
                return None
            ends[place] = shape[axis] - begins[place]
        if begins[place] % block or ends[place] % block:
            return None
        begins[place] //= block
        ends[place] //= block
    result: Attrs = attrs.replace(begin=begins, end=ends)
    return result


def _split(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout, cuts = old[0], attrs.indices_or_sections
    if layout is None:
        return None
    count = cuts if isinstance(cuts, int) else len(cuts) + 1
    axis = axis_index(attrs.axis, len(layout))
    letter, size = layout[axis][0], _shape(types[0])[axis]
    index = None if new is None or new[0] is None else new[0].index(letter)
    if new is not None and new[0] is not None and index is not None and not layout[axis][1]:
        block = new[0].block(letter) or 1
        lengths = [size // cuts] if isinstance(cuts, int) and isinstance(size, int) else cuts
        if block == 1 or (not isinstance(lengths, int) and not any(length % block for length in lengths)):
            cuts = cuts if isinstance(cuts, int) else [cut // block for cut in cuts]
            layout, attrs = new[0], attrs.replace(axis=index, indices_or_sections=cuts)
    return _answer([layout], [layout] * count, attrs)


def _slice_like(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    first, second = old
    if new is not None and new[0] is not None and new[0] == new[1] and first is not None and first == second:
        axes = moved_axes(attrs.axes or (), first, new[0])
        if axes:
            return _answer(new, [new[0]], attrs.replace(axes=axes))
    return _answer(old, [first if first is not None and attrs.axes else second], attrs)


def _reduction(is_arg: bool = False) -> Rule:
    """Reductions; those that give places count them over the reduced axes in order, which must stay."""

    def rule(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
        written = old[0]
        rank = len(_shape(types[0]))
        reduced = axes_indices(attrs.axis, rank, attrs.exclude)
        if written is None or len(written) != rank:
            return None
        letters = {written[axis] for axis in reduced}
        layout = written if new is None or not reduced else new[0]
        if layout is None or any(block for _, block in letters):
            return None
        if len(old) > 1 and any(layout.block(axis) for axis, _ in letters):  # the mean has blocks of 1 there
            return None
        if is_arg and new is not None:
            places = moved_axes(reduced, written, layout)
            if places is None or places != sorted(places):
                return None
        if new is not None and reduced and attrs.axis is not None:
            goes = [(axis, 0) in letters for axis, _ in layout.parts]
            attrs = attrs.replace(axis=[index for index, each in enumerate(goes) if each != bool(attrs.exclude)])
        return _reduced(attrs, layout, letters, len(old))

    return rule


def _reduced(attrs: Any, layout: Layout, letters: set[Part], inputs: int) -> Answer:
    """The answer of a reduction of a tensor of this layout over some axes and their blocks."""
    out = []
    for axis, block in layout.parts:
        if (axis, 0) not in letters:
            out.append((axis, block))
        elif attrs.keepdims:
            out.append((axis, 1 if block else 0))
    return _answer([layout] * inputs, [Layout(tuple(out))], attrs)


# ---- others


def _prelu(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    return _answer([old[0], CHANNEL], [old[0]], attrs)


def _pad(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    """Padding moves with its axes; one that is padded is not divided into blocks."""
    layout = old[0]
    if layout is not None and new is not None and new[0] is not None:
        widths = dict(zip([axis for axis, _ in layout.parts], attrs.pad_width, strict=False))
        found = [widths.get(axis, (0, 0)) for axis, _ in new[0].parts]
        if layout.is_whole and not any(any(widths[axis]) for axis in widths if new[0].block(axis)):
            layout, attrs = new[0], attrs.replace(pad_width=found)
    return _answer([layout, Layout()], [layout], attrs)


def _requantize(attrs: Any, new: Layouts | None, old: Layouts, types: Sequence[Type]) -> Answer:
    layout = old[0]
    if layout is not None and new is not None and new[0] is not None:
        scalars = not any(_shape(ty) for ty in types[1:])
        wanted = new[0] if scalars else Layout(tuple([part for part in new[0].parts if not part[1]]))
        index = wanted.index(layout[axis_index(attrs.axis, len(layout))][0])
        if index is None:
            return None
        layout, attrs = wanted, attrs.replace(axis=index)
    return _answer([layout, *[CHANNEL] * (len(old) - 1)], [layout], attrs)


_CONVOLUTIONS = (
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose"
    " nn.contrib_conv2d_NCHWc nn.contrib_depthwise_conv2d_NCHWc"
)
_POOLS = [
    f"nn.{kind}{fold}_pool{rank}d"
    for rank in (1, 2, 3)
    for fold in ("max", "avg")
    for kind in ("", "global_", "adaptive_")
]
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_CONVOLUTIONS.split(), _products()),
    **dict.fromkeys(_POOLS, _image),
    **dict.fromkeys(["argmax", "argmin"], _reduction(is_arg=True)),
    **dict.fromkeys(["all", "any", "max", "mean", "min", "prod", "sum", "variance"], _reduction()),
    **dict.fromkeys(["cast_like", "copy", "nn.dropout", "reinterpret"], _same),
    **dict.fromkeys(["image.resize1d", "image.resize2d"], _resize),
    **dict.fromkeys(["nn.dense", "nn.matmul"], _dense),
    **dict.fromkeys(["nn.upsampling", "nn.upsampling3d"], _upsampling),
    **dict.fromkeys(["qnn.add", "qnn.subtract", "qnn.mul"], _with_channels(_broadcast, 6, count=2)),
    "concatenate": _concatenate,
    "nn.batch_norm": _along_axis(5, 3),
    "nn.deformable_conv2d": _deformable,
    "nn.instance_norm": _along_axis(3, 1, keeps_batch=True),
    "nn.l2_normalize": _l2_normalize,
    "nn.layer_norm": _along_axis(3, 1),
    "nn.pad": _pad,
    "nn.prelu": _prelu,
    "qnn.avg_pool2d": _with_channels(_image, 4),
    "qnn.concatenate": _quantized_concatenate,
    "qnn.conv2d": _products(4),
    "qnn.conv2d_transpose": _products(4),
    "qnn.requantize": _requantize,
    "slice_like": _slice_like,
    "split": _split,
    "squeeze": _squeeze,
    "strided_slice": _slice,
    "topk": _top_k,
    "transpose": _transpose,
    "vision.roi_align": _regions,
    "vision.roi_pool": _regions,
}
