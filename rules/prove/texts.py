"""A text of a rule that says all of it: its patterns, and the Python functions in it with what they call.

Rules of equal texts do the same, as long as the packages are the same that neither rules nor their users wrote; those
are told by :func:`version`. Proofs are kept by both.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.relay import expr as expressions
from eqsat.relay.expr import Expr, Op
from eqsat.rules.verify.examples import examples_of

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_CACHES = ("_key", "_checked_type")
"""Attributes that are computed from others."""
_SOURCES = ("egraph", "relay", "rules/prove", "rules/verify", "nd.py")
"""What decides of a proof, beside the rule."""


@functools.cache
def version() -> str:
    """What tells this version of the operators, the engine and the prover from others."""
    digest = hashlib.sha256(f"{platform.python_version()} {np.__version__}".encode())
    top = Path(expressions.__file__).parents[1]
    for source in _SOURCES:
        files = sorted((top / source).rglob("*.py")) if (top / source).is_dir() else [top / source]
        for file in files:
            if "examples" not in file.parts:
                digest.update(file.read_bytes())
    return digest.hexdigest()


def text_of(rule: Any) -> str:
    """The text of a rule, with what draws instances of it."""
    return _Text().of([rule, examples_of(rule) if hasattr(rule, "lhs") else None])


class _Text:
    """Writes one text; what occurs again is told by where it stood first."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no two of them have one identity

    def of(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if id(value) in self.places:
            return f"#{self.places[id(value)]}"
        self.places[id(value)] = len(self.places)
        self.kept.append(value)
        return self._first(value)

    def _first(self, value: Any) -> str:
        match value:
            case np.ndarray():
                array = np.ascontiguousarray(value)
                return f"array {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
            case np.generic() | np.dtype() | range() | slice():
                return repr(value)
            case Enum():
                return f"{type(value).__qualname__}.{value.name}"
            case list() | tuple():
                return f"({', '.join(map(self.of, value))})"
            case set() | frozenset():
                return f"{{{', '.join(sorted(map(self.of, value)))}}}"
            case dict():
                return f"{{{', '.join(f'{self.of(key)}: {self.of(each)}' for key, each in value.items())}}}"
            case types.FunctionType():
                return self._function(value)
            case types.MethodType():
                return f"method {self.of(value.__self__)} {self.of(value.__func__)}"
            case functools.partial():
                return f"partial {self.of(value.func)} {self.of(value.args)} {self.of(value.keywords)}"
            case type():
                return self._class(value)
            case Op():
                return f"op {value.name}"
        if isinstance(value, Expr):
            return f"{value} {self._fields(value)}"
        return f"{self.of(type(value))} {self._fields(value)}"

    def _class(self, value: type) -> str:
        name = f"{value.__module__}.{value.__qualname__}"
        if not _is_of_rules(value.__module__):
            return f"class {name}"
        own = {key: each for key, each in vars(value).items() if isinstance(each, (types.FunctionType, *_PLAIN, tuple))}
        return f"class {name} {self.of(list(value.__bases__))} {self.of(own)}"

    def _function(self, value: types.FunctionType) -> str:
        if not _is_of_rules(value.__module__):
            return f"function {value.__module__}.{value.__qualname__}"
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        named = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
        parts = [value.__defaults__, value.__kwdefaults__, cells, named]
        return f"function {self._code(value.__code__)} {self.of(parts)}"

    def _code(self, code: types.CodeType) -> str:
        constants = [self._code(each) if isinstance(each, types.CodeType) else self.of(each) for each in code.co_consts]
        return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} ({', '.join(constants)})"

    def _fields(self, value: Any) -> str:
        """All attributes of an object but those that are computed from others."""
        kind = type(value)
        slots = [name for each in kind.__mro__ for name in vars(each).get("__slots__", ())]
        found = {name: getattr(value, name, None) for name in slots if name not in ("__weakref__", "__dict__")}
        found |= getattr(value, "__dict__", {})
        cached = [name for each in kind.__mro__ for name, entry in vars(each).items() if _is_cached(entry)]
        return self.of({name: each for name, each in sorted(found.items()) if name not in (*cached, *_CACHES)})


def _is_cached(entry: Any) -> bool:
    return isinstance(entry, functools.cached_property)


def _is_of_rules(module: str | None) -> bool:
    """Whether rules are written in a module, so that :func:`version` does not tell how it has changed."""
    name = module or ""
    if name.startswith("eqsat."):
        return name.startswith("eqsat.rules.") and not name.startswith(
            ("eqsat.rules.prove", "eqsat.rules.verify.verifier")
        )
    return name.partition(".")[0] not in ("builtins", "numpy", "functools", "math", "typing", "collections", "egglog")


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that code and the functions in it read from their module."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)
