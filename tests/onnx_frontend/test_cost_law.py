"""The law of costs: what extraction minimizes is what the written model costs.

A model that was written is imported and priced again: the cost is the one that was claimed, and no more than that of
the model that was given.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

import eqsat
from benchmarks.models import MODELS
from eqsat.cli.options import COSTS
from eqsat.cost import CostFunction, Measured
from eqsat.onnx import at_opset, load, run
from eqsat.onnx.files import from_proto
from eqsat.onnx.imported import opset_of
from eqsat.onnx.optimize import Forms, forms
from eqsat.pipeline.options import Options

from .models import benchmark_module, parsed

EXPORTS = sorted((Path(__file__).parents[1] / "data" / "exports").glob("*.onnx"))
OPSETS = (13, 17, 20, 23)
MEASURED = Measured()  # what is measured once is remembered


def models_of_cost() -> dict[str, CostFunction]:
    """What is paid at run time; of constants that the exporter embeds, Storage knows nothing."""
    return {name: make() for name, make in COSTS.items() if name != "storage"} | {"measured": MEASURED}


def saturated(model: ir.Model) -> AbstractContextManager[Forms]:
    """All that the rules find equal to a model, of which one cost model after another chooses."""
    return forms(model, None, Options())


def obeys(found: Forms, cost_model: CostFunction, runtime: str) -> None:
    """Check the law for one choice of a model."""
    done = found.choose(cost_model, runtime)
    again = run(done.after, (), cost_model=cost_model, runtime=runtime)
    assert again.input_cost == pytest.approx(done.cost, rel=1e-9)
    assert done.cost <= done.input_cost * (1 + 1e-9)
    assert done.lower_bound <= done.cost


def cases() -> list[tuple[Path, int]]:
    """Each network at two of its first opset, one between and the last, in turn."""
    found = []
    for number, path in enumerate(EXPORTS):
        given = opset_of(load(path))
        first, *between, last = [max(opset, given) for opset in OPSETS if opset >= given - 3]
        three = (first, between[number % len(between)], last)
        found += [(path, opset) for place, opset in enumerate(three) if place != number % 3]
    return found


CASES = cases()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "opset"), CASES, ids=lambda value: getattr(value, "stem", value))
def test_exported_networks(path: Path, opset: int) -> None:
    """Every cost model at the later opset of the network, two at the other."""
    model = at_opset(load(path), opset)
    all_models = opset == max(each for name, each in CASES if name == path)
    with saturated(model) as found:
        for name, cost_model in models_of_cost().items():
            if all_models or name in ("opcount", "roofline"):
                obeys(found, cost_model, "none")
        obeys(found, COSTS["opcount"](), "onnxruntime")
        obeys(found, COSTS["roofline"](), "onnxruntime")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "opset"), [("squeezenet", OPSETS[0]), ("shufflenet", OPSETS[-1])])
def test_networks_of_the_onnx_package(name: str, opset: int) -> None:
    filled = benchmark_module("filled_models")
    model = at_opset(from_proto(filled.fill_weights(onnx.load(filled.light_model(name)))), opset)
    with saturated(model) as found:
        for cost in ("opcount", "bytes", "roofline"):
            obeys(found, COSTS[cost](), "none")
        obeys(found, COSTS["opcount"](), "onnxruntime")


@pytest.mark.slow
def test_a_trained_network_of_a_wheel() -> None:
    with saturated(load(benchmark_module("real_models").magika_model())) as found:
        for cost in sorted({*COSTS} - {"storage", "measured"}):
            obeys(found, COSTS[cost](), "none")
            obeys(found, COSTS[cost](), "onnxruntime")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_networks_of_the_ir(name: str) -> None:
    """Without a target, operators are written as they are."""
    saturation = eqsat.saturate(MODELS[name]())
    for cost_model in [COSTS[cost]() for cost in ("opcount", "bytes", "flops", "roofline")]:
        best = eqsat.extract(saturation, cost_model)
        again = eqsat.extract(eqsat.saturate(best.module, ()), cost_model)
        assert again.input_cost == pytest.approx(best.cost, rel=1e-9)
        assert best.cost <= best.input_cost * (1 + 1e-9)


# ---- what cannot be written is not a choice


def test_an_operator_without_a_form_is_never_chosen() -> None:
    """Rules know Equal and Cast as a one-hot encoding, which has no ONNX form, and is cheaper in bytes."""
    model = parsed(
        """(int64[64] x) => (float[64,32] y) {
            places = Constant <value = int64[32] {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,
                                                 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31}> ()
            axis = Constant <value = int64[1] {1}> ()
            columns = Unsqueeze (x, axis)
            hits = Equal (columns, places)
            y = Cast <to = 1> (hits)
        }""",
        opset=17,
    )
    with saturated(from_proto(model)) as found:
        for cost in sorted({*COSTS} - {"storage"}):
            obeys(found, COSTS[cost](), "none")


def test_attention_is_priced_as_its_parts_where_it_has_no_node() -> None:
    """Before opset 23 attention is written as products and a softmax: its bytes are theirs."""
    model = parsed(
        """(float[2,4,256,64] q, float[2,4,256,64] k, float[2,4,256,64] v) => (float[2,4,256,64] y) {
            scale = Constant <value = float {0.125}> ()
            t = Transpose <perm = [0, 1, 3, 2]> (k)
            s = MatMul (q, t)
            m = Mul (s, scale)
            p = Softmax <axis = -1> (m)
            y = MatMul (p, v)
        }""",
        opset=17,
    )
    with saturated(from_proto(model)) as found:
        for cost_model in models_of_cost().values():
            obeys(found, cost_model, "none")
