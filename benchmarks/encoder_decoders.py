"""Encoders with decoders, of the shapes of T5 and Whisper: what optimizing takes as they become deeper.

They have real depth and tiny width. The decoder's layers read the output of the encoder.

    python benchmarks/encoder_decoders.py [--layers 12 24 48 96]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from multiprocessing import get_context

import onnx
from model_writer import ModelWriter
from onnx import TensorProto

from eqsat import onnx as onnx_frontend

WIDTH, HEADS, HIDDEN, WORDS = 32, 2, 64, 64


class Network(ModelWriter):
    """A network that is being made."""

    def linear(self, value: str, outputs: int, has_bias: bool = False) -> str:
        """A product with a weight, and a bias."""
        product = self.node("MatMul", value, self.weight(WIDTH, outputs))
        return self.node("Add", self.weight(outputs), product) if has_bias else product

    def heads(self, value: str) -> str:
        """A value by heads."""
        shape = self.constant([0, 0, HEADS, WIDTH // HEADS])
        return self.node("Transpose", self.node("Reshape", value, shape), perm=[0, 2, 1, 3])

    def attention(
        self, value: str, memory: str, mask: str | None, *, scale: bool, biases: tuple[bool, bool, bool]
    ) -> str:
        """Heads of ``value`` attend to ``memory``."""
        query, key, data = (
            self.linear(of, WIDTH, has_bias) for of, has_bias in zip((value, memory, memory), biases, strict=True)
        )
        if scale:
            query = self.node("Mul", query, self.constant((WIDTH // HEADS) ** -0.5, "float32"))
        keys = self.node("Transpose", self.heads(key), perm=[0, 1, 3, 2])
        scores = self.node("MatMul", self.heads(query), keys)
        if mask is not None:
            scores = self.node("Add", scores, mask)
        read = self.node("MatMul", self.node("Softmax", scores, axis=-1), self.heads(data))
        joined = self.node("Transpose", read, perm=[0, 2, 1, 3])
        return self.linear(self.node("Reshape", joined, self.constant([0, 0, WIDTH])), WIDTH, biases[0])


def t5(layers: int) -> onnx.ModelProto:
    """As T5: norms without means, no biases, one mask of distances for all layers."""
    network = Network()

    def norm(value: str) -> str:
        squares = network.node("Pow", value, network.constant(2.0, "float32"))
        mean = network.node("ReduceMean", squares, network.constant([-1]))
        root = network.node("Sqrt", network.node("Add", mean, network.constant(1e-6, "float32")))
        normal = network.node("Mul", value, network.node("Div", network.constant(1.0, "float32"), root))
        return network.node("Mul", network.weight(WIDTH), normal)

    def attend(value: str, memory: str | None, mask: str) -> str:
        normal = norm(value)
        read = network.attention(normal, memory or normal, mask, scale=False, biases=(False, False, False))
        return network.node("Add", value, read)

    def feed(value: str) -> str:
        hidden = network.node("Relu", network.linear(norm(value), HIDDEN))
        return network.node("Add", value, network.node("MatMul", hidden, network.weight(HIDDEN, WIDTH)))

    ids = network.input("ids", TensorProto.INT64, "batch", "words")
    decoded = network.input("decoded", TensorProto.INT64, "batch", "length")
    masks = [
        network.input(name, TensorProto.FLOAT, "batch", HEADS, *sizes)
        for name, sizes in (("a", ("words", "words")), ("b", ("length", "length")), ("c", ("length", "words")))
    ]
    table = network.weight(WORDS, WIDTH)
    value = network.node("Gather", table, ids)
    for _ in range(layers):
        value = feed(attend(value, None, masks[0]))
    memory = norm(value)
    value = network.node("Gather", table, decoded)
    for _ in range(layers):
        value = feed(attend(attend(value, None, masks[1]), memory, masks[2]))
    return network.model(network.linear(norm(value), WORDS), "batch", "length", WORDS)


def whisper(layers: int) -> onnx.ModelProto:
    """As Whisper: layer norms in parts, biases but for keys, GELUs, scaled queries."""
    network = Network()

    def norm(value: str) -> str:
        centred = network.node("Sub", value, network.node("ReduceMean", value, network.constant([-1])))
        squares = network.node("Pow", centred, network.constant(2.0, "float32"))
        mean = network.node("ReduceMean", squares, network.constant([-1]))
        root = network.node("Sqrt", network.node("Add", mean, network.constant(1e-5, "float32")))
        scaled = network.node("Mul", network.node("Div", centred, root), network.weight(WIDTH))
        return network.node("Add", scaled, network.weight(WIDTH))

    def gelu(value: str) -> str:
        error = network.node("Erf", network.node("Div", value, network.constant(2**0.5, "float32")))
        doubled = network.node("Mul", value, network.node("Add", error, network.constant(1.0, "float32")))
        return network.node("Mul", doubled, network.constant(0.5, "float32"))

    def attend(value: str, memory: str | None, mask: str | None) -> str:
        normal = norm(value)
        read = network.attention(normal, memory or normal, mask, scale=True, biases=(True, False, True))
        return network.node("Add", value, read)

    def feed(value: str) -> str:
        hidden = gelu(network.linear(norm(value), HIDDEN, has_bias=True))
        product = network.node("MatMul", hidden, network.weight(HIDDEN, WIDTH))
        return network.node("Add", value, network.node("Add", network.weight(WIDTH), product))

    sound = network.input("sound", TensorProto.FLOAT, "batch", "frames", WIDTH)
    decoded = network.input("decoded", TensorProto.INT64, "batch", "length")
    mask = network.input("mask", TensorProto.FLOAT, "batch", 1, "length", "length")
    value = network.node("Add", sound, network.weight(WIDTH))
    for _ in range(layers):
        value = feed(attend(value, None, None))
    memory = norm(value)
    value = network.node("Gather", network.weight(WORDS, WIDTH), decoded)
    for _ in range(layers):
        value = feed(attend(attend(value, None, mask), memory, None))
    return network.model(network.linear(norm(value), WORDS), "batch", "length", WORDS)


def measure(make: Callable[[int], onnx.ModelProto], layers: int) -> tuple[int, int, dict[str, float], float, float]:
    """Nodes before and after, seconds of the phases, CPU seconds and the peak of memory in MiB."""
    onnx_frontend.optimize(make(1))  # what is loaded once
    model = make(layers)
    start = time.process_time()
    done = onnx_frontend.run(model)
    seconds, used = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF)
    return len(model.graph.node), len(done.after.graph), done.seconds, seconds, used.ru_maxrss / 1024


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="*", default=[12, 24, 48, 96])
    options = parser.parse_args()
    for make in (t5, whisper):
        for layers in options.layers:
            with get_context("spawn").Pool(1) as pool:  # a process has one peak
                before, after, phases, seconds, peak = pool.apply(measure, (make, layers))
            told = "  ".join(f"{name} {spent:.2f}" for name, spent in phases.items() if spent > 0.05)
            print(
                f"{make.__name__:8} {layers:3} + {layers:<3} layers  nodes {before:6} -> {after:6}"
                f"  CPU {seconds:6.2f} s  {peak:5.0f} MiB  {told}",
                flush=True,
            )


if __name__ == "__main__":
    main()
