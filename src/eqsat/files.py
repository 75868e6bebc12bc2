"""Files that are there whole, or as they were before."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

_PREFIX = ".eqsat-"
"""How the names of folders begin in which files are written."""

_swept: set[Path] = set()
"""Folders in which this process has looked for what others left."""


def cache_folder() -> Path:
    """The folder of what is kept from one run for the next: EQSAT_CACHE, or eqsat in the user's folder of caches.

    For a user without a home folder it is one that cannot be, so that nothing is kept.
    """
    given = os.environ.get("EQSAT_CACHE")
    if given:
        return Path(given)
    user = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(user) if user else Path.home() / ".cache") / "eqsat"
    except RuntimeError:
        return Path(os.devnull) / "eqsat"


def find_kept(path: Path, key: str) -> Any:
    """What was kept in a file under a key; None if there is nothing, or the file is damaged or of another key."""
    try:
        seal, _, text = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return json.loads(text) if seal == _seal(key, text) else None


def keep(path: Path, key: str, value: Any) -> None:
    """Keep in a file, under a key, what JSON can tell; where that is not possible, it is found again the next time."""
    text = json.dumps(value).encode()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as written:
            written.write_bytes(_seal(key, text) + b"\n" + text)


def _seal(key: str, text: bytes) -> bytes:
    """What tells that a text is whole, and of what."""
    return hashlib.sha256(key.encode() + b"\n" + text).hexdigest().encode()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to instead of ``path``: when the block ends well, what is there takes its place.

    Other files that the block writes beside it go where ``path`` is too, before it. Permissions are those of
    the file replaced. A device or a pipe is not replaced, but the path to write to.

    Raises:
        OSError: the folder does not exist or cannot be written to, or ``path`` is no file or read-only.
    """
    if is_stream(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    _check_writable(target)
    with scratch_folder(target.parent) as folder:
        written = folder / target.name
        yield written
        os.chmod(written, target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        for file in sorted(folder.iterdir(), key=lambda file: file == written):
            os.replace(file, target.with_name(file.name))


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of what bytes are sent to, one after the other: a pipe, or a device such as /dev/null."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def check_target(path: str | os.PathLike[str]) -> None:
    """Look, before there is anything to write, whether :func:`replacing` could write to ``path``.

    Raises:
        OSError: It could not.
    """
    if is_stream(path):
        return
    target = Path(os.path.realpath(path))
    _check_writable(target)
    if not target.parent.is_dir():
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def _check_writable(target: Path) -> None:
    """Renaming would replace what cannot be written to: folders are no files, nor are disks."""
    if target.exists() and not target.is_file():
        raise OSError(0, "it is no ordinary file")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError(0, "it is read-only")


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder for temporary files, in ``parent`` or where the system wants such, removed at the end.

    Where the process is killed, the next one that asks for a folder in the same place removes it: it is locked as long
    as its process lives.

    Raises:
        OSError: it cannot be made.
    """
    parent = Path(gettempdir()) if parent is None else parent
    _sweep(parent)
    while True:
        folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # another process took it for one that was left, before it was locked
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            break
        os.close(descriptor)  # as above, while it was locked
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that were killed while they wrote. Those of others are locked."""
    if parent in _swept:
        return
    _swept.add(parent)
    with suppress(OSError):
        for folder in [Path(entry) for entry in os.scandir(parent) if entry.name.startswith(_PREFIX)]:
            with suppress(OSError):
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
                finally:
                    os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def files_below(folder: Path, suffix: str) -> list[Path]:
    """The files in a folder and below whose names end in ``suffix``, sorted; folders may vanish meanwhile."""
    found = [Path(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(suffix)]
    return sorted(path for path in found if path.is_file())
