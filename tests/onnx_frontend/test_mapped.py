"""Weights of models that are mapped and not read."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import eqsat.onnx
from eqsat.errors import ModelError
from eqsat.onnx.mapped import load_mapped
from eqsat.onnx.weights import elements_of

WEIGHT = np.random.default_rng(0).standard_normal((300, 200)).astype("float32")


def a_model(**held: object) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,300] x) => (float[2,200] y) { y = MatMul (x, w) }'
    )
    model.graph.initializer.append(onnx.TensorProto(name="w", dims=WEIGHT.shape, data_type=1, **held))
    return model


FORMS = [a_model(raw_data=WEIGHT.tobytes()), a_model(float_data=WEIGHT.reshape(-1))]


@pytest.mark.parametrize("proto", FORMS, ids=["raw", "packed"])
def test_large_weights_are_in_the_file_of_the_model(proto: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    tensor = load_mapped(path).graph.initializers["w"].const_value
    assert Path(tensor.path) == path
    np.testing.assert_array_equal(elements_of(tensor), WEIGHT)
    assert eqsat.onnx.equal(path, FORMS[0])


def test_other_models_are_read(tmp_path: Path) -> None:
    path, link = tmp_path / "m.onnx", tmp_path / "link.onnx"
    onnx.save(FORMS[0], path)
    link.symlink_to(path)
    for given in (link, FORMS[0], eqsat.onnx.load(path)):
        tensor = load_mapped(given).graph.initializers["w"].const_value
        np.testing.assert_array_equal(tensor.numpy(), WEIGHT)


def test_what_is_cut_off_is_told_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    whole = FORMS[0].SerializeToString()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError, match=r"m\.onnx is not an ONNX model, or is truncated"):
            load_mapped(path)
