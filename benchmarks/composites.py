"""Composites chosen by cost beside Relay's MergeComposite, which takes them in the order of the table.

    python benchmarks/composites.py [NETWORK ...]

For each network and shipped table: what is gained (before / after - 1, in %) by MergeComposite with the table as it is,
by the best and the worst of ten shuffled tables, by the cheapest cover of the same graph, and by the cheapest cover of
the cheapest equal graph under `eqsat.rules.default`. Costs are of the roofline of the table's device. Seconds are
processor time.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

from models import MODELS

import eqsat
from eqsat import extraction, relay, rules
from eqsat.relay.op.contrib import get_pattern_table

TARGETS = ("dnnl", "tensorrt")
SHUFFLES = 10


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """The value of a call and the processor time it took."""
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def cost_of(module: eqsat.IRModule, target: str) -> float:
    """What a module costs as it is."""
    return eqsat.extract(eqsat.saturate(module, ()), extraction.Roofline(target), "tree").input_cost


def competed(module: eqsat.IRModule, target: str, others: Any) -> float:
    """What the cheapest cover costs."""
    acting = [*others, eqsat.composite_rules(get_pattern_table(target))]
    return eqsat.extract(eqsat.saturate(module, acting), extraction.Roofline(target)).cost


def row(name: str, target: str) -> str:
    """The line about one network and one table."""
    module = relay.transform.InferType()(eqsat.IRModule({"main": MODELS[name]()}))
    table = get_pattern_table(target)
    before = cost_of(module, target)

    def gain(cost: float) -> float:
        return 100 * (before / cost - 1)

    def merged(entries: Any) -> float:
        return cost_of(relay.transform.MergeComposite(entries)(module), target)

    as_shipped, merge_seconds = timed(lambda: merged(table))
    shuffled = [merged(random.Random(seed).sample(table, len(table))) for seed in range(SHUFFLES)]
    covered, cover_seconds = timed(lambda: competed(module, target, ()))
    best, best_seconds = timed(lambda: competed(module, target, rules.default))
    gains = [gain(cost) for cost in (as_shipped, min(shuffled), max(shuffled), covered, best)]
    seconds = (merge_seconds, cover_seconds, best_seconds)
    return f"{name:<13}{target:<10}" + "".join(f"{value:>10.1f}" for value in gains + list(seconds))


def main() -> None:
    """Print a line for each network and table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("network", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    columns = ("merge %", "best %", "worst %", "cover %", "+rules %", "merge s", "cover s", "+rules s")
    print(f"{'network':<13}{'table':<10}" + "".join(f"{column:>10}" for column in columns))
    for name in parser.parse_args().network:
        for target in TARGETS:
            print(row(name, target), flush=True)


if __name__ == "__main__":
    main()
