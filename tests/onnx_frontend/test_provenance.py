"""Where the nodes of an optimized model are from: what they say of it, and what ``why`` tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from onnx import helper

from eqsat import relay
from eqsat.cli import cli
from eqsat.errors import ModelError
from eqsat.onnx import merge as merge_composites
from eqsat.onnx import optimize, partition, run, why
from eqsat.onnx.files import to_proto
from eqsat.onnx.graphs import nodes_of
from eqsat.onnx.provenance import ORIGINS, RULES, Told
from eqsat.rules import default, merge, rewrite, variables

from .models import benchmark_module, parsed, with_weights

EXPORTS = sorted((Path(__file__).parents[1] / "data" / "exports").glob("*.onnx"))


def told(model: onnx.ModelProto, **options: Any) -> dict[str, tuple[list[str], list[str]]]:
    """Output of each node of the optimized model -> its origins and rules."""
    after = run(model, **options).after
    return {node.outputs[0].name: properties(node) for node in after.graph}


def properties(node: ir.Node) -> tuple[list[str], list[str]]:
    return json.loads(node.metadata_props[ORIGINS]), json.loads(node.metadata_props[RULES])


def untraced(given: ir.Model, after: ir.Model) -> list[ir.Node]:
    """The nodes that do not say which nodes of the given model they are from."""
    functions = [node for each in given.functions.values() for node in nodes_of(each.graph)]
    nodes = [*nodes_of(given.graph), *functions]
    names = {name for node in nodes for name in (node.name, *[value.name for value in node.outputs])}
    written = [*nodes_of(after.graph), *[node for each in after.functions.values() for node in nodes_of(each.graph)]]
    claims = [(node, Told.of(node.metadata_props)) for node in written]
    return [node for node, claim in claims if claim is None or not claim.origins or not names >= set(claim.origins)]


# ---- what nodes say


def test_a_node_that_stands_comes_from_itself_by_no_rule() -> None:
    assert told(parsed("(float[3] x) => (float[3] y) { [first] a = Relu (x) [second] y = Tanh (a) }")) == {
        "a": (["first"], []),
        "y": (["second"], []),
    }


def test_a_node_without_a_name_of_its_own_is_told_by_its_output() -> None:
    assert told(parsed("(float[3] x) => (float[3] y) { [same] a = Tanh (x) [same] b = Relu (a) y = Sigmoid (b) }")) == {
        "a": (["a"], []),
        "b": (["b"], []),
        "y": (["y"], []),
    }


def test_what_took_the_place_of_two_nodes_comes_from_both() -> None:
    model = parsed("(float[3] x) => (float[3] y) { [inner] a = Relu (x) [outer] y = Relu (a) }")
    assert told(model) == {"y": (["inner", "outer"], ["relu-twice"])}


def test_rules_are_in_the_order_in_which_they_were_applied() -> None:
    (a,) = variables("a")
    tanh, sigmoid, exp = relay.tanh, relay.sigmoid, relay.exp
    rules = [  # the one needs what the other makes
        rewrite("second", sigmoid(exp(a)), relay.nn.relu(a)),
        rewrite("first", tanh(tanh(a)), sigmoid(a)),
    ]
    model = parsed("(float[3] x) => (float[3] y) { [e] a = Exp (x) [t] b = Tanh (a) [u] y = Tanh (b) }")
    assert told(model, rules=rules)["y"] == (["e", "t", "u"], ["first", "second"])


def test_nodes_that_cancel_out_belong_to_what_used_them() -> None:
    model = parsed(
        """(float[2, 3] x) => (float[2, 3] y)
        { [f] a = Tanh (x) [s] b = Transpose (a) [t] c = Transpose (b) [g] y = Sigmoid (c) }"""
    )
    found = told(model)
    assert found["a"][0] == ["f", "s", "t"]  # they compute what it computes
    assert found["y"] == (["g"], [])
    leading = parsed(
        "(float[2, 3] x) => (float[2, 3] y) { [s] a = Transpose (x) [t] b = Transpose (a) [g] y = Sigmoid (b) }"
    )
    origins, rules = told(leading)["y"]
    assert origins == ["s", "t", "g"]
    assert rules


def test_constants_that_rules_computed_tell_these() -> None:
    model = parsed(
        """(float[2] x) => (float[2] y) <float[2] c = {1.0, 2.0}, float[2] d = {3.0, 4.0}>
        { [one] a = Mul (x, c) [other] y = Mul (a, d) }"""
    )
    origins, rules = told(model)["y"]
    assert origins == ["one", "other"]
    assert rules


def test_constants_that_were_computed_while_a_model_was_read_belong_to_what_uses_them() -> None:
    model = parsed(
        """(float[2] x) => (float[2] y) <float[2] c = {1.0, 2.0}, float[2] d = {3.0, 4.0}>
        { [sum] a = Add (c, d) [product] y = Mul (x, a) }"""
    )
    assert told(model) == {"y": (["sum", "product"], [])}


def test_a_node_that_does_nothing_belongs_to_what_made_its_value() -> None:
    model = parsed("(float[3] x) => (float[3] y) { [f] a = Tanh (x) [nothing] b = Identity (a) [g] y = Sigmoid (b) }")
    assert told(model)["a"][0] == ["f", "nothing"]


def test_an_output_that_is_a_constant_comes_from_what_computed_it() -> None:
    model = parsed("(float[2] x) => (float[2] y) <float[2] c = {1.0, 2.0}> { [sum] y = Add (c, c) }")
    assert told(model)["y"][0] == ["sum"]


def test_a_long_chain_that_became_one_node_tells_all_of_its_links() -> None:
    count = 100
    links = [f"[n{i}] v{i + 1} = Add (v{i}, c)" for i in range(count)]
    model = parsed(f"(float[3] v0) => (float[3] v{count}) <float c = {{1.5}}> {{ {' '.join(links)} }}")
    for origins, rules in told(model).values():
        assert origins == [f"n{i}" for i in range(count)]
        assert "compose-chains" in rules


def test_an_output_that_is_an_input_tells_what_was_dropped() -> None:
    model = parsed(
        """(float[3] x) => (float[3] y, float[3] z) <float one = {1.0}, float zero = {0.0}>
        { [product] a = Mul (x, one) [sum] y = Add (a, zero) [z] z = Relu (x) }"""
    )
    origins, rules = told(model)["y"]
    assert origins == ["product", "sum"]
    assert sorted(rules) == ["add-zero", "multiply-one"]


def test_siblings_that_were_merged_are_all_origins() -> None:
    model = with_weights(
        parsed(
            """(float[4, 8] x) => (float[4, 6] y, float[4, 6] z)
            { [one] a = MatMul (x, v) [other] b = MatMul (x, w) y = Relu (a) z = Relu (b) }"""
        ),
        v=(8, 6),
        w=(8, 6),
    )
    found = run(model, rules=[*default, *merge], cost_model=lambda node: node.op in ("nn.matmul", "nn.dense"))
    merged = [node for node in found.after.graph if node.op_type in ("MatMul", "Gemm")]
    assert [properties(node)[0] for node in merged] == [["one", "other"]] * len(merged)


def test_nodes_in_bodies_and_local_functions_say_where_they_are_from() -> None:
    model = parsed(
        """(bool c, float[3] x) => (float[3] y)
        { [choice] y = If (c) <
            then_branch = yes () => (float[3] a) { [inner] b = Relu (x) [outer] a = Relu (b) },
            else_branch = no () => (float[3] d) { [own] d = own.f (x) }
        > }""",
        domains=', "own": 1',
        functions='<domain: "own", opset_import: ["": 17]> f (v) => (w) { [deep] w = Tanh (v) }',
    )
    found = run(model)
    assert not untraced(found.before, found.after)
    claims = {node.outputs[0].name: properties(node) for node in nodes_of(found.after.graph)}
    assert claims == {"y": (["choice"], []), "a": (["inner", "outer"], ["relu-twice"]), "d": (["own"], [])}
    (function,) = found.after.functions.values()
    assert [properties(node) for node in function] == [(["deep"], [])]
    assert not any(ORIGINS in node.metadata_props for node in nodes_of(found.before.graph))  # it is not changed


def test_an_optimized_model_keeps_its_first_origins() -> None:
    model = parsed(
        """(float[3] x) => (float[3] y) <float one = {1.0}>
        { [inner] a = Relu (x) [outer] b = Relu (a) [product] y = Mul (b, one) }"""
    )
    first = run(model, rules=[*[rule for rule in default if rule.name == "relu-twice"]]).after
    second = run(first).after
    (node,) = second.graph
    assert properties(node)[0] == ["inner", "outer", "product"]
    assert properties(node)[1][0] == "relu-twice"
    assert "multiply-one" in properties(node)[1]


def test_a_newer_opset_changes_no_origins() -> None:
    model = parsed("(float[2, 3] x) => (float[2, 3] y) { [s] y = Softmax <axis = 1> (x) }", opset=11)
    assert [claim[0] for claim in told(model, opset=18).values()] == [["s"]]


def test_provenance_is_left_out_and_taken_out_on_demand() -> None:
    model = parsed("(float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }")
    first = to_proto(run(model).after)
    for given in (model, first):
        after = run(given, provenance=False).after
        assert not any(key in node.metadata_props for node in after.graph for key in (ORIGINS, RULES))


def test_a_model_is_the_same_with_and_without() -> None:
    for path in [path for path in EXPORTS if path.stem[:4] in ("nerf", "yolo")]:
        after = [to_proto(run(path, provenance=wanted).after) for wanted in (True, False)]
        for node in after[0].graph.node:
            kept = [entry for entry in node.metadata_props if entry.key not in (ORIGINS, RULES)]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
        assert after[0] == after[1]


# ---- whole models


FOR_A_RUNTIME = {"runtime": "onnxruntime", "contrib": True, "explain": True}


@pytest.mark.parametrize(
    ("path", "options"),
    [*[(path, {}) for path in EXPORTS], *[(path, FOR_A_RUNTIME) for path in EXPORTS[2::2]]],
    ids=lambda each: each.stem if isinstance(each, Path) else ", ".join(each) or "as it is",
)
def test_every_node_of_an_exported_model_is_traced(path: Path, options: dict[str, Any]) -> None:
    found = run(path, **options)
    assert not untraced(found.before, found.after)
    acted = {rule.name for rule in found.extraction.report.rules.values()} | {"fold-constants"}
    assert {rule for node in nodes_of(found.after.graph) for rule in properties(node)[1]} <= acted


def layered(count: int) -> onnx.ModelProto:
    """A network of equal layers, each with weights of its own and two nodes that rules make one."""
    layers = [
        f"""[p{i}] a{i} = MatMul (x{i}, w{i}) [b{i}] b{i} = Add (a{i}, v{i}) [r{i}] c{i} = Relu (b{i})
        [q{i}] d{i} = Relu (c{i}) [t{i}] e{i} = Tanh (d{i}) [m{i}] f{i} = MatMul (e{i}, u{i})
        [s{i}] g{i} = Sigmoid (f{i}) [n{i}] h{i} = Neg (g{i}) [z{i}] x{i + 1} = Exp (h{i})"""
        for i in range(count)
    ]
    text = f"(float[2, 4] x0) => (float[2, 4] x{count}) {{ {' '.join(layers)} }}"
    shapes = {f"{name}{i}": (4,) if name == "v" else (4, 4) for i in range(count) for name in "wuv"}
    return with_weights(parsed(text), **shapes)


def test_layers_that_were_left_out_of_the_saturation_say_where_they_are_from() -> None:
    found = run(layered(12))
    assert "layers" in found.extraction.report.phases
    assert not untraced(found.before, found.after)
    for node in found.after.graph:
        origins, _ = properties(node)
        assert len({origin[1:] for origin in origins}) == 1, "all are of one layer"
        value = node.outputs[0].name or ""
        if node.op_type != "Gemm":
            layer = int(value[1:]) - (value[0] == "x")
            assert {int(origin[1:]) for origin in origins} == {layer}
    assert [properties(node)[0] for node in found.after.graph if node.op_type == "Relu"] == [
        [f"r{i}", f"q{i}"] for i in range(12)
    ]


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_every_node_of_a_published_network_is_traced(name: str) -> None:
    filled = benchmark_module("filled_models")
    found = run(onnx.load(filled.light_model(name)))
    assert not untraced(found.before, found.after)


# ---- models cut for a target


def composites(cut: Any, **options: Any) -> list[tuple[str, tuple[list[str], list[str]]]]:
    """Operator, origins and rules of each node of a model that is cut for dnnl."""
    nodes = "[a] u = Relu (x) [b] v = Relu (u) [c] w = MatMul (v, m) [d] y = Relu (w)"
    given = with_weights(parsed(f"(float[2, 4] x) => (float[2, 4] y) {{ {nodes} }}"), m=(4, 4))
    after = cut(given, "dnnl", **options).after
    return [(node.op_type, properties(node)) for node in after.graph]


def test_composites_come_from_the_nodes_inside_of_them() -> None:
    outer = (["c", "d"], ["dnnl.matmul_relu"])
    assert composites(partition) == [("Relu", (["a", "b"], ["relu-twice"])), ("matmul_relu", outer)]
    assert composites(merge_composites) == [
        ("Relu", (["a"], [])),
        ("Relu", (["b"], [])),
        ("matmul_relu", (["c", "d"], [])),
    ]


@pytest.mark.parametrize("path", [each for each in EXPORTS if each.stem[:4] in ("dens", "nerf", "yolo")])
def test_every_node_of_a_model_that_is_cut_is_traced_or_none(path: Path) -> None:
    for cut in (partition, merge_composites):
        done = cut(path, "dnnl")
        lost = {*untraced(done.before, done.after)}
        inside = {node for each in done.after.functions.values() for node in each}
        assert done.composites
        assert lost == inside, "several nodes may call a function, whose nodes do not say where they come from"
        assert not any(node.metadata_props for node in nodes_of(cut(done.after, "dnnl", provenance=False).after.graph))


# ---- why

TWICE = parsed("(float[3] x) => (float[3] y) { [inner] a = Relu (x) [outer] y = Relu (a) }")


def test_why_tells_origins_and_rules_with_their_equations() -> None:
    found = why(optimize(TWICE), "y", TWICE)
    assert str(found).splitlines() == [
        "Relu outer -> y" if found.node == "outer" else f"Relu {found.node} -> y",
        "comes from",
        "  inner: node 0, Relu(x) -> a",
        "  outer: node 1, Relu(a) -> y",
        "by the rules",
        f"  1. relu-twice (exact): {found.rules[0].equation}",
    ]
    assert "nn.relu" in str(found.rules[0].equation)


@pytest.mark.parametrize("name", ["y", "Relu:0", "Relu"])
def test_a_node_is_named_by_its_value_or_its_operator(name: str) -> None:
    assert why(optimize(TWICE), name).outputs == ("y",)


def test_rules_of_ones_own_are_told_with_their_equations_when_they_are_given() -> None:
    (a,) = variables("a")
    own = rewrite("my-rule", relay.nn.relu(relay.nn.relu(a)), relay.nn.relu(a))
    model = optimize(TWICE, [own])
    assert why(model, "y").rules[0].equation is None
    assert why(model, "y", rules=[own]).rules[0].equation == own.equation


def test_what_cannot_be_told_is_said() -> None:
    with pytest.raises(ModelError, match="the nodes of the model do not say where they come from: it was written with"):
        why(TWICE, "y")
    model = optimize(parsed("(float[3] x) => (float[3] yes) { inner = Relu (x) yes = Tanh (inner) }"))
    with pytest.raises(ModelError, match="the model has no node or value 'inne'; near to it are inner"):
        why(model, "inne")
    with pytest.raises(ModelError, match="the model has 1 Relu nodes: give Relu:0 to Relu:0"):
        why(model, "Relu:3")
    with pytest.raises(ModelError, match="the model given as origin has no node 'yes'"):
        why(model, "yes", TWICE)
    model.graph.node.append(helper.make_node("Relu", ["yes"], ["more"]))
    with pytest.raises(ModelError, match="Relu node 'more' does not say where it comes from: eqsat did not write it"):
        why(model, "more")


def test_the_command_tells_the_same(tmp_path: Path) -> None:
    onnx.save(TWICE, tmp_path / "in.onnx")
    paths = [str(tmp_path / name) for name in ("in.onnx", "out.onnx")]
    runner = CliRunner()
    runner.invoke(cli, ["optimize", *paths], catch_exceptions=False)
    shown = runner.invoke(cli, ["why", paths[1], "y", "--origin", paths[0]], catch_exceptions=False).output
    assert shown == f"{why(paths[1], 'y', paths[0])}\n"
    facts = json.loads(runner.invoke(cli, ["why", paths[1], "y", "--json"], catch_exceptions=False).output)
    assert [each["name"] for each in facts["origins"]] == ["inner", "outer"]
    assert [each["name"] for each in facts["rules"]] == ["relu-twice"]
    runner.invoke(cli, ["optimize", *paths, "--no-provenance"], catch_exceptions=False)
    assert not onnx.load(paths[1]).graph.node[0].metadata_props
