"""The distribution holds every package, those at the top level included."""

from __future__ import annotations

from pathlib import Path

from setuptools import find_packages

ROOT = Path(__file__).parents[1]


def test_every_folder_of_modules_is_a_package() -> None:
    found = set(find_packages(str(ROOT / "src")))
    folders = {".".join(path.parent.relative_to(ROOT / "src").parts) for path in (ROOT / "src").rglob("*.py")}
    assert {"eqsat.rules", "eqsat.extraction"} <= found
    assert folders <= found


def test_packages_at_the_top_level_are_links() -> None:
    for name in ("rules", "extraction"):
        assert (ROOT / "src" / "eqsat" / name).resolve() == ROOT / name
