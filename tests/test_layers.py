"""Who imports whom: modules form no circle, and no layer imports one above it, not even inside a function."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import eqsat

LAYERS = [
    ["eqsat.brief", "eqsat.immutable", "eqsat.lazy", "eqsat.markup", "eqsat.memory", "eqsat.notebook"],
    ["eqsat.collector", "eqsat.contrib", "eqsat.errors", "eqsat.files", "eqsat.nd", "eqsat.registry", "eqsat.support"],
    ["eqsat._ffi", "eqsat.runtime", "eqsat.target"],
    ["eqsat.relay"],
    ["eqsat.relay.dataflow_pattern"],
    ["eqsat.relay.op.contrib", "eqsat.relay.testing", "eqsat.relay.transform"],
    ["eqsat.egraph"],
    ["eqsat.cost"],
    ["eqsat.extraction"],
    ["eqsat.rules"],
    ["eqsat.composites", "eqsat.layers", "eqsat.orders", "eqsat.pipeline", "eqsat.spellings"],
    ["eqsat.equality"],
    ["eqsat.certificates"],
    ["eqsat.error", "eqsat.ir", "eqsat.parser", "eqsat.te", "eqsat.tir", "eqsat.transform"],
    ["eqsat.frontend", "eqsat.onnx", "eqsat.torch"],
    ["eqsat.calibration"],
    ["eqsat.cli", "eqsat.report_page"],
]
"""Modules and packages, lowest layer first. A module belongs to the layer of the longest name that its own begins with,
a package's ``__init__`` to the highest layer of what is in it."""


def find_modules() -> dict[str, Path]:
    """The file of every module of eqsat, by name."""
    top = Path(eqsat.__file__).parent
    files = {}
    for folder, _, names in os.walk(top, followlinks=True):  # rules and extraction are links
        for file in sorted(Path(folder, name) for name in names if name.endswith(".py")):
            parts = file.relative_to(top.parent).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module, wherever they stand in it. No import stands in an expression."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += found if isinstance(found := getattr(node, name, None), list) else []
        yield node


def imports(module: str, file: Path, known: set[str]) -> Iterator[str]:
    """The modules of eqsat that a module names in imports, wherever they stand in it."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in statements(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(part for part in (above, node.module) if part)
            for alias in node.names:
                named = f"{source}.{alias.name}"
                yield from [named] if named in known else [source] * (source in known)


FILES = find_modules()


@cache
def imported_by() -> dict[str, set[str]]:
    """Which modules of eqsat each module of eqsat imports."""
    return {name: {each for each in imports(name, file, {*FILES}) if each != name} for name, file in FILES.items()}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(imported_by()).prepare()
    except CycleError as error:
        raise AssertionError(f"circle of imports: {' <- '.join(error.args[1])}") from None


def layer(module: str) -> int:
    """The number of a module's layer."""
    inside = [layer(name) for name in FILES if name.startswith(f"{module}.")]
    if inside:
        return max(inside)
    number = {name: number for number, names in enumerate(LAYERS) for name in names}
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 1, -1)]
    return next(number[name] for name in names if name in number)


def test_no_module_imports_a_layer_above_its_own() -> None:
    number = {name: layer(name) for name in FILES}
    against = [
        (name, other) for name in number for other in sorted(imported_by()[name]) if number[other] > number[name]
    ]
    assert not against


CHECKS = {"certificate", "checker", "decoder", "digest", "folding", "instances", "levels", "literals", "terms"}
"""The modules that check certificates."""

KNOWN_TO_CHECKERS = {f"eqsat.egraph.{name}" for name in ("number_levels", "rule", "rule_version", "variadic")}
"""Of the e-graph they know rules as data alone."""


def test_what_checks_certificates_shares_nothing_with_what_it_checks() -> None:
    allowed = ("eqsat.relay", "eqsat.errors", "eqsat.files", "eqsat.brief", "eqsat.nd", "eqsat.certificates")
    names = [f"eqsat.certificates.{name}" for name in CHECKS]
    assert set(names) <= set(FILES)
    imported = {other for name in names for other in imported_by()[name]}
    assert {name for name in imported if not name.startswith(allowed)} == KNOWN_TO_CHECKERS
    assert {name for name in imported if name.startswith("eqsat.certificates")} <= set(names)
    engine = ("eqsat.egraph.engine", "eqsat.egraph.runner", "eqsat.egraph.query", "eqsat.egraph.journal")
    assert not {other for name in KNOWN_TO_CHECKERS for other in imported_by()[name]}.intersection(engine)
