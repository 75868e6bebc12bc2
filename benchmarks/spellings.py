"""Spellings of one network: do all come to one cost?

``python benchmarks/spellings.py [MODEL...] [--count N] [--steps N] [--seed N]`` makes variants of models by rules run
at random and optimizes them. ``--folder DIR`` takes the models of a folder instead: those whose names are alike up to
the first dot are spellings of one network, such as ``bert.eager.script.onnx``. The table has for each network the least
and the greatest cost, and below it what went wrong. Where two spellings compute something else, the first tensor after
which they have nothing in common is named, and the constants of it that only one of them has.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

import eqsat.onnx
from eqsat.errors import EqsatError
from eqsat.extraction.costs import as_tuple
from eqsat.onnx.feeds import runnable_inputs
from eqsat.onnx.files import to_proto
from eqsat.onnx.imported import constant_initializers
from eqsat.onnx.verification import compare

MODELS = sorted((Path(__file__).parents[1] / "tests" / "data" / "exports").glob("*.onnx"))
TOLERANCE = 1e-3
"""Relative difference beyond which values are different."""


@dataclass
class Spelling:
    """What became of one way to write a network.

    Attributes:
        name: What it is called.
        nodes: Its number of nodes.
        cost: Cost of the optimized model; infinite where there is none.
        seconds: Processor time of the optimization.
        problem: What went wrong, if anything did.
    """

    name: str
    nodes: int
    cost: float = math.inf
    seconds: float = 0.0
    problem: str = ""


@dataclass
class Network:
    """All spellings of a network; the first one is what the others are compared with."""

    name: str
    spellings: list[Spelling] = field(default_factory=list)

    @property
    def costs(self) -> list[float]:
        return [each.cost for each in self.spellings if math.isfinite(each.cost)] or [math.inf]

    @property
    def agrees(self) -> bool:
        """Whether all spellings are right and cost the same."""
        return min(self.costs) == max(self.costs) and not any(each.problem for each in self.spellings)


def of_variants(
    path: Path, count: int, steps: int, seed: int, opset: int | None = None, rules: Iterable[Any] | None = None
) -> Network:
    """A model and its variants, made by the rules that it is optimized by or by others."""
    model = eqsat.onnx.load(path)
    network = Network(path.stem, [measured("as given", model, model, opset)])
    for number, variant in enumerate(eqsat.onnx.variants(model, count, seed, rules, steps)):
        made = measured(f"variant {number} of seed {seed}", variant.graph, model, opset)
        if made.problem or made.cost != network.spellings[0].cost:
            made.problem = f"{made.problem or 'another cost'}; made by {', '.join(variant.rules)}"
        network.spellings.append(made)
    return network


def of_files(paths: Sequence[Path], opset: int | None) -> Network:
    """Models that are to compute the same."""
    network = Network(paths[0].name.partition(".")[0])
    first = eqsat.onnx.load(paths[0])
    for path in paths:
        model = eqsat.onnx.load(path)
        made = measured(path.stem, model, model, opset)
        if path != paths[0]:
            made.problem = made.problem or difference(first, model)
        network.spellings.append(made)
    return network


def measured(name: str, model: ir.Model, reference: ir.Model, opset: int | None) -> Spelling:
    """Optimize a model and compare it, and the result, with what it is to compute."""
    made = Spelling(name, len(model.graph))
    try:
        if model is not reference:
            made.problem = wrong("it computes something else", reference, model)
        start = time.process_time()
        done = eqsat.onnx.run(model, opset=opset)
        made.seconds = time.process_time() - start
        made.cost = as_tuple(done.cost)[0]
        made.problem = made.problem or wrong("the result is wrong", reference, done.after)
    except EqsatError as error:
        made.problem = f"{type(error).__name__}: {error}"
    return made


def wrong(what: str, reference: ir.Model, model: ir.Model) -> str:
    """``what`` with the difference, or nothing where there is none."""
    differing = eqsat.onnx.differing(eqsat.onnx.verify(reference, model, runs=2, mistakes=0), TOLERANCE)
    return f"{what}: output {differing[0].output!r} differs by {differing[0].relative:.3g}" if differing else ""


# ---- the first difference


@dataclass(frozen=True)
class Computed:
    """A value of a model on given inputs.

    Attributes:
        name: The value's name.
        node: The node that makes it.
        constants: Its constant inputs by name.
        key: What is equal, up to rounding, for equal elements in any order.
        used_by: Names of the values that are computed from it.
    """

    name: str
    node: onnx.NodeProto
    constants: dict[str, Any]
    value: Any
    used_by: list[str] = field(default_factory=list)


def difference(one: ir.Model, other: ir.Model) -> str:
    """Where two models compute something else, the first tensor of the first model after which they do."""
    session = session_of(to_proto(one))
    feed = next(runnable_inputs(one, session, np.random.default_rng(0)))
    names = [value.name for value in other.graph.inputs if value.name not in constants_of(other)]
    if len(names) != len(feed):
        return f"it takes {len(names)} inputs, not {len(feed)}"
    given = dict(zip(names, feed.values(), strict=True))
    results = session.run(None, feed), session_of(to_proto(other)).run(None, given)
    if all(compare(a, b)[1] <= TOLERANCE for a, b in zip(*results, strict=False)):
        return ""
    left, right = computed(one, feed), computed(other, given)
    return first_difference(left, right)


def first_difference(left: Mapping[str, Computed], right: Mapping[str, Computed]) -> str:
    """The first value on the left after which nothing is on the right too."""
    known = Values(each.value for each in right.values())
    shared: dict[str, bool] = {}  # whether a value, or one that is computed from it, is on the right
    for name, each in reversed(left.items()):
        shared[name] = each.value in known or any(shared[user] for user in each.used_by)
    first = next((each for name, each in left.items() if not shared[name]), None)
    if first is None:
        return "its outputs differ, though all that leads to them is the same"
    constants = Values(value for each in right.values() for value in each.constants.values())
    only = [f"{name} = {brief(value)}" for name, value in first.constants.items() if value not in constants]
    said = f", with {', '.join(only)}" if only else ""
    return f"another computation from {first.name!r} on, a {first.node.op_type}{said}"


class Values:
    """A set of arrays, in which equal elements in any order and shape are equal up to rounding."""

    def __init__(self, arrays: Iterable[Any]):
        self.by_size: dict[tuple[int, str], list[Any]] = defaultdict(list)
        for array in arrays:
            self.by_size[self._size(array)].append(self._ordered(array))

    def __contains__(self, array: Any) -> bool:
        mine = self._ordered(array)
        return any(compare(mine, each)[1] <= TOLERANCE for each in self.by_size[self._size(array)])

    def _size(self, array: Any) -> tuple[int, str]:
        return np.asarray(array).size, np.asarray(array).dtype.kind

    def _ordered(self, array: Any) -> Any:
        return np.sort(np.asarray(array), axis=None)


def computed(model: ir.Model, feed: Mapping[str, Any]) -> dict[str, Computed]:
    """All tensors that the nodes of a model make on some inputs, in their order."""
    proto = to_proto(model)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    names = [name for node in proto.graph.node for name in node.output if name and name not in constants]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    values = dict(zip(names, session_of(proto).run(None, dict(feed)), strict=True))
    found: dict[str, Computed] = {}
    for node in proto.graph.node:
        mine = {name: constants[name] for name in node.input if name in constants}
        for name in node.output:
            if isinstance(values.get(name), np.ndarray):
                found[name] = Computed(name, node, mine, values[name])
        for used in node.input:
            if used in found:
                found[used].used_by.extend(name for name in node.output if name in found)
    return found


def session_of(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def constants_of(model: ir.Model) -> set[str]:
    return constant_initializers(model.graph, model.ir_version)


def brief(value: Any) -> str:
    array = np.asarray(value)
    return f"{array.item():g}" if array.size == 1 else f"{array.dtype} of shape {list(array.shape)}"


# ---- the table


def networks(folder: Path) -> Iterator[list[Path]]:
    """The files of a folder that spell one network each."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.onnx")):
        found.setdefault(path.name.partition(".")[0], []).append(path)
    yield from found.values()


def show(network: Network) -> None:
    """Print the row of a network, and its problems."""
    least, greatest = min(network.costs), max(network.costs)
    wrong = sum(bool(each.problem) for each in network.spellings)
    slowest = max(each.seconds for each in network.spellings)
    print(
        f"{network.name:<24} {len(network.spellings):>9} {least:>8g} {greatest:>8g} {greatest / max(least, 1):>7.3f}"
        f" {wrong:>8} {slowest:>8.2f}",
        flush=True,
    )
    for each in network.spellings:
        if each.problem or each.cost != least:
            print(f"    {each.name}: {each.nodes} nodes, cost {each.cost:g}, {each.seconds:.2f} s: {each.problem}")


def main() -> None:
    """Optimize all spellings of some networks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, default=MODELS)
    parser.add_argument("--folder", type=Path, help="files that spell the same networks, instead of variants")
    parser.add_argument("--count", type=int, default=10, help="variants of each model")
    parser.add_argument("--steps", type=int, default=10, help="rules that make a variant, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the variants")
    parser.add_argument("--opset", type=int, help="version of the ONNX operators to write")
    arguments = parser.parse_args()
    jobs: Iterator[Network] = (
        of_variants(path, arguments.count, arguments.steps, arguments.seed, arguments.opset)
        for path in arguments.models
    )
    if arguments.folder is not None:
        jobs = (of_files(paths, arguments.opset) for paths in networks(arguments.folder))
    print(f"{'network':<24} {'spellings':>9} {'least':>8} {'greatest':>8} {'ratio':>7} {'problems':>8} {'slowest':>8}")
    agreeing = []
    for network in jobs:
        show(network)
        agreeing.append(network.agrees)
    print(f"{sum(agreeing)} of {len(agreeing)} networks come to one cost in all spellings, and no spelling is wrong")


if __name__ == "__main__":
    main()
