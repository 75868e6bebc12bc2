"""Exported programs: optimized, they compute the same, and all that is said of them is kept."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import eqsat.torch  # noqa: E402 - without torch there is nothing to import
from eqsat.errors import ModelError, RuleError  # noqa: E402
from eqsat.rules import rewrite, type_of, variables, when  # noqa: E402
from eqsat.torch.direct import with_direct_calls  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Gated(torch.nn.Module):
    """A normalized gated layer, all of it spelled out."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.up, self.gate = torch.nn.Linear(width, 2 * width), torch.nn.Linear(width, 2 * width, bias=False)
        self.down = torch.nn.Linear(2 * width, width)
        self.weight = torch.nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Any) -> Any:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        gate = self.gate(normed)
        return x + self.down(gate * torch.sigmoid(gate) * self.up(normed)), normed


def export(module: Any, *inputs: Any, **options: Any) -> Any:
    with torch.no_grad():
        return torch.export.export(module.eval(), inputs, strict=False, **options)


def calls(program: Any) -> Counter[str]:
    return Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")


def check_equal(left: Any, right: Any, tolerance: float = 1e-5) -> None:
    for a, b in zip(torch.utils._pytree.tree_leaves(left), torch.utils._pytree.tree_leaves(right), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_what_is_spelled_out_becomes_operators_of_pytorch() -> None:
    program = export(Gated(), x := torch.randn(3, 8))
    found = eqsat.torch.run(program)
    after = calls(found.program)
    assert after["aten.silu.default"] == after["aten.rms_norm.default"] == 1
    assert after["aten.linear.default"] == 3
    assert after.total() < calls(program).total()
    assert found.opaque == {}
    assert found.cost < found.input_cost
    check_equal(program.module()(x), found.program.module()(x))


def test_parameters_are_shared_and_signatures_kept() -> None:
    module = Gated()
    program = export(module, x := torch.randn(3, 8))
    optimized = eqsat.torch.optimize(program)
    for name, value in program.state_dict.items():
        assert optimized.state_dict[name] is value
    assert (
        optimized.graph_signature.to_dict() == program.graph_signature.to_dict()
        if hasattr(program.graph_signature, "to_dict")
        else str(optimized.graph_signature) == str(program.graph_signature)
    )
    buffer = io.BytesIO()
    torch.export.save(optimized, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    assert calls(loaded) == calls(optimized)
    check_equal(module(x), loaded.module()(x))


def test_core_operators_stay_core() -> None:
    program = export(Gated(), x := torch.randn(3, 8)).run_decompositions()
    optimized = eqsat.torch.optimize(program)
    assert calls(optimized)["aten.addmm.default"] == 2
    assert not any(name.startswith(("aten.linear", "aten.rms_norm")) for name in calls(optimized))
    check_equal(program.module()(x), optimized.module()(x))


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.joined = torch.nn.Linear(16, 48)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        parts = self.joined(x).split(16, dim=-1)
        query, key, value = (part.reshape(batch, length, 4, 4).transpose(1, 2) for part in parts)
        scores = torch.softmax(query @ key.transpose(-1, -2) * 0.5, dim=-1)
        return (scores @ value).transpose(1, 2).reshape(batch, length, 16)


def test_open_sizes_stay_open() -> None:
    batch, length = torch.export.Dim("batch", min=2, max=9), torch.export.Dim("length", min=2, max=99)
    program = export(Attention(), torch.randn(2, 5, 16), dynamic_shapes={"x": {0: batch, 1: length}})
    optimized = eqsat.torch.optimize(program)
    assert calls(optimized)["aten.scaled_dot_product_attention.default"] == 1
    assert optimized.range_constraints == program.range_constraints
    for shape in ((2, 5, 16), (7, 31, 16)):
        x = torch.randn(shape)
        check_equal(program.module()(x), optimized.module()(x))
    with pytest.raises((RuntimeError, AssertionError)):
        optimized.module()(torch.randn(12, 5, 16))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_floats_stay_short(dtype: Any) -> None:
    program = export(Gated().to(dtype), x := torch.randn(3, 8).to(dtype))
    optimized = eqsat.torch.optimize(program)
    assert {value.dtype for value in optimized.state_dict.values()} == {dtype}
    check_equal(program.module()(x), optimized.module()(x), 3e-2)


def test_effects_stay_in_place() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            first, second = torch.rand_like(x), torch.rand_like(x)
            return x * torch.sigmoid(x) + first - second, self.count * 2

    program = export(Counting(), x := torch.randn(2, 3))
    optimized = eqsat.torch.optimize(program)
    assert calls(optimized)["aten.rand_like.default"] == 2
    results = []
    for module in (program.module(), optimized.module()):
        module.count.zero_()
        torch.manual_seed(1)
        results.append([module(x), module(x), module.count.clone()])
    check_equal(*results)


def test_results_have_memory_of_their_own() -> None:
    class Same(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 0, x * 1, x.transpose(0, 1).contiguous(), x.view(-1)

    optimized = eqsat.torch.optimize(export(Same(), x := torch.arange(6.0).reshape(2, 3)))
    results = optimized.module()(x)
    assert len({each.data_ptr() for each in results[:3]} | {x.data_ptr()}) == 4
    assert results[3].data_ptr() == x.data_ptr()
    assert results[2].is_contiguous()


def test_operators_of_others_pass_through() -> None:
    with torch.library._scoped_library("eqsat_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CPU")
        torch.library.register_fake("eqsat_test::twice", lambda x: torch.empty_like(x), lib=library)

        class Custom(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return torch.ops.eqsat_test.twice(x) + torch.ops.eqsat_test.twice(x)

        program = export(Custom(), x := torch.randn(3))
        found = eqsat.torch.run(program)
        assert calls(found.program)["eqsat_test.twice.default"] == 1  # pure, so that equal calls are one
        assert list(found.opaque) == ["eqsat_test.twice.default"]
        check_equal(program.module()(x), found.program.module()(x))


def test_one_operator_over_operands_of_several_sizes() -> None:
    class Sorted(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.cumsum(x, 0) + 1, torch.cumsum(y, 0) + 2

    program = export(Sorted(), *(inputs := (torch.randn(2, 3), torch.randn(4, 5, 6))))
    optimized = eqsat.torch.optimize(program)
    shapes = [tuple(node.meta["val"].shape) for node in optimized.graph.nodes if "cumsum" in str(node.target)]
    assert shapes == [(2, 3), (4, 5, 6)]
    check_equal(program.module()(*inputs), optimized.module()(*inputs))


def test_metadata_goes_to_what_takes_the_place_of_nodes() -> None:
    optimized = eqsat.torch.optimize(export(Gated(), torch.randn(3, 8)))
    for node in optimized.graph.nodes:
        if node.op == "call_function":
            assert "forward" in node.meta["stack_trace"], node
            assert "val" in node.meta


def test_explanations_name_lines() -> None:
    found = eqsat.torch.run(export(Gated(), torch.randn(3, 8)), explain=True)
    text = "\n".join(map(str, found.explanations))
    assert "test_exported.py" in text
    assert "in forward" in text


def test_bad_input_is_refused() -> None:
    with pytest.raises(ModelError, match=r"pass the result of torch\.export\.export, not Gated"):
        eqsat.torch.optimize(Gated())

    def fails(ty: Any) -> Any:
        raise ValueError("no")

    (x,) = variables("x")
    broken = rewrite("broken-rule", eqsat.relay.sigmoid(x), eqsat.relay.tanh(x), when(fails, type_of(x)))
    with pytest.raises(RuleError, match="broken-rule"):
        eqsat.torch.optimize(export(Gated(), torch.randn(3, 8)), [broken])


OPERATORS = [
    lambda x, y: (x + y, x - 2, 2 - x, x * 0.5, x / y, 1 / x, x**2, 2**x, x.reciprocal(), x // 2, x % 3),
    lambda x, y: (x < y, x >= 1, x == y, (x > 0) & (y < 0), torch.where(x > 0, x, y), torch.where(x > 0, x, 0.5)),
    lambda x, y: (x.abs(), x.exp(), x.tanh(), x.sigmoid(), torch.rsqrt(x.abs() + 1), x.erf(), -x, x.sin()),
    lambda x, y: [torch.nn.functional.gelu(x), torch.nn.functional.gelu(x, approximate="tanh")],
    lambda x, y: (torch.nn.functional.silu(x), torch.nn.functional.leaky_relu(x), torch.nn.functional.hardsigmoid(x)),
    lambda x, y: (
        x.mean(-1),
        x.sum((0, 1), keepdim=True),
        x.amax(1),
        (x > 0).any(1),
        x.softmax(-1),
        torch.log_softmax(x, 0),
    ),
    lambda x, y: (x.reshape(6, 4), x.permute(2, 0, 1), x.transpose(0, 2), x.unsqueeze(1), x[:, 1:, ::2], x[:, -1]),
    lambda x, y: (
        torch.cat([x, y], 1),
        torch.stack([x, y], -1),
        x.expand(5, 2, 3, 4),
        x.split(2, dim=2)[1],
        x.to(torch.float64),
    ),
    lambda x, y: (
        torch.baddbmm(x[:, :, :3], x, y.transpose(1, 2)),
        torch.baddbmm(x[:, :, :3], x, y.transpose(1, 2), beta=2, alpha=0.5),
        torch.addmm(x[0, :, :3], x[0], y[0].t(), alpha=0.5),
        torch.addcmul(x, x, y, value=0.5),
        x.chunk(2, -1)[1],
        y.unbind(1)[2],
        x.cumsum(1),
        (x > 0).cumsum(-1),
    ),
    lambda x, y: (
        x + torch.arange(4),
        x[torch.arange(2)[:, None], torch.arange(3)],
        torch.diff(y, dim=1),
        y.tril(1),
        x.new_ones(3),
        torch.zeros_like(x) + y,
        torch.nn.functional.group_norm(x, 3, torch.ones(3), torch.zeros(3)),
        torch.nn.functional.layer_norm(x, (4,), torch.ones(4), torch.zeros(4)),
    ),
    lambda x, y: (x @ y.transpose(1, 2), torch.bmm(x, y.transpose(1, 2)), x[0] @ y[0].t(), torch.full((2, 3), 2.0)),
]


@pytest.mark.parametrize("decomposed", [False, True])
def test_operators_are_read_and_written(decomposed: bool) -> None:
    class All(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return [function(x, y) for function in OPERATORS]

    inputs = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    program = export(All(), *inputs)
    if decomposed:
        program = program.run_decompositions()
    found = eqsat.torch.run(program)
    check_equal(program.module()(*inputs), found.program.module()(*inputs))
    check_equal(program.module()(*inputs), with_direct_calls(found.program.module())(*inputs))
    plain = eqsat.torch.run(program, rules=[])
    check_equal(program.module()(*inputs), plain.program.module()(*inputs))
    assert found.opaque.keys() <= {
        "aten.floor_divide.default",
        "aten.div.Tensor_mode",
        "aten._assert_tensor_metadata.default",
    }


@pytest.mark.parametrize("decomposed", [False, True])
def test_images(decomposed: bool) -> None:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, stride=2),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, groups=8, bias=False),
        torch.nn.MaxPool2d(2, 2),
        torch.nn.GroupNorm(2, 8),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    )
    program = export(module, x := torch.randn(2, 3, 16, 16))
    if decomposed:
        program = program.run_decompositions()
    optimized = eqsat.torch.optimize(program)
    assert calls(optimized).total() <= calls(program).total()
    check_equal(module(x), optimized.module()(x))
