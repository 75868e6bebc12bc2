"""Certificates of ONNX models: those of sample models check, and none that was changed does."""

from __future__ import annotations

import json
import random
import sys
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx import numpy_helper

from eqsat import onnx, rules
from eqsat.certificates.certificate import read
from eqsat.errors import ArgumentError, CertificateError
from eqsat.onnx.files import from_proto
from eqsat.relay.dataflow_pattern import is_op
from tests.onnx_frontend.models import parsed

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from changed_certificates import changed_certificates

DATA = Path(__file__).parents[1] / "data"
VARIANTS = sorted(DATA.glob("variants/*.onnx"))
ENOUGH = """
bert.script.13.dyn densenet.script.14 hand_attention.script.13.dyn yolo.script.14 bert.sdpa.dynamo bert.sdpa.script
gpt2.eager.dynamo llama.sdpa.dynamo t5_encoder.eager.script vit.eager.script vit.sdpa.script algebra_08 algebra_10
algebra_18 algebra_20 algebra_22 algebra_24 algebra_26 algebra_28 algebra_30 algebra_34 algebra_42 algebra_44
conv_affine_08 conv_affine_44 layernorm_34 layout_10 layout_12 layout_14 layout_16 layout_18 layout_26 layout_28
layout_30 gelu_erf_02 qkv_merge_02 silu_hswish_02 transpose_sink_06 transpose_sink_08 transpose_sink_12
transpose_sink_24
"""
"""Sample models of every family whose certificates together need all rules that those of any sample model need."""
MODELS = [path for folder in ("exports", "spellings", "variants") for path in sorted((DATA / folder).glob("*.onnx"))]


@lru_cache(maxsize=64)
def certified(path: Path) -> tuple[onnx.Optimization, dict[str, Any]]:
    done = onnx.run(path, explain=True)
    return done, onnx.certify(done).as_data()


@pytest.mark.parametrize("path", [path for path in MODELS if path.stem in ENOUGH.split()], ids=lambda path: path.stem)
def test_certificates_of_models_check(path: Path, tmp_path: Path) -> None:
    done, data = certified(path)
    read(data).save(tmp_path / "c.json")
    onnx.save(done.after, tmp_path / "out.onnx")
    found = onnx.check(path, tmp_path / "out.onnx", tmp_path / "c.json")
    assert found.proved
    assert found.steps == len(data["steps"])


def test_the_same_certificate_is_written_each_time() -> None:
    path = DATA / "spellings/vit.eager.script.onnx"
    assert onnx.certify(onnx.run(path, explain=True)).as_data() == certified(path)[1]


# ---- what is refused

MOST = 10
"""Steps, constants and terms of a certificate that are changed, each by itself."""

CHANGED = [DATA / "spellings/bert.sdpa.script.onnx", *VARIANTS[::20]]


@pytest.mark.parametrize("path", CHANGED, ids=lambda path: path.stem)
def test_changed_certificates_are_refused(path: Path) -> None:
    done, data = certified(path)
    models = onnx.Models(path, done.after)
    assert models.check(data).proved
    count, taken = 0, []
    for what, other in changed_certificates(data, random.Random(0), MOST):
        count += 1
        try:
            models.check(other)
        except CertificateError:
            continue
        taken.append(what)
    assert not taken
    assert count >= 2


def test_a_certificate_of_another_model_is_refused() -> None:
    (first, _), (_, second) = certified(VARIANTS[0]), certified(VARIANTS[60])
    with pytest.raises(CertificateError, match="to another model: the digest of the one before"):
        onnx.check(VARIANTS[0], first.after, second)


def test_a_model_of_another_weight_is_refused() -> None:
    path = next(path for path in VARIANTS if path.stem.startswith("conv_affine"))
    done, data = certified(path)
    other = onnx.load(path)
    name, value = next((name, value) for name, value in other.graph.initializers.items() if value.dtype == 1)
    array = value.const_value.numpy().copy()
    array.reshape(-1)[0] += 1e-6
    value.const_value = onnx_ir.Tensor(array, name=name)
    with pytest.raises(CertificateError, match="to another model"):
        onnx.check(other, done.after, data)


def test_every_element_of_a_large_weight_counts(tmp_path: Path) -> None:
    proto = parsed("(float[1, 200] x) => (float[1, 200] z) { y = MatMul(x, w) a = Relu(y) z = Relu(a) }", 20, 9)
    paths = [tmp_path / name for name in ("in.onnx", "changed.onnx", "out.onnx", "changed_out.onnx")]
    weight = np.arange(200 * 200, dtype=np.float32).reshape(200, 200)
    for path in paths[:2]:
        proto.graph.ClearField("initializer")
        proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
        path.write_bytes(proto.SerializeToString())
        weight[0, 1] += 1
    done = onnx.run(paths[0], explain=True)
    data = onnx.certify(done).as_data()
    for path, each in zip(paths[2:], (done, onnx.run(paths[1])), strict=True):
        path.write_bytes(onnx.to_bytes(each.after))
    assert onnx.check(paths[0], paths[2], data).proved
    assert onnx.check(paths[1], paths[3], data).proved, "the steps show nothing of the weight"
    for before, after in ((paths[0], paths[3]), (paths[1], paths[2])):
        with pytest.raises(CertificateError, match="the steps do not lead from the first model to the second"):
            onnx.check(before, after, data)


def test_a_model_with_other_strings_is_refused() -> None:
    text = "(string[2] x) => (string[2] z) <string[2] s = {{{}}}> {{ z = StringConcat(x, s) }}"
    proto, other = (parsed(text.format(values), 20, 9) for values in ('"a", "b"', '"a", "c"'))
    data = onnx.certify(onnx.run(from_proto(proto), explain=True)).as_data()
    assert onnx.check(proto, proto, {**data, "after": data["before"]}).proved
    with pytest.raises(CertificateError, match="the models have different tensors 's'"):
        onnx.check(proto, other, {**data, "after": data["before"]})


def test_the_step_and_why_it_does_not_hold_are_named() -> None:
    done, data = certified(CHANGED[0])
    other = deepcopy(data)
    number, step = next((i, step) for i, step in enumerate(other["steps"], 1) if step[0] == "view-of-view")
    other["steps"][number - 1][2] = step[1]
    with pytest.raises(CertificateError, match=rf"^step {number}, view-of-view: its right side is something else$"):
        onnx.check(CHANGED[0], done.after, other)
    other["rules"]["view-of-view"] = "0" * 24
    with pytest.raises(CertificateError, match=r"^step \d+, view-of-view: the rule is of version \w+ here, and was of"):
        onnx.check(CHANGED[0], done.after, other)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a certificate"),
        ("[1]", "is not a certificate of eqsat"),
        ('{"format": "eqsat certificate", "version": 9}', "is of version 9; this eqsat reads version 1"),
        ('{"format": "eqsat certificate", "version": 1}', "'before' is missing or of the wrong kind"),
    ],
)
def test_what_is_no_certificate_is_told(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    done, _ = certified(VARIANTS[0])
    with pytest.raises(CertificateError, match=why):
        onnx.check(VARIANTS[0], done.after, path)


# ---- what a certificate does not cover


def test_rules_of_ones_own_are_checked_where_they_are_given() -> None:
    x, y = rules.variables("x y")
    mine = rules.rewrite("mine", x - y, x + is_op("negative")(y))
    back = rules.rewrite("back", x + is_op("negative")(y), x - y)
    proto = parsed("(float[2] x, float[2] y) => (float[2] z) { n = Neg(y) z = Add(x, n) }")
    done = onnx.run(from_proto(proto), [mine, back], explain=True)
    data = onnx.certify(done).as_data()
    assert onnx.check(proto, done.after, data, [mine, back]).proved
    with pytest.raises(CertificateError, match="there is no such rule; give the rule sets"):
        onnx.check(proto, done.after, data)


def test_a_rule_whose_text_was_changed_is_refused_with_the_step_named() -> None:
    x, y = rules.variables("x y")
    sides = x - y, x + is_op("negative")(y)
    below = rules.rewrite("below", *sides, rules.when(lambda ty: len(ty.shape) < 3, rules.type_of(x)))
    other = rules.rewrite("below", *sides, rules.when(lambda ty: len(ty.shape) < 9, rules.type_of(x)))
    proto = parsed("(float[2] x, float[2] y) => (float[2] z) { a = Sub(x, y) n = Neg(y) b = Add(x, n) z = Mul(a, b) }")
    done = onnx.run(from_proto(proto), [below], explain=True)
    data = onnx.certify(done).as_data()
    assert onnx.check(proto, done.after, data, [below]).proved
    with pytest.raises(CertificateError, match=r"^step 1, below: the rule is of version \w+ here, and was of version"):
        onnx.check(proto, done.after, data, [other])


def test_a_run_that_kept_nothing_has_no_certificate() -> None:
    with pytest.raises(ArgumentError, match="explain=True"):
        onnx.certify(onnx.run(VARIANTS[0]))


def test_json_holds_a_certificate(tmp_path: Path) -> None:
    _, data = certified(CHANGED[0])
    read(data).save(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text()) == json.loads(json.dumps(data))


RANDOM = """(float[2] x) => (float[2] y) {
    r = RandomNormalLike(x) s = RandomNormalLike(x) d = Sub(r, s) e = Relu(d) y = Relu(e)
}"""
CALLED = '<domain: "m", opset_import: ["": 17]>\nf (q) => (w) { w = Exp(q) }'


@pytest.mark.parametrize(
    "proto",
    [
        parsed("(float[2] x) => (float[2] y) { a = Relu(x) b = Relu(a) y = NobodyKnows(b) }"),
        parsed(RANDOM),
        parsed("(float[2] x) => (float[2] y) { a = Relu(x) b = Relu(a) y = m.f(b) }", 17, 8, ', "m": 1', CALLED),
        parsed("(float[2] x, float[3] u) => (float[2] y, float[2] z) { a = Relu(x) y = Relu(a) z = Identity(x) }"),
    ],
    ids=["unknown", "random", "function", "outputs"],
)
def test_nodes_that_are_not_understood_are_in_certificates(proto: Any) -> None:
    done = onnx.run(from_proto(proto), explain=True)
    assert onnx.check(proto, done.after, onnx.certify(done)).proved


def test_a_model_of_a_newer_opset_has_a_certificate() -> None:
    proto = parsed("(float[2, 3] x) => (float[2, 3] y) { a = Relu(x) b = Relu(a) y = Softmax <axis = 1> (b) }", 11)
    done = onnx.run(from_proto(proto), explain=True, opset=20)
    data = onnx.certify(done).as_data()
    assert onnx.check(proto, done.after, data).proved
    with pytest.raises(CertificateError, match="to another model"):
        onnx.check(proto, done.after, {**data, "opset": 11, "before": "0" * 32})


# ---- bodies


def branches(then: str, otherwise: str = "b = Neg(v)") -> Any:
    """A model with an If, whose branches take a value from outside."""
    return parsed(
        "(bool c, float[2] x) => (float[2] y) { u = Relu(x) v = Relu(u) y = If (c)"
        f" <then_branch = t () => (float[2] a) {{ {then} }}, else_branch = e () => (float[2] b) {{ {otherwise} }}> }}"
    )


ROUNDS = parsed("""(int64 n, bool t, float[2] x) => (float[2] y, float[k, 2] z) { y, z = Loop(n, t, x) <body = r
    (int64 i, bool c, float[2] s) => (bool d, float[2] o, float[2] w) {
        d = Identity(c) a = Relu(s) b = Relu(a) o = Add(b, x) q = If (c) <
            then_branch = t () => (float[2] e) { f = Neg(s) g = Neg(f) e = Mul(g, x) },
            else_branch = e () => (float[2] h) { h = Sub(x, s) }
        > p = Neg(q) w = Neg(p)
    }
> }""")
"""A Loop with an If in its body, which takes what the Loop carries and what is around it."""


@pytest.mark.parametrize(
    "proto",
    [branches("z = Relu(v) a = Exp(z)"), branches("z = Neg(v) a = Neg(z)", "w = Exp(v) b = Relu(w)"), ROUNDS],
    ids=["then", "both", "loop"],
)
def test_bodies_are_in_certificates_and_changed_ones_are_refused(proto: Any) -> None:
    done = onnx.run(from_proto(proto), explain=True)
    data = onnx.certify(done).as_data()
    assert len(list(done.after.graph.all_nodes())) < len(list(from_proto(proto).graph.all_nodes()))
    assert onnx.check(proto, done.after, data).proved
    models = onnx.Models(proto, done.after)
    for what, other in changed_certificates(data, random.Random(0), MOST):
        with pytest.raises(CertificateError):
            pytest.fail(f"{what}: {models.check(other)}")


@pytest.mark.parametrize(
    ("then", "otherwise"), [("a = Exp(v)", "b = Exp(v)"), ("a = Neg(v)", "b = Neg(v)"), ("a = Neg(v)", "b = Exp(x)")]
)
def test_a_model_with_another_body_is_refused(then: str, otherwise: str) -> None:
    proto, other = branches("z = Relu(v) a = Exp(z)"), branches(then, otherwise)
    data = onnx.certify(onnx.run(from_proto(proto), explain=True)).as_data()
    with pytest.raises(CertificateError, match="to another model: the digest of the one after is") as error:
        onnx.check(proto, other, data)
    data["after"] = str(error.value).rpartition(" is ")[2].partition(",")[0]
    with pytest.raises(CertificateError):
        onnx.check(proto, other, data)


def test_bodies_that_draw_numbers_are_not_covered() -> None:
    proto = branches("r = RandomNormalLike(v) z = Relu(r) a = Relu(z)")
    found = onnx.certify(onnx.run(from_proto(proto), explain=True))
    assert found.uncovered[-1] == "bodies in which nodes may draw numbers, or nothing is known of them"


def test_an_optimization_leaves_the_tensors_of_bodies_as_they_are() -> None:
    then = "t () => (float[2, 3] a) { axes = Constant <value = int64[1] {0}> () z = Neg(x) a = Unsqueeze(z, axes) }"
    proto = parsed(
        f"(bool c, float[3] x) => (float[N, 3] y) {{ r = If (c) <then_branch = {then},"
        " else_branch = e () => (float[1, 3] b) { k = Constant <value = int64[2] {1, 3}> () b = Reshape(x, k) }>"
        " s = Relu(r) y = Relu(s) }"
    )
    given = from_proto(proto)
    before = onnx_ir.to_proto(given)
    onnx.run(given)
    assert onnx_ir.to_proto(given) == before
