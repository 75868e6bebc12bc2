"""Graph breaks, what is not understood, and rules that fail: models run, and one warning says what is the matter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import eqsat.torch  # noqa: E402 - without torch there is nothing to import
from eqsat.errors import ModelError, RuleError  # noqa: E402
from eqsat.torch import compiling  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    """Operators of others: one that PyTorch knows the type of, one that it does not, and one that writes."""
    with torch.library._scoped_library("eqsat_breaks", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CPU")
        torch.library.register_fake("eqsat_breaks::twice", lambda x: torch.empty_like(x), lib=library)
        library.define("untyped(Tensor x) -> Tensor")
        library.impl("untyped", lambda x: 2 * x, "CPU")
        library.define("write(Tensor(a!) x) -> ()")
        library.impl("write", lambda x: [x.mul_(2), None][1], "CPU")
        torch.library.register_fake("eqsat_breaks::write", lambda x: None, lib=library)
        yield


def warned(work: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What something gives, and what eqsat says meanwhile."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = work()
    return result, [str(each.message) for each in told if "eqsat" in str(each.message)]


def broken(x: Any) -> Any:
    y = x * torch.sigmoid(x)
    torch._dynamo.graph_break()
    return y * torch.sigmoid(y)


def printing(x: Any) -> Any:
    print("nothing is compiled before")
    return x * torch.sigmoid(x)


def branching(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x * torch.sigmoid(x)


def looking(x: Any) -> Any:
    return x * torch.sigmoid(x) * x.sum().item()


def finding(x: Any) -> Any:
    return torch.nonzero(x > 0) * 2 + 1


def untyped(x: Any) -> Any:
    return torch.ops.eqsat_breaks.untyped(x) * torch.sigmoid(x)


def twice_in_one_place(x: Any) -> Any:
    return broken(x * 2) + broken(x)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (broken, "Call to `torch._dynamo.graph_break()`"),
        (printing, "builtin print"),
        (branching, "a branch that depends on the elements of a tensor, which gt gives"),
        (looking, "item"),
        (finding, "aten.nonzero.default"),
        (untyped, "eqsat_breaks.untyped.default"),
        (twice_in_one_place, "Call to `torch._dynamo.graph_break()`"),
    ],
)
def test_one_warning_names_what_breaks_a_graph(function: Any, named: str) -> None:
    x = torch.randn(4, 4)
    compiled = torch.compile(function, backend="eqsat", options={"then": "eager"})
    with torch.no_grad():
        (first, second), told = warned(lambda: (compiled(x), compiled(x)))
    torch.testing.assert_close(first, function(x))
    torch.testing.assert_close(second, first)
    (text,) = told
    assert text.startswith(
        "eqsat leaves what breaks a graph as it is, and optimizes what is before and after it alone: "
    )
    assert named in text
    assert "test_breaks.py:" in text


def breaking_in_a_loop(x: Any) -> Any:
    for _ in range(2):
        x = x * torch.sigmoid(x)
        torch._dynamo.graph_break()
    return x


def branching_in_a_loop(x: Any) -> Any:
    for _ in range(2):
        if x.sum() > 0:
            x = x * torch.sigmoid(x)
    return x


def with_sparse_tensors(x: Any) -> Any:
    return x.to_sparse().to_dense() * 2


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (breaking_in_a_loop, "Call to `torch._dynamo.graph_break()`"),
        (branching_in_a_loop, "Data-dependent branching"),
        (with_sparse_tensors, "Attempted to wrap sparse Tensor"),
    ],
)
def test_one_warning_tells_of_a_function_that_is_not_compiled_at_all(function: Any, named: str) -> None:
    x = torch.rand(4, 4)
    compiled = torch.compile(function, backend="eqsat", options={"then": "eager"})
    with torch.no_grad():
        (first, second), told = warned(lambda: (compiled(x), compiled(x)))
    torch.testing.assert_close(first, function(x))
    torch.testing.assert_close(second, first)
    (text,) = told
    assert text.startswith("eqsat leaves a function as it is, which PyTorch does not compile: ")
    assert named in text
    assert "test_breaks.py:" in text


def test_functions_of_other_backends_and_errors_that_are_raised_are_not_told_of() -> None:
    x = torch.rand(4, 4)
    with torch.no_grad():
        _, told = warned(lambda: torch.compile(breaking_in_a_loop, backend="aot_eager")(x))
        assert told == []
        with warnings.catch_warnings(action="error"), pytest.raises(torch._dynamo.exc.Unsupported):
            torch.compile(branching_in_a_loop, backend="eqsat", fullgraph=True)(x)


def spectrum(x: Any) -> Any:
    return torch.view_as_real(torch.fft.fft(x * torch.sigmoid(x))) * 2


def sparse(x: Any) -> Any:
    return torch.sparse.mm(x.to_sparse(), x) * torch.sigmoid(x)


def chosen(x: Any) -> Any:
    return x[x > 0] * torch.sigmoid(x[x > 0])


def custom(x: Any) -> Any:
    return torch.ops.eqsat_breaks.twice(x) * torch.sigmoid(x)


def written(x: Any) -> Any:
    y = x * torch.sigmoid(x)
    before = y + 1
    torch.ops.eqsat_breaks.write(y)
    return y * before


def short(x: Any) -> Any:
    return x.to(torch.float8_e4m3fn).float() * torch.sigmoid(x)


class Module(torch.nn.Module):
    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize("function", [spectrum, sparse, finding, chosen, custom, written, short, looking])
def test_what_is_not_understood_stays_in_place(function: Any) -> None:
    x = torch.rand(4, 4) + 0.1
    expected = function(x.clone())
    program = torch.export.export(Module(function), (x.clone(),), strict=False)
    found, told = warned(lambda: eqsat.torch.run(program))
    torch.testing.assert_close(found.program.module()(x.clone()), expected)
    traced = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(x.clone())
    passed, more = warned(lambda: eqsat.torch.graph_pass()(traced))
    torch.testing.assert_close(passed(x.clone()), expected)
    assert told == more == []


def test_programs_that_cannot_be_optimized_are_refused_as_graphs_are() -> None:
    def moved(x: Any) -> Any:
        return torch.sigmoid(x).to("meta") * 2

    said = r"of aten\.(_to_copy\.default|to\.\w+), is on meta, and earlier values are on cpu"
    x = torch.randn(3)
    with pytest.warns(UserWarning, match=f"eqsat leaves a graph as it is: .*{said}"):
        assert torch.compile(moved, backend="eqsat", options={"then": "eager"})(x).device.type == "meta"
    with pytest.raises(ModelError, match=said):
        eqsat.torch.optimize(torch.export.export(Module(moved), (x,), strict=False))
    traced = torch.fx.experimental.proxy_tensor.make_fx(moved, tracing_mode="fake")(x)
    before = str(traced.graph)
    compiling._tell.cache_clear()
    with pytest.warns(UserWarning, match=f"eqsat leaves a graph as it is: .*{said}"):
        eqsat.torch.graph_pass()(traced)
    assert str(traced.graph) == before


def test_training_is_told_of_once() -> None:
    weight = torch.ones(3, requires_grad=True)
    function = lambda x: torch.sigmoid(x * weight)  # noqa: E731
    compiled = torch.compile(function, backend="eqsat", options={"then": "eager"})
    results, told = warned(lambda: [compiled(torch.ones(size, 3)) for size in (1, 2, 3)])
    sum(each.sum() for each in results).backward()
    assert weight.grad is not None
    (text,) = told
    assert text.startswith("eqsat leaves graphs of training as they are")


def fails(*given: Any) -> Any:
    raise ValueError("no")


def failing_rules() -> list[Any]:
    """Rules whose guard fails, and whose replacement does."""
    (x,) = eqsat.rules.variables("x")
    guard = eqsat.rules.when(fails, eqsat.rules.type_of(x))
    return [eqsat.rules.rewrite("broken-rule", eqsat.relay.tanh(x), eqsat.relay.sinh(x), guard)]


def test_a_rule_that_fails_is_named_and_leaves_graphs_as_they_were() -> None:
    rules, x = failing_rules(), torch.randn(2, 3)
    said = r"[\s\S]*broken-rule[\s\S]*no"
    function = lambda x: torch.tanh(x) * torch.sigmoid(x)  # noqa: E731

    program = torch.export.export(Module(function), (x,), strict=False)
    before = str(program.graph), str(program.graph_signature)
    with pytest.raises(RuleError, match=said):
        eqsat.torch.optimize(program, rules)
    assert (str(program.graph), str(program.graph_signature)) == before

    traced = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(x)
    for given in (traced, traced.graph):  # modules, and graphs as Inductor gives them
        before_pass, code = str(traced.graph), traced.code
        compiling._tell.cache_clear()
        with pytest.warns(UserWarning, match=f"eqsat leaves a graph as it is: {said}"):
            assert eqsat.torch.graph_pass(rules)(given) is given
        assert (str(traced.graph), traced.code) == (before_pass, code)
    torch.testing.assert_close(traced(x), function(x))

    compiling._tell.cache_clear()
    ran: list[Any] = []
    compiled = torch.compile(function, backend="eqsat", options={"then": "eager", "rules": rules})
    with pytest.warns(UserWarning, match=f"eqsat leaves a graph as it is: {said}"):
        ran.append(compiled(x))
    torch.testing.assert_close(ran[0], function(x), rtol=0, atol=0)
