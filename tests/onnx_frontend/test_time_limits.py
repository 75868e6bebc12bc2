"""A time limit may end a saturation anywhere: the result is right, no dearer than what was given, and says so."""

from __future__ import annotations

import time

import pytest

from eqsat import Limits
from eqsat import onnx as onnx_frontend

from .models import benchmark_module


class Steps:
    """A clock that goes on by a millisecond each time somebody looks at it."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * 1e-3


@pytest.mark.parametrize("layers", [1, 3])
def test_wherever_time_ends_a_saturation_the_result_is_right(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = benchmark_module("encoder_decoders").t5(layers)
    clock = Steps()
    monkeypatch.setattr(time, "perf_counter", clock)
    whole = onnx_frontend.run(model)
    looks, reasons = clock.looks, set()
    assert whole.extraction.report.stop_reason == "saturated"
    for part in (0.05, 0.2, 0.6):
        monkeypatch.setattr(time, "perf_counter", Steps())
        cut = onnx_frontend.run(model, limits=Limits(seconds=part * looks * 1e-3))
        reasons.add(cut.extraction.report.stop_reason)
        assert whole.cost <= cut.cost <= cut.input_cost
        assert max(each.relative for each in onnx_frontend.verify(model, cut.after)) < 1e-4
    assert "seconds" in reasons
