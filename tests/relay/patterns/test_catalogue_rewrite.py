"""The catalogue of Relay's own tests of its pattern language, under its names: rewriting and partitioning."""

# mypy: disable-error-code="no-untyped-def"

from eqsat import ir, relay
from eqsat.relay.dataflow_pattern import (
    FunctionPattern,
    dominates,
    is_constant,
    is_expr,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)
from eqsat.relay.infer import infer_type
from eqsat.relay.parser.parser import Parser

from .oracle_callbacks import BnRecognise
from .test_rewrite import Recorder

relu, leaky_relu, conv2d = relay.nn.relu, relay.nn.leaky_relu, relay.nn.conv2d
is_relu, is_conv, is_bias = is_op("nn.relu"), is_op("nn.conv2d"), is_op("nn.bias_add")
is_unary_elemwise = wildcard().has_attr({"TOpPattern": 0})(wildcard())

x, y, w, b = (relay.var(name) for name in "xywb")
gamma, beta, mean, var = (relay.var(name) for name in ("gamma", "beta", "mean", "var"))


def equal(left, right):
    return ir.structural_equal(left, right)


def add_to_subtract(**options):
    left, right = wildcard(), wildcard()
    return Recorder(left + right, lambda pre, post, m: m[left][0] - m[right][0], **options)


# ---- rewriting


def test_rewrite():
    assert equal(rewrite(add_to_subtract(), x + y), x - y)


def test_rewrite_func():
    inner = relay.var("inner")
    function = relay.Function([inner], relu(inner))
    out = rewrite(add_to_subtract(), relay.Call(function, [x]) + y)
    assert equal(out, relay.Call(function, [x]) - y)


def test_rewrite_func_with_attr():
    wc1, wc2 = wildcard(), wildcard()
    pattern = wildcard().has_attr({"Composite": "add"})(wc1, wc2)
    p, q = relay.var("p"), relay.var("q")
    function = relay.Function([p, q], p + q).with_attr("Composite", "add")
    out = rewrite(Recorder(pattern, lambda pre, post, m: m[wc1][0] + m[wc2][0]), function(x, y))
    assert equal(out, x + y)


def test_nested_rewrite():
    a, c = wildcard(), wildcard()
    pattern = (a + c) * (a + c) + c
    graph = (x + y) + y
    for expr in (graph, (x + y) * (x + y) + y, relay.Tuple([graph, graph + x])):
        assert equal(rewrite(Recorder(pattern, lambda pre, post, m: post), expr), expr)


def batch_norm_graph(data=x):
    return gamma * (data - mean) / relay.sqrt(var + relay.const(1e-5)) + beta


def batch_norm(data=x):
    return relay.nn.batch_norm(data, gamma, beta, mean, var, epsilon=1e-5)[0]


def test_fuse_batchnorm():
    assert equal(rewrite(BnRecognise(), batch_norm_graph()), batch_norm())


def test_no_fuse_batchnorm():
    fake = gamma * (x - mean) / relay.sqrt(var + relay.const(1e-5)) - beta
    assert rewrite(BnRecognise(), fake) is fake


def test_fuse_double_batchnorm():
    assert equal(rewrite(BnRecognise(), batch_norm_graph(batch_norm_graph())), batch_norm(batch_norm()))


def test_partial_fuse_double_batchnorm():
    inner = gamma * (x - mean) / relay.sqrt(var + relay.const(1e-5)) - beta
    assert equal(rewrite(BnRecognise(), batch_norm_graph(inner)), batch_norm(inner))


def test_fuse_batchnorm_commutation():
    std = relay.sqrt(var + relay.const(1e-5))
    for graph in (
        beta + gamma * (x - mean) / std,
        (gamma * (x - mean)) / std + beta,
        gamma * ((x - mean) / std) + beta,
    ):
        assert equal(rewrite(BnRecognise(), graph), batch_norm())


def region(child=None):
    conv = is_conv(wildcard(), wildcard())
    add = is_op("add")(wildcard(), wildcard())
    return dominates(conv, is_unary_elemwise | add, child or add)


def four_regions():
    data = x
    convs = []
    for _ in range(4):
        conv = conv2d(data, w)
        convs.append(conv)
        data = relu(relu(conv)) + leaky_relu(conv, alpha=0)
    return data, convs


def test_quadruple_rewrite_dominator():
    data, weight = wildcard(), wildcard()
    conv = is_conv(data, weight)
    reduction = is_op("add")(wildcard(), wildcard())
    pattern = dominates(conv, is_unary_elemwise, reduction)
    out = rewrite(Recorder(pattern, lambda pre, post, m: conv2d(m[data][0], m[weight][0])), four_regions()[0])
    assert equal(out, conv2d(conv2d(conv2d(conv2d(x, w), w), w), w))


def zero_and_one():
    zero = is_expr(relay.const(0)) | is_expr(relay.const(0.0))
    one = is_expr(relay.const(1)) | is_expr(relay.const(1.0))
    return zero, one


def simplifications():
    any_x = wildcard()
    zero, one = zero_and_one()
    return [
        Recorder(any_x + zero, lambda pre, post, m: m[any_x][0]),
        Recorder(any_x - zero, lambda pre, post, m: m[any_x][0]),
        Recorder(any_x * one, lambda pre, post, m: m[any_x][0]),
        Recorder(any_x / one, lambda pre, post, m: m[any_x][0]),
        Recorder(zero * any_x, lambda pre, post, m: m[zero][0]),
        Recorder(zero / any_x, lambda pre, post, m: m[zero][0]),
    ]


def test_algebraic_simplify():
    callbacks = simplifications()
    for number in (int, float):
        zero, one = relay.const(number(0)), relay.const(number(1))
        for graph, result in (
            (x + zero, x),
            (zero + x, x),
            (x - zero, x),
            (x * one, x),
            (one * x, x),
            (x / one, x),
            (zero * x, zero),
            (x * zero, zero),
            (zero / x, zero),
        ):
            assert rewrite(callbacks, graph) is result
    zero, one = relay.const(0), relay.const(1)
    assert equal(rewrite(callbacks, (x + zero * y) / one + (y * one) - zero / x), x + y)


def test_rewrite_function_with_fuzzy_body():
    fx, fw = relay.var("fx"), relay.var("fw")
    function = relay.Function([fx, fw], relu(conv2d(fx, fw)))
    graph = relay.Call(function, [x, w]) + b
    data, weight, bias = wildcard(), wildcard(), wildcard()
    pattern = FunctionPattern([wildcard(), wildcard()], wildcard())(data, weight) + bias
    out = rewrite(Recorder(pattern, lambda pre, post, m: m[data][0]), graph)
    assert out is x


def test_match_match():
    text = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
def @tensor_concatenate(%xs: List[float32], %ys: List[float32]) -> List[float32] {
  match (%xs) { Cons(%h, %t) => Cons(%h + 0f, @tensor_concatenate(%t, %ys)), Nil => %ys, }
}"""
    parser = Parser(text, None)
    parser.version(required=True)
    function = parser.module()["tensor_concatenate"]
    arg = wildcard()
    out = rewrite(Recorder(is_op("tanh")(arg), lambda pre, post, m: m[arg][0]), function)
    assert equal(out, function)


def test_rewrite_once():
    # takes the last field off a concatenation of three or more
    fields = is_tuple(None)
    concat = is_op("concatenate")(fields)

    def shorten(pre, post, m):
        kept = m[fields][0].fields[:-1]
        return relay.concatenate(relay.Tuple(kept), axis=0) if len(kept) > 1 else kept[0]

    graph = relay.concatenate(relay.Tuple([x, y, w, b]), axis=0)
    assert rewrite(Recorder(concat, shorten), graph) is x
    once = rewrite(Recorder(concat, shorten, rewrite_once=True), graph)
    assert equal(once, relay.concatenate(relay.Tuple([x, y, w]), axis=0))
    twice = rewrite([Recorder(concat, shorten, rewrite_once=True), Recorder(concat, shorten, rewrite_once=True)], graph)
    assert equal(twice, relay.concatenate(relay.Tuple([x, y]), axis=0))
    assert rewrite([Recorder(concat, shorten, rewrite_once=True), Recorder(concat, shorten)], graph) is x


def casts_over_dense(where):
    """A pattern of any number of casts over a dense, written with the recursion in three places."""
    data, weight, recursion = wildcard(), wildcard(), wildcard()
    dense = is_op("nn.dense")(data, weight)
    if where == "arguments":
        cast = is_op("cast")(recursion)
        recursion.redirect_to(dense | cast)
        return is_op("cast")(recursion)
    if where == "left":
        recursion.redirect_to(is_op("cast")(recursion) | dense)
    else:
        recursion.redirect_to(dense | is_op("cast")(recursion))
    return is_op("cast")(recursion)


def test_rewrite_with_pattern_recursion():
    dense = relay.nn.dense(x, w)
    graph = dense
    for dtype in ("float32", "float16") * 3:
        graph = relay.cast(graph, dtype)
    for where in ("arguments", "left", "right"):
        pattern = casts_over_dense(where)
        callback = Recorder(pattern, lambda pre, post, m: relu(post), rewrite_once=True)
        assert equal(rewrite(callback, graph), relu(graph))
        assert len(callback.calls) == 1


# ---- partitioning


def made(function, args, name, **attrs):
    return relay.Call(function.with_attr({"PartitionedFromPattern": name, **attrs}), args)


def fn(build, count):
    params = [relay.var(f"p{index}") for index in range(count)]
    return relay.Function(params, build(*params))


def test_double_partition():
    conv_bias_relu = is_relu(is_bias(is_conv(wildcard(), wildcard()), wildcard()))
    conv_bias = is_bias(is_conv(wildcard(), wildcard()), wildcard())
    w2, b2 = relay.var("w2"), relay.var("b2")
    graph = relay.nn.bias_add(conv2d(relu(relay.nn.bias_add(conv2d(x, w), b)), w2), b2)
    out = graph
    for name, pattern in (("conv_bias_relu", conv_bias_relu), ("conv_bias", conv_bias)):
        out = pattern.partition(out, {"Composite": name})
    first = made(
        fn(lambda p, q, r: relu(relay.nn.bias_add(conv2d(p, q), r)), 3),
        [x, w, b],
        "nn.conv2d_nn.bias_add_nn.relu_",
        Composite="conv_bias_relu",
    )
    expected = made(
        fn(lambda p, q, r: relay.nn.bias_add(conv2d(p, q), r), 3),
        [first, w2, b2],
        "nn.conv2d_nn.bias_add_",
        Composite="conv_bias",
    )
    assert equal(out, expected)


def test_partition_dominator():
    conv = conv2d(x, w)
    graph = relu(relu(conv)) + leaky_relu(conv, alpha=0)
    out = region().partition(graph)

    def body(p, q):
        inner = conv2d(p, q)
        return relu(relu(inner)) + leaky_relu(inner, alpha=0)

    assert equal(out, made(fn(body, 2), [x, w], "nn.conv2d_nn.relu_nn.relu_nn.leaky_relu_add_"))


def test_quadruple_partition_dominator():
    def body(p, q):
        inner = conv2d(p, q)
        return relu(relu(inner)) + leaky_relu(inner, alpha=0)

    pattern = dominates(is_conv(wildcard(), wildcard()), is_unary_elemwise, is_op("add")(wildcard(), wildcard()))
    expected = x
    for _ in range(4):
        expected = made(fn(body, 2), [expected, w], "nn.conv2d_nn.relu_nn.relu_nn.leaky_relu_add_")
    assert equal(pattern.partition(four_regions()[0]), expected)


def partitioned_batch_norm(data, eps):
    def body(p_gamma, p_x, p_mean, p_var, p_beta):
        return p_gamma * (p_x - p_mean) / relay.sqrt(p_var + eps) + p_beta

    return made(fn(body, 5), [gamma, data, mean, var, beta], "subtract_multiply_add_sqrt_divide_add_")


def batch_norm_over(data, eps):
    return gamma * (data - mean) / relay.sqrt(var + eps) + beta


def test_partition_batchnorm():
    eps = relay.const(1e-5)
    assert equal(BnRecognise().pattern.partition(batch_norm_over(x, eps)), partitioned_batch_norm(x, eps))


def test_partition_double_batchnorm():
    eps = relay.const(1e-5)
    out = BnRecognise().pattern.partition(batch_norm_over(batch_norm_over(x, eps), eps))
    assert equal(out, partitioned_batch_norm(partitioned_batch_norm(x, eps), eps))
    assert out.op is not out.args[1].op


def test_overlappting_partitions():
    pattern = is_tuple_get_item(is_op("nn.batch_norm")(*(wildcard() for _ in range(5))))
    norm = relay.nn.batch_norm(x, gamma, beta, mean, var).astuple()
    graph = relay.Tuple([relay.TupleGetItem(norm, 0), relay.TupleGetItem(norm, 1)])
    assert pattern.partition(graph) is graph


def test_partition_overused():
    conv = conv2d(x, w)
    graph = relu(conv) + conv
    assert is_relu(is_conv(wildcard(), wildcard())).partition(graph) is graph


def test_partition_fuzzy_tuple():
    for count in (1, 2, 3):
        fields = [x, y, w][:count]
        out = is_op("concatenate")(is_tuple(None)).partition(relay.concatenate(relay.Tuple(fields), axis=0))
        expected = fn(lambda *params: relay.concatenate(relay.Tuple(params), axis=0), count)
        assert equal(out, made(expected, fields, "Tuple_concatenate_"))


def test_partition_fuzzy_function_args():
    pattern = FunctionPattern(None, wildcard() + wildcard())(None) + wildcard()
    for count in (1, 2, 3):
        params = [relay.var(f"f{index}") for index in range(count)]
        body = (params[0] + params[1]) + params[2] if count == 3 else params[0] + params[-1]
        function = relay.Function(params, body)
        args = [x, y, w][:count]
        out = pattern.partition(relay.Call(function, args) + b)
        expected = fn(lambda *inner, function=function: relay.Call(function, inner[:-1]) + inner[-1], count + 1)
        label = "add_FunctionCall_add_"
        assert equal(out, made(expected, [*args, b], f"add_{label}" if count == 3 else label))


def test_partition_check():
    pattern = is_relu(is_conv(is_var("input"), wildcard()))

    def check(pre):
        return pre.args[0].attrs.data_layout == "NCHW"

    data = relay.var("input")
    out = pattern.partition(relu(conv2d(data, w)), check=check)
    assert equal(out, made(fn(lambda p, q: relu(conv2d(p, q)), 2), [data, w], "nn.conv2d_nn.relu_"))
    other = relu(conv2d(data, w, data_layout="NHWC"))
    assert pattern.partition(other, check=check) is other


def test_partition_check_types():
    pattern = is_relu(is_conv(wildcard(), wildcard()))

    def check(pre):
        conv = pre.args[0]
        return conv.attrs.data_layout == "NCHW" and bool(conv.checked_type.shape[0] == 1)

    def net(batch):
        data, weight = relay.var("x", shape=(batch, 10, 10, 10)), relay.var("w", shape=(10, 10, 3, 3))
        return infer_type(relu(conv2d(data, weight)))

    taken = pattern.partition(net(1), check=check)
    assert taken.op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.relu_"
    left = net(2)
    assert pattern.partition(left, check=check) is left


def test_partition_option():
    conv = is_conv(wildcard(), wildcard())
    inside = is_relu(conv.optional(lambda c: is_bias(c, wildcard())))
    conv = is_conv(wildcard(), wildcard())
    around = is_bias(conv, wildcard()).optional(lambda c: is_relu(c))
    graph = relu(relay.nn.bias_add(conv2d(x, w), b))
    expected = made(
        fn(lambda p, q, r: relu(relay.nn.bias_add(conv2d(p, q), r)), 3), [x, w, b], "nn.conv2d_nn.bias_add_nn.relu_"
    )
    assert equal(inside.partition(graph), expected)
    assert equal(around.partition(graph), expected)


def called_function():
    p, q = relay.var("fx"), relay.var("fw")
    return relay.Function([p, q], relu(conv2d(p, q)))


def function_and_add(function):
    return fn(lambda p, q, r: relay.Call(function, [p, q]) + r, 3)


def test_partition_function():
    px, pw = wildcard(), wildcard()
    pattern = FunctionPattern([px, pw], is_relu(is_conv(px, pw)))(wildcard(), wildcard()) + wildcard()
    function = called_function()
    out = pattern.partition(relay.Call(function, [x, w]) + b)
    assert equal(out, made(function_and_add(function), [x, w, b], "nn.conv2d_nn.relu_FunctionCall_add_"))


def test_partition_function_with_fuzzy_body():
    pattern = FunctionPattern([wildcard(), wildcard()], wildcard())(wildcard(), wildcard()) + wildcard()
    function = called_function()
    out = pattern.partition(relay.Call(function, [x, w]) + b)
    assert equal(out, made(function_and_add(function), [x, w, b], "nn.conv2d_nn.relu_FunctionCall_add_"))


def test_partition_optional_function():
    data = wildcard()
    first = FunctionPattern([data], is_relu(data))
    second = FunctionPattern([data], is_op("sigmoid")(data))
    pattern = first(is_conv(wildcard(), wildcard())) | second(is_conv(wildcard(), wildcard()))
    for activation, name in ((relu, "nn.relu"), (relay.sigmoid, "sigmoid")):
        p = relay.var("p")
        function = relay.Function([p], activation(p))
        out = pattern.partition(relay.Call(function, [conv2d(x, w)]))
        expected = fn(lambda q, r, function=function: relay.Call(function, [conv2d(q, r)]), 2)
        assert equal(out, made(expected, [x, w], f"{name}_Functionnn.conv2d_Call_"))


def test_partition_constant_embedding():
    value = relay.const(1)
    plain, constant = (relu(relay.nn.bias_add(conv2d(x, weight), b)) for weight in (w, value))
    name = "nn.conv2d_nn.bias_add_nn.relu_"
    lifted = fn(lambda p, q, r: relu(relay.nn.bias_add(conv2d(p, q), r)), 3)
    embedded = made(fn(lambda p, r: relu(relay.nn.bias_add(conv2d(p, value), r)), 2), [x, b], name)

    def partitioned(weight, graph):
        return is_relu(is_bias(is_conv(wildcard(), weight), wildcard())).partition(graph)

    of_variable = made(lifted, [x, w, b], name)
    of_constant = made(lifted, [x, value, b], name)
    for weight, on_variable, on_constant in (
        (wildcard(), of_variable, of_constant),
        (is_var(), of_variable, constant),
        (is_constant(), plain, embedded),
        (is_expr(value), plain, embedded),
        (is_var() | is_constant(), of_variable, embedded),
        (is_constant() | is_var(), of_variable, embedded),
        (wildcard() | is_constant(), of_variable, of_constant),
        (is_constant() | wildcard(), of_variable, embedded),
    ):
        assert equal(partitioned(weight, plain), on_variable)
        assert equal(partitioned(weight, constant), on_constant)


def test_matched_outside_but_dominated():
    """The sum feeds a sigmoid as well, whose result comes back into the product."""
    data = relay.var("data", shape=(16, 16, 32, 32), dtype="float16")
    weight = relay.var("weight", shape=(32, 16, 3, 3), dtype="float16")
    bias = relay.var("bias", shape=(32,), dtype="float32")
    conv = conv2d(
        relay.layout_transform(data, "NCHW", "NHWC"),
        relay.layout_transform(weight, "OIHW", "OHWI"),
        padding=(1, 1),
        channels=32,
        kernel_size=(3, 3),
        data_layout="NHWC",
        kernel_layout="OHWI",
        out_dtype="float32",
    )
    total = conv + relay.reshape(relay.expand_dims(bias, 1, 2), (1, 1, 1, 32))
    graph = infer_type(relay.Function([data, weight, bias], total * relay.sigmoid(total)))
    summed = is_conv(wildcard(), wildcard()) + wildcard()
    out = (summed * wildcard()).partition(graph.body)
    call = out
    assert [param.name_hint for param in call.op.params] == [f"FunctionVar_0_{index}" for index in range(4)]
    assert call.op.attrs["PartitionedFromPattern"] == "nn.conv2d_add_multiply_"
    assert call.args[3].op.name == "sigmoid"
    assert call.args[3].args[0].op.name == "add"
    text = str(call.op)
    assert "add(%0, %FunctionVar_0_2)" in text
    assert "multiply(%1, %FunctionVar_0_3)" in text
    free = relay.analysis.free_vars(out)
    typed = infer_type(relay.Function(free, out))
    assert ir.structural_equal(typed.ret_type, graph.ret_type)


def test_partition_parallel_branch_with_same_input():
    left, right = wildcard(), wildcard()
    pattern = is_op("multiply")(is_conv(left, wildcard()), is_op("add")(right, wildcard()))
    graph = conv2d(x, w) * (x + b)
    out = pattern.partition(graph)
    assert equal(out, made(fn(lambda p, q, r: conv2d(p, q) * (p + r), 3), [x, w, b], "nn.conv2d_add_multiply_"))
