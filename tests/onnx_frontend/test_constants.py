"""Nodes over constants that the interpreter does not know are computed once, in a process with limits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from eqsat.onnx import evaluator, partition, run
from eqsat.onnx.files import from_proto
from eqsat.onnx.optimize import Optimization
from tests.onnx_frontend.models import operators, parsed

LARGE = (256, 256)


def model(
    nodes: list[onnx.NodeProto], opset: int = 18, shape: tuple[int, ...] = (1,), **constants: np.ndarray
) -> onnx.ModelProto:
    """A model of nodes over an input ``x`` and constants, with the result ``y``."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def standardized(count: int = 1) -> onnx.ModelProto:
    """Products with weights that normalizations in training mode scale, as networks without normalization have them."""
    nodes, weights = [], {}
    for index in range(count):
        weights[f"w{index}"] = random(1, *LARGE) + index
        names = [f"w{index}", "one", "zero", "zero", "one"]
        results = [f"n{index}", f"m{index}", f"v{index}"]
        nodes.append(helper.make_node("BatchNormalization", names, results, training_mode=1))
        nodes.append(helper.make_node("MatMul", [f"y{index - 1}" if index else "x", f"n{index}"], [f"y{index}"]))
    nodes[-1].output[0] = "y"
    return model(nodes, shape=LARGE, one=np.ones(256, np.float32), zero=np.zeros(256, np.float32), **weights)


def loop(body: str, count: int, start: np.ndarray, results: int = 1) -> onnx.ModelProto:
    """A Loop over constants; ``body`` in ONNX's text form, from ``s`` to ``t``."""
    inner = onnx.parser.parse_graph(body)
    names = [f"r{index}" for index in range(results)]
    nodes = [
        helper.make_node("Loop", ["count", "yes", "start"], names, body=inner),
        helper.make_node("ReduceSum", [names[-1]], ["s"], keepdims=0),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    return model(nodes, count=np.asarray(count), yes=np.asarray(True), start=start)


def same(proto: onnx.ModelProto, done: Optimization, shape: tuple[int, ...] = (1,)) -> None:
    """Check that both models compute the same."""
    feed = {"x": random(*shape)}
    expected = ReferenceEvaluator(proto).run(None, feed)
    after = onnx.ModelProto.FromString(_bytes(done))
    for one, other in zip(expected, ReferenceEvaluator(after).run(None, feed), strict=True):
        assert np.abs(one - other).max() <= 1e-5 * np.abs(one).max()


def _bytes(done: Optimization) -> bytes:
    from eqsat.onnx import to_bytes

    return to_bytes(done.after)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each process that is started."""
    found: list[int] = []
    start = subprocess.Popen

    def popen(*args: object, **options: object) -> object:
        process = start(*args, **options)  # type: ignore[call-overload]
        found.append(process.pid)
        return process

    monkeypatch.setattr(evaluator.subprocess, "Popen", popen)
    return found


DOUBLED = "body (int64 i, bool go, float[N] s) => (bool on, float[M] t) { on = Identity(go) t = Add(s, s) }"
LONGER = "body (int64 i, bool go, float[N] s) => (bool on, float[M] t) { on = Identity(go) t = Concat <axis=0> (s, s) }"


def test_weights_that_are_normalized_at_run_time_are_constants(started: list[int]) -> None:
    proto = standardized(3)
    done = run(from_proto(proto))
    assert operators(done.after.graph) == {"MatMul": 3}
    assert done.folded.computed == {"BatchNormalization": 3}
    assert not done.imported.opaque
    assert len(started) == 1
    same(proto, done, LARGE)


def test_no_process_is_started_without_such_nodes(started: list[int]) -> None:
    lines = "(float[4] x) => (float[4] y) <float[4] c = {1, 2, 3, 4}> { d = Neg(c) e = Add(x, d) y = Mul(e, e) }"
    done = run(from_proto(parsed(lines)))
    assert not started
    assert not done.folded.computed
    assert not done.folded.left


def test_loops_over_constants_are_computed() -> None:
    proto = loop(DOUBLED, 3, np.ones(4, np.float32))
    done = run(from_proto(proto))
    assert operators(done.after.graph) == {"Add": 1}
    assert done.folded.computed == {"Loop": 1}
    same(proto, done)


def test_what_follows_is_understood_by_the_type_of_the_result() -> None:
    nodes = [
        helper.make_node("Loop", ["count", "yes", "start"], ["r"], body=onnx.parser.parse_graph(LONGER)),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Expand", ["x", "s"], ["y"]),
    ]
    proto = model(nodes, count=np.asarray(2), yes=np.asarray(True), start=np.ones(4, np.float32))
    done = run(from_proto(proto))
    assert operators(done.after.graph) == {"Expand": 1}
    same(proto, done)


def test_branches_of_conditions_that_are_computed_are_taken() -> None:
    then = onnx.parser.parse_graph("then () => (float[N] t) { t = Neg(x) }")
    otherwise = onnx.parser.parse_graph("otherwise () => (float[N] e) { e = Abs(x) }")
    nodes = [
        helper.make_node("Det", ["c"], ["d"]),
        helper.make_node("Greater", ["d", "zero"], ["more"]),
        helper.make_node("If", ["more"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    proto = model(nodes, c=np.eye(200, dtype=np.float32), zero=np.zeros((), np.float32))
    assert operators(run(from_proto(proto)).after.graph) == {"Neg": 1}


def test_operators_of_onnxruntime_are_computed() -> None:
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("Inverse", ["c"], ["i"], domain="com.microsoft"),
        helper.make_node("MatMul", ["x", "i"], ["y"]),
    ]
    weight = random(*LARGE)
    done = run(from_proto(model(nodes, shape=LARGE, c=weight)))
    assert operators(done.after.graph) == {"MatMul": 1}
    (found,) = (value.const_value.numpy() for value in done.after.graph.initializers.values())
    np.testing.assert_allclose(found @ weight, np.eye(256), atol=1e-2)


def test_local_functions_are_computed() -> None:
    lines = """(float[4] x) => (float[4] y) <float[4] c = {1, 2, 3, 4}> { d = my.twice(c) y = Add(x, d) }"""
    functions = '<domain: "my", opset_import: ["": 17]> twice (a) => (b) { b = Add(a, a) }'
    done = run(from_proto(parsed(lines, domains=', "my": 1', functions=functions)))
    assert operators(done.after.graph) == {"Add": 1}
    assert done.folded.computed == {"twice": 1}


def test_element_types_beyond_the_ir_are_read() -> None:
    tensor = helper.make_tensor("c", TensorProto.FLOAT8E4M3FN, [2], [1.5, -2.0])
    proto = model(
        [helper.make_node("Cast", ["c"], ["d"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "d"], ["y"])]
    )
    proto.graph.initializer.append(tensor)
    proto.opset_import[0].version = 19
    proto.ir_version = 9
    done = run(from_proto(proto))
    assert operators(done.after.graph) == {"Add": 1}
    same(proto, done)


def test_strings_are_read() -> None:
    proto = model(
        [helper.make_node("Cast", ["c"], ["d"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "d"], ["y"])],
        c=np.asarray(["1.5", "2"], object),
    )
    assert operators(run(from_proto(proto)).after.graph) == {"Add": 1}


def test_what_rules_make_constant_is_computed() -> None:
    nodes = [
        helper.make_node("Expand", ["x", "sizes"], ["z"]),
        helper.make_node("Where", ["all", "c", "z"], ["w"]),
        helper.make_node("Det", ["w"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    proto = model(nodes, all=np.ones((200, 200), bool), c=np.eye(200, dtype=np.float32), sizes=np.asarray([200, 200]))
    done = run(from_proto(proto))
    assert operators(done.after.graph) == {"Add": 1}


@pytest.mark.parametrize("with_runtime", [True, False])
def test_the_bodies_of_loops_have_no_nodes_over_constants(with_runtime: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    without = _without_onnxruntime(monkeypatch)
    if not with_runtime:
        without()
    body = onnx.parser.parse_graph(
        "body (int64 i, bool go, float[N] s) => (bool on, float[M] t)"
        " { on = Identity(go) d = Det(c) n = Neg(k) e = Add(d, n) t = Add(s, e) }"
    )
    nodes = [helper.make_node("Neg", ["c0"], ["k"]), helper.make_node("Loop", ["count", "yes", "x"], ["y"], body=body)]
    proto = model(
        nodes,
        count=np.asarray(2),
        yes=np.asarray(True),
        c=np.eye(200, dtype=np.float32),
        c0=np.ones(1, np.float32),
    )
    done = run(from_proto(proto))
    (node,) = done.after.graph
    assert operators(node.attributes["body"].as_graph()).get("Add") == 1
    assert "Det" not in operators(node.attributes["body"].as_graph())
    same(proto, done)


def _without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def act() -> None:
        code = (
            "import sys, runpy; sys.modules['onnxruntime'] = None; sys.argv = sys.argv[1:];"
            " runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        start = subprocess.Popen

        def popen(command: list[str], **options: object) -> object:
            return start([sys.executable, "-P", "-c", code, *command[2:]], **options)  # type: ignore[call-overload]

        monkeypatch.setattr(evaluator.subprocess, "Popen", popen)

    return act


def test_the_reference_implementation_does_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_onnxruntime(monkeypatch)()
    proto = standardized()
    done = run(from_proto(proto))
    assert operators(done.after.graph) == {"MatMul": 1}
    same(proto, done, LARGE)


# ---- what is left


def test_random_numbers_stay(started: list[int]) -> None:
    nodes = [helper.make_node("RandomNormalLike", ["c"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    done = run(from_proto(model(nodes, c=np.ones(4, np.float32))))
    assert operators(done.after.graph) == {"RandomNormalLike": 1, "Add": 1}
    assert not started


def test_random_numbers_in_a_loop_stay() -> None:
    body = (
        "body (int64 i, bool go, float[N] s) => (bool on, float[M] t)"
        " { on = Identity(go) r = RandomNormalLike(s) t = Add(s, r) }"
    )
    done = run(from_proto(loop(body, 3, np.ones(4, np.float32))))
    assert "Loop" in operators(done.after.graph)


def test_what_takes_too_long_is_left_and_said(monkeypatch: pytest.MonkeyPatch, started: list[int]) -> None:
    monkeypatch.setattr(evaluator, "SECONDS", 0.5)
    done = run(from_proto(loop(DOUBLED, 1 << 60, np.ones(4, np.float32))))
    assert "Loop" in operators(done.after.graph)
    assert done.folded.left == {"Loop": {"it takes more than 0.5 seconds": 1}}
    assert len(started) == 1


def test_what_takes_too_much_memory_is_left_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "MEMORY", 1 << 30)
    done = run(from_proto(loop(LONGER, 60, np.ones(1 << 16, np.float32))))
    assert "Loop" in operators(done.after.graph)
    ((reason, count),) = done.folded.left["Loop"].items()
    assert count == 1
    assert reason in ("it takes too much memory", "it ends the process")


def test_what_is_too_large_is_left_and_said() -> None:
    done = run(from_proto(loop(LONGER, 20, np.ones(4, np.float32))))
    assert "Loop" in operators(done.after.graph)
    assert done.folded.left == {"Loop": {"the result is too large": 1}}


def test_a_node_that_fails_is_left_and_the_others_are_computed() -> None:
    proto = standardized(2)
    bad = helper.make_node("Inverse", ["w0", "w1", "w0"], ["bad"], domain="com.microsoft")
    proto.graph.node.append(bad)
    proto.graph.output.append(helper.make_empty_tensor_value_info("bad"))
    done = run(from_proto(proto))
    assert operators(done.after.graph)["Inverse"] == 1
    assert "BatchNormalization" not in operators(done.after.graph)
    ((reason, count),) = done.folded.left["Inverse"].items()
    assert count == 1
    assert reason.startswith("it cannot be computed: ")


def test_operators_that_nothing_here_knows_are_left_and_said(started: list[int]) -> None:
    nodes = [helper.make_node("Own", ["c"], ["d"], domain="my"), helper.make_node("Add", ["x", "d"], ["y"])]
    done = run(from_proto(model(nodes, c=np.ones(4, np.float32))))
    assert operators(done.after.graph) == {"Own": 1, "Add": 1}
    assert done.folded.left == {"Own": {"nothing here computes operators of domain 'my'": 1}}
    assert not started


def test_a_process_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    done = run(from_proto(standardized(2)))
    assert operators(done.after.graph)["BatchNormalization"] == 2
    ((reason, count),) = done.folded.left["BatchNormalization"].items()
    assert count == 2
    assert reason == "no process can be started for it: No such file or directory"


# ---- elsewhere


def test_models_that_are_cut_for_a_target_have_them_computed() -> None:
    done = partition(from_proto(standardized()), "dnnl")
    assert "BatchNormalization" not in operators(done.after.graph)
    assert done.folded.computed == {"BatchNormalization": 1}


def test_they_are_computed_before_the_opset_is_raised() -> None:
    proto = standardized()
    proto.opset_import[0].version = 14
    done = run(from_proto(proto), opset=18)
    assert operators(done.after.graph) == {"MatMul": 1}
    assert done.folded.computed == {"BatchNormalization": 1}


@pytest.mark.slow
def test_the_bytes_are_the_same_every_time(tmp_path: Path) -> None:
    given = tmp_path / "in.onnx"
    given.write_bytes(standardized(2).SerializeToString())
    results = []
    for seed in ("1", "2"):
        target = tmp_path / f"out{seed}.onnx"
        command = [sys.executable, "-c", "import eqsat_command; eqsat_command.main()", "optimize", given, target]
        told = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        assert "computed 2 BatchNormalization of constants" in told
        results.append(target.read_bytes())
    assert results[0] == results[1]
