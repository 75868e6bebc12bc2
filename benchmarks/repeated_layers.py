"""Repeated layers optimized once, beside the whole optimized: CPU time of both in the same run, and their costs.

Without models: small BERT encoders of 12, 24 and 48 layers.

    python benchmarks/repeated_layers.py [MODEL.onnx ...] [--repeat 3]
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from models.bert import bert_base

import eqsat
from eqsat.extraction import CostFunction, OpCount
from eqsat.layers.optimize import optimize_with_report
from eqsat.onnx.cost import onnx_cost
from eqsat.onnx.files import load
from eqsat.onnx.imported import opset_of
from eqsat.onnx.importer import import_model
from eqsat.pipeline.extract import Extraction
from eqsat.relay.expr import Function


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
            compare(f"encoder of {layers} layers", bert_base(8, layers, 32, 4), OpCount(), options.repeat)
    for path in options.models:
        model = load(path)
        function = import_model(model, lambda inner: None).function
        compare(path.rsplit("/", 1)[-1], function, onnx_cost(OpCount(), opset_of(model)), options.repeat)


if __name__ == "__main__":
    main()
