"""A user's program is checked by mypy in strict mode, which knows the types of what eqsat gives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
import onnx

import eqsat
import eqsat.onnx
from eqsat import relay, rules
from eqsat.rules import rewrite, variables

a, b = variables("a b")
mine = rewrite("relu-twice", relay.nn.relu(relay.nn.relu(a)), relay.nn.relu(a))
x = relay.var("x", shape=(2, 4))
y = relay.nn.relu(x) + relay.const(1.0)
model = eqsat.onnx.load("in.onnx")
saturation = eqsat.saturate(y, [mine, rules.default])
extraction = eqsat.extract(saturation)
"""

TYPES = {
    "eqsat.__version__": "str",
    "relay.nn.relu(x)": "Call",
    "relay.nn.dense(x, relay.var('w', shape=(3, 4)))": "Call",
    "relay.nn.softmax(x, axis=1)": "Call",
    "relay.reshape(x, (8,))": "Call",
    "relay.add(x, y)": "Call",
    "relay.split(x, 2)": "TupleWrapper",
    "relay.split(x, 2)[0]": "TupleGetItem",
    "y": "Call",
    "-x * y / y - x": "Call",
    "x < y": "Call",
    "x.astype('int8')": "Call",
    "a + b": "CallPattern",
    "x + a": "DFPattern",
    "relay.nn.relu(a)": "DFPattern",
    "relay.nn.dense(x, weight=a, units=3)": "DFPattern",
    "relay.reshape(relay.nn.relu(a), (1, 8))": "DFPattern",
    "relay.concatenate([a, b], axis=0)": "DFPattern",
    "relay.concatenate([x, y], axis=0)": "Call",
    "relay.split(a, 2)": "DFPattern",
    "relay.nn.global_avg_pool1d(x)": "Call",
    "relay.nn.global_max_pool2d(x)": "Call",
    "relay.nn.global_max_pool3d(a)": "DFPattern",
    "mine": "Rewrite",
    "rules.default": "RuleSet",
    "saturation.report": "Report",
    "extraction.expr": "Expr",
    "extraction.explanation": "Explanation",
    "eqsat.optimize(y)": "Expr",
    "eqsat.optimize(eqsat.IRModule.from_expr(y))": "IRModule",
    "eqsat.compare_orders(y)": "OrderComparison",
    "eqsat.variants(y)": "list[Variant[Any]]",
    "model": "Model",
    "eqsat.onnx.optimize(model, method='exact')": "Model",
    "eqsat.onnx.optimize('in.onnx')": "Model",
    "eqsat.onnx.optimize(onnx.ModelProto())": "ModelProto",
    "eqsat.onnx.run(model)": "Optimization",
    "eqsat.onnx.verify('in.onnx', model)": None,
}
"""Expression -> its type, without the modules it is from; None for any type that is known."""


@pytest.mark.slow
def test_mypy_knows_the_types_of_what_users_are_given(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    asked = "\n".join(f"reveal_type({expression})" for expression in TYPES)
    program.write_text(f"{PROGRAM}{asked}\n")
    cache = ROOT / ".mypy_cache" / "users"  # the first run reads all of eqsat, the others do not
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir", str(cache), str(program)]
    command = [sys.executable, "-m", "mypy", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(ROOT / "src")})
    assert "error:" not in done.stdout + done.stderr
    found = [re.sub(r"[\w.]+\.(\w+)", r"\1", text) for text in re.findall(r'Revealed type is "(.*)"', done.stdout)]
    assert {
        name: ty for name, ty in zip(TYPES, found, strict=True) if ty == "Any" or TYPES[name] not in (ty, None)
    } == {}
