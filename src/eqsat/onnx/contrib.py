"""Result types of ONNX Runtime's own operators, which ONNX's inference does not know.

As in https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. An operator that is not here, and an
output that is not, is of unknown type; nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import add_dims
from eqsat.relay.op.types import axis_index, broadcast_shape
from eqsat.relay.ty import UNKNOWN, Dim, TensorType, Type

DOMAIN = "com.microsoft"

Inputs = Sequence[TensorType | None]
"""The types of a node's inputs; None for inputs that are left out or not known."""
Relation = Callable[[ir.Node, Inputs], Sequence[TensorType]]


def contrib_types(node: ir.Node, inputs: Sequence[Type | None]) -> list[Type]:
    """The types of the outputs of ``node``, of the domain above.

    Args:
        node: the node.
        inputs: The types of its inputs; None for inputs that are left out.
    """
    known = [ty if isinstance(ty, TensorType) else None for ty in inputs]
    relation = _RELATIONS.get(node.op_type)
    try:
        found = () if relation is None else relation(node, known)
    except (TypeCheckError, IndexError):  # no valid node
        found = ()
    return [*found, *[UNKNOWN] * len(node.outputs)][: len(node.outputs)]


def is_known(node: ir.Node) -> bool:
    """Whether ``node`` is of the domain above, and what it gives follows from its inputs and attributes."""
    return node.domain == DOMAIN and node.op_type in _RELATIONS


def _as_first(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
    return [ty for ty in inputs[:1] if ty is not None]


def _broadcast(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
    """Of quantized operands: each has a scale and a zero point behind it."""
    left, right = inputs[0], inputs[3]
    if left is None or right is None:
        return []
    return [TensorType(broadcast_shape(left.shape, right.shape), left.dtype)]


def _product(left: int, right: int, like: int) -> Relation:
    """A matrix product of two inputs, of the dtype of the input ``like``."""

    def relation(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
        a, b, of = inputs[left], inputs[right], inputs[like]
        if a is None or b is None or of is None or min(len(a.shape), len(b.shape)) < 2:
            return []
        if any(node.attributes.get_int(flag, 0) for flag in ("transBatchA", "transBatchB")):
            return []
        rows, columns = _turned(a, node, "transA"), _turned(b, node, "transB")
        return [TensorType((*broadcast_shape(rows[:-2], columns[:-2]), rows[-2], columns[-1]), of.dtype)]

    return relation


def _turned(ty: TensorType, node: ir.Node, flag: str) -> Sequence[Dim]:
    shape = list(ty.shape)
    return [*shape[:-2], shape[-1], shape[-2]] if node.attributes.get_int(flag, 0) else shape


def _concatenated(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
    """Of quantized tensors, each with a scale and a zero point behind it; those of the result are first."""
    parts = inputs[2::3]
    known = [ty for ty in parts if ty is not None]
    if len(known) < len(parts):
        return []
    axis = axis_index(node.attributes.get_int("axis", 0), len(known[0].shape))
    length = add_dims(*[ty.shape[axis] for ty in known])
    return [TensorType((*known[0].shape[:axis], length, *known[0].shape[axis + 1 :]), known[0].dtype)]


def _lstm(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
    data = inputs[0]
    if data is None or len(data.shape) != 3 or "hidden_size" not in node.attributes:
        return []
    directions = 2 if node.attributes.get_string("direction", "forward") == "bidirectional" else 1
    last = (directions, data.shape[1], node.attributes.get_int("hidden_size"))
    shapes = (data.shape[0], *last), last, last
    return [TensorType(shape, data.dtype) for shape in shapes]


def _last_axis(width: Callable[[ir.Node, Inputs], Dim | None], data: int = 0) -> Relation:
    """The type of the data with another size of the last axis; the sizes of further outputs are unknown."""

    def relation(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
        ty, found = inputs[data], width(node, inputs)
        return [] if ty is None or found is None else [TensorType((*ty.shape[:-1], found), ty.dtype)]

    return relation


def _values_width(node: ir.Node, inputs: Inputs) -> Dim | None:
    """The elements of values whose heads are joined."""
    value = inputs[2] if len(inputs) > 2 else None
    return value.shape[2] if value is not None and len(value.shape) == 3 else None


def _weights_width(node: ir.Node, inputs: Inputs) -> Dim | None:
    """The elements of values where one matrix makes queries, keys and values."""
    weights = inputs[1]
    if weights is None or len(weights.shape) != 2 or "qkv_hidden_sizes" in node.attributes:
        return None
    width = weights.shape[1]
    return width // 3 if isinstance(width, int) and width % 3 == 0 else None


def _quantized_attention(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
    """Of quantized data and weights, and real biases."""
    data, _, biases = inputs[:3]
    width = _weights_width(node, inputs)
    if data is None or biases is None or width is None:
        return []
    return [TensorType((*data.shape[:2], width), biases.dtype)]


def _query_width(node: ir.Node, inputs: Inputs) -> Dim | None:
    query, key = inputs[:2]
    return None if query is None or key is None else query.shape[-1]


def _pooled(node: ir.Node, inputs: Inputs) -> Sequence[TensorType]:
    data = inputs[0]
    if data is None or len(data.shape) < 3:
        return []
    ones = (1,) * (len(data.shape) - 2)
    if node.attributes.get_int("channels_last", 0):
        return [TensorType((data.shape[0], *ones, data.shape[-1]), data.dtype)]
    return [TensorType((*data.shape[:2], *ones), data.dtype)]


_RELATIONS: dict[str, Relation] = {
    **dict.fromkeys(
        (
            "BiasAdd", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "GroupNorm", "QLinearLeakyRelu",
            "QLinearSigmoid", "QLinearSoftmax", "QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization",
            "SkipGroupNorm", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
        ),
        _as_first,
    ),
    "Attention": _last_axis(_weights_width),
    "DynamicQuantizeLSTM": _lstm,
    "DynamicQuantizeMatMul": _product(0, 1, like=0),
    "FusedMatMul": _product(0, 1, like=0),
    "GroupQueryAttention": _last_axis(_query_width),
    "MatMulIntegerToFloat": _product(0, 1, like=2),
    "MatMulNBits": _last_axis(lambda node, inputs: node.attributes.get_int("N", 0) or None),
    "MultiHeadAttention": _last_axis(_values_width),
    "QAttention": _quantized_attention,
    "QGemm": _product(0, 3, like=8),
    "QLinearAdd": _broadcast,
    "QLinearConcat": _concatenated,
    "QLinearGlobalAveragePool": _pooled,
    "QLinearMul": _broadcast,
}  # fmt: skip
