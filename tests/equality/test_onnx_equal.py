"""``eqsat.onnx.equal`` and ``eqsat equal``: the same question about ONNX models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import eqsat.onnx
from eqsat.cli import cli
from eqsat.errors import ArgumentError, ModelError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} {text}")


PLAIN = model("g (float[2, 3] x, float[2, 3] y) => (float[2, 3] z) { s = Add(x, y) z = Relu(s) }")
RENAMED = model("g (float[2, 3] a, float[2, 3] b) => (float[2, 3] c) { t = Add(b, a) c = Relu(t) }")
OTHER = model("g (float[2, 3] x, float[2, 3] y) => (float[2, 3] z) { s = Sub(x, y) z = Relu(s) }")


def test_models_are_equal_whatever_their_inputs_are_called() -> None:
    assert eqsat.onnx.equal(PLAIN, PLAIN).soundness
    assert eqsat.onnx.equal(PLAIN, RENAMED)
    assert eqsat.onnx.equal(OTHER, OTHER, match={"x": "x"})
    assert not eqsat.onnx.equal(OTHER, OTHER, match={"x": "y", "y": "x"})


def saved(folder: Path, *models: onnx.ModelProto) -> list[str]:
    """The files of models, called a.onnx, b.onnx and so on."""
    paths = [str(folder / f"{letter}.onnx") for letter in "abcdef"[: len(models)]]
    for path, each in zip(paths, models, strict=True):
        onnx.save(each, path)
    return paths


SPELLINGS = Path(__file__).parents[1] / "data" / "spellings"


@pytest.mark.parametrize("name", ["t5_encoder.sdpa.dynamo", "bert.sdpa.script"])
def test_models_are_equal_to_what_they_are_optimized_to(name: str) -> None:
    given = eqsat.onnx.load(SPELLINGS / f"{name}.onnx")
    assert eqsat.onnx.equal(given, eqsat.onnx.optimize(given))


def test_where_models_part_is_told_by_their_nodes() -> None:
    found = eqsat.onnx.equal(PLAIN, OTHER)
    assert found.answer == "different"
    (pair,) = found.pairs
    assert "Add node" in str(pair.first)
    assert "Sub node" in str(pair.second)
    assert "value s" in str(pair.second)


def test_a_table_that_the_other_model_computes_is_within_rounding() -> None:
    angles = np.linspace(0, 8, 24).astype("float32").reshape(1, 24)
    table = np.cos(angles)[None]
    table[0, 0, 3:7] = np.nextafter(table[0, 0, 3:7], np.float32(2))
    first = model(
        "g (float[2, 1, 24] x) => (float[2, 1, 24] z) <float[1, 24] a, int64[1] n = {0}>"
        "{ c = Cos(a) u = Unsqueeze(c, n) m = Mul(x, u) z = Tanh(m) }"
    )
    second = model("g (float[2, 1, 24] x) => (float[2, 1, 24] z) <float[1, 1, 24] u> { m = Mul(x, u) z = Tanh(m) }")
    first.graph.initializer.append(onnx.numpy_helper.from_array(angles, "a"))
    second.graph.initializer.append(onnx.numpy_helper.from_array(table, "u"))
    (rounded,) = eqsat.onnx.equal(first, second).rounded
    assert rounded.differing == 4
    assert rounded.constant.place == "initializer u"
    assert eqsat.onnx.equal(first, second, exact_constants=True).answer == "unknown"


def test_operators_that_are_not_understood_are_computed() -> None:
    text = "g (float[2, 3] x) => (float[2, 3] z) { s = <op>(x) z = Det(s) }"
    one, other = [model(text.replace("<op>", op).replace("float[2, 3] x", "float[2, 3, 3] x")) for op in ("Abs", "Neg")]
    for each in (one, other):
        each.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
        del each.graph.output[0].type.tensor_type.shape.dim[1]
    assert eqsat.onnx.equal(one, one)
    assert eqsat.onnx.equal(one, other).answer == "different"


def test_open_dimensions_get_sizes() -> None:
    text = 'g (float["n", 3] x) => (float["n", 3] z) { s = <op>(x) z = Relu(s) }'
    one, other = [model(text.replace("<op>", op)) for op in ("Abs", "Neg")]
    found = eqsat.onnx.equal(one, other, dims={"n": 5})
    assert found.difference is not None
    assert found.difference.inputs["x"].shape == (5, 3)


def test_random_operators_are_named() -> None:
    text = "g (float[2, 3] x) => (float[2, 3] z) { s = RandomNormalLike(x) z = Add(s, x) }"
    with pytest.raises(ModelError, match=r"first model computes with random numbers.*RandomNormalLike"):
        eqsat.onnx.equal(model(text), model(text))


def test_other_signatures_are_refused() -> None:
    one = model("g (float[2, 3] x) => (float[2, 3] z) { z = Relu(x) }")
    with pytest.raises(ArgumentError, match="variables differ"):
        eqsat.onnx.equal(one, PLAIN)


@pytest.mark.parametrize(("other", "code"), [(PLAIN, 0), (OTHER, 1)])
def test_the_command_says_so_by_its_exit_code(tmp_path: Path, other: onnx.ModelProto, code: int) -> None:
    paths = saved(tmp_path, PLAIN, other)
    run = CliRunner().invoke(cli, ["equal", *paths])
    assert run.exit_code == code
    assert run.output.startswith("different" if code else "equal")
    run = CliRunner().invoke(cli, ["equal", *paths, "--json", "--rules", "shape"])
    assert json.loads(run.output)["answer"] == ("different" if code else "equal")


def test_the_input_on_which_models_differ_is_told_and_written_and_taken_again(tmp_path: Path) -> None:
    paths = saved(tmp_path, PLAIN, OTHER)
    arrays = tmp_path / "arrays.npz"
    run = CliRunner().invoke(cli, ["equal", *paths, "--counterexample", str(arrays)])
    with np.load(arrays) as written:
        feed = {name: written[name] for name in written.files}
    one, other = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)[0] for path in paths
    )
    assert not np.allclose(one, other)
    assert [line.split(" = ")[0] for line in run.output.splitlines() if line.startswith("on ")] == ["on x", "on y"]
    again = CliRunner().invoke(cli, ["equal", *paths, "--inputs", str(arrays), "--json"])
    facts = json.loads(again.output)
    assert (facts["answer"], facts["samples"]) == ("different", 1)
    assert {type(part["value"]) for pair in facts["pairs"] for part in pair if part is not None} == {str}


def test_what_is_neither_proved_nor_refuted_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    run = CliRunner().invoke(cli, ["equal", *saved(tmp_path, PLAIN, RENAMED), "--rules", "shape"])
    assert run.exit_code == 3
    said, proved, *pairs = run.output.splitlines()
    assert "agree on all inputs" in said
    assert "nodes of the second graph are proved equal" in proved
    assert all(pair.startswith("not proved: ") for pair in pairs)


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    paths = saved(tmp_path, PLAIN, OTHER)
    page = tmp_path / "page.html"
    run = CliRunner().invoke(cli, ["equal", *paths, "--report", str(page)])
    assert run.exit_code == 1
    assert "they part here" in page.read_text()
    run = CliRunner().invoke(cli, ["equal", *paths, "--report", paths[0]])
    assert "a.onnx" in run.output or "a.onnx" in str(run.exception)
    assert onnx.load(paths[0]) == PLAIN
