"""Extractors on extraction-gym files: cost against the best known, time of the greedy ones against plain fixpoints.

    python benchmarks/extraction_gym.py [--data DIR] [--sample N] [--without-cp-sat] [--seconds 5] [FILTER]

DIR, by default the sample in `tests/data`, holds `.json` or `.json.xz` files, at any depth. A `known_costs.tsv` there
names, for each `file`, the `best_known` cost, whether it is `proven` to be optimal, and the microseconds of the
published Rust extractors.

Some files of the gym name roots that are no class, since they were written with names from before classes were merged.
Such roots are left out, and a file without another root is not measured; the last lines say how many these are.
"""

from __future__ import annotations

import csv
import json
import lzma
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from eqsat.extraction import Problem, Result, auto, cp_sat, dag, exact, read_gym, tree

SAMPLE = Path(__file__).parents[1] / "tests" / "data" / "extraction-gym"
T = TypeVar("T")


@dataclass
class Row:
    """What was measured on one file; times in seconds."""

    name: str
    family: str
    known: dict[str, str]
    greedy: float
    auto: Result
    exact: Result | None
    tree_seconds: float
    dag_seconds: float
    tree_fixpoint: float
    dag_fixpoint: float | None

    @property
    def best_known(self) -> float:
        """The least cost that is known; NaN if none is."""
        return float(self.known.get("best_known") or "nan")


def tree_fixpoint(problem: Problem, limit: float) -> bool:
    """The plain way: sweep over all nodes, in the order given, until no class gets cheaper."""
    children, owner, cost = problem.children, problem.node_class.tolist(), problem.costs
    best = [math.inf] * problem.num_classes
    end = time.perf_counter() + limit
    changed = True
    while changed and time.perf_counter() < end:
        changed = False
        for node, kids in enumerate(children):
            price = cost[node] + sum(best[k] for k in kids)
            if price < best[owner[node]]:
                best[owner[node]] = price
                changed = True
    return not changed


def dag_fixpoint(problem: Problem, limit: float) -> bool:
    """The plain way: the same sweep with a dictionary of needed classes and their costs for every class."""
    children, owner, cost = problem.children, problem.node_class.tolist(), problem.costs
    needs: list[dict[int, float] | None] = [None] * problem.num_classes
    total = [math.inf] * problem.num_classes
    end = time.perf_counter() + limit
    changed = True
    while changed:
        changed = False
        for node, kids in enumerate(children):
            sets = [needs[k] for k in kids]
            index = owner[node]
            if time.perf_counter() > end:
                return False
            if any(s is None or index in s for s in sets):
                continue
            union = {index: cost[node]}
            for members in sets:
                union.update(members or {})
            price = sum(union.values())
            if price < total[index]:
                needs[index], total[index] = union, price
                changed = True
    return True


def with_classes(path: Path) -> tuple[Problem | None, int]:
    """The problem in a file with those roots that are classes, if there are any, and the number of the others."""
    content = path.read_bytes()
    data = json.loads(lzma.decompress(content) if path.suffix == ".xz" else content)
    classes = {node["eclass"] for node in data["nodes"].values()}
    roots = [root for root in data["root_eclasses"] if root in classes]
    missing = len(data["root_eclasses"]) - len(roots)
    if not missing:
        return read_gym(path), 0
    if not roots:
        return None, missing
    with tempfile.TemporaryDirectory() as folder:
        mended = Path(folder, "mended.json")
        mended.write_text(json.dumps(data | {"root_eclasses": roots}))
        return read_gym(mended), missing


def measure(
    path: Path, problem: Problem, known: dict[str, str], seconds: float, exact_seconds: float, limit: float
) -> Row:
    """Run the extractors and the plain fixpoints on one file.

    Args:
        path: The file.
        problem: What it holds.
        known: Its line in `known_costs.tsv`.
        seconds: The time for `auto`.
        exact_seconds: The time for `exact`, which is left out if this is 0.
        limit: The time for each plain fixpoint.
    """
    cheapest_tree, tree_seconds = timed(lambda: tree(problem))
    cheapest_dag, dag_seconds = timed(lambda: dag(problem))
    _, tree_plain = timed(lambda: tree_fixpoint(problem, limit))
    settled, dag_plain = timed(lambda: dag_fixpoint(problem, limit))
    greedy = min(cheapest_tree.cost, cheapest_dag.cost)
    proof = exact(problem, seconds=exact_seconds) if exact_seconds else None
    budgeted = auto(problem, seconds=seconds)
    plain = dag_plain if settled else None
    name, family = path.name, path.parent.name
    return Row(name, family, known, greedy, budgeted, proof, tree_seconds, dag_seconds, tree_plain, plain)


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """The value of a call and the seconds it took."""
    started = time.perf_counter()
    value = run()
    return value, time.perf_counter() - started


def report(row: Row) -> str:
    """One line about one file."""
    proof = row.exact or row.auto
    mark = "=" if math.isclose(row.auto.cost, row.best_known, rel_tol=1e-5) else " "
    return (
        f"{row.name[:44]:44} auto {row.auto.cost:11.7g} {mark} known {row.best_known:11.7g}  greedy {row.greedy:10.6g}"
        f"  bound {proof.lower_bound:11.7g} {'proved' if proof.optimal else 'open  '} {proof.seconds:6.2f} s"
        f"  tree {row.tree_seconds * 1e3:6.1f} ms  dag {row.dag_seconds * 1e3:7.1f} ms"
    )


def families(rows: list[Row]) -> Iterator[str]:
    """A line about the files of each folder."""
    for family in sorted({row.family for row in rows}):
        found = [row.auto for row in rows if row.family == family]
        seconds = [result.seconds for result in found]
        gap = max([(r.cost - r.lower_bound) / abs(r.cost) for r in found if r.cost], default=0.0)
        yield (
            f"{family:20} {len(found):4} files  auto proved {sum(r.optimal for r in found):4}, others up to {gap:4.0%} "
            f"above the bound  median {statistics.median(seconds):6.2f} s  longest {max(seconds):5.1f} s"
        )


def summary(rows: list[Row]) -> Iterator[str]:
    """The lines about all files."""
    positive = [r for r in rows if r.best_known > 0]
    if positive:
        ratios = [math.log(r.auto.cost / r.best_known) for r in positive]
        yield f"auto / best known, geometric mean over {len(positive)} graphs: {math.exp(statistics.mean(ratios)):.6f}"
    above = [r.name for r in rows if r.auto.cost > r.greedy + 1e-9 * abs(r.greedy)]
    yield f"auto above the better greedy: {above or 'never'}"
    yield f"auto proved {sum(r.auto.optimal for r in rows)} of {len(rows)} within its budget"
    proofs = [r.exact for r in rows if r.exact is not None and r.known.get("proven", "") != "no"]
    if proofs:
        done = [p.seconds for p in proofs if p.optimal]
        middle = statistics.median(done) if done else math.nan
        yield f"proved {len(done)} of {len(proofs)} that are known to be provable; median {middle:.3f} s"
    plain = sum(r.tree_fixpoint for r in rows)
    yield f"tree / plain fixpoint: {sum(r.tree_seconds for r in rows) / plain:.3f} (both over all files)"
    settled = [r for r in rows if r.dag_fixpoint is not None]
    plain = sum(r.dag_fixpoint or 0.0 for r in settled)
    ours = sum(r.dag_seconds for r in settled)
    yield f"dag / plain fixpoint: {ours / plain:.3f} (over {len(settled)} files on which the fixpoint ended in time)"
    for ours, column in (("tree_seconds", "rust_tree_us"), ("dag_seconds", "rust_greedydag_us")):
        timed_rows = [r for r in rows if r.known.get(column)]
        if timed_rows:
            rust = sum(float(r.known[column]) for r in timed_rows) / 1e6
            here = sum(getattr(r, ours) for r in timed_rows)
            yield f"{ours.split('_')[0]}: {here:.3f} s; {column} as recorded: {rust:.3f} s"


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), default=SAMPLE)
@click.option("--seconds", default=5.0, show_default=True, help="Budget of auto for each file.")
@click.option("--exact-seconds", default=60.0, show_default=True, help="Budget of exact; 0 leaves it out.")
@click.option("--limit", default=10.0, show_default=True, help="Seconds after which a plain fixpoint is given up.")
@click.option("--sample", type=int, help="Measure so many files, drawn at random; by default all.")
@click.option("--seed", default=0, show_default=True, help="Seed of the draw.")
@click.option("--without-cp-sat", is_flag=True, help="Prove with HiGHS alone.")
@click.argument("pattern", default="")
def main(
    data: Path,
    seconds: float,
    exact_seconds: float,
    limit: float,
    sample: int | None,
    seed: int,
    without_cp_sat: bool,
    pattern: str,
) -> None:
    """Measure files and print the results."""
    if without_cp_sat:
        cp_sat.available = lambda: False
    table = data / "known_costs.tsv"
    known = {}
    if table.exists():
        with table.open() as lines:
            known = {row["file"]: row for row in csv.DictReader(lines, delimiter="\t")}
    rows, without_root, with_fewer = [], 0, 0
    paths = [path for path in sorted([*data.rglob("*.json"), *data.rglob("*.json.xz")]) if pattern in str(path)]
    if sample is not None:
        paths = sorted(random.Random(seed).sample(paths, min(sample, len(paths))))
    for path in paths:
        problem, missing = with_classes(path)
        if problem is None:
            without_root += 1
            continue
        with_fewer += missing > 0
        rows.append(measure(path, problem, known.get(path.name, {}), seconds, exact_seconds, limit))
        click.echo(report(rows[-1]))
    for line in (*families(rows), *summary(rows)):
        click.echo(line)
    click.echo(f"{with_fewer} files measured without some of their roots, which are no class; {without_root} left out")


if __name__ == "__main__":
    main()
