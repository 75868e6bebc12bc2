"""The prover: what is true is proved, and what is false never is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from eqsat import relay
from eqsat.cli import cli
from eqsat.relay import nn
from eqsat.relay.expr import const
from eqsat.relay.op import abs as absolute
from eqsat.relay.op import cos, exp, maximum, minimum, negative
from eqsat.relay.ty import is_static
from eqsat.rules import Rewrite, Soundness, compute, rewrite, sets, type_of, variables, when
from eqsat.rules.prove import PROVED_BEFORE, Proof, Status, Store, less, prove, table
from eqsat.rules.prove.bits import try_bits
from eqsat.rules.prove.cases import unequal
from eqsat.rules.prove.linear import infeasible
from eqsat.rules.prove.prover import SAMPLES
from eqsat.rules.prove.sizes import Poly, Scope
from eqsat.rules.prove.terms import REAL, Term, Terms

x, y, z = variables("x y z")

TRUE = {
    "distribute": (x * z + y * z, (x + y) * z),
    "greatest": (maximum(maximum(x, y), z), maximum(x, maximum(z, y))),
    "rectify": (maximum(x, y) + minimum(x, y), x + y),
}


def test_more_samples_find_what_few_do_not() -> None:
    rare = rewrite("rare", maximum(x, const(-3.0)), x, soundness=Soundness.FINITE)
    assert [proof.status for samples in (1, 100) for proof in prove(rare, 2, samples=samples)] == [
        Status.TESTED,
        Status.REFUTED,
    ]


@pytest.mark.parametrize("name", [*TRUE])
def test_true_laws_are_proved(name: str) -> None:
    (proof,) = prove(rewrite(name, *TRUE[name], soundness=Soundness.FINITE), instances=3)
    assert proof.status is Status.RANKS, proof.detail


def product(a: Any, b: Any) -> Any:
    return nn.matmul(a, b, transpose_a=False, transpose_b=False)


def total(a: Any) -> Any:
    return relay.sum(a, axis=0, keepdims=True, exclude=False)


GENERAL = {
    "linear": (
        product(x, z) + product(y, z),
        product(x + y, z),
        when(lambda one, two: is_static(one) and one.shape == two.shape, type_of(x), type_of(y)),
    ),
    "associative": (
        product(product(x, y), z),
        product(x, product(y, z)),
        when(lambda *types: all(len(ty.shape) == 2 for ty in types), *map(type_of, (x, y, z))),
    ),
    "shifted": (nn.softmax(x + const(2.0)), nn.softmax(x)),
    "normalized": (nn.softmax(x, axis=0), exp(x) / total(exp(x))),
    "weighted": (total(x * const(0.5)), total(x) * const(0.5)),
}


@pytest.mark.parametrize("name", [*GENERAL])
def test_laws_of_sums_hold_for_all_sizes(name: str) -> None:
    (proof,) = prove(rewrite(name, *GENERAL[name], soundness=Soundness.FINITE), instances=2)
    assert proof.status is Status.SIZES, proof.detail


def test_what_python_computes_of_sizes_in_a_way_that_is_not_known_is_not_proved_for_all() -> None:
    factor = compute(lambda ty: np.array(1 / ty.shape[0], ty.dtype), type_of(x))
    mean = relay.mean(x, axis=0, keepdims=True, exclude=False)
    guard = when(lambda ty: is_static(ty) and ty.shape[0] > 1 and ty.dtype[0] == "f", type_of(x))
    (proof,) = prove(rewrite("mean", mean, total(x) * factor, guard, soundness=Soundness.FINITE), instances=2)
    assert proof.status is Status.VALUES, proof.detail


def test_what_python_computes_of_sizes_is_tried_at_sizes_that_are_no_primes() -> None:
    def turned_twice(axis: Any) -> Any:
        return relay.reverse(relay.reverse(x, axis=axis), axis=axis)

    guard = when(lambda ty: is_static(ty) and len(ty.shape) > 1, type_of(x))
    even = compute(lambda ty: int(ty.shape[0] % 2 == 0), type_of(x))
    last = compute(lambda ty: len(ty.shape) - 1, type_of(x))
    (proof,) = prove(rewrite("by-parity", turned_twice(0), turned_twice(even), guard), instances=2)
    assert proof.status is Status.VALUES, proof.detail
    (proof,) = prove(rewrite("last", turned_twice(0), turned_twice(last), guard), instances=2)
    assert proof.status is Status.SIZES, proof.detail
    assert any("those tried" in assumed for assumed in proof.assumes)


def test_indices_are_divided_exactly() -> None:
    scope = Scope()
    rows, columns = Poly.name("n"), Poly.name("m")
    row, column = scope.index(rows), scope.index(columns)
    assert scope.divide(row * columns + column, columns) == (row, column)
    flat = scope.index(rows * columns)
    quotient, rest = scope.divide(flat, columns)
    assert quotient * columns + rest == flat
    assert scope.is_below(column, columns)
    assert scope.is_below(row, columns) is None


@pytest.mark.parametrize(
    "law",
    [(x * z + y, (x + y) * z), (maximum(x, y), x), (nn.relu(x), absolute(x)), (x - y, y - x)],
)
def test_false_laws_are_refuted(law: tuple[object, object]) -> None:
    (proof,) = prove(rewrite("false", *law, soundness=Soundness.FINITE), instances=3)
    assert proof.status is Status.REFUTED
    printed = subprocess.run([sys.executable, "-c", proof.detail], capture_output=True, text=True, check=True).stdout
    assert "left:" in printed
    assert "right:" in printed


def numbers(*names: str) -> tuple[Terms, list[Term]]:
    terms = Terms()
    return terms, [terms.make("var", (), name, REAL) for name in names]


def test_no_false_equation_of_terms_is_shown() -> None:
    terms, (a, b) = numbers("a", "b")
    function = terms.function
    false = [
        (function("sqrt", terms.mul(a, a)), a),  # of negative numbers
        (function("sqrt", terms.mul(a, a)), terms.neg(a)),
        (function("sqrt", terms.mul(b, b)), b),
        (function("sqrt", terms.mul(b, b)), terms.neg(b)),
        (terms.extreme(a, b), terms.add(a, b)),
        (function("abs", terms.add(a, b)), terms.add(function("abs", a), function("abs", b))),
        (function("exp", terms.mul(a, b)), terms.mul(function("exp", a), function("exp", b))),
        (terms.choose(terms.less(a, b), a, b), terms.extreme(a, b)),
        (terms.less(a, b), terms.not_(terms.less(b, a))),  # where they are equal
        (function("sin", a), function("sin", terms.neg(terms.neg(terms.add(a, b))))),
    ]
    assert all(unequal([pair]) is not None for pair in false)


def test_laws_of_functions() -> None:
    terms, (a, b) = numbers("a", "b")
    function, one = terms.function, terms.const(1, REAL)
    true = [
        (function("exp", terms.add(a, b)), terms.mul(function("exp", a), function("exp", b))),
        (function("sigmoid", a), terms.div(one, terms.add(one, function("exp", terms.neg(a))))),
        (function("log", function("exp", a)), a),
        (terms.extreme(terms.add(a, b), b), terms.add(terms.extreme(a, terms.const(0, REAL)), b)),
        (terms.choose(terms.less(a, b), a, b), terms.least(a, b)),
    ]
    assert unequal(true) is None


def test_linear_constraints_that_exclude_each_other() -> None:
    assert infeasible([({"a": 1, "b": -1}, True), ({"b": 1}, False), ({"a": -1}, False)])
    assert not infeasible([({"a": 1, "b": -1}, False), ({"b": 1}, False), ({"a": -1}, False)])


def test_command_line() -> None:
    result = CliRunner().invoke(cli, ["rules", "prove", "relu-twice", "--instances", "2", "--json", "--no-cache"])
    (proof,) = json.loads(result.output)
    assert (proof["rule"], proof["status"], result.exit_code) == ("relu-twice", "any rank", 0)


def test_the_table_tells_what_was_tried_bit_by_bit() -> None:
    found = table(prove(rewrite("twice", absolute(absolute(x)), absolute(x)), instances=2))
    assert "any rank" in found
    assert "every bit is the same for all values of float16" in found


def test_proofs_are_kept_as_long_as_the_rule_says_the_same(tmp_path: Path) -> None:
    def law(slope: float) -> Rewrite:
        return rewrite("kept", nn.leaky_relu(x, alpha=slope), maximum(x, x * x), when(lambda ty: slope < 1, type_of(x)))

    store = Store(tmp_path)
    (proof,) = prove(law(0.25), 2, store=store)
    assert proof.status is Status.REFUTED
    assert store.find(law(0.25), 2, 0, SAMPLES) == proof
    assert store.find(law(0.5), 2, 0, SAMPLES) is None
    assert store.find(law(0.25), 3, 0, SAMPLES) is None
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-9])
    assert store.find(law(0.25), 2, 0, SAMPLES) is None


@pytest.mark.usefixtures("without_home")
def test_proofs_are_not_kept_for_a_user_without_a_home() -> None:
    law = rewrite("kept", nn.relu(nn.relu(x)), nn.relu(x))
    (proof,) = prove(law, 2, store=Store())
    assert proof.status is not Status.REFUTED
    assert Store().find(law, 2, 0, SAMPLES) is None


SAMPLE = ("add-zero", "relu-twice", "transpose-transpose", "dense-dense", "shift-in-softmax", "add-and-subtract")
"""Rules of which the proofs take little time."""


def test_no_rule_falls_below_what_was_proved_of_it() -> None:
    """Of some here; ``make prove`` looks at all."""
    before = json.loads(PROVED_BEFORE.read_text(encoding="utf-8"))
    shipped = {rule.name: rule for each in sets.values() for rule in each}
    assert before.keys() <= shipped.keys()
    assert set(SAMPLE) <= before.keys()
    found = prove([shipped[name] for name in SAMPLE], instances=4)
    assert not less(found, before)


def test_what_is_proved_less_is_told() -> None:
    proof = Proof("some", Soundness.EXACT, Status.VALUES)
    assert less([proof], {"some": "all values", "other": "any rank"}) == []
    (line,) = less([proof], {"some": "all sizes"})
    assert "some was proved for all sizes" in line


def test_claims_of_every_bit_are_tried_on_all_values() -> None:
    (proof,) = prove(rewrite("wraps", cos(negative(x)), cos(x)), instances=2)
    assert proof.status is Status.REFUTED
    (proof,) = prove(rewrite("twice", absolute(absolute(x)), absolute(x)), instances=2)
    assert "float16" in proof.bits


@pytest.mark.parametrize(
    "law",
    [
        (negative(x - y), y - x),
        (x * y / y, x),
        ((x + y) + z, x + (y + z)),
        (x * z + y * z, (x + y) * z),
        (total(x * y), total(x) * y),
    ],
)
def test_rules_of_several_inputs_that_round_are_not_exact(law: tuple[object, object]) -> None:
    assert "inputs = {" in try_bits(rewrite("rounds", *law), 0).counterexample


@pytest.mark.parametrize("law", [(x + y, y + x), (negative(x * y), negative(x) * y)])
def test_exact_rules_of_several_inputs_pass_on_many_values(law: tuple[object, object]) -> None:
    tried = try_bits(rewrite("keeps", *law), 0)
    assert not tried.counterexample
    assert tried.floats["float16"] > 50_000
