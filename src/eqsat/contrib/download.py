"""Fetching files that examples need, such as models and pictures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.request import urlopen

from eqsat.errors import FileError


def download(url: str, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Copy what is at ``url`` to a file, whose folder is made if need be.

    Args:
        url: The address.
        path: The file.
        overwrite: Whether to do so where the file is there already.

    Raises:
        FileError: Nothing can be read there.
    """
    target = Path(path)
    if target.exists() and not overwrite:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urlopen(url) as source, NamedTemporaryFile(dir=target.parent, delete=False) as partial:
            shutil.copyfileobj(source, partial)
    except (OSError, ValueError) as error:
        raise FileError(f"{url} cannot be fetched: {error}") from None
    os.replace(partial.name, target)


def download_testdata(url: str, relpath: str, module: str | list[str] | None = None, overwrite: bool = False) -> str:
    """Do :func:`download` to a file that stays for later runs, and return its path.

    Args:
        url: The address.
        relpath: The file's name.
        module: The folder, or one folder within another, that keeps the files of one kind together.
        overwrite: As in :func:`download`.
    """
    kept = Path(os.environ.get("TEST_DATA_ROOT_PATH") or Path.home() / ".tvm_test_data")
    folders = [] if module is None else [module] if isinstance(module, str) else module
    path = kept.joinpath(*folders, relpath)
    download(url, path, overwrite)
    return str(path)


__all__ = ["download", "download_testdata"]
