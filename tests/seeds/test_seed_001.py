"""Lifting and embedding in partitioned functions: a tutorial's programs with the texts it shows.

What a wildcard or an alternative with a variable stands for becomes a parameter; what a constant, or an
expression that is a constant, stands for stays in the function. A pattern that does not match changes nothing.
"""

from __future__ import annotations

import pytest

import eqsat as tvm
from eqsat import relay
from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_expr, is_op, is_var, wildcard


def conv_bias_relu(x: relay.Expr, w: relay.Expr, b: relay.Expr) -> relay.Expr:
    conv2d = relay.op.nn.conv2d(x, w)
    bias_add = relay.op.nn.bias_add(conv2d, b)
    return relay.op.nn.relu(bias_add)


X, W, B = relay.var("x"), relay.var("w"), relay.var("b")
WC = relay.const(1)
RELU = conv_bias_relu(X, W, B)
RELUC = conv_bias_relu(X, WC, B)

PLAIN = """\
def @main(%x, %w, %b) {
  %0 = nn.conv2d(%x, %w, padding=[0, 0, 0, 0]);
  %1 = nn.bias_add(%0, %b);
  nn.relu(%1)
}
"""
PLAIN_CONSTANT = """\
def @main(%x, %b) {
  %0 = nn.conv2d(%x, 1, padding=[0, 0, 0, 0]);
  %1 = nn.bias_add(%0, %b);
  nn.relu(%1)
}
"""
LIFTED = """\
def @main(%x, %w, %b) {
  %2 = fn (%FunctionVar_0_0, %FunctionVar_0_1, %FunctionVar_0_2, PartitionedFromPattern="nn.conv2d_nn.bias_add_nn.relu_") {
    %0 = nn.conv2d(%FunctionVar_0_0, %FunctionVar_0_1, padding=[0, 0, 0, 0]);
    %1 = nn.bias_add(%0, %FunctionVar_0_2);
    nn.relu(%1)
  };
  %2(%x, %w, %b)
}
"""  # noqa: E501 - the text as the tutorial has it
LIFTED_CONSTANT = """\
def @main(%x, %b) {
  %2 = fn (%FunctionVar_0_0, %FunctionVar_0_1, %FunctionVar_0_2, PartitionedFromPattern="nn.conv2d_nn.bias_add_nn.relu_") {
    %0 = nn.conv2d(%FunctionVar_0_0, %FunctionVar_0_1, padding=[0, 0, 0, 0]);
    %1 = nn.bias_add(%0, %FunctionVar_0_2);
    nn.relu(%1)
  };
  %2(%x, 1, %b)
}
"""  # noqa: E501
EMBEDDED = """\
def @main(%x, %b) {
  %2 = fn (%FunctionVar_0_0, %FunctionVar_0_1, PartitionedFromPattern="nn.conv2d_nn.bias_add_nn.relu_") {
    %0 = nn.conv2d(%FunctionVar_0_0, 1, padding=[0, 0, 0, 0]);
    %1 = nn.bias_add(%0, %FunctionVar_0_1);
    nn.relu(%1)
  };
  %2(%x, %b)
}
"""


def shown(expr: relay.Expr) -> str:
    return str(tvm.IRModule.from_expr(expr))


def conv_bias_relu_pattern(weight: DFPattern) -> DFPattern:
    return is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), weight), wildcard()))


def test_the_graphs() -> None:
    assert shown(RELU) == PLAIN
    assert shown(RELUC) == PLAIN_CONSTANT


@pytest.mark.parametrize(
    ("weight", "of_variable", "of_constant"),
    [
        pytest.param(wildcard(), LIFTED, LIFTED_CONSTANT, id="wildcard"),
        pytest.param(is_var(), LIFTED, PLAIN_CONSTANT, id="variable"),
        pytest.param(is_constant(), PLAIN, EMBEDDED, id="constant"),
        pytest.param(is_expr(WC), PLAIN, EMBEDDED, id="that constant"),
        pytest.param(is_var() | is_constant(), LIFTED, EMBEDDED, id="variable or constant"),
        pytest.param(is_constant() | is_var(), LIFTED, EMBEDDED, id="constant or variable"),
    ],
)
def test_partitioned(weight: DFPattern, of_variable: str, of_constant: str) -> None:
    pattern = conv_bias_relu_pattern(weight)
    assert shown(pattern.partition(RELU)) == of_variable
    assert shown(pattern.partition(RELUC)) == of_constant


def test_the_texts_can_be_read() -> None:
    for text in (PLAIN, PLAIN_CONSTANT, LIFTED, LIFTED_CONSTANT, EMBEDDED):
        function = relay.parse_expr(text.replace("def @main", "fn "), source_name=None)
        assert str(function).replace("fn ", "def @main", 1) + "\n" == text


def test_the_graph_can_be_looked_at() -> None:
    pattern = conv_bias_relu_pattern(wildcard())
    picture = relay.viz(pattern.partition(RELU))
    assert picture.svg.startswith("<svg")
    assert "nn.conv2d_nn.bias_add_nn.relu_" in picture.dot
