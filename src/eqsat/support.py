"""What this copy of eqsat was built with, under the name of ``tvm.support``."""

from __future__ import annotations

from importlib.metadata import version


def libinfo() -> dict[str, str]:
    """Return the facts of the build: the version. No library of a device is linked, so none has an entry."""
    return {"EQSAT_VERSION": version("eqsat")}
