"""Masks of attention, and NaN that stands for queries to which no key is shown."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat
from eqsat import relay, rules
from eqsat.egraph.number_levels import AVERAGING, BOUNDED, DEFINED, WEIGHING
from eqsat.errors import EqsatError
from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate
from eqsat.relay.op.draw import Draw, complete, usual_rank
from eqsat.relay.op.op import Op, make_attrs
from eqsat.relay.visitor import post_order

const = relay.const
LEAST = float(np.finfo("float32").min)
SHAPES = {"q": (2, 3, 4, 8), "k": (2, 3, 5, 8), "v": (2, 3, 5, 8), "x": (2, 1, 1, 5)}
query, key, value, given_mask = (relay.var(name, shape=shape) for name, shape in SHAPES.items())
shown = relay.var("shown", shape=(2, 1, 1, 5), dtype="bool")


def guarded(soft: Expr) -> Expr:
    """As PyTorch writes its attention: zeros in the place of NaN."""
    return relay.where(relay.isnan(soft), const(np.float32(0)), soft)


def attention(mask: Expr | None, guard: bool) -> Expr:
    scores = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2))) * const(np.float32(0.35))
    soft = relay.nn.softmax(scores if mask is None else scores + mask)
    return relay.nn.matmul(guarded(soft) if guard else soft, value)


def hides(low: float) -> Expr:
    return relay.where(shown, const(np.float32(0)), const(np.float32(low)))


def operators(graph: Expr) -> list[str]:
    return [str(node.op.name) for node in post_order(graph) if isinstance(node, Call) and isinstance(node.op, Op)]


@pytest.mark.parametrize(
    ("mask", "guard", "left"),
    [
        (None, True, []),
        (hides(LEAST), False, ["where"]),
        (hides(LEAST), True, ["where"]),
        (hides(-1e4), True, ["where"]),
        (hides(-np.inf), True, []),
        (given_mask, True, None),  # it may be minus infinity for all keys
        (hides(-np.inf), False, None),
    ],
    ids=["none", "least", "least, guarded", "low", "minus infinity, guarded", "given", "minus infinity"],
)
def test_attention_is_found_under_its_mask_and_keeps_what_a_query_without_keys_gets(
    mask: Expr | None, guard: bool, left: list[str] | None
) -> None:
    graph = attention(mask, guard)
    best = eqsat.optimize(graph)
    found = operators(best)
    attending = "nn.attention" if mask is None else "nn.masked_attention"
    if left is None:
        assert attending not in found
    else:
        assert sorted(found) == sorted([attending, *left])
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(shape).astype("f4") for name, shape in SHAPES.items()}
    values["shown"] = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]], bool).reshape(2, 1, 1, 5)
    values["x"][1] = -np.inf
    feed = {variable: values[variable.name_hint] for variable in relay.analysis.free_vars(graph)}
    np.testing.assert_allclose(evaluate(best, feed), evaluate(graph, feed), rtol=1e-4, atol=1e-5)


def test_a_mask_may_choose_a_number_that_is_laid_out_for_each_query() -> None:
    rows, low = (const(np.full(shape, value, "float32")) for shape, value in (((1, 1, 4, 1), 0), ((1,), -np.inf)))
    found = operators(eqsat.optimize(attention(relay.where(shown, rows, low), guard=True)))
    assert "nn.masked_attention" in found
    assert "isnan" not in found


def test_guarded_attention_is_found_where_its_scales_differ_by_rounding() -> None:
    root = np.float32(8**-0.25)

    def soft(left: float, right: float, behind: float) -> Expr:
        keys = relay.transpose(key, (0, 1, 3, 2))
        scores = relay.nn.matmul(query * const(np.float32(left)), keys * const(np.float32(right)))
        return relay.nn.softmax(scores * const(np.float32(behind)) + hides(-np.inf))

    weights = relay.where(relay.isnan(soft(1, 1, root * root)), const(np.float32(0)), soft(root, root, 1))
    assert operators(eqsat.optimize(relay.nn.matmul(weights, value))) == ["nn.masked_attention"]


def test_a_known_bias_is_added_to_what_a_mask_chooses_among() -> None:
    bias = const(np.random.default_rng(0).standard_normal((1, 3, 4, 5)).astype("f4"))
    graph = bias + hides(-1e4)
    best = eqsat.optimize(graph)
    assert operators(best) == ["where"]
    feed = {shown: np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]], bool).reshape(2, 1, 1, 5)}
    np.testing.assert_array_equal(evaluate(best, feed), evaluate(graph, feed))


def test_capped_scores_are_above_a_mask_of_the_least_number() -> None:
    scores = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2))) * const(np.float32(0.35))
    capped = relay.tanh(scores) * const(np.float32(50))
    best = eqsat.optimize(relay.nn.matmul(relay.nn.softmax(capped + hides(LEAST)), value))
    assert sorted(operators(best)) == ["nn.masked_attention", "where"]


@pytest.mark.parametrize("factor", [-0.35, 0.35])
def test_the_scale_of_attention_is_positive(factor: float) -> None:
    scores = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2))) * const(np.float32(factor))
    best = eqsat.optimize(relay.nn.matmul(relay.nn.softmax(scores + hides(-1e4)), value))
    found = [node for node in relay.visitor.post_order(best) if isinstance(node, relay.Call)]
    (scale,) = [node.attrs.scale for node in found if node.op.name == "nn.masked_attention"]
    assert scale > 0, "ONNX takes its root"


EARLIER = np.tril(np.ones((4, 5), bool))
POSITIONS = const(np.arange(5, dtype="f4"))


def chosen(scores: Expr) -> Expr:
    return relay.where(const(EARLIER), scores, const(np.float32(LEAST)))


def hidden(scores: Expr) -> Expr:
    return relay.where(const(~EARLIER), const(np.float32(-np.inf)), scores)


def chosen_and_masked(scores: Expr) -> Expr:
    return chosen(scores) + const(np.where(EARLIER, 0, -1e4).astype("f4"))


def chosen_and_masked_alike(scores: Expr) -> Expr:
    return chosen(scores) + const(np.where(EARLIER, 0, LEAST).astype("f4"))


def not_below_the_least(scores: Expr) -> Expr:
    mask = const(np.where(EARLIER, 0, LEAST).astype("f4"))
    return relay.maximum(scores + mask, const(np.float32(LEAST)))


@pytest.mark.parametrize("mask", [chosen, hidden, chosen_and_masked, chosen_and_masked_alike, not_below_the_least])
@pytest.mark.parametrize("is_biased", [False, True])
def test_masks_that_are_written_as_choices_are_masks(mask: Callable[[Expr], Expr], is_biased: bool) -> None:
    scores = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2))) * const(np.float32(0.35))
    graph = relay.nn.matmul(relay.nn.softmax(mask(scores + POSITIONS if is_biased else scores)), value)
    best = eqsat.optimize(graph)
    assert operators(best) == ["nn.masked_attention"]
    rng = np.random.default_rng(0)
    feed = {each: rng.standard_normal(SHAPES[each.name_hint]).astype("f4") for each in (query, key, value)}
    np.testing.assert_allclose(evaluate(best, feed), evaluate(graph, feed), rtol=1e-4, atol=1e-5)


def test_rows_that_two_masks_hide_together_keep_equal_weights() -> None:
    """The least number hides keys by a condition, and others by what it chooses."""
    scores = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2)))
    earlier = relay.where(shown, const(np.where(EARLIER, 0, LEAST).astype("f4")), const(np.float32(LEAST)))
    graph = relay.nn.matmul(relay.nn.softmax(scores + earlier), value)
    best = eqsat.optimize(graph)
    assert "nn.masked_attention" in operators(best)
    rng = np.random.default_rng(0)
    feed = {each: rng.standard_normal(SHAPES[each.name_hint]).astype("f4") for each in (query, key, value)}
    feed[shown] = np.array([[0, 1, 1, 1, 0], [1, 1, 1, 1, 1]], bool).reshape(2, 1, 1, 5)
    np.testing.assert_allclose(evaluate(best, feed), evaluate(graph, feed), rtol=1e-4, atol=1e-5)


def test_the_finite_rules_take_masks_for_granted() -> None:
    graph = attention(given_mask, guard=True)
    assert "nn.masked_attention" in operators(eqsat.optimize(graph, rules=[rules.default, rules.finite]))


def test_nan_is_looked_for_only_where_it_may_be() -> None:
    x = relay.var("x", shape=(2, 8))
    weight = const(np.random.default_rng(0).standard_normal((8, 8)).astype("f4"))
    assert operators(eqsat.optimize(guarded(relay.nn.dense(x, weight)))) == ["nn.dense"]
    assert "isnan" in operators(eqsat.optimize(guarded(relay.log(x))))
    holed = relay.const(np.array([[1, np.nan] * 4], "f4"))
    assert "isnan" in operators(eqsat.optimize(guarded(relay.nn.dense(x, weight) + holed)))


def test_what_attends_to_left_keys_is_real_so_that_nan_is_not_looked_for_in_the_next_layer() -> None:
    mask = const(np.where(np.tri(4, dtype=bool), 0, -np.inf).astype("f4"))
    tokens = graph = relay.var("x", shape=(4, 8))
    for _ in range(3):
        graph = relay.nn.dense(guarded(relay.nn.softmax(relay.nn.dense(graph, graph) + mask)), relay.transpose(graph))
    best = eqsat.optimize(graph)
    assert "isnan" not in operators(best)
    feed = {tokens: np.random.default_rng(0).standard_normal((4, 8)).astype("f4")}
    np.testing.assert_allclose(evaluate(best, feed), evaluate(graph, feed), rtol=1e-4, atol=1e-5)


def test_variables_of_inner_functions_may_be_anything() -> None:
    x = relay.var("x", shape=(2, 8))
    weight = const(np.random.default_rng(0).standard_normal((8, 8)).astype("f4"))
    inner = relay.Function([x], guarded(relay.nn.dense(x, weight)))
    outer = relay.var("y", shape=(2, 8))
    nested = relay.Function([outer], relay.Call(inner, [relay.log(outer)]))
    assert "isnan" in str(eqsat.optimize(nested))


@pytest.mark.parametrize("name", sorted(AVERAGING | DEFINED | WEIGHING | {"add"}))
def test_operators_that_are_said_to_give_real_numbers_do(name: str) -> None:
    op = Op.get(name)
    made = 0
    for seed in range(40):
        draw = Draw(random.Random(seed), finite=True)
        draw.rank = usual_rank(op) or draw.rank
        try:
            types, attrs = complete(draw, op, [None] * len(op.arguments or ()), {})
            args = [ty if isinstance(ty, Constant) else Constant(draw.array(ty)) for ty in types]
            call = Call(op, args, make_attrs(op, attrs))
            infer_type(call)
            found = np.asarray(evaluate(call))
        except EqsatError:
            continue
        if name in AVERAGING and not all(arg.data.numpy().size for arg in args):
            continue  # the mean of no numbers is none
        made += 1
        if found.dtype.kind == "f":
            assert np.all(np.isfinite(found)), call
            assert name not in BOUNDED or np.all(np.abs(found) <= 1), call
    assert made


@pytest.mark.parametrize("is_chosen_last", [False, True])
def test_rows_that_a_choice_and_another_mask_hide_together_keep_their_weights(is_chosen_last: bool) -> None:
    """Earlier places of a batch that is padded on its left: only rules that are told that all rows show a key fuse."""
    scores = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2)))
    padding = relay.where(shown, const(np.float32(0)), const(np.float32(LEAST)))
    masked = chosen(scores + padding) if is_chosen_last else chosen(scores) + padding
    graph = relay.nn.matmul(relay.nn.softmax(masked), value)
    best = eqsat.optimize(graph)
    rng = np.random.default_rng(0)
    feed = {each: rng.standard_normal(SHAPES[each.name_hint]).astype("f4") for each in (query, key, value)}
    feed[shown] = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool).reshape(2, 1, 1, 5)
    np.testing.assert_allclose(evaluate(best, feed), evaluate(graph, feed), rtol=1e-4, atol=1e-5)
    assert "nn.masked_attention" not in operators(best)
    assert "nn.masked_attention" in operators(eqsat.optimize(graph, [eqsat.rules.default, eqsat.rules.finite]))


MASKED: dict[str, Callable[[Expr, Constant], Expr]] = {
    "chosen, known": lambda scores, low: relay.where(const(EARLIER), scores, low),
    "chosen": lambda scores, low: relay.where(shown, scores, low),
    "added, known": lambda scores, low: scores + relay.where(const(EARLIER), const(np.float32(0)), low),
    "added": lambda scores, low: scores + relay.where(shown, const(np.float32(0)), low),
}


@settings(max_examples=40)
@given(
    steps=st.lists(st.tuples(st.sampled_from([*MASKED]), st.sampled_from([LEAST, -np.inf])), min_size=2, max_size=3),
    padding=st.lists(st.booleans(), min_size=10, max_size=10),
    is_guarded=st.booleans(),
)
def test_rows_keep_their_weights_whatever_masks_hide(
    steps: list[tuple[str, float]], padding: list[bool], is_guarded: bool
) -> None:
    scores: Expr = relay.nn.matmul(query, relay.transpose(key, (0, 1, 3, 2)))
    for form, low in steps:
        scores = MASKED[form](scores, const(np.float32(low)))
    soft = relay.nn.softmax(scores)
    graph = relay.nn.matmul(guarded(soft) if is_guarded else soft, value)
    rng = np.random.default_rng(0)
    feed = {each: rng.standard_normal(SHAPES[each.name_hint]).astype("f4") for each in (query, key, value)}
    feed[shown] = np.array(padding).reshape(2, 1, 1, 5)
    expected = evaluate(graph, feed)
    np.testing.assert_allclose(evaluate(eqsat.optimize(graph), feed), expected, rtol=1e-4, atol=1e-5)


def layers_of_attention(depth: int) -> Expr:
    """Attention to earlier places in each layer, with a guard for rows of which all is hidden; there is none."""
    x = relay.var("x", shape=(2, 5, 8))
    hidden = const(np.where(np.tri(5, dtype=bool), 0, -np.inf).astype("float32"))
    scale = const(np.linspace(0.5, 1, 8, dtype="float32"))
    for _ in range(depth):
        shares = guarded(relay.nn.softmax(relay.nn.matmul(x, x, transpose_b=True) + hidden))
        x = relay.nn.layer_norm(relay.nn.matmul(shares, x), scale, scale)
    return x


def test_guards_against_nan_are_told_needless_in_all_layers_at_once() -> None:
    few, many = (eqsat.saturate(layers_of_attention(depth)) for depth in (2, 10))
    assert eqsat.extract(many).cost == 5 * eqsat.extract(few).cost
    assert len(many.report.iterations) == len(few.report.iterations)
