"""The command line: what it prints, writes and refuses, as a user meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.shell_completion import ShellComplete
from onnx import helper, numpy_helper

from eqsat import cli

EQSAT = str(Path(sys.executable).with_name("eqsat"))


def model() -> onnx.ModelProto:
    """x + 0, then a convolution, a batch norm and an operator that nobody knows."""
    random = np.random.default_rng(0)
    weights = {"w": (3, 2, 3, 3), "gamma": (3,), "beta": (3,), "mean": (3,), "variance": (3,)}
    nodes = [
        helper.make_node("Add", ["x", "zero"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["y"]),
    ]
    arrays = {name: random.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in weights.items()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3, 6, 6])],
        [numpy_helper.from_array(array, name) for name, array in {**arrays, "zero": np.float32(0)}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.onnx"
    onnx.save(model(), path)
    return path


class Ran:
    """What a command did: exit code and what it printed."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def eqsat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["eqsat", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return run


def refused(ran: Ran, *words: str) -> None:
    """The command ended with code 2 and one line that has these words."""
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith("eqsat")
    for word in words:
        assert word in ran.err


# ---- optimize


def test_optimize_tells_what_it_did(eqsat: Any, source: Path, tmp_path: Path) -> None:
    ran = eqsat("optimize", source, tmp_path / "out.onnx", "--verify", 1)
    assert (ran.code, ran.err) == (0, "")
    assert "nodes  3 -> 1" in ran.out
    assert "(opcount: operators that run; proved optimal)" in ran.out
    assert "ended  saturated after" in ran.out
    assert "batch-norm-is-affine" in ran.out
    assert "output y: largest difference" in ran.out
    for phase in ("load", "import", "lower", "saturate", "snapshot", "extract", "build", "export", "verify", "save"):
        assert f"{phase} " in ran.out
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Conv"]


def test_optimize_to_a_newer_opset(eqsat: Any, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    facts = json.loads(eqsat("optimize", source, out, "--opset", 21, "--verify", 1, "--json").out)
    assert onnx.load(out).opset_import[0].version == 21
    assert facts["nodes"] == {"before": 3, "after": 1}
    refused(eqsat("optimize", source, out, "--opset", 12), "a model of opset 17 can be converted to the opsets 18 to")


def test_optimize_as_json(eqsat: Any, source: Path, tmp_path: Path) -> None:
    facts = json.loads(eqsat("optimize", source, tmp_path / "out.onnx", "--verify", 2, "--json").out)
    assert facts["nodes"] == {"before": 3, "after": 1}
    assert facts["cost"]["after"] < facts["cost"]["before"]
    assert facts["cost"]["optimal"]
    assert facts["stop_reason"] == "saturated"
    assert "batch-norm-is-affine" in facts["rules"]
    assert [difference["output"] for difference in facts["differences"]] == ["y"]
    assert facts["differences"][0]["relative"] < 1e-5


def test_the_input_is_not_touched(eqsat: Any, source: Path, tmp_path: Path) -> None:
    before = source.read_bytes(), source.stat().st_mtime_ns
    eqsat("optimize", source, tmp_path / "out.onnx")
    assert (source.read_bytes(), source.stat().st_mtime_ns) == before


def test_what_finite_rules_would_save_is_offered(eqsat: Any, source: Path, tmp_path: Path) -> None:
    """A mask that is given may hide all keys of a query: what PyTorch does of such rows is kept, unless asked."""
    assert "offer" not in json.loads(eqsat("optimize", source, tmp_path / "out.onnx", "--json").out)
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 23]>
        g (float[2,3,4,8] q, float[2,3,5,8] k, float[2,3,5,8] v, float[4,5] m) => (float[2,3,4,8] y)
        < float zero = {0.0} > {
            t = Transpose <perm=[0,1,3,2]> (k) s = MatMul (q, t) a = Add (s, m)
            p = Softmax <axis=-1> (a) n = IsNaN (p) w = Where (n, zero, p)
            y = MatMul (w, v)
        }"""
    )
    onnx.save(proto, source)
    facts = json.loads(eqsat("optimize", source, tmp_path / "out.onnx", "--json").out)
    assert facts["offer"]["rules"] == ["masked-attention", "nan-of-any"]
    told = eqsat("optimize", source, tmp_path / "out.onnx").out
    assert "6 nodes fewer with --rules default --rules finite: masked-attention, nan-of-any" in told
    taken = eqsat("optimize", source, tmp_path / "out.onnx", "--rules", "default", "--rules", "finite", "--json").out
    assert facts["nodes"]["after"] - json.loads(taken)["nodes"]["after"] == facts["offer"]["nodes"]


def test_what_is_equal_unless_an_exponential_overflows_is_offered(eqsat: Any, source: Path, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) < float one = {1.0} > {
            e = Exp (x) a = Add (e, one) y = Log (a)
        }"""
    )
    onnx.save(proto, source)
    facts = json.loads(eqsat("optimize", source, tmp_path / "out.onnx", "--json").out)
    assert (facts["nodes"]["after"], facts["offer"]["nodes"], facts["offer"]["rules"]) == (3, 2, ["softplus"])


def test_chosen_rules_only(eqsat: Any, source: Path, tmp_path: Path) -> None:
    facts = json.loads(eqsat("optimize", source, tmp_path / "out.onnx", "--rules", "algebra", "--json").out)
    assert facts["nodes"]["after"] == 2
    assert "batch-norm-is-affine" not in facts["rules"]


def test_streams_take_the_place_of_files(source: Path, tmp_path: Path) -> None:
    ran = subprocess.run([EQSAT, "optimize", "-", "-"], input=source.read_bytes(), capture_output=True, check=True)
    assert [node.op_type for node in onnx.load_from_string(ran.stdout).graph.node] == ["Conv"]
    assert b"nodes  3 -> 1" in ran.stderr


def test_progress_is_told_when_it_is_asked_for(eqsat: Any, source: Path, tmp_path: Path) -> None:
    ran = eqsat("optimize", source, tmp_path / "out.onnx", "--progress")
    assert ran.err.startswith("iteration 1: ")
    assert eqsat("optimize", source, tmp_path / "out.onnx").err == ""


def test_other_commands_tell_their_steps(eqsat: Any, source: Path) -> None:
    compared = eqsat("compare", source, "--orders", 2, "--progress").err.splitlines()
    assert compared == [f"{count} of 2 runs are done" for count in range(3)]
    bisected = eqsat("bisect", source, "--check", 0.1, "--progress", "--json")
    runs = json.loads(bisected.out)["runs"]
    assert bisected.err.splitlines() == [f"model {number} is being checked" for number in range(1, runs + 1)]


def test_limits_end_the_saturation(eqsat: Any, source: Path, tmp_path: Path) -> None:
    facts = json.loads(eqsat("optimize", source, tmp_path / "out.onnx", "--iterations", 1, "--json").out)
    assert (facts["stop_reason"], facts["iterations"]) == ("iterations", 1)


def test_a_model_that_differs_is_not_written_unless_that_is_wanted(eqsat: Any, source: Path, tmp_path: Path) -> None:
    """With tolerance 0 the rounding of a folded batch norm is a difference."""
    target = tmp_path / "out.onnx"
    command = ("optimize", source, target, "--verify", 2, "--tolerance", 0)
    refused(eqsat(*command), "output 'y' differs by", "nothing is written")
    assert not target.exists()
    assert eqsat(*command, "--keep-differing").code == 0
    assert target.exists()


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_whatever_the_hash_seed(source: Path, tmp_path: Path) -> None:
    running = []
    for seed in range(3):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [EQSAT, "optimize", source, tmp_path / f"{seed}.onnx"]
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    assert [process.wait() for process in running] == [0] * 3
    assert len({(tmp_path / f"{seed}.onnx").read_bytes() for seed in range(3)}) == 1


def test_an_interrupt_writes_nothing(tmp_path: Path) -> None:
    """Interrupted while it saturates: the progress says so."""
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    nodes = [helper.make_node("Add", [f"v{i}" if i else "x", f"w{i}"], [f"v{i + 1}"]) for i in range(40)]
    given = [helper.make_tensor_value_info(name, 1, [2]) for name in ["x", *(f"w{i}" for i in range(40))]]
    graph = helper.make_graph(nodes, "sums", given, [helper.make_tensor_value_info("v40", 1, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    limits = ["--seconds", "60", "--nodes", "100000000", "--iterations", "1000000"]
    with subprocess.Popen(
        [EQSAT, "optimize", source, target, "--progress", *limits], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("iteration 1")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert rest.splitlines()[-1] == "eqsat: interrupted, nothing is written"
    assert process.returncode == 130
    assert os.listdir(tmp_path) == ["in.onnx"]


def test_an_interrupt_ends_commands_of_many_saturations() -> None:
    """Each of them would stop early and the next one start."""
    told = "import sys, os, signal, threading, eqsat.cli, eqsat.egraph.runner as runner\n"
    told += "loop = runner.Runner._loop\n"
    told += "def struck(self): os.kill(os.getpid(), signal.SIGINT); return loop(self)\n"
    told += "runner.Runner._loop = struck; sys.argv = ['eqsat', 'rules', 'verify']; eqsat.cli.main()"
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "eqsat: interrupted, nothing is written\n"


def test_an_interrupt_while_the_program_loads() -> None:
    with subprocess.Popen([sys.executable, "-v", EQSAT, "show", "-h"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("import 'eqsat.relay.expr'" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert "eqsat: interrupted, nothing is written" in told.splitlines()
    assert "Traceback" not in told
    assert process.returncode == 130


# ---- bad input


def test_a_missing_file(eqsat: Any, tmp_path: Path) -> None:
    refused(eqsat("optimize", tmp_path / "none.onnx", tmp_path / "out.onnx"), "none.onnx", "No such file")


@pytest.mark.parametrize("command", ["optimize", "compare", "show"])
def test_a_file_that_is_no_model(eqsat: Any, command: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    refused(
        eqsat(command, path, *[tmp_path / "out.onnx"] * (command == "optimize")), "picture.png is not an ONNX model"
    )


def test_a_model_that_is_cut_off(eqsat: Any, source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    source.write_bytes(data[: len(data) // 2])
    refused(eqsat("optimize", source, tmp_path / "out.onnx"), "in.onnx is not an ONNX model, or is truncated")
    assert os.listdir(tmp_path) == ["in.onnx"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--iterations", "0"), ("--iterations", "-3"), ("--nodes", "0"), ("--seconds", "0"), ("--seconds", "nan")],
)
def test_limits_are_above_zero(eqsat: Any, source: Path, tmp_path: Path, option: str, value: str) -> None:
    refused(eqsat("optimize", source, tmp_path / "out.onnx", option, value), option, "above 0")


def test_an_unknown_rule_set_is_told_with_those_there_are(eqsat: Any, source: Path, tmp_path: Path) -> None:
    ran = eqsat("optimize", source, tmp_path / "out.onnx", "--rules", "magic")
    refused(ran, "there is no rule set 'magic': give MODULE:NAME, or choose from default, ")
    ran = eqsat("optimize", source, tmp_path / "out.onnx", "--rules", "algebr")
    refused(ran, "there is no rule set 'algebr': give MODULE:NAME, or one that is near to it: algebra\n")


@pytest.mark.parametrize(
    "arguments",
    [("--extract", "magic"), ("--cost", "magic"), ("--verify", "-1"), ("--tolerance", "nan"), ("--magic",)],
)
def test_unknown_choices(eqsat: Any, source: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refused(eqsat("optimize", source, tmp_path / "out.onnx", *arguments), arguments[0])


def test_a_target_that_cannot_be_written(eqsat: Any, source: Path, tmp_path: Path) -> None:
    refused(eqsat("optimize", source, tmp_path / "no" / "out.onnx"), "cannot write", "No such file")
    refused(eqsat("optimize", source, tmp_path), "cannot write", tmp_path.name)
    assert os.listdir(tmp_path) == ["in.onnx"]


@pytest.mark.parametrize("which", ["in.onnx", "out.onnx"])
def test_a_report_is_not_written_over_a_model(eqsat: Any, source: Path, tmp_path: Path, which: str) -> None:
    given, out = source.read_bytes(), tmp_path / "out.onnx"
    assert source.name == "in.onnx"
    refused(eqsat("optimize", source, out, "--report", tmp_path / which), which, "overwritten")
    refused(eqsat("compare", source, "--plot", source), "in.onnx", "overwritten")
    assert source.read_bytes() == given
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("optimize", "in.onnx", "out.onnx", "--certificate", "none/c.json"),
        ("optimize", "in.onnx", "none/out.onnx", "--report", "page.html", "--certificate", "c.json"),
        ("partition", "in.onnx", "none/out.onnx", "--target", "dnnl"),
        ("calibrate", "in.onnx", "--out", "none/profile.json"),
        ("compare", "in.onnx", "--plot", "page.svg", "--report", "none/page.html"),
        ("equal", "in.onnx", "in.onnx", "--report", "page.html", "--counterexample", "none/inputs.npz"),
        ("variants", "in.onnx", "--out", "in.onnx/variants"),
    ],
)
def test_nothing_is_done_where_not_all_can_be_written(
    eqsat: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(eqsat(*arguments), "cannot write")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_no_model_is_written_without_its_certificate(eqsat: Any, source: Path, tmp_path: Path) -> None:
    refused(eqsat("optimize", source, tmp_path / "out.onnx", "--certificate", "/dev/full"), "No space left on device")
    assert list(tmp_path.iterdir()) == [source]


def test_errors_about_models_name_their_files(eqsat: Any, source: Path, tmp_path: Path) -> None:
    proto = model()
    proto.graph.node[0].input[0] = "nowhere"
    proto.graph.node[0].name = "first"
    path = tmp_path / "other.onnx"
    path.write_bytes(proto.SerializeToString())
    refused(
        eqsat("equal", source, path), f"{path}: the inputs of Add node 'first' use 'nowhere', which no node computes"
    )
    refused(eqsat("why", source, "y"), f"{source}: the nodes of the model do not say where they come from")
    (tmp_path / "graph.relay").write_text("fn (%x) { nn.relu(%x }")
    refused(
        eqsat("show", tmp_path / "graph.relay"),
        "graph.relay is neither an ONNX model nor Relay text: line 1, column 22",
    )


@pytest.mark.parametrize("command", ["optimize {} out.onnx", "equal {} {}", "variants {}"])
def test_sizes_of_dimensions_that_there_are_not(eqsat: Any, source: Path, command: str) -> None:
    ran = eqsat(*command.format(source, source).split(), "--dim", "height=3")
    refused(ran, "no input has a dynamic dimension 'height'")


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not JSON"), ('{"relu-twice": "magic"}', "any rank or all sizes or all values")]
)
def test_what_is_expected_of_proofs_is_read_before_anything_is_proved(
    eqsat: Any, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "proved.json").write_text(text)
    refused(eqsat("rules", "prove", "relu-twice", "--expect", tmp_path / "proved.json"), "proved.json", words)


def test_a_group_without_a_command_shows_its_help(eqsat: Any) -> None:
    ran = eqsat("rules")
    assert ran.code == 2
    assert "Usage: eqsat rules [OPTIONS] COMMAND [ARGS]..." in (ran.err or ran.out).splitlines()


def test_no_model_is_written_without_its_report(eqsat: Any, source: Path, tmp_path: Path) -> None:
    refused(
        eqsat("optimize", source, tmp_path / "out.onnx", "--report", tmp_path / "none" / "page.html"), "cannot write"
    )
    assert not (tmp_path / "out.onnx").exists()


def test_errors_are_short_whatever_models_name(eqsat: Any, tmp_path: Path) -> None:
    proto = model()
    proto.graph.node[0].input[0] = "n" * 10**6
    path = tmp_path / "in.onnx"
    path.write_bytes(proto.SerializeToString())
    ran = eqsat("optimize", path, tmp_path / "out.onnx")
    refused(ran, "the inputs of Add node '' use 'nnn")
    assert len(ran.err) < 1100


def test_no_or_unknown_commands(eqsat: Any) -> None:
    refused(eqsat("magic"), "No such command 'magic'")
    refused(eqsat("optimize"), "Missing argument 'IN'")


def test_a_closed_pipe_is_no_error(source: Path) -> None:
    with subprocess.Popen([EQSAT, "rules", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize("arguments", [("optimize", "{}", "-"), ("show", "{}"), ("rules", "list", "--json")])
def test_output_that_cannot_be_written_is_told_in_one_line(source: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        command = [EQSAT, *(each.format(source) for each in arguments)]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == "eqsat: cannot write to standard output: No space left on device"
    assert "Traceback" not in ran.stderr


def test_output_that_is_cut_short_is_an_error_though_unbuffered(source: Path, tmp_path: Path) -> None:
    """A file system takes what fits and says how much that was."""
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)); "
    limit += "os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", limit, EQSAT, "show", source, "--format", "svg"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with open(tmp_path / "picture.svg", "wb") as file:
        ran = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert ran.returncode == 2
    assert ran.stderr == "eqsat: cannot write to standard output: File too large\n"


# ---- the other commands


def test_show_prints_relay_text_that_reads_back(eqsat: Any, source: Path, tmp_path: Path) -> None:
    text = eqsat("show", source).out
    assert "nn.conv2d(" in text
    (tmp_path / "graph.relay").write_text("fn (%x: Tensor[(4), float32]) { nn.relu(%x) }")
    assert "nn.relu(%x)" in eqsat("show", tmp_path / "graph.relay").out


def test_show_tells_where_relay_text_is_malformed(eqsat: Any, tmp_path: Path) -> None:
    path = tmp_path / "graph.relay"
    path.write_text("fn (%x) { nn.relu(%x }")
    refused(eqsat("show", path), "line 1, column 22")


def test_show_draws_pictures(eqsat: Any, source: Path) -> None:
    assert eqsat("show", source, "--format", "svg").out.startswith("<svg")
    assert eqsat("show", source, "--format", "dot").out.startswith("digraph")


def test_show_as_json_counts_operators(eqsat: Any, source: Path) -> None:
    shown = json.loads(eqsat("show", source, "--json").out)
    assert shown["opaque"] == {}
    assert shown["functions"]["main"]["parameters"] == {"x": "Tensor[(1, 2, 8, 8), float32]"}
    assert shown["functions"]["main"]["operators"]["nn.conv2d"] == 1


def test_compare_prints_orders_and_draws_them(eqsat: Any, source: Path, tmp_path: Path) -> None:
    command = ("compare", source, "--orders", 2, "--rules", "algebra", "--rules", "linear")
    ran = eqsat(*command, "--plot", tmp_path / "orders.svg")
    assert "algebra > linear" in ran.out
    assert "saturation" in ran.out
    assert (tmp_path / "orders.svg").read_text().startswith("<svg")
    rows = json.loads(eqsat(*command, "--json").out)["rows"]
    assert [row["order"] for row in rows] == [["algebra", "linear"], ["linear", "algebra"]]
    refused(eqsat(*command, "--plot", tmp_path / "no" / "orders.svg"), "cannot write", "orders.svg")


def test_variants_are_written_and_told(eqsat: Any, source: Path, tmp_path: Path) -> None:
    command = ("variants", source, "--count", 3, "--verify", 1)
    ran = eqsat(*command, "--out", tmp_path / "some" / "folder")
    assert ran.code == 0
    files = sorted((tmp_path / "some" / "folder").iterdir())
    assert [file.name for file in files] == ["in_0.onnx", "in_1.onnx", "in_2.onnx"]
    for line, file in zip(ran.out.splitlines(), files, strict=True):
        nodes = len(onnx.load(file).graph.node)
        assert line.startswith(f"{file}  {nodes} nodes, ")
        assert line.endswith(" rules")
    again = json.loads(eqsat(*command, "--out", tmp_path / "again", "--json").out)
    assert again["asked"] == 3
    assert [Path(each["file"]).read_bytes() for each in again["variants"]] == [file.read_bytes() for file in files]
    assert all(each["rules"] for each in again["variants"])
    other = json.loads(eqsat(*command, "--out", tmp_path / "other", "--json", "--seed", 2).out)
    assert [Path(each["file"]).read_bytes() for each in other["variants"]] != [file.read_bytes() for file in files]


def test_fewer_variants_than_asked_for_are_told(eqsat: Any, source: Path, tmp_path: Path) -> None:
    ran = eqsat("variants", source, "--out", tmp_path, "--rules", "normalization", "--steps", 1, "--count", 400)
    count = len(list(tmp_path.glob("in_*.onnx")))
    assert 0 < count < 400
    assert ran.out.splitlines()[-1] == f"{count} of 400: no more variants were found with these rules and steps"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--count", "0"), "--count"),
        (("--steps", "0"), "--steps"),
        (("--rules", "no-such-set"), "no rule set 'no-such-set'"),
        (("--rules", "fold"), "no rule applies to it"),
        (("--out", "in.onnx"), "cannot write to in.onnx"),
    ],
)
def test_variants_that_cannot_be_made(
    eqsat: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(eqsat("variants", source, *arguments), words)
    assert list(tmp_path.iterdir()) == [source]


# ---- what users name themselves

MODULE = """
from eqsat import relay
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.rules import rewrite, variables

(a,) = variables("a")
relu = relay.nn.relu
rules = [rewrite("my-relu-twice", relu(relu(a)), relu(a))]
wrong = rewrite("no-relu", relu(a), a)
table = [("mine.rectifier", is_op("nn.relu")(wildcard()))]
adds = lambda node: float(node.op == "add")
two = lambda node: (float(node.runs), 0.5)
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules, one of which has the name of one of the standard library."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "my_rules_of_test_cli.py").write_text(MODULE)
    (folder / "tabnanny.py").write_text("check = 1 / 0")
    relus = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(relus, "g", values[:1], values[1:])), folder / "relus.onnx")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_rules_of_test_cli", raising=False)
    return folder


@pytest.mark.usefixtures("shelf")
def test_rules_and_costs_of_ones_own(eqsat: Any) -> None:
    own = ("--rules", "my_rules_of_test_cli:rules", "--cost", "my_rules_of_test_cli:adds")
    ran = eqsat("optimize", "relus.onnx", "out.onnx", *own)
    assert ran.code == 0, ran.err
    assert "my-relu-twice" in ran.out
    assert "0 -> 0 (my_rules_of_test_cli:adds; proved optimal)" in ran.out
    printed = eqsat(
        "optimize", "relus.onnx", "out.onnx", "--cost", "my_rules_of_test_cli:two", "--report", "page.html"
    ).out
    assert "cost   2, then 1.5 -> 1, then 1 (my_rules_of_test_cli:two; proved optimal)" in printed
    ran = eqsat("variants", "relus.onnx", "--rules", "my_rules_of_test_cli:rules", "--count", 1)
    assert ran.code == 0, ran.err


@pytest.mark.usefixtures("shelf")
def test_a_pattern_table_of_ones_own(eqsat: Any) -> None:
    target = ("--target", "my_rules_of_test_cli:table")
    assert eqsat("partition", "relus.onnx", "out.onnx", *target, "--verify", 1).code == 0
    (function,) = onnx.load("out.onnx").functions
    assert (function.domain, function.name) == ("mine", "rectifier")


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    ("option", "named", "words"),
    [
        ("--rules", "my_rules_of_test_cli:non", "has no 'non'"),
        ("--rules", "my_rules_of_test_cli:adds", "no rule"),
        ("--rules", "no_such_module:rules", "No module named 'no_such_module'"),
        ("--cost", "my_rules_of_test_cli:rules", "not a cost model"),
        ("--target", "my_rules_of_test_cli:wrong", "not a pattern table"),
        ("--target", "my_rules_of_test_cli:rules", "a pattern table holds"),
        ("--target", "my_rules_of_test_cli:adds", "does not return a pattern table: TypeError"),
        ("--rules", "tabnanny:rules", "has no 'rules'"),  # not the file of that name in the folder
    ],
)
def test_what_is_named_and_will_not_do(eqsat: Any, option: str, named: str, words: str) -> None:
    command = ("partition", "--target", "dnnl") if option == "--target" else ("optimize",)
    refused(eqsat(*command, "relus.onnx", "out.onnx", option, named), named, words)


@pytest.mark.usefixtures("shelf")
def test_rules_verify_takes_sets_rules_and_modules_and_tells_where_it_is(eqsat: Any) -> None:
    names = ("relu-twice", "my_rules_of_test_cli:rules")
    ran = eqsat("rules", "verify", *names, "--instances", 5, "--progress")
    assert ran.code == 0, ran.err
    assert "2 of 2 rules sound" in ran.out
    assert ran.err == "1 of 2: relu-twice\n2 of 2: my-relu-twice\n"
    assert "no-relu" in eqsat("rules", "verify", "my_rules_of_test_cli:wrong", "--instances", 20).out
    refused(eqsat("rules", "verify", "relu-twic"), "there is no rule set or rule 'relu-twic'", "relu-twice")


@pytest.mark.usefixtures("shelf")
def test_a_change_of_ones_own_rules_has_models_optimized_again(eqsat: Any) -> None:
    Path("models").mkdir()
    os.rename("relus.onnx", "models/relus.onnx")
    command = ("optimize-all", "models", "out", "--rules", "my_rules_of_test_cli:rules", "--workers", 1, "--json")
    assert [json.loads(eqsat(*command).out)[0]["status"] for _ in range(2)] == ["done", "skipped"]
    with open("my_rules_of_test_cli.py", "a") as module:
        module.write("# changed")
    assert json.loads(eqsat(*command).out)[0]["status"] == "done"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("eqsat optimize --rules redu", {"reductions"}),
        ("eqsat optimize --cost roof", {"roofline"}),
        ("eqsat partition --target tens", {"tensorrt"}),
        ("eqsat rules verify relu-tw", {"relu-twice"}),
    ],
)
def test_names_are_completed(words: str, completed: set[str]) -> None:
    arguments = words.split()[1:]
    found = ShellComplete(cli.cli, {}, "eqsat", "_EQSAT_COMPLETE").get_completions(arguments[:-1], arguments[-1])
    assert {item.value for item in found} == completed


# ---- other commands


def test_tables_that_go_to_files_are_not_cut(eqsat: Any) -> None:
    names = {rule for rules in json.loads(eqsat("rules", "list", "--json").out).values() for rule in rules}
    rows = eqsat("rules", "list").out
    assert all(f" {name} " in rows for name in names)


def test_counts_say_what_they_count_and_have_all_their_digits(eqsat: Any, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1000, 1234]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:])), tmp_path / "in.onnx")
    page = tmp_path / "page.html"
    arguments = (tmp_path / "in.onnx", tmp_path / "out.onnx", "--cost", "flops", "--explain", "--report", page)
    printed = eqsat("optimize", *arguments).out
    assert "1234000 → 1234000 floating-point operations" in page.read_text(encoding="utf-8")
    assert "nodes  1 -> 1 (of the ONNX model, Constants left out)" in printed
    assert "cost   1234000 -> 1234000 (flops: floating-point operations; proved optimal)" in printed
    assert "operators of the result inside eqsat" in printed
    printed = eqsat("compare", tmp_path / "in.onnx", "--cost", "bytes", "--rules", "fold").out
    assert "input cost 9872000, saturation 9872000" in printed
    assert "costs by bytes: bytes read and written" in printed


def test_rules_are_listed(eqsat: Any) -> None:
    listed = json.loads(eqsat("rules", "list", "--json").out)
    assert listed["default"]["fold-constants"] == {"keeps": "exact", "proved": ""}
    assert listed["default"]["add-zero"]["proved"] == "any rank"
    assert "finite" not in {rule["keeps"] for rule in listed["default"].values()}
    assert "fold-constants" in eqsat("rules", "list").out


def test_extract_solves_gym_files(eqsat: Any, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    node = {"op": "a", "children": [], "eclass": "0", "cost": 2.0}
    path.write_text(json.dumps({"nodes": {"0": node}, "root_eclasses": ["0"]}))
    ran = eqsat("extract", path)
    assert ran.code == 0
    assert "graph.json" in ran.out
    refused(eqsat("extract", tmp_path / "none.json"), "none.json", "cannot be read")


def test_completion_scripts() -> None:
    environment = {**os.environ, "_EQSAT_COMPLETE": "bash_source"}
    script = subprocess.run([EQSAT], env=environment, capture_output=True, text=True, check=True).stdout
    assert "complete -o nosort" in script
