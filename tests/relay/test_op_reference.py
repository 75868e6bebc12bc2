"""Kernels against onnxruntime, and against small examples worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.onnx.converters import alike
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate

RNG = np.random.default_rng(7)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return RNG.normal(size=shape).astype(dtype)


def one_node(op_type: str, inputs: list[Any], outputs: int = 1, opset: int = 20, **attributes: Any) -> onnx.ModelProto:
    """A model of one operator that takes ``inputs``, of which those that are None are left out."""
    helper = onnx.helper
    names = [f"x{index}" if value is not None else "" for index, value in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
        if value is not None
    ]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op_type, names, results, **attributes)
    graph = helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=name) for name in results])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def feed(inputs: list[Any]) -> dict[str, Any]:
    return {f"x{index}": value for index, value in enumerate(inputs) if value is not None}


def reference(op_type: str, inputs: list[Any], outputs: int = 1, opset: int = 20, **attributes: Any) -> list[Any]:
    """What onnxruntime, with its optimizer off, computes for one operator."""
    model = one_node(op_type, inputs, outputs, opset, **attributes)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed(inputs))


def by_definition(op_type: str, inputs: list[Any], **attributes: Any) -> list[Any]:
    """What ONNX's reference implementation computes for one operator, which is the same on every processor."""
    return ReferenceEvaluator(one_node(op_type, inputs, **attributes)).run(None, feed(inputs))


def computed(build: Any, *arrays: Any, **attrs: Any) -> Any:
    variables = [relay.var(f"x{i}", shape=a.shape, dtype=a.dtype.name) for i, a in enumerate(arrays)]
    call = build(*variables, **attrs)
    if isinstance(call, relay.TupleWrapper):
        call = call.astuple()
    return evaluate(call, dict(zip(variables, arrays, strict=True)))


def close(actual: Any, expected: Any, tolerance: float = 2e-5) -> None:
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# ---- windows


@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
def test_conv2d(strides: tuple[int, int], groups: int, dilation: tuple[int, int]) -> None:
    data, weight = normal(2, 4, 9, 8), normal(8, 4 // groups, 3, 2)
    attrs = {"strides": strides, "padding": (1, 0, 2, 1), "dilation": dilation, "groups": groups}
    names = {"strides": strides, "pads": (1, 0, 2, 1), "dilations": dilation, "group": groups}
    close(computed(relay.nn.conv2d, data, weight, **attrs), reference("Conv", [data, weight], **names)[0])


@pytest.mark.parametrize("rank", [1, 3])
def test_conv_of_other_ranks(rank: int) -> None:
    data, weight = normal(1, 2, *[6] * rank), normal(3, 2, *[3] * rank)
    conv = getattr(relay.nn, f"conv{rank}d")
    close(
        computed(conv, data, weight, strides=2, padding=1),
        reference("Conv", [data, weight], strides=[2] * rank, pads=[1] * (2 * rank))[0],
    )


def test_conv2d_layouts_agree() -> None:
    data, weight = normal(1, 8, 5, 5), normal(16, 8, 3, 3)
    expected = computed(relay.nn.conv2d, data, weight, padding=1)
    nhwc = computed(
        relay.nn.conv2d,
        data.transpose(0, 2, 3, 1),
        weight.transpose(2, 3, 1, 0),
        padding=1,
        data_layout="NHWC",
        kernel_layout="HWIO",
        out_layout="NCHW",
    )
    close(nhwc, expected)
    blocked = computed(
        relay.nn.conv2d,
        data.reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2),
        weight.reshape(2, 8, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1),
        padding=1,
        data_layout="NCHW4c",
        kernel_layout="OIHW4i8o",
        out_layout="NCHW",
    )
    close(blocked, expected)


def test_kernel_layouts_that_name_the_groups_agree() -> None:
    data, weight = normal(1, 8, 5, 5), normal(16, 4, 3, 3)
    expected = computed(relay.nn.conv2d, data, weight, groups=2)
    grouped = weight.reshape(2, 8, 4, 3, 3)
    close(computed(relay.nn.conv2d, data, grouped, groups=2, kernel_layout="GOIHW"), expected)
    last = grouped.transpose(3, 4, 0, 2, 1)
    close(computed(relay.nn.conv2d, data, last, groups=2, kernel_layout="HWGIO"), expected)
    backward = normal(8, 4, 3, 3)
    expected = computed(relay.nn.conv2d_transpose, data, backward, groups=2)
    grouped = backward.reshape(2, 4, 4, 3, 3)
    close(computed(relay.nn.conv2d_transpose, data, grouped, groups=2, kernel_layout="GIOHW"), expected)


def test_a_weight_has_as_many_groups_as_the_attributes_say() -> None:
    x, w = relay.var("x", shape=(1, 8, 5, 5)), relay.var("w", shape=(4, 4, 2, 3, 3))
    with pytest.raises(TypeCheckError, match="groups of weight and attributes"):
        infer_type(relay.nn.conv2d(x, w, groups=2, kernel_layout="GOIHW"))
    unknown = relay.nn.conv2d(x, relay.var("w"), groups=2, channels=16, kernel_size=(3, 3), kernel_layout="GOIHW")
    assert str(infer_type(unknown).args[1].checked_type) == "Tensor[(2, 8, 4, 3, 3), float32]"


def test_depthwise_weight_with_a_multiplier() -> None:
    """Relay writes depthwise weights (C, M, h, w); the output channels are the same as with (C * M, 1, h, w)."""
    data, weight = normal(1, 3, 5, 5), normal(3, 2, 3, 3)
    flat = computed(relay.nn.conv2d, data, weight.reshape(6, 1, 3, 3), groups=3)
    close(computed(relay.nn.conv2d, data, weight, groups=3, channels=6, kernel_size=(3, 3)), flat)


@pytest.mark.parametrize("strides", [(1, 1), (3, 2)])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d_transpose(strides: tuple[int, int], groups: int) -> None:
    data, weight = normal(2, 4, 5, 3), normal(4, 3, 3, 4)
    extra = (strides[0] - 1, 0)
    attrs = {"strides": strides, "padding": (1, 1, 0, 2), "groups": groups, "output_padding": extra}
    names = {"strides": strides, "pads": (1, 1, 0, 2), "group": groups, "output_padding": extra}
    close(
        computed(relay.nn.conv2d_transpose, data, weight, **attrs),
        reference("ConvTranspose", [data, weight], **names)[0],
    )


@pytest.mark.parametrize("include", [False, True])
def test_pools(include: bool) -> None:
    data = normal(1, 2, 7, 8)
    attrs = {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0, 1, 1)}
    names = {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1)}
    close(computed(relay.nn.max_pool2d, data, **attrs), reference("MaxPool", [data], **names)[0])
    average = reference("AveragePool", [data], **names, count_include_pad=int(include))[0]
    close(computed(relay.nn.avg_pool2d, data, **attrs, count_include_pad=include), average)


def test_ceil_mode_adds_a_window() -> None:
    data = normal(1, 1, 6, 6)
    names = {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}
    attrs = {"pool_size": (3, 3), "strides": (2, 2), "ceil_mode": True}
    close(computed(relay.nn.max_pool2d, data, **attrs), reference("MaxPool", [data], **names)[0])


def test_global_pools() -> None:
    data = normal(2, 3, 4, 5)
    close(computed(relay.nn.global_avg_pool2d, data), reference("GlobalAveragePool", [data])[0])
    close(computed(relay.nn.global_max_pool2d, data), reference("GlobalMaxPool", [data])[0])
    assert computed(relay.nn.adaptive_avg_pool2d, data, output_size=(3, 2)).shape == (2, 3, 3, 2)


def test_dense_with_a_weight_in_blocks() -> None:
    data, weight = normal(3, 8), normal(12, 8)
    expected = computed(relay.nn.dense, data, weight)
    blocks = weight.reshape(3, 4, 8).transpose(0, 2, 1)
    for layout in ("NC", "NC4n"):
        close(computed(relay.nn.contrib_dense_pack, data, blocks, weight_layout=layout, units=12), expected)
    both = weight.reshape(3, 4, 4, 2).transpose(0, 2, 1, 3)
    close(computed(relay.nn.contrib_dense_pack, data, both, weight_layout="NC4n2c"), expected)


@pytest.mark.parametrize("method", ["nearest_neighbor", "bilinear"])
def test_upsampling_by_tensors(method: str) -> None:
    data, scale = normal(1, 2, 3, 4), np.array(2.0, "float32")
    expected = computed(relay.nn.upsampling, data, scale_h=2.0, scale_w=1.5, method=method)
    dynamic = computed(lambda x, s: relay.nn.upsampling(x, s, 1.5, method=method), data, scale)
    close(dynamic, expected)
    call = relay.nn.upsampling(relay.var("x", shape=(1, 2, 3, 4)), relay.var("s", shape=()), 2.0)
    assert call.op.name == "dyn.nn.upsampling"


# ---- norms and activations


def test_softmax_family() -> None:
    data = normal(2, 3, 4) * 50
    for axis in (0, 1, -1):
        close(computed(relay.nn.softmax, data, axis=axis), reference("Softmax", [data], axis=axis)[0])
        close(computed(relay.nn.log_softmax, data, axis=axis), reference("LogSoftmax", [data], axis=axis)[0])


def test_norms() -> None:
    data, gamma, beta = normal(2, 4, 3, 5), normal(4), normal(4)
    mean, var = normal(4), np.abs(normal(4))
    expected = reference("BatchNormalization", [data, gamma, beta, mean, var], epsilon=1e-3)[0]
    close(computed(relay.nn.batch_norm, data, gamma, beta, mean, var, epsilon=1e-3)[0], expected)
    close(
        computed(relay.nn.instance_norm, data, gamma, beta),
        reference("InstanceNormalization", [data, gamma, beta])[0],
    )
    rows, scale, bias = normal(3, 6), normal(6), normal(6)
    close(computed(relay.nn.layer_norm, rows, scale, bias), reference("LayerNormalization", [rows, scale, bias])[0])
    close(
        computed(relay.nn.group_norm, data, gamma, beta, num_groups=2),
        reference("GroupNormalization", [data, gamma, beta], num_groups=2, opset=21)[0],
    )
    close(
        computed(relay.nn.lrn, data, size=3, alpha=0.1, bias=1.0),
        reference("LRN", [data], size=3, alpha=0.1, bias=1.0)[0],
    )


SPELLED_ALIKE = {**alike.ALIKE, **alike.WRITTEN_ALIKE, **{name: op_type for op_type, name in alike.READ_ALIKE.items()}}
SPELLED_ALIKE.pop("nn.leaky_relu")  # its alpha has another default
SPELLED_ALIKE.pop("gather")  # its indices are no floats: see test_gathers_and_scatters


@pytest.mark.parametrize("name", sorted(SPELLED_ALIKE))
def test_operators_spelled_alike_in_onnx(name: str) -> None:
    """Every operator that is read or written as the ONNX operator of a given name computes what that one computes."""
    op, op_type = relay.op.get(name), SPELLED_ALIKE[name]
    dtype = {"And": "bool", "Or": "bool", "Xor": "bool", "Not": "bool"}.get(
        op_type, "int32" if "Bitwise" in op_type else "float32"
    )
    values = np.array([-2.5, -1.5, -0.5, 0.25, 0.5, 0.75, 1.5, 2.5], "float32")
    arrays = [np.asarray(values * scale).astype(dtype) for scale in (1, 2, 3)][: len(op.arguments or ())]
    if name == "where":
        arrays[0] = arrays[0] > 0
    opset = 20 if onnx.defs.has(op_type, max_inclusive_version=20) else onnx.defs.get_schema(op_type).since_version
    expected = reference(op_type, arrays, opset=opset)[0]
    actual = computed(lambda *args: relay.Call(op, args), *arrays)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


# ---- moving data


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("method", ["nearest", "linear", "cubic"])
def test_resize(mode: str, method: str) -> None:
    data = normal(1, 2, 4, 6)
    sizes = np.array([1, 2, 7, 3], "int64")
    attributes = {"coordinate_transformation_mode": mode, "mode": method, "nearest_mode": "round_prefer_floor"}
    expected = reference("Resize", [data, None, None, sizes], **attributes)[0]
    actual = computed(
        relay.image.resize2d,
        data,
        size=(7, 3),
        method={"nearest": "nearest_neighbor"}.get(method, method),
        coordinate_transformation_mode=mode,
        rounding_method="round_prefer_floor",
        cubic_alpha=-0.75,
    )
    close(actual, expected)


def test_depth_to_space() -> None:
    data = normal(1, 8, 2, 3)
    for mode in ("DCR", "CRD"):
        expected = reference("DepthToSpace", [data], blocksize=2, mode=mode)[0]
        close(computed(relay.nn.depth_to_space, data, block_size=2, mode=mode), expected)
        if mode == "DCR":
            close(computed(relay.nn.space_to_depth, expected, block_size=2), data)


def test_batch_to_space_undoes_space_to_batch() -> None:
    data = normal(2, 5, 6, 3)
    blocks = {"block_shape": (2, 3)}
    there = computed(relay.nn.space_to_batch_nd, data, **blocks, paddings=((1, 0), (2, 1)))
    assert there.shape == (12, 3, 3, 3)
    close(computed(relay.nn.batch_to_space_nd, there, **blocks, crops=((1, 0), (2, 1))), data)
    np.testing.assert_array_equal(there[0, 1, 1:], data[0, 1, 1::3][:2])  # first of every block, row 2 of the padded


def test_gathers_and_scatters() -> None:
    data, indices = normal(3, 4), np.array([[0, -1, 2], [1, 1, 3]], "int64")
    updates = normal(2, 3)
    for axis in (0, 1):
        rows = np.where(indices < 0, -1, np.minimum(indices, data.shape[axis] - 1))
        expected = reference("GatherElements", [data, rows], axis=axis)[0]
        close(computed(lambda d, i, axis=axis: relay.gather(d, axis, i), data, rows), expected)
        expected = reference("ScatterElements", [data, rows, updates], axis=axis, reduction="add")[0]
        close(computed(relay.scatter_elements, data, rows, updates, axis=axis, reduction="add"), expected)
    places = np.array([[0, 1], [2, 3]], "int64")
    expected = reference("GatherND", [data, np.ascontiguousarray(places.T)])[0]
    close(computed(relay.gather_nd, data, places), expected)
    expected = reference("ScatterND", [data, np.ascontiguousarray(places.T), normal(2) * 0 + 9])[0]
    close(computed(relay.scatter_nd, data, places, np.full(2, 9, "float32")), expected)


def test_slices_as_onnx_has_them() -> None:
    data = normal(5, 6)
    for begin, end, step in [(1, 4, 1), (-2, 100, 1), (4, -100, -2), (-1, 0, -1), (3, 1, 1)]:
        bounds = [np.array([value], "int64") for value in (begin, end, 1, step)]
        expected = reference("Slice", [data, *bounds])[0]
        close(computed(relay.strided_slice, data, begin=[begin], end=[end], strides=[step], axes=[1]), expected)


def test_slices_whose_lists_differ_in_length() -> None:
    data = normal(5, 6)
    close(computed(relay.strided_slice, data, begin=[1], end=[3, -2]), data[1:3, :-2])
    close(computed(relay.strided_slice, data, begin=[], end=[3], strides=[1, -2]), data[:3, ::-2])
    close(computed(relay.strided_slice, data, begin=[1, 2], end=[4]), data[1:4, 2:])
    for attrs in ({"begin": [0], "end": [1, 1, 1]}, {"begin": [0], "end": [1, 1], "axes": [0]}):
        with pytest.raises(TypeCheckError, match="do not fit 2 dimensions"):
            infer_type(relay.strided_slice(relay.const(data), **attrs))


def test_topk_and_sorts() -> None:
    data = np.array([[3, 1, 3, 2], [0, 5, 5, 5]], "float32")
    values, indices = reference("TopK", [data, np.array([3], "int64")], outputs=2)
    found = computed(relay.topk, data, k=3, dtype="int64")
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[1], indices)
    assert computed(relay.argsort, data, is_ascend=False).tolist() == [[0, 2, 3, 1], [1, 2, 3, 0]]


def test_grid_sample() -> None:
    data, grid = normal(2, 3, 4, 5), RNG.uniform(-1.2, 1.2, (2, 6, 7, 2)).astype("float32")
    for method, mode in (("bilinear", "linear"), ("nearest", "nearest")):
        for padding in ("zeros", "border"):
            attrs = {"padding_mode": padding, "align_corners": False}
            expected = reference("GridSample", [data, grid], mode=mode, padding_mode=padding, align_corners=0)[0]
            actual = computed(relay.image.grid_sample, data, grid.transpose(0, 3, 1, 2), method=method, **attrs)
            close(actual, expected)


# ---- quantized


def test_quantize_and_dequantize() -> None:
    data = np.array([-1000, -1.26, -0.25, 0, 0.25, 0.75, 1.25, 1000], "float32")
    scale, zero = np.array(0.5, "float32"), np.array(3, "int8")
    expected = reference("QuantizeLinear", [data, scale, zero])[0]
    actual = computed(relay.qnn.quantize, data, scale, zero.astype("int32"))
    np.testing.assert_array_equal(actual, expected)
    close(
        computed(relay.qnn.dequantize, actual, scale, zero.astype("int32")),
        reference("DequantizeLinear", [expected, scale, zero])[0],
    )


def test_quantized_conv2d_then_requantize() -> None:
    """Not compared with onnxruntime: without VNNI instructions its sums of two products saturate at 16 bits."""
    data = RNG.integers(0, 255, (1, 4, 6, 6)).astype("uint8")
    weight = RNG.integers(-100, 100, (8, 4, 3, 3)).astype("int8")
    scales = [np.array(value, "float32") for value in (0.02, 0.1)]
    weight_scale = np.abs(normal(8)) * np.float32(0.01)
    zeros = [np.array(value, "int32") for value in (120, 0, 7)]
    inputs = [
        data,
        scales[0],
        zeros[0].astype("uint8"),
        weight,
        weight_scale,
        np.zeros(8, "int8"),
        scales[1],
        zeros[2].astype("uint8"),
    ]
    expected = by_definition("QLinearConv", inputs, pads=(1, 1, 1, 1))[0]
    total = computed(
        relay.qnn.op.conv2d,
        data,
        weight,
        zeros[0],
        zeros[1],
        scales[0],
        weight_scale,
        kernel_size=(3, 3),
        channels=8,
        padding=1,
    )
    assert total.dtype == np.int32
    product = (scales[0] * weight_scale).astype("float32")
    actual = computed(relay.qnn.op.requantize, total, product, zeros[1], scales[1], zeros[2], axis=1, out_dtype="uint8")
    assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1
    assert (actual == expected).mean() > 0.99


# ---- integers and corner cases, by hand


def test_the_mean_of_more_integers_than_their_dtype_counts() -> None:
    data = np.tile(np.array([[3], [-3]], "int8"), (2, 64))
    data[0, 0] = 127
    assert computed(relay.mean, data) == 0  # of 124 / 256
    assert computed(relay.mean, np.ones((128, 2), "uint8"), axis=0).tolist() == [1, 1]
    assert computed(relay.mean, np.ones((2, 128), "int8"), axis=0).tolist() == [1] * 128


def test_integer_division_truncates_and_floors() -> None:
    a, b = np.array([7, -7, 7, -7, 5], "int32"), np.array([2, 2, -2, -2, 0], "int32")
    assert computed(relay.divide, a, b).tolist() == [3, -3, -3, 3, 0]
    assert computed(relay.trunc_divide, a, b).tolist() == [3, -3, -3, 3, 0]
    assert computed(relay.floor_divide, a, b).tolist() == [3, -4, -4, 3, 0]
    assert computed(relay.mod, a, b).tolist() == [1, -1, 1, -1, 0]
    assert computed(relay.floor_mod, a, b).tolist() == [1, 1, -1, -1, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_first_power_is_every_bit_of_the_base(dtype: str) -> None:
    bases = np.exp(np.random.default_rng(0).uniform(-8, 8, 200_000)).astype(dtype)
    assert np.array_equal(computed(relay.power, bases, np.ones_like(bases)), bases)


def test_integer_powers() -> None:
    a, b = np.array([2, 1, -1, 3, 0], "int32"), np.array([-1, -5, -3, 4, 0], "int32")
    assert computed(relay.power, a, b).tolist() == [0, 1, -1, 81, 1]


def test_rounding_ties_to_even() -> None:
    assert computed(relay.round, np.array([0.5, 1.5, -0.5, 2.5], "float32")).tolist() == [0, 2, 0, 2]


def test_narrow_integers_are_accumulated_exactly() -> None:
    a, b = np.full((1, 1000), 127, "int8"), np.full((1, 1000), -128, "int8")
    assert computed(relay.nn.dense, a, b, out_dtype="int32").tolist() == [[-16256000]]


def test_half_precision_sums_do_not_saturate_on_the_way() -> None:
    ones = np.ones(4096, "float16")
    assert computed(relay.sum, ones) == 4096
    assert computed(relay.mean, ones * np.float16(30)) == 30


def test_sigmoid_and_softmax_do_not_overflow() -> None:
    assert computed(relay.sigmoid, np.array([-1000, 1000], "float32")).tolist() == [0, 1]
    assert computed(relay.nn.softmax, np.array([1e4, 0], "float32")).tolist() == [1, 0]


def test_erf_to_double_precision() -> None:
    import math

    x = np.linspace(-7, 7, 2001)
    np.testing.assert_allclose(computed(relay.erf, x), [math.erf(v) for v in x], rtol=1e-14)


def test_reductions_of_nothing() -> None:
    empty = np.zeros((2, 0), "float32")
    assert computed(relay.sum, empty, axis=1).tolist() == [0, 0]
    assert computed(relay.max, empty, axis=1).tolist() == [-np.inf, -np.inf]
    assert np.isnan(computed(relay.mean, empty, axis=1)).all()


def test_reshape_codes() -> None:
    data = np.zeros((2, 3, 4, 5), "float32")
    for codes, shape in {
        (0, -1): (2, 60),
        (-2,): (2, 3, 4, 5),
        (-3, -3): (6, 20),
        (0, -3, 5): (2, 12, 5),
        (-4, 1, 2, -2): (1, 2, 3, 4, 5),
        (-4, -1, 1, -2): (2, 1, 3, 4, 5),
        (6, 4, -1): (6, 4, 5),
    }.items():
        assert computed(relay.reshape, data, newshape=codes).shape == shape


@pytest.mark.parametrize("roi", [(0.25, 0.0, 0.75, 1.0), (0.0, 0.0, 0.25, 0.0, 1.0, 1.0, 0.75, 1.0)])
def test_regions_of_interest_name_the_spatial_axes_or_all(roi: tuple[float, ...]) -> None:
    data = np.arange(10, dtype="float32").reshape(1, 1, 5, 2)
    options = {"method": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    crop = evaluate(relay.image.resize2d(relay.const(data), (3, 2), roi, **options))
    np.testing.assert_array_equal(crop, data[:, :, 1:4])
    whole = evaluate(relay.image.resize2d(relay.const(data), (5, 2), **options))
    np.testing.assert_array_equal(whole, data)


@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, True), ((0, 2), False)])
def test_reductions_made_of_others(axis: Any, keepdims: bool) -> None:
    data = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32") * 30
    x = relay.const(data)
    options = {"axis": axis, "keepdims": keepdims}
    expected = np.log(np.sum(np.exp(data.astype("float64")), **options))
    np.testing.assert_allclose(evaluate(relay.logsumexp(x, axis, keepdims)), expected, rtol=1e-5)
    big = relay.const(data + np.float32(1000))
    np.testing.assert_allclose(evaluate(relay.logsumexp(big, axis, keepdims)), expected + 1000, rtol=1e-5)
    mean, std = relay.mean_std(x, axis, keepdims)
    np.testing.assert_allclose(evaluate(mean), np.mean(data, **options), rtol=1e-4)
    np.testing.assert_allclose(evaluate(std), np.std(data, **options), rtol=1e-4)


# ---- operators with the names and attributes of ONNX


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Celu", {"alpha": 0.5}),
        ("Elu", {}),
        ("Elu", {"alpha": 2.0}),
        ("HardSigmoid", {}),
        ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.25}),
        ("Mish", {}),
        ("Selu", {}),
        ("Shrink", {"bias": 0.25, "lambd": 1.0}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("ThresholdedRelu", {"alpha": 0.5}),
    ],
)
def test_activations(op_type: str, attributes: dict[str, float]) -> None:
    data = np.asarray([*normal(40) * 3, 100, -100, 0], "float32")
    build = next(getattr(relay.nn, name) for name in dir(relay.nn) if name.replace("_", "") == op_type.lower())
    close(computed(build, data, **attributes), reference(op_type, [data], **attributes)[0])


@pytest.mark.parametrize(
    ("name", "op_type"),
    [
        ("log_sum", "ReduceLogSum"),
        ("log_sum_exp", "ReduceLogSumExp"),
        ("norm_l1", "ReduceL1"),
        ("norm_l2", "ReduceL2"),
        ("sum_of_squares", "ReduceSumSquare"),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_functions_of_sums(name: str, op_type: str, keepdims: bool) -> None:
    data = np.abs(normal(3, 4, 5)) * 40
    expected = reference(op_type, [data, np.asarray([0, 2])], keepdims=int(keepdims))[0]
    close(computed(getattr(relay, name), data, axis=(0, 2), keepdims=keepdims), expected)
