"""Of weights that nobody asks about a few elements are read, and new ones are computed when they are written."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from eqsat import onnx as onnx_frontend
from eqsat import relay
from eqsat.nd import NDArray
from eqsat.relay.expr import Constant
from eqsat.relay.fold import fold_constants

from .models import benchmark_module

LAYERS, WIDTH, HIDDEN, WORDS = 8, 256, 512, 384
LARGEST = WIDTH * HIDDEN * 2
"""Bytes of the largest weight."""

BEHIND_NORMS = LAYERS * (3 * WIDTH * WIDTH + 2 * WIDTH * HIDDEN) + WIDTH * WORDS
"""Elements of the weights that take the scales of norms: those of queries, keys, values and gates, and of the words."""


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    benchmark_module("large_models").Decoder(tmp_path / "in.onnx", LAYERS, WIDTH, HIDDEN, WORDS, is_filled=True)
    return tmp_path / "in.onnx"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Bytes of large arrays that are read as a whole, by dtype."""
    found: Counter[str] = Counter()
    numpy = NDArray.numpy

    def counted(data: NDArray) -> np.ndarray[Any, Any]:
        found[data.dtype] += data.nbytes if data.nbytes >= WIDTH * WIDTH else 0
        return numpy(data)

    monkeypatch.setattr(NDArray, "numpy", counted)
    monkeypatch.setattr(NDArray, "few", property(lambda data: numpy(data).flat[:: max(1, data.size // 64)]))
    return found


def test_no_weight_is_read_before_the_model_is_written(decoder: Path, read: Counter[str]) -> None:
    found = onnx_frontend.optimize(decoder)
    assert len(found.graph) < len(onnx.load(decoder, load_external_data=False).graph.node)
    assert read["float16"] == 0


def test_what_is_written_is_computed_of_each_weight_once(decoder: Path, read: Counter[str]) -> None:
    onnx_frontend.save(onnx_frontend.optimize(decoder), decoder.with_name("out.onnx"))
    assert BEHIND_NORMS * 2 <= read["float16"] <= BEHIND_NORMS * 2 * 3  # weights, fields of joined ones, and results
    before, after = (
        {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
        for path in (decoder, decoder.with_name("out.onnx"))
    )
    assert before["layers.0.down"].tobytes() == after["layers.0.down"].tobytes()


def test_memory_is_that_of_a_few_weights(decoder: Path) -> None:
    found = onnx_frontend.optimize(decoder)
    gc.collect()
    tracemalloc.start()
    onnx_frontend.save(found, decoder.with_name("out.onnx"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * LARGEST < BEHIND_NORMS * 2 / 4


class TestLargeResults:
    def test_they_are_computed_when_they_are_used(self) -> None:
        data, loads = constant(np.full((300, 300), 2.0, np.float32))
        folded = fold_constants(relay.transpose(data * relay.const(3.0)) + relay.const(1.0))
        assert isinstance(folded, Constant)
        assert not loads
        assert (folded.data.numpy() == 7.0).all()

    def test_those_of_long_chains_are_computed_in_steps(self) -> None:
        made, _ = constant(np.zeros((300, 300), np.float32))
        for _ in range(3000):
            made = made + relay.const(1.0)
        folded = fold_constants(made)
        assert isinstance(folded, Constant)
        assert (folded.data.numpy() == 3000.0).all()

    def test_what_integers_decide_is_computed_at_once_for_it_may_fail(self) -> None:
        data, loads = constant(np.ones((300, 300), np.float32))
        folded = fold_constants(relay.take(data, relay.const(np.arange(299)), axis=0))
        assert loads
        assert isinstance(folded, Constant)


def constant(array: np.ndarray[Any, Any]) -> tuple[Any, list[int]]:
    """A constant that is loaded on demand, and a list that becomes longer whenever it is."""
    loads: list[int] = []

    def load() -> np.ndarray[Any, Any]:
        loads.append(1)
        return array

    return Constant(NDArray(array.shape, array.dtype.name, load, is_kept=False)), loads
