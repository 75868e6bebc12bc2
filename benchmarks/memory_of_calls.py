"""Memory that calls leave behind, in one thread and in several: kilobytes for each call, and whether results are equal.

    python benchmarks/memory_of_calls.py [--calls 1000] [--threads 8]

The model is a Transformer layer's feed-forward part, small. Memory is what the process holds, as Linux tells it.
"""

from __future__ import annotations

import argparse
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import onnx

import eqsat.onnx
from eqsat.memory import resident_bytes

GRAPH = """g (float[8,16] x, float[16,16] w) => (float[8,16] y) {
    a = MatMul (x, w) b = Relu (a) c = Transpose (b) d = Transpose (c) e = Identity (d) y = Relu (e)
}"""
WARM = 4
"""Calls of each thread before memory is first looked at."""


def measure(model: onnx.ModelProto, calls: int, threads: int) -> set[bytes]:
    """Print a row; what was made."""

    def work(number: int) -> bytes:
        return bytes(eqsat.onnx.optimize(model).SerializeToString())

    with ThreadPoolExecutor(threads) as pool:
        made = set(pool.map(work, range(WARM * threads)))
        gc.collect()
        before, start = resident_bytes(), time.perf_counter()
        made |= set(pool.map(work, range(calls)))
        seconds = time.perf_counter() - start
        gc.collect()
        left = (resident_bytes() - before) / calls / 1024
    print(f"{threads:7} {calls:6} {seconds / calls * 1000:8.1f} {left:8.1f} {len(made):8}", flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {GRAPH}')
    print("threads  calls  ms/call  kB/call  results")
    made = [measure(model, args.calls, threads) for threads in (1, args.threads)]
    print("the same results" if made[0] == made[1] else "DIFFERENT results")


if __name__ == "__main__":
    main()
