"""Device profiles for the roofline cost model: seconds, bytes per second, operations per second.

A matrix product of (m, k) and (k, n) counts as 2 m n k operations.
"""

from __future__ import annotations

from dataclasses import dataclass

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


DEVICES = {
    device.name: device
    for device in (
        Device(
            name="cpu",
            description="one core of a recent x86 server; "
            "rates measured with NumPy and OpenBLAS on a 1024 x 1024 product and 128 MB adds",
            launch=1.0e-6,
            view=1.0e-7,
            bandwidth=14.0e9,
            peak={"default": 80.0e9, "float64": 34.0e9, "float16": 40.0e9, "int8": 80.0e9},
            vector={"default": 5.4e9, "float64": 2.7e9, "float16": 1.0e9},
        ),
        Device(
            name="gpu",
            description="datacentre GPU of the A100 class; "
            "the vendor's dense peaks, at the memory rate of the 40 GB card",
            launch=5.0e-6,
            view=1.0e-7,
            bandwidth=1555.0e9,
            peak={"default": 19.5e12, "float32": 156.0e12, "float16": 312.0e12, "bfloat16": 312.0e12, "int8": 624.0e12},
            vector={"default": 19.5e12, "float64": 9.7e12, "float16": 78.0e12, "bfloat16": 39.0e12},
        ),
        Device(
            name="npu",
            description="neural unit of a phone: 8-bit arrays with shared LPDDR5 memory; "
            "floats run at a quarter of the rate",
            launch=2.0e-5,
            view=1.0e-6,
            bandwidth=34.0e9,
            peak={"default": 1.0e12, "int8": 26.0e12, "uint8": 26.0e12, "float16": 6.5e12, "float32": 1.6e12},
            vector={"default": 0.1e12, "int8": 0.8e12, "uint8": 0.8e12, "float16": 0.4e12},
        ),
        Device(
            name="dnnl",
            description="20-core x86 server with AVX-512 and VNNI under oneDNN: "
            "peaks from core count, width and clock; six DDR4-2933 channels",
            launch=2.0e-6,
            view=1.0e-7,
            bandwidth=140.0e9,
            peak={"default": 2.0e12, "float64": 1.0e12, "int8": 8.0e12, "uint8": 8.0e12},
            vector={"default": 0.5e12, "float64": 0.25e12, "int8": 2.0e12, "uint8": 2.0e12},
        ),
        Device(
            name="tensorrt",
            description="inference GPU of the T4 class under TensorRT: the vendor's peaks and memory rate",
            launch=5.0e-6,
            view=1.0e-7,
            bandwidth=320.0e9,
            peak={"default": 8.1e12, "float64": 0.25e12, "float16": 65.0e12, "int8": 130.0e12},
            vector={"default": 8.1e12, "float64": 0.25e12, "float16": 16.2e12},
        ),
    )
}
"""The profiles that eqsat ships, by name."""


def load_device(name: str) -> Device:
    """Return the shipped profile with this name; raise ExtractionError if there is none."""
    if name not in DEVICES:
        raise ExtractionError(f"there is no device {name!r}; eqsat has {', '.join(DEVICES)}")
    return DEVICES[name]
