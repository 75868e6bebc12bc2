"""Anchors: boxes at every place of an image, and the boxes that a network predicts relative to them."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from eqsat.relay.dims import multiply_dims
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import check_dtype, ranked, unify
from eqsat.relay.ty import TensorType, TupleType, Type


def floats(values: Any) -> tuple[float, ...]:
    """Converter of an attribute that is several numbers."""
    return tuple(map(float, values))


def _prior_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = ranked(args[0], 4, "data")
    each = len(attrs.sizes) + len(attrs.ratios) - 1
    return TensorType((1, multiply_dims(*data.shape[2:], each), 4), data.dtype)


def _prior(attrs: Any, data: Any) -> Any:
    height, width = data.shape[2:]
    centers = [
        (np.arange(dim) + offset) * (step if step > 0 else 1 / dim)
        for dim, offset, step in zip((height, width), attrs.offsets, attrs.steps, strict=True)
    ]
    shapes = [(size, size) for size in attrs.sizes]
    shapes += [(attrs.sizes[0] / sqrt(ratio), attrs.sizes[0] * sqrt(ratio)) for ratio in attrs.ratios[1:]]
    halves = np.array([(tall / 2, wide * height / width / 2) for tall, wide in shapes])
    y, x = np.meshgrid(*centers, indexing="ij")
    middle = np.stack([x, y], axis=-1)[:, :, None]
    boxes = np.concatenate([middle - halves[:, ::-1], middle + halves[:, ::-1]], axis=-1).reshape(1, -1, 4)
    return (np.clip(boxes, 0, 1) if attrs.clip else boxes).astype(data.dtype)


multibox_prior = define(
    "vision.multibox_prior",
    "data",
    Field("sizes", "any", (1.0,), floats),
    Field("ratios", "any", (1.0,), floats),
    Field("steps", "any", (-1.0, -1.0), floats),  # of y and x; one pixel where not positive
    Field("offsets", "any", (0.5, 0.5), floats),
    Field("clip", "bool", False),
    infer=_prior_type,
    kernel=_prior,
    kind=OpPattern.OPAQUE,
)
"""At every pixel of (N, C, H, W) a square of each size, and one box of the first size for each ratio but the first."""


def _transform_type(attrs: Any, args: Sequence[Type]) -> Type:
    scores, offsets, anchors = (
        ranked(args[0], 3, "cls_prob"),
        ranked(args[1], 2, "loc_pred"),
        ranked(args[2], 3, "anchor"),
    )
    batch = unify(scores.shape[0], offsets.shape[0], "the batches of cls_prob and loc_pred,")
    count = unify(scores.shape[2], anchors.shape[1], "the numbers of anchors in cls_prob and anchor,")
    unify(offsets.shape[1], multiply_dims(count, 4), "loc_pred has four numbers for each anchor:")
    unify(anchors.shape[2], 4, "the numbers of an anchor:")
    return TupleType(
        [TensorType((batch, count, 6), check_dtype(scores, offsets, anchors)), TensorType((batch,), "int32")]
    )


def _transform(attrs: Any, scores: Any, offsets: Any, anchors: Any) -> Any:
    background = 0 if attrs.keep_background else 1
    batch, classes, count = scores.shape
    low, high = anchors[0, :, :2], anchors[0, :, 2:]
    shift, growth = np.split(offsets.reshape(batch, count, 4) * np.array(attrs.variances, offsets.dtype), 2, axis=-1)
    middle, half = shift * (high - low) + (low + high) / 2, np.exp(growth) * (high - low) / 2
    boxes = np.concatenate([middle - half, middle + half], axis=-1)
    boxes = np.clip(boxes, 0, 1) if attrs.clip else boxes
    rows, counts = np.full((batch, count, 6), -1, scores.dtype), np.zeros(batch, np.int32)
    if classes <= background:
        return rows, counts
    best, numbers = scores[:, background:].max(axis=1), scores[:, background:].argmax(axis=1)
    if attrs.keep_background:
        numbers, valid = np.where(best < attrs.threshold, 0, numbers), np.ones((batch, count), bool)
    else:
        valid = best >= attrs.threshold
    found = np.concatenate([numbers[..., None], best[..., None], boxes], axis=-1)
    for index, mask in enumerate(valid):
        counts[index] = mask.sum()
        rows[index, : counts[index]] = found[index, mask]
    return rows, counts


multibox_transform_loc = define(
    "vision.multibox_transform_loc",
    "cls_prob loc_pred anchor",
    Field("clip", "bool", True),
    Field("threshold", "float", 0.01),
    Field("variances", "any", (0.1, 0.1, 0.2, 0.2), floats),
    Field("keep_background", "bool", False),  # class 0 is a class as the others are
    infer=_transform_type,
    kernel=_transform,
    kind=OpPattern.OPAQUE,
    outputs=2,
)
"""The boxes that probabilities of classes and offsets from anchors mean, those of no class left out, and how many.

A box is a row of its class, its score and its corners; rows without a box are -1.
"""

__all__ = ["multibox_prior", "multibox_transform_loc"]
