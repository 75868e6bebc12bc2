"""TENSAT's seven networks and BERT-base: gains and seconds beside TENSAT's and TASO's published figures.

    python benchmarks/tensat.py [NETWORK ...]

Cost is modelled: a roofline of the GPU that TENSAT measured on (`tensorrt` in eqsat.cost.devices), where a split is a
view, as TASO takes it to be. Rules merge siblings, gates and sums (`eqsat.rules.merge`) and, as theirs do, fuse bias
and activation into convolutions and matrix products, here as composites. Gains are (before / after - 1) in %;
"fusing" is what fusing gains without any merging, "merging" the reverse. Theirs are of measured times, ours of the
model, so the columns compare rules and search, not machines. Seconds are processor time of one core.
Limits as in the paper: 50,000 e-nodes, 15 iterations.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import NamedTuple

from models import MODELS

import eqsat
from eqsat import extraction, rules
from eqsat.pipeline.problem import region_problem
from eqsat.pipeline.saturate import Saturation
from eqsat.relay.dataflow_pattern import DFPattern, is_op, wildcard
from eqsat.relay.expr import Function
from eqsat.rules.merge import merge

LIMITS = eqsat.Limits(iterations=15, nodes=50_000, seconds=60.0)


def kernels() -> Iterator[tuple[str, DFPattern]]:
    """Products with the bias and activation that they take along."""
    for name in ("nn.conv2d", "nn.dense"):
        product = is_op(name)(wildcard(), wildcard())
        biased = is_op("nn.bias_add")(product, wildcard())
        yield f"gpu.{name}_bias_relu", is_op("nn.relu")(biased)
        yield f"gpu.{name}_bias", biased
        yield f"gpu.{name}_relu", is_op("nn.relu")(product)


MERGING = rules.RuleSet("merging", [rules.fold, merge])
FUSING = eqsat.composite_rules(list(kernels()))
BOTH = MERGING + FUSING


class Published(NamedTuple):
    """Search seconds and gains in % of TENSAT and TASO, from the TENSAT paper (Yang et al., 2021)."""

    tensat_seconds: float
    taso_seconds: float
    tensat_gain: float
    taso_gain: float


PUBLISHED = {
    "BERT": Published(1.4, 13.6, 9.2, 8.5),
    "ResNeXt-50": Published(0.7, 25.3, 8.8, 5.5),
    "NasNet-A": Published(10.6, 1226.0, 7.3, 1.9),
    "NasRNN": Published(0.5, 177.0, 69.0, 45.0),
    "Inception-v3": Published(5.1, 68.6, 10.0, 6.3),
    "SqueezeNet": Published(0.3, 16.4, 24.5, 6.7),
    "VGG-19": Published(0.4, 8.9, 8.9, 8.9),
}


class Row(NamedTuple):
    """One network: seconds of each step, sizes, and gains in %."""

    name: str
    nodes: int
    stop: str
    saturate: float
    greedy: float
    exact: float
    greedy_gain: float
    exact_gain: float
    optimal: bool
    fusing_gain: float
    merging_gain: float


def measure(name: str, network: Function) -> Row:
    """Saturate and extract one network."""
    start = time.process_time()
    saturation = eqsat.saturate(network, BOTH, LIMITS)
    saturated = time.process_time() - start
    greedy_seconds, greedy_gain, _ = extract(saturation, "dag")
    exact_seconds, exact_gain, optimal = extract(saturation, "exact")
    fusing, merging = (extract(eqsat.saturate(network, each, LIMITS), "exact")[1] for each in (FUSING, MERGING))
    sizes = saturation.node_count, saturation.stop_reason
    seconds = saturated, greedy_seconds, exact_seconds
    return Row(name, *sizes, *seconds, greedy_gain, exact_gain, optimal, fusing, merging)


def extract(saturation: Saturation, method: str) -> tuple[float, float, bool]:
    """Seconds of the search, gain in %, whether it is proved best. The graph is not built: that would fold weights."""
    (region,), model = saturation.regions, extraction.Roofline("tensorrt")
    start = time.process_time()
    posed = region_problem(region, model)
    best = extraction.extract(posed.problem, method, incumbent=posed.incumbent, seconds=20.0)
    return time.process_time() - start, 100 * (posed.input_cost / best.cost - 1), best.optimal


def published(name: str) -> str:
    """The columns of the published figures, where there are any."""
    theirs = PUBLISHED.get(name)
    if theirs is None:
        return ""
    tensat = f"{theirs.tensat_seconds:>9.1f}{theirs.tensat_gain:>6.1f}"
    return f" | {tensat} | {theirs.taso_seconds:>7.1f}{theirs.taso_gain:>6.1f}"


def table(rows: list[Row]) -> str:
    """The rows beside the published figures."""
    head = f"{'network':<13}{'e-nodes':>8} {'stop':<10}{'saturate':>9}{'greedy':>8}{'exact':>7}"
    gains = f"{'greedy %':>10}{'exact %':>9}{'fusing':>9}{'merging':>9}"
    lines = [f"{head}{gains} | {'TENSAT s':>9}{'%':>6} | {'TASO s':>7}{'%':>6}"]
    for row in rows:
        search = f"{row.nodes:>8} {row.stop:<10}{row.saturate:>9.2f}{row.greedy:>8.2f}{row.exact:>7.2f}"
        gains = f"{row.greedy_gain:>10.1f}{row.exact_gain:>8.1f}{'*' if row.optimal else ' '}"
        parts = f"{row.fusing_gain:>9.1f}{row.merging_gain:>9.1f}"
        lines.append(f"{row.name:<13}{search}{gains}{parts}{published(row.name)}")
    return "\n".join([*lines, "* proved optimal for this e-graph"])


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("network", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    chosen = parser.parse_args().network
    print(table([measure(name, MODELS[name]()) for name in chosen]))


if __name__ == "__main__":
    main()
