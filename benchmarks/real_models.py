"""Real networks through the command line: ``eqsat optimize`` on ResNet-50 with random weights, and on magika's, as it
is and for a newer opset under more rules (its bytes are in range, and nothing in it is infinite).

    python benchmarks/real_models.py [--keep DIR]

Prints what the command prints (nodes, cost, rules, times, difference of outputs under onnxruntime), and the time of the
whole command as a multiple of that of ``import onnx``, loading and saving the same file. Exits with 1 when a claim
that is printed as such does not hold.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import onnx
from filled_models import fill_weights, light_model

_TOLERANCE = "1e-4"
_EQSAT = str(Path(sys.executable).with_name("eqsat"))
_LOAD_AND_SAVE = "import sys, onnx; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])"


@dataclass(frozen=True)
class Claim:
    """What must hold of an optimized model.

    Args:
        most_nodes: it has no more, constants left out.
        absent: operators that it has none of.
        options: of the command that optimizes it.
    """

    most_nodes: int
    absent: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def failures(self, path: Path) -> list[str]:
        """What does not hold of the model at ``path``."""
        counts = Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)
        del counts["Constant"]
        found = [f"{counts[op_type]} {op_type} are left" for op_type in self.absent if counts[op_type]]
        if counts.total() > self.most_nodes:
            found.append(f"{counts.total()} nodes, more than {self.most_nodes}")
        return found


CLAIMS = {
    "resnet50": Claim(most_nodes=123, absent=("BatchNormalization",)),  # 123: onnxsim, onnxslim, onnxruntime basic
    "magika": Claim(most_nodes=59),  # of 95; no other tool that was tried leaves less than 92
    "magika-newer": Claim(
        most_nodes=13,
        options=("--opset", "20", "--rules", "default", "--rules", "finite", "--rules", "in_range"),
    ),
}


@click.command(help=__doc__)
@click.option("--keep", type=click.Path(path_type=Path), help="A folder to leave the models in.")
def main(keep: Path | None) -> None:
    """Optimize the networks and print what comes out."""
    with TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        failures = [failure for name, path in _models(folder) for failure in _show(name, path, folder)]
    for failure in failures:
        click.echo(f"FAILED {failure}", err=True)
    sys.exit(bool(failures))


def _models(folder: Path) -> list[tuple[str, Path]]:
    """Each network's name and file."""
    resnet = folder / "resnet50.onnx"
    if not resnet.exists():
        onnx.save(fill_weights(onnx.load(light_model("resnet50"))), resnet)
    return [("resnet50", resnet), ("magika", magika_model()), ("magika-newer", magika_model())]


def magika_model() -> Path:
    """The path of the trained network in the installed magika package."""
    spec = find_spec("magika")
    if spec is None or spec.origin is None:
        raise click.ClickException("magika is not installed: pip install magika==1.0.3")
    return sorted(Path(spec.origin).parent.glob("models/*/model.onnx"))[-1]


def _show(name: str, source: Path, folder: Path) -> list[str]:
    """Optimize one network, print what happens, and return what fails."""
    target = folder / f"{name}_optimized.onnx"
    options = CLAIMS[name].options
    told = " ".join([source.name, target.name, *options])
    click.echo(f"\n== {name}: eqsat optimize {told} --verify 2 --tolerance {_TOLERANCE}")
    command = [_EQSAT, "optimize", str(source), str(target), *options]
    _seconds([*command, "--verify", "2", "--tolerance", _TOLERANCE])
    optimize = _seconds([*command, "--json"], quiet=True)
    copy = _seconds([sys.executable, "-c", _LOAD_AND_SAVE, str(source), str(folder / "copy.onnx")])
    ratio = optimize[1] / copy[1]
    click.echo(
        f"whole command without --verify: {optimize[0]:.2f} s, {optimize[1]:.2f} s of CPU; "
        f"import onnx, load, save: {copy[0]:.2f} s, {copy[1]:.2f} s of CPU; ratio {ratio:.1f}"
    )
    return [f"{name}: {failure}" for failure in CLAIMS[name].failures(target)]


def _seconds(command: Sequence[str], quiet: bool = False) -> tuple[float, float]:
    """Run a command and return its seconds by the clock and of the CPU."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    sys.stdout.flush()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quiet else None)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return end - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
