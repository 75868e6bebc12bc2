"""A check of built pages: links within the site lead to pages and anchors, and nothing is loaded from the network."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src")}
"""Attributes whose address a browser loads by itself."""


def on_post_build(config: MkDocsConfig) -> None:
    """Fail where the built site has a broken link."""
    found = broken(Path(config.site_dir))
    if found:
        raise PluginError("\n".join(["the site has broken links:", *found]))


class _Page(HTMLParser):
    """The anchors of a page, and where it leads."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what an element is called and leads to."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append((tag, name, value))


def broken(folder: Path) -> list[str]:
    """What is wrong with the links of all pages in a folder, a line for each.

    Args:
        folder: The built site.
    """
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    return [
        f"{path.relative_to(folder.resolve())}: {address}: {problem}"
        for path, page in pages.items()
        if path.name != "404.html"  # its links are from the root of a server
        for tag, name, address in page.links
        if (problem := _problem(path, tag, name, address, pages))
    ]


def _problem(path: Path, tag: str, name: str, address: str, pages: dict[Path, _Page]) -> str:
    parts = urlsplit(address)
    if parts.scheme in ("data", "mailto"):
        return ""
    if parts.scheme or parts.netloc:
        return "loaded from the network" if (tag, name) in LOADED else ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors | {"__top"}:
        return "there is no such anchor"
    return ""
