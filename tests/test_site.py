"""The check of the links of the built site."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

LINKS = Path(__file__).parent.parent / "docs" / "hooks" / "links.py"


pytest.importorskip("mkdocs", reason="the extra docs is not installed")


def broken(site: Path) -> list[str]:
    """What the hook of the site's builder finds."""
    found: list[str] = runpy.run_path(str(LINKS))["broken"](site)
    return found


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("other.html", ""),
        ("other.html#here", ""),
        ("#top", ""),
        ("https://example.org", ""),
        ("other.html#there", "no such anchor"),
        ("missing.html", "no such file"),
    ],
)
def test_links_are_followed_to_files_and_anchors(address: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f'<h1 id="top">Start</h1><a href="{address}">a link</a>')
    (tmp_path / "other.html").write_text('<h1 id="here">Other</h1>')
    found = broken(tmp_path)
    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_nothing_is_loaded_from_the_network(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<script src="https://example.org/script.js"></script>')
    assert broken(tmp_path) == ["index.html: https://example.org/script.js: loaded from the network"]
