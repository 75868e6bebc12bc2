"""Sizes that a graph computes are known where the shapes of its inputs decide them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from .models import operators, optimized, parsed

BRANCHES = """y = If (c) <
    then_branch = t () => (float[2,M,4] p) { p = Exp (x) },
    else_branch = e () => (float[2,M,4] q) { q = Neg (x) }
>"""


def with_integers(proto: onnx.ModelProto, **values: int | list[int]) -> onnx.ModelProto:
    for name, value in values.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value, np.int64), name))
    return proto


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("s = Shape (x) d = Gather (s, last) e = Squeeze (d, zero) c = Equal (e, four)", {"Exp": 1}),
        ("s = Shape (x) r = Size (s) c = Equal (r, four)", {"Neg": 1}),
        ("s = Shape (x) f = Concat <axis = 0> (s, s) d = Slice (f, three, end) c = Cast <to = 9> (d)", {"Exp": 1}),
        ("s = Shape <start = 2> (x) d = Squeeze (s, zero) c = Less (d, four)", {"Neg": 1}),
    ],
    ids=["the last dimension", "the rank", "the first dimension, twice moved", "a part of the shape"],
)
def test_a_branch_that_known_dimensions_decide_is_taken(condition: str, taken: dict[str, int]) -> None:
    """The one in the middle is not known."""
    proto = parsed(f"(float[2,M,4] x) => (float[2,M,4] y) {{ {condition} {BRANCHES} }}", opset=17)
    with_integers(proto, last=[-1], zero=[0], three=[3], end=[4], four=4)
    assert operators(optimized(proto).graph) == taken


def test_an_unknown_dimension_decides_nothing() -> None:
    condition = "s = Shape (x) d = Gather (s, one) e = Squeeze (d, zero) c = Equal (e, four)"
    proto = parsed(f"(float[2,M,4] x) => (float[2,M,4] y) {{ {condition} {BRANCHES} }}")
    assert operators(optimized(with_integers(proto, one=[1], zero=[0], four=4)).graph)["If"] == 1


def test_a_shape_of_unknown_dimensions_is_one_node() -> None:
    proto = parsed("(float[N,4] x) => (int64[2] y, int64[2] z) { y = Shape (x) z = Shape (x) }")
    assert operators(optimized(proto).graph) == {"Shape": 1, "Identity": 1}


def test_sizes_that_are_computed_in_several_ways_are_computed_once() -> None:
    """As a part of the first input's shape."""
    proto = parsed(
        """(float[N,M] x, float[2,M,N] z) => (int64[2] a, int64[2] b, int64[1] c, int64[1] d) {
            a = Shape (x)  s = Shape (z)  n = Gather (s, last)  m = Gather (s, one)  b = Concat <axis = 0> (n, m)
            c = Mul (m, n)  e = Shape <end = 1> (x)  f = Shape <start = 1> (x)  d = Mul (e, f)
        }"""
    )
    after = optimized(with_integers(proto, one=[1], last=[-1]))
    found = operators(after.graph)
    assert "Concat" not in found
    assert (found["Mul"], found["Identity"]) == (1, 2)
    assert "z" not in [name for node in after.graph.node for name in node.input]


def test_an_expansion_that_does_not_name_what_it_keeps_is_understood() -> None:
    """ONNX lets 1 stand for the size that there is."""
    proto = parsed(
        """(float[N,M] x, float[1,M] z) => (float[N,M] y) {
            s = Shape (x)  n = Gather (s, zero)  t = Concat <axis = 0> (n, one)  w = Expand (z, t)  y = Add (w, x)
        }"""
    )
    assert operators(optimized(with_integers(proto, zero=[0], one=[1])).graph) == {"Add": 1}
