"""The onnx package's models for each operator: a sample of what `benchmarks/node_models.py` runs in full."""

from __future__ import annotations

from typing import Any

import pytest

from eqsat.onnx import from_bytes, import_model

from .models import benchmark_module

node_models = benchmark_module("node_models")


@pytest.fixture(scope="module")
def sample() -> list[Any]:
    return list(node_models.cases(every=11))


@pytest.mark.slow
def test_models_compute_the_same_after_import_and_export(sample: list[Any]) -> None:
    found = {case.name: node_models.problem(case, node_models.trip) for case in sample}
    assert {name: problem for name, problem in found.items() if problem} == {}
    assert sum(problem == "" for problem in found.values()) > 0.85 * len(found), "few are compared"


@pytest.mark.slow
def test_models_compute_the_same_after_optimization(sample: list[Any]) -> None:
    found = {case.name: node_models.problem(case, node_models.optimized) for case in sample[::4]}
    assert {name: problem for name, problem in found.items() if problem} == {}


@pytest.mark.slow
def test_models_with_constant_parameters_compute_the_same(sample: list[Any]) -> None:
    fixed = list(filter(None, map(node_models.with_constants, sample)))
    found = {case.name: node_models.problem(case, node_models.trip) for case in fixed}
    assert {name: problem for name, problem in found.items() if problem} == {}
    assert len(fixed) > 70


@pytest.mark.slow
def test_no_valid_node_is_taken_for_malformed(sample: list[Any]) -> None:
    for case in sample:
        reasons = import_model(from_bytes(case.model.SerializeToString())).opaque
        assert "malformed" not in str(reasons), case.name
