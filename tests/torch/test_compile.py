"""``torch.compile`` with the backend of eqsat, passes over fx graphs, and rules of two functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import eqsat.torch  # noqa: E402 - without torch there is nothing to import
from eqsat.errors import RuleError  # noqa: E402
from eqsat.rules import default  # noqa: E402
from eqsat.torch import compiling  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


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
        regroup = eqsat.rules.rewrite("regroup", (a * b) * c, (a * c) * b, soundness=found.soundness)
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
    with pytest.raises(RuleError, match=r"rule 'two': <lambda> gives something else than one tensor"):
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
