"""Versions of rules, by which certificates and proofs that are kept tell what they are of.

A version is a digest of the equation that a rule is, of its patterns and of the source of its Python parts. It depends
neither on the version of Python nor on where the source is.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from eqsat.egraph.rule import Rule
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, ManyPattern
from eqsat.relay.expr import Constant, Expr, Op, Var
from eqsat.relay.printer import astext
from eqsat.relay.ty import Type

_NOT_SAID = ("examples", "label", "contracts", "early")
"""What the author of a rule says beside the equation: examples, names of parts, and when the rule runs."""

_FOLLOWED = ("eqsat.rules", "eqsat.egraph.author")
"""Packages whose functions count as parts of the rules that call them."""


_FOLLOWED_VALUES = (FunctionType, str, int, float, tuple, list, frozenset, dict, np.ndarray)
"""Kinds of values of a module that count as parts of the functions that read them."""


@lru_cache(maxsize=1 << 10)
def version_of(rule: Rule) -> str:
    """The version of a rule: equal for rules that do the same by the same source."""
    return digest_of(rule)


def digest_of(value: Any) -> str:
    """The same for anything that rules consist of, functions among it."""
    state = hashlib.blake2b(digest_size=12)
    for part in _Description().describe(value):
        state.update(f"{len(part)}:{part}".encode())
    return state.hexdigest()


class _Description:
    """Lists what a rule consists of; what occurs again is told by its number."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no two have one id

    def describe(self, root: Any) -> list[str]:
        """The parts of something, in an order that follows from it alone."""
        found: list[str] = []
        stack = [root]
        while stack:
            value = stack.pop()
            if isinstance(value, (str, bytes, int, float, complex, type(None))):
                found.append(repr(value))
                continue
            if id(value) in self._seen:
                found.append(f"#{self._seen[id(value)]}")
                continue
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            told, below = self._parts(value)
            found.append(told)
            stack += reversed(below)
        return found

    def _parts(self, value: Any) -> tuple[str, list[Any]]:
        """What a value is, in words, and the values in it."""
        name = type(value).__name__
        if isinstance(value, Enum):
            return f"{name}.{value.name}", []
        if isinstance(value, Op):
            return f"op {value.name}", []
        if isinstance(value, Constant):
            return f"constant {value.data.digest().hex()}", []
        if isinstance(value, Var):
            return f"var {value.name_hint}", []
        if isinstance(value, Expr):
            return f"expr {astext(value)}", []
        if isinstance(value, (Type, Attrs)):
            return f"{name} {value!r}", []
        if isinstance(value, DFPattern):
            hidden = ("_copies", "own") if isinstance(value, ManyPattern) else ("named",)
            held = {key: each for key, each in vars(value).items() if key not in (*_NOT_SAID, *hidden)}
            return f"{name} {sorted(held)}", [held[key] for key in sorted(held)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, partial):
            return "partial", [value.func, value.args, value.keywords]
        if is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in fields(value) if field.name not in _NOT_SAID]
            return f"{name} {names}", [getattr(value, each) for each in names]
        if isinstance(value, Mapping):
            return f"{name} of {len(value)}", [part for item in value.items() for part in item]
        if isinstance(value, (tuple, list)):
            return f"{name} of {len(value)}", list(value)
        if isinstance(value, (set, frozenset)):
            return f"{name} {sorted(map(repr, value))}", []
        if isinstance(value, np.ndarray):
            return f"array {value.dtype} {value.shape} {value.tobytes().hex()}", []
        if isinstance(value, type) or hasattr(value, "__qualname__"):
            return f"{getattr(value, '__module__', '')}.{value.__qualname__}", []
        if hasattr(value, "__self__") or not hasattr(value, "__dict__"):
            return f"{name} {getattr(value, '__name__', '')}", []
        return f"{name} {sorted(vars(value))}", [vars(value)[key] for key in sorted(vars(value))]

    def _function(self, function: FunctionType) -> tuple[str, list[Any]]:
        if not function.__module__.startswith(_FOLLOWED) and function.__module__.startswith("eqsat."):
            return f"{function.__module__}.{function.__qualname__}", []
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        called = [function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__]
        values = [each for each in called if isinstance(each, _FOLLOWED_VALUES)]
        return source_of(function.__code__), [function.__defaults__, cells, values]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names(code: CodeType) -> list[str]:
    """The global names that code speaks of, in that of functions inside it, too; sorted."""
    found: set[str] = set()
    stack = [code]
    while stack:
        one = stack.pop()
        found.update(one.co_names)
        stack += [each for each in one.co_consts if isinstance(each, CodeType)]
    return sorted(found)


def source_of(code: CodeType) -> str:
    """What the source of a function does, without comments and spaces; its code where there is no source."""
    texts = _functions(code.co_filename).get(code.co_firstlineno, ())
    return "\n".join(texts) or code.co_code.hex()


@lru_cache(maxsize=256)
def _functions(file: str) -> dict[int, list[str]]:
    """First line -> the functions that start there."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            decorators = getattr(node, "decorator_list", [])
            lines = {node.lineno, *[each.lineno for each in decorators]}
            text = ast.unparse(ast.Module([_bare(node)], []) if isinstance(node, ast.FunctionDef) else node)
            for line in lines:
                found.setdefault(line, []).append(text)
    return found


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    """A function without its description."""
    body = node.body
    is_told = (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )
    kept = body[1:] if is_told and len(body) > 1 else body
    return ast.FunctionDef(
        **{**dict(ast.iter_fields(node)), "body": kept}, lineno=node.lineno, col_offset=node.col_offset
    )
