"""The best known form is reached however a computation is written: models that differ in order and association only."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import eqsat.onnx
from eqsat import rules

FOLDER = Path(__file__).parents[1] / "data" / "variants"
OPT_IN = {"algebra": rules.finite, "qkv_merge": rules.merge}
COUNTED = {
    "nodes": None,
    "transpose_or_reshape_nodes": ("Transpose", "Reshape"),
    "matmul_or_gemm_nodes": ("MatMul", "Gemm"),
}


def models() -> list[dict[str, str]]:
    """Every twelfth model."""
    with open(FOLDER / "ideal.tsv", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))[::12]


def outputs(model, feed):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)


@pytest.mark.parametrize("row", models(), ids=lambda row: row["file"])
def test_the_goal_is_reached_and_the_outputs_stay(row) -> None:
    before = onnx.load(FOLDER / row["file"])
    chosen = [rules.default, OPT_IN.get(row["family"], ())]
    after = ir.to_proto(eqsat.onnx.run(eqsat.onnx.load(FOLDER / row["file"]), rules=chosen).after)
    kinds = Counter(node.op_type for node in after.graph.node if node.op_type not in ("Constant", "Identity"))
    wanted = COUNTED[row["goal_kind"]]
    assert sum(count for kind, count in kinds.items() if wanted is None or kind in wanted) <= int(row["goal"])
    random = np.random.default_rng(0)
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in before.graph.input}
    feed = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for one, other in zip(outputs(before, feed), outputs(after, feed), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)
