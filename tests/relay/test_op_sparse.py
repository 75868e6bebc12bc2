"""Sparse tensors, windows, Fourier transforms, diagonals, devices and simulated quantization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import ArgumentError, EvaluationError, OperatorError, TypeCheckError
from eqsat.relay.infer import infer_type

from .test_op_reference import RNG, close, computed, normal


def compressed(matrix: Any, block: tuple[int, int] = (1, 1)) -> tuple[Any, Any, Any]:
    """The blocks of a matrix that are not 0, their columns, and where rows begin."""
    rows, columns = (size // part for size, part in zip(matrix.shape, block, strict=True))
    blocks = matrix.reshape(rows, block[0], columns, block[1]).transpose(0, 2, 1, 3)
    mask = blocks.any(axis=(2, 3))
    begins = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    data = blocks[mask]
    return data if block != (1, 1) else data[:, 0, 0], np.nonzero(mask)[1].astype("int32"), begins.astype("int32")


def sparse_matrix(rows: int, columns: int) -> Any:
    matrix = normal(rows, columns)
    matrix[::2, 1::2] = 0
    matrix[1] = 0
    return matrix


@pytest.mark.parametrize("block", [(1, 1), (2, 3)])
@pytest.mark.parametrize("left", [False, True])
def test_sparse_dense(block: tuple[int, int], left: bool) -> None:
    matrix, dense = sparse_matrix(4, 6), normal(5, 6)
    parts = compressed(matrix, block)
    found = computed(lambda x, *parts: relay.nn.sparse_dense(x, parts, sparse_lhs=left), dense, *parts)
    close(found, matrix @ dense.T if left else dense @ matrix.T)


class Csr:
    """A matrix as SciPy has it."""

    def __init__(self, matrix: Any):
        self.data, self.indices, self.indptr = compressed(matrix)


def test_a_matrix_of_scipy_is_taken() -> None:
    matrix, dense = sparse_matrix(4, 4), normal(4, 4)
    close(computed(lambda x: relay.nn.sparse_dense(x, Csr(matrix)), dense), dense @ matrix.T)
    close(computed(lambda x: relay.nn.sparse_add(x, Csr(matrix)), dense), dense + matrix)
    with pytest.raises(ArgumentError, match="a sparse matrix is given as data, indices and indptr, not as 2 tensors"):
        relay.nn.sparse_add(relay.var("x", shape=(4, 4)), [dense, dense])


def test_sparse_transpose() -> None:
    matrix = sparse_matrix(5, 5)
    found = computed(lambda *parts: relay.nn.sparse_transpose(parts), *compressed(matrix))
    for part, expected in zip(found, compressed(matrix.T), strict=True):
        assert np.array_equal(part, expected)


def test_indptr_that_fits_no_data() -> None:
    parts = [np.ones(2, "float32"), np.zeros(2, "int32"), np.array([0, 1], "int32")]
    with pytest.raises(EvaluationError, match="indptr says that there are 1 entries, not 2"):
        computed(lambda x, *parts: relay.nn.sparse_add(x, parts), np.ones((1, 3), "float32"), *parts)


def test_sparse_to_dense() -> None:
    indices, values = np.array([[0, 1], [2, 0]], "int32"), np.array([3, 4], "float32")
    expected = [[9, 3], [9, 9], [4, 9]]
    build: Any = lambda i, v: relay.sparse_to_dense(i, (3, 2), v, relay.const(9.0))  # noqa: E731
    assert computed(build, indices, values).tolist() == expected
    build = lambda i, v: relay.sparse_to_dense(i, relay.const(np.array([3, 2])), v, relay.const(9.0))  # noqa: E731
    assert computed(build, indices, values).tolist() == expected
    assert relay.sparse_to_dense(relay.var("i", shape=(2, 2), dtype="int32"), relay.const(np.array([3, 2])),
                                 relay.const(values)).op.name == "dyn.sparse_to_dense"  # fmt: skip
    build = lambda i: relay.sparse_to_dense(i, [4], relay.const(5))  # noqa: E731
    assert computed(build, np.array([1, 3], "int32")).tolist() == [0, 5, 0, 5]


def test_sparse_reshape() -> None:
    indices = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]], "int64")
    before, after = np.array([2, 3, 6], "int64"), np.array([9, -1], "int64")
    places, shape = computed(relay.sparse_reshape, indices, before, after)
    dense = np.zeros((2, 3, 6))
    dense[tuple(indices.T)] = range(1, 6)
    assert shape.tolist() == [9, 4]
    assert dense.reshape(9, 4)[tuple(places.T)].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(EvaluationError, match=r"of shape \(2, 3, 6\) cannot have shape \(5, -1\)"):
        computed(relay.sparse_reshape, indices, before, np.array([5, -1], "int64"))


def test_sparse_fill_empty_rows() -> None:
    indices, values = np.array([[0, 1], [0, 3], [2, 0], [3, 1]], "int32"), np.array([1, 2, 3, 4], "float32")
    shape, default = np.array([5, 6], "int64"), np.array([10], "float32")
    places, entries, empty = computed(relay.sparse_fill_empty_rows, indices, values, shape, default)
    assert places.tolist() == [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]]
    assert entries.tolist() == [1, 2, 10, 3, 4, 10]
    assert empty.tolist() == [False, True, False, False, True]
    assert (places.dtype, entries.dtype) == (np.int32, np.float32)


# ---- windows, transforms, diagonals


def test_sliding_window() -> None:
    data = normal(2, 5, 7)
    found = computed(relay.sliding_window, data, axis=1, window_shape=(2, 3), strides=(1, 2))
    assert found.shape == (2, 4, 3, 2, 3)
    for row, column in np.ndindex(4, 3):
        assert np.array_equal(found[:, row, column], data[:, row : row + 2, 2 * column : 2 * column + 3])


@pytest.mark.parametrize("onesided", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
def test_stft(onesided: bool, normalized: bool) -> None:
    data, window = normal(2, 30), normal(6)
    found = computed(lambda x, w: relay.stft(x, 8, 3, 6, w, normalized=normalized, onesided=onesided), data, window)
    frequencies = 5 if onesided else 8
    assert found.shape == (2, frequencies, 8, 2)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(frequencies), np.arange(6)) / 8)
    for frame in range(8):
        expected = (data[:, 3 * frame : 3 * frame + 6] * window) @ turns.T / (np.sqrt(8) if normalized else 1)
        close(found[:, :, frame], np.stack([expected.real, expected.imag], axis=-1).astype("float32"), 1e-4)
    assert infer_type(relay.stft(relay.var("x", shape=(32,)), 8)).checked_type == relay.TensorType((5, 13, 2))


def test_dft_and_its_inverse() -> None:
    real, imaginary = normal(3, 5), normal(3, 5)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(5), np.arange(5)) / 5)
    expected = (real + 1j * imaginary) @ turns
    found = computed(relay.dft, real, imaginary)
    close(found[0], expected.real.astype("float32"), 1e-4)
    close(found[1], expected.imag.astype("float32"), 1e-4)
    back = computed(relay.dft, *found, inverse=True)
    close(back[0], real)
    close(back[1], imaginary)


@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"])
def test_matrix_set_diag(align: str) -> None:
    data, diagonals = np.zeros((2, 3, 4), "float32"), np.abs(normal(2, 4, 3)) + 1
    found = computed(relay.matrix_set_diag, data, diagonals, k=(-1, 2), align=align)
    expected = np.zeros_like(data)
    for place, offset in enumerate((2, 1, 0, -1)):
        length = min(3 + min(offset, 0), 4 - max(offset, 0))
        right = align.split("_")[0 if offset >= 0 else 1] == "RIGHT"
        for step in range(length):
            at = step + (3 - length if right else 0)
            expected[:, step + max(-offset, 0), step + max(offset, 0)] = diagonals[:, place, at]
    assert np.array_equal(found, expected)
    single = computed(relay.matrix_set_diag, data, diagonals[:, 0])
    assert np.array_equal(single[:, range(3), range(3)], diagonals[:, 0])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("side", [1, 3])
def test_sparse_convolution(layout: str, side: int) -> None:
    data, weight = normal(2, 3, 5, 4), normal(6, 3, side, side) * (RNG.uniform(size=(6, 3, side, side)) < 0.4)
    expected = computed(relay.nn.conv2d, data, weight, padding=side // 2)
    if layout == "NHWC":
        data, weight, expected = (np.ascontiguousarray(np.moveaxis(each, 1, 3)) for each in (data, weight, expected))
    parts = compressed(weight.reshape(6, -1), (2, 1))
    for values in (parts[0], parts[0][:, :, 0]):
        found = computed(relay.nn.sparse_conv2d, data, values, *parts[1:], layout=layout, kernel_size=(side, side))
        close(found, expected)
    with pytest.raises(TypeCheckError, match="the sides of the kernel must be odd, not"):
        infer_type(relay.nn.sparse_conv2d(*map(relay.const, (data, *parts)), kernel_size=2))


# ---- devices


def test_marks_of_devices_change_nothing() -> None:
    data = normal(2, 3)
    assert np.array_equal(computed(lambda x: relay.annotation.on_device(x, "cuda"), data), data)
    assert np.array_equal(computed(lambda x: relay.device_copy(x, "cpu", "cuda"), data), data)


def test_names_of_devices() -> None:
    x = relay.var("x", shape=(2,))
    assert dict(relay.annotation.on_device(x, "cuda(0)").attrs) == {
        "virtual_device": "cuda",
        "constrain_result": False,
        "constrain_body": True,
    }
    assert relay.annotation.on_device(x, "cuda", False, False).attrs.virtual_device == ""
    assert relay.device_copy(x, "cpu", "cuda(1)").attrs.dst_virtual_device == "cuda(1)"
    with pytest.raises(ArgumentError, match="on_device needs a device"):
        relay.annotation.on_device(x, None)


# ---- simulated quantization


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "disable"])
def test_simulated_quantization(dtype: str) -> None:
    data, scale, zero = normal(3, 4) * 100, np.abs(normal(4)) + np.float32(0.1), RNG.integers(-3, 4, 4).astype("int32")
    found = computed(lambda *args: relay.qnn.op.simulated_quantize(*args, out_dtype=dtype), data, scale, zero)
    back = computed(lambda *args: relay.qnn.op.simulated_dequantize(*args, in_dtype=dtype), found, scale, zero)
    if dtype == "disable":
        assert np.array_equal(found, data)
        assert np.array_equal(back, data)
        return
    expected = computed(lambda *args: relay.qnn.op.quantize(*args, axis=1, out_dtype=dtype), data, scale, zero)
    assert np.array_equal(found, expected.astype("float32"))
    close(back, computed(lambda *args: relay.qnn.op.dequantize(*args, axis=1), expected, scale, zero))


def test_a_type_that_cannot_be_simulated() -> None:
    x = relay.var("x", shape=(2,))
    with pytest.raises(OperatorError, match="simulates int8, uint8, int32 or disable, not 'int4'"):
        relay.qnn.op.simulated_quantize(x, relay.const(1.0), relay.const(0), out_dtype="int4")
