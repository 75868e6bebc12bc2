"""Which operator goes to which compiler."""

import pytest

from eqsat import relay
from eqsat.errors import ArgumentError, PassError
from eqsat.relay import transform
from eqsat.relay.dataflow_pattern import is_constant, is_op, wildcard

from .compilers import assert_same, begin, called_ops, end, external, module, takes, var


def annotated(body, targets="t", **options):
    return transform.AnnotateTarget(targets, **options)(module(body))


def default(value):
    return begin(value, "default")


def test_extern_dnnl():
    """Every use of a value gets an end and a begin of its own."""
    x, weight = var("x", 1, 32, 14, 14), var("w", 32, 1, 3, 3)
    attrs = {"channels": 32, "kernel_size": (3, 3), "padding": (1, 1), "groups": 32}
    first = relay.nn.conv2d(x, weight, **attrs)
    second = relay.nn.conv2d(first, weight, **attrs)
    with takes("dnnl", "nn.conv2d", "add"):
        result = annotated(relay.add(first, second), "dnnl")

    def conv(data):
        return relay.nn.conv2d(begin(data, "dnnl"), begin(weight, "dnnl"), **attrs)

    first = conv(x)
    second = conv(end(first, "dnnl"))
    total = relay.add(begin(end(first, "dnnl"), "dnnl"), begin(end(second, "dnnl"), "dnnl"))
    assert_same(result, module(end(total, "dnnl")))


def test_multiple_ends():
    """Every use of a result leaves its region through an end of its own."""
    x = var("x", 10, 5)
    relu = relay.nn.relu(x)
    with takes("t", "nn.relu"):
        result = annotated(relay.add(relay.abs(relu), relay.abs(relu)))
    relu = relay.nn.relu(begin(x))
    left, right = (end(relay.abs(default(end(relu))), "default") for _ in range(2))
    assert_same(result, module(end(relay.add(default(left), default(right)), "default")))


def test_type_propagation():
    """The predicate sees types, inferred by the pass itself."""
    seen = []

    def is_float(call):
        seen.append(call.args[0].checked_type.dtype)
        return seen[-1] == "float32"

    x = var("x", 10, 5)
    with takes("t", "nn.relu", when=is_float):
        result = transform.AnnotateTarget("t")(relay.IRModule.from_expr(relay.nn.relu(relay.nn.relu(x))))
    assert seen == ["float32", "float32"]
    assert len(external(transform.PartitionGraph()(result))) == 2


@pytest.mark.parametrize("include", [True, False])
def test_ref_create_read_write(include):
    """References join the target of what they hold, or get nothing but ends."""
    zero, one = relay.const(0.0), relay.const(1.0)
    with takes("t", "add", "nn.relu"):
        body = relay.nn.relu(relay.RefRead(relay.RefCreate(relay.add(zero, one))))
        result = annotated(body, include_non_call_ops=include)
    value = end(relay.add(begin(zero), begin(one)))
    ref = end(relay.RefCreate(begin(value))) if include else relay.RefCreate(value)
    read = end(relay.RefRead(begin(ref))) if include else relay.RefRead(ref)
    assert_same(result, module(end(relay.nn.relu(begin(read)))))


@pytest.mark.parametrize("include", [True, False])
def test_tuple(include):
    """A tuple is annotated as its fields are, or only its fields leave their regions."""
    x, y = var("x", 10, 5), var("y", 10, 5)
    body = relay.concatenate(relay.Tuple([relay.nn.relu(x), relay.nn.relu(y)]), 1)
    with takes("t", "nn.relu", "concatenate"):
        result = annotated(body, include_non_call_ops=include)
    fields = [end(relay.nn.relu(begin(variable))) for variable in (x, y)]
    pair = end(relay.Tuple([begin(field) for field in fields])) if include else relay.Tuple(fields)
    assert_same(result, module(end(relay.concatenate(begin(pair), 1)), x, y))


def composite(name):
    a, b = var("a", 10, 10), var("b", 10, 10)
    body = relay.nn.relu(relay.add(a, b))
    return relay.Function([a, b], body, attrs={"Composite": name})


def test_composite_function():
    """The name before the first dot is the target; the inside is left alone."""
    x, y = var("x", 10, 10), var("y", 10, 10)
    function = composite("t.add_relu")
    result = annotated(function(x, y))
    assert_same(result, module(end(function(begin(x), begin(y)))))


@pytest.mark.parametrize("name", ["add_relu", "other.add_relu", "tt.add_relu"])
def test_composite_functions_of_others_are_left_to_the_default(name):
    x, y = var("x", 10, 10), var("y", 10, 10)
    function = composite(name)
    result = annotated(function(x, y))
    assert_same(result, module(end(function(default(x), default(y)), "default")))


def _net():
    x, y = var("x", 10, 10), var("y", 10, 10)
    return relay.sqrt(relay.tanh(relay.nn.relu(relay.add(x, y))))


def test_double_target():
    """Annotating again for the same target changes nothing."""
    with takes("t", "nn.relu", "add"):
        once = annotated(_net())
        assert_same(transform.AnnotateTarget("t")(once), once)


def test_different_targets():
    with takes("a", "nn.relu"), takes("b", "add"):
        both = annotated(_net(), ["a", "b"])
    x, y = relay.analysis.free_vars(_net())
    assert [name for name in called_ops(both["main"]) if not name.startswith("annotation")] == called_ops(
        relay.Function([x, y], _net())
    )
    assert [region.target for region in _regions(both)] == ["b", "a", "default", "default"]


def _regions(mod):
    ends = [relay.op.get(f"annotation.compiler_{which}") for which in ("begin", "end")]
    return relay.analysis.AnnotatedRegionSet(mod["main"], *ends)


def test_multiple_runs():
    """One target after the other is the same as both at once."""
    with takes("a", "nn.relu"), takes("b", "add", "tanh"):
        both = annotated(_net(), ["a", "b"])
        after = transform.AnnotateTarget("b")(transform.AnnotateTarget("a")(module(_net())))
    assert_same(after, both)


def test_multiple_runs_when_a_later_target_feeds_an_earlier_one():
    """Relay keeps the default's end in front of an operator that a later run gives to a target."""
    x = var("x", 2)
    body = relay.nn.relu(relay.add(x, relay.tanh(x)))
    with takes("a", "nn.relu", "add"), takes("b", "tanh"):
        after = transform.AnnotateTarget("b")(transform.AnnotateTarget("a")(module(body)))
        assert_same(after, annotated(body, ["a", "b"]))


def test_the_first_target_has_priority():
    with takes("a", "nn.relu"), takes("b", "nn.relu", "add"):
        both = annotated(_net(), ["a", "b"])
    assert [region.target for region in _regions(both)] == ["b", "a", "default", "default"]


def test_arguments_keep_their_order_when_some_are_annotated_already():
    """Relay permutes them."""
    x, y = var("x", 2), var("y", 2)
    result = annotated(relay.subtract(x, begin(y, "q")))
    assert_same(result, module(end(relay.subtract(default(x), begin(y, "q")), "default")))


def test_ends_with_tuple():
    x = var("x", 1, 4, 4, 4)
    stats = [var(f"s{number}", 4) for number in range(4)]
    norm = relay.nn.batch_norm(x, *stats)
    with takes("t", "nn.batch_norm"):
        whole = annotated(norm.astuple())["main"].body
        item = annotated(norm[0])["main"].body
    assert whole.op.name == item.op.name == "annotation.compiler_end"
    assert isinstance(item.args[0], relay.TupleGetItem)


def test_if_else():
    """Condition and branches leave their regions; the if itself is in none."""
    x, y = var("x"), var("y")
    body = relay.If(relay.equal(x, y), relay.tanh(x), relay.exp(y))
    with takes("t", "equal", "tanh", "exp"):
        result = annotated(body)
    cond = end(relay.equal(begin(x), begin(y)))
    assert_same(result, module(relay.If(cond, end(relay.tanh(begin(x))), end(relay.exp(begin(y))))))


def _while_loop():
    limit, start = relay.const(10), var("start", 2)
    index, total = var("i", dtype="int32"), var("total", 2)
    loop = relay.var("loop")
    again = loop(relay.add(index, relay.const(1)), relay.add(total, start))
    body = relay.Function(
        [index, total], relay.If(relay.less(index, limit), again, total), relay.TensorType((2,), "float32")
    )
    return relay.Function([start], relay.Let(loop, body, loop(relay.const(0), relay.zeros((2,), "float32"))))


@pytest.mark.parametrize("include", [True, False])
def test_while_let(include):
    """A loop's operators are annotated, and it can be partitioned and still computes the same."""
    mod = transform.InferType()(relay.IRModule({"main": _while_loop()}))
    with takes("t", "less", "add"):
        result = transform.AnnotateTarget("t", include_non_call_ops=include)(mod)
    loop = result["main"].body.value
    assert loop.body.cond.op.name == "annotation.compiler_end"
    call = loop.body.true_branch.args[0] if include else loop.body.true_branch
    assert [arg.op.name for arg in call.args] == [f"annotation.compiler_{'begin' if include else 'end'}"] * 2
    partitioned = transform.PartitionGraph()(transform.MergeCompilerRegions()(result))
    assert len(external(partitioned)) == 3
    start = {"start": [1.0, 2.0]}
    computed = relay.interpreter.evaluate(partitioned, start)
    assert computed.tolist() == relay.interpreter.evaluate(mod, start).tolist() == [10.0, 20.0]


def test_if_free_vars():
    """A branch that is a call without arguments counts as an input and gets no end."""
    x = var("x", 2)
    cond = relay.less(relay.max(x), relay.const(1.0))
    with takes("t", "less", "zeros"):
        result = annotated(relay.If(cond, relay.zeros((2,), "float32"), x))
    assert called_ops(relay.Function([], result["main"].body.true_branch)) == ["zeros"]


def test_free_vars_zeros():
    with takes("t", "zeros"):
        result = annotated(relay.zeros((2,), "float32"))
    assert called_ops(result["main"]) == ["zeros"]


def test_empty_tuple():
    x = var("x", 2)
    mod = module(relay.Tuple([]), x)
    assert_same(transform.AnnotateTarget("t")(mod), mod)


def test_operators_bound_by_let_can_be_partitioned():
    """Relay puts a begin in front of the let's value that nothing ends."""
    x, v = var("x", 2), relay.var("v")
    with takes("t", "tanh", "exp"):
        result = transform.PartitionGraph()(annotated(relay.Let(v, relay.tanh(x), relay.exp(v))))
    assert len(external(result)) == 2
    value = relay.interpreter.evaluate(result, {"x": [0.0, 0.0]})
    assert value.tolist() == [1.0, 1.0]


class TestPatternTables:
    """Annotation from patterns alone."""

    @staticmethod
    def table():
        bias = is_op("add")(is_op("nn.dense")(wildcard(), wildcard()), is_constant())
        return [("dense_bias_relu", is_op("nn.relu")(bias)), ("tanh", is_op("tanh")(wildcard()))]

    @staticmethod
    def body():
        x, w = var("x", 2, 3), var("w", 4, 3)
        bias = relay.const([1.0, 2.0, 3.0, 4.0])
        return relay.sqrt(relay.tanh(relay.nn.relu(relay.nn.dense(x, w) + bias)))

    def test_each_match_is_one_region_without_composite_functions(self):
        result = annotated(self.body(), pattern_table=self.table())
        x, w = relay.analysis.free_vars(self.body())
        bias = relay.const([1.0, 2.0, 3.0, 4.0])
        dense = end(relay.nn.relu(relay.nn.dense(begin(x), begin(w)) + begin(bias)))
        expected = end(relay.sqrt(default(end(relay.tanh(begin(dense))))), "default")
        assert_same(result, module(expected))

    def test_regions_of_patterns_are_partitioned(self):
        result = transform.PartitionGraph()(annotated(self.body(), pattern_table=self.table()))
        assert [called_ops(result[name]) for name in external(result)] == [["nn.dense", "add", "nn.relu"], ["tanh"]]

    def test_a_registered_table(self):
        relay.op.contrib.register_pattern_table("t", self.table)
        table = relay.op.contrib.get_pattern_table("t")
        assert [name for name, _ in table] == ["dense_bias_relu", "tanh"]
        assert len(_regions(annotated(self.body(), pattern_table=table))) == 3
        assert relay.op.contrib.get_pattern_table("nobody") is None

    def test_predicates_take_what_no_pattern_does(self):
        with takes("t", "sqrt", "tanh"):
            result = annotated(self.body(), pattern_table=self.table()[:1])
        assert [region.target for region in _regions(result)] == ["t", "t", "t"]

    def test_checks_decide_on_matches(self):
        name, pattern = self.table()[0]
        result = annotated(self.body(), pattern_table=[(name, pattern, lambda root: False)])
        assert {region.target for region in _regions(result)} == {"default"}

    def test_a_table_for_each_of_several_targets(self):
        first, second = self.table()
        result = annotated(self.body(), ["a", "b"], pattern_table={"b": [first], "a": [second]})
        assert [region.target for region in _regions(result)] == ["b", "a", "default"]

    def test_several_targets_need_a_table_each(self):
        with pytest.raises(ArgumentError, match="map each to its table"):
            transform.AnnotateTarget(["a", "b"], pattern_table=self.table())
        with pytest.raises(ArgumentError, match="'c'"):
            transform.AnnotateTarget(["a", "b"], pattern_table={"c": self.table()})


def test_a_predicate_must_give_a_bool():
    with takes("t", "tanh", when=lambda call: None), pytest.raises(PassError, match=r"target\.t of tanh"):
        annotated(relay.tanh(var("x", 2)))
