"""Ways of writing the same computation: how many tiny models reach the best known form.

``python benchmarks/variants.py [FOLDER] [--family NAME]`` optimizes every model of a folder, whose ``ideal.tsv`` names
the goal of each, and compares the outputs with those of the model as it was.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import eqsat.onnx
from eqsat import rules
from eqsat.onnx.verification import differing

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "variants"
OPT_IN = {"algebra": rules.finite, "qkv_merge": rules.merge}
"""What the goals of a family need beyond the default rules: real numbers only; merging products."""
COUNTED = {
    "nodes": None,
    "transpose_or_reshape_nodes": ("Transpose", "Reshape"),
    "matmul_or_gemm_nodes": ("MatMul", "Gemm"),
}


@dataclass(frozen=True)
class Outcome:
    """What became of one model; ``seconds`` of processor time."""

    file: str
    family: str
    goal: int
    left: int
    operators: str
    correct: bool
    seconds: float
    stop_reason: str

    @property
    def reached(self) -> bool:
        """Whether the result is as good as the goal."""
        return self.left <= self.goal and self.correct


def outcomes(folder: Path, family: str | None = None) -> Iterable[Outcome]:
    """Optimize the models of ``folder``, of one family or of all."""
    with open(folder / "ideal.tsv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if family in (None, row["family"])]
    for row in rows:
        yield optimize(folder / row["file"], row["family"], row["goal_kind"], int(row["goal"]))


def optimize(path: Path, family: str, kind: str, goal: int) -> Outcome:
    """Optimize one model and check it."""
    model = eqsat.onnx.load(path)
    chosen = rules.default + OPT_IN[family] if family in OPT_IN else rules.default
    start = time.process_time()
    done = eqsat.onnx.run(model, rules=chosen)
    seconds = time.process_time() - start
    kinds = Counter(node.op_type for node in done.after.graph if node.op_type not in ("Constant", "Identity"))
    wanted = COUNTED[kind]
    left = sum(count for name, count in kinds.items() if wanted is None or name in wanted)
    correct = not differing(eqsat.onnx.verify(path, done.after, mistakes=0), 1e-3)
    names = " ".join(f"{name}*{count}" for name, count in sorted(kinds.items()))
    return Outcome(path.name, family, goal, left, names, correct, seconds, done.extraction.report.stop_reason)


def main() -> None:
    """Optimize the models of a folder and print how many reach their goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--family")
    arguments = parser.parse_args()
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes(arguments.folder, arguments.family):
        found.setdefault(outcome.family, []).append(outcome)
        if not outcome.reached or outcome.seconds > 1:
            verdict = "" if outcome.correct else "WRONG "
            print(
                f"{outcome.file:<22} {verdict}{outcome.left} left, goal {outcome.goal}, {outcome.seconds:.2f} s,"
                f" {outcome.stop_reason}: {outcome.operators}"
            )
    print(f"{'family':<16} reached   of  wrong  slowest")
    for family, some in [*found.items(), ("all", [one for each in found.values() for one in each])]:
        print(
            f"{family:<16} {sum(one.reached for one in some):7} {len(some):4} {sum(not one.correct for one in some):6}"
            f"  {max(one.seconds for one in some):.2f} s"
        )


if __name__ == "__main__":
    main()
