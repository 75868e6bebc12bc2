"""Device profiles for the roofline cost model, read from `devices.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from eqsat.errors import ExtractionError


@dataclass(frozen=True)
class Device:
    """The profile of a device: what limits the time of an operator.

    Attributes:
        name, description: Texts for people.
        launch: Fixed time of every operator, in seconds.
        view: Time of an operator that only changes the shape, in seconds.
        bandwidth: Memory bandwidth, in bytes per second.
        peak: Dtype -> operations per second of matrix products and convolutions; `default` for other dtypes.
        vector: Dtype -> operations per second of all other operators.
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
    """Return the profiles that eqsat ships, by name."""
    table = tomllib.loads(files(__package__).joinpath("devices.toml").read_text(encoding="utf-8"))
    return {name: Device(name, **values) for name, values in table.items()}


def load_device(name: str) -> Device:
    """Return the shipped profile with this name; raise ExtractionError if there is none."""
    if name not in devices():
        raise ExtractionError(f"there is no device {name!r}; devices.toml has {', '.join(devices())}")
    return devices()[name]
