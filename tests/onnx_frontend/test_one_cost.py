"""The law of spellings: however a network is written, it comes to one cost, and what is made computes the same."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from eqsat import rules
from eqsat.onnx import load, run
from eqsat.onnx.files import from_proto

from .models import benchmark_module, conv_batch_norm, parsed, with_weights

DATA = Path(__file__).parents[1] / "data"
spellings = benchmark_module("spellings")

FAMILIES = [
    "algebra_00",
    "algebra_44",
    "conv_affine_00",
    "gelu_erf_02",
    "layernorm_02",
    "layout_04",
    "qkv_merge_04",
    "silu_hswish_02",
    "transpose_sink_12",
]


NAMES = """
abs-of-negative add-in-any-order add-negative clip-is-relu concat-one copy divide-constant divide-one dropout
expand-nothing gelu hardswish maximum-itself multiply-in-any-order multiply-one multiply-reciprocal
negate-difference negate-is-multiply negate-twice reciprocal-of-root reciprocal-twice relu-is-clip relu-twice
scale-after-shift sigmoid silu slice-nothing square subtract-constant subtract-from-constant subtract-negative
transpose-into-matmul-left transpose-into-matmul-right transpose-nothing transpose-out-of-binary
transpose-out-of-reduction transpose-out-of-unary view-nothing view-of-view where-both where-true
"""
MADE_BY = rules.default.only(*NAMES.split())
"""Rules that make the variants: with others, or more of them, the same seeds make others."""


def told(network) -> str:
    """What a failure of the law says."""
    return "\n".join(f"{each.name}: cost {each.cost:g}: {each.problem}" for each in network.spellings)


@pytest.mark.parametrize("name", FAMILIES)
def test_variants_of_small_networks_come_to_one_cost(name: str) -> None:
    network = spellings.of_variants(DATA / "variants" / f"{name}.onnx", count=4, steps=10, seed=0, rules=MADE_BY)
    assert len(network.spellings) == 5
    assert network.agrees, told(network)


# ---- the spellings of PyTorch's exporters

EXPORTED = {paths[0].name.partition(".")[0]: paths for paths in spellings.networks(DATA / "spellings")}
NOT_YET = {(18, "bert"): {"bert.sdpa.script"}}
"""Spellings that come to another cost, since rules on their masks and scales are missing, by opset and network."""


CASES = [*[(name, 23) for name in EXPORTED], *[(name, 18) for name in ("bert", "llama", "t5_encoder")]]
"""Each network where attention is one node, and those of different masks, positions and norms where it has none."""


@pytest.mark.parametrize(("name", "opset"), CASES)
def test_spellings_of_exporters_compute_the_same_and_come_to_one_cost(name: str, opset: int) -> None:
    network = spellings.of_files(EXPORTED[name], opset)
    assert not any(each.problem for each in network.spellings), told(network)
    others = {each.name for each in network.spellings if each.cost != network.spellings[0].cost}
    assert others == NOT_YET.get((opset, name), set()), told(network)


# ---- the first difference


def norm(epsilon: float, factor: float = 2.0) -> onnx.ModelProto:
    """A product and a norm by its standard deviation, with an epsilon."""
    return with_weights(
        parsed(
            f"""(float[2,8] x) => (float[2,4] y) {{
                d = MatMul (x, w)
                e = Constant <value = float {{{epsilon}}}> ()
                two = Constant <value = float {{{factor}}}> ()
                s = Mul (d, d)
                v = ReduceMean <axes = [-1]> (s)
                shifted = Add (v, e)
                root = Sqrt (shifted)
                q = Div (d, root)
                y = Mul (q, two)
            }}"""
        ),
        w=(8, 4),
    )


def test_rows_that_views_lay_out_become_batches_where_these_need_fewer_views() -> None:
    """The convolutions of GPT-2 are products of rows. No walk may take the batches away that the rules choose."""
    assert run(load(DATA / "spellings/gpt2.eager.dynamo.onnx"), opset=23).extraction.cost == 14


def test_the_first_difference_is_named() -> None:
    said = spellings.difference(from_proto(norm(1.0)), from_proto(norm(0.25)))
    assert said == "another computation from 'shifted' on, a Add, with e = 1"
    said = spellings.difference(from_proto(norm(1.0)), from_proto(norm(1.0, factor=3.0)))
    assert said == "another computation from 'y' on, a Mul, with two = 2"


def test_what_computes_the_same_has_no_difference() -> None:
    assert spellings.difference(from_proto(norm(1.0)), from_proto(norm(1.0))) == ""


def test_other_inputs_are_a_difference() -> None:
    said = spellings.difference(
        from_proto(conv_batch_norm()), from_proto(parsed("(float[2] a, float[2] b) => (float[2] y) { y = Add (a, b) }"))
    )
    assert said == "it takes 2 inputs, not 1"


def test_files_of_a_folder_are_grouped_and_compared(tmp_path: Path) -> None:
    for name, proto in {"net.one": norm(1.0), "net.two": norm(1.0), "net.three": norm(0.25)}.items():
        onnx.save(proto, tmp_path / f"{name}.onnx")
    onnx.save(conv_batch_norm(), tmp_path / "other.onnx")
    net, other = (spellings.of_files(paths, None) for paths in spellings.networks(tmp_path))
    assert [each.name for each in net.spellings] == ["net.one", "net.three", "net.two"]
    assert [bool(each.problem) for each in net.spellings] == [False, True, False]
    assert "shifted" in net.spellings[1].problem
    assert not net.agrees
    assert other.agrees
