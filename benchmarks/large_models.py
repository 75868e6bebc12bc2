"""A decoder of several gigabytes, whose weights lie in an external file: what optimizing it takes and reads.

The model has the shape of LLaMA's. Its external file is sparse, so that it takes no room on the disk: of each weight
only the beginning is random, unless all of it is to be (`--filled`).

    python benchmarks/large_models.py [--layers 32] [--width 3072] [--filled] [--folder DIR]
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from model_writer import ModelWriter
from onnx import TensorProto

RANDOM_BYTES = 4096
"""Bytes at the beginning of a weight that are random in a sparse file."""

HEAD = 128
"""Width of a head."""


class Decoder(ModelWriter):
    """A decoder whose weights are written to a file while it is made."""

    def __init__(self, path: Path, layers: int, width: int, hidden: int, words: int, is_filled: bool = False):
        super().__init__()
        self.path, self.width, self.hidden, self.is_filled = path, width, hidden, is_filled
        self.data = f"{path.name}.data"
        with open(path.with_name(self.data), "wb") as self.file:
            self._write(layers, words)
            self.file.truncate()

    def _write(self, layers: int, words: int) -> None:
        self.input("ids", TensorProto.INT64, "batch", "length")
        for name, last in (("cos", HEAD), ("sin", HEAD), ("mask", "length")):
            self.input(name, TensorProto.FLOAT16, "batch", 1, "length", last)
        value = self.node("Gather", self.stored("embedding", words, self.width), "ids")
        for layer in range(layers):
            value = self.layer(f"layers.{layer}", value)
        logits = self.node("MatMul", self.norm("norm", value), self.stored("head", self.width, words))
        onnx.save(self.model(logits, "batch", "length", words, dtype=TensorProto.FLOAT16), self.path)

    def stored(self, name: str, *shape: int) -> str:
        """Add a weight to the external file; its name."""
        start = -(-self.file.tell() // RANDOM_BYTES) * RANDOM_BYTES
        size = math.prod(shape)
        self.file.seek(start)
        drawn = size if self.is_filled else min(size, RANDOM_BYTES // 2)
        self.file.write(self.random.normal(scale=0.02, size=drawn).astype(np.float16).tobytes())
        self.file.seek(start + size * 2)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, told in (("location", self.data), ("offset", start), ("length", size * 2)):
            tensor.external_data.add(key=key, value=str(told))
        self.weights.append(tensor)
        return name

    def norm(self, name: str, value: str) -> str:
        """The value over its root mean square, times a weight."""
        wide = self.node("Cast", value, to=TensorProto.FLOAT)
        squares = self.node("Pow", wide, self.constant(2.0, "float32"))
        mean = self.node("ReduceMean", squares, self.constant([-1]))
        root = self.node("Sqrt", self.node("Add", mean, self.constant(1e-5, "float32")))
        normal = self.node("Mul", wide, self.node("Reciprocal", root))
        return self.node("Mul", self.stored(name, self.width), self.node("Cast", normal, to=TensorProto.FLOAT16))

    def heads(self, name: str, value: str) -> str:
        """A product with a weight, by heads."""
        product = self.node("MatMul", value, self.stored(name, self.width, self.width))
        heads = self.node("Reshape", product, self.constant([0, 0, self.width // HEAD, HEAD]))
        return self.node("Transpose", heads, perm=[0, 2, 1, 3])

    def turned(self, value: str) -> str:
        """Queries or keys turned by their positions."""
        axis, middle = self.constant([3]), self.constant([HEAD // 2])
        low = self.node("Slice", value, self.constant([0]), middle, axis)
        high = self.node("Slice", value, middle, self.constant([2**63 - 1]), axis)
        half = self.node("Concat", self.node("Neg", high), low, axis=-1)
        return self.node("Add", self.node("Mul", value, "cos"), self.node("Mul", half, "sin"))

    def layer(self, name: str, value: str) -> str:
        """Attention and the gated network behind it."""
        normal = self.norm(f"{name}.norm1", value)
        query, key, data = (self.heads(f"{name}.{each}", normal) for each in "qkv")
        keys = self.node("Transpose", self.turned(key), perm=[0, 1, 3, 2])
        scores = self.node("MatMul", self.turned(query), keys)
        scaled = self.node("Mul", scores, self.constant(HEAD**-0.5, "float16"))
        shares = self.node("Softmax", self.node("Add", scaled, "mask"), axis=-1)
        heads = self.node("Transpose", self.node("MatMul", shares, data), perm=[0, 2, 1, 3])
        joined = self.node("Reshape", heads, self.constant([0, 0, self.width]))
        value = self.node("Add", value, self.node("MatMul", joined, self.stored(f"{name}.o", self.width, self.width)))
        normal = self.norm(f"{name}.norm2", value)
        gate = self.node("MatMul", normal, self.stored(f"{name}.gate", self.width, self.hidden))
        up = self.node("MatMul", normal, self.stored(f"{name}.up", self.width, self.hidden))
        gated = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
        down = self.node("MatMul", gated, self.stored(f"{name}.down", self.hidden, self.width))
        return self.node("Add", value, down)


def main() -> None:
    """Print what one run of the command takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=3072)
    parser.add_argument("--words", type=int, default=32_000)
    parser.add_argument("--filled", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(exist_ok=True, parents=True)
        path, out = folder / "in.onnx", folder / "out.onnx"
        Decoder(path, options.layers, options.width, options.width * 8 // 3, options.words, options.filled)
        size = path.with_name(f"{path.name}.data").stat().st_size
        start = time.perf_counter()
        subprocess.run([Path(sys.executable).with_name("eqsat"), "optimize", path, out], check=True)
        seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = used.ru_utime + used.ru_stime
        print(f"{size / 1e9:.2f} GB: {seconds:.1f} s, CPU {cpu:.1f} s, peak {used.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
