"""Names of packages that are loaded on first use."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def load_name(package: str, module_of: Mapping[str, str], name: str) -> Any:
    """Return what a package calls ``name``, and let it be found there from now on.

    Args:
        package: The name of the package.
        module_of: For each name, the module of the package that defines it; a module has its own name.
        name: The name.

    Raises:
        AttributeError: The package has no such name.
    """
    if name not in module_of:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = import_module(f"{package}.{module_of[name]}")
    value = module if name == module_of[name] else getattr(module, name)
    setattr(sys.modules[package], name, value)
    return value
