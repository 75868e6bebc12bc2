"""Single faults in models: does ``eqsat equal`` take any for equal, and does it name the node that is wrong?

    python benchmarks/equal.py [--faults N] [--seed N] [--part K/N] [--others FOLDER] [MODEL.onnx or FOLDER ...]

Without models: those of ``tests/data/spellings`` and ``tests/data/exports``. Each fault is made in the very model, in
what eqsat makes of it and, with ``--others``, in what other tools made of it: files of that folder that have its name
before ``.sim.onnx`` or ``.slim.onnx``. The model is compared with each. Beside it stands what one has without: the
outputs on one random input in onnxruntime, by ``numpy.allclose(rtol=1e-3, atol=1e-5)``, which names no node.

A fault is *named* if a node is told that has it: the wrong node or, where what is wrong is that it does nothing, one
that uses its operand, or its like in the very model; *alone* if nothing else is told. One that no output shows, even in
double precision, such as a bias before a softmax, is *harmless*: it counts in no goal unless it is taken for equal by
mistake. Each model is compared with itself, too.

Each fault is told in a line as soon as it is judged. ``--part 2/6`` takes the second of six shares of the models, with
the faults that they have in the whole run.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click
import numpy as np
import onnx
from faults import Fault, drawn
from spellings import computed, session_of

import eqsat.onnx
from eqsat.egraph.report import Limits
from eqsat.equality.compare import Comparison
from eqsat.equality.constants import WITHIN_ROUNDING
from eqsat.equality.joining import join
from eqsat.equality.result import Equality
from eqsat.equality.rounding import leaves
from eqsat.errors import EqsatError
from eqsat.onnx.feeds import runnable_inputs
from eqsat.onnx.files import to_proto
from eqsat.onnx.imported import Origin
from eqsat.onnx.importer import import_model
from eqsat.pipeline.options import Options

DATA = Path(__file__).parents[1] / "tests" / "data"
NOTHING = ("activation removed", "bias dropped", "another operand")
"""Kinds of faults after which a node gives what another one does."""

GOAL = 0.95
"""The share of faults whose node is to be named."""


@dataclass(frozen=True)
class Form:
    """A form of a model: as it is, or what a tool made of it."""

    name: str
    model: onnx.ModelProto
    values: dict[str, np.ndarray]


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--faults", type=click.IntRange(min=1), default=200, show_default=True, help="In each form, in all models."
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--others", type=click.Path(path_type=Path, exists=True), help="A folder of what other tools made.")
@click.option("--seconds", type=float, default=30.0, show_default=True, help="Time limit of each comparison.")
@click.option("--part", default="1/1", show_default=True, help="Which share of the models.", metavar="K/N")
@click.option("--form", "wanted", multiple=True, help="Only these forms: itself, eqsat, sim, slim.")
def main(
    models: tuple[Path, ...],
    faults: int,
    seed: int,
    others: Path | None,
    seconds: float,
    part: str,
    wanted: tuple[str, ...],
) -> None:
    """Count the faults that are found."""
    paths = [path for each in models for path in (sorted(each.glob("*.onnx")) if each.is_dir() else [each])]
    paths = paths or sorted([*DATA.glob("spellings/*.onnx"), *DATA.glob("exports/*.onnx")])
    total: dict[str, Counter[str]] = defaultdict(Counter)
    start = time.process_time()
    turn, parts = map(int, part.split("/"))
    for number, path in list(enumerate(paths))[turn - 1 :: parts]:
        share = faults * (number + 1) // len(paths) - faults * number // len(paths)
        try:
            given = to_proto(eqsat.onnx.load(path))
            session = session_of(given)
            feed = next(runnable_inputs(eqsat.onnx.load(given), session, np.random.default_rng(0)))
            itself = eqsat.onnx.equal(given, given, limits=Limits(seconds=seconds))
        except EqsatError as error:
            click.echo(f"{path.name}: left out: {error}")
            continue
        total["itself"]["equal to itself" if itself else "not equal to itself"] += 1
        outputs = session.run(None, feed)
        for form in _forms(path, given, feed, others):
            if wanted and form.name not in wanted:
                continue
            candidates = drawn(form.model, form.values, np.random.default_rng([seed, number]))
            for found in islice(_judged(path, given, form, candidates, feed, outputs, seconds), share):
                total[form.name] += found
    for name, counts in total.items():
        _show(name, counts)
    click.echo(f"{time.process_time() - start:.0f} seconds of processor time")
    sys.exit(not all(map(_is_good, total.values())))


def _forms(path: Path, given: onnx.ModelProto, feed: dict[str, np.ndarray], others: Path | None) -> Iterator[Form]:
    models = {"itself": given, "eqsat": to_proto(eqsat.onnx.optimize(path))}
    for tool in ("sim", "slim"):
        made = None if others is None else others / f"{path.stem}.{tool}.onnx"
        if made is not None and made.exists():
            models[tool] = to_proto(eqsat.onnx.load(made))
    for name, model in models.items():
        values = computed(eqsat.onnx.load(model), _renamed(feed, model))
        yield Form(name, model, {each.name: each.value for each in values.values()})


def _renamed(feed: dict[str, np.ndarray], model: onnx.ModelProto) -> dict[str, np.ndarray]:
    constants = {each.name for each in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in constants]
    return feed if set(names) == set(feed) else dict(zip(names, feed.values(), strict=True))


def _judged(
    path: Path,
    given: onnx.ModelProto,
    form: Form,
    faults: Iterator[Fault],
    feed: dict[str, np.ndarray],
    outputs: list[np.ndarray],
    seconds: float,
) -> Iterator[Counter[str]]:
    """What is found of each fault."""
    for fault in faults:
        faulty = fault.made(form.model)
        try:
            results = session_of(faulty).run(None, _renamed(feed, faulty))
        except Exception:  # it is no model: onnxruntime has exceptions of its own for each reason
            continue
        if any(np.shape(one) != np.shape(other) for one, other in zip(outputs, results, strict=True)):
            continue
        start = time.process_time()
        try:
            found = eqsat.onnx.equal(given, faulty, limits=Limits(seconds=seconds))
        except EqsatError as error:
            click.echo(f"{form.name}: {fault.kind} in {sorted(fault.values)}: {error}")
            continue
        took = time.process_time() - start
        is_named, is_alone = named(found, fault, form.name == "itself")
        passes = all(
            np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
            for one, other in zip(outputs, results, strict=True)
            if one.dtype.kind in "fiub"
        )
        told = Counter({found.answer: 1, "passes allclose": int(passes), "faults": 1})
        if is_named or (found.answer != "equal" and not is_harmless(form.model, faulty, feed)):
            told["named"] += is_named
            told["alone"] += is_alone
            told["harmful"] += 1
        elif found.answer == "equal" and form.name != "itself" and fault.kind == "last place":
            told["within rounding"] += WITHIN_ROUNDING in found.rules
        elif found.answer == "equal" and not is_harmless(form.model, faulty, feed):
            told["FALSELY equal"] += 1
            told["harmful"] += 1
        else:
            told["harmless"] += 1
        missed = "MISSED" if told["harmful"] else "harmless" if told["harmless"] else "within rounding"
        verdict = "named" if is_named else missed
        click.echo(
            f"{verdict} {path.stem} {form.name}: {fault.kind} in {sorted(fault.values)}: {found.answer}, {took:.1f} s"
        )
        if verdict == "MISSED":
            click.echo("    " + "\n    ".join(line[:600] for line in str(found).splitlines()))
        sys.stdout.flush()
        yield told


def named(found: Equality, fault: Fault, is_same_form: bool) -> tuple[bool, bool]:
    """Whether the wrong node is told, and whether it alone is."""
    seconds = fault.values | (fault.users if fault.kind in NOTHING else set())
    hits = []
    for pair in found.pairs:
        second = pair.second is not None and bool(_values(pair.second.origin) & seconds)
        first = pair.first is not None and is_same_form and bool(_values(pair.first.origin) & fault.values)
        hits.append(second or first)
    return any(hits), any(hits) and all(hits)


def _values(origin: object) -> frozenset[str]:
    """The values of the node that an expression is from."""
    if not isinstance(origin, Origin):
        return frozenset()
    node = origin.node
    return frozenset(str(value.name) for value in (origin.values if node is None else node.outputs))


def is_harmless(model: onnx.ModelProto, faulty: onnx.ModelProto, feed: dict[str, np.ndarray]) -> bool:
    """Whether a fault changes no output by more than rounding in double precision."""
    functions = [import_model(eqsat.onnx.load(each)).function for each in (model, faulty)]
    joined = join(*functions)
    one, other = joined.roots
    comparison = Comparison(joined, Options())
    params = {param.name_hint: param for param in joined.params}
    sample = {params[name]: array for name, array in _renamed(feed, model).items()}
    found = {node: values[0] for node, values in comparison.evaluation.run(joined.nodes, [sample], kept=(one, other))}
    pairs = zip(leaves(found[one]) or [], leaves(found[other]) or [], strict=True)
    return all(np.allclose(a, b, rtol=1e-13, atol=1e-14 * np.abs(a).max(initial=0), equal_nan=True) for a, b in pairs)


def _show(name: str, counts: Counter[str]) -> None:
    harmful = counts["harmful"]
    share = f"{100 * counts['named'] / harmful:.1f} % named, {counts['alone']} alone" if harmful else "none"
    itself = f"; {counts['equal to itself']} models equal to themselves, {counts['not equal to itself']} not"
    click.echo(
        f"{name}: {counts['faults']} faults: {counts['different']} different, {counts['unknown']} unknown, "
        f"{counts['equal']} equal; {harmful} that show: {share}, {counts['FALSELY equal']} FALSELY equal; "
        f"{counts['harmless']} harmless; {counts['within rounding']} that rounding explains; "
        f"numpy.allclose passes {counts['passes allclose']}"
        f"{itself if name == 'itself' else ''}"
    )


def _is_good(counts: Counter[str]) -> bool:
    is_named = counts["named"] >= GOAL * counts["harmful"]
    return is_named and not counts["FALSELY equal"] and not counts["not equal to itself"]


if __name__ == "__main__":
    main()
