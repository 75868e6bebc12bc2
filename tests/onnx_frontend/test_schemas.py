"""What ONNX says of its operators is kept, and is what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import defs

from eqsat.onnx import schemas
from eqsat.onnx.schemas import admits, input_names, schema_of

OPSETS = range(7, defs.onnx_opset_version() + 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of caches with nothing in it."""
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    forget()
    return tmp_path


def forget() -> None:
    for function in (schemas.schema_of, schemas.input_names, schemas.admits, schemas._rows):
        function.cache_clear()


@pytest.mark.parametrize("opset", OPSETS)
def test_what_is_kept_is_what_onnx_says(opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {name: schema_of(name, opset) for name in schemas._rows(opset)}
    monkeypatch.setattr(schemas, "_read", lambda opset: pytest.fail("ONNX is asked again"))
    forget()
    assert {name: schema_of(name, opset) for name in schemas._rows(opset)} == first
    for name in {schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain}:
        found = schema_of(name, opset)
        assert (found is not None) == defs.has(name, max_inclusive_version=opset)
        if found is not None:
            said = defs.get_schema(name, opset, "")
            assert found.since == said.since_version
            assert input_names(name, opset) == tuple(each.name for each in said.inputs)
            assert found.defaults.keys() == said.attributes.keys()


def test_an_operator_of_a_later_opset_is_none() -> None:
    assert schema_of("Gelu", 19) is None
    assert schema_of("Gelu", 20) is not None
    assert schema_of("Gelu", 10**6) is not None  # as ONNX answers for opsets to come
    assert input_names("Gelu", 19) == ()
    assert schema_of("NoSuchOperator", 20) is None


def test_lists_are_tuples_and_texts_are_strings() -> None:
    default = {name: schema.defaults for name in ("LRN", "Pad", "RNN", "Split") if (schema := schema_of(name, 12))}
    assert default["LRN"]["alpha"] == float(np.float32(1e-4))
    assert default["Pad"]["mode"] == "constant"
    assert default["RNN"]["activations"] == ("Tanh", "Tanh")
    assert default["Split"]["split"] is None


@pytest.mark.parametrize("damage", [b"", b"{}", b"0\n{}"], ids=["empty", "no digest", "another digest"])
def test_a_damaged_file_is_ignored_and_written_anew(folder: Path, damage: bytes) -> None:
    names = input_names("Clip", 20)
    (file,) = (folder / "schemas").iterdir()
    whole = file.read_bytes()
    for content in (damage, whole[:-1], whole.replace(b"input", b"inpus")):
        file.write_bytes(content)
        forget()
        assert input_names("Clip", 20) == names
        assert file.read_bytes() == whole


def test_without_a_folder_onnx_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("EQSAT_CACHE", str(folder / "file"))
    assert input_names("Clip", 20) == ("input", "min", "max")
    assert admits("Relu", 20, ("float32",), "float32")
    assert not admits("Relu", 20, ("bool",), "bool")


@pytest.mark.usefixtures("without_home")
def test_without_a_home_onnx_is_asked() -> None:
    assert input_names("Clip", 20) == ("input", "min", "max")
