"""``torch.compile`` with the backend of eqsat, passes over fx graphs, and rules of two functions."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import eqsat.torch  # noqa: E402 - without torch there is nothing to import
from eqsat.errors import RuleError  # noqa: E402
from eqsat.rules import default  # noqa: E402
from eqsat.torch import compiling  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Counter[str]]:
    """The operators of every graph that is optimized."""
    import eqsat.torch.graphs

    found: list[Counter[str]] = []
    run = eqsat.torch.graphs._Rewriting.run

    def noted(self: Any) -> Any:
        result = run(self)
        found.append(Counter(str(node.target) for node in result.after.graph.nodes if node.op == "call_function"))
        return result

    monkeypatch.setattr(eqsat.torch.graphs._Rewriting, "run", noted)
    return found


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        hidden = self.first(x)
        return self.second(hidden * torch.sigmoid(hidden)) + x


@pytest.mark.parametrize("then", ["eager", "inductor"])
def test_models_are_optimized_and_compiled(then: str, seen: list[Counter[str]]) -> None:
    model = Model().eval()
    compiled = torch.compile(model, backend="eqsat", options={"then": then}, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for rows in (3, 5):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), model(x))
    assert len(seen) == 1  # sizes are open: it was compiled once
    assert seen[0]["aten.silu.default"] == (then == "eager")  # Inductor decomposes it
    assert seen[0]["aten.sigmoid.default"] == (then == "inductor")


class Block(torch.nn.Module):
    """A layer of a transformer, with a table of positions and a causal mask that it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.joined = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48)
        self.positions = torch.nn.Embedding(32, 16)
        self.drop, self.act = torch.nn.Dropout(0.1), torch.nn.ReLU(inplace=True)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        x = x + self.positions(torch.arange(length))
        parts = self.joined(self.norm(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in parts)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (query @ key.transpose(-1, -2) / 8**0.5).masked_fill(~mask, float("-inf"))
        found = (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
        return self.act(self.drop(x + found))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_become_operators_that_pytorch_has(dtype: Any, seen: list[Counter[str]]) -> None:
    model, x = Block().eval().to(dtype), torch.randn(2, 5, 16).to(dtype)
    compiled = torch.compile(model, backend="eqsat", options={"then": "eager"}, fullgraph=True)
    compiling._tell.cache_clear()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.testing.assert_close(compiled(x), model(x), rtol=2e-2, atol=2e-2 if dtype == torch.bfloat16 else 1e-5)
    assert seen[0]["aten.linear.default"] == seen[0]["aten.layer_norm.default"] == 1
    assert seen[0]["aten.scaled_dot_product_attention.default"] == (dtype == torch.float32)
    assert seen[0]["aten.arange.default"] == seen[0]["aten.tril.default"] == 0  # constants


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_inductor_takes_what_is_made_of_short_floats(dtype: Any, seen: list[Counter[str]]) -> None:
    class Counted(Block):
        def forward(self, x: Any) -> Any:
            found = super().forward(x)
            return found, (found > 0).cumsum(-1).to(torch.int32).to(torch.int64)

    model, given = Counted().eval().to(dtype), []
    compiled = torch.compile(model, backend="eqsat", fullgraph=True, dynamic=True)
    compiling._tell.cache_clear()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for batch, length in ((2, 5), (3, 9)):
            x = torch.randn(batch, length, 16).to(dtype)
            result, count = compiled(x)
            torch.testing.assert_close(result, model(x)[0], rtol=2e-2, atol=2e-2)
            assert result.dtype == dtype
            assert count.dtype == torch.int64
            given.append({each.dtype for each in model.parameters()})
    assert given == [{dtype}] * 2
    assert len(seen) == 1  # sizes are open


def test_batch_and_length_are_open(seen: list[Counter[str]]) -> None:
    model = Block().eval()
    compiled = torch.compile(model, backend="eqsat", options={"then": "eager"}, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 9), (7, 31)):
            x = torch.randn(batch, length, 16)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    assert len(seen) == 1
    assert seen[0]["aten.linear.default"] == 1


def test_equal_graphs_are_optimized_once(seen: list[Counter[str]]) -> None:
    with torch.no_grad():
        for then in ("eager", "eager", "inductor", "inductor"):
            torch._dynamo.reset()
            model, x = Model().eval(), torch.randn(3, 8)  # of other weights
            torch.testing.assert_close(torch.compile(model, backend="eqsat", options={"then": then})(x), model(x))
    assert len(seen) == 2


def test_what_is_written_to_stays_as_it_is_written() -> None:
    class Counting(Block):
        def forward(self, x: Any) -> Any:
            before = self.steps.clone()
            self.steps.add_(1)
            x[0].mul_(2)
            return super().forward(x), before + 1, self.steps * 2

    model, results = Counting().eval(), []
    compiled = torch.compile(model, backend="eqsat", options={"then": "eager"}, fullgraph=True)
    with torch.no_grad():
        for run in (model, compiled):
            model.steps.zero_()
            x = torch.ones(2, 5, 16)
            results.append([run(x), run(x), x, model.steps.clone()])
    torch.testing.assert_close(*results)


def test_graph_breaks_leave_models_running(seen: list[Counter[str]]) -> None:
    def broken(x: Any) -> Any:
        x = x * torch.sigmoid(x)
        torch._dynamo.graph_break()
        return x * torch.sigmoid(x)

    x = torch.randn(4)
    compiled = torch.compile(broken, backend="eqsat", options={"then": "eager"})
    torch.testing.assert_close(compiled(x), broken(x))
    assert [each["aten.silu.default"] for each in seen] in ([1, 1], [1])  # the second part is equal to the first


def test_passes_keep_the_order_of_writes() -> None:
    def copied(x: Any) -> Any:
        before = x.clone()
        x.add_(1)
        return before * torch.sigmoid(before) + x

    def shared(x: Any) -> Any:
        view = x.view(-1).contiguous().view(2, 3)
        x.add_(1)
        return view * 2

    optimize = eqsat.torch.graph_pass()
    for function in (copied, shared):
        traced = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(torch.ones(2, 3))
        optimize(traced)
        x = torch.randn(2, 3)
        y = x.clone()
        torch.testing.assert_close(traced(x), function(y))
        torch.testing.assert_close(x, y)


def test_graphs_of_several_devices_are_left_as_they_are() -> None:
    def moved(x: Any) -> Any:
        return torch.sigmoid(x).to("meta") * 2

    with pytest.warns(UserWarning, match=r"aten\._?to.*is on meta, and earlier values are on cpu"):
        result = torch.compile(moved, backend="eqsat", options={"then": "eager"})(torch.randn(3))
    assert result.device.type == "meta"


def test_graphs_of_training_are_left_as_they_are(seen: list[Counter[str]]) -> None:
    model = Model()
    compiled = torch.compile(model, backend="eqsat", options={"then": "eager"})
    compiling._tell.cache_clear()
    with pytest.warns(UserWarning, match="eqsat leaves graphs of training as they are"):
        compiled(torch.randn(2, 8)).sum().backward()
    assert seen == []
    assert model.first.weight.grad is not None


def test_options_are_checked() -> None:
    for options, said in (({"rule": default}, "no option 'rule'"), ({"then": "gpu"}, "then is 'inductor' or 'eager'")):
        with pytest.raises(Exception, match=said):
            torch.compile(Model(), backend="eqsat", options=options)(torch.randn(2, 8))


def swap(x: Any, y: Any) -> Any:
    return torch.tanh(x) * torch.tanh(y)


def test_a_rule_of_two_functions_fires(seen: list[Counter[str]]) -> None:
    examples = [torch.randn(2, 3), torch.randn(2, 3)]
    merged = eqsat.torch.rule("tanh-of-sum", swap, lambda x, y: torch.tanh(x + y), examples)
    compiled = torch.compile(lambda a, b: swap(a, b) + 1, backend="eqsat", options={"then": "eager", "rules": [merged]})
    a, b = torch.randn(4, 5), torch.randn(4, 5)
    torch.testing.assert_close(compiled(a, b), torch.tanh(a + b) + 1)
    assert seen[0] == {"aten.add.Tensor": 2, "aten.tanh.default": 1}


def test_a_rule_finds_what_is_spelled_otherwise() -> None:
    examples = [torch.randn(2, 4), torch.randn(2, 4)]
    with torch.library._scoped_library("eqsat_pass", "FRAGMENT") as library:
        library.define("silu_mul(Tensor x, Tensor y) -> Tensor")
        library.impl("silu_mul", lambda x, y: torch.nn.functional.silu(x) * y, "CPU")
        torch.library.register_fake("eqsat_pass::silu_mul", lambda x, y: torch.empty_like(x), lib=library)
        fused = torch.ops.eqsat_pass.silu_mul
        found = eqsat.torch.rule("silu-mul", lambda x, y: torch.nn.functional.silu(x) * y, fused.default, examples)
        spellings = (
            lambda x, y: torch.nn.functional.silu(x) * y,
            lambda x, y: y * (x * torch.sigmoid(x)),
            lambda x, y: (x * y) * torch.sigmoid(x),
            lambda x, y: (x / (1 + torch.exp(-x))) * y,
        )
        a, b, c = eqsat.rules.variables("a b c")
        regroup = eqsat.rules.rewrite("regroup", (a * b) * c, (a * c) * b, soundness=eqsat.rules.Soundness.ROUNDING)
        optimize = eqsat.torch.graph_pass([default, found, regroup])
        matched = []
        for spelling in spellings:
            inputs = torch.randn(3, 4), torch.randn(3, 4)
            traced = torch.fx.experimental.proxy_tensor.make_fx(spelling, tracing_mode="fake")(*inputs)
            assert optimize(traced) is traced
            torch.testing.assert_close(traced(*inputs), spelling(*inputs))
            matched.append([str(n.target) for n in traced.graph.nodes if n.op == "call_function"])
        assert matched == [["eqsat_pass.silu_mul.default"]] * 4


def test_a_kernel_takes_the_place_of_what_is_written_out_in_models(seen: list[Counter[str]]) -> None:
    with torch.library._scoped_library("eqsat_kernel", "FRAGMENT") as library:
        library.define("twice_tanh(Tensor x) -> Tensor")
        library.impl("twice_tanh", lambda x: 2 * torch.tanh(x), "CPU")
        torch.library.register_fake("eqsat_kernel::twice_tanh", lambda x: torch.empty_like(x), lib=library)
        kernel = torch.ops.eqsat_kernel.twice_tanh.default
        use = eqsat.torch.rule("use-kernel", lambda x: torch.tanh(x) * 2, kernel, [torch.randn(2)])
        options = {"then": "eager", "rules": [default, use]}
        compiled = torch.compile(lambda x: 2 * x.t().tanh(), backend="eqsat", options=options, dynamic=True)
        for rows in (3, 5):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), 2 * x.t().tanh())
    assert len(seen) == 1
    assert seen[0]["eqsat_kernel.twice_tanh.default"] == 1


def test_bad_rules_are_refused_or_told() -> None:
    with pytest.raises(RuleError, match=r"rule 'two': <lambda> does not return exactly one tensor"):
        eqsat.torch.rule("two", lambda x: (x, x), lambda x: x, [torch.randn(2)])
    with pytest.raises(RuleError, match=r"rule 'broken': <lambda> cannot be traced"):
        eqsat.torch.rule("broken", lambda x: x.no_such_thing(), lambda x: x, [torch.randn(2)])

    def fails(x: Any) -> Any:
        raise ValueError("no")

    (x,) = eqsat.rules.variables("x")
    guard = eqsat.rules.when(fails, eqsat.rules.type_of(x))
    broken = eqsat.rules.rewrite("broken-rule", eqsat.relay.tanh(x), eqsat.relay.sinh(x), guard)
    compiled = torch.compile(torch.tanh, backend="eqsat", options={"then": "eager", "rules": [broken]})
    with pytest.warns(UserWarning, match=r"eqsat leaves a graph as it is: .*broken-rule"):
        compiled(torch.randn(3))
