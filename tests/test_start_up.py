"""What is loaded is what is used: counted in modules, for times depend on the machine."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import onnx
import pytest
from onnx import TensorProto, helper

import eqsat
import eqsat.onnx
import eqsat.relay.transform
from eqsat.cli import _COMMANDS, cli

PROGRAM = """
import sys
{0}
print(*sorted(sys.modules))
{1}
"""
COMMAND = "sys.argv[0] = 'eqsat'\nfrom eqsat_command import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
THIRD_PARTY = {"click", "google", "highspy", "ml_dtypes", "numpy", "onnx", "onnx_ir", "onnxruntime", "ortools", "rich"}
NEVER = {"IPython", "anywidget", "black", "egglog", "onnxruntime", "ortools", "rich", "sympy", "torch"}
"""What optimizing a model without open sizes does not load; of egglog only the engine, without the Python package."""


SIZES = """
import onnx_ir
assert "sympy" not in sys.modules
assert str(onnx_ir.SymbolicDim("n") + 1) == "n + 1"
import sympy
assert onnx_ir.SymbolicDim(sympy.Symbol("n")) == onnx_ir.SymbolicDim("n")
"""
"""A program that has onnx_ir compute with sizes, which takes SymPy."""


BESIDE_EGGLOG = """
import eqsat
from eqsat import relay
x = relay.var("x", shape=(2,))
eqsat.optimize(relay.nn.relu(relay.nn.relu(x)))
import sys
assert "egglog" not in sys.modules
import egglog
from egglog import i64
assert egglog.EGraph().check(i64(1) + 2 == i64(3)) is None
assert egglog.bindings.EGraph().run_program() == []
eqsat.optimize(relay.nn.relu(relay.nn.relu(x)))
"""
"""A program that uses egglog itself after eqsat has loaded the library of it."""


def loaded(program: str, *arguments: str, then: str = "") -> set[str]:
    """The modules that are loaded when a program ends; another one goes on."""
    command = [sys.executable, "-c", PROGRAM.format(program, then), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {*done.stdout.splitlines()[-1].split()}


def test_importing_eqsat_loads_nothing_of_it_yet() -> None:
    found = loaded("import eqsat")
    assert {name for name in found if name.startswith("eqsat")} == {
        "eqsat",
        "eqsat.collector",
        "eqsat.errors",
        "eqsat.lazy",
        "eqsat.registry",
    }
    assert not found & (THIRD_PARTY | NEVER)


@pytest.mark.parametrize("given", ["", "20"], ids=["not given", "given"])
def test_threads_of_numpy_sleep_while_a_command_has_no_work_for_them(given: str) -> None:
    program = COMMAND + "\nimport os\nprint(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    environment = others | ({"OPENBLAS_THREAD_TIMEOUT": given} if given else {})
    command = [sys.executable, "-c", f"import sys\n{program}", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == (given or "4")


def test_a_pass_of_a_higher_layer_is_loaded_when_it_is_asked_for() -> None:
    program = "from eqsat import relay\nassert 'eqsat.layers.optimize' not in sys.modules\n"
    assert "eqsat.layers.optimize" in loaded(f"{program}relay.transform.EqualitySaturation")


def test_help_loads_no_command() -> None:
    found = loaded(COMMAND, "--help")
    assert {name for name in found if name.startswith("eqsat.cli.")} == {"eqsat.cli.interrupt", "eqsat.cli.terminal"}
    assert found & (THIRD_PARTY | NEVER) == {"click"}


def test_optimizing_loads_neither_sympy_before_it_is_used_nor_what_other_commands_need(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "relus",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "n"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), tmp_path / "in.onnx")
    found = loaded(COMMAND, "optimize", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), then=SIZES)
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) == 1
    assert not found & NEVER
    others = ("eqsat.calibration", "eqsat.relay.transform.fuse_ops", "eqsat.report_page", "highspy", "onnx.reference")
    assert not {name for name in found if name.startswith(others)}


def test_egglog_can_be_imported_after_its_library_was_used() -> None:
    assert "egglog" in loaded(BESIDE_EGGLOG)


def test_the_list_of_commands_says_what_they_say_of_themselves() -> None:
    for name, (place, told) in _COMMANDS.items():
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert command.get_short_help_str(100) == told
        assert name in cli.commands


@pytest.mark.parametrize(
    "package", [eqsat, eqsat.onnx, eqsat.relay, eqsat.relay.transform], ids=lambda package: package.__name__
)
def test_what_is_loaded_later_is_what_type_checkers_see(package: ModuleType) -> None:
    (block,) = [node for node in ast.parse(inspect.getsource(package)).body if isinstance(node, ast.If)]
    seen = {
        (alias.name, node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    modules = {name for name, module in seen if module == package.__name__}
    assert {(name, module) for name, module in seen if module != package.__name__} == {
        (name, f"{package.__name__}.{module}") for name, module in package._MODULE_OF.items() if name != module
    }
    at_once = set() if package is eqsat else {*vars(package)}
    assert {*package.__all__} <= modules | {*package._MODULE_OF} | at_once
    for name in [*package.__all__, *dir(package)]:
        assert getattr(package, name) is not None
