"""Files that are there whole, or as they were before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to instead of ``path``: when the block ends well, what is there takes its place.

    Other files that the block writes beside it go where ``path`` is too, before it. Permissions are those of
    the file replaced.

    Raises:
        OSError: the folder does not exist or cannot be written to, or ``path`` is no file or read-only.
    """
    target = Path(os.path.realpath(path))
    _check_writable(target)
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        written = Path(folder) / target.name
        yield written
        os.chmod(written, target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        for file in sorted(Path(folder).iterdir(), key=lambda file: file == written):
            os.replace(file, target.with_name(file.name))


def _check_writable(target: Path) -> None:
    """Renaming would replace what cannot be written to: folders are no files, nor are devices."""
    if target.exists() and not target.is_file():
        raise OSError(0, "it is no ordinary file")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError(0, "it is read-only")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
