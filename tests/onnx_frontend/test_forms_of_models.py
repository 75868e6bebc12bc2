"""Every function of ``eqsat.onnx`` takes a path, a ``ModelProto`` or an ``onnx_ir.Model``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

import eqsat.onnx
from eqsat import relay
from eqsat.errors import ModelError
from eqsat.rules import activations

from .models import operators, parsed

TWICE = "(float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }"


def as_path(folder: Path) -> Path:
    path = folder / "given.onnx"
    path.write_bytes(as_proto(folder).SerializeToString())
    return path


def as_text(folder: Path) -> str:
    return str(as_path(folder))


def as_proto(folder: Path) -> onnx.ModelProto:
    return parsed(TWICE)


def as_model(folder: Path) -> ir.Model:
    return ir.from_proto(parsed(TWICE))


FORMS = [as_path, as_text, as_proto, as_model]
Form = Callable[[Path], Any]


def offered(model: Any) -> bool:
    """Whether finite rules are offered; they never are for this model."""
    return eqsat.onnx.finite_offer(eqsat.onnx.run(model)) is not None


def checked(model: Any) -> bool:
    """Whether the certificate of a model that is optimized is a proof."""
    done = eqsat.onnx.run(model, activations, explain=True)
    return eqsat.onnx.check(model, done.after, eqsat.onnx.certify(done)).proved


USES: dict[str, tuple[Callable[[Any], object], object]] = {
    "at_opset": (lambda model: eqsat.onnx.at_opset(model, 18).opset_imports[""], 18),
    "bench": (lambda model: len(eqsat.onnx.bench(model, model, seconds=0)), 2),
    "bisect": (lambda model: eqsat.onnx.bisect(model, lambda _: True, activations), None),
    "blame": (lambda model: eqsat.onnx.blame(model, activations), None),
    "check": (checked, True),
    "equal": (lambda model: eqsat.onnx.equal(model, model).answer, "equal"),
    "finite_offer": (offered, False),
    "import_model": (lambda model: eqsat.onnx.import_model(model).opaque, {}),
    "load": (lambda model: operators(eqsat.onnx.load(model).graph), {"Relu": 2}),
    "merge": (lambda model: eqsat.onnx.merge(model, "tensorrt").composites, {"nn.relu": 2}),
    "optimize": (lambda model: operators(eqsat.onnx.optimize(model, activations).graph), {"Relu": 1}),
    "partition": (lambda model: sum(eqsat.onnx.partition(model, "tensorrt").composites.values()), 1),
    "run": (lambda model: operators(eqsat.onnx.run(model, activations).after.graph), {"Relu": 1}),
    "to_bytes": (lambda model: operators(onnx.load_from_string(eqsat.onnx.to_bytes(model)).graph), {"Relu": 2}),
    "variants": (lambda model: len(eqsat.onnx.variants(model, count=1, rules=activations)), 1),
    "verify": (lambda model: eqsat.onnx.verify(model, model, runs=1)[0].absolute, 0.0),
    "why": (lambda model: eqsat.onnx.why(eqsat.onnx.optimize(model, activations), "y").origins[0].name, "a"),
    "why_not": (lambda model: eqsat.onnx.why_not(model, "relu-twice").outcome, "chosen"),
    "with_sizes": (lambda model: operators(eqsat.onnx.with_sizes(model, {}).graph), {"Relu": 2}),
    "from_onnx": (lambda model: str(relay.frontend.from_onnx(model)[0]).count("nn.relu"), 2),
}
"""What each function makes of the model."""


@pytest.mark.parametrize("name", USES)
def test_every_form_gives_the_same(name: str, tmp_path: Path) -> None:
    use, expected = USES[name]
    assert [use(form(tmp_path)) for form in FORMS] == [expected] * len(FORMS)


def test_no_function_that_takes_a_model_is_left_out() -> None:
    given = {"Difference", "Imported", "Latency", "Offer", "Optimization", "Partitioning"}  # what comes back
    given |= {"Models", "Proved", "Sensitivity", "Verified", "Why"}
    others = {"certified", "certify", "differing", "export_model", "from_bytes", "proved", "save"}
    assert set(eqsat.onnx.__all__) == (set(USES) - {"from_onnx"}) | given | others


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_saved(form: Form, tmp_path: Path) -> None:
    eqsat.onnx.save(form(tmp_path), tmp_path / "out.onnx")
    assert operators(onnx.load(tmp_path / "out.onnx").graph) == {"Relu": 2}


def test_a_proto_comes_back_as_a_proto_and_all_else_as_a_model(tmp_path: Path) -> None:
    made = [type(eqsat.onnx.optimize(form(tmp_path), activations)) for form in FORMS]
    assert made == [ir.Model, ir.Model, onnx.ModelProto, ir.Model]


@pytest.mark.parametrize("name", USES)
def test_what_is_no_model_is_named(name: str) -> None:
    with pytest.raises(ModelError, match=r"a model is an onnx_ir.Model, an onnx.ModelProto or the path of a file, not"):
        USES[name][0]([parsed(TWICE)])


def test_a_model_that_is_read_as_relay_keeps_its_shapes() -> None:
    model = ir.from_proto(parsed("(float[N] x) => (float[N] y) { y = Relu (x) }"))
    relay.frontend.from_onnx(model, shape={"x": [3]})
    assert str(model.graph.inputs[0].shape) == "[N]"
