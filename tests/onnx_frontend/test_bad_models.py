"""Models that are not well-formed: an error of ours that says what is wrong, never a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from eqsat.errors import EqsatError, ModelError
from eqsat.onnx import from_bytes, run, to_bytes
from eqsat.onnx.converters import Target
from eqsat.rules import sets

from .models import chain, conv_batch_norm, operators, optimized, parsed, round_trip


def graph_of(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """A model from x to y of these nodes, whatever they are."""
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    graph = helper.make_graph(list(nodes), "g", [given], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_cycle() -> None:
    proto = graph_of(helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"]))
    with pytest.raises(ModelError, match="cycle"):
        optimized(proto)


def test_nodes_in_any_order_are_put_in_order() -> None:
    proto = graph_of(helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Exp", ["x"], ["a"]))
    after = round_trip(proto)
    assert [node.op_type for node in after.graph.node] == ["Exp", "Relu"]
    onnx.checker.check_model(after)


def test_a_value_that_nothing_makes() -> None:
    with pytest.raises(ModelError, match=r"the inputs of Relu node 'n' use 'a', which no node computes"):
        optimized(graph_of(helper.make_node("Relu", ["a"], ["y"], name="n")))


def test_an_output_that_nothing_makes() -> None:
    with pytest.raises(ModelError, match=r"the graph's outputs use 'y', which no node computes"):
        optimized(graph_of(helper.make_node("Relu", ["x"], ["a"])))


def test_a_value_that_two_nodes_make() -> None:
    with pytest.raises(ModelError, match="y"):
        optimized(graph_of(helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["x"], ["y"])))


def test_a_node_that_makes_an_input() -> None:
    with pytest.raises(ModelError, match="x"):
        optimized(graph_of(helper.make_node("Relu", ["x"], ["x"]), helper.make_node("Exp", ["x"], ["y"])))


@pytest.mark.parametrize("what", ["initializers", "inputs", "functions"])
def test_a_name_that_two_have(what: str) -> None:
    functions = '<domain: "local", opset_import: ["": 17]> f (u) => (v) { v = Relu (u) }'
    graph = "(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { z = local.f (x) y = Add (z, w) }"
    proto = parsed(graph, domains=', "local": 1', functions=functions)
    holder = {"initializers": proto.graph.initializer, "inputs": proto.graph.input, "functions": proto.functions}[what]
    holder.append(holder[0])
    with pytest.raises(ModelError, match=f"several {what} have the name"):
        optimized(proto)


def test_types_that_do_not_check_are_the_models_own_matter() -> None:
    """The node passes through as it is, with the reason."""
    proto = parsed("(float[2,3] a, float[4,5] b) => (float[2,5] y) { y = MatMul (a, b) }")
    done = run(from_bytes(proto.SerializeToString()))
    (reason,) = done.imported.opaque["MatMul"]
    assert "nn.matmul(Tensor[(2, 3), float32], Tensor[(4, 5), float32])" in reason
    assert operators(done.after.graph) == {"MatMul": 1}


@pytest.mark.parametrize(
    "node",
    [
        "y = Transpose <perm = [0, 7]> (x)",
        "y = Transpose <perm = [0]> (x)",
        "y = Softmax <axis = 9> (x)",
        "y = Conv <strides = [0, 0]> (x, x)",
        "y = Concat <axis = 5> (x, x)",
        "y = Relu <alpha = 3> (x)",
        "y = Relu (x, x, x)",
        "y = Relu ()",
        "y = Cast <to = 999> (x)",
        "y = Split <num_outputs = 0> (x)",
        "y = Split <num_outputs = 1000000000000> (x)",
        "y, z = Split <axis = -7> (x)",
        "y = Constant ()",
        "y = If (x)",
        "y = Reshape (x, )",
        "y = NoSuchOperator (x)",
    ],
)
def test_nodes_that_are_not_valid_pass_through(node: str) -> None:
    proto = parsed(f"(float[2,3] x) => (y) {{ {node} }}", opset=18)
    assert onnx.printer.to_text(round_trip(proto).graph.node[0]) == onnx.printer.to_text(proto.graph.node[0])


@pytest.mark.parametrize("equation", ["...1j,jk->...ik", "i...j.,jk->ik", "...\0j,jk->ik", b"\xff"])
@pytest.mark.parametrize("node", ["y = {}", "y = If (c) <then_branch = t () => (p) {{ p = {} }}>"])
def test_an_einsum_whose_equation_is_none_passes_through(node: str, equation: str | bytes) -> None:
    """ONNX's own inference would not end."""
    einsum = 'Einsum <equation = "ij,jk->ik"> (x, w)'
    proto = parsed(f"(float[2,3] x, float[3,4] w, bool c) => (y) {{ {node.format(einsum)} }}")
    (holder,) = proto.graph.node if proto.graph.node[0].op_type == "Einsum" else proto.graph.node[0].attribute[0].g.node
    holder.attribute[0].s = equation if isinstance(equation, bytes) else equation.encode()
    assert operators(optimized(proto).graph) == operators(proto.graph)


def test_a_tensor_whose_data_is_not_that_of_its_shape() -> None:
    """It is told when the data is needed: here a rule asks whether the weight is all zeros."""
    proto = parsed("(float[5] x) => (float[5] y) { y = Add (x, w) }")
    tensor = numpy_helper.from_array(np.ones(2, "f4"), "w")
    tensor.dims[0] = 5
    proto.graph.initializer.append(tensor)
    with pytest.raises(ModelError, match="the data of tensor 'w' cannot be read"):
        optimized(proto)


def with_sparse(indices: Any, values: Any = (1.0, 2.0), dims: Sequence[int] = (2, 2)) -> onnx.ModelProto:
    """A model that adds a sparse initializer."""
    proto = parsed("(float[2,2] x) => (float[2,2] y) { y = Add (x, w) }")
    proto.graph.sparse_initializer.append(sparse(indices, values, dims))
    return proto


def sparse(indices: Any, values: Any = (1.0, 2.0), dims: Sequence[int] = (2, 2)) -> onnx.SparseTensorProto:
    places = numpy_helper.from_array(np.asarray(indices, np.int64))
    return onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.asarray(values, np.float32), "w"), indices=places, dims=dims
    )


@pytest.mark.parametrize("indices", [[1, 2], [[0, 1], [1, 0]]])
def test_sparse_initializers_become_dense(indices: Any) -> None:
    (tensor,) = round_trip(with_sparse(indices)).graph.initializer
    assert numpy_helper.to_array(tensor).tolist() == [[0.0, 1.0], [2.0, 0.0]]


def test_sparse_initializers_of_branches_become_dense() -> None:
    proto = parsed("""(bool c, float[2,2] x) => (float[2,2] y) {
        y = If (c) <then_branch = t () => (float[2,2] p) { p = Add (x, w) },
                    else_branch = e () => (float[2,2] q) { q = Abs (x) }>
    }""")
    proto.graph.node[0].attribute[0].g.sparse_initializer.append(sparse([1, 2]))
    (tensor,) = round_trip(proto).graph.node[0].attribute[0].g.initializer
    assert numpy_helper.to_array(tensor).tolist() == [[0.0, 1.0], [2.0, 0.0]]


def test_sparse_constants_become_dense() -> None:
    proto = graph_of(
        helper.make_node("Constant", [], ["w"], sparse_value=sparse([1], [2.0], [2])),
        helper.make_node("Add", ["x", "w"], ["y"]),
    )
    (tensor,) = round_trip(proto).graph.initializer
    assert numpy_helper.to_array(tensor).tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("indices", "values", "dims"),
    [
        ([0, 9], (1.0, 2.0), (2, 2)),
        ([0, -1], (1.0, 2.0), (2, 2)),
        ([[0, 1], [5, 0]], (1.0, 2.0), (2, 2)),
        ([[0, 0, 0]], (1.0,), (2, 2)),
        ([0, 1], (1.0, 2.0, 3.0), (2, 2)),
        ([0, 1], (1.0,), (2, 2)),
        ([0, 1], (1.0, 2.0), (-2, 2)),
        ([0, 1], (1.0, 2.0), (2**40, 2**40)),
    ],
)
def test_a_sparse_initializer_that_is_not_well_formed(indices: Any, values: Any, dims: Sequence[int]) -> None:
    with pytest.raises(ModelError, match="sparse tensor 'w' is not well-formed"):
        optimized(with_sparse(indices, values, dims))


@pytest.mark.parametrize("number", [onnx.TensorProto.UNDEFINED, 127])
def test_a_weight_without_element_type(number: int) -> None:
    proto = parsed("(float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add (x, w) }")
    proto.graph.initializer[0].data_type = number
    with pytest.raises(ModelError, match="tensor 'w' has no element type"):
        optimized(proto)


def test_an_opset_that_is_newer_than_all_that_are_known() -> None:
    proto = parsed("(float[2] x) => (float[2] y) { y = Relu (x) }")
    proto.opset_import[0].version = 1000
    with pytest.raises(ModelError, match=r"opset 1000 is not known: .* install a newer one"):
        optimized(proto)


def test_an_opset_that_cannot_be() -> None:
    proto = parsed("(float[2] x) => (float[2] y) { y = Relu (x) }")
    proto.opset_import[0].version = 2**62
    with pytest.raises(ModelError, match=f"opset {2**62} of domain '' cannot be"):
        optimized(proto)


@pytest.mark.parametrize("body", ["b = Add (a, nowhere)", "b = Relu (c) c = Abs (a)"])
def test_a_function_that_uses_what_is_not_made(body: str) -> None:
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x) => (float[2] y) {{ y = local.f (x) }}
        <domain: "local", opset_import: ["" : 17]> f (a) => (b) {{ {body} }}
    """)
    with pytest.raises(
        ModelError, match="local function 'f' of domain 'local' uses a value that no earlier node computes"
    ):
        optimized(model)


def test_dimensions_that_no_memory_holds() -> None:
    """Rules make no vectors of their length, and their sums are no dimension."""
    proto = parsed(f"""(float[2,{2**62},4,4] x) => (float[2,{2**62},1,1] y, z) {{
        y = ReduceMean <axes = [2, 3]> (x)
        d = Sub (x, y) q = Mul (d, d) v = ReduceMean <axes = [2, 3]> (q) r = Sqrt (v) n = Div (d, r)
        two = Concat <axis = 1> (n, n) z = Det (two)
    }}""")
    assert operators(optimized(proto).graph)["Det"] == 1


def test_a_body_that_is_not_well_formed_passes_through() -> None:
    """What its nodes use is the model's own matter: here one uses what it makes."""
    proto = parsed("""(bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] p) { p = Add (x, p) },
                    else_branch = e () => (float[2] q) { q = Abs (x) }>
    }""")
    done = run(from_bytes(proto.SerializeToString()))
    (node,) = onnx.load_from_string(to_bytes(done.after)).graph.node
    assert [list(each.g.node[0].input) for each in node.attribute] == [["x", "p"], ["x"]]


def test_integers_beyond_64_bits_are_not_written() -> None:
    with pytest.raises(ModelError, match="integers have 64 bits"):
        Target(17, {}, {}).integers([1, 2**63])


def test_a_branch_nested_deeply() -> None:
    """As deep as protobuf itself reads."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y0"])], "g0", [], [helper.make_tensor_value_info("y0", 1, [2])]
    )
    for depth in range(1, 30):
        node = (
            helper.make_node("If", ["c"], [f"y{depth}"], then_branch=graph, else_branch=graph)
            if depth < 6
            else (helper.make_node("If", ["c"], [f"y{depth}"], then_branch=graph))
        )
        graph = helper.make_graph([node], f"g{depth}", [], [helper.make_tensor_value_info(f"y{depth}", 1, [2])])
    graph.input.append(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2]))
    graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert operators(round_trip(proto).graph) == {"If": 1}


def seeds() -> list[bytes]:
    """Small models to mutate."""
    graphs = [
        "(float[N,3] x) => (float[N,3] y) <float[3] w = {1.0, 2.0, 3.0}> { a = Mul (x, w) y = Softmax <axis = 1> (a) }",
        """(float[2,3] x) => (float[3,2] y) <int64[2] s = {3, 2}> {
            a = Reshape (x, s) b = Transpose <perm = [1, 0]> (a) c = Concat <axis = 0> (b, b)
            d, e = Split (c) f = MatMul (a, e) y = Slice (f, s, s)
        }""",
        """(bool c, float[4] x) => (float[4] y) {
            y = If (c) <then_branch = t () => (float[4] p) { p = Relu (x) },
                        else_branch = e () => (float[4] q) { q = Abs (x) }>
        }""",
        """(float[1,2,8,8] x) => (float[1,2,4,4] y) {
            a = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1], mode = "constant", value = 0.0> (x)
            y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (a)
        }""",
    ]
    opsets = (17, 13, 17, 7)
    models = [parsed(graph, opset) for graph, opset in zip(graphs, opsets, strict=True)]
    return [model.SerializeToString() for model in (*models, conv_batch_norm(), chain(3))]


def mutant(data: bytes, random: Random) -> bytes:
    """``data`` with a few bytes changed, in place."""
    mutated = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(mutated))
        if random.random() < 0.5:
            mutated[at] = random.randrange(256)
        else:
            mutated[at] ^= 1 << random.randrange(8)
    return bytes(mutated)


NUMBERS = (-(2**40), -7, -1, 0, 1, 2, 3, 9, 2**40)


def distorted(data: bytes, random: Random) -> bytes:
    """A model that is one in form, with something else for an operator, input, attribute or dimension."""
    proto = onnx.load_from_string(data)
    nodes = proto.graph.node
    node = random.choice(nodes)
    way = random.randrange(5)
    if way == 0:
        node.op_type = random.choice([schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""])
    elif way == 1 and node.input:
        names = [name for each in nodes for name in (*each.input, *each.output)]
        node.input[random.randrange(len(node.input))] = random.choice([*names, "", "nowhere"])
    elif way == 2:
        node.input.append(random.choice(nodes).output[0])
    elif way == 3 and node.attribute:
        attribute = random.choice(node.attribute)
        attribute.i = random.choice(NUMBERS)
        attribute.ints[:] = [random.choice(NUMBERS) for _ in range(random.randrange(5))]
        attribute.type = random.choice((attribute.type, onnx.AttributeProto.INT, onnx.AttributeProto.INTS))
    else:
        shapes = [value.type.tensor_type.shape.dim for value in proto.graph.input]
        dims = random.choice([*shapes, *(tensor.dims for tensor in proto.graph.initializer)])
        if dims and hasattr(dims[0], "dim_value"):
            random.choice(dims).dim_value = random.choice(NUMBERS)
        elif dims:
            dims[random.randrange(len(dims))] = random.choice(NUMBERS)
    return bytes(proto.SerializeToString())


@pytest.mark.slow
@pytest.mark.parametrize(("change", "count"), [(mutant, 350), (distorted, 150)])
def test_mutated_models_are_optimized_or_refused(change: Callable[[bytes, Random], bytes], count: int) -> None:
    """Every mutant is refused with an error of ours, or comes out as a model that reads back."""
    random, sources = Random(0), seeds()
    rules = [sets["shape"], sets["fold"]]
    refused = 0
    for index in range(count):
        data = change(sources[index % len(sources)], random)
        try:
            from_bytes(to_bytes(run(from_bytes(data), rules).after))
        except EqsatError:
            refused += 1
    assert count * 0.1 < refused < count * 0.9, "mutants are of both kinds"
