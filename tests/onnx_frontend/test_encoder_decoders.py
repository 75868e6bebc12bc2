"""Layers of an encoder and of the decoder that reads its output are saturated once, however many there are."""

from __future__ import annotations

import pytest

from eqsat import onnx as onnx_frontend

from .models import benchmark_module


@pytest.mark.parametrize("name", ["t5", "whisper"])
def test_every_layer_becomes_as_many_nodes_and_only_some_are_saturated(name: str) -> None:
    make = getattr(benchmark_module("encoder_decoders"), name)
    few, more, many = (onnx_frontend.run(make(layers)) for layers in (8, 9, 10))
    nodes = [len(done.after.graph) for done in (few, more, many)]
    assert nodes[1] - nodes[0] == nodes[2] - nodes[1]
    assert len({done.extraction.report.iterations[-1].nodes for done in (few, more, many)}) == 1


def test_the_result_costs_what_that_of_the_whole_network_costs() -> None:
    model = benchmark_module("encoder_decoders").t5(10)
    by_layers, whole = onnx_frontend.run(model), onnx_frontend.run(model, explain=True)
    assert by_layers.extraction.report.iterations[-1].nodes < whole.extraction.report.iterations[-1].nodes / 2
    assert by_layers.cost == whole.cost
    assert len(by_layers.after.graph) == len(whole.after.graph)
    assert by_layers.optimal
