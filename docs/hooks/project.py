"""The pages that stand at the top of the repository: the README as the first one, how to contribute, what changed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""File of the repository -> page of the site."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, page in PAGES.items():
        text = _relinked((ROOT / source).read_text(encoding="utf-8"), ROOT, DOCS)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links of documents to files of the repository lead to their pages."""
    folder = (DOCS / page.file.src_uri).parent
    return _relinked(markdown, folder, folder)


def _relinked(text: str, source: Path, page: Path) -> str:
    """Links of a text of one folder, for a page of another; what is no page of the site is named only."""

    def relink(found: re.Match[str]) -> str:
        image, title, target, anchor = found.groups(default="")
        path = (source / target).resolve()
        inside = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        path = DOCS / PAGES.get(inside, path)
        if not path.is_relative_to(DOCS):
            return title
        return f"{image}[{title}]({os.path.relpath(path, page)}{anchor})"

    return _LINK.sub(relink, text)
