"""The onnx package's own test models, one or a few for each operator: all must import, export and compute the same.

    python benchmarks/node_models.py [--every N] [--only TEXT] [--unoptimized] [--constants]

With ``--constants`` all inputs but the first are initializers, as axes, shapes and weights of real models are.
Prints what fails, how many models give the same outputs, how many neither onnxruntime nor onnx's reference evaluator
runs, and the operators that pass through, most frequent first.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx.reference import ReferenceEvaluator

from eqsat.errors import EqsatError
from eqsat.onnx import export_model, from_bytes, import_model, run
from eqsat.onnx.verification import compare

RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
"""Operators whose outputs differ from run to run."""

TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2}
"""Relative differences that rounding explains, 1e-5 for all other dtypes."""

Change = Callable[[ir.Model], ir.Model]


@dataclass(frozen=True)
class Case:
    """A model and inputs for it."""

    name: str
    model: onnx.ModelProto
    inputs: Sequence[Any]


def cases(every: int = 1, only: str = "") -> Iterator[Case]:
    """Every ``every``-th test model, by name, of those with ``only`` in their names."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case.name: case for case in collect_testcases(None) if only in case.name}
    for name in sorted(found)[::every]:
        yield Case(name, found[name].model, found[name].data_sets[0][0])


def with_constants(case: Case) -> Case | None:
    """The case with initializers for all inputs but the first; None when there is none, or one that is no tensor."""
    rest = list(zip(case.model.graph.input[1:], case.inputs[1:], strict=False))
    if not rest or not all(isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for _, array in rest):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.input[1:]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, value.name) for value, array in rest)
    return Case(case.name, model, case.inputs[:1])


def trip(model: ir.Model) -> ir.Model:
    """Imported and exported."""
    imported = import_model(model)
    return export_model(imported.function, imported)


def optimized(model: ir.Model) -> ir.Model:
    """Optimized by the default rules."""
    return run(model).after


def problem(case: Case, change: Change) -> str | None:
    """What is wrong with the changed model; "" when nothing is, None when outputs cannot be compared."""
    try:
        after = ir.to_proto(change(from_bytes(case.model.SerializeToString())))
    except EqsatError as error:
        return f"{type(error).__name__}: {error}"
    if _flaw(case.model) is None and _flaw(after) is not None:
        return f"onnx.checker: {_flaw(after)}"
    feed = {value.name: array for value, array in zip(case.model.graph.input, case.inputs, strict=False)}
    if any(isinstance(array, onnx.TensorProto) for array in feed.values()) or _is_random(case.model):
        return None
    for evaluator in (_onnxruntime, _reference):
        try:
            expected = evaluator(case.model, feed)
        except Exception:  # an operator or type that it does not have
            continue
        try:
            return _difference(expected, evaluator(after, feed))
        except Exception as error:
            return f"the changed model does not run: {error}"
    return None


def _flaw(model: onnx.ModelProto) -> str | None:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        return str(error)
    return None


def _is_random(model: onnx.ModelProto) -> bool:
    return any(node.op_type in RANDOM for node in model.graph.node)


def _onnxruntime(model: onnx.ModelProto, feed: dict[str, Any]) -> Sequence[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: Sequence[Any] = session.run(None, feed)
    return outputs


def _reference(model: onnx.ModelProto, feed: dict[str, Any]) -> Sequence[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs: Sequence[Any] = ReferenceEvaluator(model).run(None, feed)
    return outputs


def _difference(expected: Sequence[Any], found: Sequence[Any]) -> str:
    for a, b in zip(expected, found, strict=True):
        _, relative = compare(a, b)
        if relative > TOLERANCES.get(np.asarray(a).dtype.name if not isinstance(a, list) else "", 1e-5):
            return f"an output differs by {relative:.3g} of its largest value"
    return ""


@click.command(help=__doc__)
@click.option("--every", type=click.IntRange(min=1), default=1, show_default=True, help="Take one of so many.")
@click.option("--only", default="", help="Take those with this in their names.")
@click.option("--unoptimized", is_flag=True, help="Import and export only.")
@click.option("--constants", is_flag=True, help="Make all inputs but the first initializers.")
def main(every: int, only: str, unoptimized: bool, constants: bool) -> None:
    """Check the models and print what fails."""
    counts: Counter[str] = Counter()
    opaque: Counter[str] = Counter()
    onnxruntime.set_default_logger_severity(4)
    for case in filter(None, map(with_constants, cases(every, only)) if constants else cases(every, only)):
        found = problem(case, trip if unoptimized else optimized)
        counts["not compared" if found is None else "failed" if found else "same"] += 1
        if found:
            click.echo(f"{case.name}: {found}")
        reasons = import_model(from_bytes(case.model.SerializeToString())).opaque
        opaque.update({op_type: sum(each.values()) for op_type, each in reasons.items()})
    click.echo(f"{counts.total()} models: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    click.echo("passed through: " + ", ".join(f"{op_type} {count}" for op_type, count in opaque.most_common()))
    sys.exit(bool(counts["failed"]))


if __name__ == "__main__":
    main()
