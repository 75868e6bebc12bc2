"""What eqsat adds to egglog: thirty rules on a graph of 10,000 operators, beside the same in hand-written egglog.

The hand-written program has no types, attributes, reports or limits: tables are loaded from files, all rules run
until nothing changes, rows are read back. Also measured: time per node as graphs grow, and memory per e-node.

    python benchmarks/overhead.py [--nodes 10000 100000] [--memory 100000] [--repeat 9]
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from statistics import median
from typing import Any

import egglog.bindings as egglog
import numpy as np

import eqsat
from eqsat import relay
from eqsat.egraph.author import rewrite, variables
from eqsat.memory import resident_bytes
from eqsat.relay.expr import Call, Expr, Var
from eqsat.relay.visitor import post_order

UNARY = ["nn.relu", "abs", "negative", "exp", "log", "floor", "ceil", "round", "sign", "tanh", "sqrt"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]

RULES = """
(nn.relu (nn.relu x)) = (nn.relu x)
(abs (abs x)) = (abs x)
(floor (floor x)) = (floor x)
(ceil (ceil x)) = (ceil x)
(round (round x)) = (round x)
(sign (sign x)) = (sign x)
(negative (negative x)) = x
(log (exp x)) = x
(exp (log x)) = x
(abs (negative x)) = (abs x)
(nn.relu (abs x)) = (abs x)
(abs (nn.relu x)) = (nn.relu x)
(nn.relu (exp x)) = (exp x)
(abs (exp x)) = (exp x)
(floor (ceil x)) = (ceil x)
(ceil (floor x)) = (floor x)
(round (floor x)) = (floor x)
(floor (round x)) = (round x)
(maximum x x) = x
(minimum x x) = x
(maximum x (minimum x y)) = x
(minimum x (maximum x y)) = x
(add x (negative y)) = (subtract x y)
(subtract x (negative y)) = (add x y)
(negative (subtract x y)) = (subtract y x)
(subtract (add x y) y) = x
(add (subtract x y) y) = x
(multiply (exp x) (exp y)) = (exp (add x y))
(sqrt (multiply x x)) = (abs x)
(multiply (abs x) (abs x)) = (multiply x x)
"""

COMMUTED = """
(add (negative y) x) = (subtract x y)
(subtract (add y x) y) = x
(add y (subtract x y)) = x
(multiply (exp y) (exp x)) = (exp (add x y))
"""
"""Relay's patterns of sums and products match in either order."""

LIMITS = eqsat.Limits(iterations=100, nodes=10**7, seconds=600)


def graph(nodes: int, seed: int = 0) -> Expr:
    """A random graph of so many operators on matrices, all of them reachable."""
    rng = np.random.default_rng(seed)
    pool: list[Expr] = [relay.var(f"x{i}", shape=(8, 8)) for i in range(8)]
    unused = [*pool]
    for _ in range(nodes):
        first = unused.pop(0) if len(unused) > 8 else pool[-1 - int(rng.integers(min(len(pool), 30)))]
        second = pool[-1 - int(rng.integers(min(len(pool), 30)))]
        if rng.random() < 0.6:
            pool.append(Call(relay.op.get(UNARY[int(rng.integers(len(UNARY)))]), [first]))
        else:
            pool.append(Call(relay.op.get(BINARY[int(rng.integers(len(BINARY)))]), [first, second]))
        unused.append(pool[-1])
    return relay.Tuple(unused)


# ---- ours


def parse(text: str) -> tuple[object, ...]:
    """An S-expression as nested tuples."""
    stack: list[list[object]] = [[]]
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            stack.append([])
        elif token == ")":
            done = tuple(stack.pop())
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return tuple(stack[0])


def our_rules() -> list[object]:
    """The rules in eqsat's language."""
    x, y = variables("x y")
    found = []
    for index, line in enumerate(RULES.strip().splitlines()):
        left, right = (_pattern(parse(side)[0], {"x": x, "y": y}) for side in line.split(" = "))
        found.append(rewrite(f"rule {index}", left, right))
    return found


def _pattern(term: object, names: dict[str, object]) -> object:
    if isinstance(term, str):
        return names[term]
    head, *args = term  # type: ignore[misc]
    return relay.dataflow_pattern.is_op(head)(*[_pattern(arg, names) for arg in args])


# ---- by hand


def by_hand(root: Expr) -> dict[str, float]:
    """Seconds of loading, running and reading back in plain egglog; e-nodes at the end."""
    start = time.perf_counter()
    engine = egglog.EGraph()

    def run(text: str) -> list[object]:
        return engine.run_program(*engine.parse_program(text))

    span = egglog.RustSpan("by hand", 0, 0)
    run("(sort E) (constructor N (i64) E) (constructor leaf (i64) E) (relation in_leaf (i64 i64)) (ruleset load)")
    run("(rule ((in_leaf i v)) ((union (N i) (leaf v))) :ruleset load)")
    for name in UNARY:
        run(f"(constructor o_{name} (E) E) (relation in_{name} (i64 i64))")
        run(f"(rule ((in_{name} i a)) ((union (N i) (o_{name} (N a)))) :ruleset load)")
    for name in BINARY:
        run(f"(constructor o_{name} (E E) E) (relation in_{name} (i64 i64 i64))")
        run(f"(rule ((in_{name} i a b)) ((union (N i) (o_{name} (N a) (N b)))) :ruleset load)")
    rows: dict[str, list[str]] = {}
    handles: dict[Expr, int] = {}
    for node in post_order(root, children=lambda node: node.args if isinstance(node, Call) else node.children()):
        handles[node] = handle = len(handles)
        if isinstance(node, Call):
            cells = [handle, *[handles[arg] for arg in node.args]]
            rows.setdefault(f"in_{node.op.name}", []).append("\t".join(map(str, cells)))
        elif isinstance(node, Var):
            rows.setdefault("in_leaf", []).append(f"{handle}\t{handle}")
    with tempfile.TemporaryDirectory() as folder:
        for table, lines in rows.items():
            path = os.path.join(folder, "facts")
            with open(path, "w") as file:
                file.write("\n".join(lines) + "\n")
            engine.run_program(egglog.Input(span, table, path))
    engine.run_program(egglog.RunSchedule(egglog.Run(span, egglog.RunConfig("load"))))
    loaded = time.perf_counter()
    run("(ruleset rules)")
    for line in (RULES.strip() + COMMUTED.rstrip()).splitlines():
        left, right = (side.replace("(", "(o_") for side in line.split(" = "))
        run(f"(rewrite {left} {right} :ruleset rules)")
    engine.run_program(egglog.RunSchedule(egglog.Saturate(span, egglog.Run(span, egglog.RunConfig("rules")))))
    saturated = time.perf_counter()
    functions = engine.freeze().functions
    numbers: dict[object, int] = {}
    children: list[list[int]] = []
    for table in [*[f"o_{name}" for name in UNARY + BINARY], "leaf"]:
        for row in functions[table].rows:
            numbers.setdefault(row.output, len(numbers))
            below = row.inputs if table != "leaf" else []
            children.append([numbers.setdefault(value, len(numbers)) for value in below])
    end = time.perf_counter()
    return {
        "lower": loaded - start,
        "saturate": saturated - loaded,
        "snapshot": end - saturated,
        "nodes": len(children),
    }


def ours(root: Expr, rules: list[object]) -> dict[str, float]:
    """The same in eqsat, type inference left out."""
    saturation = eqsat.saturate(root, rules, LIMITS)
    if saturation.stop_reason != "saturated":
        raise SystemExit(f"stopped by {saturation.stop_reason}")
    phases = saturation.report.phases
    return {**{phase: phases[phase] for phase in ("lower", "saturate", "snapshot")}, "nodes": saturation.node_count}


def compare(nodes: int, repeat: int) -> None:
    """Print both, phase by phase."""
    root, rules = graph(nodes), our_rules()
    hand, mine = [], []
    for _ in range(repeat):
        gc.collect()
        hand.append(by_hand(root))
        gc.collect()
        mine.append(ours(root, rules))
    print(f"{nodes} operators, {len(rules)} rules; median of {repeat}, seconds")
    print(f"{'':10}{'egglog by hand':>16}{'eqsat':>10}{'ratio':>8}")
    totals = [0.0, 0.0]
    for phase in ("lower", "saturate", "snapshot"):
        a, b = median(run[phase] for run in hand), median(run[phase] for run in mine)
        totals = [totals[0] + a, totals[1] + b]
        print(f"{phase:10}{a:16.3f}{b:10.3f}{b / a:8.2f}")
    print(f"{'total':10}{totals[0]:16.3f}{totals[1]:10.3f}{totals[1] / totals[0]:8.2f}")
    print(f"e-nodes   {hand[0]['nodes']:16.0f}{mine[0]['nodes']:10.0f}")
    print()


def growth() -> None:
    """Print the time per node of a chain as it grows."""
    print("chain of n operators, one rule: microseconds a node (snapshot: an e-node)")
    x = variables("x")[0]
    rule = rewrite("relu", relay.nn.relu(relay.nn.relu(x)), relay.nn.relu(x))
    for size in (1_000, 10_000, 100_000):
        expr: Expr = relay.var("x", shape=(8, 8))
        for index in range(size):
            expr = relay.tanh(expr) if index % 2 else relay.nn.relu(expr)
        saturation = eqsat.saturate(expr, [rule])
        phases, rows = saturation.report.phases, saturation.node_count
        cells = "".join(f"  {phase} {phases[phase] / size * 1e6:6.2f}" for phase in ("lower", "saturate"))
        print(f"{size:8}{cells}  snapshot {phases['snapshot'] / rows * 1e6:6.2f}")


def _held(who: str, nodes: int) -> tuple[float, float]:
    """Bytes for each e-node that this process holds at its peak, and when the result is there, beyond the start's."""
    few, root, rules = graph(1_000), graph(nodes), our_rules()
    run = {"egglog by hand": by_hand, "eqsat": lambda expr: eqsat.saturate(expr, rules, LIMITS)}[who]
    run(few)  # libraries and rules are loaded
    gc.collect()
    before = resident_bytes()
    result: Any = run(root)
    held, peak = resident_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    count = result["nodes"] if isinstance(result, dict) else result.node_count
    return (peak - before) / count, (held - before) / count


def memory(sizes: Sequence[int]) -> None:
    """Print what an e-node takes: at the peak, and with the result alone."""
    print("memory: bytes of the process's growth for each e-node")
    print(f"{'operators':>10}  {'':15}{'peak':>8}{'held':>8}")
    for size in sizes:
        for who in ("egglog by hand", "eqsat"):
            with get_context("spawn").Pool(1) as pool:  # a process has one peak
                peak, held = pool.apply(_held, (who, size))
            print(f"{size:10}  {who:15}{peak:8.0f}{held:8.0f}")
    print()


def main() -> None:
    """Print what each part measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--memory", type=int, nargs="*", default=[100_000, 400_000])
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    memory(options.memory)
    for nodes in options.nodes:
        compare(nodes, options.repeat)
    growth()


if __name__ == "__main__":
    main()
