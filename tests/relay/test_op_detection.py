"""Operators of object detection, on images and on integers, against onnxruntime and against direct computations."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.relay.infer import infer_type

from .test_op_reference import RNG, close, computed, normal, reference


def boxes_of(*shape: int) -> Any:
    corners = RNG.uniform(0, 1, (*shape, 2))
    return np.concatenate([corners, corners + RNG.uniform(0.1, 0.6, (*shape, 2))], axis=-1).astype("float32")


# ---- suppression


def overlap(a: Any, b: Any) -> float:
    area = [abs(box[2] - box[0]) * abs(box[3] - box[1]) for box in (a, b)]
    sides = [min(a[2 + i], b[2 + i]) - max(a[i], b[i]) for i in (0, 1)]
    shared = max(sides[0], 0) * max(sides[1], 0)
    return shared / (sum(area) - shared)


def best_boxes(rows: Any, threshold: float, limit: int, by_class: bool) -> list[int]:
    """The rows (class, score, corners) that stay, by the definition."""
    kept: list[int] = []
    for index in sorted(range(len(rows)), key=lambda i: -rows[i][1]):
        rivals = [other for other in kept if not by_class or rows[other][0] == rows[index][0]]
        if len(kept) < limit and all(overlap(rows[index][2:], rows[other][2:]) < threshold for other in rivals):
            kept.append(index)
    return kept


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("limit", [-1, 3])
def test_non_max_suppression(force: bool, limit: int) -> None:
    numbers = RNG.permutation(20).reshape(2, 10, 1).astype("float32")
    data = np.concatenate([numbers % 2, numbers / 20 + 0.1, boxes_of(2, 10)], axis=-1)
    names = np.tile(np.arange(100, 110, dtype="int32"), (2, 1))
    counts = np.array([10, 7], "int32")
    attrs = {"max_output_size": limit, "iou_threshold": 0.3, "force_suppress": force}
    found, number = computed(relay.vision.non_max_suppression, data, counts, names, **attrs)
    boxes = computed(relay.vision.non_max_suppression, data, counts, names, **attrs, return_indices=False)
    packed = computed(
        relay.vision.non_max_suppression, data, counts, names, **attrs, return_indices=False, invalid_to_bottom=True
    )
    for index, count in enumerate(counts):
        kept = best_boxes(data[index, :count], 0.3, limit if limit > 0 else 99, not force)
        assert number[index].tolist() == [len(kept)]
        assert found[index].tolist() == [100 + box for box in kept] + [-1] * (10 - len(kept))
        assert np.array_equal(packed[index, : len(kept)], data[index, kept])
        assert (packed[index, len(kept) :] == -1).all()
        rows = boxes[index][boxes[index, :, 1] >= 0]
        assert np.array_equal(rows, data[index, kept]), "in place, but in the same order"


def test_suppression_of_the_best_few_boxes_only() -> None:
    data = np.array([[[0, 0.5, 0, 0, 1, 1], [0, 0.9, 5, 5, 6, 6], [0, 0.7, 8, 8, 9, 9]]], "float32")
    counts, names = np.array([3], "int32"), np.array([[0, 1, 2]], "int32")
    found, _ = computed(relay.vision.non_max_suppression, data, counts, names, top_k=2)
    assert found.tolist() == [[1, 2, -1]]


def test_valid_counts() -> None:
    data = normal(3, 9, 6)
    counts, rows, places = computed(relay.vision.get_valid_counts, data, score_threshold=0.1)
    for index, image in enumerate(data):
        valid = [box for box in range(9) if image[box, 1] > np.float32(0.1) and image[box, 0] >= 0]
        assert counts[index] == len(valid)
        assert places[index].tolist() == valid + [-1] * (9 - len(valid))
        assert np.array_equal(rows[index, : len(valid)], image[valid])
        assert (rows[index, len(valid) :] == -1).all()


def test_suppression_in_each_class() -> None:
    boxes, scores = boxes_of(2, 12), RNG.random((2, 3, 12)).astype("float32")
    limits = [np.array([4], "int64"), np.array([0.4], "float32"), np.array([0.2], "float32")]
    (expected,) = reference("NonMaxSuppression", [boxes, scores, *limits])
    parameters = {"max_output_boxes_per_class": 4, "iou_threshold": 0.4, "score_threshold": 0.2}
    rows, count = computed(relay.vision.all_class_non_max_suppression, boxes, scores, **parameters)
    assert rows.shape == (72, 3)
    assert rows[: count[0]].tolist() == expected.tolist()
    places, values, counts = computed(
        relay.vision.all_class_non_max_suppression, boxes, scores, **parameters, output_format="tensorflow"
    )
    for index in range(2):
        wanted = expected[expected[:, 0] == index, 1:]
        assert places[index, : counts[index]].tolist() == wanted.tolist()
        close(values[index, : counts[index]], scores[index, wanted[:, 0], wanted[:, 1]])


def test_regular_suppression() -> None:
    boxes, scores = boxes_of(2, 12), RNG.uniform(0, 1, (2, 12, 4)).astype("float32")  # of no class, and of three
    numbers = {"max_detections": 6, "num_classes": 3, "iou_threshold": 0.4, "score_threshold": 0.2}
    operator = relay.vision.regular_non_max_suppression
    corners, classes, values, counts = computed(operator, boxes, scores, max_detections_per_class=4, **numbers)
    for index in range(2):
        found = []
        for which in range(3):
            chosen: list[int] = []
            for box in np.argsort(-scores[index, :, 1 + which], kind="stable"):
                free = all(overlap(boxes[index, box], boxes[index, other]) <= 0.4 for other in chosen)
                if scores[index, box, 1 + which] >= 0.2 and free and len(chosen) < 4:
                    chosen.append(box)
            found += [(-scores[index, box, 1 + which], which, box) for box in chosen]
        best = sorted(found)[:6]
        assert counts[index] == len(best) == 6
        assert classes[index].tolist() == [which for _, which, _ in best]
        assert values[index].tolist() == [-score for score, _, _ in best]
        assert np.array_equal(corners[index], boxes[index, [box for *_, box in best]])
    few = computed(operator, boxes, scores, max_detections_per_class=1, **numbers)
    assert few[3].tolist() == [3, 3]
    assert not few[0][:, 3:].any()
    with pytest.raises(TypeCheckError, match="there are no 5 classes among scores of 4"):
        infer_type(operator(relay.const(boxes), relay.const(scores), 1, 6, 5, 0.4, 0.0).astuple())


# ---- regions and anchors


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_roi_align(mode: str, ratio: int) -> None:
    data, corners = normal(2, 3, 9, 8), boxes_of(5) * 12
    batch = np.array([0, 1, 1, 0, 1])
    rois = np.concatenate([batch[:, None], corners], axis=1).astype("float32")
    found = computed(
        relay.vision.roi_align, data, rois, pooled_size=(3, 2), spatial_scale=0.5, sample_ratio=ratio, mode=mode
    )
    if mode == "avg":  # onnxruntime's maximum is over single products, not over samples
        names = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5, "sampling_ratio": max(ratio, 0)}
        names |= {"coordinate_transformation_mode": "output_half_pixel"}
        close(found, reference("RoiAlign", [data, corners, batch.astype("int64")], mode=mode, **names)[0])
        return
    for index, (number, *box) in enumerate(rois):
        begin = np.array(box[1::-1]) / 2
        size = np.maximum(np.array(box[:1:-1]) / 2 - begin, 1)
        counts = [ratio if ratio > 0 else int(np.ceil(size[i] / bins)) for i, bins in enumerate((3, 2))]
        for y, x in product(range(3), range(2)):
            places = product(*map(range, counts))
            at = [begin + (np.array([y, x]) + (np.array(p) + 0.5) / counts) * size / (3, 2) for p in places]
            samples = [bilinear(data[int(number)], *place) for place in at]
            close(found[index, :, y, x], np.max(samples, axis=0).astype("float32"), 1e-4)


def bilinear(image: Any, y: float, x: float) -> Any:
    if not (-1 <= y <= image.shape[1] and -1 <= x <= image.shape[2]):
        return np.zeros(len(image))
    y, x = (min(max(place, 0), dim - 1) for place, dim in zip((y, x), image.shape[1:], strict=True))
    rows, columns = np.arange(image.shape[1]), np.arange(image.shape[2])
    weights = np.maximum(1 - abs(rows - y), 0)[:, None] * np.maximum(1 - abs(columns - x), 0)
    return (image * weights).sum(axis=(1, 2))


def test_roi_pool() -> None:
    data = normal(2, 3, 8, 8)
    rois = np.array([[0, 0, 0, 7, 7], [1, 2, 4, 6, 6], [1, 5, 5, 5, 5]], "float32")
    expected = reference("MaxRoiPool", [data, rois], pooled_shape=(2, 3), spatial_scale=1.0)[0]
    close(computed(relay.vision.roi_pool, data, rois, pooled_size=(2, 3), spatial_scale=1.0), expected)
    channels_last = computed(
        relay.vision.roi_pool,
        data.transpose(0, 2, 3, 1),
        rois,
        pooled_size=(2, 3),
        spatial_scale=1.0,
        layout="NHWC",
    )
    close(channels_last.transpose(0, 3, 1, 2), expected)


def test_yolo_reorg_reads_blocks_as_channels() -> None:
    data = np.arange(16, dtype="float32").reshape(1, 4, 2, 2)
    found = computed(relay.vision.yolo_reorg, data, stride=2)
    assert found.shape == (1, 16, 1, 1)
    assert found.reshape(-1).tolist() == [0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15]


def test_multibox_prior() -> None:
    sizes, ratios, data = (0.5, 0.25), (1.0, 4.0), normal(1, 3, 2, 4)
    found = computed(relay.vision.multibox_prior, data, sizes=sizes, ratios=ratios)[0].reshape(2, 4, 3, 4)
    for y, x in product(range(2), range(4)):
        middle = np.array([(x + 0.5) / 4, (y + 0.5) / 2])
        halves = np.array(
            [[0.125, 0.25], [0.0625, 0.125], [0.25, 0.125]]
        )  # x and y: two squares, one four times as wide
        close(found[y, x], np.concatenate([middle - halves, middle + halves], axis=1).astype("float32"))
    clipped = computed(relay.vision.multibox_prior, data, sizes=(3.0,), clip=True)
    assert (clipped.min(), clipped.max()) == (0, 1)


@pytest.mark.parametrize("background", [False, True])
def test_multibox_transform_loc(background: bool) -> None:
    scores = np.array([[[0.1, 0.6, 0.3], [0.7, 0.3, 0.004], [0.2, 0.1, 0.003]]], "float32")
    offsets, anchors = normal(1, 12), boxes_of(1, 3)
    found, count = computed(
        relay.vision.multibox_transform_loc, scores, offsets, anchors, keep_background=background, clip=False
    )
    names = [1, 0, 0] if background else [0, 0]  # the third anchor shows nothing but background
    assert count.tolist() == [len(names)]
    assert found[0, : len(names), 0].tolist() == names
    assert (found[0, len(names) :] == -1).all()
    for box, (left, top, right, bottom) in enumerate(anchors[0, : len(names)]):
        dx, dy, dw, dh = offsets[0, 4 * box : 4 * box + 4] * (0.1, 0.1, 0.2, 0.2)
        width, height = right - left, bottom - top
        x, y = (left + right) / 2 + dx * width, (top + bottom) / 2 + dy * height
        w, h = width * np.exp(dw) / 2, height * np.exp(dh) / 2
        close(found[0, box, 2:], np.array([x - w, y - h, x + w, y + h], "float32"))


def test_proposal() -> None:
    """Two boxes next to one another of which one is suppressed, and one of the background of the padding."""
    scores = np.zeros((1, 2, 1, 3), "float32")
    scores[0, 1, 0] = [0.5, 0.9, 0.99]  # the last place is beyond the image, which is 32 pixels wide
    offsets, image = np.zeros((1, 4, 1, 3), "float32"), np.array([[16, 32, 1]], "float32")
    attrs = {"scales": (1.0,), "ratios": (1.0,), "feature_stride": 16, "rpn_min_size": 4}
    attrs |= {"rpn_pre_nms_top_n": 2, "rpn_post_nms_top_n": 3, "iou_loss": False}
    found = computed(relay.vision.proposal, scores, offsets, image, **attrs, threshold=0.7)
    best, other = [0, 16, 0, 31, 15], [0, 0, 0, 15, 15]
    assert found.tolist() == [best, other, best], "what is missing repeats what there is"
    offsets[0, 0] = [15 / 16, 0, 0]  # the first box moves onto the second by nearly its width
    found = computed(relay.vision.proposal, scores, offsets, image, **attrs, threshold=0.7)
    assert found.tolist() == [best, best, best]
    moved = computed(relay.vision.proposal, scores, offsets * 4, image, **{**attrs, "iou_loss": True}, threshold=0.9)
    assert moved[1].tolist() == [0, 3.75, 0, 15, 15], "offsets of corners, not of the middle"


# ---- images


def test_affine_grid() -> None:
    data = normal(2, 2, 3)
    expected = reference("AffineGrid", [data, np.array([2, 1, 4, 5], "int64")], align_corners=1)[0]
    close(computed(relay.image.affine_grid, data, target_shape=(4, 5)), expected.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("method", ["bilinear", "nearest_neighbor"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_crop_and_resize(method: str, layout: str) -> None:
    data = normal(2, 3, 6, 7)
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.9, 0.7, 0.2], [0.5, 0.5, 1.4, 1.2], [0, 0, 0, 0]], "float32")
    indices = np.array([0, 1, 1, 0], "int32")
    given = data if layout == "NCHW" else data.transpose(0, 2, 3, 1)
    found = computed(
        relay.image.crop_and_resize,
        given,
        boxes,
        indices,
        crop_size=(4, 5),
        layout=layout,
        method=method,
        extrapolation_value=9.0,
    )
    found = found if layout == "NCHW" else found.transpose(0, 3, 1, 2)
    for index, ((y1, x1, y2, x2), number) in enumerate(zip(boxes.astype("float64"), indices, strict=True)):
        for row, column in product(range(4), range(5)):
            y, x = 5 * (y1 + (y2 - y1) * row / 3), 6 * (x1 + (x2 - x1) * column / 4)
            inside = 0 <= y <= 5 and 0 <= x <= 6
            if method == "nearest_neighbor":
                y, x = np.rint(y), np.rint(x)
            expected = bilinear(data[number], y, x) if inside else np.full(3, 9.0)
            close(found[index, :, row, column], expected.astype("float32"), 1e-4)


def test_dilation2d() -> None:
    data, weight = normal(2, 3, 6, 7), normal(3, 2, 3)
    found = computed(relay.image.dilation2d, data, weight, strides=(1, 2), padding=(1, 0, 0, 1), dilations=(2, 1))
    padded = np.pad(data, ((0, 0), (0, 0), (1, 0), (0, 1)))
    assert found.shape == (2, 3, 5, 3)
    for row, column in product(range(5), range(3)):
        window = padded[:, :, row : row + 3 : 2, 2 * column : 2 * column + 3]
        close(found[:, :, row, column], (window + weight).max(axis=(2, 3)))


def test_strides_of_four_numbers() -> None:
    x, w = relay.var("x", shape=(relay.Any(), 10, 224, 224)), relay.var("w", shape=(10, 8, 8))
    call = relay.image.dilation2d(x, w, strides=[1, 1, 1, 1], dilations=[1, 1, 1, 1], padding=[0, 0, 0, 0])
    assert tuple(infer_type(call).checked_type.shape[1:]) == (10, 217, 217)


# ---- fixed point, searching


@pytest.mark.parametrize("shift", [-3, 0, 2])
def test_fixed_point_multiply(shift: int) -> None:
    data = RNG.integers(-(2**24), 2**24, (5, 6)).astype("int32")
    multiplier = 1395864320
    found = computed(relay.fixed_point_multiply, data, multiplier=multiplier, shift=shift)
    for value, result in zip(data.ravel().tolist(), found.ravel().tolist(), strict=True):
        down = 31 - shift
        assert result == (value * multiplier + 2 ** (down - 1)) // 2**down


def test_fixed_point_multiply_per_axis() -> None:
    data = RNG.integers(-(2**20), 2**20, (4, 3, 2)).astype("int32")
    multiplier = RNG.integers(2**29, 2**31 - 1, 3).astype("int32")
    left, right = np.array([0, 1, 2], "int32"), np.array([3, 0, 1], "int32")
    attrs = {"is_lshift_required": True, "is_rshift_required": True, "axes": (1,)}
    found = computed(relay.fixed_point_multiply_per_axis, data, multiplier, left, right, **attrs)
    for i, j, k in np.ndindex(*data.shape):
        down = 31 + int(right[j])
        product_ = (int(data[i, j, k]) << int(left[j])) * int(multiplier[j])
        assert found[i, j, k] == (product_ + 2 ** (down - 1)) // 2**down


def test_fixed_point_takes_int32() -> None:
    with pytest.raises(TypeCheckError, match="data must be int32, not float32"):
        infer_type(relay.fixed_point_multiply(relay.var("x", shape=(2,)), 1, 0))


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right: bool) -> None:
    data = np.sort(RNG.integers(0, 6, (2, 3, 5)), axis=-1).astype("int32")
    values = RNG.integers(-1, 7, (2, 3, 4)).astype("int32")
    found = computed(relay.searchsorted, data, values, right=right, dtype="int64")
    before = data[..., None, :] <= values[..., None] if right else data[..., None, :] < values[..., None]
    assert np.array_equal(found, before.sum(axis=-1))
    flat = computed(relay.searchsorted, data[0, 0], values, right=right)
    assert np.array_equal(
        flat, [[np.searchsorted(data[0, 0], row, "right" if right else "left") for row in rows] for rows in values]
    )


@pytest.mark.parametrize("is_sorted", [False, True])
def test_unique(is_sorted: bool) -> None:
    data = np.array([4, 5, 1, 2, 3, 3, 4, 5], "int64")
    expected = reference("Unique", [data], outputs=4, sorted=int(is_sorted))
    values, first, inverse, number, counts = computed(
        lambda x: relay.unique(x, is_sorted=is_sorted, return_counts=True), data
    )
    assert number.tolist() == [5]
    assert values.shape == data.shape
    for found, wanted in zip((values[:5], first[:5], inverse, counts[:5]), expected, strict=True):
        assert found.tolist() == wanted.tolist()
    assert len(relay.unique(relay.var("x", shape=(3,)))) == 4
