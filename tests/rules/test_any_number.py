"""Rules over tuples hold for any number of fields, in the e-graph and in place."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.egraph.as_callback import as_callback
from eqsat.egraph.author import index_of, like, rewrite, type_of, when
from eqsat.egraph.engine import Engine
from eqsat.errors import RuleError
from eqsat.layers.optimize import _sees_near
from eqsat.relay.analysis import free_vars
from eqsat.relay.dataflow_pattern import is_op, is_tuple, is_tuple_get_item, many, wildcard
from eqsat.relay.dataflow_pattern import rewrite as rewrite_in_place
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate
from eqsat.relay.visitor import post_order
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.instances import Instance


def operators(expr: Expr) -> list[str]:
    return [node.op.name for node in post_order(expr) if isinstance(node, Call) and isinstance(node.op, Op)]


def tensors(count: int, *shape: int) -> list[relay.Var]:
    return [relay.var(f"v{index}", shape=shape) for index in range(count)]


def slices(count: int) -> Expr:
    x = relay.var("x", shape=(2 * count, 4))
    parts = [relay.strided_slice(x, begin=[2 * at], end=[2 * at + 2], axes=[0]) for at in range(count)]
    return relay.concatenate(parts, axis=0)


def nested(outer: int, inner: int) -> Expr:
    fields = tensors(outer * inner, 1, 3)
    parts = [relay.concatenate(fields[at : at + inner], axis=-2) for at in range(0, outer * inner, inner)]
    return relay.concatenate(parts, axis=0)


def part_of_joined(count: int, index: int) -> Expr:
    joined = relay.concatenate(tensors(count, 2, 3), axis=1)
    return relay.strided_slice(joined, begin=[3 * index], end=[3 * index + 3], axes=[1])


def split_joined(count: int) -> Expr:
    return relay.split(relay.concatenate(tensors(count, 2, 3), axis=1), count, axis=1)[count - 1]


def chain(count: int) -> Expr:
    first, *others = tensors(count, 2, 3)
    whole: Expr = first
    for other in others:
        whole = relay.concatenate([whole, other], axis=0)
    return whole


CASES = {
    "12 slices of one tensor": (slices(12), []),
    "40 slices of one tensor": (slices(40), []),
    "3 concatenations of 2": (nested(3, 2), ["concatenate"]),
    "8 concatenations of 5": (nested(8, 5), ["concatenate"]),
    "12 concatenations of 12": (nested(12, 12), ["concatenate"]),
    "100 slices of one tensor": (slices(100), []),
    "concatenations in a chain": (chain(9), ["concatenate"]),
    "the last of 10 parts": (part_of_joined(10, 9), []),
    "one of 10 parts in the middle": (part_of_joined(10, 4), []),
    "what was joined is split": (split_joined(9), []),
    "9 branches": (
        relay.concatenate([relay.nn.relu(x) for x in tensors(9, 2, 3)], axis=0),
        ["concatenate", "nn.relu"],
    ),
    "9 transposes": (
        relay.concatenate([relay.transpose(x) for x in tensors(9, 2, 3)], axis=0),
        ["concatenate", "transpose"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_fields(name: str) -> None:
    expr, expected = CASES[name]
    found = eqsat.optimize(expr)
    assert operators(found) == expected
    rng = np.random.default_rng(0)
    inputs = {var: rng.standard_normal(var.type_annotation.concrete_shape, "float32") for var in free_vars(expr)}
    np.testing.assert_array_equal(evaluate(found, inputs), evaluate(expr, inputs))


def test_concatenations_along_other_axes_stay() -> None:
    a, b, c, d, e = tensors(5, 2, 3)
    beside = relay.concatenate([relay.var("p", shape=(2, 1)), relay.var("q", shape=(2, 2))], axis=1)
    whole = relay.concatenate(
        [relay.concatenate([a, b], axis=0), beside, c, relay.concatenate([d, e], axis=-2)], axis=0
    )
    assert operators(eqsat.optimize(whole)) == ["concatenate", "concatenate"]


@pytest.mark.parametrize("name", ["flatten-concat", "slice-of-concat", "concat-of-slices", "concat-of-nn.relu"])
def test_in_place_the_same_rules_do_the_same(name: str) -> None:
    (rule,) = rules.default.only(name)
    given = {
        "flatten-concat": nested(4, 3),
        "slice-of-concat": part_of_joined(8, 5),
        "concat-of-slices": slices(7),
        "concat-of-nn.relu": CASES["9 branches"][0],
    }[name]
    found = rewrite_in_place(as_callback(rule), given)
    assert len(operators(found)) < len(operators(given))
    variables = relay.analysis.free_vars(given)
    inputs = {
        v: np.random.default_rng(1).standard_normal(v.type_annotation.concrete_shape, "float32") for v in variables
    }
    np.testing.assert_array_equal(evaluate(found, inputs), evaluate(given, inputs))


def test_a_rule_is_given_what_each_field_matched() -> None:
    """Fields of one tuple, in reverse order: their indices are told in the order of the fields."""
    told = []
    whole = wildcard()
    field = is_tuple_get_item(whole)
    row = is_op("concatenate")(is_tuple([many(field, shared=[whole])]))

    def note(indices: tuple[int, ...], ty: object) -> bool:
        told.append(indices)
        return indices == (2, 1, 0)

    rule = rewrite(
        "reverse", row, like(row, is_tuple([many(like(field, whole))])), when(note, index_of(field), type_of(row))
    )
    x = relay.var("x", shape=(6, 3))
    parts = relay.split(x, 3, axis=0)
    eqsat.saturate(relay.concatenate([parts[2], parts[1], parts[0]], axis=0), rules=[rule])
    assert told == [(2, 1, 0)]


def test_right_sides_may_repeat_what_they_build() -> None:
    """exp(x) = sqrt(exp(x + x)) in each field."""
    field = wildcard()
    call = is_op("exp")(field)
    row = is_op("concatenate")(is_tuple([many(call)]))
    rule = rewrite("through", row, like(row, is_tuple([many(is_op("sqrt")(is_op("exp")(field + field)))])))

    whole = infer_type(relay.concatenate([relay.exp(x) for x in tensors(3, 2, 3)], axis=0))
    (((found,),),) = right_sides(rule, [Instance((whole,), dict.fromkeys(free_vars(whole)))])
    assert operators(found) == ["add", "exp", "sqrt"] * 3 + ["concatenate"]


def test_a_class_of_several_widths_is_flattened_once_it_is_widest() -> None:
    saturation = eqsat.saturate(nested(10, 3), rules=rules.default.only("flatten-concat"))
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count < 30 + 2 * 12 + 4, "each subset of the parts was flattened"


def test_layers_are_found_for_rules_over_any_number_of_fields() -> None:
    assert all(map(_sees_near, rules.default))


def test_a_chain_of_concatenations_takes_a_step_for_each_doubling() -> None:
    saturation = eqsat.saturate(chain(32), rules=rules.default.only("flatten-concat"))
    assert saturation.stop_reason == "saturated"
    assert len(saturation.report.iterations) <= 7, "widths double, and the last iteration finds nothing new"


def test_a_python_rule_over_any_number_of_fields_is_refused() -> None:
    @rules.rule("python", is_op("concatenate")(is_tuple([many(wildcard(label="x"))])))
    def python(x: Expr) -> Expr:
        return x

    with pytest.raises(RuleError, match=r"cannot have many\(\)"):
        eqsat.saturate(chain(3), rules=[python])


class TestFieldsWithoutElements:
    rule = next(rule for rule in rules.default if rule.name == "concat-of-nothing")

    def joined(self, count: int, rows: int) -> Expr:
        """Concatenations of two tensors, the second of which has so many rows."""
        pairs = zip(
            tensors(count, 2, 3), [relay.var(f"w{index}", shape=(rows, 3)) for index in range(count)], strict=True
        )
        return relay.Tuple([relay.concatenate([one, other], axis=0) for one, other in pairs])

    @pytest.mark.parametrize("count", [2, 40])
    def test_they_are_left_out_in_small_e_graphs_and_in_large_ones(self, count: int) -> None:
        saturation = eqsat.saturate(self.joined(count, 0), [self.rule])
        assert saturation.report.rules["concat-of-nothing"].matches == count

    @pytest.mark.parametrize("count", [2, 40])
    def test_nothing_is_searched_where_there_are_none(self, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        declared: list[str] = []
        declare = Engine.declare

        def noted(engine: Engine, text: str) -> None:
            declared.append(text)
            declare(engine, text)

        monkeypatch.setattr(Engine, "declare", noted)
        eqsat.saturate(self.joined(count, 1), [self.rule])
        assert not [text for text in declared if "rule0_" in text]
