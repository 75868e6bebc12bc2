"""Regions of annotated graphs, and merging them."""

import pytest

from eqsat import relay
from eqsat.errors import PassError
from eqsat.relay import transform
from eqsat.relay.analysis import AnnotatedRegionSet

from .compilers import assert_same, begin, called_ops, end, external, module, takes, var

BEGIN, END = relay.op.get("annotation.compiler_begin"), relay.op.get("annotation.compiler_end")


def regions_of(body):
    return AnnotatedRegionSet(relay.Function(relay.analysis.free_vars(body), body), BEGIN, END)


def check_region(regions, target, args, nodes, rets):
    region = regions.get_region(args[0])
    assert region.target == target
    assert (set(region.args), set(region.nodes), set(region.rets)) == (set(args), set(nodes), set(rets))


def test_region_set_creator_diamond():
    """Each operator between its own begins and ends is a region."""
    data = var("data", 10, 10)
    begin_1 = begin(data)
    op_1 = relay.abs(begin_1)
    end_1, end_2 = end(op_1), end(op_1)
    begin_2 = begin(end_1)
    op_2 = relay.nn.relu(begin_2)
    end_3 = end(op_2)
    begin_x = begin(end_2, "default")
    op_x = relay.tanh(begin_x)
    end_x = end(op_x, "default")
    begin_3, begin_4 = begin(end_3), begin(end_x)
    op_3 = relay.add(begin_3, begin_4)
    end_4 = end(op_3)
    regions = regions_of(end_4)
    assert len(regions) == 4
    assert [region.id for region in regions] == [0, 1, 2, 3]
    check_region(regions, "t", [begin_1], [begin_1, op_1, end_1, end_2], [end_1, end_2])
    check_region(regions, "t", [begin_2], [begin_2, op_2, end_3], [end_3])
    check_region(regions, "default", [begin_x], [begin_x, op_x, end_x], [end_x])
    check_region(regions, "t", [begin_3, begin_4], [begin_3, begin_4, op_3, end_4], [end_4])
    assert regions.get_region(data) is None


def test_region_set_creator_merged():
    """What is not separated by annotations is one region, tuples included."""
    data = var("data", 10, 10)
    begin_1 = begin(data)
    op_1 = relay.abs(begin_1)
    end_2 = end(op_1)
    op_2 = relay.nn.relu(op_1)
    end_3 = end(op_2)
    begin_x = begin(end_2, "default")
    op_x = relay.tanh(begin_x)
    end_x = end(op_x, "default")
    begin_3, begin_4 = begin(end_3), begin(end_x)
    op_3 = relay.add(begin_3, begin_4)
    op_4 = relay.add(begin_3, begin_4)
    pair = relay.Tuple([op_3, op_4])
    end_4 = end(pair)
    regions = regions_of(end_4)
    assert len(regions) == 3
    check_region(regions, "t", [begin_1], [begin_1, op_1, op_2, end_2, end_3], [end_2, end_3])
    check_region(regions, "default", [begin_x], [begin_x, op_x, end_x], [end_x])
    check_region(regions, "t", [begin_3, begin_4], [begin_3, begin_4, op_3, op_4, pair, end_4], [end_4])


def test_the_first_argument_decides_number_and_target():
    first, second = begin(var("x", 2), "a"), begin(var("y", 2), "b")
    regions = regions_of(end(relay.add(first, second), "a"))
    (region,) = regions
    assert (region.id, region.target, region.args) == (0, "a", [first, second])


class TestBadAnnotations:
    def test_an_end_without_begin(self):
        with pytest.raises(PassError, match=r"Cannot find the corresponding region for end annotation.*tanh"):
            regions_of(end(relay.tanh(var("x", 2))))

    def test_an_end_of_another_target(self):
        with pytest.raises(PassError, match="target 'b' behind tanh, which is in a region of target 'a'"):
            regions_of(end(relay.tanh(begin(var("x", 2), "a")), "b"))

    @pytest.mark.parametrize("bare", [var("y", 2), relay.const([1.0, 2.0]), relay.zeros((2,), "float32")])
    @pytest.mark.parametrize("position", [0, 1])
    def test_an_argument_without_begin(self, bare, position):
        args = [begin(var("x", 2))]
        args.insert(position, bare)
        with pytest.raises(PassError, match=rf"argument {position} \((lhs|rhs)\) of add lacks compiler_begin .* 't'"):
            regions_of(end(relay.add(*args)))

    def test_an_argument_that_left_another_region(self):
        left = end(relay.tanh(begin(var("x", 2))))
        with pytest.raises(PassError, match=r"argument 1 \(rhs\) of add lacks .*it is tanh, left by compiler_end"):
            regions_of(end(relay.add(begin(var("y", 2)), left)))


def merged(mod, target):
    return transform.MergeCompilerRegions()(transform.AnnotateTarget(target)(mod))


def test_diamond_graph_fanouts():
    """O1 and O2 merge; O3 must not join them, since X of another target lies between."""
    data = var("data", 10, 10)
    op_1 = relay.abs(data)
    op_2 = relay.nn.relu(op_1)
    op_x = relay.tanh(op_1)
    op_3 = relay.add(op_2, op_x)
    with takes("t", "abs", "nn.relu", "add"):
        result = merged(module(op_3), "t")
    in_1 = relay.abs(begin(data))
    in_2 = relay.nn.relu(in_1)
    x = end(relay.tanh(begin(end(in_1), "default")), "default")
    assert_same(result, module(end(relay.add(begin(end(in_2)), begin(x)))))


def test_example_graph():
    """Two targets' operators among ten; each merges as far as no path through the other comes back."""
    inputs = [var(f"in_{number}", 10, 10) for number in range(1, 11)]
    node_1 = relay.add(inputs[0], inputs[1])
    node_2 = relay.add(inputs[2], inputs[3])
    node_3 = relay.nn.relu(relay.add(node_1, node_2))
    node_4 = relay.nn.relu(relay.add(inputs[4], inputs[5]))
    node_5 = relay.maximum(node_3, node_4)
    node_6 = relay.add(relay.nn.relu(node_5), inputs[6])
    body = relay.multiply(relay.maximum(node_6, inputs[7]), relay.add(node_3, inputs[8]))
    with takes("t", "add", "nn.relu"):
        result = transform.PartitionGraph()(merged(module(body), "t"))
    carved = [called_ops(result[name]) for name in external(result)]
    assert sorted(map(len, carved)) == [2, 2, 5]
    assert called_ops(result["main"]) == ["maximum", "maximum", "multiply"]


def test_if_else():
    """What an if separates is not merged around it."""
    data = var("data", 10, 10)
    op_1 = relay.abs(data)
    cond = relay.less(relay.max(op_1), relay.const(1.0))
    branch = relay.If(cond, relay.tanh(op_1), relay.sqrt(op_1))
    mod = module(relay.add(branch, op_1))
    with takes("t", "abs", "add"):
        result = transform.PartitionGraph()(merged(mod, "t"))
    assert [called_ops(result[name]) for name in external(result)] == [["abs"], ["add"]]


def test_a_path_around_through_a_tuple_keeps_regions_apart():
    """Relay merges both additions here into a region that feeds itself."""
    x, y = var("x", 2), var("y", 2)
    left = relay.add(x, y)
    body = relay.add(relay.TupleGetItem(relay.Tuple([left, x]), 0), left)
    with takes("t", "add"):
        annotated = transform.AnnotateTarget("t", include_non_call_ops=False)(module(body, x, y))
        result = transform.PartitionGraph()(transform.MergeCompilerRegions()(annotated))
    assert len(external(result)) == 2


def test_a_path_around_through_a_merged_region_keeps_regions_apart():
    """Whether merging makes a cycle depends on what was merged before, further on in the graph."""
    v = var("v", 2)
    y = relay.tanh(v)
    other = relay.sqrt(y)
    p = relay.tanh(relay.exp(v))
    r = relay.add(p, other)
    d = relay.sqrt(p)
    e = relay.add(d, y)
    with takes("t", "tanh", "add"):
        result = transform.PartitionGraph()(merged(module(relay.Tuple([r, e])), "t"))
    inputs = {"v": [0.5, 2.0]}
    evaluate = relay.interpreter.evaluate
    before = evaluate(module(relay.Tuple([r, e])), inputs)
    for computed, expected in zip(evaluate(result, inputs), before, strict=True):
        assert computed.tolist() == expected.tolist()


def test_siblings_with_a_common_input_stay_apart():
    x = var("x", 2)
    mod = module(relay.sqrt(relay.add(relay.tanh(x), relay.exp(x))))
    with takes("t", "tanh", "exp"):
        result = transform.PartitionGraph()(merged(mod, "t"))
    assert len(external(result)) == 2


def _alternating(size):
    x = y = var("x", 2)
    for _ in range(size):
        y = relay.add(relay.sqrt(relay.tanh(relay.tanh(y))), y)
    return module(y, x)


def test_the_work_of_merging_grows_with_the_graph():
    """Steps of path searches per operator stay the same when the graph becomes eight times larger."""
    from eqsat.relay.transform import acyclic_graph

    steps = []
    search = acyclic_graph.AcyclicGraph._search

    def counted(self, *args):
        for step in search(self, *args):
            steps.append(1)
            yield step

    def count(size):
        steps.clear()
        with pytest.MonkeyPatch.context() as patch, takes("t", "tanh", "add"):
            patch.setattr(acyclic_graph.AcyclicGraph, "_search", counted)
            merged(_alternating(size), "t")
        return len(steps) / size

    assert count(400) <= 1.2 * count(50)


def test_deep_graphs():
    x = y = var("x", 2)
    for _ in range(8_000):
        y = relay.tanh(y)
    with takes("t", "tanh"):
        result = transform.PartitionGraph()(merged(module(y, x), "t"))
    assert len(external(result)) == 1


def test_regions_that_feed_themselves_are_refused():
    start = begin(var("x", 2))
    inner = relay.tanh(start)
    around = relay.exp(end(inner))
    mod = module(end(relay.add(inner, begin(around))))
    for run in (transform.MergeCompilerRegions(), transform.PartitionGraph()):
        with pytest.raises(PassError, match="depends on its own result"):
            run(mod)


def test_merging_is_refused_before_anything_changes():
    mod = module(relay.add(begin(var("x", 2)), var("y", 2)))
    text = str(mod)
    with pytest.raises(PassError):
        transform.MergeCompilerRegions()(mod)
    assert str(mod) == text
