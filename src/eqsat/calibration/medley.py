"""What a kernel takes more among others than among its like.

Kernels are timed in models that compute one of them many times, where the processor has its instructions at hand and
foresees its branches. In a network other kernels run before. How much that costs is measured once for a profile: a
*medley*, which computes one small kernel of each usual family, several times in an order drawn at random, takes more
than these kernels by themselves do, each of them by the same on average.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median

import numpy as np
import onnx

from eqsat.calibration.copies import NEEDED_ONLY, add_nodes, weights_of_copy, with_output
from eqsat.calibration.gathered import gathered
from eqsat.calibration.kernels import Kernel, written_model
from eqsat.calibration.measuring import Overhead, Setup, Spent, empty_models, time_models
from eqsat.calibration.usual import usual_kernels
from eqsat.files import scratch_folder

_BYTES = 1 << 16
"""Most bytes of a kernel: what it reads and writes shall be at hand anyway."""

_ROUNDS = 4
"""How often each kernel is in the medley."""

_TIMES = 5
"""In how many processes it is measured: a small difference of two times, which is not the same in all of them."""

_QUANTILE = 0.25
"""Of the runs of a model: more than that differ for what else the machine does."""


def measure_change(setup: Setup, reference: float | None, spent: Spent | None = None) -> tuple[float, float]:
    """Return the seconds that a kernel takes more where others run before it, and those of the reference.

    They are 0 where the medley does not run.

    Args:
        setup: How the runtime runs.
        reference, spent: As for :func:`eqsat.calibration.measure`.
    """
    kernels = small_kernels()
    alone = [kernel.copies(setup.runtime) for kernel in kernels]
    empty = empty_models(setup.runtime)
    models = [*empty, medley_model(kernels, setup.runtime), *[model for model, _ in alone]]

    def once(reference: float | None) -> tuple[float, float]:
        """As it is seen in one process."""
        with scratch_folder() as folder:
            times, reference = time_models(models, setup, folder, reference, spent)
        least = [float(np.quantile(each, _QUANTILE)) for each in times if not isinstance(each, str)]
        if len(least) < len(times):
            return 0.0, reference
        beside = Overhead.of([[each] for each in least[: len(empty)]]).seconds
        together, *others = least[len(empty) :]
        by_themselves = sum((each - beside(copies)) / copies for each, (_, copies) in zip(others, alone, strict=True))
        more = (together - beside(_ROUNDS * len(kernels))) / _ROUNDS - by_themselves
        return more / len(kernels), reference

    change, reference = once(reference)
    changes = [change, *[once(reference)[0] for _ in range(_TIMES - 1)]]
    return max(median(changes), 0.0), reference


def small_kernels() -> list[Kernel]:
    """Return the smallest of the usual kernels of each family, if it is small."""
    least: dict[str, Kernel] = {}
    for kernel in usual_kernels():
        known = least.get(kernel.family)
        if known is None or kernel.bytes < known.bytes:
            least[kernel.family] = kernel
    return [kernel for kernel in least.values() if kernel.bytes <= _BYTES]


def medley_model(kernels: Sequence[Kernel], runtime: str = Setup.runtime) -> onnx.ModelProto:
    """Return a model that computes each kernel several times, among the others.

    All that take a tensor of one type take the same one; each has weights of its own.
    """
    parts = [written_model(kernel) for kernel in kernels] * _ROUNDS
    random.Random(0).shuffle(parts)
    if runtime in NEEDED_ONLY:
        return gathered(parts)
    whole = onnx.ModelProto()
    whole.CopyFrom(parts[0])
    whole.graph.Clear()
    whole.graph.name = "medley"
    inputs: dict[bytes, str] = {}
    for number, part in enumerate(parts):
        graph = part.graph
        made = {name for node in graph.node for name in node.output if name}
        named = {name: f"{number}/{name}" for name in (*made, *[tensor.name for tensor in graph.initializer])}
        for value in graph.input:
            ty = value.type.SerializeToString(deterministic=True)
            if ty not in inputs:
                inputs[ty] = f"x{len(inputs)}"
                whole.graph.input.add().CopyFrom(onnx.helper.make_value_info(inputs[ty], value.type))
            named[value.name] = inputs[ty]
        for tensor in graph.initializer:
            whole.graph.initializer.append(weights_of_copy(tensor, named[tensor.name], number))
        add_nodes(whole.graph, graph.node, named)
    return with_output(whole)
