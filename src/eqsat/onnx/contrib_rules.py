"""Rules for ONNX Runtime's own operators (domain com.microsoft), with which graphs can also be written.

Each rule equates a node with its definition (:mod:`eqsat.onnx.converters.fused`). The costs decide whether the node is
chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.egraph.author import attrs_of, compute, constants, refuse, rewrite, type_of, value_of, variables
from eqsat.egraph.rule import Array, Compute, Examples, Refusal, Rewrite, RuleSet, Soundness
from eqsat.errors import EqsatError
from eqsat.onnx.contrib import DOMAIN
from eqsat.onnx.converters import Declined
from eqsat.onnx.converters.fused import ACTIVATIONS
from eqsat.onnx.converters.source import build
from eqsat.onnx.converters.target import as_attribute
from eqsat.onnx.definition import defined
from eqsat.onnx.opaque import OpaqueNode, operator_of
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import CallPattern, DFPattern, ExprPattern, is_op, is_tuple_get_item
from eqsat.relay.expr import Constant, Expr, Var
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.op import add, sigmoid
from eqsat.relay.op.draw import Draw
from eqsat.relay.ty import TensorType, Type
from eqsat.rules.axes import is_last

x, y, v, gamma, beta, q, k, mask = variables("x y v gamma beta q k mask")
(c,) = constants("c")
ROUNDING = Soundness.ROUNDING

DTYPE = "float32"
"""The element type for which every version has a CPU kernel for each of these operators."""

OPSET = 21
"""A version of the standard operators that definitions may be read in; none of these depends on it."""

Input = TensorType | Array | None
"""What is known about an input: its type, its value, or that it is left out."""


def made(
    op_type: str, inputs: Sequence[Input], results: Sequence[Type], outputs: int = 1, **attributes: Any
) -> OpaqueNode | Refusal:
    """Return what a node says beside its inputs, or why it is not written.

    Args:
        op_type: Its type.
        inputs: What is known of its inputs.
        results: The types that its outputs shall have, as far as they count; the first ones.
        outputs: How many outputs it has.
        attributes: Its attributes.
    """
    if any(isinstance(each, TensorType) and each.dtype != DTYPE for each in inputs):
        return refuse(f"its numbers are not {DTYPE}")
    types: dict[Expr, Type] = {}
    typing = Inferencer(types)
    stands: list[Expr | None] = []
    for each in inputs:
        stand = Var("", each) if isinstance(each, TensorType) else None if each is None else Constant(each)
        if isinstance(stand, Var):
            types[stand] = each  # type: ignore[assignment]
        elif stand is not None:
            typing.run(stand)
        stands.append(stand)
    values = [None if each is None else ir.Value(name=str(number)) for number, each in enumerate(inputs)]
    given = [as_attribute(name, value) for name, value in attributes.items() if value is not None]
    node = ir.Node(DOMAIN, op_type, values, given, num_outputs=outputs)
    try:
        definition = defined(node, stands, typing, OPSET)
    except Declined as why:
        return refuse(str(why))
    except EqsatError as error:
        return refuse(f"it does not fit: {error}")
    known = [ty for ty in definition.types if ty is not None]
    if known[: len(results)] != list(results):
        return refuse("its type is another")
    present = tuple([each is not None for each in inputs])
    return OpaqueNode(node, given, (), tuple(known), 1, present, True, definition)


def node(op_type: str, made_of: Compute, *inputs: Any) -> DFPattern:
    """A node of the runtime's own over some inputs."""
    return CallPattern(ExprPattern(operator_of(DOMAIN, op_type)), list(inputs)).has_attr({"node": made_of})


def drawn(*shape: int) -> Var:
    """An operand of an instance of a rule."""
    return Var("x", TensorType(shape, DTYPE))


# ---- products, of transposed matrices, and scaled


def number(value: Array) -> float | Refusal:
    """The one element of a constant that is finite and not 0."""
    found = float(value.reshape(-1)[0]) if value.size == 1 else 0.0
    return found if found and np.isfinite(found) else refuse("it is not scaled by one number")


def flags(product: str, attrs: Attrs) -> tuple[bool, bool]:
    """Which operands of a product are transposed."""
    return (False, True) if product == "dense" else (attrs.transpose_a, attrs.transpose_b)


def fused_product(product: str) -> Callable[..., OpaqueNode | Refusal]:
    """Return what makes a node of a product with a transposed operand, or of a scaled product."""

    def fused(attrs: Attrs, a: TensorType, b: TensorType, result: TensorType, by: Array | None = None) -> Any:
        turns = flags(product, attrs)
        if by is None and (not any(turns) or len(a.shape) == len(b.shape) == 2):
            return refuse("a standard operator computes it")
        alpha = 1.0 if by is None else number(by)
        if isinstance(alpha, Refusal):
            return alpha
        turned_a, turned_b = [int(each) or None for each in turns]
        return made(
            "FusedMatMul", [a, b], [result], transA=turned_a, transB=turned_b, alpha=alpha if by is not None else None
        )

    return fused


def products() -> list[Rewrite]:
    """a' b' = FusedMatMul(a, b), and so c a' b'"""
    found = []
    for name, operator in (("matmul", nn.matmul), ("batch_matmul", nn.batch_matmul), ("dense", nn.dense)):
        plain, called = operator(x, y), name.replace("_", "-")
        fused = fused_product(name)
        operands = (attrs_of(plain), type_of(x), type_of(y))
        if name != "dense":
            whole = node("FusedMatMul", compute(fused, *operands, type_of(plain)), x, y)
            found.append(rewrite(f"fused-{called}", plain, whole))
        scaled = plain * c
        whole = node("FusedMatMul", compute(fused, *operands, type_of(scaled), value_of(c)), x, y)
        found.append(rewrite(f"fused-scaled-{called}", scaled, whole, soundness=ROUNDING))
    return found


# ---- activations


def gelu(op_type: str, approximate: str) -> Callable[..., OpaqueNode | Refusal]:
    """Return what makes a node of a GELU, of a sum with a vector too."""

    def fused(attrs: Attrs, data: TensorType, result: TensorType, bias: TensorType | None = None) -> Any:
        if attrs.approximate != approximate:
            return refuse("it is approximated otherwise")
        if bias is not None and len(bias.shape) != 1:
            return refuse("it is no vector that is added")
        return made(op_type, [data] if bias is None else [data, bias], [result])

    return fused


def quick_gelu(data: TensorType, result: TensorType, by: Array | None = None) -> OpaqueNode | Refusal:
    """x sigmoid(alpha x) as a node."""
    alpha = 1.0 if by is None else number(by)
    return alpha if isinstance(alpha, Refusal) else made("QuickGelu", [data], [result], alpha=alpha)


def gelus(approximate: str, draw: Draw, biased: bool = False) -> Expr:
    """An instance: GELU, of a sum with a vector too."""
    width = draw.rng.randint(1, 5)
    data = drawn(*[draw.rng.randint(1, 4) for _ in range(draw.rng.randint(0, 2))], width)
    return nn.gelu(add(data, drawn(width)) if biased else data, approximate=approximate)


def activations() -> list[Rewrite]:
    """GELU in its forms."""
    found = []
    for op_type, biased, approximate in (("Gelu", "BiasGelu", "none"), ("FastGelu", "FastGelu", "tanh")):
        name, of_x, of_sum = op_type.lower(), nn.gelu(x), nn.gelu(x + v)
        likely = partial(gelus, approximate)
        alone = compute(gelu(op_type, approximate), attrs_of(of_x), type_of(x), type_of(of_x))
        found.append(rewrite(f"contrib-{name}", of_x, node(op_type, alone, x), soundness=ROUNDING, examples=likely))
        summed = compute(gelu(biased, approximate), attrs_of(of_sum), type_of(x), type_of(of_sum), type_of(v))
        likely, whole = partial(gelus, approximate, biased=True), node(biased, summed, x, v)
        found.append(rewrite(f"contrib-bias-{name}", of_sum, whole, soundness=ROUNDING, examples=likely))
    for name, gate, by in (("swish", sigmoid(x), ()), ("quickgelu", sigmoid(x * c), (value_of(c),))):
        whole = x * gate
        fused = compute(quick_gelu, type_of(x), type_of(whole), *by)
        found.append(rewrite(f"contrib-{name}", whole, node("QuickGelu", fused, x), soundness=ROUNDING))
    return found


# ---- convolutions and the activation behind them


def fused_convolution(called: str) -> Callable[..., OpaqueNode | Refusal]:
    """Return what makes a node of an activation of a convolution, perhaps with a bias.

    A fourth input would be added before the activation, but the runtime does not compute such nodes in its fast layout.
    """
    _, names = ACTIVATIONS[called]

    def fused(
        attrs: Attrs, data: TensorType, weight: TensorType, result: TensorType, settings: Attrs, *added: Any
    ) -> OpaqueNode | Refusal:
        place, bias = added or (None, None)
        if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW") or attrs.out_layout not in ("", "NCHW"):
            return refuse("its layout is another")
        if place is not None and place.axis not in (1, -3):
            return refuse("the bias is not along the channels")
        said = {
            "strides": attrs.strides,
            "pads": attrs.padding,
            "dilations": attrs.dilation,
            "group": attrs.groups,
            "activation": called,
            "activation_params": [float(settings[name]) for name in names] or None,
        }
        return made("FusedConv", [data, weight, *([] if bias is None else [bias])], [result], **said)

    return fused


def convolved(called: str, biased: bool, draw: Draw) -> Expr:
    """An instance: an activation of a convolution."""
    batch, inputs, outputs, height, width = (draw.rng.randint(1, 3) for _ in range(5))
    taps = draw.rng.choice((1, 3))
    weight = drawn(outputs, inputs, taps, taps)
    found = nn.conv2d(drawn(batch, inputs, height, width), weight, padding=[taps // 2] * 4)
    operator, names = ACTIVATIONS[called]
    numbers = dict(zip(names, (0.25, 0.5), strict=False))
    return build(operator, nn.bias_add(found, drawn(outputs)) if biased else found, **numbers)


def convolutions() -> list[Rewrite]:
    """activation(conv(x, y) + v) = FusedConv(x, y, v)"""
    found = []
    for (called, (operator, _)), biased in product(ACTIVATIONS.items(), (True, False)):
        convolution = nn.conv2d(x, y)
        total = nn.bias_add(convolution, v) if biased else convolution
        whole = is_op(operator)(total)
        known = [attrs_of(convolution), type_of(x), type_of(y), type_of(whole), attrs_of(whole)]
        made_of = compute(fused_convolution(called), *known, *([attrs_of(total), type_of(v)] if biased else []))
        name = f"fused-{'bias-' * biased}{operator.removeprefix('nn.').replace('_', '-')}"
        fused = node("FusedConv", made_of, x, y, *[v] * biased)
        likely = partial(convolved, called, biased)
        found.append(rewrite(name, whole, fused, soundness=ROUNDING, examples=likely))
    return found


# ---- normalization of a sum, which is another output

NORMALIZATIONS = {
    "layer-norm": ("SkipLayerNormalization", nn.layer_norm, (gamma, beta)),
    "rms-norm": ("SkipSimplifiedLayerNormalization", nn.rms_norm, (gamma,)),
}


def skip_norm(op_type: str, biased: bool) -> Callable[..., OpaqueNode | Refusal]:
    """Return what makes a node of the normalization of a sum of two tensors of one shape, and perhaps a vector."""

    def fused(attrs: Attrs, data: TensorType, skip: TensorType, result: TensorType, *vectors: TensorType) -> Any:
        *parts, bias = vectors if biased else (*vectors, None)
        if not is_last(attrs, data) or not attrs.scale or not attrs.get("center", True):
            return refuse("it normalizes otherwise")
        if len(data.shape) not in (2, 3) or data != skip or any(len(each.shape) != 1 for each in vectors):
            return refuse("it adds no two tensors of one shape")
        inputs = [data, skip, *parts, *([] if bias is None else [bias])]
        found = made(op_type, inputs, [result], outputs=4, epsilon=attrs.epsilon)
        if isinstance(found, OpaqueNode) and found.types[3] != result:
            return refuse("the sum has another type")
        return found

    return fused


def norms(norm: Callable[..., Expr], vectors: int, biased: bool, draw: Draw) -> tuple[Expr, Expr]:
    """An instance: a sum and its normalization."""
    shape = [draw.rng.randint(1, 4) for _ in range(draw.rng.randint(2, 3))]
    data = add(drawn(*shape), drawn(shape[-1])) if biased else drawn(*shape)
    total = add(data, drawn(*shape))
    return norm(total, *[drawn(shape[-1]) for _ in range(vectors)], epsilon=1e-5), total


def skip_norms() -> list[Rewrite]:
    """norm(x + y), x + y = parts of SkipLayerNormalization(x, y)"""
    found = []
    for called, (op_type, norm, vectors) in NORMALIZATIONS.items():
        for biased in (False, True):
            total = (x + v) + y if biased else x + y
            whole, more = norm(total, *vectors), (*vectors, *[v] * biased)
            types = [type_of(each) for each in (x, y, whole, *more)]
            fused = node(op_type, compute(skip_norm(op_type, biased), attrs_of(whole), *types), x, y, *more)
            parts = is_tuple_get_item(fused, 0), is_tuple_get_item(fused, 3)
            likely = partial(norms, norm, len(vectors), biased)
            name = f"skip-{'bias-' * biased}{called}"
            found.append(rewrite(name, (whole, total), parts, soundness=ROUNDING, examples=likely))
    return found


# ---- attention of joined heads


def multi_head(
    attrs: Attrs, query: TensorType, key: TensorType, value: TensorType, result: TensorType, bias: Any = None
) -> OpaqueNode | Refusal:
    """Attention of as many heads of keys as of queries, with or without numbers that are added to its scores."""
    if attrs.query_heads < 1 or attrs.query_heads != attrs.key_heads or attrs.causal or attrs.softcap:
        return refuse("its heads are apart or in groups, its scores are capped, or some keys are left out")
    scores = (query.shape[0], attrs.query_heads, query.shape[1], key.shape[1])
    if bias is not None:
        shape = bias.shape
        fits = len(shape) == 4 and shape[2:] == scores[2:] and all(isinstance(dim, int) for dim in scores)
        if not fits or any(dim not in (1, whole) for dim, whole in zip(shape[:2], scores[:2], strict=True)):
            return refuse("its mask has another shape, or one that is not known")
    inputs = [query, key, value, *([] if bias is None else [None, None, bias])]
    return made("MultiHeadAttention", inputs, [result], num_heads=attrs.query_heads, scale=attrs.scale)


MOST_BATCHES = 1 << 10
"""Batches up to which the lengths of all of them are a constant."""

PLACES = 8
"""What the size of a head must be a multiple of in groups."""


def last_places(query: TensorType, key: TensorType) -> Array | Refusal:
    """The last place of each batch, where there are as many queries as keys."""
    batches, places = query.shape[:2]
    if not isinstance(batches, int) or not isinstance(places, int) or not 0 < batches <= MOST_BATCHES or not places:
        return refuse("the number of batches or places is not known")
    if key.shape[1] != places:
        return refuse("there are other numbers of queries and keys")
    return np.full((batches,), places - 1, np.int32)


def places(query: TensorType) -> Array | Refusal:
    """The number of places."""
    known = query.shape[1]
    return np.asarray(known, np.int32) if isinstance(known, int) else refuse("the number of places is not known")


def grouped(
    attrs: Attrs, query: TensorType, key: TensorType, value: TensorType, result: TensorType
) -> OpaqueNode | Refusal:
    """Return what creates a node of attention in which no query sees keys behind its own place."""
    heads, last, count = attrs.query_heads, last_places(query, key), places(query)
    if isinstance(last, Refusal) or isinstance(count, Refusal):
        return refuse("sizes are not known, or those of queries and keys differ")
    width = query.shape[2]
    plain = heads > 0 and attrs.causal and not attrs.softcap and key == value
    if not plain or not isinstance(width, int) or width % (PLACES * heads):
        return refuse("its heads are apart or of other sizes, its scores are capped, or no keys are left out")
    inputs = [query, key, value, None, None, last, count]
    said = {"num_heads": heads, "kv_num_heads": attrs.key_heads, "scale": attrs.scale}
    return made("GroupQueryAttention", inputs, [result], outputs=3, **said)


def attentions(draw: Draw, grouped: bool = False, masked: bool = False) -> Expr:
    """An instance: attention of joined heads."""
    batches, places, others = [draw.rng.randint(1, 3) for _ in range(3)]
    groups, width = draw.rng.randint(1, 2), 8 if grouped else draw.rng.randint(1, 3)
    heads, others = (groups * draw.rng.randint(1, 2), places) if grouped else (groups, others)
    query, *rest = [drawn(batches, count, each * width) for count, each in ((places, heads), *[(others, groups)] * 2)]
    said = {"scale": draw.rng.choice((0.5, 1.0)), "query_heads": heads, "key_heads": groups, "causal": grouped}
    if not masked:
        return nn.attention(query, *rest, **said)
    some = drawn(draw.rng.choice((1, batches)), draw.rng.choice((1, heads)), places, others)
    return nn.masked_attention(query, *rest, some, **said)


def attention() -> list[Rewrite]:
    """Attention, with heads that are joined."""
    plain, masked = nn.attention(q, k, v), nn.masked_attention(q, k, v, mask)
    types, op_type = [type_of(q), type_of(k), type_of(v)], "MultiHeadAttention"
    over = [compute(multi_head, attrs_of(plain), *types, type_of(plain))]
    over.append(compute(multi_head, attrs_of(masked), *types, type_of(masked), type_of(mask)))
    group = compute(grouped, attrs_of(plain), *types, type_of(plain))
    lengths = compute(last_places, *types[:2]), compute(places, types[0])
    in_groups = is_tuple_get_item(node("GroupQueryAttention", group, q, k, v, *lengths), 0)
    forms: list[tuple[str, DFPattern, DFPattern, Examples]] = [
        ("multi-head-attention", plain, node(op_type, over[0], q, k, v), attentions),
        (
            "multi-head-masked-attention",
            masked,
            node(op_type, over[1], q, k, v, mask),
            partial(attentions, masked=True),
        ),
        ("group-query-attention", plain, in_groups, partial(attentions, grouped=True)),
    ]
    return [
        rewrite(name, whole, other, soundness=ROUNDING, examples=examples) for name, whole, other, examples in forms
    ]


contrib = RuleSet("contrib", [*products(), *activations(), *convolutions(), *skip_norms(), *attention()])
"""The rules, which are useful only for this runtime."""
