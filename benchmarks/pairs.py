"""What ``eqsat equal`` takes for pairs of models: processor time, and the most memory that the process has at a time.

    python benchmarks/pairs.py A.onnx B.onnx [A.onnx B.onnx ...]

Each pair is compared in a process of its own, as on the command line. The exit code is 0 if all are proved equal within
the goals, which models of the size of BERT-base and ResNet-50 are to meet.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

SECONDS, BYTES = 10.0, 1.5e9
"""The goals."""


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
def main(models: tuple[Path, ...]) -> None:
    """Compare each two models that follow each other."""
    if len(models) % 2:
        raise click.UsageError("give pairs of models")
    is_good = True
    for first, second in zip(models[::2], models[1::2], strict=True):
        run = [sys.executable, __file__, "--one", str(first), str(second)]
        found = json.loads(subprocess.run(run, capture_output=True, check=True, text=True).stdout)
        is_good &= found["answer"] == "equal" and found["seconds"] <= SECONDS and found["bytes"] <= BYTES
        told = f"{found['seconds']:.1f} s of processor time, {found['bytes'] / 1e9:.2f} GB"
        click.echo(f"{first.name} and {second.name}: {found['answer']}, {told}")
    sys.exit(not is_good)


def compared(first: str, second: str) -> dict[str, Any]:
    """The answer for two models, and what it took."""
    import eqsat.onnx

    found = eqsat.onnx.equal(first, second)
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024
    return {"answer": found.answer, "seconds": used.ru_utime + used.ru_stime, "bytes": used.ru_maxrss * unit}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        click.echo(json.dumps(compared(*sys.argv[2:])))
    else:
        main()
