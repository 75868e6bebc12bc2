"""The encoder of BERT (Devlin et al., 2018), with GELU by ``erf`` and scaled scores, as exporters write it."""

from __future__ import annotations

import math
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Function, Tuple, const, var
from eqsat.relay.op import erf, nn, reshape, strided_slice, take, tanh, transpose
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import dense_add_bias, function_of


class _Encoder:
    """Parts of the encoder. Activations are of shape (batch * length, hidden)."""

    def __init__(self, batch: int, length: int, hidden: int, heads: int, dtype: str):
        self.batch, self.length, self.hidden, self.heads, self.dtype = batch, length, hidden, heads, dtype

    def number(self, value: float) -> Any:
        return const(value, self.dtype)

    def norm(self, data: Any, name: str) -> Any:
        return nn.layer_norm(data, var(f"{name}_gamma"), var(f"{name}_beta"), epsilon=1e-12)

    def embed(self, tokens: Any, vocabulary: int) -> Any:
        """What words, the first segment and places stand for."""
        rows = {"word": vocabulary, "position": self.length, "segment": 1}
        words, places, segment = (
            var(f"{name}_weight", shape=(count, self.hidden), dtype=self.dtype) for name, count in rows.items()
        )
        return self.norm(reshape(take(words, tokens, axis=0) + places + segment, (-1, self.hidden)), "embedding")

    def attention(self, data: Any, name: str) -> Any:
        apart = (self.batch, self.length, self.heads, self.hidden // self.heads)
        query, key, value = (
            reshape(
                transpose(reshape(dense_add_bias(data, units=self.hidden, name=f"{name}_{part}"), apart), (0, 2, 1, 3)),
                (-1, self.length, self.hidden // self.heads),
            )
            for part in ("query", "key", "value")
        )
        scores = nn.batch_matmul(query, key) / self.number(math.sqrt(self.hidden // self.heads))
        mixed = nn.batch_matmul(nn.softmax(scores), value, transpose_b=False)
        mixed = reshape(mixed, (self.batch, self.heads, self.length, self.hidden // self.heads))
        joined = reshape(transpose(mixed, (0, 2, 1, 3)), (-1, self.hidden))
        return dense_add_bias(joined, units=self.hidden, name=f"{name}_output")

    def feed_forward(self, data: Any, name: str) -> Any:
        wide = dense_add_bias(data, units=4 * self.hidden, name=f"{name}_wide")
        scaled = erf(wide / self.number(math.sqrt(2))) + self.number(1)
        return dense_add_bias(wide * scaled * self.number(0.5), units=self.hidden, name=f"{name}_narrow")


def get_net(
    batch_size: int = 1,
    length: int = 128,
    num_layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 30522,
    dtype: str = "float32",
) -> Function:
    """Return the encoder, from the ids of tokens to the states of the last layer and the pooled state of the first.

    The defaults are those of BERT-base. The input ``data`` is of shape (batch_size, length) and dtype int32; all tokens
    are of the first segment.

    Args:
        batch_size: The number of texts.
        length: The number of tokens of each.
        num_layers: The number of layers.
        hidden: The size of a state.
        heads: The number of heads of attention.
        vocabulary: The number of different tokens.
        dtype: The element type of states.

    Raises:
        ArgumentError: A state cannot be divided among the heads.
    """
    if hidden % heads:
        raise ArgumentError(f"a state of {hidden} numbers cannot be divided among {heads} heads")
    make = _Encoder(batch_size, length, hidden, heads, dtype)
    data = make.embed(var("data", shape=(batch_size, length), dtype="int32"), vocabulary)
    for layer in range(1, num_layers + 1):
        data = make.norm(data + make.attention(data, f"layer{layer}_attention"), f"layer{layer}_norm1")
        data = make.norm(data + make.feed_forward(data, f"layer{layer}"), f"layer{layer}_norm2")
    states = reshape(data, (batch_size, length, hidden))
    first = reshape(strided_slice(states, begin=[0], end=[1], strides=[1], axes=[1]), (batch_size, hidden))
    return function_of(Tuple([states, tanh(dense_add_bias(first, units=hidden, name="pooler"))]))


get_workload = workload_of(get_net)
