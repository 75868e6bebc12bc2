"""Networks of unknown batch and length, as exporters write them: what they compute of shapes goes away."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from eqsat import rules
from eqsat.onnx import import_model, run
from eqsat.onnx.files import from_proto

from .models import operators, optimized, parsed, with_weights

Feed = dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]


def with_constants(proto: onnx.ModelProto, **values: object) -> onnx.ModelProto:
    for name, value in values.items():
        array = np.asarray(value)
        array = array.astype("f4" if array.dtype.kind == "f" else array.dtype)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def agree(before: onnx.ModelProto, after: onnx.ModelProto, *feeds: Feed) -> bool:
    """Whether two models give the same, up to rounding, for each of these inputs."""
    first, second = (onnxruntime.InferenceSession(proto.SerializeToString()) for proto in (before, after))
    return all(
        np.allclose(one, other, rtol=1e-4, atol=1e-5) and one.shape == other.shape
        for feed in feeds
        for one, other in zip(first.run(None, feed), second.run(None, feed), strict=True)
    )


def rows(*shape: int) -> Feed:
    return {"x": np.random.default_rng(0).standard_normal(shape).astype("f4")}


HEADS = """(float[batch,seq,8] x) => (float[batch,seq,8] y) {
    s = Shape (x)  b = Gather (s, zero)  n = Gather (s, one)
    b1 = Unsqueeze (b, front)  n1 = Unsqueeze (n, front)
    split = Concat <axis = 0> (b1, n1, two, four)
    join = Concat <axis = 0> (b1, n1, eight)
    q = MatMul (x, wq)  q4 = Reshape (q, split)  qt = Transpose <perm = [0, 2, 1, 3]> (q4)
    k = MatMul (x, wk)  k4 = Reshape (k, split)  kt = Transpose <perm = [0, 2, 3, 1]> (k4)
    v = MatMul (x, wv)  v4 = Reshape (v, split)  vt = Transpose <perm = [0, 2, 1, 3]> (v4)
    a = MatMul (qt, kt)  p = Softmax <axis = -1> (a)
    o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)
    y = Reshape (ot, join)
}"""


def test_heads_are_split_and_joined_without_looking_at_shapes() -> None:
    proto = with_weights(parsed(HEADS), wq=(8, 8), wk=(8, 8), wv=(8, 8))
    with_constants(proto, zero=0, one=1, front=[0], two=[2], four=[4], eight=[8])
    after = optimized(proto)
    assert operators(after.graph) == {"MatMul": 3, "Split": 1, "Reshape": 2, "Transpose": 3, "Softmax": 1}
    assert agree(proto, after, rows(1, 1, 8), rows(2, 5, 8), rows(3, 1, 8))


MASKED = """(float[batch,seq,8] x) => (float[batch,seq,seq] y) {
    s = Shape (x)  n = Gather (s, one)  n1 = Unsqueeze (n, front)  b = Slice (s, front, first, front)
    r = Range (zero, n, one)  row = Unsqueeze (r, front)  column = Unsqueeze (r, first)
    seen = LessOrEqual (row, column)
    ones3 = ConstantOfShape <value = int64[1] {1}> (three)
    minus = Mul (ones3, least)
    wanted = Concat <axis = 0> (b, n1, n1)
    is_any = Equal (wanted, minus)
    target = Where (is_any, ones3, wanted)
    wide = Expand (seen, target)
    m = Where (wide, none, low)
    t = Transpose <perm = [0, 2, 1]> (x)
    scores = MatMul (x, t)
    y = Add (scores, m)
}"""


def test_masks_broadcast_by_themselves() -> None:
    proto = with_constants(parsed(MASKED), zero=0, one=1, front=[0], first=[1], three=[3], least=-1, none=0.0, low=-1e4)
    after = optimized(proto)
    found = operators(after.graph)
    assert not {"Expand", "Equal", "Concat", "ConstantOfShape"} & set(found)
    assert found["Where"] == found["Range"] == 1
    assert agree(proto, after, rows(1, 1, 8), rows(2, 5, 8))


BY_ROWS = """(bool[batch,seq] x) => (bool[batch,{ones}seq] y) {{
    s = Shape (x)  b = Gather (s, zero)  n = Gather (s, one)
    r = Range (zero, b, one)  row = Unsqueeze (r, behind)  c = Range (zero, n, one)  column = Unsqueeze (c, before)
    flat = Reshape (x, minus)  first = Mul (row, n)  place = Add (first, column)  taken = Gather (flat, place)
    y = Unsqueeze (taken, first_axis)
}}"""
BY_PAIRS = """(bool[batch,seq] x) => (bool[batch,{ones}seq] y) {{
    s = Shape (x)  b = Gather (s, zero)  n = Gather (s, one)
    r = Range (zero, b, one)  row = Unsqueeze (r, behind)  c = Range (zero, n, one)  column = Unsqueeze (c, before)
    both = Max (row, column)  sizes = Shape (both)
    rows = Expand (row, sizes)  i = Unsqueeze (rows, last)
    columns = Expand (column, sizes)  j = Unsqueeze (columns, last)
    pairs = Concat <axis = -1> (i, j)  taken = GatherND (x, pairs)
    y = Unsqueeze (taken, first_axis)
}}"""


@pytest.mark.parametrize("text", [BY_ROWS, BY_PAIRS], ids=["by rows", "by pairs"])
@pytest.mark.parametrize("axes", [1, 3])  # of one element, between rows and columns; one of them is put in at the end
def test_a_matrix_that_is_gathered_by_all_its_places_is_that_matrix(text: str, axes: int) -> None:
    proto = with_constants(parsed(text.format(ones="1," * axes)), zero=0, one=1, first_axis=[1], last=[-1], minus=[-1])
    with_constants(proto, behind=[*range(1, axes + 1)], before=[*range(axes)])
    after = optimized(proto)
    (only,) = after.graph.node
    assert only.op_type in ("Unsqueeze", "Reshape")
    assert agree(proto, after, *({"x": np.random.default_rng(0).random(shape) < 0.5} for shape in ((2, 3), (1, 4))))


BY_COLUMNS = """(bool[batch,all] x, float[seq] of) => (bool[batch,1,1,seq] y) {
    s = Shape (x)  b = Gather (s, zero)  w = Gather (s, one)  o = Shape (of)  n = Squeeze (o)
    r = Range (zero, b, one)  row = Unsqueeze (r, behind)  c = Range (zero, n, one)  column = Unsqueeze (c, before)
    TAKEN
}"""
TAKEN = {
    "rows": """flat = Reshape (x, minus)  first = Mul (row, w)  place = Add (first, column)
        y = Gather (flat, place)""",
    "pairs": """both = Max (row, column)  sizes = Shape (both)
        rows = Expand (row, sizes)  i = Unsqueeze (rows, last)
        columns = Expand (column, sizes)  j = Unsqueeze (columns, last)
        pairs = Concat <axis = -1> (i, j)  y = GatherND (x, pairs)""",
}


@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN.keys())
def test_of_a_matrix_the_columns_of_a_range_are_gathered_at_once(taken: str) -> None:
    """As of a mask of keys, of which nobody says that there are as many as keys of the past and new ones."""
    proto = with_constants(parsed(BY_COLUMNS.replace("TAKEN", taken)), zero=0, one=1, last=[-1], minus=[-1])
    with_constants(proto, behind=[1, 2, 3], before=[0, 1, 2])
    after = optimized(proto)
    assert operators(after.graph) == {"Shape": 1, "Reshape": 1, "Range": 1, "Gather": 1, "Unsqueeze": 1}
    random = np.random.default_rng(0)
    assert agree(proto, after, *({"x": random.random((3, width)) < 0.5, "of": np.zeros(4, "f4")} for width in (4, 6)))


CAUSAL = """(float[batch,2,seq,4] q, float[batch,2,seq,4] k, float[batch,2,seq,4] v) => (float[batch,2,seq,4] y) {{
    s = Shape (q)  n = Gather (s, two)  n1 = Gather (s, twos)
    r = Range (zero, n, one)  column = Unsqueeze (r, front)  row = Unsqueeze (r, last)
    {mask}
    t = Transpose <perm = [0, 1, 3, 2]> (k)  scores = MatMul (q, t)  added = Add (scores, mask)
    weights = Softmax <axis = -1> (added)  y = MatMul (weights, v)
}}"""
MASKS = {
    "places": "shown = LessOrEqual (column, row)  mask = Where (shown, none, low)",
    "a triangle": """square = Concat <axis = 0> (n1, n1)  ones = Expand (unit, square)
        lower = Trilu <upper = 0> (ones, zero)  gone = Equal (lower, none)  mask = Where (gone, low, none)""",
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("low", [-np.inf, np.finfo("float32").min])
def test_a_mask_of_the_keys_behind_a_query_is_causal_attention(mask: str, low: float) -> None:
    proto = with_constants(parsed(CAUSAL.format(mask=mask), opset=23, ir_version=10), zero=0, one=1, two=2, twos=[2])
    with_constants(proto, front=[0], last=[-1], low=low, none=0.0, unit=1.0)
    after = optimized(proto)
    (only,) = after.graph.node
    assert (only.op_type, helper.get_node_attr_value(only, "is_causal"), len(only.input)) == ("Attention", 1, 3)
    random = np.random.default_rng(0)
    for shape in ((1, 2, 1, 4), (2, 2, 5, 4)):
        assert agree(proto, after, {name: random.standard_normal(shape).astype("f4") for name in "qkv"})


LOOKED_UP = """both_{0} = Max (row, {0})  sizes_{0} = Shape (both_{0})
    rows_{0} = Expand (row, sizes_{0})  i_{0} = Unsqueeze (rows_{0}, last)
    columns_{0} = Expand ({0}, sizes_{0})  j_{0} = Unsqueeze (columns_{0}, last)
    pairs_{0} = Concat <axis = -1> (i_{0}, j_{0})
    place_{0} = GatherND (places, pairs_{0})  number_{0} = GatherND (number, pairs_{0})"""
PACKED = """(float[batch,2,seq,4] q, float[batch,2,seq,4] k, float[batch,2,seq,4] v) => (float[batch,2,seq,4] y) {{
    s = Shape (q)  b = Gather (s, zero)  n = Gather (s, two)  sizes = Gather (s, ends)
    r = Range (zero, n, one)  u = Unsqueeze (r, front)  places = Expand (u, sizes)
    first = Slice (places, front, second, second)  before = Sub (first, one)
    joined = Concat <axis = -1> (before, places)  stop = Unsqueeze (n, front)  more = Add (n, one)
    stop1 = Unsqueeze (more, front)  later = Slice (joined, second, stop1, second)
    earlier = Slice (joined, front, stop, second)  step = Sub (later, earlier)
    goes_on = Equal (step, one)  begins = Not (goes_on)  ones = Cast <to = 7> (begins)
    number = CumSum (ones, minus)
    rb = Range (zero, b, one)  row = Unsqueeze (rb, behind)  key = Unsqueeze (r, above)  query = Unsqueeze (r, around)
    {keys}
    {queries}
    ordered = LessOrEqual (place_key, place_query)  alike = Equal (number_query, number_key)
    shown = And (ordered, alike)
    {attention}
}}"""
ATTENTIONS = {
    "one node": "y = Attention (q, k, v, shown)",
    "written out": """mask = Where (shown, none, low)  t = Transpose <perm = [0, 1, 3, 2]> (k)
        scores = MatMul (q, t)  added = Add (scores, mask)
        weights = Softmax <axis = -1> (added)  y = MatMul (weights, v)""",
}


@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS.keys())
def test_places_that_count_up_are_those_of_one_sequence(attention: str) -> None:
    """Decoders compute at run time which places continue a sequence, and look up whether two are of the same one."""
    lookups = {"keys": LOOKED_UP.format("key"), "queries": LOOKED_UP.format("query")}
    proto = with_constants(
        parsed(PACKED.format(**lookups, attention=attention), opset=23, ir_version=10), zero=0, one=1, two=2, minus=-1
    )
    with_constants(proto, ends=[0, 2], front=[0], second=[1], last=[-1], behind=[1, 2, 3], above=[0, 1, 2])
    with_constants(proto, around=[0, 1, 3], none=0.0, low=np.finfo("f4").min)
    after = optimized(proto)
    (only,) = after.graph.node
    assert (only.op_type, helper.get_node_attr_value(only, "is_causal"), len(only.input)) == ("Attention", 1, 3)
    random = np.random.default_rng(0)
    for shape in ((1, 2, 1, 4), (2, 2, 5, 4)):
        assert agree(proto, after, {name: random.standard_normal(shape).astype("f4") for name in "qkv"})


OPEN_ROWS = """(float[batch,seq,8] x) => (float[batch,seq,8] y) {
    flat = Reshape (x, rows)  h = Gemm <transB = 1> (flat, w1, b1)  a = Relu (h)  g = Gemm <transB = 1> (a, w2, b2)
    sum = Add (flat, g)  s = Shape (x)  front = Slice (s, zero, two)  sizes = Concat <axis = 0> (front, eight)
    y = Reshape (sum, sizes)
}"""


def test_rows_are_not_laid_out_where_that_would_need_their_number() -> None:
    proto = with_weights(parsed(OPEN_ROWS), w1=(4, 8), b1=(4,), w2=(8, 4), b2=(8,))
    with_constants(proto, rows=[-1, 8], zero=[0], two=[2], eight=[8])
    after = optimized(proto)
    assert operators(after.graph) == {"MatMul": 2, "Add": 3, "Relu": 1}
    assert agree(proto, after, rows(1, 1, 8), rows(2, 5, 8))


PADDED = """(float[batch,2,seq,4] q, float[batch,2,seq,4] k, float[batch,2,seq,4] v, bool[batch,seq] m)
    => (float[batch,2,seq,4] y) {
    s = Shape (q)  n = Gather (s, two)  r = Range (zero, n, one)  row = Unsqueeze (r, last)
    always = GreaterOrEqual (row, zero)  pad = Unsqueeze (m, middle)  shown = And (always, pad)
    mask = Where (shown, none, low)
    t = Transpose <perm = [0, 1, 3, 2]> (k)  scores = MatMul (q, t)  added = Add (scores, mask)
    weights = Softmax <axis = -1> (added)  y = MatMul (weights, v)
}"""


def test_a_mask_of_keys_has_a_row_for_each_query_where_attention_is_one_node() -> None:
    """ONNX Runtime takes no other; that a place is not negative says nothing."""
    proto = with_constants(parsed(PADDED, opset=23, ir_version=10), zero=0, one=1, two=2, last=[-1], middle=[1, 2])
    with_constants(proto, low=np.finfo("f4").min, none=0.0)
    after = optimized(proto)
    found = operators(after.graph)
    assert found["Attention"] == 1
    assert "Range" not in found
    random = np.random.default_rng(0)
    for shape in ((1, 2, 1, 4), (2, 2, 5, 4)):
        feed: Feed = {name: random.standard_normal(shape).astype("f4") for name in "qkv"}
        feed["m"] = np.arange(shape[2]) < random.integers(1, shape[2] + 1, (shape[0], 1))
        assert agree(proto, after, feed)


PLACED = """(int64[batch,seq] ids) => (float[batch,seq,2,4] y) {
    s = Shape (ids)  n = Slice (s, first, second, front)
    words = Gather (table, ids)
    here = Slice (places, front, n, first, first)
    where_ = Gather (embedding, here)
    h = Add (words, where_)
    b = Slice (s, front, first, front)
    split = Concat <axis = 0> (b, n, second, four)
    y = Reshape (h, split)
}"""


def test_positions_that_are_repeated_for_each_of_a_batch_are_looked_up_once() -> None:
    """As are where sequences begin, which is computed of neighbours: known, before all is repeated."""
    text = """(float[batch,4,8] x) => (float[batch,4,8] z) {
        s = Shape (x)  b = Gather (s, front)  repeats = Concat <axis = 0> (b, once)  p = Tile (places, repeats)
        table = Gather (weight, p)  y = Add (x, table)
        first = Slice (p, front, once, once)  before = Sub (first, one)  all = Concat <axis = 1> (before, p)
        left = Slice (all, front, end, once)  gaps = Sub (p, left)  jumps = Greater (gaps, one)
        number = Cast <to = 7> (jumps)  sums = CumSum (number, one)  same = Equal (sums, zero)
        shown = Unsqueeze (same, last)  z = Where (shown, y, none)
    }"""
    proto = with_constants(with_weights(parsed(text), weight=(6, 8)), places=[[0, 1, 2, 3]], front=[0], once=[1])
    with_constants(proto, one=1, zero=0, end=[4], last=[2], none=0.0)
    after = optimized(proto)
    assert operators(after.graph) == {"Add": 1}
    assert agree(proto, after, rows(1, 4, 8), rows(3, 4, 8))


def test_what_is_repeated_as_often_as_sizes_say_stays_so() -> None:
    proto = parsed("(float[n,2] x, int64[2] r) => (float[a,b] y) { t = Tile (x, r) u = Neg (t) y = Neg (u) }")
    after = optimized(proto)
    assert operators(after.graph) == {"Tile": 1}
    assert agree(proto, after, {**rows(3, 2), "r": np.array([2, 3])})


def test_a_sum_with_the_part_of_a_table_has_the_size_of_what_meets_it() -> None:
    """The part is as long as the words are, or the table: where the sum exists, it is as long as the words."""
    proto = with_weights(parsed(PLACED), table=(9, 8), embedding=(16, 8))
    with_constants(proto, front=[0], first=[1], second=[2], four=[4], places=np.arange(16, dtype="int64")[None])
    after = optimized(proto)
    (view,) = [node for node in after.graph.node if node.op_type == "Reshape"]
    (codes,) = [numpy_helper.to_array(value) for value in after.graph.initializer if value.name == view.input[1]]
    assert codes.tolist() == [0, 0, 2, 4]
    assert agree(proto, after, {"ids": np.ones((2, 5), "int64")}, {"ids": np.ones((1, 16), "int64")})


@pytest.mark.parametrize("empty", [(0, 4), (3, 0)])
def test_empty_batches_stay_possible(empty: tuple[int, int]) -> None:
    text = """(float[a,b] x) => (float[a,b,1] y) {
        s = Shape (x) w = Concat <axis = 0> (s, one) y = Reshape <allowzero = 1> (x, w)
    }"""
    proto = with_constants(parsed(text), one=[1])
    assert agree(proto, optimized(proto), rows(*empty), rows(2, 3))


def test_the_only_size_that_is_not_known_is_what_is_left_over() -> None:
    """Be it computed or asked for: n - 5 is -1 where n is 4."""
    text = """(float[n,6] x) => (float[m,3] y) {
        s = Shape <end = 1> (x) r = Sub (s, five) w = Concat <axis = 0> (r, three) y = Reshape (x, w)
    }"""
    proto = with_constants(parsed(text), five=[5], three=[3])
    after = optimized(proto)
    assert operators(after.graph) == {"Reshape": 1}
    assert agree(proto, after, rows(4, 6))


def bytes_network() -> onnx.ModelProto:
    """One-hot rows of bytes times a table, GELU, normalization by moments, dense, softmax: as JAX exports them."""
    gelu = """
        g1 = Mul (c3, h)  g2 = Mul (h, g1)  g3 = Mul (h, g2)  g4 = Add (h, g3)  g5 = Mul (root, g4)
        g6 = Tanh (g5)  g7 = Add (one, g6)  g8 = Mul (half, g7)  g = Mul (h, g8)"""
    norm = """
        n1 = ReduceSum <keepdims = 0> (r, axis1)  mean = Mul (n1, share)  n2 = Reshape (mean, keep)  n3 = Sub (r, n2)
        n4 = Mul (r, r)  n5 = ReduceSum <keepdims = 0> (n4, axis1)  n6 = Mul (n5, share)  n7 = Mul (mean, mean)
        n8 = Sub (n6, n7)  n9 = Max (none, n8)  n10 = Reshape (n9, keep)  n11 = Add (n10, eps)  n12 = Sqrt (n11)
        n13 = Reciprocal (n12)  n14 = Mul (n13, gamma)  n15 = Mul (n3, n14)  n = Add (n15, beta)"""
    softmax = """
        m = ReduceMax <axes = [1], keepdims = 0> (z)  m1 = Max (low, m)  m2 = Reshape (m1, column)  m3 = Sub (z, m2)
        e = Exp (m3)  e1 = ReduceSum <keepdims = 0> (e, axis1)  e2 = Reshape (e1, column)  y = Div (e, e2)"""
    text = f"""(int32[batch,8] bytes) => (float[batch,5] y) {{
        i = Reshape (bytes, hot)  eq = Equal (i, numbers)  rows = Cast <to = 1> (eq)
        e0 = MatMul (rows, table)  h = Add (e0, bias) {gelu}
        r = Reshape (g, blocks) {norm}
        flat = Reshape (n, line)  z0 = MatMul (flat, w)  z = Add (z0, c) {softmax}
    }}"""
    proto = with_weights(
        parsed(text), table=(257, 4), bias=(1, 1, 4), gamma=(1, 4, 1), beta=(1, 4, 1), w=(32, 5), c=(1, 5)
    )
    return with_constants(
        proto,
        hot=[-1, 8, 1],
        numbers=np.arange(257, dtype="int32").reshape(1, 1, -1),
        c3=0.044715,
        root=0.7978846,
        one=1.0,
        half=0.5,
        blocks=[-1, 4, 8],
        axis1=[1],
        share=0.25,
        keep=[-1, 1, 8],
        none=0.0,
        eps=1e-6,
        line=[-1, 32],
        low=-np.inf,
        column=[-1, 1],
    )


def test_a_network_over_bytes_in_few_operators() -> None:
    """One-hot rows times a table are rows of it, GELU is in the table: that bytes are bytes is for the user to say."""
    proto = bytes_network()
    feed = {"bytes": np.random.default_rng(0).integers(0, 257, (3, 8)).astype("int32")}
    plain, told = optimized(proto), optimized(proto, rules.default, rules.finite, rules.in_range)
    assert operators(plain.graph)["Softmax"] == operators(told.graph)["Softmax"] == 1
    found = operators(told.graph)
    assert found["LayerNormalization"] == found["Gather"] == found["Gemm"] == 1
    assert sum(found.values()) == 8
    assert agree(proto, plain, feed)
    assert agree(proto, told, feed)


def test_what_is_declared_of_values_between_is_not_believed() -> None:
    proto = parsed("(float[n,6] x) => (float[n,2,3] y) { h = Exp (x) y = Reshape (h, w) }")
    with_constants(proto, w=[0, 2, 3])
    proto.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [4, 6]))
    assert agree(proto, optimized(proto), rows(1, 6), rows(5, 6))


def test_a_token_before_the_others_of_each_row() -> None:
    """The token is expanded to the batch alone, which says nothing of its length: sizes behind it are known still."""
    text = """(float[batch,3,8] x) => (float[batch,4,2,4] y) {
        s = Shape (x) b = Slice (s, front, first, front) w = Concat <axis = 0> (b, first, first)
        t = Expand (token, w) h = Concat <axis = 1> (t, x)
        split = Concat <axis = 0> (b, left, two, four) y = Reshape (h, split)
    }"""
    proto = with_weights(parsed(text), token=(1, 1, 8))
    with_constants(proto, front=[0], first=[1], left=[-1], two=[2], four=[4])
    after = optimized(proto)
    assert operators(after.graph)["Concat"] == 2
    assert agree(proto, after, rows(1, 3, 8), rows(5, 3, 8))


def test_linear_layers_of_one_tensor_share_its_rows() -> None:
    """Products with their biases are one operator each over rows, and the view back is that of the heads."""
    text = """(float[2,3,8] x) => (float[2,3,2,4] q4, float[2,3,2,4] k4) {
        q = MatMul (x, wq) qb = Add (q, bq) q4 = Reshape (qb, heads)
        k = MatMul (x, wk) kb = Add (k, bk) k4 = Reshape (kb, heads)
    }"""
    proto = with_weights(parsed(text), wq=(8, 8), wk=(8, 8), bq=(8,), bk=(8,))
    with_constants(proto, heads=[2, 3, 2, 4])
    after = optimized(proto)
    assert operators(after.graph) == {"Reshape": 3, "Gemm": 2}
    assert agree(proto, after, rows(2, 3, 8))


def test_a_product_of_joined_heads_keeps_its_batches_where_their_sizes_are_computed() -> None:
    text = """(float[batch,seq,2,4] x) => (float[batch,seq,3] y) {
        joined = Reshape (x, flat)  product = MatMul (joined, w)  s = Shape (x)
        two = Slice (s, start, end)  sizes = Concat <axis = 0> (two, out)  y = Reshape (product, sizes)
    }"""
    proto = with_constants(with_weights(parsed(text), w=(8, 3)), flat=[-1, 8], start=[0], end=[2], out=[3])
    after = optimized(proto)
    assert operators(after.graph) == {"Reshape": 1, "MatMul": 1}
    assert agree(proto, after, rows(2, 3, 2, 4), rows(1, 5, 2, 4))


def test_between_linear_layers_rows_stay_rows() -> None:
    """Two blocks of a transformer without their attention: a view at the start, one at the end, and none between."""
    block = """(float[2,3,8] x0) => (float[2,3,2,4] y) { BLOCKS f = MatMul (x2, wq) y = Reshape (f, heads) }"""
    texts = [
        f"""n{i} = LayerNormalization <axis = -1> (x{i}, scale, shift) h{i} = MatMul (n{i}, w1) b{i} = Add (h{i}, c1)
        r{i} = Relu (b{i}) g{i} = MatMul (r{i}, w2) o{i} = Add (g{i}, c2) x{i + 1} = Add (x{i}, o{i})"""
        for i in range(2)
    ]
    proto = with_weights(
        parsed(block.replace("BLOCKS", "\n".join(texts))),
        w1=(8, 16), c1=(16,), w2=(16, 8), c2=(8,), wq=(8, 8), scale=(8,), shift=(8,),
    )  # fmt: skip
    with_constants(proto, heads=[2, 3, 2, 4])
    after = optimized(proto)
    assert operators(after.graph) == {
        "Reshape": 2, "LayerNormalization": 2, "Gemm": 4, "Relu": 2, "Add": 2, "MatMul": 1,
    }  # fmt: skip
    assert agree(proto, after, {"x0": rows(2, 3, 8)["x"]})


def test_an_axis_of_one_head_may_be_away_while_others_are_turned() -> None:
    proto = parsed(
        """(float[n,1,m,8] x) => (float[n,1,8,m] y) <int64[3] joined = {0, -1, 8}, int64[4] apart = {0, 1, 8, -1}> {
            rows = Reshape (x, joined)  turned = Transpose <perm = [0, 2, 1]> (rows)  y = Reshape (turned, apart)
        }"""
    )
    after = optimized(proto)
    assert operators(after.graph) == {"Transpose": 1}
    assert agree(proto, after, rows(2, 1, 3, 8), rows(1, 1, 1, 8))


def test_flattening_keeps_what_is_not_known() -> None:
    proto = parsed("(float[n,2,3] x) => (float[m,3] y) { h = Flatten <axis = 2> (x) y = Exp (h) }")
    assert agree(proto, optimized(proto), rows(1, 2, 3), rows(4, 2, 3))


def test_axes_put_in_apart_from_each_other_are_understood_where_one_dimension_is_not_known() -> None:
    proto = parsed("(float[1,n] x) => (float[1,1,n,1] y) <int64[2] a = {0, 3}> { y = Unsqueeze (x, a) }")
    assert not import_model(from_proto(proto)).opaque
    assert operators(optimized(proto).graph) in ({"Unsqueeze": 1}, {"Reshape": 1})


def test_computed_sizes_say_nothing_of_what_has_no_type() -> None:
    text = """(float[n,3] x) => (float[a,b] y) {
        s = Shape (x)  unknown = own.Operator (x)  viewed = Reshape (unknown, s)  y = Relu (viewed)
    }"""
    proto = parsed(text, domains=', "own": 1')
    assert operators(run(from_proto(proto), opset=20).after.graph) == operators(proto.graph)


def test_what_is_written_into_has_a_type_even_if_the_new_values_have_none() -> None:
    """As in mBART: how many axes the new values have depends on how many there are."""
    proto = parsed(
        """(int64[B,3] x, int64[B,1] at) => (int64[B,3] y) <
            int64[1] one = {1}, int64[1] zero = {0}, int64[1] three = {3}
        > {
            g = GatherElements <axis = 1> (x, at)  u = Squeeze (g)  e = Unsqueeze (u, one)
            n = ScatterElements <axis = 1> (x, at, e)  y = Slice (n, zero, three, one)
        }"""
    )
    assert operators(optimized(proto).graph) == {
        "GatherElements": 1, "Squeeze": 1, "Unsqueeze": 1, "ScatterElements": 1
    }  # fmt: skip


def test_no_axes_are_inserted() -> None:
    """Variants may say so; of what is written behind such a node the type would not be known."""
    text = "(float[n,3] x) => (float[n,3] y) <int64[0] none = {}> { u = Unsqueeze (x, none)  y = Relu (u) }"
    proto = parsed(text)
    assert operators(optimized(proto).graph) == {"Relu": 1}
    assert agree(proto, optimized(proto), rows(2, 3))
