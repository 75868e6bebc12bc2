"""Speed of matching, partitioning, rewriting, printing and parsing: time per node as graphs grow, beside Relay's own;
and the cases that Relay is slow on or ends in.

python benchmarks/relay_language.py [--largest NODES]
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import eqsat
from eqsat import relay
from eqsat.relay import transform
from eqsat.relay.dataflow_pattern import (
    DFPattern,
    DFPatternCallback,
    dominates,
    is_constant,
    is_elemwise,
    is_expr,
    is_op,
    rewrite,
    wildcard,
)
from eqsat.relay.visitor import post_order

RELAY = "Relay v0.18 C++"
RELAY_SECONDS: list[tuple[str, int, float]] = [
    ("partition conv-bias-relu", 5_004, 0.042),
    ("partition conv-bias-relu", 20_004, 0.212),
    ("partition conv-bias-relu", 50_004, 0.812),
    ("rewrite batch norms", 11_006, 0.206),
    ("rewrite plus zero", 2_002, 0.034),
    ("match at the root", 5_004, 0.0055),
]
"""Task, nodes and seconds measured for Relay v0.18's C++ implementation, graph building not counted."""


@dataclass(frozen=True)
class Task:
    """``build(repeats)`` makes a graph, ``run`` is timed on it, ``nodes`` of it belong to one repeat."""

    name: str
    build: Callable[[int], relay.Expr]
    run: Callable[[relay.Expr], Any]
    nodes: int


def conv_bias_relu(blocks: int) -> relay.Expr:
    """A chain of convolutions, each with a bias and an activation."""
    x, w, b = (relay.var(name) for name in "xwb")
    for _ in range(blocks):
        x = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w), b))
    return x


def batch_norms(layers: int) -> relay.Expr:
    x = relay.var("x")
    gamma, beta, mean, var = (relay.var(name) for name in ("gamma", "beta", "mean", "var"))
    for _ in range(layers):
        x = gamma * (x - mean) / relay.sqrt(var + relay.const(1e-5)) + beta
    return x


def plus_zeros(terms: int) -> relay.Expr:
    x = relay.var("x")
    for _ in range(terms):
        x = x + relay.const(0.0)
    return x


def diamonds(count: int) -> relay.Expr:
    x = relay.nn.conv2d(relay.var("x"), relay.var("w"))
    for _ in range(count):
        x = relay.nn.relu(x) + relay.tanh(x)
    return x


def sums_of_sums(depth: int) -> relay.Expr:
    x = relay.var("x")
    for _ in range(depth):
        x = x + x
    return x


def sums_pattern(depth: int) -> DFPattern:
    """A sum that the graph's shared sums nearly match: only the innermost operand does not."""
    pattern: DFPattern = is_constant()
    for _ in range(depth):
        pattern = pattern + wildcard()
    return pattern


def unary_chain(leaf: Any, call: Callable[[Any], Any], depth: int) -> Any:
    for _ in range(depth):
        leaf = call(leaf)
    return leaf


def lets(count: int) -> relay.Expr:
    body: relay.Expr = relay.var("z")
    for _ in range(count):
        body = relay.Let(relay.var("v"), relay.nn.relu(relay.tanh(relay.var("x"))), body)
    return body


def offloaded(regions: int) -> eqsat.IRModule:
    """A chain in which every other operator is for an external compiler: that many regions."""
    x = relay.var("x", shape=(2, 2))
    out = x
    for _ in range(regions):
        out = relay.tanh(relay.nn.relu(out))
    table = [("relu", is_op("nn.relu")(wildcard()))]
    mod = transform.InferType()(eqsat.IRModule.from_expr(relay.Function([x], out)))
    return transform.AnnotateTarget("t", pattern_table=table)(mod)


def typed_blocks(blocks: int) -> eqsat.IRModule:
    x, w, b = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(4, 4, 1, 1)), relay.var("b", shape=(4,))
    out = x
    for _ in range(blocks):
        out = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(out, w), b))
    return transform.InferType()(eqsat.IRModule.from_expr(relay.Function([x, w, b], out)))


def block_pattern() -> DFPattern:
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    return is_op("nn.relu")(is_op("nn.bias_add")(conv, wildcard()))


def diamond_pattern() -> DFPattern:
    path = is_elemwise | is_op("add")(wildcard(), wildcard())
    return dominates(is_op("nn.conv2d")(None), path, is_op("add")(wildcard(), wildcard()))


class BatchNorm(DFPatternCallback):
    def __init__(self) -> None:
        super().__init__()
        self.x, self.var, self.mean, self.beta, self.gamma = (wildcard() for _ in range(5))
        self.eps = is_constant()
        self.pattern = self.gamma * (self.x - self.mean) / is_op("sqrt")(self.var + self.eps) + self.beta

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        x, gamma, beta, mean, var, eps = (
            node_map[part][0] for part in (self.x, self.gamma, self.beta, self.mean, self.var, self.eps)
        )
        return relay.nn.batch_norm(x, gamma, beta, mean, var, epsilon=eps.data.numpy().item())[0]


class PlusZero(DFPatternCallback):
    def __init__(self) -> None:
        super().__init__()
        self.x = wildcard()
        self.pattern = self.x + (is_expr(relay.const(0)) | is_expr(relay.const(0.0)))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return node_map[self.x][0]


def match_everywhere(expr: relay.Expr) -> list[bool]:
    pattern = block_pattern()
    return [pattern.match(node) for node in post_order(expr)]


TASKS = [
    Task("partition conv-bias-relu", conv_bias_relu, lambda expr: block_pattern().partition(expr), 3),
    Task("rewrite batch norms", batch_norms, lambda expr: rewrite(BatchNorm(), expr), 7),
    Task("rewrite plus zero", plus_zeros, lambda expr: rewrite(PlusZero(), expr), 2),
    Task("match at the root", conv_bias_relu, lambda expr: block_pattern().match(expr), 3),
    Task("match at every node", conv_bias_relu, match_everywhere, 3),
    Task("region of stacked diamonds", diamonds, lambda expr: diamond_pattern().partition(expr), 3),
    Task("print", conv_bias_relu, lambda expr: expr.astext(), 3),
    Task("parse", conv_bias_relu, lambda expr: relay.parse_expr(text_of(expr)), 3),
]


@cache
def text_of(expr: relay.Expr) -> str:
    return expr.astext()


@dataclass(frozen=True)
class HardCase:
    """``build(size)`` gives what ``run`` is timed on; ``relay`` says for each size what Relay does there."""

    name: str
    relay: dict[int, str]
    build: Callable[[int], Any]
    run: Callable[[Any], Any]


SLOWER = "4 times more for every 2 levels"

HARD_CASES = [
    HardCase("diamonds below a region", {20: "0.5 s", 2_000: SLOWER}, diamonds, lambda e: diamond_pattern().match(e)),
    HardCase(
        "sums of shared sums",
        {20: "0.5 s", 2_000: SLOWER},
        lambda depth: (sums_of_sums(depth), sums_pattern(depth)),
        lambda pair: pair[1].match(pair[0]),
    ),
    HardCase("PartitionGraph, regions", {300: "125 s", 3_000: "not tried"}, offloaded, transform.PartitionGraph()),
    HardCase(
        "pattern of that depth",
        {30_000: "crashes over 16,000"},
        lambda depth: unary_chain(relay.var("x"), relay.tanh, depth),
        lambda expr: unary_chain(wildcard(), is_op("tanh"), 30_000).match(expr),
    ),
    HardCase(
        "region of that many nodes",
        {30_000: "crashes over 10,250"},
        lambda depth: relay.nn.relu(unary_chain(conv_bias_relu(1), relay.tanh, depth)),
        lambda e: is_op("nn.relu")(wildcard()).dominates(is_op("nn.conv2d")(None), wildcard()(None)).partition(e),
    ),
    HardCase(
        "lets in a chain",
        {30_000: "crashes over 6,500"},
        lets,
        is_op("nn.relu")(is_op("tanh")(wildcard())).partition,
    ),
    HardCase(
        "MergeComposite, nodes",
        {64_000: "over 60 s"},
        lambda nodes: typed_blocks(nodes // 3),
        transform.MergeComposite([("block", block_pattern())]),
    ),
]


def seconds(task: Task, nodes: int, repeats: int = 3) -> tuple[int, float]:
    """Number of nodes of the graph and best processor time over some runs."""
    expr = task.build(nodes // task.nodes)
    return len(post_order(expr)), best_of(repeats, lambda: task.run(expr))


def best_of(repeats: int, run: Callable[[], Any]) -> float:
    """The least processor time of some runs, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    """Print a table of times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="nodes of the largest graphs")
    largest: int = parser.parse_args().largest
    sizes = [size for size in (1_000, 10_000, 100_000) if size <= largest]
    print(f"{'microseconds per node':30}" + "".join(f"{size:>10,}" for size in sizes))
    for task in TASKS:
        figures = [seconds(task, size) for size in sizes]
        print(f"{task.name:30}" + "".join(f"{1e6 * best / count:10.2f}" for count, best in figures))
    print(f"\n{'milliseconds':30}{'nodes':>10}{'eqsat':>10}{RELAY:>18}{'ratio':>8}")
    tasks = {task.name: task for task in TASKS}
    for name, nodes, theirs in RELAY_SECONDS:
        count, ours = seconds(tasks[name], nodes, repeats=5)
        print(f"{name:30}{count:10,}{1e3 * ours:10.2f}{1e3 * theirs:18.2f}{ours / theirs:8.2f}")
    print(f"\n{'milliseconds':30}{'size':>10}{'eqsat':>10}  {RELAY}")
    for case in HARD_CASES:
        for size, theirs_told in case.relay.items():
            ours = best_of(1, partial(case.run, case.build(size)))
            print(f"{case.name:30}{size:10,}{1e3 * ours:10.2f}  {theirs_told}", flush=True)


if __name__ == "__main__":
    main()
