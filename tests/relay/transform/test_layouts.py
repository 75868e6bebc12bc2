"""ConvertLayout, AlterOpLayout and Legalize: other layouts and forms of operators, of the same values."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError, OperatorError, PassError
from eqsat.relay import transform
from eqsat.relay.transform.layouts.layout import Layout, changed_like, fitted_blocks

from .compilers import assert_same_values, called_ops, module, parse, var

conv2d, relu = relay.nn.conv2d, relay.nn.relu


@contextmanager
def registered(name, key, value):
    with patch.dict(relay.Op.get(name).attr_map, {key: value}):
        yield


def same(before, *passes, tolerance=1e-5):
    """What the passes make of a module, after a check that it computes the same."""
    with transform.PassContext(opt_level=3):
        after = eqsat.transform.Sequential(passes)(before)
    assert_same_values(before, after, rtol=tolerance, atol=tolerance)
    return after["main"]


def converted(body, layout="NHWC", kernel="default", **others):
    """The operators of a body whose convolutions are converted, without changes of layout."""
    wanted = {"nn.conv2d": [layout, kernel], **others}
    return same(module(body), transform.ConvertLayout(wanted))


def changes(function):
    """The changes of layout in a function."""
    calls = [node for node in relay.visitor.post_order(function) if isinstance(node, relay.Call)]
    layout_transform = relay.Op.get("layout_transform")
    return [f"{call.attrs.src_layout}>{call.attrs.dst_layout}" for call in calls if call.op is layout_transform]


def is_call(node, name):
    return isinstance(node, relay.Call) and node.op is relay.Op.get(name)


def image(name="x", channels=4):
    return var(name, 2, channels, 6, 6)


def convolution(data, channels=8, name="w", inputs=4):
    return conv2d(data, var(name, channels, inputs, 3, 3), padding=1)


class TestConvertLayout:
    def test_of_a_convolution(self):
        function = converted(convolution(image()))
        assert changes(function) == ["NCHW>NHWC", "OIHW>HWIO", "NHWC>NCHW"]
        assert called_ops(function).count("nn.conv2d") == 1

    def test_what_follows_is_fitted(self):
        x = convolution(image()) + var("b", 8, 1, 1)
        x = relay.nn.max_pool2d(relu(x), (2, 2), strides=(2, 2))
        x = convolution(relay.concatenate([x, relay.tanh(x)], 1), name="v", inputs=16)
        function = converted(relay.mean(x, axis=(2, 3)))
        assert [each for each in changes(function) if each == "NHWC>NCHW"] == []
        assert changes(function).count("NCHW>NHWC") == 2  # the image and the bias

    def test_a_value_is_changed_back_once_for_all_that_need_it(self):
        x = convolution(image())
        function = converted(relay.Tuple([relay.nn.batch_flatten(x), relay.nn.lrn(x)]))
        assert changes(function).count("NHWC>NCHW") == 1

    @pytest.mark.parametrize(
        "follow",
        [
            lambda x: relay.nn.batch_norm(x, *[var(name, 8) for name in "abcd"])[0],
            lambda x: relay.nn.instance_norm(x, var("a", 8), var("b", 8)),
            lambda x: relay.nn.l2_normalize(x, 0.1, axis=[1]),
            lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 2), (3, 4))),
            lambda x: relay.nn.prelu(x, var("a", 8)),
            lambda x: relay.nn.upsampling(x, 2, 2),
            lambda x: relay.image.resize2d(x, (3, 3)),
            lambda x: relay.argmax(x, 1),
            lambda x: relay.argmax(x, [1, 2]),
            lambda x: relay.sum(x, 1, keepdims=True),
            lambda x: relay.sum(x, [1, 2], exclude=True),
            lambda x: relay.variance(x, 1),
            lambda x: relay.squeeze(relay.mean(x, [2, 3], keepdims=True), [2, 3]),
            lambda x: relay.split(x, 2, axis=1)[1],
            lambda x: relay.strided_slice(x, [0, 1, 2], [2, 5, 4]),
            lambda x: relay.strided_slice(x, [1, 2], [3, 5], axes=[1, 2]),
            lambda x: relay.slice_like(x, x * x, [2]),
            lambda x: relay.topk(x, 2, axis=1, ret_type="values"),
            lambda x: relay.transpose(x, (0, 2, 3, 1)),
            lambda x: relay.reshape(x, (2, -1)),
            lambda x: x + var("a", 6),
            lambda x: x + var("a", 2, 8, 6, 6),
            lambda x: relay.const(2.0) * x,
        ],
    )
    @pytest.mark.parametrize(("layout", "kernel"), [("NHWC", "default"), ("NCHW4c", "OIHW4i4o")])
    def test_what_follows_computes_the_same(self, follow, layout, kernel):
        converted(follow(convolution(image())), layout, kernel)

    def test_depthwise_kernels_have_a_layout_of_their_own(self):
        function = converted(conv2d(image(), var("w", 4, 1, 3, 3), groups=4, padding=1))
        assert "OIHW>HWOI" in changes(function)

    def test_blocks_that_do_not_divide_the_channels_are_left(self):
        assert changes(converted(convolution(image(channels=3), inputs=3), "NCHW4c", "OIHW4i4o")) == []

    def test_convolutions_of_other_ranks(self):
        x, w = var("x", 1, 2, 4, 4, 4), var("w", 3, 2, 2, 2, 2)
        mod = module(relay.nn.conv3d(x, w))
        assert "OIDHW>DHWIO" in changes(same(mod, transform.ConvertLayout({"nn.conv3d": ["NDHWC", "default"]})))
        mod = module(relay.nn.conv2d_transpose(image(), var("w", 4, 3, 2, 2)))
        assert "IOHW>HWIO" in changes(same(mod, transform.ConvertLayout({"nn.conv2d_transpose": ["NHWC", "default"]})))

    @pytest.mark.parametrize("pool", [relay.vision.roi_align, relay.vision.roi_pool])
    def test_of_pools_of_regions(self, pool):
        regions = relay.const(np.array([[0, 0, 0, 3, 3], [1, 1, 2, 5, 5]], "float32"))
        body = pool(convolution(image()), regions, (2, 2), 1.0)
        function = converted(body, **{body.op.name: ["NHWC", "default"]})
        assert changes(function) == ["NCHW>NHWC", "OIHW>HWIO", "NHWC>NCHW"]
        with pytest.raises(ArgumentError, match=r"the layout of the regions of vision\.roi_.* must be 'default'"):
            converted(body, **{body.op.name: ["NHWC", "NC"]})

    def test_of_a_deformable_convolution(self):
        moves, weight = relay.var("moves"), relay.var("weight")  # their types follow from the attributes
        body = relay.nn.deformable_conv2d(image(), moves, weight, kernel_size=(3, 3), channels=8, padding=(1, 1))
        mod = module(relu(body))
        assert [str(param.type_annotation) for param in mod["main"].params] == [
            "Tensor[(2, 4, 6, 6), float32]",
            "Tensor[(2, 18, 6, 6), float32]",
            "Tensor[(8, 4, 3, 3), float32]",
        ]
        function = same(mod, transform.ConvertLayout({"nn.deformable_conv2d": ["NHWC", "default"]}))
        assert changes(function) == ["NCHW>NHWC", "NCHW>NHWC", "OIHW>HWIO", "NHWC>NCHW"]

    def test_slices_whose_lists_differ_in_length(self):
        body = relay.strided_slice(convolution(image()), begin=[0, 1], end=[1, -1, 5], strides=[1, 1, 2, 1])
        (slice,) = [call for call in relay.visitor.post_order(converted(body)) if is_call(call, "strided_slice")]
        assert (slice.attrs.begin, slice.attrs.end, slice.attrs.strides) == ((0, 0, 0, 1), (1, 5, 6, -1), (1, 2, 1, 1))
        assert "NCHW4c>NCHW" in changes(converted(body, "NCHW4c", "OIHW4i4o"))

    def test_of_a_pool(self):
        body = relay.nn.max_pool2d(relu(image()))
        assert changes(converted(body, **{"nn.max_pool2d": ["NHWC"]})) == ["NCHW>NHWC", "NHWC>NCHW"]

    def test_of_quantized_operators(self):
        scale, zero = relay.const(0.5), relay.const(0)
        data, weight = var("x", 1, 4, 5, 5, dtype="int8"), var("w", 8, 4, 3, 3, dtype="int8")
        body = relay.qnn.op.conv2d(data, weight, zero, zero, scale, scale, kernel_size=(3, 3), channels=8)
        scales = relay.const(np.linspace(0.1, 1, 8).astype("float32"))
        body = relay.qnn.op.requantize(body, scales, zero, scale, zero, axis=1)
        after = transform.ConvertLayout({"qnn.conv2d": ["NHWC", "default"]})(module(body))["main"]
        assert changes(after) == ["NCHW>NHWC", "OIHW>HWIO", "NHWC>NCHW"]
        assert after.body.args[0].attrs.axis == 3

    def test_some_are_skipped(self):
        body = convolution(convolution(image(), 4), name="v")
        with transform.LayoutConfig(skip_layers=[0]):
            assert changes(converted(body)) == ["NCHW>NHWC", "OIHW>HWIO", "NHWC>NCHW"]

    def test_in_functions_lets_and_branches(self):
        mod = parse("""
def @main(%x: Tensor[(1, 4, 5, 5), float32], %w: Tensor[(4, 4, 3, 3), float32], %c: bool) {
  let %v = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
  let %f = fn (%a: Tensor[(1, 4, 5, 5), float32]) { nn.relu(nn.conv2d(%a, %w, padding=[1, 1, 1, 1])) };
  if (%c) { nn.relu(%v) } else { %f(%v) }
}
""")
        after = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)["main"]
        assert changes(after).count("NHWC>NCHW") == 2

    def test_bad_layouts(self):
        for layouts, message in [
            (["NHWC"], "2 layouts"),
            (["default", "default"], "must be stated"),
            (["CNHW", "default"], "no usual kernel layout"),
            (["NCHW4c", "default"], "must be stated"),
        ]:
            with pytest.raises(ArgumentError, match=message):
                transform.ConvertLayout({"nn.conv2d": layouts})(module(convolution(image())))
        with pytest.raises(OperatorError, match=r"nn\.conv"):
            transform.ConvertLayout({"nn.conv": ["NHWC", "default"]})

    def test_a_deep_graph(self):
        x = convolution(image())
        for _ in range(5000):
            x = relu(x)
        assert len(changes(transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module(x))["main"])) == 3


steps = st.lists(
    st.sampled_from(
        [
            lambda x, n: relu(x),
            lambda x, n: x + var(f"b{n}", 4, 1, 1),
            lambda x, n: var(f"b{n}", 6) * x,
            lambda x, n: conv2d(x, var(f"w{n}", 4, 4, 1, 1)),
            lambda x, n: relay.transpose(x, (0, 1, 3, 2)),
            lambda x, n: relay.concatenate(relay.split(x, 2, axis=1), 1),
            lambda x, n: relay.nn.avg_pool2d(x, (3, 3), padding=1),
            lambda x, n: x - relay.sum(x, 1, keepdims=True),
            lambda x, n: relay.nn.softmax(x, 1),
            lambda x, n: x * x,
        ]
    ),
    max_size=6,
)


@given(steps, st.sampled_from([("NHWC", "default"), ("NCHW2c", "OIHW2i2o"), ("HWNC", "default")]))
def test_whatever_follows_convolutions_the_values_stay(follow, layouts):
    x = conv2d(image(), var("w", 4, 4, 1, 1))
    for number, step in enumerate(follow):
        x = step(x, number)
    converted(x, *layouts)


class TestAlterOpLayout:
    def altered(self, body, alter, name="nn.conv2d"):
        with registered(name, "FTVMAlterOpLayout", alter):
            return same(module(body), transform.AlterOpLayout())

    def test_what_is_registered_decides(self):
        def alter(attrs, args, types, result):
            assert [ty.shape for ty in (*types, result)] == [(2, 4, 6, 6), (8, 4, 3, 3), (2, 8, 6, 6)]
            return conv2d(*args, **{**attrs, "data_layout": "NCHW4c"})

        function = self.altered(relu(convolution(image())), alter)
        assert changes(function) == ["NCHW>NCHW4c", "NCHW4c>NCHW"]

    def test_none_leaves_a_call(self):
        assert changes(self.altered(convolution(image()), lambda *given: None)) == []

    def test_arguments_may_become_other_expressions(self):
        function = self.altered(
            convolution(image()), lambda attrs, args, *types: conv2d(args[0], args[1] * relay.const(1.0), **attrs)
        )
        assert called_ops(function) == ["multiply", "nn.conv2d"]

    def test_an_operator_of_which_no_layouts_are_known(self):
        function = self.altered(
            relay.nn.softmax(convolution(image())),
            lambda attrs, args, *types: relay.nn.softmax(*args, **attrs),
            "nn.softmax",
        )
        assert called_ops(function) == ["nn.conv2d", "nn.softmax"]

    def test_another_number_of_arguments_is_an_error(self):
        with pytest.raises(PassError, match=r"nn\.conv2d was altered to one of nn\.relu"):
            self.altered(convolution(image()), lambda attrs, args, *types: relu(args[0]))
        with pytest.raises(PassError, match="only be altered to another call"):
            self.altered(convolution(image()), lambda attrs, args, *types: args[0])

    def test_a_rule_of_layouts_can_be_registered(self):
        asked = []

        def rule(attrs, new, old, types):
            asked.append([str(layout) for layout in new or old])
            return transform.InferCorrectLayoutOutput(["NCHW"], ["NCHW"], attrs)

        with registered("nn.relu", "FInferCorrectLayout", rule):
            function = converted(relu(convolution(image())))
        assert asked == [["NCHW"], ["NHWC"]]
        assert called_ops(function)[-2:] == ["layout_transform", "nn.relu"]


class TestLegalize:
    def test_calls_become_what_is_registered(self):
        def legalize(attrs, args, types):
            assert [str(ty) for ty in types] == ["Tensor[(2), float32]"] * 2
            return relay.maximum(args[0], relay.const(0.0))

        with registered("nn.relu", "FTVMLegalize", legalize):
            function = same(module(relu(relu(var("x", 2)))), transform.Legalize())
        assert called_ops(function) == ["maximum", "maximum"]

    def test_none_leaves_a_call_and_the_attribute_may_have_another_name(self):
        with registered("nn.relu", "mine", lambda *given: None):
            assert called_ops(same(module(relu(var("x", 2))), transform.Legalize("mine"))) == ["nn.relu"]

    def test_anything_but_a_call_is_an_error(self):
        legalize = registered("nn.relu", "FTVMLegalize", lambda attrs, args, types: args[0])
        with legalize, pytest.raises(PassError, match="must give a call or None"):
            transform.Legalize()(module(relu(var("x", 2))))

    def test_functions_are_registered_by_name(self):
        with patch.dict(relay.Op.get("tanh").attr_map):
            register = relay.op.register_legalize("tanh")
            assert register(abs) is abs
            assert relay.Op.get("tanh").get_attr("FTVMLegalize") is abs


@pytest.mark.parametrize(
    ("layout", "before", "after", "expected"),
    [
        ("NW", "NC", "NC4c", "NW4w"),
        ("W", "NC", "NC4c", "NW4w"),
        ("NCHW", "NCHW", "NHWC", "NHWC"),
        ("", "NCHW", "NHWC", ""),
        ("NCHW4c", "CHW", "HWC", None),
    ],
)
def test_a_layout_changes_like_that_of_another_operand(layout, before, after, expected):
    found = changed_like(*map(Layout.parse, (layout, before, after)))
    assert (found if found is None else found.name) == expected


def test_what_broadcasts_gets_blocks_of_one():
    fitted = fitted_blocks(Layout.parse("NCHW4c"), Layout.parse("NHWC"), (2, 6, 6, 1))
    assert fitted.name == "NCHW1c"
