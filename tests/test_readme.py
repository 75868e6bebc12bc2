"""The programs in the README run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from eqsat import relay
from eqsat.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard
from eqsat.rules import rewrite, variables

README = Path(__file__).parent.parent / "README.md"


class NegateTwice(DFPatternCallback):
    """A callback as users have theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.x = wildcard()
        self.pattern = is_op("negative")(is_op("negative")(self.x))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return node_map[self.x][0]


def test_the_programs_run_and_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [given], [result])
    (tmp_path / "in.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    monkeypatch.chdir(tmp_path)
    a, b = variables("a b")
    names: dict[str, Any] = {
        "MyDFPatternCallback": NegateTwice,
        "my_rules": [rewrite("relu-of-sum", relay.nn.relu(a + b), relay.nn.relu(b + a))],
    }
    programs = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(programs) == 5
    for program in programs:
        exec(program, names)
    printed = capsys.readouterr().out
    for said in ("nn.relu(%x)", "1 x relu-twice: nn.relu -> nothing", "stopped: saturated", "tie"):
        assert said in printed
    assert [node.op_type for node in names["better"].graph.node] == ["Relu"]
