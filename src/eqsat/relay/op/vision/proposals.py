"""Proposals of regions: the best of the boxes that a network predicts relative to anchors at every place."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, sqrt
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op.denotation import BY_RANK
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.order import order_of
from eqsat.relay.op.types import check_dtype, ranked, unify
from eqsat.relay.op.vision.anchors import floats
from eqsat.relay.ty import TensorType, Type


def _proposal_type(attrs: Any, args: Sequence[Type]) -> Type:
    scores, offsets = ranked(args[0], 4, "cls_prob"), ranked(args[1], 4, "bbox_pred")
    image = ranked(args[2], 2, "im_info")
    batch = unify(unify(scores.shape[0], offsets.shape[0]), image.shape[0], "the batches of the arguments,")
    anchors = len(attrs.scales) * len(attrs.ratios)
    unify(scores.shape[1], 2 * anchors, "cls_prob has two numbers for each anchor:")
    unify(offsets.shape[1], 4 * anchors, "bbox_pred has four numbers for each anchor:")
    unify(image.shape[1], 3, "the numbers of an image:")
    for a, b in zip(scores.shape[2:], offsets.shape[2:], strict=True):
        unify(a, b, "the places of cls_prob and bbox_pred,")
    if attrs.rpn_post_nms_top_n < 1:
        raise TypeCheckError(f"rpn_post_nms_top_n must be positive, not {attrs.rpn_post_nms_top_n}")
    return TensorType((multiply_dims(batch, attrs.rpn_post_nms_top_n), 5), check_dtype(scores, offsets, image))


def _anchors(attrs: Any, height: int, width: int) -> Any:
    """The anchors (height, width, anchors, 4) around all places."""
    stride, shapes = attrs.feature_stride, []
    for ratio in attrs.ratios:
        wide = floor(sqrt(floor(stride * stride / ratio)) + 0.5)
        shapes += [(wide * scale, floor(wide * ratio + 0.5) * scale) for scale in attrs.scales]
    reach = (np.array(shapes) - 1) / 2
    x, y = np.meshgrid(np.arange(width) * stride, np.arange(height) * stride)
    middle = np.stack([x, y], axis=-1)[:, :, None] + (stride - 1) / 2
    return np.concatenate([middle - reach, middle + reach], axis=-1)


def _predicted(attrs: Any, anchors: Any, offsets: Any) -> Any:
    """The boxes (..., 4) that offsets from anchors mean: of the corners, or of the middle and the size."""
    if attrs.iou_loss:
        return anchors + offsets
    size = anchors[..., 2:] - anchors[..., :2] + 1
    middle = anchors[..., :2] + (size - 1) / 2 + offsets[..., :2] * size
    reach = (np.exp(offsets[..., 2:]) * size - 1) / 2
    return np.concatenate([middle - reach, middle + reach], axis=-1)


def _kept(boxes: Any, threshold: float) -> Any:
    """Which of ``boxes`` (N, 4), the best first, overlap no better one that stays; the corner pixels count too."""
    low, high = boxes[:, :2], boxes[:, 2:]
    areas = np.prod(high - low + 1, axis=1)
    kept = np.ones(len(boxes), bool)
    for index in range(len(boxes)):
        if kept[index]:
            extents = np.minimum(high[index], high) - np.maximum(low[index], low) + 1
            shared = np.prod(np.maximum(extents, 0), axis=1)
            kept[index + 1 :] &= (shared / (areas[index] + areas - shared) <= threshold)[index + 1 :]
    return kept


def _proposal(attrs: Any, scores: Any, offsets: Any, image: Any) -> Any:
    batch, _, height, width = scores.shape
    anchors = _anchors(attrs, height, width)
    result = np.zeros((batch, attrs.rpn_post_nms_top_n, 5), scores.dtype)
    moves = offsets.reshape(batch, anchors.shape[2], 4, height, width).transpose(0, 3, 4, 1, 2)
    chances = scores[:, anchors.shape[2] :].transpose(0, 2, 3, 1)
    for index, (tall, wide, scale) in enumerate(image.tolist()):
        limits = np.array([wide, tall, wide, tall]) - 1
        boxes = np.clip(_predicted(attrs, anchors, moves[index]), 0, limits)
        least = scale * attrs.rpn_min_size
        small = np.any(boxes[..., 2:] - boxes[..., :2] + 1 < least, axis=-1)
        boxes = boxes + np.where(small[..., None], np.array([-1, -1, 1, 1]) * (least / 2), 0)
        rows, columns = (int(size / attrs.feature_stride) for size in (tall, wide))
        beyond = (np.arange(height)[:, None] >= rows) | (np.arange(width) >= columns)
        rank = np.where(small | beyond[:, :, None], -1, chances[index]).reshape(-1)
        order = order_of(rank, 0, ascending=False)[: attrs.rpn_pre_nms_top_n if attrs.rpn_pre_nms_top_n > 0 else None]
        found = boxes.reshape(-1, 4)[order]
        found = found[_kept(found, attrs.threshold)]
        result[index, :, 0] = index
        if len(found):
            result[index, :, 1:] = np.resize(found, (attrs.rpn_post_nms_top_n, 4))
    return result.reshape(-1, 5)


proposal = define(
    "vision.proposal",
    "cls_prob bbox_pred im_info",
    Field("scales", "any", (4.0, 8.0, 16.0, 32.0), floats),
    Field("ratios", "any", (0.5, 1.0, 2.0), floats),
    Field("feature_stride", "int", 16),  # pixels of the image from one place to the next
    Field("threshold", "float", 0.7),
    Field("rpn_pre_nms_top_n", "int", 6000),  # how many of the best boxes are looked at; all if not positive
    Field("rpn_post_nms_top_n", "int", 300),  # how many boxes there are in the result for each image
    Field("rpn_min_size", "int", 16),
    Field("iou_loss", "bool", False),  # whether offsets are those of corners
    infer=_proposal_type,
    kernel=_proposal,
    denotation=BY_RANK,
    kind=OpPattern.OPAQUE,
)
"""The best boxes of each image, which overlap little: rows of the image's number and the corners, repeated if too few.

``im_info`` has rows of height, width and scale. Boxes that are too small, or beyond the image, come last.
"""

__all__ = ["proposal"]
