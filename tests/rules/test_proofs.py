"""The prover: what is true is proved, and what is false never is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from eqsat.cli import cli
from eqsat.relay import nn
from eqsat.relay.op import abs as absolute
from eqsat.relay.op import maximum, minimum
from eqsat.rules import Rewrite, Soundness, rewrite, type_of, variables, when
from eqsat.rules.prove import Status, Store, prove
from eqsat.rules.prove.cases import unequal
from eqsat.rules.prove.linear import infeasible
from eqsat.rules.prove.terms import REAL, Term, Terms

x, y, z = variables("x y z")

TRUE = {
    "distribute": (x * z + y * z, (x + y) * z),
    "greatest": (maximum(maximum(x, y), z), maximum(x, maximum(z, y))),
    "rectify": (maximum(x, y) + minimum(x, y), x + y),
}


@pytest.mark.parametrize("name", [*TRUE])
def test_true_laws_are_proved(name: str) -> None:
    (proof,) = prove(rewrite(name, *TRUE[name], soundness=Soundness.FINITE), instances=3)
    assert proof.status is Status.VALUES, proof.detail


@pytest.mark.parametrize(
    "law",
    [(x * z + y, (x + y) * z), (maximum(x, y), x), (nn.relu(x), absolute(x)), (x - y, y - x)],
)
def test_false_laws_are_refuted(law: tuple[object, object]) -> None:
    (proof,) = prove(rewrite("false", *law, soundness=Soundness.FINITE), instances=3)
    assert proof.status is Status.REFUTED
    assert "left side" in proof.detail


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
    assert (proof["rule"], proof["status"], result.exit_code) == ("relu-twice", "all values", 0)


def test_proofs_are_kept_as_long_as_the_rule_says_the_same(tmp_path: Path) -> None:
    def law(slope: float) -> Rewrite:
        return rewrite("kept", nn.leaky_relu(x, alpha=slope), maximum(x, x * x), when(lambda ty: slope < 1, type_of(x)))

    store = Store(tmp_path)
    (proof,) = prove(law(0.25), 2, store=store)
    assert proof.status is Status.REFUTED
    assert store.find(law(0.25), 2, 0) == proof
    assert store.find(law(0.5), 2, 0) is None
    assert store.find(law(0.25), 3, 0) is None
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-9])
    assert store.find(law(0.25), 2, 0) is None
