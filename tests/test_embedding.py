"""eqsat inside other programs: processes, threads, their logs, and what they see of the package."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import types
from typing import Any

import pytest

import eqsat

PRELUDE = """
import json, logging, multiprocessing, os, sys, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import onnx, eqsat, eqsat.onnx
from eqsat import rules
GRAPH = "g (float[3] x) => (float[3] y) { a = Relu (x) b = Abs (a) y = Relu (b) }"
MODEL = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> ' + GRAPH)
def work(seed):
    return eqsat.onnx.optimize(MODEL, rules.activations).SerializeToString()
def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def tell(**facts):
    print(json.dumps(facts), flush=True)
"""


def told(program: str) -> dict[str, Any]:
    """What a program tells that uses eqsat. It ends within a minute, and writes nothing else."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("", 0)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


# ---- processes


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are not forked")
class TestForks:
    def test_a_pool_of_forks_of_a_program_that_only_imports_eqsat_works(self) -> None:
        program = """
with multiprocessing.get_context("fork").Pool(2) as pool:
    forked = pool.map(work, range(3))
tell(equal=forked == [work(0)] * 3)
"""
        assert told(program) == {"equal": True}

    def test_a_fork_of_a_program_that_used_eqsat_says_at_once_what_to_do_and_does_what_needs_no_engine(self) -> None:
        program = """
x = eqsat.relay.var("x", shape=(3,))
saturation = eqsat.saturate(eqsat.relay.nn.relu(eqsat.relay.nn.relu(x)), rules.activations)
def chosen(method):
    return str(eqsat.extract(saturation, method=method).expr)
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    error = pool.submit(work, 1).exception(timeout=20)
    equal = pool.submit(chosen, "exact").result(timeout=20) == chosen("exact")
tell(kind=type(error).__name__, text=str(error), equal=equal)
"""
        facts = told(program)
        assert (facts["kind"], facts["equal"]) == ("EngineError", True)
        assert "get_context('spawn')" in facts["text"]

    def test_a_server_that_forks_during_a_run_is_not_disturbed(self) -> None:
        """The child frees nothing of its parent's, neither database nor file, even where it ends as programs do."""
        program = """
children = []
def fork(report):
    if not children:
        child = os.fork()
        if child == 0:
            raise SystemExit(0)
        children.append(child)
eqsat.onnx.optimize(MODEL, rules.activations, on_iteration=fork)
tell(code=os.waitpid(children[0], 0)[1])
"""
        assert told(program) == {"code": 0}


# ---- threads


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read where Linux tells it")
def test_threads_free_what_they_take_though_runs_fail_and_make_the_same() -> None:
    """An engine that is not freed by its own thread stays in memory, 2 MB or more, and says so on stderr."""
    program = """
def fail(report):
    raise KeyError("told")
def call(number):
    try:
        return work(0) if number % 4 else eqsat.onnx.run(MODEL, rules.activations, on_iteration=fail)
    except KeyError as error:
        return error
expected = work(0)
with ThreadPoolExecutor(8) as threads:
    list(threads.map(call, range(16)))
    before = memory()
    made = list(threads.map(call, range(64)))
    leaked = memory() - before
tell(wrong=sum(each != expected for each in made), leaked=leaked)
"""
    facts = told(program)
    assert facts["wrong"] == 16
    assert facts["leaked"] < 64 * 500_000


# ---- logs


def test_of_an_optimization_only_eqsat_logs_unless_other_logs_are_asked_for() -> None:
    program = """
logging.getLogger("egglog_bridge").setLevel(logging.INFO)
records = []
class Handler(logging.Handler):
    def emit(self, record):
        records.append((record.name, record.getMessage()))
logging.basicConfig(level=logging.INFO, handlers=[Handler()])
work(0)
tell(records=records, level=logging.getLogger("egglog_bridge").level)
"""
    facts = told(program)
    assert facts["level"] == logging.INFO
    names, messages = zip(*facts["records"], strict=True)
    assert names == ("eqsat.onnx.optimize", "eqsat.pipeline.saturate", "eqsat.pipeline.extract", "eqsat.onnx.optimize")
    starts = ["read a model of 3 nodes in", "saturated ", "extracted ", "made a model of 1 nodes in"]
    assert all(message.startswith(start) for message, start in zip(messages, starts, strict=True))
    assert "not understood: nothing" in messages[0]
    assert "stopped: saturated" in messages[1]
    assert "proved optimal" in messages[2]


# ---- the package


def test_the_version_is_that_of_the_distribution() -> None:
    assert eqsat.__version__ == eqsat.support.libinfo()["EQSAT_VERSION"]


def test_every_public_name_is_listed() -> None:
    assert {"extraction", "onnx", "rules", "variants", "__version__"} <= set(dir(eqsat))
    assert set(eqsat.__all__) <= set(dir(eqsat))
    assert all(getattr(eqsat, name) is not None for name in dir(eqsat))


def test_nothing_is_listed_that_users_are_not_meant_to_have() -> None:
    modules = {name for name in dir(eqsat) if isinstance(getattr(eqsat, name), types.ModuleType)}
    assert all(getattr(eqsat, name).__name__.startswith("eqsat.") for name in modules)
    assert not {"Any", "TYPE_CHECKING", "import_module", "find_spec", "version", "collector", "files"} & set(dir(eqsat))
