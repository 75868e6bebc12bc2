"""Operators of ONNX Runtime's own that are written: rules, models that run and compute the same, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from eqsat.cli import cli
from eqsat.errors import ArgumentError
from eqsat.onnx import equal, optimize, run
from eqsat.onnx.contrib_rules import contrib
from eqsat.pipeline.options import Options
from eqsat.rules.verify import verify

from .models import operators, parsed
from .test_definitions import feed_of, results

MODELS = {
    "FusedConv": "(float[1,2,6,6] x) => (y) <float[3,2,3,3] w = {"
    + ", ".join(str(0.1 * place) for place in range(-27, 27))
    + "}, float[3] b = {1, -2, 3}, float low = {0}, float high = {6}> "
    "{ c = Conv <pads = [1, 1, 1, 1]> (x, w, b)  y = Clip (c, low, high) }",
    "FusedMatMul": "(float[2,3,4] x, float[2,5,4] z) => (y) "
    "<float c = {0.5}> { t = Transpose <perm = [0, 2, 1]> (z)  p = MatMul (x, t)  y = Mul (p, c) }",
    "SkipLayerNormalization": "(float[2,3,8] x, float[2,3,8] s, float[8] g, float[8] b) => (y, z) "
    "{ t = Add (x, s)  y = LayerNormalization <epsilon = 0.001> (t, g, b)  z = Tanh (t) }",
    "Gelu": "(float[2,5] x) => (y) <float r = {1.4142135}, float o = {1}, float h = {0.5}> "
    "{ d = Div (x, r)  e = Erf (d)  s = Add (e, o)  p = Mul (x, s)  y = Mul (p, h) }",
    "FastGelu": "(float[2,5] x, float[5] b) => (y) "
    "<float a = {0.044715}, float r = {0.7978845608}, float o = {1}, float h = {0.5}, float three = {3}> "
    "{ u = Add (x, b)  q = Pow (u, three)  w = Mul (q, a)  i = Add (u, w)  m = Mul (i, r)  t = Tanh (m)  "
    "s = Add (t, o)  p = Mul (u, s)  y = Mul (p, h) }",
    "QuickGelu": "(float[2,5] x) => (y) <float c = {1.702}> { m = Mul (x, c)  s = Sigmoid (m)  y = Mul (x, s) }",
    "MultiHeadAttention": "(float[2,3,8] q, float[2,5,8] k, float[2,5,8] v) => (y) "
    "<int64[4] a = {0, 0, 2, 4}, int64[3] j = {0, 0, 8}, float c = {0.5}> "
    "{ q1 = Reshape (q, a)  q2 = Transpose <perm = [0, 2, 1, 3]> (q1)  k1 = Reshape (k, a)  "
    "k2 = Transpose <perm = [0, 2, 3, 1]> (k1)  v1 = Reshape (v, a)  v2 = Transpose <perm = [0, 2, 1, 3]> (v1)  "
    "s = MatMul (q2, k2)  t = Mul (s, c)  w = Softmax <axis = -1> (t)  r = MatMul (w, v2)  "
    "o = Transpose <perm = [0, 2, 1, 3]> (r)  y = Reshape (o, j) }",
}
"""The operator that is written -> a graph of standard ones."""

GROUPED = (
    "(float[2,3,32] q, float[2,3,16] k, float[2,3,16] v) => (y) "
    "{ y = Attention <q_num_heads = 4, kv_num_heads = 2, is_causal = 1, scale = 0.5> (q, k, v) }"
)

HOW: dict[str, Any] = {"runtime": "onnxruntime", "contrib": True}


@pytest.mark.parametrize("name", [rule.name for rule in contrib])
def test_every_rule_is_verified(name: str) -> None:
    (verdict,) = verify(contrib.only(name), instances=5)
    assert verdict.status == "sound", verdict.detail


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_runs_and_computes_the_same(name: str) -> None:
    model = parsed(MODELS[name])
    after = optimize(model, **HOW)
    assert [node.op_type for node in after.graph.node if node.domain == "com.microsoft"] == [name]
    assert len(after.graph.node) == len(after.graph.output)
    assert {opset.domain: opset.version for opset in after.opset_import} == {"": 17, "com.microsoft": 1}
    feed = feed_of(model)
    for found, expected in zip(results(after, feed), results(model, feed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_groups_of_heads_are_written_where_they_cost_less() -> None:
    model, feed = parsed(GROUPED, 23), feed_of(parsed(GROUPED, 23))
    after = optimize(model, **HOW, cost_model=lambda node: 2.0 if node.op == "nn.attention" else 1.0 * node.runs)
    assert operators(after.graph) == {"GroupQueryAttention": 1}
    np.testing.assert_allclose(results(after, feed)[0], results(model, feed)[0], rtol=1e-4, atol=1e-5)
    assert not any(
        node.domain
        for node in optimize(model, **HOW, cost_model=lambda node: 2.0 - ("attention" in node.op)).graph.node
    )


def test_what_is_written_costs_the_same_when_it_is_read_again() -> None:
    for name, graph in MODELS.items():
        done = run(parsed(graph), **HOW)
        assert run(done.after, rules=[], **HOW).input_cost == done.cost, name


def test_what_is_written_equals_what_was_given() -> None:
    for name in ("FusedMatMul", "SkipLayerNormalization", "QuickGelu"):
        model = parsed(MODELS[name])
        assert equal(model, optimize(model, **HOW)), name


def test_without_the_option_none_is_written() -> None:
    for graph in MODELS.values():
        after = optimize(parsed(graph), runtime="onnxruntime")
        assert not any(node.domain for node in after.graph.node)


def test_a_local_function_of_the_same_domain_keeps_its_name() -> None:
    model = parsed(MODELS["QuickGelu"], domains=', "com.microsoft": 1')
    body = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    opsets = [onnx.helper.make_opsetid("", 17)]
    model.functions.append(onnx.helper.make_function("com.microsoft", "QuickGelu", ["x"], ["y"], body, opsets))
    assert not any(node.domain for node in optimize(model, **HOW).graph.node)


def test_other_runtimes_have_none_of_them(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"has no operators of com\.microsoft: contrib needs the runtime 'onnxruntime'"
    ):
        Options(contrib=True)
    onnx.save(parsed(MODELS["QuickGelu"]), tmp_path / "in.onnx")
    paths = str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx")
    for more, error in (
        (["--contrib"], "contrib needs"),
        (["--measure", "--level", "all"], "needs a runtime: add --runtime onnxruntime"),
    ):
        shown = CliRunner().invoke(cli, ["optimize", *paths, *more])
        assert isinstance(shown.exception, ArgumentError)
        assert error in str(shown.exception)
