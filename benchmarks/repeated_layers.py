"""Repeated layers optimized once, beside the whole optimized: CPU time of both in the same run, and their costs.

Without models: transformers of 12, 24 and 48 layers, each with weights of its own.

    python benchmarks/repeated_layers.py [MODEL.onnx ...] [--repeat 3]
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from numpy.random import Generator, default_rng

import eqsat
from eqsat import relay
from eqsat.extraction import CostFunction, OpCount
from eqsat.layers.optimize import optimize_with_report
from eqsat.onnx.cost import onnx_cost
from eqsat.onnx.files import load
from eqsat.onnx.imported import opset_of
from eqsat.onnx.importer import import_model
from eqsat.pipeline.extract import Extraction
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Function

TOKENS, WIDTH = 8, 32


def transformer(layers: int) -> Function:
    """Attention and a feed-forward network, each after a normalization, so many times."""
    draw = default_rng(0)
    tokens, mask = relay.var("tokens", shape=(TOKENS, WIDTH)), relay.var("mask", shape=(TOKENS, TOKENS))
    value: Expr = tokens
    for _ in range(layers):
        normal = normalized(value, draw)
        query, key, content = (nn.dense(normal, weight(draw, WIDTH)) + weight(draw) for _ in range(3))
        scores = nn.softmax(nn.dense(query, key) * relay.const(WIDTH**-0.5) + mask)
        value = value + nn.dense(nn.dense(scores, relay.transpose(content, [1, 0])), weight(draw, WIDTH))
        inner = nn.dense(normalized(value, draw), weight(draw, 4 * WIDTH))
        value = value + nn.dense(inner * relay.sigmoid(inner), weight(draw, WIDTH, 4 * WIDTH))
    return Function([tokens, mask], normalized(value, draw))


def normalized(value: Expr, draw: Generator) -> Expr:
    """Over its rows, scaled and shifted."""
    return nn.layer_norm(value, weight(draw), weight(draw))


def weight(draw: Generator, rows: int = 0, columns: int = WIDTH) -> Expr:
    """A random matrix, or vector for 0 rows."""
    return relay.const(draw.uniform(0.2, 1, (rows, columns) if rows else (columns,)).astype("f4"))


def seconds(work: Callable[[], Extraction], repeat: int) -> tuple[float, Extraction]:
    """Median CPU time of some runs, and what came out."""
    times = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        found = work()
        times.append(time.process_time() - start)
    return median(times), found


def compare(name: str, function: Function, model: CostFunction, repeat: int) -> None:
    """Print a row."""
    whole, one = seconds(lambda: eqsat.extract(eqsat.saturate(function), model), repeat)
    layered, other = seconds(lambda: optimize_with_report(function, cost_model=model), repeat)
    same = np.isclose([one.input_cost, one.cost, one.lower_bound], [other.input_cost, other.cost, other.lower_bound])
    costs = f"{other.input_cost:g} -> {other.cost:g}{'' if same.all() else f', but {one.cost:g} as a whole'}"
    lowered = [len(each.regions[-1].lowered.nodes) for each in (one, other)]
    print(
        f"{name:32} {lowered[0]:6} {lowered[1]:6}  {whole:7.3f} {layered:7.3f} {layered / whole:6.2f}  {costs}",
        flush=True,
    )


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{'':32} {'nodes':>6} {'few':>6}  {'whole/s':>7} {'few/s':>7} {'ratio':>6}  cost")
    if not options.models:
        for layers in (12, 24, 48):
            compare(f"transformer of {layers} layers", transformer(layers), OpCount(), options.repeat)
    for path in options.models:
        model = load(path)
        function = import_model(model, lambda inner: None).function
        compare(path.rsplit("/", 1)[-1], function, onnx_cost(OpCount(), opset_of(model)), options.repeat)


if __name__ == "__main__":
    main()
