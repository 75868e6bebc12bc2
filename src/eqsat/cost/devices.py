"""Device profiles for the roofline cost model, read from `devices.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from eqsat.errors import ExtractionError


@dataclass(frozen=True)
class Device:
    """What bounds an operator's time.

    Attributes:
        name, description: For people.
        launch: Seconds that every operator costs before it does anything.
        view: Seconds for an operator that only gives another shape.
        bandwidth: Bytes per second to and from memory.
        peak: Operations per second of matrix products and convolutions by dtype; `default` for the others.
        vector: The same for every other operator.
    """

    name: str
    description: str
    launch: float
    view: float
    bandwidth: float
    peak: dict[str, float]
    vector: dict[str, float]


@cache
def devices() -> dict[str, Device]:
    """The shipped profiles by name."""
    table = tomllib.loads(files(__package__).joinpath("devices.toml").read_text(encoding="utf-8"))
    return {name: Device(name, **values) for name, values in table.items()}


def load_device(name: str) -> Device:
    """The shipped profile of that name; raises ExtractionError where there is none."""
    if name not in devices():
        raise ExtractionError(f"there is no device {name!r}; devices.toml has {', '.join(devices())}")
    return devices()[name]
