"""Matches of a pattern table as composite functions; what Relay makes of the same graphs is in patterns/test_oracle."""

import pytest

from eqsat import relay
from eqsat.errors import ArgumentError, EqsatError
from eqsat.relay import transform
from eqsat.relay.dataflow_pattern import is_op, is_tuple, is_tuple_get_item, wildcard

from .compilers import assert_same, called_ops, functions_in, module, var


def merge(body, *table):
    return transform.MergeComposite(list(table))(module(body))


def composite(name, origin, params, body):
    """A composite function; ``origin`` names the operators that the pattern took."""
    return relay.Function(params, body, attrs={"PartitionedFromPattern": origin, "Composite": name})


def composites(mod):
    return [function.attrs["Composite"] for function in functions_in(mod["main"].body)]


def add_relu():
    return is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))


def add_sub_mul():
    a, b = wildcard(), wildcard()
    return is_op("multiply")(is_op("add")(a, b), is_op("subtract")(a, b))


def conv_bias_relu(bias="nn.bias_add", relu="nn.relu"):
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    return is_op(relu)(is_op(bias)(conv, wildcard()))


def test_simple_merge():
    a, b, p, q = (var(name, 10, 10) for name in "abpq")
    result = merge(relay.nn.relu(relay.add(a, b)), ("add_relu", add_relu()))
    function = composite("add_relu", "add_nn.relu_", [p, q], relay.nn.relu(relay.add(p, q)))
    assert_same(result, module(function(a, b)))


def test_branch_merge():
    """The second match consumes the first; a variable met twice is one parameter."""
    a, b, c = (var(name, 10, 10) for name in "abc")

    def product(x, y):
        return relay.multiply(relay.add(x, y), relay.subtract(x, y))

    def expected(x, y):
        p, q = var("p", 10, 10), var("q", 10, 10)
        return composite("add_sub_mul", "add_subtract_multiply_", [p, q], product(p, q))(x, y)

    result = merge(relay.nn.relu(product(c, product(a, b))), ("add_sub_mul", add_sub_mul()))
    params = result["main"].params
    assert_same(result, module(relay.nn.relu(expected(c, expected(a, b))), *sorted((a, b, c), key=_position(params))))


def _position(params):
    names = [param.name_hint for param in params]
    return lambda variable: names.index(variable.name_hint)


def test_reuse_call_merge():
    """A value used twice inside of a match is computed once."""
    a, b, p, q = (var(name, 5, 5) for name in "abpq")

    def body(x, y):
        total = relay.add(x, y)
        return relay.add(relay.add(x, total), total)

    x, y = wildcard(), wildcard()
    inner = is_op("add")(x, y)
    result = merge(body(a, b), ("add_add_add", is_op("add")(is_op("add")(x, inner), inner)))
    assert_same(result, module(composite("add_add_add", "add_add_add_", [p, q], body(p, q))(a, b)))


def test_multiple_patterns():
    data, kernel, bias, a = (
        var("data", 1, 512, 28, 28),
        var("k", 256, 512, 1, 1),
        var("bias", 256),
        var("a", 256, 28, 28),
    )
    conv = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(data, kernel), bias))
    result = merge(relay.nn.relu(relay.add(conv, a)), ("conv", conv_bias_relu()), ("add_relu", add_relu()))
    assert composites(result) == ["conv", "add_relu"]


def test_optional_pattern():
    """One entry may take matches of different shapes."""
    x, w, bias = var("x", 1, 3, 7, 7), var("w", 3, 3, 1, 1), var("bias", 3)
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    layer = is_op("nn.relu")(is_op("nn.bias_add")(conv, wildcard()).optional(is_op("tanh")))
    body = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w), bias))
    body = relay.nn.relu(relay.tanh(relay.nn.bias_add(relay.nn.conv2d(body, w), bias)))
    functions = functions_in(merge(body, ("layer", layer))["main"].body)
    assert [function.attrs["Composite"] for function in functions] == ["layer", "layer"]
    assert [function.attrs["PartitionedFromPattern"] for function in functions] == [
        "nn.conv2d_nn.bias_add_nn.relu_",
        "nn.conv2d_nn.bias_add_tanh_nn.relu_",
    ]


@pytest.mark.parametrize(("order", "merged"), [("ABC", ["A"]), ("BAC", ["B"]), ("CBA", ["C"]), ("CDB", ["C", "D"])])
def test_merge_order(order, merged):
    """What comes first in the table takes its matches first."""
    patterns = {
        "A": is_op("nn.relu")(is_op("abs")(wildcard())),
        "B": is_op("nn.relu")(is_op("abs")(is_op("add")(wildcard(), wildcard()))),
        "C": is_op("abs")(is_op("add")(wildcard(), wildcard())),
        "D": is_op("nn.relu")(wildcard()),
    }
    body = relay.nn.relu(relay.abs(relay.add(var("x", 2), var("y", 2))))
    result = merge(body, *((name, patterns[name]) for name in order))
    assert composites(result) == merged


def test_parallel_merge():
    """Two groups of the same inputs are two functions."""
    a, b = var("a", 10, 10), var("b", 10, 10)
    branches = [relay.multiply(relay.add(a, b), relay.subtract(a, b)) for _ in range(2)]
    assert composites(merge(relay.multiply(*branches), ("add_sub_mul", add_sub_mul()))) == ["add_sub_mul"] * 2


def test_multiple_input_subgraphs():
    """A wildcard used twice in the pattern wants one input."""
    a, b, c, d = (var(name, 10, 10) for name in "abcd")

    def total(w, x, y, z):
        first, second = relay.nn.relu(relay.add(w, x)), relay.nn.relu(relay.add(y, z))
        return relay.multiply(relay.add(first, second), relay.subtract(first, second))

    table = [("add_relu", add_relu()), ("add_sub_mul", add_sub_mul())]
    assert composites(merge(total(a, b, c, d), *table)) == ["add_relu", "add_relu", "add_sub_mul"]
    split = relay.multiply(relay.add(relay.nn.relu(a), b), relay.subtract(relay.nn.relu(a), b))
    assert composites(merge(split, *table)) == []


def test_tuple_get_item_merge():
    x, stats = var("x", 1, 4, 4, 4), [var(f"s{index}", 4) for index in range(4)]
    norm = is_op("nn.batch_norm")(*(wildcard() for _ in range(5)))
    table = ("bn_relu", is_op("nn.relu")(is_tuple_get_item(norm, 0)))
    result = merge(relay.nn.relu(relay.nn.batch_norm(x, *stats)[0]), table)
    (function,) = functions_in(result["main"].body)
    assert function.attrs["PartitionedFromPattern"] == "nn.batch_norm_TupleGetItem0_nn.relu_"
    assert len(function.params) == 5


@pytest.mark.parametrize(("accepted", "merged"), [(True, ["conv"]), (False, [])])
def test_pattern_with_check(accepted, merged):
    x, w, bias = var("x", 1, 10, 10, 10), var("w", 10, 10, 3, 3), var("bias", 10)
    body = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1)), bias))
    mod = module(body)
    result = merge(body, ("conv", conv_bias_relu(), lambda root: accepted))
    assert composites(result) == merged
    if not accepted:
        assert_same(result, mod)


def test_diamond_not_merge():
    """A further operator on one side of the diamond keeps it from matching."""
    x = var("x", 2, 2)
    mod = module(relay.multiply(relay.tanh(relay.exp(x)), relay.sqrt(relay.exp(x))))
    source = is_op("exp")(wildcard())
    diamond = is_op("multiply")(is_op("tanh")(source), is_op("sqrt")(source))
    assert_same(transform.MergeComposite([("diamond", diamond)])(mod), mod)


def test_type_check():
    """Checks see types, of what earlier entries made too."""
    seen = []

    def check(root):
        seen.append(root.args[0].checked_type)
        return root.args[0].checked_type.shape == (1, 10, 10, 10)

    x, w, bias = var("x", 1, 10, 10, 10), var("w", 10, 10, 3, 3), var("bias", 10)
    body = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1)), bias))
    conv_bias = is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    table = [("conv_bias", conv_bias), ("relu", is_op("nn.relu")(wildcard()), check)]
    untyped = relay.IRModule.from_expr(body)
    assert composites(transform.MergeComposite(table)(untyped)) == ["conv_bias", "relu"]
    assert seen == [relay.TensorType((1, 10, 10, 10), "float32")]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_einsum_reshape_pattern(before, after):
    """Tuple patterns with optional parts, several in one pattern."""

    def maybe_reshaped(pattern):
        return is_op("reshape")(pattern) | pattern

    x, y = var("x", 2, 12), var("y", 2, 3, 5)
    pattern = maybe_reshaped(is_op("einsum")(is_tuple([maybe_reshaped(wildcard()), maybe_reshaped(wildcard())])))
    left = relay.reshape(x, (2, 3, 4)) if before else var("left", 2, 3, 4)
    product = relay.einsum((left, y), "bct,bcs->bts")
    mod = merge(relay.reshape(product, (40,)) if after else product, ("einsum_reshape", pattern))
    (function,) = functions_in(mod["main"].body)
    ops = ["reshape"] * before + ["einsum"] + ["reshape"] * after
    assert called_ops(function) == ops
    labels = ["reshape_"] * before + ["Tuple_einsum_"] + ["reshape_"] * after
    assert dict(function.attrs) == {"PartitionedFromPattern": "".join(labels), "Composite": "einsum_reshape"}


def test_modules_without_main():
    """Relay needs a function named main."""
    body = relay.nn.relu(relay.add(var("a", 2), var("b", 2)))
    mod = relay.IRModule({"entry": module(body)["main"], "other": module(body)["main"]})
    result = transform.MergeComposite([("add_relu", add_relu())])(mod)
    assert [len(functions_in(result[name].body)) for name in ("entry", "other")] == [1, 1]


def test_long_chains():
    x = y = var("x", 2)
    for _ in range(5_000):
        y = relay.nn.relu(relay.add(y, x))
    assert len(composites(merge(y, ("add_relu", add_relu())))) == 5_000


class TestBadInput:
    @pytest.mark.parametrize("entry", ["name", ("name",), (add_relu(), "name"), ("name", "pattern"), ("n", 1, 2, 3)])
    def test_entries_name_a_pattern(self, entry):
        with pytest.raises(ArgumentError, match="pattern table holds"):
            transform.MergeComposite([entry])

    def test_checks_are_functions(self):
        with pytest.raises(ArgumentError, match="check of pattern 'name'"):
            transform.MergeComposite([("name", add_relu(), 1)])

    def test_checks_answer_with_a_bool(self):
        with pytest.raises(EqsatError, match="check"):
            merge(relay.nn.relu(var("x", 2)), ("relu", is_op("nn.relu")(wildcard()), lambda root: None))
