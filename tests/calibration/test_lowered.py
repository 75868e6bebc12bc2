"""A whole model takes what the nodes take that onnxruntime runs of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from platform import machine
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import eqsat.onnx
from eqsat.calibration import Entry, Machine, Profile, Setup, copies, fastest, profile
from eqsat.calibration.copies import copies_of, weight_bytes
from eqsat.calibration.lowered import Lowered, lowered, predicted_as_run
from eqsat.onnx.files import Given

SETUP = Setup(threads=1, level="all")
ROWS = {"x": np.ones((4, 8), "float32")}


@pytest.fixture(autouse=True)
def dear_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel takes more among others shows beside what it takes."""
    monkeypatch.setattr(profile, "measure_change", lambda setup, reference, spent: (1e-3, reference))


def model(
    body: str, ends: str = "(float[4, 8] x) => (float[4, 8] y)", arrays: Mapping[str, NDArray[Any]] | None = None
) -> Given:
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {ends} {{ {body} }}')
    made.graph.initializer.extend([onnx.numpy_helper.from_array(each, name) for name, each in (arrays or {}).items()])
    return eqsat.onnx.load(made)


def run(given: Given, feed: Mapping[str, Any] = ROWS) -> Lowered:
    found = lowered(given, feed, SETUP)
    assert found is not None
    return found


def operators(found: Lowered) -> Counter[str]:
    """How often each operator runs."""
    counts: Counter[str] = Counter()
    for kernel, runs in found.kernels.values():
        counts[kernel.family] += runs
    return counts


def new() -> Profile:
    return Profile(Machine.here(), SETUP)


def test_nodes_are_those_that_the_optimizer_leaves() -> None:
    arrays = [np.random.default_rng(0).random(shape).astype("float32") for shape in ((8, 8), (8,))]
    given = model(
        "a = MatMul (x, w) b = Add (a, c) d = Relu (b) y = Neg (d)", arrays=dict(zip("wc", arrays, strict=True))
    )
    assert operators(run(given)) == {"com.microsoft.FusedGemm": 1, "ai.onnx.Neg": 1}


def test_equal_nodes_are_one_kernel_that_runs_as_often() -> None:
    found = run(model("a = Neg (x) b = Tanh (a) c = Neg (b) y = Tanh (c)"))
    assert {key: runs for key, (_, runs) in found.kernels.items()} == {
        "ai.onnx.Neg 17(float32[4, 8]){}": 2,
        "ai.onnx.Tanh 17(float32[4, 8]){}": 2,
    }
    assert found.nodes == 4


def test_the_body_of_a_loop_counts_as_often_as_it_runs_and_a_branch_if_it_does() -> None:
    given = model(
        """n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
        a = Loop (n, t, x) <body = b (int64 i, bool go, float[4, 8] v) => (bool on, float[4, 8] w) {
            on = Identity (go) w = Tanh (v)
        }>
        y = If (c) <
            then_branch = p () => (float[4, 8] q) { q = Neg (a) },
            else_branch = r () => (float[4, 8] s) { s = Exp (a) }
        >""",
        "(float[4, 8] x, bool c) => (float[4, 8] y)",
    )
    counts = operators(run(given, {**ROWS, "c": np.array(True)}))
    assert counts["ai.onnx.Tanh"] == 3
    assert counts["ai.onnx.Neg"] == 1
    assert counts["ai.onnx.Exp"] == 0
    assert not {"ai.onnx.Loop", "ai.onnx.If"} & {*counts}


def test_changes_of_layouts_count() -> None:
    ends = "(float[1, 32, 8, 8] x) => (float[1, 32, 6, 6] y)"
    given = model("a = Conv (x, w) y = Exp (a)", ends, {"w": np.ones((32, 32, 3, 3), "float32")})
    names = {family.rpartition(".")[2] for family in operators(run(given, {"x": np.ones((1, 32, 8, 8), "float32")}))}
    assert names == {"Conv", "Exp"} | ({"ReorderInput", "ReorderOutput"} if machine() in ("x86_64", "AMD64") else set())


def test_shapes_that_are_computed_are_known_to_what_is_measured() -> None:
    given = model("s = Shape (z) y = Reshape (x, s)", "(float[4, 8] x, float[n, m] z) => (float[n, m] y)")
    feed = {**ROWS, "z": np.ones((2, 16), "float32")}
    (key,) = [key for key in run(given, feed).kernels if "Reshape" in key]
    assert key.startswith("ai.onnx.Reshape 17(float32[4, 8], int64[2]=[2, 16])")
    known = new()
    predicted_as_run([given], feed, known)
    assert known.entries[key].seconds is not None


def test_nodes_are_measured_whose_first_result_nobody_takes() -> None:
    ends = "(float[1, 1, 8] x, float[1, 1, 8] h) => (float[1, 1, 8] y, float[1, 1, 8] c)"
    weights = {name: np.ones((1, 32, 8), "float32") for name in "wr"}
    given = model(", y, c = LSTM <hidden_size = 8> (x, w, r, , , h, h)", ends, weights)
    known = new()
    predicted_as_run([given], {name: np.ones((1, 1, 8), "float32") for name in "xh"}, known)
    ((key, entry),) = known.entries.items()
    assert key.startswith("ai.onnx.LSTM")
    assert entry.skipped == ""
    assert entry.seconds is not None


def test_kernels_have_no_more_weights_than_their_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_COPIES", 32)
    weights = {"a": np.ones((8, 512), "float32"), "b": np.ones((512, 256), "float32")}
    small = run(model("m = MatMul (x, a) y = MatMul (m, b)", "(float[4, 8] x) => (float[4, 256] y)", weights))
    weights["c"] = np.ones((1 << 24,), "float32")
    ends = "(float[4, 8] x) => (float[4, 256] y, float[16777216] z)"
    large = run(model("m = MatMul (x, a) y = MatMul (m, b) z = Neg (c)", ends, weights))
    assert len(small.kernels.keys() - large.kernels.keys()) == 1  # the larger one: caches hold copies of the other
    made = [kernel.copies("onnxruntime")[0] for kernel, _ in small.kernels.values()]
    assert max(map(weight_bytes, made)) <= 1 << 20
    assert copies_of(1e-6, 1 << 19, 0.0, 1 << 20) == 2 < copies_of(1e-6, 1 << 19, 0.0)


def test_nodes_that_are_no_kernels_take_what_they_did() -> None:
    given = model(
        "b = Concat <axis = 0> (t, t) y = Neg (x)", "(float[4, 8] x, string[2] t) => (float[4, 8] y, string[4] b)"
    )
    found = run(given, {**ROWS, "t": np.array(["A", "B"])})
    assert operators(found) == {"ai.onnx.Neg": 1}
    assert found.rest > 0
    assert found.nodes == 2


def test_a_model_takes_what_its_nodes_do_among_others() -> None:
    given = model("a = Neg (x) b = Tanh (a) y = Neg (b)")
    known = new()
    keys = [*run(given).kernels]
    known.entries |= {key: Entry("", 0.0, 0.0, seconds) for key, seconds in zip(keys, (3.0, 5.0), strict=True)}
    known.change = 0.5
    assert predicted_as_run([given], ROWS, known) == [pytest.approx(2 * 3.0 + 5.0 + 3 * 0.5)]
    known.entries[keys[0]] = Entry("", 0.0, 0.0, skipped="it fails")
    (told,) = predicted_as_run([given], ROWS, known)
    assert told is not None
    assert 6.5 < told < 7.5  # Neg takes what it took in the whole model


def test_what_is_not_known_is_measured_and_added() -> None:
    known = new()
    first = predicted_as_run([model("y = Tanh (x)"), model("a = Tanh (x) y = Tanh (a)")], ROWS, known)
    (entry,) = known.entries.values()
    assert entry.family == "ai.onnx.Tanh"
    assert entry.bytes == 2 * 4 * 8 * 4
    assert first == [pytest.approx(1e-3 + (entry.seconds or 0.0)), pytest.approx(2 * (1e-3 + (entry.seconds or 0.0)))]


def test_a_model_that_does_not_run_has_no_nodes() -> None:
    given = model("y = Reshape (x, s)", "(float[4, 8] x, int64[1] s) => (float[m] y)")
    feed = {**ROWS, "s": np.array([7])}
    assert lowered(given, feed, SETUP) is None
    assert predicted_as_run([given], feed, new()) == [None]


def test_without_the_optimizer_models_are_predicted_by_what_they_are_written_with() -> None:
    assert predicted_as_run([model("y = Neg (x)")], ROWS, Profile(Machine.here(), Setup(1, "off"))) == [None]


def test_candidates_are_predicted_by_what_the_optimizer_makes_of_them() -> None:
    given = model("a = Neg (x) b = Tanh (a) y = Neg (b)")
    found = fastest(given, setup=SETUP, seconds=0.1)
    assert all(1e-3 <= each.predicted <= 4e-3 for each in found.candidates)
    assert found.candidates[0].predicted >= 3e-3
