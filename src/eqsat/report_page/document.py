"""What all pages have in common: one HTML file that loads nothing, with style and scripts in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from os import PathLike
from string import Template

from eqsat.errors import FileError
from eqsat.files import replacing
from eqsat.markup import Markup, join, text

STYLE = "page.css"
SCRIPT = "parts.js"


def document(
    title: str, about: str, summary: Markup, parts: Sequence[Markup], scripts: Sequence[str] = (), style: str = ""
) -> str:
    """A page.

    Args:
        title: what it is about; a file's name, say.
        about: what it tells of that.
        summary: what stands first.
        parts: sections.
        scripts: to be run in their order, before the one that all pages have.
        style: before that which all pages have.
    """
    run = [*scripts, asset(SCRIPT)]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in run]
    return Template(asset("page.html")).substitute(
        title=text(title),
        about=text(about),
        digests=" ".join(f"'sha256-{digest}'" for digest in digests),
        style=f"{style}\n{asset(STYLE)}",
        summary=summary,
        sections=join(parts),
        scripts="\n".join(f"<script>{script}</script>" for script in run),
    )


def asset(name: str) -> str:
    """The text of a file of this package."""
    return files("eqsat.report_page").joinpath(name).read_text(encoding="utf-8")


def write(path: str | PathLike[str], page: str) -> None:
    """Write a page that :func:`document` made: the file is there whole, or as it was before.

    Raises:
        FileError: the file cannot be written.
    """
    try:
        with replacing(path) as written:
            written.write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None
