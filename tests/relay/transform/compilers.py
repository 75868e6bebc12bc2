"""External compilers for tests, and short ways to write modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import eqsat
from eqsat import relay
from eqsat.relay.op.annotation import compiler_begin, compiler_end

HEADER = '#[version = "0.0.5"]\n'


@contextmanager
def takes(target: str, *names: str, when: Callable[[Any], Any] = lambda call: True) -> Iterator[None]:
    """While entered, ``target`` takes the named operators of which ``when(call)`` holds."""
    with ExitStack() as entered:
        for name in names:
            entered.enter_context(patch.dict(relay.Op.get(name).attr_map, {f"target.{target}": when}))
        yield


def var(name: str, *shape: int, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def module(body: relay.Expr, *params: relay.Var) -> eqsat.IRModule:
    """A typed module whose main has the parameters, by default the free variables."""
    function = relay.Function(params or relay.analysis.free_vars(body), body)
    return relay.transform.InferType()(eqsat.IRModule({"main": function}))


def parse(text: str) -> eqsat.IRModule:
    """A typed module from its text without version line."""
    return relay.transform.InferType()(eqsat.parser.parse(HEADER + text))


def begin(value: relay.Expr, target: str = "t") -> Any:
    return compiler_begin(value, target)


def end(value: relay.Expr, target: str = "t") -> Any:
    return compiler_end(value, target)


def assert_same(actual: eqsat.IRModule, expected: eqsat.IRModule) -> None:
    """The modules are structurally equal; the message shows both texts when not."""
    same = eqsat.ir.structural_equal(actual, expected)
    assert same, f"{actual}\n--- expected ---\n{expected}"


def assert_same_values(
    before: eqsat.IRModule, after: eqsat.IRModule, lowest: float = 0.1, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Both modules' main computes the same from random inputs from ``lowest`` to 1, up to the tolerances."""
    rng = np.random.default_rng(0)
    types: list[Any] = [param.checked_type for param in before["main"].params]
    values = [rng.uniform(lowest, 1, ty.shape).astype(ty.dtype) for ty in types]
    results = [
        relay.interpreter.evaluate(
            mod, dict(zip([param.name_hint for param in mod["main"].params], values, strict=True))
        )
        for mod in (before, after)
    ]
    for expected, actual in zip(*map(_flat, results), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol, atol)


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, tuple) else [value]


def external(mod: eqsat.IRModule) -> list[str]:
    """Names of the functions for external compilers, sorted."""
    return sorted(name.name_hint for name, function in mod.functions.items() if "Compiler" in function.attrs)


def called_ops(function: relay.Function) -> list[str]:
    """Names of the operators called in a function, in post-order."""
    calls = [node for node in relay.visitor.post_order(function) if isinstance(node, relay.Call)]
    return [call.op.name for call in calls if isinstance(call.op, relay.Op)]


def functions_in(expr: relay.Expr) -> list[relay.Function]:
    """The function literals that are called in an expression, in the order of the calls."""
    calls = [node for node in relay.visitor.post_order(expr) if isinstance(node, relay.Call)]
    return [call.op for call in calls if isinstance(call.op, relay.Function)]
