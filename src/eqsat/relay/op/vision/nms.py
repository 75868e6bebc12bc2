"""Non-maximum suppression: of boxes that overlap much, the one of the highest score stays.

A box is four numbers, two opposite corners. The overlap of two boxes is the area of their intersection over that of
their union. Boxes of equal score are taken in the order in which they are given. Results have as many rows as there
are boxes; rows without a box are -1 where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op.denotation import BY_RANK
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.order import order_of
from eqsat.relay.op.parameters import with_numbers
from eqsat.relay.op.types import ranked, tensor, unify
from eqsat.relay.ty import TensorType, TupleType, Type


def _overlaps(boxes: Any) -> Callable[[int], Any]:
    """The function from the number of a box to its overlap with each of ``boxes`` (N, 4)."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = np.prod(high - low, axis=1)

    def with_box(index: int) -> Any:
        extents = np.minimum(high[index], high) - np.maximum(low[index], low)
        shared = np.prod(np.maximum(extents, 0), axis=1)
        union = areas[index] + areas - shared
        return np.where(union > 0, shared / np.where(union > 0, union, 1), 0)

    return with_box


def _descending(scores: Any) -> Any:
    return order_of(scores, 0, ascending=False)


# ---- boxes above a score


def _valid_counts_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = ranked(args[0], 3, "data")
    ranked(args[1], 0, "score_threshold")
    return TupleType([TensorType(data.shape[:1], "int32"), data, TensorType(data.shape[:2], "int32")])


def _valid_counts(attrs: Any, data: Any, threshold: Any) -> Any:
    valid = data[:, :, attrs.score_index] > threshold
    if attrs.id_index >= 0:
        valid = valid & (data[:, :, attrs.id_index] >= 0)
    rows, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for index, mask in enumerate(valid):
        (chosen,) = np.nonzero(mask)
        rows[index, : len(chosen)] = data[index, chosen]
        places[index, : len(chosen)] = chosen
    return valid.sum(axis=1, dtype=np.int32), rows, places


get_valid_counts = with_numbers(
    define(
        "vision.get_valid_counts",
        "data score_threshold",
        Field("id_index", "int", 0),
        Field("score_index", "int", 1),
        infer=_valid_counts_type,
        kernel=_valid_counts,
        kind=OpPattern.OPAQUE,
        outputs=3,
    ),
    score_threshold=(None, "float32"),
)
"""How many boxes (N, boxes, elements) have a score above a threshold, these boxes first, and their places."""

# ---- suppression in one list of boxes


def _suppression_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = ranked(args[0], 3, "data")
    ranked(args[1], 1, "valid_count")
    ranked(args[3], 0, "max_output_size")
    ranked(args[4], 0, "iou_threshold")
    if not attrs.return_indices:
        return data
    ranked(args[2], 2, "indices")
    return TupleType([TensorType(data.shape[:2], "int32"), TensorType((data.shape[0], 1), "int32")])


def _suppressed(attrs: Any, rows: Any, limit: int, threshold: Any) -> Any:
    """Which of ``rows``, in descending order of score, overlap a better one of their class, or come after the last."""
    scores = rows[:, attrs.score_index]
    classes = rows[:, attrs.id_index] if attrs.id_index >= 0 else np.zeros(len(rows))
    overlaps = _overlaps(rows[:, attrs.coord_start : attrs.coord_start + 4])
    gone, count = np.zeros(len(rows), bool), 0
    for index, score in enumerate(scores):
        if count == limit:
            gone[index:] = True
            break
        if gone[index] or score <= 0:
            continue
        count += 1
        if classes[index] < 0:
            continue
        hit = (overlaps(index) >= threshold) & (scores > 0)
        gone[index + 1 :] |= (hit & (attrs.force_suppress | (classes == classes[index])))[index + 1 :]
    return gone


def _suppress(attrs: Any, data: Any, valid_count: Any, indices: Any, limit: Any, threshold: Any) -> Any:
    rows, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for index, (boxes, count) in enumerate(zip(data, np.clip(valid_count, 0, data.shape[1]), strict=True)):
        order, kept = np.arange(count), np.ones(count, bool)
        if threshold > 0:
            order = _descending(boxes[:count, attrs.score_index])[: attrs.top_k if attrs.top_k > 0 else None]
            kept = ~_suppressed(attrs, boxes[order], int(limit), threshold)
        if attrs.invalid_to_bottom:
            kept &= boxes[order, 0] >= 0
            order, kept = order[kept], kept[kept]
        rows[index, : len(order)][kept] = boxes[order[kept]]
        if attrs.return_indices:
            found = indices[index, order[kept]]
            places[index, : np.sum(found >= 0)] = found[found >= 0]
    return (places, (places >= 0).sum(axis=1, dtype=np.int32, keepdims=True)) if attrs.return_indices else rows


non_max_suppression = with_numbers(
    define(
        "vision.non_max_suppression",
        "data valid_count indices max_output_size iou_threshold",
        Field("force_suppress", "bool", False),  # also boxes of another class
        Field("top_k", "int", -1),
        Field("coord_start", "int", 2),
        Field("score_index", "int", 1),
        Field("id_index", "int", 0),
        Field("return_indices", "bool", True),
        Field("invalid_to_bottom", "bool", False),
        infer=_suppression_type,
        kernel=_suppress,
        denotation=BY_RANK,
        kind=OpPattern.OPAQUE,
        outputs=lambda attrs: 2 if attrs.return_indices else None,
    ),
    max_output_size=(-1, "int32"),
    iou_threshold=(0.5, "float32"),
)
"""What stays of the first ``valid_count`` boxes (N, boxes, elements): their ``indices`` and how many, or the boxes.

Boxes are returned where they stand in descending order of score.
"""

# ---- suppression in each class by itself


def _all_class_type(attrs: Any, args: Sequence[Type]) -> Type:
    boxes, scores = ranked(args[0], 3, "boxes"), ranked(args[1], 3, "scores")
    batch = unify(boxes.shape[0], scores.shape[0], "the batches of boxes and scores,")
    count = unify(boxes.shape[1], scores.shape[2], "the numbers of boxes and scores,")
    unify(boxes.shape[2], 4, "the last dimension of boxes,")
    for ty, what in zip(args[2:], ("max_output_boxes_per_class", "iou_threshold", "score_threshold"), strict=True):
        if tensor(ty).shape != (1,):  # ONNX's own parameters may have one dimension
            ranked(ty, 0, what)
    rows = multiply_dims(scores.shape[1], count)
    if attrs.output_format == "onnx":
        return TupleType([TensorType((multiply_dims(batch, rows), 3), "int64"), TensorType((1,), "int64")])
    parts = [TensorType((batch, rows, 2), "int64"), TensorType((batch, rows), "float32"), TensorType((batch,), "int64")]
    return TupleType(parts)


def _best(boxes: Any, scores: Any, limit: int, threshold: float, least: float) -> list[int]:
    """The boxes (N, 4) of one class that stay, in descending order of score."""
    order = _descending(scores)
    order = order[scores[order] > least] if threshold > 0 else order[:0]
    found, best = scores[order], list[int]()
    overlaps, gone = _overlaps(boxes[order]), found <= -1
    for index in range(len(order)):
        if len(best) == (limit if limit > 0 else len(order)):
            break
        if not gone[index]:
            best.append(int(order[index]))
            gone[index + 1 :] |= ((overlaps(index) >= threshold) & (found > 0))[index + 1 :]
    return best


def _all_class(attrs: Any, boxes: Any, scores: Any, limit: Any, threshold: Any, least: Any) -> Any:
    batch, classes, count = scores.shape
    parameters = (int(limit.item()), float(threshold.item()), float(least.item()))
    found = [
        [(which, box) for which, each in enumerate(of_class) for box in _best(corners, each, *parameters)]
        for corners, of_class in zip(boxes, scores, strict=True)
    ]
    counts = np.array([len(pairs) for pairs in found], np.int64)
    if attrs.output_format == "onnx":
        rows = np.zeros((batch * classes * count, 3), np.int64)
        triples = [(index, *pair) for index, pairs in enumerate(found) for pair in pairs]
        rows[: len(triples)] = np.array(triples, np.int64).reshape(-1, 3)
        return rows, counts.sum(keepdims=True)
    rows, values = np.zeros((batch, classes * count, 2), np.int64), np.zeros((batch, classes * count), np.float32)
    for index, pairs in enumerate(found):
        places = np.array(pairs, np.int64).reshape(-1, 2)
        rows[index, : len(pairs)] = places
        values[index, : len(pairs)] = scores[index, places[:, 0], places[:, 1]]
    return rows, values, counts


all_class_non_max_suppression = with_numbers(
    define(
        "vision.all_class_non_max_suppression",
        "boxes scores max_output_boxes_per_class iou_threshold score_threshold",
        Field("output_format", "str", "onnx", choices=("onnx", "tensorflow")),
        infer=_all_class_type,
        kernel=_all_class,
        denotation=BY_RANK,
        kind=OpPattern.OPAQUE,
        outputs=lambda attrs: 2 if attrs.output_format == "onnx" else 3,
    ),
    max_output_boxes_per_class=(-1, "int32"),
    iou_threshold=(-1.0, "float32"),
    score_threshold=(-1.0, "float32"),
)
"""The boxes (N, boxes, 4) that stay in each class by its scores (N, classes, boxes).

``onnx``: rows of batch, class and box, and how many there are. ``tensorflow``: for each batch rows of class and box,
their scores, and how many there are. The other rows are 0.
"""

# ---- suppression in each class, and the best boxes of all classes


def _regular_type(attrs: Any, args: Sequence[Type]) -> Type:
    boxes, scores = ranked(args[0], 3, "boxes"), ranked(args[1], 3, "scores")
    batch = unify(boxes.shape[0], scores.shape[0], "the batches of boxes and scores,")
    unify(boxes.shape[1], scores.shape[1], "the numbers of boxes and scores,")
    unify(boxes.shape[2], 4, "the last dimension of boxes,")
    classes = scores.shape[2]
    if isinstance(classes, int) and not 0 <= attrs.num_classes <= classes:
        raise TypeCheckError(f"there are no {attrs.num_classes} classes among scores of {classes}")
    rows = (batch, attrs.max_detections)
    return TupleType([TensorType((*rows, 4)), TensorType(rows), TensorType(rows), TensorType((batch,), "int32")])


def _of_class(attrs: Any, boxes: Any, scores: Any) -> Any:
    """The numbers of the boxes (N, 4) of one class that stay, in descending order of score."""
    order = _descending(scores)
    order = order[scores[order] >= attrs.score_threshold]
    overlaps, gone, best = _overlaps(boxes[order]), np.zeros(len(order), bool), list[int]()
    for index in range(len(order)):
        if not gone[index] and len(best) < attrs.max_detections_per_class:
            best.append(order[index])
            gone |= overlaps(index) > attrs.iou_threshold
    return np.array(best, np.int64)


def _regular(attrs: Any, boxes: Any, scores: Any) -> Any:
    batch, rows = len(boxes), attrs.max_detections
    corners, classes, values = (np.zeros((batch, rows, *more), np.float32) for more in ((4,), (), ()))
    counts = np.zeros(batch, np.int32)
    for index in range(batch):
        known = scores[index, :, scores.shape[2] - attrs.num_classes :].T  # what is before is no class
        best = [_of_class(attrs, boxes[index], each) for each in known]
        of = np.repeat(np.arange(len(best)), list(map(len, best)))
        box = np.concatenate([np.zeros(0, np.int64), *best])
        top = _descending(known[of, box])[:rows]
        counts[index] = count = len(top)
        corners[index, :count], classes[index, :count] = boxes[index, box[top]], of[top]
        values[index, :count] = known[of, box][top]
    return corners, classes, values, counts


regular_non_max_suppression = define(
    "vision.regular_non_max_suppression",
    "boxes scores",
    Field("max_detections_per_class", "int"),
    Field("max_detections", "int"),
    Field("num_classes", "int"),
    Field("iou_threshold", "float"),
    Field("score_threshold", "float"),
    infer=_regular_type,
    kernel=_regular,
    kind=OpPattern.OPAQUE,
    outputs=4,
)
"""The best boxes of all classes among those (N, boxes, 4) that stay in each class by its scores (N, boxes, classes):
the boxes, their classes and scores, and how many there are.

The last ``num_classes`` scores count; those before are of what is not a class. The other rows of the results are 0.
"""

__all__ = ["all_class_non_max_suppression", "get_valid_counts", "non_max_suppression", "regular_non_max_suppression"]
