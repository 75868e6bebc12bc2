"""Composites compete in the e-graph: the cheapest cover is carved, whatever the order of the table."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat
from eqsat import extraction, relay, rules
from eqsat.errors import ArgumentError, ExtractionError
from eqsat.relay import nn, transform
from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op, is_tuple_get_item, wildcard
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.groups import all_groups
from eqsat.relay.expr import Call, Expr, Function, Tuple, Var
from eqsat.relay.op.contrib import get_pattern_table
from eqsat.relay.structural import assert_structural_equal
from eqsat.rules.verify import verify

from .graphs import assert_same_values, typed_graphs

SHAPE = (2, 3)


def var(name: str, *shape: int) -> Any:
    return relay.var(name, shape=shape or SHAPE)


def module(body: Expr) -> eqsat.IRModule:
    return transform.InferType()(eqsat.IRModule.from_expr(body))


def composed(mod: eqsat.IRModule, table: Any, cost: Any = None, model: Any = None) -> Any:
    return eqsat.extract(eqsat.saturate(mod, eqsat.composite_rules(table, cost)), model)


def names(mod: eqsat.IRModule) -> list[str]:
    """The composites called, in the order of the calls."""
    nodes = relay.visitor.post_order(mod["main"])
    functions = [node.op for node in nodes if isinstance(node, Call) and isinstance(node.op, Function)]
    return [str(function.attrs["Composite"]) for function in functions if "Composite" in function.attrs]


def price(mod: eqsat.IRModule, table: Any, cost: Any, model: Any = None) -> float:
    """What a module with composites costs."""
    limits = eqsat.Limits(iterations=1)
    return eqsat.extract(eqsat.saturate(mod, eqsat.composite_rules(table, cost), limits), model, "tree").input_cost


# ---- random graphs and tables

UNARY = [nn.relu, relay.tanh, relay.sigmoid]
BINARY = [relay.add, relay.multiply]


@st.composite
def graphs(draw: st.DrawFn, size: int = 9) -> eqsat.IRModule:
    """A graph of up to ``size`` operators with much sharing and no two equal nodes."""
    pool: list[Expr] = [var("x"), var("y")]
    made: dict[Any, Expr] = {}
    for _ in range(draw(st.integers(1, size))):
        operands = [pool[-1 - min(draw(st.integers(0, 3)), len(pool) - 1)] for _ in range(2)]
        kind = draw(st.integers(0, len(UNARY) + len(BINARY) - 1))
        unary = kind < len(UNARY)
        key = (kind, *operands[: 1 if unary else 2])
        if key not in made:
            made[key] = UNARY[kind](operands[0]) if unary else BINARY[kind - len(UNARY)](*operands)
            pool.append(made[key])
    body = pool[-1]
    return module(Tuple([body, pool[len(pool) // 2]]) if draw(st.booleans()) else body)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> DFPattern:
    if depth == 0 or (depth < 3 and draw(st.integers(0, 2)) == 0):
        return wildcard()
    below = patterns(depth=depth - 1)
    if draw(st.booleans()):
        found = is_op(draw(st.sampled_from(["nn.relu", "tanh", "sigmoid"])))(draw(below))
    else:
        found = is_op(draw(st.sampled_from(["add", "multiply"])))(draw(below), draw(below))
    return found.optional(is_op("nn.relu")) if draw(st.integers(0, 4)) == 0 else found


@st.composite
def tables(draw: st.DrawFn, size: int = 3) -> list[tuple[str, DFPattern]]:
    return [(f"t.{index}", draw(patterns())) for index in range(draw(st.integers(1, size)))]


MODELS = [extraction.OpCount(), extraction.Roofline("cpu")]
COSTS = st.one_of(
    st.none(),
    st.sampled_from([0.25, 1.0, 1.5]),
    st.integers(0, 100).map(lambda seed: lambda name, function: 0.3 + (hash_of(name) * (seed + 1)) % 17 / 8),
)


def hash_of(name: str) -> int:
    return sum(map(ord, name))


@settings(max_examples=12, deadline=None)
@given(graph=graphs(), table=tables(), cost=COSTS)
def test_the_cover_costs_no_more_than_merge_composite_in_any_order(graph, table, cost) -> None:
    best = composed(graph, table, cost)
    for order in permutations(table):
        assert best.cost <= price(transform.MergeComposite(list(order))(graph), table, cost) + 1e-6
    assert price(best.module, table, cost) == pytest.approx(best.cost)
    assert best.lower_bound <= best.cost <= best.input_cost + 1e-6
    assert_same_values(graph["main"], best.module["main"])


@settings(max_examples=12, deadline=None)
@given(graph=graphs(), table=tables(), data=st.data())
def test_the_order_of_the_table_does_not_matter(graph, table, data) -> None:
    shuffled = data.draw(st.permutations(table))
    first, second = (composed(graph, each, model=extraction.Roofline("cpu")).module for each in (table, shuffled))
    assert_structural_equal(first, second)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(), table=tables(size=5))
def test_what_does_not_overlap_is_merged_as_relay_merges_it(graph, table) -> None:
    table = distinct(graph, table)
    ours = transform.InferType()(composed(graph, table).module)
    assert_structural_equal(ours, transform.MergeComposite(table)(graph))


def distinct(graph: eqsat.IRModule, table: list[tuple[str, DFPattern]]) -> list[tuple[str, DFPattern]]:
    """The entries of ``table``, from the first on, no matches of which have an operator in common.

    Nor may a match look through an operator that it leaves outside: Relay no longer sees that one once it is merged.
    """
    taken: set[Expr] = set()
    kept = []
    for name, pattern in table:
        groups = all_groups(pattern, DataflowGraph(graph["main"]))
        calls = [node for group in groups for node in group.interior if isinstance(node, Call)]
        sees_all = all({*group.inputs} <= {c for node in group.interior for c in node.children()} for group in groups)
        if sees_all and len(calls) == len({*calls} - taken):
            taken.update(calls)
            kept.append((name, pattern))
    return kept


@settings(max_examples=6, deadline=None)
@given(graph=typed_graphs(), target=st.sampled_from(["dnnl", "tensorrt"]))
def test_shipped_tables_beside_the_default_rules_keep_values_and_cost_less(graph: Expr, target: str) -> None:
    mod, model, table = module(graph), extraction.Roofline(target), get_pattern_table(target)
    best = eqsat.extract(eqsat.saturate(mod, rules.default + eqsat.composite_rules(table)), model)
    folded = transform.Sequential([transform.FoldConstant(), transform.InferType()])(mod)
    assert best.cost <= price(transform.MergeComposite(table)(folded), table, None, model) * (1 + 1e-6)
    assert best.lower_bound <= best.cost
    assert_same_values(graph, best.module["main"])


def test_composites_are_rules_that_the_verifier_knows():
    table = [("t.add_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))), ("t.conv_bias", conv_bias())]
    assert [verdict.ok for verdict in verify(eqsat.composite_rules(table), instances=20)] == [True, True]


# ---- examples


def conv_bias(data: Any = None) -> Any:
    conv = is_op("nn.conv2d")(data or wildcard(), wildcard())
    return is_op("nn.bias_add")(conv, wildcard())


def layer(x: Any, index: int) -> Any:
    conv = nn.conv2d(x, var(f"w{index}", 4, 4, 3, 3), padding=1)
    return nn.relu(nn.bias_add(conv, var(f"b{index}", 4)))


def image_net() -> eqsat.IRModule:
    x = var("x", 1, 4, 6, 6)
    return module(relay.tanh(layer(layer(x, 0), 1) + x))


CONV_TABLE = [
    ("t.conv_bias_relu", is_op("nn.relu")(conv_bias())),
    ("t.conv_bias", conv_bias()),
    ("t.add_tanh", is_op("tanh")(is_op("add")(wildcard(), wildcard()))),
]


def test_patterns_that_do_not_overlap_give_the_graph_that_merge_composite_gives():
    graph = image_net()
    ours = transform.InferType()(composed(graph, CONV_TABLE[1:]).module)
    assert_structural_equal(ours, transform.MergeComposite(CONV_TABLE[1:])(graph))
    assert names(ours) == ["t.conv_bias", "t.conv_bias", "t.add_tanh"]


@pytest.mark.parametrize("order", list(permutations(CONV_TABLE)))
def test_the_longer_match_wins_wherever_it_stands_in_the_table(order):
    ours = transform.InferType()(composed(image_net(), list(order)).module)
    assert names(ours) == ["t.conv_bias_relu", "t.conv_bias_relu", "t.add_tanh"]
    assert_structural_equal(ours, transform.MergeComposite(CONV_TABLE)(image_net()))


def chain_table():
    """abs, tanh, exp, relu in a row: the middle pair is worth most alone, the outer two pairs more together."""
    return [
        ("t.middle", is_op("exp")(is_op("tanh")(wildcard()))),
        ("t.first", is_op("tanh")(is_op("abs")(wildcard()))),
        ("t.last", is_op("nn.relu")(is_op("exp")(wildcard()))),
    ]


def test_two_composites_that_overlap_a_third_are_better_than_what_the_table_says_first():
    graph = module(nn.relu(relay.exp(relay.tanh(relay.abs(var("x"))))))
    table = chain_table()
    merged = transform.MergeComposite(table)(graph)
    best = composed(graph, table)
    assert names(merged) == ["t.middle"]
    assert price(merged, table, None) == 3
    assert names(best.module) == ["t.first", "t.last"]
    assert best.cost == 2
    assert best.optimal


def test_a_long_composite_is_left_for_two_short_ones_where_it_costs_more():
    graph = image_net()
    costs = {"t.conv_bias_relu": 2.0, "t.conv_bias": 0.5, "t.add_tanh": 0.5}
    best = composed(graph, CONV_TABLE, lambda name, function: costs[name])
    assert names(best.module) == ["t.conv_bias", "t.conv_bias", "t.add_tanh"]
    assert best.cost == 2 * 0.5 + 2 * 1 + 0.5
    assert best.cost < price(transform.MergeComposite(CONV_TABLE)(graph), CONV_TABLE, lambda name, _: costs[name])


def test_a_composite_that_costs_more_than_its_parts_is_not_taken():
    assert names(composed(image_net(), CONV_TABLE, 10.0).module) == []


def test_a_value_needed_outside_stays_outside():
    """As in Relay: the relu cannot take the add along, because the product needs it too."""
    total = var("x") + var("y")
    graph = module(nn.relu(total) * relay.tanh(total))
    table = [("t.add_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard())))]
    best = composed(graph, table, 0.1)
    assert names(best.module) == []
    assert best.cost == 4
    assert_structural_equal(transform.InferType()(best.module), transform.MergeComposite(table)(graph))


def test_a_value_needed_only_on_the_way_to_the_root_may_be_computed_twice():
    inner = nn.relu(var("x"))
    graph = module(relay.add(inner, relay.tanh(inner)))
    table = [("t.relu_add", is_op("add")(is_op("nn.relu")(wildcard()), wildcard()))]
    best = composed(graph, table, 0.5)
    assert names(best.module) == ["t.relu_add"]
    assert_structural_equal(transform.InferType()(best.module), transform.MergeComposite(table)(graph))


def test_constants_are_embedded_or_lifted_as_the_pattern_says():
    graph = module(nn.relu(var("x") * relay.const(np.full(SHAPE, 2.0, "float32"))))
    for second, params in ((is_constant(), 1), (wildcard(), 2)):
        table = [("t.scale", is_op("nn.relu")(is_op("multiply")(wildcard(), second)))]
        ours = transform.InferType()(composed(graph, table).module)
        assert_structural_equal(ours, transform.MergeComposite(table)(graph))
        (function,) = [node for node in relay.visitor.post_order(ours["main"].body) if isinstance(node, Function)]
        assert len(function.params) == params


def test_attributes_and_checks_decide():
    x, w = var("x", 1, 4, 6, 6), var("w", 4, 4, 3, 3)
    graph = module(nn.relu(nn.conv2d(nn.relu(nn.conv2d(x, w, padding=1)), w, strides=2)))
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    seen = []

    def check(root: Any) -> bool:
        seen.append(root.checked_type.shape)
        return bool(root.checked_type.shape[-1] == 6)

    strided = ("t.strided", is_op("nn.relu")(conv.has_attr({"strides": [2, 2]})))
    large = ("t.large", is_op("nn.relu")(conv), check)
    assert names(composed(graph, [strided, large]).module) == ["t.large", "t.strided"]
    assert (1, 4, 6, 6) in seen


def test_optional_parts_and_projections():
    x = var("x", 1, 4, 6, 6)
    statistics = [var(name, 4) for name in ("gamma", "beta", "mean", "var")]
    graph = module(nn.relu(nn.batch_norm(x, *statistics)[0]))
    norm = is_tuple_get_item(is_op("nn.batch_norm")(*[wildcard() for _ in range(5)]), 0)
    table = [("t.norm", norm.optional(is_op("nn.relu")))]
    ours = transform.InferType()(composed(graph, table).module)
    assert_structural_equal(ours, transform.MergeComposite(table)(graph))
    assert names(ours) == ["t.norm"]


def test_composites_choose_among_equal_graphs():
    """x (y + z) = x y + x z: one form has what the target computes in one go."""
    x, y, z = var("x"), var("y"), var("z")
    w = wildcard
    distribute = rules.rewrite("distribute", (p := w()) * ((q := w()) + (r := w())), p * q + p * r)
    table = [("t.dot", is_op("add")(is_op("multiply")(w(), w()), is_op("multiply")(w(), w())))]
    graph = module(x * (y + z))
    best = eqsat.extract(eqsat.saturate(graph, [distribute, eqsat.composite_rules(table, 0.5)]))
    assert names(best.module) == ["t.dot"]
    assert best.cost == 0.5
    assert_same_values(graph["main"], best.module["main"])


def test_patterns_that_no_class_can_match_cover_the_extracted_graph():
    x, w = var("x", 1, 4, 6, 6), var("w", 4, 4, 3, 3)
    conv = nn.conv2d(x, w, padding=1)
    graph = module(relay.add(nn.relu(conv), relay.tanh(conv)))
    elementwise = wildcard().has_attr({"TOpPattern": 0})(wildcard())
    conv_pattern = is_op("nn.conv2d")(wildcard(), wildcard())
    diamond = is_op("add")(wildcard(), wildcard()).dominates(conv_pattern, elementwise)
    table = [("t.diamond", diamond), ("t.conv_relu", is_op("nn.relu")(conv_pattern))]
    ours = transform.InferType()(composed(graph, table).module)
    assert names(ours) == ["t.diamond"]
    assert_structural_equal(ours, transform.MergeComposite(table)(graph))


def test_the_rest_of_the_pipeline_follows():
    graph = image_net()
    merged = transform.InferType()(composed(graph, CONV_TABLE).module)
    steps = [transform.AnnotateTarget("t"), transform.MergeCompilerRegions(), transform.PartitionGraph()]
    result = transform.Sequential(steps)(merged)
    (external,) = [function for function in result.functions.values() if "Compiler" in function.attrs]
    assert len([node for node in relay.visitor.post_order(external.body) if isinstance(node, Function)]) == 3


def test_as_a_pass():
    optimize = transform.EqualitySaturation(eqsat.composite_rules(CONV_TABLE))
    assert names(optimize(image_net())) == ["t.conv_bias_relu", "t.conv_bias_relu", "t.add_tanh"]


def test_expressions_and_functions_are_covered_too():
    x = var("x")
    table = [("t.two", is_op("nn.relu")(is_op("tanh")(wildcard())))]
    for source in (nn.relu(relay.tanh(x)), relay.Function([x], nn.relu(relay.tanh(x)))):
        best = eqsat.extract(eqsat.saturate(source, eqsat.composite_rules(table))).expr
        body: Any = best.body if isinstance(best, Function) else best
        assert isinstance(body.op, Function)
        assert body.args == (x,)


TWO = [("t.two", is_op("nn.relu")(is_op("tanh")(wildcard())))]


def test_every_function_of_a_module_is_covered():
    x, y = var("x"), var("y")
    call = Call(relay.GlobalVar("f"), [nn.relu(relay.tanh(x))])
    functions = {"main": relay.Function([x], call), "f": relay.Function([y], nn.relu(relay.tanh(y)))}
    ours = transform.InferType()(composed(eqsat.IRModule(functions), TWO).module)
    assert_structural_equal(ours, transform.MergeComposite(TWO)(eqsat.IRModule(functions)))


def test_function_literals_and_lets_are_covered_inside():
    x, y, v = var("x"), var("y"), var("v")
    closure = relay.Function([y], nn.relu(relay.tanh(y)))
    graph = module(Call(closure, [relay.Let(v, relay.tanh(x), nn.relu(v))]))
    ours = composed(graph, TWO)
    assert names(ours.module) == ["t.two", "t.two"]
    assert_same_values(graph["main"], ours.module["main"])
    anything = [*TWO, ("t.any", wildcard()(wildcard()))]
    assert_same_values(graph["main"], composed(graph, anything).module["main"])


def test_both_branches_of_an_if_keep_what_they_share():
    cond, x = relay.var("c", shape=(), dtype="bool"), var("x")
    shared = relay.tanh(x)
    graph = module(relay.If(cond, nn.relu(shared), shared))
    assert_structural_equal(
        transform.InferType()(composed(graph, TWO).module), transform.MergeComposite(TWO)(module(graph["main"].body))
    )


def test_composites_that_are_there_already_stay_as_they_are():
    graph = transform.MergeComposite(CONV_TABLE[:1])(image_net())
    ours = transform.InferType()(composed(graph, CONV_TABLE).module)
    assert_structural_equal(ours, transform.MergeComposite(CONV_TABLE[2:])(graph))


def test_work_grows_with_the_graph_and_no_faster():
    """Candidates of a chain are few per node; covers of long chains are found."""
    x: Any = var("x")
    for _ in range(150):
        x = nn.relu(relay.exp(relay.tanh(relay.abs(x))))
    best = composed(module(x), chain_table())
    assert best.cost == 300
    assert names(best.module) == ["t.first", "t.last"] * 150


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), lambda name, function: None])
def test_costs_are_numbers(cost):
    with pytest.raises(ExtractionError, match="the cost given for t"):
        composed(image_net(), CONV_TABLE[1:], cost)


def test_tables_hold_names_and_patterns():
    with pytest.raises(ArgumentError, match="pattern table holds"):
        eqsat.composite_rules([("name",)])


def test_variables_stay_the_same_objects():
    x = Var("x", relay.TensorType(SHAPE, "float32"))
    best = eqsat.extract(eqsat.saturate(nn.relu(relay.tanh(x)), eqsat.composite_rules(chain_table())))
    assert relay.analysis.free_vars(best.expr) == [x]
