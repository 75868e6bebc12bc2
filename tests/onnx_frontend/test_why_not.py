"""Why a rule does nothing to an ONNX model: the library and the command."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from eqsat.cli import cli
from eqsat.errors import ModelError, RuleError
from eqsat.onnx import why_not
from eqsat.onnx.files import from_proto
from eqsat.rules import default

from .models import parsed

MODEL = from_proto(
    parsed(
        """(float[2, 4] x) => (float[2, 4] y) <float two = {2.0}>
        { a = Relu(x) b = Tanh(a) c = Relu(b) d = Relu(c) y = Mul(d, two) }""",
        17,
    )
)


def test_the_place_is_told_by_the_names_of_the_model() -> None:
    found = why_not(MODEL, "multiply-one")
    assert found.outcome == "unmatched"
    assert "(y): a constant of another value is wanted, the constant 2.0 is there" in str(found)


def test_the_answer_is_restricted_to_a_node() -> None:
    assert why_not(MODEL, "relu-twice").outcome == "chosen"
    found = why_not(MODEL, "relu-twice", "a")
    assert found.outcome == "unmatched"
    assert "nn.relu is wanted, the variable %x is there" in str(found)


def test_a_rule_that_does_not_act_is_tried_all_the_same() -> None:
    found = why_not(MODEL, "relu-twice", rules=default.without("relu-twice"))
    assert found.outcome == "acted" or "by itself it matches the given graph" in str(found)


def test_what_the_opset_has_no_single_operator_for_is_told() -> None:
    gelu = parsed(
        """(float[2, 4] x) => (float[2, 4] y) <float root = {1.4142135}, float one = {1.0}, float half = {0.5}>
        { a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) }""",
        17,
    )
    assert why_not(from_proto(gelu), "gelu").outcome == "declined"
    assert why_not(from_proto(gelu), "gelu", opset=20).outcome == "chosen"


def test_unknown_names_are_told_with_those_like_them() -> None:
    with pytest.raises(RuleError, match="there is no rule 'relu-twise'; near to it are relu-twice"):
        why_not(MODEL, "relu-twise")
    with pytest.raises(ModelError, match="the model has no node or value 'bb'"):
        why_not(MODEL, "relu-twice", "bb")


def test_the_command_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "in.onnx"
    onnx.save(parsed("(float[4] x) => (float[4] y) { a = Tanh(x) y = Relu(a) }"), path)
    told = CliRunner().invoke(cli, ["why-not", str(path), "relu-twice"])
    assert told.exit_code == 0
    assert told.output.splitlines()[0] == "relu-twice: its left side matches nowhere"
    told = CliRunner().invoke(cli, ["why-not", str(path), "relu-twice", "y", "--json"])
    assert json.loads(told.output)["outcome"] == "unmatched"


# ---- near misses: a model on which a rule acts, one thing of it that is changed, and what is to be told of that

NEAR_MISSES = [
    (
        "constant",
        "multiply-one",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {1.0}> { y = Mul (x, c) }",
        "{1.0}",
        "{1.5}",
        "a constant of another value is wanted, the constant 1.5",
    ),
    (
        "constant",
        "add-zero",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {0.0}> { y = Add (x, c) }",
        "{0.0}",
        "{2.0}",
        "a constant of another value is wanted, the constant 2.0",
    ),
    (
        "constant",
        "divide-one",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {1.0}> { y = Div (x, c) }",
        "{1.0}",
        "{3.0}",
        "the constant 3.0",
    ),
    (
        "constant",
        "power-one",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {1.0}> { y = Pow (x, c) }",
        "{1.0}",
        "{2.5}",
        "the constant 2.5",
    ),
    (
        "constant",
        "square",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {2.0}> { y = Pow (x, c) }",
        "{2.0}",
        "{2.5}",
        "the constant 2.5",
    ),
    (
        "input",
        "multiply-one",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {1.0}> { y = Mul (x, c) }",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {1.0}>",
        "(float[2, 3] x, float c) => (float[2, 3] y)",
        "a constant is wanted, the variable %c",
    ),
    (
        "input",
        "subtract-zero",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {0.0}> { y = Sub (x, c) }",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {0.0}>",
        "(float[2, 3] x, float c) => (float[2, 3] y)",
        "a constant is wanted, the variable %c",
    ),
    (
        "input",
        "add-add-constant",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {2.0}, float d = {3.0}> { a = Add (x, c) y = Add (a, d) }",
        "(float[2, 3] x) => (float[2, 3] y) <float c = {2.0}, float d = {3.0}>",
        "(float[2, 3] x, float d) => (float[2, 3] y) <float c = {2.0}>",
        "%d",
    ),
    (
        "operator",
        "relu-twice",
        "(float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }",
        "a = Relu",
        "a = Tanh",
        "nn.relu is wanted, tanh is there",
    ),
    (
        "operator",
        "negate-twice",
        "(float[3] x) => (float[3] y) { a = Neg (x) y = Neg (a) }",
        "a = Neg",
        "a = Abs",
        "negative is wanted, abs is there",
    ),
    (
        "operator",
        "silu",
        "(float[3] x) => (float[3] y) { a = Sigmoid (x) y = Mul (x, a) }",
        "Sigmoid",
        "Tanh",
        "sigmoid is wanted, tanh is there",
    ),
    (
        "operator",
        "add-negative",
        "(float[3] x, float[3] z) => (float[3] y) { a = Neg (z) y = Add (x, a) }",
        "Neg",
        "Exp",
        "negative is wanted, exp is there",
    ),
    (
        "operator",
        "mish",
        "(float[3] x) => (float[3] y) { a = Softplus (x) b = Tanh (a) y = Mul (x, b) }",
        "Softplus",
        "Exp",
        "nn.softplus is wanted, exp is there",
    ),
    (
        "operator",
        "reciprocal-of-root",
        "(float[3] x) => (float[3] y) { a = Sqrt (x) y = Reciprocal (a) }",
        "Sqrt",
        "Exp",
        "sqrt is wanted, exp is there",
    ),
    (
        "operator",
        "where-not",
        "(bool[3] c, float[3] x, float[3] z) => (float[3] y) { d = Not (c) y = Where (d, x, z) }",
        "d = Not (c)",
        "d = Identity (c)",
        "logical_not is wanted",
    ),
    (
        "same value",
        "maximum-itself",
        "(float[3] x, float[3] z) => (float[3] y) { y = Max (x, x) }",
        "Max (x, x)",
        "Max (x, z)",
        "for x, which stands in several places",
    ),
    (
        "same value",
        "add-itself",
        "(float[3] x, float[3] z) => (float[3] y) { y = Add (x, x) }",
        "Add (x, x)",
        "Add (x, z)",
        "for x, which stands in several places",
    ),
    (
        "same value",
        "where-both",
        "(bool[3] c, float[3] x, float[3] z) => (float[3] y) { y = Where (c, x, x) }",
        "(c, x, x)",
        "(c, x, z)",
        "for x, which stands in several places",
    ),
    (
        "same value",
        "silu",
        "(float[3] x, float[3] z) => (float[3] y) { a = Sigmoid (x) y = Mul (x, a) }",
        "Mul (x, a)",
        "Mul (z, a)",
        "for x, which stands in several places",
    ),
    (
        "attribute",
        "transpose-nothing",
        "(float[2, 3] x) => (float[2, 3] y) { y = Transpose <perm = [0, 1]> (x) }",
        "(float[2, 3] y) { y = Transpose <perm = [0, 1]>",
        "(float[3, 2] y) { y = Transpose <perm = [1, 0]>",
        "axes",
    ),
    (
        "attribute",
        "relu-of-leaky-relu",
        "(float[3] x) => (float[3] y) { a = LeakyRelu <alpha = 0.1> (x) y = Relu (a) }",
        "0.1",
        "-0.1",
        "alpha",
    ),
    (
        "attribute",
        "leaky-relu-twice",
        "(float[3] x) => (float[3] y) { a = LeakyRelu <alpha = 0.1> (x) y = LeakyRelu <alpha = 0.5> (a) }",
        "0.1",
        "-0.1",
        "alpha",
    ),
    (
        "attribute",
        "exp-of-log-softmax",
        "(float[2, 3] x) => (float[2, 3] y) { a = LogSoftmax <axis = 1> (x) y = Exp (a) }",
        "a = LogSoftmax <axis = 1>",
        "a = Softmax <axis = 1>",
        "nn.log_softmax is wanted, nn.softmax is there",
    ),
    (
        "dtype",
        "relu-is-clip",
        "(float[3] x) => (float[3] y) { y = Relu (x) }",
        "float",
        "int32",
        "is_float does not hold: x is of type Tensor[(3), int32]",
    ),
    (
        "dtype",
        "cast-nothing",
        "(float[3] x) => (float[3] y) { y = Cast <to = 1> (x) }",
        "(float[3] x)",
        "(double[3] x)",
        "x is of type Tensor[(3), float64], and cannot take the place",
    ),
    (
        "dtype",
        "cast-cast",
        "(float[3] x) => (double[3] y) { a = Cast <to = 11> (x) y = Cast <to = 11> (a) }",
        "a = Cast <to = 11>",
        "a = Cast <to = 6>",
        "cast(x) is of type Tensor[(3), int32]",
    ),
    (
        "dtype",
        "abs-of-negative",
        "(float[3] x) => (float[3] y) { a = Neg (x) y = Abs (a) }",
        "float",
        "int8",
        "int8",
    ),
    (
        "dtype",
        "divide-negatives",
        "(float[3] x, float[3] z) => (float[3] y) { a = Neg (x) b = Neg (z) y = Div (a, b) }",
        "float",
        "int32",
        "int32",
    ),
    (
        "shape",
        "view-nothing",
        "(float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, 3}> { y = Reshape (x, s) }",
        "(float[2, 3] y) <int64[2] s = {2, 3}>",
        "(float[3, 2] y) <int64[2] s = {3, 2}>",
        "x is of type Tensor[(2, 3), float32], and cannot",
    ),
    (
        "shape",
        "shift-in-softmax",
        "(float[2, 3] x) => (float[2, 3] y) <float[2, 1] c = {2.0, 3.0}> { a = Add (x, c) y = Softmax <axis = 1> (a) }",
        "float[2, 1] c = {2.0, 3.0}",
        "float[1, 3] c = {2.0, 3.0, 4.0}",
        "is_level does not hold: nn.softmax(add(...)) has axis=1, c has the value [[2. 3. 4.]]",
    ),
    (
        "shape",
        "tile-nothing",
        "(float[2, 3] x) => (float[2, 3] y) <int64[2] s = {1, 1}> { y = Tile (x, s) }",
        "(float[2, 3] y) <int64[2] s = {1, 1}>",
        "(float[2, 6] y) <int64[2] s = {1, 2}>",
        "reps=(1, 2)",
    ),
    (
        "broadcast",
        "multiply-one",
        "(float[2, 3] x) => (float[2, 3] y) <float[1] c = {1.0}> { y = Mul (x, c) }",
        "(float[2, 3] x) => (float[2, 3] y) <float[1] c = {1.0}>",
        "(float[1, 3] x) => (float[2, 3] y) <float[2, 1] c = {1.0, 1.0}>",
        "x is of type Tensor[(1, 3), float32], and cannot take the place of what is of type Tensor[(2, 3), float32]",
    ),
    (
        "broadcast",
        "add-zero",
        "(float[2, 3] x) => (float[2, 3] y) <float[1] c = {0.0}> { y = Add (x, c) }",
        "(float[2, 3] x) => (float[2, 3] y) <float[1] c = {0.0}>",
        "(float[1, 3] x) => (float[2, 3] y) <float[2, 1] c = {0.0, 0.0}>",
        "x is of type Tensor[(1, 3), float32], and cannot",
    ),
    (
        "attribute",
        "transpose-transpose",
        "(float[2, 3] x) => (float[2, 3] y) <int64[2] s = {3, 2}> { a = Transpose (x) y = Transpose (a) }",
        "a = Transpose (x)",
        "a = Reshape (x, s)",
        "transpose is wanted, reshape is there",
    ),
    (
        "attribute",
        "relu-of-softmax",
        "(float[2, 3] x) => (float[2, 3] y) { a = Softmax <axis = 1> (x) y = Relu (a) }",
        "a = Softmax <axis = 1>",
        "a = LogSoftmax <axis = 1>",
        "nn.softmax is wanted, nn.log_softmax is there",
    ),
    (
        "opset form",
        "multiply-one",
        "(float[2, 3] x) => (float[2, 3] y) { c = Constant <value_float = 1.0> () y = Mul (x, c) }",
        "1.0",
        "1.25",
        "the constant 1.25",
    ),
    (
        "constant",
        "tanh",
        "(float[3] x) => (float[3] y) <float two = {2.0}, float m = {-1.0}> "
        "{ a = Mul (x, two) b = Sigmoid (a) c = Mul (b, two) y = Add (c, m) }",
        "float m = {-1.0}",
        "float m = {-2.0}",
        "a constant of another value is wanted, the constant -2.0",
    ),
    (
        "constant",
        "hardswish",
        "(float[3] x) => (float[3] y) <float three = {3.0}, float zero = {0.0}, float six = {6.0}, "
        "float sixth = {0.16666667}> "
        "{ a = Add (x, three) b = Clip (a, zero, six) c = Mul (x, b) y = Mul (c, sixth) }",
        "three = {3.0}",
        "three = {4.0}",
        "the constant 4.0",
    ),
    (
        "attribute",
        "clip-clip",
        "(float[3] x) => (float[3] y) <float a = {0.0}, float b = {6.0}, float c = {1.0}> "
        "{ d = Clip (x, a, b) y = Clip (d, c, b) }",
        "d = Clip (x, a, b)",
        "d = Tanh (x)",
        "clip is wanted, tanh is there",
    ),
    (
        "constant",
        "gelu",
        "(float[2, 4] x) => (float[2, 4] y) <float root = {0.70710678}, float one = {1.0}, float half = {0.5}> "
        "{ a = Mul (x, root) b = Erf (a) c = Add (b, one) d = Mul (x, c) y = Mul (d, half) }",
        "0.70710678",
        "0.75",
        "the constant 0.75",
    ),
    (
        "operator",
        "gelu",
        "(float[2, 4] x) => (float[2, 4] y) <float root = {0.70710678}, float one = {1.0}, float half = {0.5}> "
        "{ a = Mul (x, root) b = Erf (a) c = Add (b, one) d = Mul (x, c) y = Mul (d, half) }",
        "Erf",
        "Tanh",
        "erf is wanted, tanh is there",
    ),
    (
        "attribute",
        "stable-softmax",
        "(float[2, 3] x) => (float[2, 3] y) <int64[1] s = {1}> "
        "{ a = ReduceMax <axes = [1], keepdims = 1> (x) b = Sub (x, a) c = Exp (b) "
        "d = ReduceSum <keepdims = 1> (c, s) y = Div (c, d) }",
        "axes = [1]",
        "axes = [0]",
        "axis=(0,)",
    ),
    (
        "operator",
        "sigmoid",
        "(float[3] x) => (float[3] y) <float one = {1.0}> "
        "{ n = Neg (x) e = Exp (n) a = Add (e, one) y = Div (one, a) }",
        "e = Exp",
        "e = Tanh",
        "exp is wanted, tanh is there",
    ),
    (
        "constant",
        "sigmoid",
        "(float[3] x) => (float[3] y) <float one = {1.0}, float plus = {1.0}> "
        "{ n = Neg (x) e = Exp (n) a = Add (e, plus) y = Div (one, a) }",
        "plus = {1.0}",
        "plus = {2.0}",
        "the constant 2.0",
    ),
    (
        "beside a Div, which rules make a product",
        "gelu",
        "(float[2, 4] x) => (float[2, 4] y) <float root = {1.4142135}, float one = {1.0}, float half = {0.5}>"
        "{ a = Div (x, root) b = Erf (a) c = Add (b, one) d = Mul (x, c) y = Mul (d, half) }",
        "half = {0.5}",
        "half = {0.6}",
        "(y): a constant of another value is wanted, the constant 0.6 is there (half)",
    ),
]

"""What is changed, the rule, the graph, what of it is replaced by what, and the reason."""


@cache
def outcome(graph: str, rule: str) -> str:
    """What becomes of a rule on a graph, from which several near misses are made."""
    return why_not(parsed(graph), rule, opset=20).outcome


@pytest.mark.parametrize(
    ("rule", "graph", "old", "new", "reason"),
    [each[1:] for each in NEAR_MISSES],
    ids=[f"{number}-{kind}-{rule}" for number, (kind, rule, *_) in enumerate(NEAR_MISSES)],
)
def test_what_was_changed_is_named_first(rule: str, graph: str, old: str, new: str, reason: str) -> None:
    assert old in graph
    assert outcome(graph, rule) in ("chosen", "declined")
    found = why_not(parsed(graph.replace(old, new)), rule, opset=20)
    assert found.outcome in ("unmatched", "refused")
    assert reason in found.reasons[0]
