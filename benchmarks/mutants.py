"""How many mistakes ``eqsat optimize --verify`` catches, and whether it lets every good model through.

    python benchmarks/mutants.py [--runs N] [--mutants N] [--wheels FOLDER] [MODEL.onnx or FOLDER ...]

Without models: the onnx package's networks with seeded random weights, and magika's; with ``--wheels`` also those of
public wheels, which pip downloads to that folder unless they are there.

Each model is optimized, and the result compared with it as the command does: it must be let through. Then one tensor of
the result at a time is made wrong, of all float tensors of more than one element: the whole tensor, one row, or a
vector such as a bias, times 1.5 and, where it is 0, plus a half. The comparison has to find that the model differs.

A mutant that passes is tried on ten times as many inputs of another seed. If these do not tell it either, it counts as
*unseen*: a bias before a normalization, a row of a table that nothing takes, a filter whose channel is never above 0.
If they do, it was *missed*.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import onnx_ir as ir
from public_models import installed_models, wheel_models

import eqsat.onnx
from eqsat.errors import EqsatError
from eqsat.onnx.graphs import graphs_of
from eqsat.onnx.sensitivity import wrong

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
GOAL = 0.98


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="As --verify.")
@click.option("--mutants", type=click.IntRange(min=1), default=3, show_default=True, help="Of each model.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--wheels", type=click.Path(path_type=Path), help="A folder for the models of public wheels.")
def main(models: tuple[Path, ...], runs: int, mutants: int, seed: int, wheels: Path | None) -> None:
    """Count the mutants that are caught."""
    total: Counter[str] = Counter()
    with TemporaryDirectory() as temporary:
        for number, path in enumerate(_paths(models, wheels, Path(temporary))):
            try:
                found = count(path, runs, mutants, np.random.default_rng([seed, number]))
            except EqsatError as error:
                click.echo(f"{path.name}: left out: {error}")
                total["left out"] += 1
                continue
            total += found
    tried = total["caught"] + total["missed"]
    share = total["caught"] / tried if tried else 1.0
    click.echo(
        f"\n{total['models']} models: {total['caught']} of {tried} mutants caught, {100 * share:.1f} %; and "
        f"{total['unseen']} that no output shows; {total['refused']} good models refused, {total['silent']} of which "
        f"something is not proved, {total['left out']} left out"
    )
    sys.exit(bool(total["refused"]) or share < GOAL)


def _paths(models: Iterable[Path], wheels: Path | None, folder: Path) -> list[Path]:
    paths = [path for each in models for path in (sorted(each.glob("*.onnx")) if each.is_dir() else [each])]
    if not paths:
        paths = installed_models(folder)
    return paths if wheels is None else [*paths, *wheel_models(wheels)]


def count(path: Path, runs: int, mutants: int, random: np.random.Generator) -> Counter[str]:
    """What becomes of a model and of its mutants."""
    after = eqsat.onnx.optimize(path)
    start = time.perf_counter()
    good = eqsat.onnx.verify(path, after, runs)
    seconds = time.perf_counter() - start
    refused = eqsat.onnx.differing(good)
    found = Counter({"models": 1, "refused": bool(refused), "silent": bool(good.silent)})
    told = [f"refused: {each.output} {each.relative:.1e}, {each.excess:.1f} times what is allowed" for each in refused]
    told += [f"{output or 'all'}: {reason}" for output, reason in good.silent.items()]
    for what in broken(after, mutants, random):
        outcome = judged(path, after, runs)
        found[outcome] += 1
        told += [] if outcome == "caught" else [f"{outcome}: {what}"]
    share = f"{good.sensitivity.noticed}/{good.sensitivity.tried}"
    excess = max((each.excess for each in good), default=0.0)
    click.echo(
        f"{path.name}: {found['caught']} caught, {found['missed']} missed, {found['unseen']} unseen; verify "
        f"{seconds:.1f} s, its own mistakes {share}, the good one at {excess:.2f} of what is allowed; {good.inputs}"
    )
    for line in told:
        click.echo(f"    {line}")
    return found


def judged(path: Path, mutant: ir.Model, runs: int) -> str:
    """Whether a mutant is caught."""
    try:
        if eqsat.onnx.differing(eqsat.onnx.verify(path, mutant, runs, mistakes=0)):
            return "caught"
        more = eqsat.onnx.verify(path, mutant, 10 * runs, seed=1, mistakes=0)
    except EqsatError:  # it does not even run
        return "caught"
    return "missed" if eqsat.onnx.differing(more) else "unseen"


def broken(model: ir.Model, number: int, random: np.random.Generator) -> Iterator[str]:
    """Make one tensor wrong after the other, each while its description is looked at."""
    values = [value for graph in graphs_of(model.graph) for value in graph.initializers.values()]
    tensors = [value for value in values if value.const_value is not None and value.const_value.size > 1]
    weights = [value for value in tensors if value.const_value.dtype in _FLOATS]
    for index in random.permutation(len(weights))[:number].tolist():
        value = weights[index]
        tensor = value.const_value
        array = tensor.numpy()
        whole = array.ndim < 2 or bool(random.random() < 0.5)
        changed = wrong(array.ravel(), random).reshape(array.shape) if whole else wrong(array, random)
        if np.array_equal(array, changed, equal_nan=True):  # all of it stands for infinity
            continue
        value.const_value = ir.Tensor(changed, name=value.name)
        yield f"{value.name} {list(array.shape)}, {'whole' if whole else 'one row'}"
        value.const_value = tensor


if __name__ == "__main__":
    main()
