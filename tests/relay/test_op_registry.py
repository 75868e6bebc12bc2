"""What the registry says of operators: kinds, attribute conventions, outputs, deduced types, unknown dimensions."""

from __future__ import annotations

from typing import Any

import pytest

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError, OperatorError, TypeCheckError
from eqsat.ir import structural_equal
from eqsat.relay.dataflow_pattern import is_op, is_tuple
from eqsat.relay.expr import Op
from eqsat.relay.infer import infer_types
from eqsat.relay.op.op import OpPattern
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType

KINDS = {
    OpPattern.ELEMWISE: "abs cast clip copy erf exp full log nn.leaky_relu nn.relu ones qnn.dequantize qnn.quantize "
    "qnn.requantize round rsqrt sigmoid sqrt tanh trilu zeros_like dyn.full",
    OpPattern.BROADCAST: "add broadcast_to divide equal expand_dims floor_mod less logical_and maximum nn.bias_add "
    "nn.prelu power qnn.add repeat right_shift subtract tile where",
    OpPattern.INJECTIVE: "concatenate dyn.reshape einsum gather gather_nd image.resize2d layout_transform meshgrid "
    "nn.batch_flatten nn.pad nn.depth_to_space nn.upsampling ndarray_size reshape split squeeze stack strided_set "
    "strided_slice take transpose",
    OpPattern.COMM_REDUCE: "all argmax collapse_sum_to max mean sum variance",
    OpPattern.OUT_ELEMWISE_FUSABLE: "nn.avg_pool2d nn.batch_matmul nn.batch_norm nn.conv2d nn.conv2d_transpose "
    "nn.dense nn.global_avg_pool2d nn.log_softmax nn.matmul nn.max_pool2d nn.softmax one_hot qnn.conv2d qnn.dense",
    OpPattern.OPAQUE: "annotation.compiler_begin annotation.stop_fusion arange argsort cumsum dyn.topk nn.dropout "
    "nn.lrn scatter_elements scatter_nd shape_of sort topk",
    None: "hardswish nn.group_norm nn.instance_norm nn.l2_normalize nn.layer_norm qnn.softmax qnn.leaky_relu qnn.sqrt",
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kinds(kind: OpPattern | None) -> None:
    assert {name: Op.get(name).get_attr("TOpPattern") for name in KINDS[kind].split()} == dict.fromkeys(
        KINDS[kind].split(), kind
    )


def typed(expr: Any) -> Any:
    return infer_types(expr)[expr]


def tensor(*shape: Any, dtype: str = "float32") -> Any:
    return relay.var("x", shape=shape, dtype=dtype)


# ---- attributes as Relay stores them


@pytest.mark.parametrize("given", [1, (1,), (1, 1), (1, 1, 1, 1)])
def test_padding_is_stored_for_each_side(given: Any) -> None:
    call = relay.nn.conv2d(tensor(), tensor(), padding=given)
    assert call.attrs.padding == (1, 1, 1, 1)


def test_defaults_of_conv2d() -> None:
    attrs = relay.nn.conv2d(tensor(), tensor()).attrs
    assert dict(attrs) == {
        "strides": (1, 1),
        "padding": (0, 0, 0, 0),
        "dilation": (1, 1),
        "groups": 1,
        "channels": None,
        "kernel_size": None,
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
        "out_layout": "",
        "out_dtype": "",
    }


def test_attributes_by_position_as_in_relay() -> None:
    x, w = tensor(), tensor()
    assert relay.nn.conv2d(x, w, (2, 2), (1, 1), (1, 1), 1, 16, (3, 3)).attrs.channels == 16
    assert relay.sum(x, 1).attrs.axis == (1,)
    assert relay.nn.max_pool2d(x, (2, 2), (2, 2)).attrs.strides == (2, 2)
    assert relay.split(x, 3, 1).astuple().attrs.indices_or_sections == 3
    assert relay.nn.pad(x, ((0, 0), (1, 1))).attrs.pad_width == ((0, 0), (1, 1))


@pytest.mark.parametrize(
    "use",
    [
        relay.nn.relu,
        lambda parts: tensor(2) + parts,
        lambda parts: relay.Function([], parts),
        lambda parts: relay.Tuple([parts]),
        lambda parts: relay.Call(relay.op.get("nn.relu"), [parts]),
        lambda parts: relay.concatenate([parts], 0),
        eqsat.saturate,
    ],
)
def test_several_outputs_are_no_expression(use: Any) -> None:
    parts = relay.split(tensor(4), 2)
    with pytest.raises(ArgumentError, match=r"use \.astuple\(\) for all outputs, or \[i\] for one of them"):
        use(parts)
    with pytest.raises(AttributeError, match=r"no attribute 'args': use \.astuple\(\)"):
        _ = parts.args


def test_variables_are_shown_with_their_types() -> None:
    assert repr(relay.var("x", shape=(2, 3))) == "Var(x, ty=Tensor[(2, 3), float32])"
    assert repr(relay.var("x")) == "Var(x)"
    assert repr(relay.GlobalVar("main")) == "GlobalVar(main)"
    with pytest.raises(ArgumentError, match=r"a parameter of a Function must be a Var, not GlobalVar\(f\)"):
        relay.Function([relay.GlobalVar("f")], tensor())  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("nn.nope", None), ("nn.rleu", "nn.relu"), ("relu", "nn.relu"), ("nn.add", "add"), ("ad", "add"), ("x.y", None)],
)
def test_names_that_are_spelled_nearly_so_are_suggested(name: str, suggested: str | None) -> None:
    with pytest.raises(OperatorError) as raised:
        relay.op.get(name)
    ending = "" if suggested is None else f"; did you mean {suggested!r}?"
    assert str(raised.value) == f"there is no operator {name!r}{ending}"


def test_wrong_attributes_are_named() -> None:
    x = tensor()
    with pytest.raises(OperatorError, match=r"nn\.conv2d: padding=\(1, 2, 3\) is not of kind ints"):
        relay.nn.conv2d(x, x, padding=(1, 2, 3))
    with pytest.raises(OperatorError, match="reshape needs attribute 'newshape'"):
        relay.reshape(x)
    with pytest.raises(OperatorError, match=r"nn\.softmax has no attribute 'axes'"):
        relay.nn.softmax(x, axes=1)
    with pytest.raises(ArgumentError, match="a field of a tuple argument must be an expression"):
        relay.concatenate([x, 1.0], axis=0)


# ---- outputs and arguments


@pytest.mark.parametrize("value", ["text", None, object(), [1, [2, 3]]])
def test_what_no_constant_can_hold(value: object) -> None:
    with pytest.raises(ArgumentError, match="a constant cannot hold"):
        relay.const(value)


def test_operators_of_several_outputs() -> None:
    x = tensor(4)
    assert len(relay.split(x, 2)) == 2
    assert len(relay.split(x, (1, 2))) == 3
    assert len(relay.nn.batch_norm(x, x, x, x, x)) == 3
    assert isinstance(relay.nn.dropout(x), relay.TupleGetItem)
    assert len(relay.topk(x)) == 2
    assert isinstance(relay.topk(x, ret_type="values"), relay.Call)


def test_parameters_given_as_tensors_make_dynamic_operators() -> None:
    x, shape = tensor(2, 3), relay.var("s", shape=(3,), dtype="int64")
    assert relay.reshape(x, shape).op.name == "dyn.reshape"
    assert relay.reshape(x, (3, 2)).op.name == "reshape"
    call = relay.strided_slice(x, relay.var("b", shape=(1,), dtype="int64"), [2])
    assert call.op.name == "dyn.strided_slice"
    assert call.args[2].data.numpy().tolist() == [2]
    assert relay.zeros(shape, "float32").op.name == "dyn.zeros"
    assert typed(relay.reshape(x, shape)) == TensorType([AnyDim()] * 3)


# ---- deduced types


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda x, w: relay.nn.conv2d(x, w, channels=6, kernel_size=(3, 2)), (6, 4, 3, 2)),
        (lambda x, w: relay.nn.conv2d(x, w, channels=6, kernel_size=3, groups=2), (6, 2, 3, 3)),
        (lambda x, w: relay.nn.conv2d(x, w, channels=8, kernel_size=3, groups=4), (4, 2, 3, 3)),
        (lambda x, w: relay.nn.conv2d(x, w, channels=6, kernel_size=1, kernel_layout="HWIO"), (1, 1, 4, 6)),
        (lambda x, w: relay.nn.conv2d_transpose(x, w, channels=6, kernel_size=(3, 2)), (4, 6, 3, 2)),
        (lambda x, w: relay.nn.dense(x, w, units=7), (7, 8)),
        (lambda x, w: relay.nn.matmul(x, w, units=7), (8, 7)),
        (lambda x, w: relay.nn.bias_add(x, w), (4,)),
        (lambda x, w: relay.nn.prelu(x, w, axis=3), (8,)),
        (lambda x, w: relay.nn.layer_norm(x, w, w), (8,)),
        (lambda x, w: relay.nn.batch_norm(x, w, w, w, w)[0], (4,)),
    ],
)
def test_types_of_parameters_are_deduced(build: Any, shape: tuple[int, ...]) -> None:
    x, w = relay.var("x", shape=(2, 4, 8, 8)), relay.var("w")
    assert infer_types(build(x, w))[w] == TensorType(shape)


# ---- unknown dimensions


N, M = AnyDim("n"), AnyDim("m")


@pytest.mark.parametrize(
    ("build", "shape", "result"),
    [
        (lambda x: relay.nn.relu(x) + relay.const(1.0), (N, 3), (N, 3)),
        (lambda x: relay.reshape(x, (0, -1)), (N, 3, 4), (N, 12)),
        (lambda x: relay.reshape(x, (-1, 12)), (N, 3, 4), (N, 12)),
        (lambda x: relay.reshape(x, (-1, 4)), (N, 3, 4), (AnyDim("3*n"), 4)),
        (lambda x: relay.reshape(x, (0, 0, 2, -1)), (N, M, 8), (N, M, 2, 4)),
        (lambda x: relay.reshape(x, (-3, -2)), (N, 1, 5), (N, 5)),
        (lambda x: relay.nn.conv2d(x, relay.var("w", shape=(8, 3, 3, 3)), padding=1), (N, 3, M, M), (N, 8, M, M)),
        (lambda x: relay.nn.max_pool2d(x, 2, 2), (N, 3, M, 8), (N, 3, AnyDim("(m//2)"), 4)),
        (lambda x: relay.nn.dense(x, relay.var("w", shape=(5, 8))), (N, M, 8), (N, M, 5)),
        (lambda x: relay.nn.matmul(x, x, transpose_b=True), (N, M, 8), (N, M, M)),
        (lambda x: relay.concatenate([x, x], 1), (N, 3), (N, 6)),
        (lambda x: relay.concatenate([x, x], 0), (N, 3), (AnyDim("2*n"), 3)),
        (lambda x: relay.strided_slice(x, [0], [2**31 - 1], axes=[0]), (N, 3), (N, 3)),
        (lambda x: relay.strided_slice(x, [1], [3], axes=[1]), (N, 3), (N, 2)),
        (lambda x: relay.sum(x, 1), (N, M, 3), (N, 3)),
        (lambda x: relay.nn.batch_flatten(x), (N, 3, 4), (N, 12)),
        (lambda x: relay.layout_transform(x, "NCHW", "NHWC"), (N, 8, M, 4), (N, M, 4, 8)),
        (lambda x: relay.layout_transform(x, "NCHW", "NCHW4c"), (N, 8, M, 4), (N, 2, M, 4, 4)),
    ],
)
def test_unknown_dimensions_survive(build: Any, shape: Any, result: Any) -> None:
    assert typed(build(tensor(*shape))) == TensorType(result)


# ---- what does not fit


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: x + relay.var("y", shape=(2, 4, 8, 9)), r"add\(.*\): dimensions 8 and 9 do not broadcast"),
        (lambda x: x + relay.var("y", shape=(1,), dtype="int32"), "differ in dtype: float32 and int32"),
        (lambda x: relay.reshape(x, (5, -1)), "the size of .* is not divisible by 5"),
        (lambda x: relay.reshape(x, (-1, -1)), "has -1 twice"),
        (lambda x: relay.transpose(x, (0, 1)), "axes .* do not permute 4 dimensions"),
        (lambda x: relay.sum(x, 4), "axis 4 is out of range for 4 dimensions"),
        (lambda x: relay.split(x, 3, 1)[0], "dimension 4 cannot be split into 3 equal parts"),
        (lambda x: relay.nn.conv2d(x, relay.var("w", shape=(8, 3, 3, 3))), "input channels .* 4 and 3 must be equal"),
        (lambda x: relay.nn.conv2d(x, relay.var("w", shape=(8, 4, 9, 9))), "a window of 9 does not fit an axis of 8"),
        (lambda x: relay.nn.max_pool2d(x, layout="NCWX"), "name different axes"),
        (lambda x: relay.layout_transform(x, "NCHW", "NCHW3c"), "dimension 4 is not divisible into blocks of 3"),
        (lambda x: relay.concatenate([x, relay.var("y", shape=(2, 4, 8, 7))], 1), "dimension 3: 8 and 7 must be equal"),
        (lambda x: relay.squeeze(x, 1), "axis 1 to squeeze: 4 and 1 must be equal"),
    ],
)
def test_type_errors_say_what_does_not_fit(build: Any, message: str) -> None:
    with pytest.raises(TypeCheckError, match=message):
        typed(build(tensor(2, 4, 8, 8)))


# ---- cost


def test_floating_point_operations() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(16, 3, 3, 3))
    call = relay.nn.conv2d(x, w, padding=1)
    types = infer_types(call)
    assert call.op.flops(call.attrs, [types[x], types[w]], types[call]) == 2 * 16 * 8 * 8 * 3 * 3 * 3
    a, b = relay.var("a", shape=(4, 5)), relay.var("b", shape=(6, 5))
    product = relay.nn.dense(a, b)
    types = infer_types(product)
    assert product.op.flops(product.attrs, [types[a], types[b]], types[product]) == 2 * 4 * 5 * 6


def test_tuple_arguments_may_be_lists() -> None:
    x = tensor(2, 3)
    joined = relay.concatenate([x, x], axis=1)
    assert joined.args[0].fields == (x, x)
    assert relay.op.get("concatenate").tuples == ("data",)
    quantized = relay.qnn.concatenate([x], [relay.const(1.0)], [relay.const(0)], relay.const(1.0), relay.const(0))
    assert [isinstance(arg, relay.Tuple) for arg in quantized.args] == [True, True, True, False, False]


@pytest.mark.parametrize("name", ["concatenate", "stack", "einsum", "meshgrid"])
def test_each_call_has_a_tuple_of_its_own(name: str) -> None:
    attributes = {"einsum": ["i,i->i"], "meshgrid": []}.get(name, [0])
    x, y = tensor(4), tensor(4)
    shared, parts = relay.Tuple([x, y]), relay.split(x, 2)
    for given, fields in ((shared, shared.fields), ([x, y], (x, y)), (parts, (parts[0], parts[1]))):
        call = getattr(relay, name)(given, *attributes)
        call = call.astuple() if isinstance(call, relay.TupleWrapper) else call
        made = call.args[0]
        assert isinstance(made, relay.Tuple)
        assert made is not given
        assert all(structural_equal(field, other) for field, other in zip(made.fields, fields, strict=True))
        assert is_op(name)(is_tuple(None)).match(call)


def test_a_tuple_that_is_no_list_of_fields_stays_as_it_is() -> None:
    pair = relay.var("pair", TupleType([TensorType((2,)), TensorType((2,))]))
    assert relay.concatenate(pair, 0).args[0] is pair
    call = relay.Call(relay.op.get("split"), [tensor(4)], {"indices_or_sections": 2, "axis": 0})
    assert relay.concatenate(call, 0).args[0] is call
    assert relay.meshgrid(pair).args[0] is pair


def test_a_grid_has_an_output_for_each_vector() -> None:
    x, y = tensor(2), tensor(3)
    grid = relay.meshgrid([x, y])
    assert len(grid) == 2
    assert infer_types(grid[1])[grid.astuple()].fields[1] == TensorType((2, 3))
    assert len(relay.meshgrid(relay.split(tensor(4), 2))) == 2
