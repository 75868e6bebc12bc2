"""Relay's standard library, as files of its text form: lists, options, trees, natural numbers, gradients."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from eqsat.errors import ArgumentError
from eqsat.registry import register_func
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.parser import parse

_BASES = {"core.rly": None, "gradient.rly": None, "nat.rly": "prelude.rly", "prelude.rly": None}
"""The files, and the file whose definitions each builds on."""


@cache
def standard_module(file: str) -> IRModule:
    """Return the definitions of a file of the standard library and of the file that it builds on.

    Raises:
        ArgumentError: There is no such file.
    """
    if file not in _BASES:
        raise ArgumentError(f"the standard library has the files {list(_BASES)} and no {file!r}")
    base = _BASES[file]
    text = (files(__name__) / file).read_text(encoding="utf-8")
    return parse(text, source_name=None, init_module=None if base is None else standard_module(base))


def import_from_std(module: IRModule, file: str) -> IRModule:
    """Do :meth:`IRModule.import_from_std`, which is below this module."""
    module.extend(standard_module(file))
    return infer_module(module)


register_func("ir.Module_ImportFromStd", import_from_std)
