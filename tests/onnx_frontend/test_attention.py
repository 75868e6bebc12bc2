"""Attention in the spellings of decoders is one node of opset 23, whichever way its parts are written."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from .models import operators, optimized, parsed

PLAIN = "t = Transpose <perm=[0,1,3,2]> (k) s = MatMul (q, t) d = Mul (s, quarter) p = Softmax <axis=-1> (d)"
SPELLINGS = {
    "scales split between queries and keys": """
        a = Mul (q, half) t = Transpose <perm=[0,1,3,2]> (k) b = Mul (t, half) s = MatMul (a, b)
        p = Softmax <axis=-1> (s)""",
    "keys turned with batches and heads joined": """
        j = Reshape (k, joined) r = Transpose <perm=[0,2,1]> (j) t = Reshape (r, split) a = Mul (q, half)
        b = Mul (t, half) s = MatMul (a, b) p = Softmax <axis=-1> (s)""",
    "scores with batches and heads joined": """
        i = Reshape (q, joined) j = Reshape (k, joined) t = Transpose <perm=[0,2,1]> (j) s = MatMul (i, t)
        d = Mul (s, quarter) e = Reshape (d, apart) p = Softmax <axis=-1> (e)""",
    "probabilities with batches and heads joined": """
        i = Reshape (q, joined) j = Reshape (k, joined) t = Transpose <perm=[0,2,1]> (j) s = MatMul (i, t)
        d = Mul (s, quarter) e = Softmax <axis=-1> (d) p = Reshape (e, apart)""",
}


def same_results(text: str, *, opset: int = 23, **shapes: tuple[int, ...]) -> dict[str, int]:
    """The operators of an optimized graph, which computes the same of random inputs."""
    proto = parsed(text, opset)
    after = optimized(proto)
    rng = np.random.default_rng(0)
    feed = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    expected, found = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, feed) for each in (proto, after)
    )
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    return operators(after.graph)


def of_heads(body: str, batch: str, heads: int = 3) -> str:
    return f"""(float[{batch},3,5,8] q, float[{batch},{heads},5,8] k, float[{batch},{heads},5,8] v)
        => (float[{batch},3,5,8] y) <
            float half = {{0.5}}, float quarter = {{0.25}}, int64[3] joined = {{-1, 5, 8}},
            int64[4] split = {{-1, 3, 8, 5}}, int64[4] apart = {{-1, 3, 5, 5}}
        > {{ {body} y = MatMul (p, v) }}"""


@pytest.mark.parametrize("batch", ["2", "1", "B"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_is_one_node(spelling: str, batch: str) -> None:
    shape = (1 if batch == "1" else 2, 3, 5, 8)
    assert same_results(of_heads(SPELLINGS[spelling], batch), q=shape, k=shape, v=shape) == {"Attention": 1}


@pytest.mark.parametrize(
    "masked",
    [
        "r = Reshape (hidden, square) f = Add (d, r) e = Reshape (f, apart)",
        "f = Reshape (d, apart) e = Add (f, hidden)",
    ],
    ids=["mask of joined axes", "mask of axes apart"],
)
def test_batches_and_heads_are_joined_by_computed_sizes(masked: str) -> None:
    """As in BLOOM and XGLM: neither the number of batches nor that of places is known."""
    text = f"""(float[B,3,L,8] q, float[B,3,L,8] k, float[B,3,L,8] v, float[B,3,L,L] m) => (float[B,3,L,8] y) <
            float quarter = {{0.25}}, float zero = {{0}}, float low = {{-10000}},
            int64[1] three = {{3}}, int64[1] eight = {{8}}
        > {{
            b = Shape <start=0, end=1> (q) l = Shape <start=2, end=3> (q) bh = Mul (b, three)
            joined = Concat <axis=0> (bh, l, eight) square = Concat <axis=0> (bh, l, l)
            apart = Concat <axis=0> (b, three, l, l)
            split = Concat <axis=0> (b, three, l, eight) c = Cast <to=9> (m) hidden = Where (c, zero, low)
            i = Reshape (q, joined) j = Reshape (k, joined) t = Transpose <perm=[0,2,1]> (j) s = MatMul (i, t)
            d = Mul (s, quarter) {masked} p = Softmax <axis=-1> (e) g = Reshape (p, square)
            h = Reshape (v, joined) o = MatMul (g, h) y = Reshape (o, split)
        }}"""
    shape = (2, 3, 5, 8)
    assert same_results(text, q=shape, k=shape, v=shape, m=(2, 3, 5, 5)) == {"Cast": 1, "Where": 1, "Attention": 1}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_costs_as_much_where_there_is_no_node_of_attention(spelling: str) -> None:
    shape = (2, 3, 5, 8)
    texts = of_heads(PLAIN, "2"), of_heads(SPELLINGS[spelling], "2")
    plain, other = (same_results(text, opset=18, q=shape, k=shape, v=shape) for text in texts)
    assert plain == other


def test_keys_whose_elements_come_before_their_places_are_turned() -> None:
    """As a convolution over places makes them."""
    text = """(float[2,3,5,8] q, float[2,24,5] k, float[2,3,5,8] v) => (float[2,3,5,8] y) <
            int64[4] apart = {2, 3, 8, 5}, float quarter = {0.25}
        > {
            t = Reshape (k, apart) s = MatMul (q, t) d = Mul (s, quarter) p = Softmax <axis=-1> (d) y = MatMul (p, v)
        }"""
    shape = (2, 3, 5, 8)
    assert same_results(text, q=shape, k=(2, 24, 5), v=shape) == {"Reshape": 1, "Transpose": 1, "Attention": 1}


def test_one_head_of_keys_for_all_queries_is_attention() -> None:
    one = (2, 1, 5, 8)
    assert same_results(of_heads(PLAIN, "2", 1), q=(2, 3, 5, 8), k=one, v=one) == {"Attention": 1}


CAP = "e = Div (d, two) f = Tanh (e) g = Mul (f, two)"


@pytest.mark.parametrize("batch", ["2", "B"])
def test_one_head_of_keys_that_is_expanded_for_all_queries_is_attention(batch: str) -> None:
    text = f"""(float[{batch},3,5,8] q, float[{batch},1,5,8] k, float[{batch},1,5,8] v) => (float[{batch},3,5,8] y) <
            int64[1] two = {{2}}, int64[5] spread = {{1, 1, 3, 5, 8}}, int64[4] shape = {{-1, 3, 5, 8}}
        > {{
            j = Unsqueeze (k, two) w = Unsqueeze (v, two) a = Expand (j, spread) b = Expand (w, spread)
            c = Reshape (a, shape) d = Reshape (b, shape)
            t = Transpose <perm=[0,1,3,2]> (c) s = MatMul (q, t) p = Softmax <axis=-1> (s) y = MatMul (p, d)
        }}"""
    assert same_results(text, q=(2, 3, 5, 8), k=(2, 1, 5, 8), v=(2, 1, 5, 8)) == {"Attention": 1}


def test_scores_with_a_scale_for_each_head_are_attention() -> None:
    text = """(float[2,3,5,8] q, float[2,3,5,8] k, float[2,3,5,8] v) => (float[2,3,5,8] y) <
            float[3,1,1] scales = {0.5, 2.5, 0.125}
        > {
            t = Transpose <perm=[0,1,3,2]> (k) s = MatMul (q, t) d = Mul (s, scales) p = Softmax <axis=-1> (d)
            y = MatMul (p, v)
        }"""
    shape = (2, 3, 5, 8)
    assert same_results(text, q=shape, k=shape, v=shape) == {"Attention": 1, "Mul": 1}


def test_positions_times_slopes_and_a_mask_are_one_sum() -> None:
    text = """(float[1,3,5,8] q, float[1,3,5,8] k, float[1,3,5,8] v, int64[1,1,1,5] m) => (float[1,3,5,8] y) <
            float[3,1,1] slopes = {0.5, 0.25, 0.125}, float zero = {0}, float low = {-1.7e38}
        > {
            t = Transpose <perm=[0,1,3,2]> (k) s = MatMul (q, t) f = Cast <to=1> (m) r = Mul (slopes, f) a = Add (s, r)
            c = Cast <to=9> (m) h = Where (c, zero, low) b = Add (a, h) p = Softmax <axis=-1> (b) y = MatMul (p, v)
        }"""
    proto = parsed(text, 23)
    assert operators(optimized(proto).graph)["Attention"] == 1


def test_biases_that_are_products_under_a_mask_are_attention() -> None:
    """As in DeBERTa: scores of relative positions, with batches and heads in one axis until the mask."""
    text = """(float[2,3,5,8] q, float[2,3,5,8] k, float[2,3,5,8] v, bool[2,1,1,5] m) => (float[2,3,5,8] y) <
            float four = {4}, float low = {-3.4028234663852886e+38},
            int64[3] joined = {-1, 5, 8}, int64[4] apart = {-1, 3, 5, 5}
        > {
            a = Reshape (q, joined) b = Reshape (k, joined) t = Transpose <perm=[0,2,1]> (b) d = Div (t, four)
            s = MatMul (a, d) c = MatMul (a, r) g = GatherElements <axis=-1> (c, at) e = Div (g, four)
            f = Add (s, e) h = Reshape (f, apart) i = Where (m, h, low) p = Softmax <axis=-1> (i) y = MatMul (p, v)
        }"""
    random = np.random.default_rng(0)
    proto = parsed(text, 23)
    constants = {"r": random.standard_normal((6, 8, 7)).astype("f4"), "at": random.integers(0, 7, (6, 5, 5))}
    proto.graph.initializer.extend([onnx.numpy_helper.from_array(each, name) for name, each in constants.items()])
    after = optimized(proto)
    assert operators(after.graph) == {
        "Attention": 1, "Where": 1, "GatherElements": 1, "MatMul": 1, "Reshape": 2, "Div": 1
    }  # fmt: skip


@pytest.mark.parametrize("mask", ["", "g = Add (g0, hidden)"], ids=["all keys", "some keys"])
def test_scores_with_a_soft_cap_are_attention(mask: str) -> None:
    """The cap is within the mask."""
    capped = CAP.replace("g =", "g0 =") if mask else CAP
    text = f"""(float[2,3,5,8] q, float[2,3,5,8] k, float[2,3,5,8] v) => (float[2,3,5,8] y)
        <float quarter = {{0.25}}, float two = {{2}}, float[5,5] hidden = {{{", ".join(["0", "-10000"] * 12)}, 0}}> {{
            t = Transpose <perm=[0,1,3,2]> (k) s = MatMul (q, t) d = Mul (s, quarter) {capped} {mask}
            p = Softmax <axis=-1> (g) y = MatMul (p, v)
        }}"""
    shape = (2, 3, 5, 8)
    assert same_results(text, q=shape, k=shape, v=shape) == {"Attention": 1}


def test_a_soft_cap_that_is_given_is_kept() -> None:
    text = """(float[2,3,5,8] q, float[2,3,5,8] k, float[2,3,5,8] v) => (float[2,3,5,8] y) <float one = {1}> {
        a = Mul (q, one) y = Attention <scale = 0.5, softcap = 2.0> (a, k, v)
    }"""
    shape = (2, 3, 5, 8)
    assert same_results(text, q=shape, k=shape, v=shape) == {"Attention": 1}


def test_a_bias_and_a_mask_of_scores_are_one_sum() -> None:
    text = """(float[2,3,5,8] q, float[2,3,5,8] k, float[2,3,5,8] v) => (float[2,3,5,8] y)
        <float[1,1,5,5] bias = {0,0,0,0,0, 1,0,0,0,0, 2,1,0,0,0, 3,2,1,0,0, 4,3,2,1,0}, float quarter = {0.25},
         float[5,5] mask = {0,-9,-9,-9,-9, 0,0,-9,-9,-9, 0,0,0,-9,-9, 0,0,0,0,-9, 0,0,0,0,0}> {
            t = Transpose <perm=[0,1,3,2]> (k) s = MatMul (q, t) d = Mul (s, quarter)
            b = Add (d, bias) m = Add (b, mask) p = Softmax <axis=-1> (m) y = MatMul (p, v)
        }"""
    shape = (2, 3, 5, 8)
    assert same_results(text, q=shape, k=shape, v=shape) == {"Attention": 1}


NEIGHBOURS = """
    b = Slice (a, one, far, last, two) n = Neg (b) nu = Unsqueeze (n, fourth) e = Slice (a, zero, far, last, two)
    eu = Unsqueeze (e, fourth) st = Concat <axis=-1> (nu, eu) sh = Shape (a) r = Reshape (st, sh)"""
HALVES = "f = Slice (a, zero, half, last) g = Slice (a, half, far, last) n = Neg (g) r = Concat <axis=-1> (n, f)"


@pytest.mark.parametrize("some", [False, True], ids=["all elements", "some elements"])
@pytest.mark.parametrize(
    ("turned", "places_first"),
    [(NEIGHBOURS, False), (NEIGHBOURS, True), (HALVES, False)],
    ids=["neighbours", "neighbours, places first", "halves"],
)
def test_rotary_embeddings_of_neighbours_and_of_some_elements_are_one_node(
    turned: str, places_first: bool, some: bool
) -> None:
    shape, angles = ((2, 5, 3, 8), "1,5,1,4") if places_first else ((2, 3, 5, 8), "1,1,5,4")
    rng = np.random.default_rng(0)
    angle = rng.standard_normal((5, 2))
    both = np.repeat(angle, 2, axis=1) if turned == NEIGHBOURS else np.tile(angle, (1, 2))
    cos, sin = (
        "{" + ",".join(f"{value:.6f}" for value in table.ravel()) + "}" for table in (np.cos(both), np.sin(both))
    )
    dims = ",".join(map(str, shape if some else (*shape[:3], 4)))
    body = f"{turned} c = Mul (a, cos) s = Mul (r, sin)"
    ends = "w = Add (c, s) y = Concat <axis=-1> (w, z)" if some else "y = Add (c, s)"
    starts = "a = Slice (x, zero, four, last) z = Slice (x, four, far, last)" if some else "a = Identity (x)"
    text = f"""(float[{dims}] x) => (float[{dims}] y) <
            float[{angles}] cos = {cos}, float[{angles}] sin = {sin}, int64[1] zero = {{0}}, int64[1] one = {{1}},
            int64[1] two = {{2}}, int64[1] half = {{2}}, int64[1] four = {{4}}, int64[1] last = {{3}},
            int64[1] fourth = {{4}}, int64[1] far = {{9223372036854775807}}
        > {{ {starts} {body} {ends} }}"""
    found = same_results(text, x=(*shape[:3], 8 if some else 4))
    assert found.pop("RotaryEmbedding") == 1
    assert found in ({}, {"Reshape": 2})  # where the places come first, the embedding takes joined heads


def test_flags_that_are_all_true_hide_nothing_wherever_they_are_looked_up() -> None:
    """As in BART: whether a key is hidden is looked up in a row of all batches, at places that are computed."""
    text = """(float[B,2,3,8] q, float[B,2,3,8] k, float[B,2,3,8] v) => (float[B,2,3,8] y) <
            int64[1] three = {3}, int64[2] flat = {-1, 1}, int64[4] apart = {0, 1, 1, 3}, int64 first = {0},
            int64 next = {1}, int64[3] axes = {1, 2, 3}, int64[1,1,1,3] keys = {0, 1, 2}, float zero = {0},
            float low = {-3.4028234663852886e+38}, float[1,1,3,3] causal = {0, -1e9, -1e9, 0, 0, -1e9, 0, 0, 0}
        > {
            b = Shape <start=0, end=1> (q) sizes = Concat <axis=0> (b, three)
            flags = ConstantOfShape <value = bool[1] {1}> (sizes) row = Reshape (flags, flat)
            n = Squeeze (b) of = Range (first, n, next) batches = Unsqueeze (of, axes) start = Mul (batches, three)
            at = Add (keys, start) found = Gather <axis=0> (row, at) shown = Reshape (found, apart)
            mask = Where (shown, causal, low) t = Transpose <perm=[0,1,3,2]> (k) s = MatMul (q, t) m = Add (s, mask)
            p = Softmax <axis=-1> (m) y = MatMul (p, v)
        }"""
    shape = (2, 2, 3, 8)
    assert same_results(text, q=shape, k=shape, v=shape) == {"Attention": 1}


@pytest.mark.parametrize("mask", ["Add (bias, hidden)", "Where (m, bias, low)"])
def test_a_bias_is_masked_by_a_sum_as_by_a_choice(mask: str) -> None:
    """As in T5, whose spellings do both: beside so low a number nothing is left of the bias."""
    text = f"""(float[2,3,5,8] q, float[2,3,5,8] k, float[2,3,5,8] v, bool[2,1,1,5] m, int64[5,5] at)
        => (float[2,3,5,8] y) <
            float zero = {{0}}, float low = {{-3.4028234663852886e+38}}, float[4] table = {{1, 2, 3, 4}}
        > {{
            bias = Gather (table, at) hidden = Where (m, zero, low) mask = {mask} t = Transpose <perm=[0,1,3,2]> (k)
            s = MatMul (q, t) d = Add (s, mask) p = Softmax <axis=-1> (d) y = MatMul (p, v)
        }}"""
    assert operators(optimized(parsed(text, 23)).graph) == {"Gather": 1, "Where": 1, "Attention": 1}
