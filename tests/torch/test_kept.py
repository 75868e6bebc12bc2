"""What optimization keeps: names of outputs, weights, metadata, open sizes, and which operators a program has."""

from __future__ import annotations

import importlib.metadata
import io
import operator
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import eqsat.torch  # noqa: E402 - without torch there is nothing to import
from eqsat.pipeline.options import Options  # noqa: E402
from eqsat.torch import compiling  # noqa: E402
from eqsat.torch.graphs import rewrite  # noqa: E402
from eqsat.torch.rows import Dialect, overload, reader_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def export(module: Any, *inputs: Any, **options: Any) -> Any:
    with torch.no_grad():
        return torch.export.export(module.eval(), inputs, strict=False, **options)


def reloaded(program: Any) -> Any:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


class Outputs(torch.nn.Module):
    """Gives all kinds of outputs: nested, twice the same, views, inputs, numbers, none, and a buffer that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any, y: Any) -> Any:
        self.calls.add_(1)
        gate = self.gate(x)
        silu = gate * torch.sigmoid(gate)
        return {
            "first": silu,
            "nested": [silu + 0, (silu * 1, x.t())],
            "twice": (silu, silu),
            "given": y,
            "number": 3,
            "nothing": None,
            "constant": torch.ones(2, 2) * 2,
            "sum": (x - x).sum(),
        }


def test_every_name_of_an_output_is_kept() -> None:
    inputs = torch.randn(4, 4), torch.randn(2)
    module = Outputs()
    for program in (given := export(module, *inputs), given.run_decompositions()):
        optimized = eqsat.torch.optimize(program)
        loaded = reloaded(optimized)
        for found in (optimized, loaded):
            assert found.graph_signature.user_outputs == program.graph_signature.user_outputs
            assert list(found.graph_signature.buffers_to_mutate.values()) == ["calls"]
            assert found.call_spec.out_spec == program.call_spec.out_spec
            (output,) = [node for node in found.graph.nodes if node.op == "output"]
            names = [each.name if isinstance(each, torch.fx.Node) else each for each in output.args[0]]
            specs = found.graph_signature.output_specs
            assert names == [getattr(spec.arg, "value", spec.arg.name) for spec in specs]
            torch.testing.assert_close(found.module()(*inputs), program.module()(*inputs))


class Layered(torch.nn.Module):
    """A layer with weights, in a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = (
            torch.nn.LayerNorm(8),
            torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)),
        )

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        hidden = self.inner[0](self.norm(x))
        hidden = self.inner[1](hidden * torch.sigmoid(hidden))
        spread = hidden.unsqueeze(2).expand(x.shape[0], length, 2, 8)
        return spread.reshape(x.shape[0], 2 * length, 8)[:, :-1], x.var(-1, unbiased=False) * 1


def test_weights_are_shared() -> None:
    module, x = Layered().eval(), torch.randn(2, 3, 8)
    places = {name: value.data_ptr() for name, value in module.state_dict().items()}
    optimized = eqsat.torch.run(export(module, x), explain=False)
    assert {name: value.data_ptr() for name, value in optimized.program.state_dict.items()} == places
    assert all(value.numel() < 8 for value in optimized.stored.values())

    lowered = torch.fx.experimental.proxy_tensor.make_fx(module, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    eqsat.torch.graph_pass()(lowered)
    assert "aten.silu.default" in lowered.graph.python_code("self").src
    held = [operator.attrgetter(str(node.target))(lowered) for node in lowered.graph.find_nodes(op="get_attr")]
    assert {each.data_ptr() for each in held if each.numel() >= 8} == set(places.values())


def test_metadata_goes_to_what_takes_the_place_of_every_node() -> None:
    optimized = eqsat.torch.optimize(export(Layered(), torch.randn(2, 3, 8)))
    found = [node for node in optimized.graph.nodes if node.op == "call_function"]
    assert "aten.silu.default" in [str(node.target) for node in found]
    for node in found:
        assert "forward" in node.meta["stack_trace"], node
        assert node.meta["nn_module_stack"], node
        assert "val" in node.meta
    linear = [node for node in found if node.target is torch.ops.aten.linear.default]
    assert [next(reversed(node.meta["nn_module_stack"].values()))[0] for node in linear] == ["inner.0", "inner.1"]


@pytest.mark.parametrize("decomposed", [False, True])
def test_batch_and_length_stay_open_when_saved_and_loaded(decomposed: bool) -> None:
    module = Layered()
    batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=99)
    program = export(module, torch.randn(2, 3, 8), dynamic_shapes={"x": {0: batch, 1: length}})
    if decomposed:
        program = program.run_decompositions()
    found = eqsat.torch.run(program)
    assert found.opaque.keys() <= {"aten.slice.Tensor"}  # it counts from an end that is open
    loaded = reloaded(found.program)
    assert found.program.range_constraints == program.range_constraints
    assert [str(each) for each in loaded.range_constraints.values()] == [
        str(each) for each in program.range_constraints.values()
    ]
    targets = {str(node.target) for node in found.program.graph.nodes if node.op == "call_function"}
    assert decomposed != ("aten.linear.default" in targets)  # core operators stay core
    for shape in ((2, 3, 8), (7, 31, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(loaded.module()(x), module(x), rtol=1e-5, atol=1e-5)
    with pytest.raises((RuntimeError, AssertionError)):
        loaded.module()(torch.randn(65, 3, 8))


def test_marked_sizes_are_open_in_compiled_models() -> None:
    torch._dynamo.reset()
    module, graphs = Layered().eval(), []
    compiled = torch.compile(module, backend="eqsat", options={"then": "eager"}, fullgraph=True)
    with torch.no_grad():
        for shape in ((2, 3, 8), (5, 7, 8)):
            x = torch.randn(shape)
            torch._dynamo.mark_dynamic(x, 0)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)
            graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert graphs[0] == graphs[1]


def test_pytorch_finds_the_backend() -> None:
    (entry,) = importlib.metadata.entry_points(group="torch_dynamo_backends", name="eqsat")
    assert entry.load() is eqsat.torch.backend
    assert "eqsat" in torch._dynamo.list_backends()
    assert torch._dynamo.lookup_backend("eqsat") is eqsat.torch.backend


CORE = [
    "_log_softmax.default", "_softmax.default", "_to_copy.default", "abs.default", "add.Tensor", "addmm.default",
    "alias.default", "amax.default", "amin.default", "any.dim", "arange.start_step", "avg_pool2d.default",
    "bitwise_and.Tensor", "bitwise_not.default", "bmm.default", "cat.default", "clamp.default", "clone.default",
    "convolution.default", "cos.default", "cumsum.default", "div.Tensor", "embedding.default", "eq.Scalar", "eq.Tensor",
    "erf.default", "exp.default", "expand.default", "full.default", "full_like.default", "gather.default", "ge.Scalar",
    "ge.Tensor", "gelu.default", "gt.Scalar", "gt.Tensor", "index.Tensor", "index_select.default", "le.Scalar",
    "le.Tensor", "leaky_relu.default", "log.default", "logical_and.default", "logical_not.default",
    "logical_or.default", "lt.Scalar", "lt.Tensor", "max_pool2d_with_indices.default", "maximum.default", "mean.dim",
    "minimum.default", "mm.default", "mul.Scalar", "mul.Tensor", "native_group_norm.default",
    "native_layer_norm.default", "ne.Scalar", "neg.default", "permute.default", "pow.Tensor_Scalar",
    "pow.Tensor_Tensor", "relu.default", "repeat.default", "rsqrt.default", "scalar_tensor.default", "select.int",
    "sigmoid.default", "sin.default", "slice.Tensor", "split_with_sizes.default", "sqrt.default", "squeeze.dims",
    "sub.Tensor", "sum.dim_IntList", "tanh.default", "tril.default", "unsqueeze.default", "var.correction",
    "view.default", "where.self",
]  # fmt: skip
"""Operators that architectures consist of after ``run_decompositions()``."""


class Core(torch.nn.Module):
    """Calls operators of that kind that few models have."""

    def forward(self, x: Any, y: Any) -> Any:
        aten = torch.ops.aten
        image = x.reshape(1, 2, 3, 4)
        return (
            aten.abs(x), aten.amax(x, [1]), aten.amin(x, [-1], True), aten.any.dim(x > 0, 1), aten.clamp(x, -1, 1),
            aten.clamp(x, 0), aten.bitwise_not(x > 0), (x > 0) & (y > 0), aten.logical_or(x > 0, y > 0),
            aten.repeat(x, [2, 1, 1, 3]), aten.var.correction(x, [1, 2], correction=1), x.var(-1), x.std(0),
            torch.var_mean(x, -1, correction=0), aten.gather(x, 2, (y > 0).long()), torch.max(x, y), torch.min(x, y),
            aten.index_select(x, 1, torch.tensor([1, 0])), x.type_as(y.double()), torch.softmax(x, -1, torch.float64),
            aten.max_pool2d(image, [2, 2]), aten.avg_pool2d(image, [2, 2]), torch.full_like(x, 2) * x,
            aten.scalar_tensor(2.0) * x, x.pow(2), aten.pow.Tensor_Tensor(x.abs(), y), aten.cumsum(x, 1), x.tril(),
            aten.native_group_norm(image, torch.ones(2), torch.zeros(2), 1, 2, 12, 2, 1e-5)[0], x.select(1, 1),
            x.squeeze(0), image.squeeze(0), x.lt(0), x.le(y), x.ne(0), x.eq(y), x.sqrt().nan_to_num(0.0),
        )  # fmt: skip


def test_core_operators_are_in_the_table_both_ways() -> None:
    assert [name for name in CORE if reader_of(f"aten.{name}") is None] == []
    inputs = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    program = export(Core(), *inputs).run_decompositions()
    for rules in ([], None):
        found = eqsat.torch.run(program, rules)
        assert found.opaque.keys() <= {"aten._assert_tensor_metadata.default"}
        names = {
            str(node.target).removeprefix("aten.") for node in found.after.graph.nodes if node.op == "call_function"
        }
        if rules == []:
            assert names <= {
                *CORE,
                "<built-in function getitem>",
                "_assert_tensor_metadata.default",
                "isnan.default",
                "trunc.default",
            }
        for left, right in zip(program.module()(*inputs), found.program.module()(*inputs), strict=True):
            torch.testing.assert_close(left, right, equal_nan=True, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("without", [[], ["clamp"], ["clamp", "clamp_min", "clamp_max"]])
def test_what_a_graph_has_may_be_written_again(without: list[str]) -> None:
    def clamped(x: Any) -> Any:
        aten = torch.ops.aten
        return aten.clamp_max(aten.clamp_min(x, -1), 2), aten.clamp_max(x * torch.sigmoid(x), 1), aten.clamp_min(x, 0.5)

    traced = torch.fx.experimental.proxy_tensor.make_fx(clamped, tracing_mode="fake")(x := torch.randn(3, 4))
    dialect = Dialect(composite=False, without=frozenset(overload(f"aten.{name}.default") for name in without))
    found = rewrite(traced, Options(), dialect)
    targets = {str(node.target) for node in found.after.graph.nodes if node.op == "call_function"}
    assert ("aten.clamp.default" in targets) == (without == [])
    torch.testing.assert_close(found.after(x), clamped(x))


def test_layers_whose_operators_are_written_as_several_are_repeated() -> None:
    class Mixing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.shift, self.weight = (torch.nn.Parameter(torch.rand(8)) for _ in range(3))
            widths = (5, 5), (8, 16), (16, 8)
            self.tokens, self.up, self.down = (torch.nn.Linear(*width, bias=False) for width in widths)

        def forward(self, x: Any) -> Any:
            mixed = torch.addcmul(self.shift, self.weight, x).transpose(1, 2)
            x = x + self.scale * self.tokens(mixed).transpose(1, 2)
            hidden = torch.nn.functional.gelu(self.up(torch.addcmul(self.shift, self.weight, x)))
            return x + self.scale * self.down(hidden)

    module = torch.nn.Sequential(*[Mixing() for _ in range(12)]).eval()
    program = export(module, x := torch.randn(2, 5, 8)).run_decompositions()
    found = rewrite(program.graph_module, Options(), Dialect(composite=False, without=frozenset()))
    weights = [program.state_dict[name] for name in program.graph_signature.parameters]
    torch.testing.assert_close(found.after(*weights, x)[0], module(x), rtol=1e-4, atol=1e-4)


def test_equal_graphs_of_passes_are_optimized_once_and_the_time_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiling._KNOWN.clear()
    count = [0]

    def counted(*given: Any) -> Any:
        count[0] += 1
        return rewrite(*given)

    monkeypatch.setattr(compiling, "rewrite", counted)
    run = eqsat.torch.graph_pass()
    for width in (3, 3, 4):
        x = torch.randn(2, width)
        traced = torch.fx.experimental.proxy_tensor.make_fx(lambda x: x * torch.sigmoid(x), tracing_mode="fake")(x)
        with caplog.at_level("INFO", "eqsat.torch"):
            run(traced)
        torch.testing.assert_close(traced(x), torch.nn.functional.silu(x))
    assert count == [2]
    told = [re.sub(r"[0-9]+\.[0-9]+", "T", each.getMessage()) for each in caplog.records if "eqsat.torch" in each.name]
    made = "made 1 calls of 2 in T s; not understood: {}"
    assert told == [made, "an equal graph is known; T s", made]
