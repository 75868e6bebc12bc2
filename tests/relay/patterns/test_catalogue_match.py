"""The catalogue of Relay's own tests of its pattern language, under its names: construction and matching.

Each says in a few lines what Relay's does; the other files here go further.
"""

# mypy: disable-error-code="no-untyped-def"

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import OperatorError
from eqsat.relay.build_module import bind_params_by_name
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)

K_ELEMWISE, K_BROADCAST = 0, 1
relu, leaky_relu, conv2d = relay.nn.relu, relay.nn.leaky_relu, relay.nn.conv2d
is_relu, is_leaky, is_conv = is_op("nn.relu"), is_op("nn.leaky_relu"), is_op("nn.conv2d")
is_unary_elemwise = wildcard().has_attr({"TOpPattern": K_ELEMWISE})(wildcard())

x, y, w, b = (relay.var(name) for name in "xywb")


# ---- construction


def test_expr_pattern():
    ep = is_expr(relay.var("x", shape=(4, 1)))
    assert isinstance(ep, ExprPattern)
    assert isinstance(ep.expr, relay.Var)


def test_var_pattern():
    v = is_var("x")
    assert isinstance(v, VarPattern)
    assert v.name == "x"


def test_constant_pattern():
    assert isinstance(is_constant(), ConstantPattern)


def test_wildcard_pattern():
    assert isinstance(wildcard(), WildcardPattern)


def test_CallPattern():
    wc1, wc2 = wildcard(), wildcard()
    c = is_op("add")(wc1, wc2)
    assert isinstance(c, CallPattern)
    assert isinstance(c.args[0], WildcardPattern)
    assert isinstance(c.args[1], WildcardPattern)


def test_FunctionPattern():
    wc1, wc2 = wildcard(), wildcard()
    f = FunctionPattern([wc1, wc2], is_op("add")(wc1, wc2))
    assert isinstance(f, FunctionPattern)
    assert all(isinstance(param, WildcardPattern) for param in f.params)
    assert isinstance(f.body, CallPattern)
    assert list(f.body.args) == [wc1, wc2]


def test_TuplePattern():
    t = is_tuple([wildcard(), wildcard()])
    assert isinstance(t, TuplePattern)
    assert all(isinstance(field, WildcardPattern) for field in t.fields)


def test_TupleGetItemPattern():
    t = is_tuple([wildcard(), wildcard()])
    tgi = is_tuple_get_item(t, 1)
    assert isinstance(tgi, TupleGetItemPattern)
    assert isinstance(tgi.tuple, TuplePattern)
    assert all(isinstance(field, WildcardPattern) for field in tgi.tuple.fields)


def test_AltPattern():
    alternatives = is_op("add") | is_op("subtract")
    assert isinstance(alternatives, AltPattern)
    assert isinstance(alternatives.left, ExprPattern)
    assert isinstance(alternatives.right, ExprPattern)


def test_TypePattern():
    ttype = relay.TensorType((10, 10), "float32")
    pattern = has_type(ttype)
    assert isinstance(pattern, TypePattern)
    assert pattern.type == ttype


def test_DataTypePattern():
    pattern = has_dtype("float16")
    assert isinstance(pattern, DataTypePattern)
    assert pattern.dtype == "float16"


def test_ShapePattern():
    pattern = has_shape((10, 10))
    assert isinstance(pattern, ShapePattern)
    assert list(pattern.shape) == [10, 10]


def test_AttrPattern():
    op = is_op("add").has_attr({"TOpPattern": K_ELEMWISE})
    assert isinstance(op, AttrPattern)
    assert op.attrs["TOpPattern"] == K_ELEMWISE


def test_IfPattern():
    pattern = is_if(is_op("less")(is_var("x"), is_var("y")), is_var("x"), is_var("y"))
    assert isinstance(pattern, IfPattern)
    assert isinstance(pattern.cond, CallPattern)
    assert isinstance(pattern.true_branch, VarPattern)
    assert isinstance(pattern.false_branch, VarPattern)


def test_LetPattern():
    let_var = is_var("let")
    pattern = is_let(let_var, is_op("less")(is_var("x"), is_var("y")), let_var)
    assert isinstance(pattern, LetPattern)
    assert isinstance(pattern.var, VarPattern)
    assert isinstance(pattern.value, CallPattern)
    assert isinstance(pattern.body, VarPattern)


# ---- operators and calls


def test_match_op():
    assert is_op("add").match(relay.op.op.get("add"))
    with pytest.raises(OperatorError):
        is_op("no such operator")


def test_no_match_op():
    assert not is_op("add").match(relay.op.op.get("subtract"))


def test_match_op_or():
    is_add_or_sub = is_op("add") | is_op("subtract")
    assert is_add_or_sub.match(relay.op.op.get("add"))
    assert is_add_or_sub.match(relay.op.op.get("subtract"))


def test_match_call_commutive():
    for name in ("add", "multiply"):
        pattern = is_op(name)(is_var("x"), is_var("y"))
        build = relay.op.op.get(name)
        assert pattern.match(relay.Call(build, [x, y]))
        assert pattern.match(relay.Call(build, [y, x]))


def test_no_match_call_commutive():
    for name in ("subtract", "divide"):
        pattern = is_op(name)(is_var("x"), is_var("y"))
        build = relay.op.op.get(name)
        assert pattern.match(relay.Call(build, [x, y]))
        assert not pattern.match(relay.Call(build, [y, x]))


def test_match_call():
    add_pattern = is_op("add")(wildcard(), wildcard())
    assert add_pattern.match(x + y)
    call = wildcard()(None)
    assert call.match(relay.op.add(x, y))
    assert call.match(relay.op.negative(x))


def test_no_match_call():
    assert not is_op("add")(wildcard(), wildcard()).match(x - y)


# ---- functions, ifs, lets


def test_match_func():
    wc1, wc2 = wildcard(), wildcard()
    assert FunctionPattern([wc1, wc2], wc1 + wc2).match(relay.Function([x, y], x + y))
    any_params = FunctionPattern(None, wildcard() + wildcard())
    assert any_params.match(relay.Function([x], x + x))
    assert any_params.match(relay.Function([x, y], x + y))


def test_no_match_func():
    wc1, wc2 = wildcard(), wildcard()
    assert not FunctionPattern([wc1, wc2], wc1 + wc2).match(relay.Function([x, y], x - y))


def an_if_pattern():
    px, py = is_var("x"), is_var("y")
    return is_if(is_op("less")(px, py), px, py)


def test_match_if():
    assert an_if_pattern().match(relay.If(x < y, x, y))


def test_no_match_if():
    assert not an_if_pattern().match(relay.If(x > y, x, y))
    assert not an_if_pattern().match(relay.If(x < y, y, x))


def a_let_pattern():
    let_var = is_var("let")
    return is_let(let_var, is_op("less")(is_var("x"), is_var("y")), let_var)


def test_match_let():
    lv = relay.var("let")
    assert a_let_pattern().match(relay.Let(lv, x < y, lv))


def test_no_match_let():
    lv = relay.var("let")
    assert not a_let_pattern().match(relay.Let(lv, x > y, lv))
    assert not a_let_pattern().match(relay.Let(lv, x < y, lv * x))


# ---- options, constants, tuples


def test_match_option():
    conv = conv2d(x, w)
    with_bias = relu(relay.nn.bias_add(conv, b))
    conv_pattern = is_conv(wildcard(), wildcard())
    pattern = is_relu(conv_pattern.optional(lambda c: is_op("nn.bias_add")(c, wildcard())))
    assert pattern.match(relu(conv))
    assert pattern.match(with_bias)

    conv_pattern = is_conv(wildcard(), wildcard())
    pattern = conv_pattern.optional(lambda c: is_relu(c)).optional(lambda c: is_op("tanh")(c))
    assert pattern.match(conv)
    assert pattern.match(relu(conv))
    assert pattern.match(relay.tanh(conv))
    assert pattern.match(relay.tanh(relu(conv)))
    assert not pattern.match(relu(relay.tanh(conv)))


def test_no_match_option():
    conv_pattern = is_conv(wildcard(), wildcard())
    pattern = is_relu(conv_pattern.optional(lambda c: is_op("nn.bias_add")(c, wildcard())))
    conv = conv2d(x, w)
    assert not pattern.match(relay.tanh(conv))
    assert not pattern.match(relu(relay.nn.dense(x, w)))
    assert not pattern.match(relu(relay.nn.bias_add(relay.nn.dense(x, w), b)))
    assert not pattern.match(relu(conv + w))


def test_match_const():
    pattern = is_op("nn.bias_add")(is_conv(wildcard(), is_constant()), wildcard())
    params = [relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(3, 3, 3, 3)), relay.var("b", shape=(3,))]
    function = relay.Function(params, relay.nn.bias_add(conv2d(*params[:2]), params[2]))
    assert not pattern.match(function.body)
    bound = bind_params_by_name(function, {"w": np.ones((3, 3, 3, 3), "float32")})
    assert pattern.match(bound.body)


def test_match_tuple():
    z = relay.op.op.get("add")
    pattern = is_tuple((is_var("x"), wildcard(), is_op("add")))
    assert pattern.match(relay.Tuple((x, y, z)))
    assert is_tuple_get_item(pattern, 1).match(relay.TupleGetItem(relay.Tuple((x, y, z)), 1))
    assert is_tuple_get_item(pattern).match(relay.TupleGetItem(relay.Tuple((x, y, z)), 0))
    concat = is_op("concatenate")(is_tuple(None))
    for fields in ([x], [x, y], [x, y, w]):
        assert concat.match(relay.concatenate(relay.Tuple(fields), axis=0))


def test_no_match_tuple():
    z = relay.op.op.get("add")
    pattern = is_tuple((is_var("x"), wildcard(), is_op("add"), wildcard()))
    assert not pattern.match(relay.Tuple((x, y, z)))
    three = is_tuple((is_var("x"), wildcard(), is_op("add")))
    assert not is_tuple_get_item(three, 1).match(relay.TupleGetItem(relay.Tuple((x, y, z)), 2))


# ---- types

TYPED = relay.var("x", shape=(10, 10), dtype="float32")


def test_match_type():
    assert has_type(relay.TensorType((10, 10), "float32")).match(TYPED)


def test_no_match_type():
    assert not has_type(relay.TensorType((10, 10), "float32")).match(relay.var("x", shape=(10, 10), dtype="int32"))


def test_match_dtype():
    assert has_dtype("float32").match(TYPED)


def test_no_match_dtype():
    assert not has_dtype("int32").match(TYPED)


def test_match_shape():
    assert has_shape((10, 10)).match(TYPED)


def test_no_match_shape():
    assert not has_shape((10, 11)).match(TYPED)


# ---- attributes


def test_match_op_attr():
    op = is_op("add").has_attr({"TOpPattern": K_BROADCAST})
    assert op(wildcard(), wildcard()).match(x + y)


def test_no_match_op_attr():
    op = is_op("nn.dense").has_attr({"TOpPattern": K_ELEMWISE})
    assert not op(wildcard(), wildcard()).match(relay.nn.dense(x, y))
    op = is_op("add").has_attr({"TOpPattern": K_BROADCAST})
    pattern = op(wildcard(), wildcard())
    assert not pattern.match(x - y)
    assert not pattern.match(relay.Let(relay.var("z"), relay.const(0), x))


def test_match_func_attr():
    pattern = wildcard().has_attr({"Composite": "add"})
    assert pattern.match(relay.Function([x, y], x + y).with_attr("Composite", "add"))


def test_no_match_func_attr():
    pattern = wildcard().has_attr({"Composite": "add"})
    assert not pattern.match(relay.Function([x, y], x + y).with_attr("RandomTest", "add"))
    assert not pattern.match(relay.Function([x, y], x + y).with_attr("Composite", "conv_bias"))


def a_call_with(attrs):
    return relay.Call(relay.Var("fn"), [], attrs)


def test_match_call_attr():
    call = is_conv(wildcard(), wildcard())
    assert call.has_attr({"data_layout": "NCHW"}).match(conv2d(x, y))
    assert call.has_attr({"kernel_size": [3, 3]}).match(conv2d(x, y, kernel_size=(3, 3)))
    assert wildcard()(None).has_attr({"foo": "bar"}).match(a_call_with({"foo": "bar"}))
    empty = has_attr({}, wildcard()(None))
    assert empty.match(a_call_with({}))
    assert empty.match(a_call_with({"foo": "bar"}))


def test_no_match_call_attr():
    call = is_conv(wildcard(), wildcard())
    assert not call.has_attr({"data_layout": "NHWC"}).match(conv2d(x, y))
    assert not call.has_attr({"RandomAttr": "NCHW"}).match(conv2d(x, y))
    assert not call.has_attr({"kernel_size": [3, 3]}).match(conv2d(x, y, kernel_size=(2, 1)))
    foo_is_bar = wildcard()(None).has_attr({"foo": "bar"})
    assert not foo_is_bar.match(relay.Call(relay.Var("fn"), []))
    assert not foo_is_bar.match(a_call_with({"foo": "other"}))
    assert not foo_is_bar.match(a_call_with({"other": "bar"}))


def test_match_call_attr_dtype():
    assert is_op("cast")(wildcard()).has_attr({"dtype": "float32"}).match(relay.cast(x, "float32"))


# ---- shared nodes


def a_diamond_pattern():
    conv = is_conv(is_var(), is_var())
    return is_op("add")(is_relu(conv), is_leaky(conv))


def a_diamond(conv):
    return relu(conv) + leaky_relu(conv, alpha=0)


def test_match_diamond():
    assert a_diamond_pattern().match(a_diamond(conv2d(x, w)))


def test_no_match_diamond():
    conv = conv2d(x, w)
    assert not a_diamond_pattern().match(leaky_relu(conv, alpha=0))
    assert not a_diamond_pattern().match(relu(conv))


def test_match_fake_diamond():
    # two convolutions, where the pattern has one
    assert not a_diamond_pattern().match(relu(conv2d(x, w)) + leaky_relu(conv2d(x, w), alpha=0))


def test_not_fuse_multi_diamond():
    conv = conv2d(x, w)
    other = conv2d(relay.var("x1"), relay.var("w1"))
    assert not a_diamond_pattern().match(a_diamond(conv) + other)


# ---- dominators


def a_region(path=None):
    conv = is_conv(is_var(), is_var())
    return dominates(conv, path or is_unary_elemwise, is_op("add")(wildcard(), wildcard()))


def test_at_most_one_parent():
    pattern = is_op("add")(wildcard(), wildcard()).dominates(
        is_conv(wildcard(), wildcard()), is_unary_elemwise | is_op("add")(wildcard(), wildcard())
    )
    left, right = conv2d(x, w), conv2d(y, w)
    assert not pattern.match(relu(relu(left)) + relu(right))


def test_match_dominator():
    conv = conv2d(x, w)
    assert a_region().match(relu(relu(conv)) + leaky_relu(conv, alpha=0))
    # a branch of three
    assert a_region().match(relu(conv) + leaky_relu(relu(relu(conv)), alpha=0))
    # one branch, whose two inputs end in the convolution
    reduced = relu(conv) + relu(conv)
    assert a_region().match(reduced)
    # diamond in a diamond
    inner = relu(conv) + leaky_relu(conv, alpha=0)
    outer = relu(inner) + leaky_relu(inner, alpha=0)
    assert a_region(is_unary_elemwise | is_op("add")(wildcard(), wildcard())).match(outer)


def test_match_dominator2():
    path = wildcard().has_attr({"TOpPattern": K_ELEMWISE})(None) | wildcard().has_attr({"TOpPattern": K_BROADCAST})(
        None
    )
    pattern = dominates(is_conv(wildcard(), wildcard()), path, is_relu(wildcard()))
    conv = conv2d(x, w)
    biased = relay.nn.bias_add(conv, b)
    assert pattern.match(relu(relay.tanh(biased)))
    assert pattern.match(relu(biased + relay.var("side")))


def test_not_match_dominator():
    conv = conv2d(x, w)
    # two convolutions
    assert not a_region().match(relu(relu(conv2d(x, w))) + leaky_relu(conv2d(x, w), alpha=0))
    # an add on the path
    assert not a_region().match(relu(conv + conv) + leaky_relu(conv, alpha=0))
    # relu of the input beside the convolution
    assert not a_region().match(relu(x) + leaky_relu(conv, alpha=0))
    # no convolution
    assert not a_region().match(relu(x) + relu(x))


def test_not_match_dominator2():
    path = is_unary_elemwise | is_op("add")(wildcard(), wildcard())
    pattern = dominates(is_conv(wildcard(), wildcard()), path, is_op("add")(wildcard(), wildcard()))
    first, second = conv2d(x, w), conv2d(y, w)
    assert not pattern.match(first + relu(relu(second)))


def typed_region(shape):
    path = is_unary_elemwise.has_dtype("float32")
    child = is_op("add")(wildcard(), wildcard()).has_shape(shape)
    return dominates(is_conv(is_var(), is_var()), path, child)


def typed_diamond(dtype="float32"):
    data, weight = relay.var("x", shape=(1, 3, 12, 12), dtype=dtype), relay.var("w", shape=(3, 3, 3, 3), dtype=dtype)
    conv = conv2d(data, weight)
    return relu(conv) + leaky_relu(conv, alpha=0)


def test_match_typed_dominator():
    assert typed_region((1, 3, 10, 10)).match(typed_diamond())


def test_no_match_typed_dominator():
    assert not typed_region((1, 1, 10, 10)).match(typed_diamond())
    assert not typed_region((1, 3, 10, 10)).match(typed_diamond("float16"))
