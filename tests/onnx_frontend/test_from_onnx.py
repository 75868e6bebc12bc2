"""``relay.frontend.from_onnx``: ONNX models as Relay modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import eqsat
from eqsat import relay
from eqsat.relay.frontend import from_onnx
from eqsat.relay.interpreter import evaluate

from .models import parsed

NETWORK = parsed(
    "(float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> { h = MatMul(x, w)  y = Relu(h) }"
)
X = np.array([[1, -2, 3]], np.float32)
Y = np.maximum(X @ np.array([[1, 2], [3, 4], [5, 6]], np.float32), 0)


def test_weights_are_constants() -> None:
    module, params = relay.frontend.from_onnx(NETWORK)
    main = module["main"]
    assert params == {}
    assert [param.name_hint for param in main.params] == ["x"]
    assert isinstance(main.ret_type.shape[0], eqsat.tir.Any)  # type: ignore[union-attr]
    np.testing.assert_allclose(evaluate(main.body, {"x": X}), Y)


def test_weights_are_parameters() -> None:
    module, params = from_onnx(NETWORK, freeze_params=False)
    main = module["main"]
    assert list(params) == ["w"]
    assert [param.name_hint for param in main.params] == ["x", "w"]
    np.testing.assert_allclose(evaluate(main.body, {"x": X, **params}), Y)


def test_shapes_of_inputs_can_be_set() -> None:
    module, _ = from_onnx(NETWORK, {"x": (1, 3)})
    assert module["main"].checked_type == relay.FuncType([relay.TensorType((1, 3))], relay.TensorType((1, 2)))


def test_a_size_with_a_name_is_set_wherever_it_stands() -> None:
    model = parsed("(float[N, 2] x, float[N, 1] z) => (float[N, 2] y) { y = Add(x, z) }")
    module, _ = from_onnx(model, shape={"x": [4, 2]})
    assert [param.checked_type.concrete_shape for param in module["main"].params] == [(4, 2), (4, 1)]


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(NETWORK, path)
    for where in (path, str(path)):
        module, _ = from_onnx(where)
        np.testing.assert_allclose(evaluate(module["main"].body, {"x": X}), Y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_onnx(NETWORK, {"z": (1, 3)}), r"no input 'z'; it has \['x'\]"),
        (lambda: from_onnx(NETWORK, {"x": (1, 3, 1)}), "input 'x' has 2 dimensions"),
        (lambda: from_onnx("nowhere.onnx"), "cannot read nowhere.onnx"),
    ],
)
def test_what_cannot_be_read_is_said(call: Any, message: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=message):
        call()


def test_other_front_ends_there_are_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'from_pytorch'"):
        _ = relay.frontend.from_pytorch
