"""Functions that are registered by name, under the names of ``tvm._ffi``."""

from __future__ import annotations

import sys

from eqsat.registry import functions_under, get_global_func, register_func

__all__ = ["get_global_func", "register_func"]


def _init_api(namespace: str, target_module_name: str | None = None) -> None:
    """Set what is registered as ``<namespace>.<name>`` in a module that is loaded, each as ``<name>``.

    Args:
        namespace: The prefix of the registered names.
        target_module_name: The module; by default that of the namespace's name.
    """
    module = sys.modules[target_module_name or namespace]
    for name, function in functions_under(namespace.removeprefix("tvm.")).items():
        setattr(module, name, function)
