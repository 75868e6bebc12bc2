"""Kernels are timed in the user's runtime, and graphs cost what their kernels take."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner, Result

import eqsat
import eqsat.onnx
from eqsat import cli, relay
from eqsat.calibration import (
    AsItRuns,
    Calibrated,
    Entry,
    Machine,
    Profile,
    Setup,
    Timing,
    kernel_of,
    measure,
    measuring,
    profile,
    prune,
)
from eqsat.calibration import copies as many
from eqsat.calibration import model as calibrated
from eqsat.calibration.engines import in_onnxruntime, process, worker
from eqsat.calibration.fitted import Fitted, Sample
from eqsat.calibration.kernels import Kernel, kernel_model
from eqsat.calibration.medley import measure_change, medley_model, small_kernels
from eqsat.calibration.sizes import bound_type
from eqsat.cli.named import digests
from eqsat.cost import CostNode
from eqsat.cost.kernels import cost_nodes, kernel_node
from eqsat.cost.models import CostModel
from eqsat.errors import ArgumentError, ModelError, ProfileError
from eqsat.onnx.cost import OnnxTarget, onnx_cost
from eqsat.relay.dims import add_dims, floor_divide_dims, least_dim, multiply_dims, size_by, subtract_dims, truncated
from eqsat.relay.expr import Call, Expr
from eqsat.relay.infer import infer_types
from eqsat.relay.ty import Any, TensorType

SETUP = Setup(threads=1, level="off")
X = relay.var("x", shape=(4, 8))
X3 = relay.var("x", shape=(1, 4, 8))


def ones(*shape: int) -> Expr:
    return relay.const(np.ones(shape, "float32"))


def seen(expr: Expr) -> CostNode:
    return cost_nodes(expr, infer_types(expr))[expr]


def kernel(expr: Expr) -> Kernel:
    found = kernel_of(seen(expr))
    assert found is not None
    return found


def operators(model: onnx.ModelProto) -> list[str]:
    """Those of the kernel in a model."""
    return [node.op_type for node in model.graph.node if list(node.input) != ["given"]]


# ---- kernels


def test_a_key_says_operators_types_and_which_inputs_are_constant() -> None:
    assert kernel(relay.nn.relu(X)).key == "nn.relu(x1 float32[4, 8]){}"
    assert kernel(relay.add(X, ones(8))).key == "add(x1 float32[4, 8], const float32[8]){}"
    assert kernel(relay.add(X, relay.var("y", shape=(4, 8)))).key == "add(x1 float32[4, 8], x2 float32[4, 8]){}"


def test_a_kernel_of_several_operators_says_how_they_are_connected() -> None:
    y = relay.nn.dense(X, ones(3, 8))
    types = infer_types(total := relay.nn.relu(relay.add(y, ones(3))))
    for node, ty in types.items():
        node._checked_type = ty
    found = kernel_of(kernel_node("FusedGemm.nn.relu", total))
    assert found is not None
    assert found.family == "nn.dense+add+nn.relu"
    assert found.key.endswith("; add(%0, const float32[3]){}; nn.relu(%1){}")


def test_what_has_no_known_size_is_no_kernel() -> None:
    assert kernel_of(seen(relay.nn.relu(relay.var("x", TensorType((Any("n"), 8)))))) is None
    assert kernel_of(CostNode("a.composite", None, (), None, body=(seen(relay.nn.relu(X)),))) is None


def test_a_node_of_several_operators_is_a_kernel() -> None:
    layer = relay.nn.layer_norm(X, ones(8), ones(8))
    (written,) = OnnxTarget(17).write(seen(layer)) or ()
    found = kernel_of(written.node)
    assert found is not None
    assert operators(kernel_model(found)) == ["LayerNormalization"]


def test_copies_have_weights_of_their_own_and_give_the_same() -> None:
    made = kernel(relay.nn.dense(X, ones(3, 8)))
    model = kernel_model(made, 4)
    assert operators(model) == ["Gemm"] * 4
    assert len({value.name for value in model.graph.initializer}) == 4
    names = [node.output[0] for node in model.graph.node[:4]]
    model.graph.output.extend([onnx.helper.make_tensor_value_info(name, 1, [4, 3]) for name in names])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(names, {"x0": np.ones((4, 8), np.float32), "given": np.ones(1, np.float32)})
    assert all((y == 8).all() for y in found)


def test_kernels_are_written_in_the_opset_of_their_model() -> None:
    made = kernel_of(dataclasses.replace(seen(relay.tanh(X)), version=9))
    assert made is not None
    assert made.key == "tanh(x1 float32[4, 8]){} @9"
    assert {each.domain: each.version for each in kernel_model(made, 3).opset_import}[""] == 9
    known = Calibrated(profile_of(tanh=3e-6))
    assert known(made.seen) == 3e-6  # it was measured in another opset only
    assert [*known.estimated] == [made.key]
    assert onnx_cost(lambda node: node.version or 0, 11)(seen(relay.tanh(X))) == 11


def test_large_weights_are_in_few_copies_but_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernel(relay.nn.dense(X, ones(3, 8)))
    for most, copies in ((500, 5), (50, 1), (1 << 20, 32)):
        monkeypatch.setattr(many, "_COPY_BYTES", most)
        model, found = made.copies("onnxruntime")
        assert found == copies
        assert len(model.graph.initializer) == copies


def test_results_of_copies_stay_in_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "_RESULT_BYTES", 500)
    rows = kernel(relay.nn.softmax(X)).copies("onnxruntime")
    assert rows[1] == 500 // (4 * 8 * 4)
    model, copies = kernel(relay.tanh(X)).copies("onnxruntime")  # each overwrites the one before
    assert copies == 32
    nodes = model.graph.node[:copies]
    assert [node.input[0] for node in nodes] == ["x0", *[node.output[0] for node in nodes[:-1]]]


def test_squares_stand_for_powers_of_constants() -> None:
    model = kernel_model(kernel(relay.power(X, relay.const(1.0))))
    assert onnx.numpy_helper.to_array(model.graph.initializer[0]) == 2


# ---- timing


def test_kernels_are_timed() -> None:
    kernels = [kernel(relay.nn.relu(X)), kernel(relay.split(X, 2, axis=1).astuple())]
    for level in ("off", "all"):
        found, _ = measure(kernels, Setup(1, level))
        assert {*found} == {each.key for each in kernels}
        assert all(isinstance(each, Timing) and 0 <= each.seconds < 1 for each in found.values())


def test_a_kernel_that_ends_the_process_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engines = tmp_path / "engines"
    shutil.copytree(Path(in_onnxruntime.__file__).parent, engines)
    fragile = engines / "in_onnxruntime.py"
    ending = "import onnx, os\\n    if [n.op_type for n in onnx.load(path).graph.node][:2] == ['Tanh'] * 2: os._exit(1)"
    ending = ending.replace("\\n", "\n") + "\n    optimized = f"
    fragile.write_text(fragile.read_text().replace("optimized = f", ending, 1))
    monkeypatch.setattr(process, "_PROGRAMS", engines)
    tanh, relu = kernel(relay.tanh(X)), kernel(relay.nn.relu(X))
    found, _ = measure([tanh, relu], SETUP)
    assert found[tanh.key] == "it hangs, or ends the process"
    assert isinstance(found[relu.key], Timing)


def test_a_kernel_that_the_runtime_does_not_have_is_skipped_with_its_reason() -> None:
    half = kernel(relay.erf(relay.var("x", shape=(4,), dtype="bfloat16")))
    (why,) = measure([half], SETUP)[0].values()
    assert isinstance(why, str)
    assert "erf" in why.lower()


def test_layouts_are_changed_outside_of_what_is_timed(tmp_path: Path) -> None:
    image = relay.var("x", shape=(1, 32, 6, 6))
    path = str(tmp_path / "model.onnx")
    onnx.save(kernel_model(kernel(relay.nn.conv2d(image, ones(32, 32, 3, 3), kernel_size=(3, 3), channels=32))), path)
    run, *_ = in_onnxruntime.kernel(path, 1, "all")
    run()
    assert operators(onnx.load(path)) == ["Conv"]


def test_times_are_told_by_those_of_the_reference() -> None:
    relu = kernel(relay.nn.relu(X))
    found, reference = measure([relu], SETUP)
    again, told = measure([relu], SETUP, 1e3 * (reference or 0.0))
    assert told == 1e3 * (reference or 0.0)
    first, second = found[relu.key], again[relu.key]
    assert isinstance(first, Timing)
    assert isinstance(second, Timing)
    assert 30 * first.seconds < second.seconds < 30_000 * first.seconds


def test_a_runtime_that_is_missing_or_has_no_such_level_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "eqsat.calibration.engines.in_openvino", raising=False)
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ModelError, match=r"measured in openvino, which cannot be loaded: .*pip install openvino"):
        Machine.here("openvino")
    with pytest.raises(ArgumentError, match="openvino has no level 'off': it is all"):
        Setup(level="off", runtime="openvino")
    with pytest.raises(ArgumentError, match="nothing is measured in runtime 'tpu'; known are onnxruntime, openvino"):
        Setup.of("tpu")


# ---- profiles


def profile_of(**seconds: float) -> Profile:
    entries = {
        kernel(getattr(relay.nn if name == "relu" else relay, name)(X)).key: Entry(name, 32.0, 256.0, each)
        for name, each in seconds.items()
    }
    return Profile(Machine.here(), SETUP, entries=entries)


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = profile_of(relu=1e-6, tanh=2e-6)
    written.entries["bad"] = Entry("erf", 1.0, 2.0, skipped="it hangs, or ends the process")
    written.save(tmp_path / "p.json")
    assert Profile.load(tmp_path / "p.json") == written
    assert written.skipped == {"bad": "it hangs, or ends the process"}


def test_a_profile_of_another_machine_or_version_is_refused(tmp_path: Path) -> None:
    here = profile_of(relu=1e-6)
    for change in ({"processor": "Z80 x 1"}, {"version": "0.1"}):
        other = dataclasses.replace(here, machine=dataclasses.replace(here.machine, **change))
        other.save(tmp_path / "p.json")
        with pytest.raises(ProfileError, match=r"is of onnxruntime .*--foreign"):
            Profile.load(tmp_path / "p.json")
        assert Profile.load(tmp_path / "p.json", foreign=True) == other


def test_damaged_profiles_are_told(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    profile_of(relu=1e-6).save(path)
    good = json.loads(path.read_text())
    (key,) = good["kernels"]
    bad = [
        good | {"format": 0},
        good | {"level": "fast"},
        {name: each for name, each in good.items() if name != "threads"},
        good | {"kernels": {key: good["kernels"][key] | {"seconds": -1}}},
        good | {"kernels": {key: good["kernels"][key] | {"seconds": None}}},
        good | {"kernels": {key: {}}},
        good | {"kernels": []},
        [],
    ]
    for record in bad:
        path.write_text(json.dumps(record))
        with pytest.raises(ProfileError, match="is damaged"):
            Profile.load(path)
    path.write_text("{")
    with pytest.raises(ProfileError, match="is no profile"):
        Profile.load(path)
    with pytest.raises(ProfileError, match="cannot read profile"):
        Profile.load(tmp_path / "none.json")


def test_what_several_processes_measure_is_told_by_one_reference(quick: Path) -> None:
    first, second = profile_of(relu=1e-6), profile_of(tanh=2e-6)
    first.reference, second.reference = 1e-4, 2e-4
    second.change = 2e-7
    profile.remember(first)
    profile.remember(second)
    (path,) = quick.iterdir()
    known = Profile.load(path)
    assert known.reference == 1e-4
    assert [each.seconds for each in known.entries.values()] == [1e-6, 1e-6]
    assert known.change == 1e-7


def test_pruning_keeps_what_is_of_this_machine(quick: Path) -> None:
    quick.mkdir()
    here = profile_of(relu=1e-6)
    here.save(quick / "here.json")
    dataclasses.replace(here, machine=Machine("Z80 x 1", "onnxruntime", "1")).save(quick / "other.json")
    (quick / "broken.json").write_text("{")
    assert [path.name for path in prune()] == ["broken.json", "other.json"]
    assert [path.name for path in quick.iterdir()] == ["here.json"]


# ---- estimates


def test_sizes_that_were_not_measured_are_estimated_by_others_of_the_family() -> None:
    samples = [Sample(n, 8.0 * n, 1e-6 + 2e-10 * 8 * n) for n in (10.0, 100.0, 1e4, 1e5, 1e6)]
    fitted = Fitted({"erf": samples})
    assert fitted.seconds("erf", 5e5, 4e6) == pytest.approx(1e-6 + 2e-10 * 4e6)
    assert fitted.errors()["erf"] == pytest.approx(0, abs=1e-6)
    assert fitted.seconds("tanh", 5e5, 4e6) == pytest.approx(1e-6 + 2e-10 * 4e6)
    assert Fitted({"erf": samples[:2]}).seconds("erf", 1.0, 1.0) is None


# ---- the cost model


def test_the_cheapest_graph_is_the_one_whose_kernels_take_least() -> None:
    def priced(**seconds: float) -> str:
        (a,) = eqsat.rules.variables("a")
        rules = [eqsat.rules.rewrite("either", relay.tanh(relay.nn.relu(a)), relay.erf(relay.nn.relu(a)))]
        cost = Calibrated(profile_of(relu=1e-6, **seconds))
        best = eqsat.optimize(relay.tanh(relay.nn.relu(X)), rules=rules, cost_model=cost)
        assert not cost.estimated
        assert isinstance(best, Call)
        return str(best.op)

    assert "tanh" in priced(tanh=1e-6, erf=2e-6)
    assert "erf" in priced(tanh=2e-6, erf=1e-6)


def test_weights_of_copies_differ() -> None:
    model = kernel_model(kernel(relay.nn.matmul(X, ones(8, 64))), 3)
    weights = [onnx.numpy_helper.to_array(each) for each in model.graph.initializer]
    assert len({each.tobytes() for each in weights}) == 3  # equal ones would be kept once
    assert all(0.1 <= each.min() <= each.max() <= 1.0 for each in weights)
    quantized = relay.const(np.ones((8, 64), "uint8"))
    model = kernel_model(kernel(relay.nn.matmul(relay.var("x", shape=(4, 8), dtype="uint8"), quantized)), 3)
    assert len({onnx.numpy_helper.to_array(each).tobytes() for each in model.graph.initializer}) == 3
    few = kernel_model(kernel(relay.multiply(X, ones(8))), 3)
    assert all((onnx.numpy_helper.to_array(each) == 1).all() for each in few.graph.initializer)


def test_a_medley_has_each_small_kernel_among_the_others() -> None:
    kernels = small_kernels()
    assert {"add", "nn.matmul", "nn.softmax"} <= {each.family for each in kernels}
    assert not {"nn.conv2d"} & {each.family for each in kernels}
    model = medley_model(kernels)
    onnx.checker.check_model(model)
    found = [node.op_type for node in model.graph.node]
    assert found.count("Softmax") == found.count("Erf") == 4
    assert len({tuple(found[at : at + 3]) for at in range(len(found) - 2)}) > 50
    change, reference = measure_change(SETUP, None)
    assert change >= 0.0 < reference


def test_what_is_not_known_is_measured_once_and_remembered(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = relay.tanh(relay.nn.relu(X))
    saturation = eqsat.saturate(graph, [])
    first = Calibrated.here(SETUP)
    cost = eqsat.extract(saturation, cost_model=first).cost
    alone = sum(each.seconds or 0.0 for each in first.profile.entries.values())
    assert cost == pytest.approx(alone + 2 * 1e-7)  # each kernel among others
    assert len(first.profile.entries) == 2
    assert not first.estimated
    assert len(list(quick.iterdir())) == 1

    monkeypatch.setattr(profile, "measure", lambda *_, **__: pytest.fail("it is known"))
    assert eqsat.extract(saturation, cost_model=Calibrated.here(SETUP)).cost == cost


def test_models_made_of_others_measure_too() -> None:
    class Late(CostModel):
        settled = 0

        def __call__(self, node: CostNode) -> float:
            return float(node.runs)

        def settle(self) -> bool:
            self.settled += 1
            return self.settled < 2

    late = Late()
    assert eqsat.extract(eqsat.saturate(relay.tanh(X), []), cost_model=2.0 * late + late).cost == 3.0
    assert late.settled >= 2


def test_without_measurements_the_roofline_says_what_a_kernel_takes() -> None:
    model = Calibrated(profile_of())
    assert model(seen(relay.tanh(X))) > 0
    assert model(seen(relay.tanh(relay.var("x", TensorType((Any("n"),)))))) > 0
    assert (model.known.measured, model.known.estimated, model.known.unknown) == (0, 1, 1)
    assert not model.settle()


def test_open_sizes_may_be_told() -> None:
    n, batch = Any("n"), Any("batch")
    ty = TensorType((batch, multiply_dims(2, n), Any()), "int64")
    assert bound_type(ty, {"n": 3, "batch": 5}) == TensorType((5, 6, Any()), "int64")
    told = Calibrated(profile_of(tanh=3e-6)).with_sizes({"n": 4})
    open_tanh = seen(relay.tanh(relay.var("x", TensorType((n, 8)))))
    assert told(open_tanh) == 3e-6
    assert told.key_of(open_tanh) == "tanh(x1 float32[4, 8]){}"


def test_sizes_that_are_computed_from_others_are_known() -> None:
    n, odd = Any("n"), Any("a.1")
    halved = floor_divide_dims(add_dims(n, 1), 2)
    several = subtract_dims(multiply_dims(floor_divide_dims(add_dims(halved, odd), 3), odd), 1)
    least = least_dim(halved, odd)
    for first, second in ((8, 5), (31, 2)):
        half = (first + 1) // 2
        known = [half, (half + second) // 3 * second - 1, min(half, second), max(half - 3, 0) // 2]
        dims = [halved, several, least, truncated(subtract_dims(halved, 3), 2)]
        assert [size_by(dim, {"n": first, "a.1": second, "a": 7}) for dim in dims] == known
    assert [size_by(dim, {"a.1": 5}) for dim in (halved, several, least)] == [None, None, None]
    assert size_by(Any("(batch size)//2"), {"size": 3, "(batch size)": 4}) == 2
    assert size_by(Any(), {"n": 3}) is None


# ---- the command line


@pytest.fixture
def network(tmp_path: Path) -> Path:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[n, 8] x) => (float[n, 8] y)
        { r = Relu (x) s = Relu (r) y = Tanh (s) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def command(*args: object) -> Result:
    return CliRunner().invoke(cli.cli, [str(arg) for arg in args])


def test_calibrate_measures_what_models_may_be_written_with(network: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    how = ("--threads", 1, "--level", "off")
    first = json.loads(command("calibrate", network, "--dim", "n=4", *how, "--json", "-o", out).stdout)
    assert first["new"] == first["kernels"] == len(Profile.load(out).entries) >= 2
    assert "nn.relu(x1 float32[4, 8]){} @17" in Profile.load(out).entries
    again = command("calibrate", network, "--dim", "n=4", *how, "--show").stdout
    assert "0 of them new" in again
    assert "tanh(x1 float32[4, 8]){}" in again
    assert "of unknown sizes" in command("calibrate", network, *how).stdout
    assert isinstance(command("calibrate", network, "--dim", "m=4", *how).exception, ArgumentError)

    broken = tmp_path / "cache" / "x.json"
    broken.write_text("{")
    assert json.loads(command("calibrate", "--prune", "--json").stdout)["removed"] == [str(broken)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--threads", 1], "--threads has no effect: nothing is measured"),
        (["--level", "off", "--cost", "roofline"], "--level has no effect: nothing is measured"),
        (["--threads", 1, "--cost", "profile.json"], "--threads has no effect: the file says how it was measured"),
        (["--foreign", "--cost", "measured"], "--foreign has no effect: it needs the file"),
        (["--foreign", "--measure"], "--foreign has no effect: it needs the file"),
    ],
)
def test_options_about_measurements_need_some(network: Path, options: list[object], told: str) -> None:
    result = command("optimize", network, network.parent / "out.onnx", *options)
    assert isinstance(result.exception, ArgumentError)
    assert told in str(result.exception)
    assert not (network.parent / "out.onnx").exists()


def test_without_models_usual_kernels_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        profile, "measure", lambda kernels, *_, **__: ({each.key: Timing(1e-6, 0.0) for each in kernels}, 1e-4)
    )
    told = json.loads(command("calibrate", "--json").stdout)
    assert told["new"] == told["kernels"] > 150
    assert not told["skipped"]
    assert len(told["errors"]) > 20
    assert {"nn.conv2d", "nn.matmul", "nn.softmax", "add"} <= {*told["errors"]}
    assert json.loads(command("calibrate", "--json").stdout)["new"] == 0


def test_models_are_optimized_by_what_was_measured(network: Path, tmp_path: Path) -> None:
    fixed, out, file = tmp_path / "fixed.onnx", tmp_path / "out.onnx", tmp_path / "p.json"
    eqsat.onnx.save(eqsat.onnx.with_sizes(network, {"n": 4}), fixed)
    measured = json.loads(command("optimize", fixed, out, "--cost", "measured", "--threads", 1, "--json").stdout)
    assert measured["kernels"]["estimated"] == measured["kernels"]["unknown"] == 0
    assert measured["nodes"] == {"before": 3, "after": 2}
    how = ("--cost", "measured", "--threads", 1, "--dim", "n=4", "--json")
    assert json.loads(command("optimize", network, out, *how).stdout)["kernels"] == measured["kernels"]

    command("calibrate", "--threads", 1, "--level", "off", "-o", file)
    told = command("optimize", fixed, out, "--cost", file)
    assert "seconds in the runtime" in told.output
    assert f"kernels of runtime none: {measured['kernels']['measured']} measured" in told.output
    refused = command("optimize", fixed, out, "--cost", file, "--runtime", "onnxruntime").exception
    assert "was measured at level off of onnxruntime's own optimizer, which is on" in str(refused)
    file.write_text(file.read_text().replace('"version": "', '"version": "0.'))
    assert isinstance(command("optimize", fixed, out, "--cost", file).exception, ProfileError)
    assert command("optimize", fixed, out, "--cost", file, "--foreign").exit_code == 0


def test_a_profile_that_changes_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    profile_of(relu=1e-6).save(file)
    before = digests(["opcount", str(file)])
    assert digests(["opcount", str(file)]) == before
    profile_of(relu=2e-6).save(file)
    assert digests(["opcount", str(file)]) != before


def test_what_the_runtime_fuses_is_priced_as_fused_where_it_takes_longer() -> None:
    graph = relay.nn.layer_norm(relay.add(X3, relay.var("y", TensorType((1, 4, 8)))), ones(8), ones(8), epsilon=1e-5)

    def cost(node: CostNode) -> float:
        return 0.0 if not node.runs else 5.0 if "Skip" in node.op else 1.0

    priced = {
        model: eqsat.extract(eqsat.saturate(graph, []), cost_model=onnx_cost(model, 17, "onnxruntime")).input_cost
        for model in (cost, AsItRuns(cost))
    }
    assert [*priced.values()] == [2.0, 5.0]


def test_what_measuring_takes_is_told(network: Path) -> None:
    told = command("calibrate", network, "--dim", "n=4", "--threads", 1, "--level", "off", "--json")
    assert {*json.loads(told.stdout)["spent"]} == {"writing", "loading", "running", "reference"}
    assert all(seconds > 0 for seconds in json.loads(told.stdout)["spent"].values())
    again = json.loads(command("calibrate", "--threads", 1, "--level", "off", "--show", "--json").stdout)
    assert not any(again["spent"].values())


def test_kernels_for_which_there_is_no_time_are_estimated(network: Path) -> None:
    how = ("--dim", "n=4", "--threads", 1, "--level", "off", "--json")
    none = json.loads(command("calibrate", network, *how, "--seconds", 0).stdout)
    assert none["new"] == none["kernels"] == 0 < none["left"]
    told = command("calibrate", network, *how[:-1], "--seconds", 0).stdout
    assert f"no time for {none['left']} more kernels of these models, which are estimated by others" in told
    some = json.loads(command("calibrate", network, *how, "--seconds", 100).stdout)
    assert (some["new"], some["left"]) == (none["left"], 0)


def test_no_group_of_kernels_is_begun_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_GROUP", 1)
    monkeypatch.setattr(measuring, "time_models", lambda models, *_: ([[1e-4]] * len(models), 1e-4))
    both = [kernel(relay.tanh(X)), kernel(relay.nn.relu(X))]
    for seconds, count in ((0.5, 0), (1.5, 1), (2.5, 2)):
        clock = itertools.count()  # a second passes before each group
        monkeypatch.setattr(measuring.time, "perf_counter", lambda clock=clock: next(clock))
        assert len(measure(both, SETUP, seconds=seconds)[0]) == count


def test_where_time_is_short_the_dearest_kernels_are_measured_first(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(calibrated, "calibrate", lambda profile, new, seconds: begun.extend(each.key for each in new))
    model = Calibrated(profile_of(), seconds=10.0)
    for size in (4, 400, 40):
        model(seen(relay.tanh(relay.var("x", shape=(size, 8)))))
    model.measure_estimated()
    assert begun == [f"tanh(x1 float32[{size}, 8]){{}}" for size in (400, 40, 4)]


def test_long_kernels_whose_runs_agree_run_no_more() -> None:
    assert worker._is_even([1.0, 1.01, 1.02])
    assert not worker._is_even([1.0, 1.03, 1.0])
    assert not worker._is_even([1.0, 1.0])
