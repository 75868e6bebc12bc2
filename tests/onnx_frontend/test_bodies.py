"""Subgraphs are optimized as graphs of their own, over the same values from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from eqsat.errors import RuleError
from eqsat.onnx import export_model, import_model, run, to_bytes
from eqsat.onnx.files import from_proto
from eqsat.relay.infer import infer_types

from .models import operators, optimized, parsed


def bodies(graph: onnx.GraphProto) -> dict[str, onnx.GraphProto]:
    """All subgraphs, by name."""
    found = {}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= {attribute.g.name: attribute.g, **bodies(attribute.g)}
    return found


def outputs(proto: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    """What onnxruntime computes."""
    return list(onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feed))


def same(before: onnx.ModelProto, after: onnx.ModelProto, *feeds: dict[str, Any]) -> None:
    """The models compute the same, and the second is well-formed."""
    onnx.checker.check_model(after)
    for feed in feeds:
        for a, b in zip(outputs(before, feed), outputs(after, feed), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


X = np.array([-1.0, 0.5, 2.0, 3.0], np.float32)


def test_branches_are_optimized() -> None:
    before = parsed(
        """(bool c, float[4] x) => (float[4] y) <float zero = {0.0}> {
            a = Neg (x)
            y = If (c) <
                then_branch = t () => (float[4] p) { b = Add (a, zero) p = Relu (b) },
                else_branch = e () => (float[4] q) { d = Relu (x) q = Relu (d) }
            >
        }"""
    )
    after = optimized(before)
    assert {name: operators(graph) for name, graph in bodies(after.graph).items()} == {
        "t": {"Relu": 1},
        "e": {"Relu": 1},
    }
    assert operators(after.graph) == {"Neg": 1, "If": 1}
    assert not after.graph.initializer, "nothing uses it any more"
    same(before, after, {"c": np.array(True), "x": X}, {"c": np.array(False), "x": X})
    done = run(from_proto(before), explain=True)
    assert (done.input_cost, done.cost, done.lower_bound, done.optimal) == (6, 4, 4, True)
    assert [str(explanation) for explanation in done.explanations] == [
        "",
        "1 x add-zero: add -> nothing  (at b)",
        "1 x relu-twice: nn.relu -> nothing  (at q)",
    ]


def test_bodies_in_bodies() -> None:
    before = parsed(
        """(bool c, bool d, float[4] x) => (float[4] y) <float one = {1.0}> {
            y = If (c) <
                then_branch = t () => (float[4] p) {
                    a = Mul (x, one)
                    p = If (d) <
                        then_branch = u () => (float[4] o) { r = Mul (a, one) o = Exp (r) },
                        else_branch = v () => (float[4] s) { s = Identity (a) }
                    >
                },
                else_branch = e () => (float[4] q) { q = Neg (x) }
            >
        }"""
    )
    after = optimized(before)
    assert operators(bodies(after.graph)["t"]) == {"If": 1}
    assert operators(bodies(after.graph)["u"]) == {"Exp": 1}
    same(before, after, *[{"c": np.array(c), "d": np.array(d), "x": X} for c in (True, False) for d in (True, False)])


def test_a_loop_whose_state_grows() -> None:
    """Sizes that the body declares of its states hold for the first round at most."""
    before = parsed(
        """(int64 m, float[1] x) => (float[K] y, float[R,N] all) <bool yes = {1}, float zero = {0.0}> {
            y, all = Loop (m, yes, x) <
                body = b (int64 i, bool go, float[n] s) => (bool more, float[k] t, float[1] last) {
                    z = Add (s, zero)
                    t = Concat <axis = 0> (z, x)
                    last = Neg (x)
                    more = Identity (go)
                }
            >
        }"""
    )
    after = optimized(before)
    assert operators(bodies(after.graph)["b"]) == {"Concat": 1, "Neg": 1, "Identity": 1}
    same(before, after, {"m": np.array(3), "x": X[:1]}, {"m": np.array(1), "x": X[:1]})


LOOP = """(int64 m, float[2] x) => (float[K] y) <bool yes = {1}, float zero = {0.0}, int64 one = {1}> {
            y = Loop (m, yes, x) <
                body = b (int64 i, bool go, s) => (bool more, t) {
                    like = CastLike (one, s)
                    a = Add (s, like)
                    %s
                    more = Identity (go)
                }
            >
        }"""
GROWING, STAYING = "t = Concat <axis = 0> (a, x)", "n = Neg (a) shape = Shape (x) t = Reshape (n, shape)"


@pytest.mark.parametrize(("step", "left"), [(STAYING, {"Sub": 1}), (GROWING, {"Add": 1, "Concat": 1})])
def test_what_a_loop_carries_has_a_type_though_none_is_declared(step: str, left: dict[str, int]) -> None:
    """One that holds in every round: what the initial value has and each round's result."""
    before = parsed(LOOP % step)
    after = optimized(before)
    assert operators(bodies(after.graph)["b"]) == {**left, "Identity": 1}
    same(before, after, *[{"m": np.array(rounds), "x": X[:2]} for rounds in (0, 1, 3)])


def test_what_a_loop_carries_may_change_its_rank() -> None:
    before = parsed(LOOP % "axis = Constant <value_ints = [0]> () t = Unsqueeze (a, axis)")
    after = optimized(before)
    assert operators(bodies(after.graph)["b"])["CastLike"] == 1
    same(before, after, {"m": np.array(2), "x": X[:2]})


def test_elements_of_a_sequence_have_a_type() -> None:
    """Though nothing is known of its length, nor of the shape of what is made of it."""
    before = parsed(
        """(int64 m, float[1] x) => (float[K] y) <bool yes = {1}> {
            none = SequenceEmpty ()
            all = Loop (m, yes, none) <
                body = b (int64 i, bool go, s) => (bool more, t) { t = SequenceInsert (s, x) more = Identity (go) }
            >
            joined = ConcatFromSequence <axis = 0> (all)
            y = Cast <to = 1> (joined)
        }"""
    )
    after = optimized(before)
    assert operators(after.graph) == {"SequenceEmpty": 1, "Loop": 1, "ConcatFromSequence": 1}
    same(before, after, {"m": np.array(3), "x": X[:1]})


def test_a_weight_from_outside_stays_there() -> None:
    before = parsed(
        """(bool c, float[1,4] x) => (float[1,4] y) {
            y = If (c) <
                then_branch = t () => (float[1,4] p) { a = MatMul (x, w) b = Identity (a) p = Relu (b) },
                else_branch = e () => (float[1,4] q) { q = MatMul (x, w) }
            >
        }"""
    )
    before.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 4), "f4"), "w"))
    after = optimized(before)
    assert operators(bodies(after.graph)["t"]) == {"MatMul": 1, "Relu": 1}
    assert [tensor.name for tensor in after.graph.initializer] == ["w"]
    assert not any(graph.initializer for graph in bodies(after.graph).values())
    same(before, after, {"c": np.array(True), "x": X[None]}, {"c": np.array(False), "x": X[None]})


def test_equal_names_in_bodies_side_by_side_do_not_clash() -> None:
    """One body becomes part of the graph, the other keeps names of its own."""
    before = parsed(
        """(bool c, float[4] x) => (float[4] y, float[4] z) <bool yes = {1}> {
            y = If (yes) <
                then_branch = t () => (float[4] p) { a = Exp (x) p = Neg (a) },
                else_branch = e () => (float[4] p) { p = Neg (x) }
            >
            z = If (c) <
                then_branch = u () => (float[4] p) { a = Cos (x) p = Neg (a) },
                else_branch = v () => (float[4] p) { p = Neg (x) }
            >
        }"""
    )
    after = optimized(before)
    assert operators(after.graph) == {"Exp": 1, "Neg": 1, "If": 1}
    same(before, after, {"c": np.array(True), "x": X}, {"c": np.array(False), "x": X})


def test_a_body_that_cannot_be_improved_is_kept() -> None:
    """What stands for it raises an error of ours."""
    before = parsed(
        """(bool c, float[4] x) => (float[4] y) {
            y = If (c) <
                then_branch = t () => (float[4] p) { a = Relu (x) p = Relu (a) },
                else_branch = e () => (float[4] q) { q = Neg (x) }
            >
        }"""
    )

    def refuse(body: Any) -> Any:
        raise RuleError(body.graph.name)

    imported = import_model(from_proto(before), refuse)
    after = onnx.load_from_string(to_bytes(export_model(imported.function, imported)))
    assert onnx.printer.to_text(after) == onnx.printer.to_text(before)


def test_the_given_model_keeps_its_bodies() -> None:
    before = parsed(
        """(bool c, float[4] x) => (float[4] y) {
            y = If (c) <
                then_branch = t () => (float[4] p) { a = Relu (x) p = Relu (a) },
                else_branch = e () => (float[4] q) { q = Neg (x) }
            >
        }"""
    )
    model = from_proto(before)
    uses = [len(value.uses()) for value in model.graph.inputs]
    run(model)
    assert [len(value.uses()) for value in model.graph.inputs] == uses


@pytest.mark.parametrize("depth", [3, 12])
def test_bodies_are_looked_into_once_each(depth: int) -> None:
    text = "s{0} = Neg (x)"
    for level in range(depth):
        text = text.replace("{0}", str(level))
        inner = f"then_branch = t{level} () => (float[4] s{level}) {{ {text} }}"
        text = f"s{{0}} = If (c) <{inner}, else_branch = e{level} () => (float[4] r{level}) {{ r{level} = Abs (x) }}>"
    proto = parsed(f"(bool c, float[4] x) => (float[4] y) {{ {text.replace('s{0}', 'y')} }}")
    seen = []

    def keep(body: Any) -> Any:
        seen.append(body.graph.name)
        return body.graph

    import_model(from_proto(proto), keep)
    assert len(seen) == len(set(seen)) == 2 * depth


def test_sizes_named_inside_of_bodies_are_not_taken_for_equal() -> None:
    body = "{} = {}_body () => (int64[rank,count] {}_places) {{ {}_places = NonZero ({}) }}"
    graph = "(bool c, float[4] x, float[4] y) => (int64[a,b] u, int64[d,e] v) {"
    for name, arrays in {"u": "xy", "v": "yx"}.items():
        branches = zip(("then_branch", "else_branch"), ("t" + name, "f" + name), arrays, strict=True)
        graph += (
            f"{name} = If (c) <{', '.join(body.format(which, *[node] * 3, array) for which, node, array in branches)}>"
        )
    function = import_model(from_proto(parsed(graph + "}"))).function
    results = infer_types(function)[function.body].fields
    assert [result.shape[1].name for result in results] == [None, None]
