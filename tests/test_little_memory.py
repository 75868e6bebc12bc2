"""Little memory is told in one line, whichever library finds out, and is nobody's fault."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from eqsat.errors import ModelError
from eqsat_command.memory import is_out_of_memory

EQSAT = str(Path(sys.executable).with_name("eqsat"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")


def model(path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def limited(megabytes: int, *arguments: object) -> subprocess.Popen[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    command = [EQSAT, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit)


@pytest.mark.parametrize("megabytes", [200, 250, 290, 330])
def test_little_address_space(tmp_path: Path, megabytes: int) -> None:
    """At each of these something else runs out first, on some machines: loading, the engine, onnxruntime."""
    source = model(tmp_path / "in.onnx")
    with limited(megabytes, "optimize", source, tmp_path / "out.onnx", "--verify", "1") as process:
        told = process.communicate()[1]
    assert "Traceback" not in told
    assert "pip install" not in told
    if process.returncode:
        allowed = f"eqsat: out of memory: the shell allows {megabytes} MB of address space (ulimit -v)"
        assert (process.returncode, told.splitlines()[-1]) == (2, allowed)
        assert not (tmp_path / "out.onnx").exists()
    else:
        assert (tmp_path / "out.onnx").exists()


def test_a_limit_that_suffices_changes_nothing(tmp_path: Path) -> None:
    for path, code in ((model(tmp_path / "in.onnx"), 0), (tmp_path / "none.onnx", 2)):
        with limited(1 << 14, "show", path) as process:
            process.communicate()
        assert process.returncode == code


def test_a_signal_reaches_the_process_that_works(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with limited(1 << 14, "show", pipe) as process, open(pipe, "wb"):  # it is read from now
        process.send_signal(signal.SIGINT)
        told = process.communicate()[1]
    assert (process.returncode, told) == (130, "eqsat: interrupted, nothing is written\n")


def test_what_is_out_of_memory() -> None:
    def caused(cause: Exception) -> Exception:
        try:
            try:
                raise cause
            except Exception as error:
                raise ModelError(f"the model cannot be understood: {error}") from None
        except ModelError as error:
            return error

    said = "libx.so: failed to map segment from shared object"
    for cause in (
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        ImportError(said),
        RuntimeError("std::bad_alloc"),
    ):
        assert is_out_of_memory(caused(cause))
    for cause in (ValueError("it is larger than 2 GB"), OSError(2, "No such file"), ModuleNotFoundError("onnx")):
        assert not is_out_of_memory(caused(cause))
