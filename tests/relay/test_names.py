"""``eqsat.relay`` and its packages of operators show the names that users are meant to have, and no others."""

from __future__ import annotations

import builtins
from types import ModuleType
from typing import Any

import pytest

from eqsat import relay
from eqsat.relay.op import dyn, image, nn, qnn, random, vision

PACKAGES = {
    "adt", "analysis", "annotation", "build_module", "dataflow_pattern", "expr", "expr_functor", "frontend", "function",
    "image", "interpreter", "loops", "nn", "op", "prelude", "qnn", "random", "scope_builder", "testing", "transform",
    "ty", "vision",
}  # fmt: skip


def starred(module: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(f"from {module} import *", names)
    del names["__builtins__"]
    return names


def test_a_star_import_gives_what_is_listed() -> None:
    assert sorted(starred("eqsat.relay")) == sorted(relay.__all__)
    assert len(set(relay.__all__)) == len(relay.__all__)


def test_a_star_import_leaves_the_builtins_alone() -> None:
    assert not set(starred("eqsat.relay")) & set(vars(builtins))


@pytest.mark.parametrize("name", ["abs", "all", "any", "max", "min", "round", "sum"])
def test_operators_named_as_builtins_are_attributes(name: str) -> None:
    assert getattr(relay, name) is getattr(relay.op, name)
    assert name in dir(relay)


def test_of_modules_only_packages_for_users_are_shown() -> None:
    assert {name for name in dir(relay) if isinstance(getattr(relay, name), ModuleType)} == PACKAGES


def test_nothing_shown_is_a_helper() -> None:
    """What is shown is a class of the IR, or builds calls, or is one of a few functions of the IR itself."""
    functions = {"bind", "const", "create_executor", "fromtext", "parse", "parse_expr", "scalar_type", "var", "viz"}
    others = set(dir(relay)) - PACKAGES - functions - set(relay.op.__all__)
    assert {name for name in others if not isinstance(getattr(relay, name), type)} == set()
    assert all(callable(getattr(relay, name)) for name in functions)


@pytest.mark.parametrize("package", [relay.op, nn, image, dyn, qnn, random, vision], ids=lambda module: module.__name__)
def test_packages_of_operators_list_operators(package: ModuleType) -> None:
    listed = set(package.__all__) - PACKAGES
    assert all(callable(getattr(package, name)) and not isinstance(getattr(package, name), type) for name in listed)
    assert set(starred(package.__name__)) == set(package.__all__)
    assert not {"define", "Field", "either", "register_op_attr", "get"} & listed
