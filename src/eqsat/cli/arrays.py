"""Named arrays in files of NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqsat.errors import FileError
from eqsat.files import replacing


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Return the arrays in a file that NumPy wrote, by name.

    Raises:
        FileError: The file cannot be read, or is of another kind.
    """
    import numpy as np

    try:
        with np.load(Path(path), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception:  # whatever NumPy runs into in a file that is none of its own
        raise FileError(
            f"{path} is not a file of arrays: write one with numpy.savez, one array for each input name"
        ) from None


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays that :func:`read_arrays` reads.

    Raises:
        FileError: The file cannot be written.
    """
    import zipfile

    import numpy as np

    try:
        with replacing(path) as part, zipfile.ZipFile(part, "w") as archive:
            for name, array in arrays.items():  # numpy.savez takes no array whose name is "file"
                with archive.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None
