"""Functions that are registered by name and that passes look up, such as ``relay.ext.<target>.optimize``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from eqsat.errors import ArgumentError

_FUNCTIONS: dict[str, Callable[..., Any]] = {}

_LATER: dict[str, str] = {}
"""The modules that register functions of these names, as long as they may not have been loaded."""


def register_later(module: str, *names: str) -> None:
    """Declare that a module registers functions of these names; it is loaded when one of them is first requested."""
    _LATER.update(dict.fromkeys(names, module))


def _load_what_registers(name: str) -> None:
    module = _LATER.pop(name, None)
    if module is not None:
        import_module(module)


def register_func(func_name: str, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register a function under a name, directly or as a decorator.

    Args:
        func_name: The name.
        f: The function; without it, a decorator is returned.
        override: Whether to replace a function that is already registered under the name.

    Raises:
        ArgumentError: The name is taken and ``override`` is false.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _load_what_registers(func_name)
        if func_name in _FUNCTIONS and not override:
            raise ArgumentError(f"a function is already registered as {func_name!r}: pass override=True to replace it")
        _FUNCTIONS[func_name] = function
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """Return the function that is registered under ``name``.

    If there is none, return None if ``allow_missing`` is true.

    Raises:
        ArgumentError: There is no such function, and ``allow_missing`` is false.
    """
    _load_what_registers(name)
    function = _FUNCTIONS.get(name)
    if function is None and not allow_missing:
        raise ArgumentError(f"no function is registered as {name!r}")
    return function


def remove_global_func(name: str) -> None:
    """Forget the function registered under ``name``, if there is one."""
    _load_what_registers(name)
    _FUNCTIONS.pop(name, None)


def functions_under(namespace: str) -> dict[str, Callable[..., Any]]:
    """The functions registered as ``<namespace>.<name>``, by ``<name>``."""
    for name in [*_LATER]:
        if name.rpartition(".")[0] == namespace:
            _load_what_registers(name)
    split = [(key.rpartition("."), function) for key, function in _FUNCTIONS.items()]
    return {name: function for (prefix, _, name), function in split if prefix == namespace}
