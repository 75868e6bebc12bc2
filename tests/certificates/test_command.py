"""`eqsat optimize --certificate` and `eqsat check`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from eqsat.cli import cli
from eqsat.errors import CertificateError

MODEL = Path(__file__).parents[1] / "data" / "spellings" / "vit.sdpa.script.onnx"


def ran(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The optimized model, its certificate, and what was printed."""
    folder = tmp_path_factory.mktemp("certified")
    out, certificate = folder / "out.onnx", folder / "c.json"
    result = ran("optimize", MODEL, out, "--certificate", certificate)
    assert result.exit_code == 0, result.output
    return out, certificate, result.output


def test_optimize_tells_what_its_certificate_shows(files: tuple[Path, Path, str]) -> None:
    assert "certificate of " in files[2]
    assert "which keep: rounding" in files[2]
    assert "not proved:" not in files[2]
    assert "certify" in files[2]
    assert "made by" not in files[2]  # which --explain asks for


def test_check_tells_that_it_is_proved(files: tuple[Path, Path, str]) -> None:
    result = ran("check", MODEL, *files[:2])
    assert result.exit_code == 0
    assert result.output.startswith("proved\ncertificate of ")


def test_check_prints_json(files: tuple[Path, Path, str]) -> None:
    facts = json.loads(ran("check", MODEL, *files[:2], "--json").output)
    assert facts["proved"]
    assert facts["keeps"] == "rounding"
    assert facts["steps"] > 20
    assert "gate-by-erf" in facts["rules"]
    assert facts["uncovered"] == []


def test_a_certificate_of_a_part_is_not_called_proved(files: tuple[Path, Path, str], tmp_path: Path) -> None:
    data = json.loads(files[1].read_text())
    data["uncovered"] = ["that the moon is round"]
    (tmp_path / "c.json").write_text(json.dumps(data))
    result = ran("check", MODEL, files[0], tmp_path / "c.json")
    assert result.exit_code == 3
    assert result.output.startswith("not proved\ncertificate of a part of the model: ")
    assert "not proved: that the moon is round" in result.output


def test_the_models_in_the_wrong_order_are_refused(files: tuple[Path, Path, str]) -> None:
    result = ran("check", files[0], MODEL, files[1])
    assert isinstance(result.exception, CertificateError)
    assert "another model" in str(result.exception)


def test_a_certificate_is_not_written_over_a_model(tmp_path: Path) -> None:
    result = ran("optimize", MODEL, tmp_path / "c.json", "--certificate", tmp_path / "c.json")
    assert "would be overwritten" in str(result.exception)
