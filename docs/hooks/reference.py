"""Pages of the public names, generated from docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = (
    "eqsat",
    "eqsat.relay",
    "eqsat.relay.dataflow_pattern",
    "eqsat.rules",
    "eqsat.extraction",
    "eqsat.cost",
    "eqsat.onnx",
    "eqsat.calibration",
    "eqsat.torch",
)

_ROLE = re.compile(r":\w+:(<code>)~?([^<]*)(</code>)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each package."""
    for package in PACKAGES:
        parts = [f"# {package}\n", *[f"::: {path}\n" for path in _public(package)]]
        page = f"reference/{package.rpartition('.')[2]}.md"
        files.append(File.generated(config, page, content="\n".join(parts)))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Remove the roles of reStructuredText from docstrings."""
    return _ROLE.sub(r"\1\2\3", html)


def _public(package: str) -> list[str]:
    """Where each public function and class of a package is defined, in the order of their names."""
    file = SOURCE.joinpath(*package.split("."), "__init__.py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    exported = _exported(tree)
    paths = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("eqsat."):
            for each in node.names:
                name = each.asname or each.name
                if name in exported and not _is_module(f"{node.module}.{each.name}"):
                    paths[name] = f"{node.module}.{each.name}"
    return [paths[name] for name in sorted(paths, key=str.lower)]


def _exported(tree: ast.Module) -> set[str]:
    """The names in a module's ``__all__``."""
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and "__all__" in map(ast.unparse, node.targets)
    ]
    return {name for each in lists for name in ast.literal_eval(each)}


def _is_module(path: str) -> bool:
    folder = SOURCE.joinpath(*path.split("."))
    return folder.is_dir() or folder.with_suffix(".py").exists()
