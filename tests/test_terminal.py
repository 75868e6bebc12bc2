"""Standard streams and names: closed streams are told, and no name reaches the terminal as a command to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from eqsat import cli, parser, relay

EQSAT = str(Path(sys.executable).with_name("eqsat"))
NASTY = "\x1b[31mred\x1b]0;title\x07\r\n\x9b2J\u202e*/ /* [bold]"
"""Colours, a title, the start of the line, a C1 control, text from right to left, ends of comments, markup."""


def named(name: str, *, is_valid: bool = True) -> onnx.ModelProto:
    """A model that says ``name`` wherever there is a name."""
    nodes = [
        helper.make_node("Add", [f"x{name}", f"zero{name}"], [f"a{name}"], name=f"n{name}"),
        helper.make_node("Relu", [f"a{name}"], [f"y{name}" if is_valid else f"x{name}"], name=f"r{name}"),
        helper.make_node(f"F{name}", [f"a{name}"], [f"z{name}"], name=f"f{name}", domain=f"d{name}"),
    ]
    graph = helper.make_graph(
        nodes[: 3 if is_valid else 2],
        f"g{name}",
        [helper.make_tensor_value_info(f"x{name}", onnx.TensorProto.FLOAT, [f"N{name}", 3])],
        [helper.make_tensor_value_info(f"y{name}", onnx.TensorProto.FLOAT, [f"N{name}", 3])],
        [numpy_helper.from_array(np.float32(0), f"zero{name}")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(f"d{name}", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def known(name: str) -> onnx.ModelProto:
    """The same without the operator that no runtime knows."""
    proto = named(name)
    del proto.graph.node[2], proto.opset_import[1]
    return proto


def is_safe(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "{}/nasty.onnx"), 0),
        (("show", "{}/nasty.onnx", "--format", "dot"), 0),
        (("show", "{}/nasty.onnx", "--format", "svg"), 0),
        (("show", "{}/wrong.onnx"), 2),
        (("optimize", "{}/nasty.onnx", "{}/o.onnx", "--explain"), 0),
        (("optimize", "{}/nasty.onnx", "{}/o.onnx", "--verify", "1"), 2),  # onnxruntime does not know the operator
        (("optimize", "{}/wrong.onnx", "{}/o.onnx"), 2),
        (("optimize", "{}/nasty.onnx", "{}/o.onnx", "--certificate", "{}/c.json"), 0),
        (("equal", "{}/nasty.onnx", "{}/nasty.onnx"), 0),
        (("equal", "{}/nasty.onnx", "{}/wrong.onnx"), 2),
        (("check", "{}/nasty.onnx", "{}/nasty.onnx", "{}/nasty.onnx"), 2),
        (("rules", "verify", NASTY), 2),
        (("optimize", "{}/nasty.onnx", f"{{}}/{NASTY}/o.onnx".replace("*/ /*", "")), 2),
        (("compare", "{}/nasty.onnx"), 0),
        (("partition", "{}/nasty.onnx", "{}/o.onnx", "--target", "dnnl"), 0),
        (("variants", "{}/nasty.onnx", "--count", "1", "--out", "{}/\x1b[1m\n"), 0),
        (("optimize", NASTY), 2),
        ((NASTY,), 2),
    ],
)
def test_names_are_no_commands_to_the_terminal(
    arguments: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    onnx.save(named(NASTY), tmp_path / "nasty.onnx")
    onnx.save(named(NASTY, is_valid=False), tmp_path / "wrong.onnx")
    monkeypatch.setattr(sys, "argv", ["eqsat", *(each.format(tmp_path) for each in arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert ended.value.code == code, printed.err
    assert is_safe(printed.out)
    assert is_safe(printed.err)
    assert printed.err.count("\n") == (code == 2)


def test_outputs_of_any_name_are_told_in_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(known(NASTY), tmp_path / "m.onnx")
    monkeypatch.setattr(sys, "argv", ["eqsat", "optimize", f"{tmp_path}/m.onnx", f"{tmp_path}/o.onnx", "--verify", "1"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert is_safe(printed)
    assert r"output y\u001b[31mred\u001b]0;title\u0007\r\n\u009b2J\u202e*/ /* [bold]: " in printed


def test_processes_of_many_models_print_no_names_as_they_are(tmp_path: Path) -> None:
    proto = known(NASTY)
    proto.graph.node[0].input[0] = f"missing{NASTY}"
    (tmp_path / "in").mkdir()
    onnx.save(proto, tmp_path / "in" / "wrong.onnx")
    command = [EQSAT, "optimize-all", tmp_path / "in", tmp_path / "out", "--workers", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert is_safe(ran.stdout + ran.stderr)
    assert ran.stderr.count("\n") == 1


def test_relay_text_of_any_names_reads_back() -> None:
    """Names of variables and dimensions are quoted, those in comments neither end them nor begin others."""
    x = relay.var(f"x{NASTY}", shape=(2,))
    call = relay.nn.relu(x)
    call.span = NASTY
    text = str(relay.Function([x], call))
    assert is_safe(text)
    (parameter,) = parser.fromtext(f'#[version = "0.0.5"]\n{text}').params
    assert parameter.name_hint == f"x{NASTY}"


def test_names_that_the_encoding_of_the_output_does_not_have(tmp_path: Path) -> None:
    onnx.save(known("é"), tmp_path / "m.onnx")
    ran = subprocess.run(
        [EQSAT, "optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--verify", "1"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert r"output y\xe9: " in ran.stdout


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "told"),
    [
        ("<&-", "show -", 2, "eqsat: cannot read standard input: Bad file descriptor"),
        (">&-", "optimize in.onnx out.onnx", 2, "eqsat: cannot write to standard output: Bad file descriptor"),
        (">&-", "optimize in.onnx -", 2, "eqsat: cannot write to standard output: Bad file descriptor"),
        ("2>&-", "optimize in.onnx out.onnx --progress", 0, ""),
        ("<&- >&- 2>&-", "optimize in.onnx out.onnx --progress", 2, ""),
    ],
)
def test_closed_streams(closed: str, arguments: str, code: int, told: str, tmp_path: Path) -> None:
    onnx.save(known(""), tmp_path / "in.onnx")
    ran: Any = subprocess.run(
        f"{EQSAT} {arguments} {closed}", shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == code, ran.stderr
    assert ran.stderr.splitlines()[-1:] == ([told] if told else [])
    assert "Traceback" not in ran.stderr
    if (tmp_path / "out.onnx").exists():
        onnx.load(tmp_path / "out.onnx")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_sees_what_is_being_done(tmp_path: Path) -> None:
    """The line is redrawn in its place and goes in the end; what is no terminal sees nothing of it."""
    import pty

    path = tmp_path / "model.onnx"
    onnx.save(known(""), path)
    ours, theirs = pty.openpty()
    ran = subprocess.run([EQSAT, "equal", path, path], stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    seen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "comparing the models" in seen
    assert "comparing" not in ran.stdout
    assert subprocess.run([EQSAT, "equal", path, path], capture_output=True, check=True).stderr == b""
