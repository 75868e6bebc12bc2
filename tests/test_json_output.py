"""What the commands print with ``--json`` is what their JSON Schemas say."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from eqsat import cli
from eqsat.cli.output import OUTPUTS
from eqsat.cli.schemas import DIALECT, print_json, schema_of

jsonschema = pytest.importorskip("jsonschema", reason="the extra dev is not installed")

MODULE = """
from eqsat import relay
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.rules import rewrite, variables

(a,) = variables("a")
wrong = rewrite("no-relu", relay.nn.relu(a), a)
table = [("mine.rectifier", is_op("nn.relu")(wildcard()))]
two = lambda node: (float(node.runs), 2.0)
"""


def model(*nodes: tuple[str, list[str], str], size: int | str = 2) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("x", nodes[-1][2])]
    made = [helper.make_node(op_type, inputs, [output]) for op_type, inputs, output in nodes]
    graph = helper.make_graph(made, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_measurements: None) -> Path:
    """The current folder, with files for all commands."""
    onnx.save(model(("Relu", ["x"], "a"), ("Relu", ["a"], "y")), tmp_path / "in.onnx")
    onnx.save(model(("Sigmoid", ["x"], "y")), tmp_path / "other.onnx")
    onnx.save(model(("Relu", ["x"], "a"), ("Hardmax", ["a"], "y"), size="n"), tmp_path / "open.onnx")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "bad.onnx").write_bytes(b"\xff" * 40)
    onnx.save(model(("Relu", ["x"], "y")), tmp_path / "models" / "good.onnx")
    gym = {"nodes": {"0": {"op": "a", "children": [], "eclass": "0", "cost": 2.0}}, "root_eclasses": ["0"]}
    (tmp_path / "graph.json").write_text(json.dumps(gym))
    (tmp_path / "module_of_test_json.py").write_text(MODULE)
    (tmp_path / "two_nodes.py").write_text("import sys; sys.exit(open(sys.argv[1], 'rb').read().count(b'Relu') != 2)")
    (tmp_path / "graph.relay").write_text("fn (%x: Tensor[(4), float32]) { nn.relu(%x) }")
    monkeypatch.chdir(tmp_path)
    return tmp_path


RUNS: list[tuple[str, str, int]] = [
    ("bisect", "in.onnx --check true", 0),
    ("bisect", f"in.onnx --check '{sys.executable} two_nodes.py'", 0),
    ("calibrate", "in.onnx --show", 0),
    ("calibrate", "open.onnx", 0),
    ("optimize", "in.onnx out.onnx", 0),
    ("optimize", "in.onnx out.onnx --explain --verify 1 --bench --certificate c.json", 0),
    ("optimize", "open.onnx open_out.onnx --verify 1 --explain --iterations 1", 0),
    ("optimize", "in.onnx measured.onnx --measure --cost measured", 0),
    ("optimize", "in.onnx two.onnx --cost module_of_test_json:two --extract local", 0),
    ("check", "in.onnx out.onnx c.json", 0),
    ("compare", "in.onnx --orders 2 --random-runs 1 --rules algebra --rules linear --explain", 0),
    ("compare", "in.onnx --orders 1 --cost bytes", 0),
    ("equal", "in.onnx out.onnx", 0),
    ("equal", "in.onnx other.onnx", 1),
    ("extract", "graph.json", 0),
    ("optimize-all", "models optimized --verify 1 --workers 1", 1),
    ("partition", "in.onnx cut.onnx --target module_of_test_json:table --verify 1 --explain", 0),
    ("partition", "other.onnx cut.onnx --target dnnl --as-is", 0),
    ("rules list", "", 0),
    ("rules prove", "relu-twice --no-cache", 0),
    ("rules verify", "relu-twice module_of_test_json:wrong --instances 20", 1),
    ("show", "open.onnx", 0),
    ("show", "graph.relay", 0),
    ("variants", "in.onnx --count 2 --verify 1", 0),
    ("why", "out.onnx Relu:0", 0),
    ("why", "out.onnx Relu:0 --origin in.onnx", 0),
    ("why-not", "in.onnx relu-twice", 0),
    ("why-not", "in.onnx sum-of-squares", 0),
]
"""Commands, with arguments, and their exit codes; later ones use files of earlier ones."""


def parsed(text: str) -> Any:
    """What JSON says, in which NaN and infinities are no numbers."""

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_every_command_prints_what_its_schema_says() -> None:
    seen = dict[str, set[str]]()
    for name, arguments, code in RUNS:
        ran = CliRunner().invoke(cli.cli, [*name.split(), *shlex.split(arguments), "--json"])
        assert ran.exit_code == code, (name, arguments, ran.output, ran.exception)
        told = parsed(ran.stdout)
        jsonschema.Draft202012Validator(schema_of(name)).validate(told)
        seen.setdefault(name, set()).update(told[0] if isinstance(told, list) else told)
    assert seen.keys() == OUTPUTS.keys()
    never = {name: [*fields_of(schema_of(name)).keys() - seen[name]] for name in seen}
    assert {name: fields for name, fields in never.items() if fields} == {"optimize": ["offer"]}


def fields_of(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema.get("items", schema).get("properties", {})
    return found


@pytest.mark.parametrize("name", OUTPUTS)
def test_schemas_are_schemas_and_are_printed(name: str) -> None:
    ran = CliRunner().invoke(cli.cli, [*name.split(), "--json-schema"])
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, schema_of(name))
    jsonschema.Draft202012Validator.check_schema(schema_of(name))
    assert schema_of(name)["$schema"] == DIALECT


def test_numbers_that_are_not_finite_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": (1.5, float("nan")), "b": [{"c": float("-inf")}]})
    assert parsed(capsys.readouterr().out) == {"a": [1.5, None], "b": [{"c": None}]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimize", "missing.onnx", "out.onnx"],
        ["optimize", "in.onnx", "out.onnx", "--cost", "magic"],
        ["rules", "verify", "magic"],
        ["equal", "in.onnx", "models/bad.onnx"],
        ["show", "missing.onnx"],
    ],
)
@pytest.mark.usefixtures("folder")
def test_errors_are_one_line_on_standard_error_with_json_too(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["eqsat", *arguments, "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert printed.err.startswith("eqsat")
    assert printed.err.count("\n") == 1
