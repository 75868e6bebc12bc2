"""BERT: as TENSAT measures it, and the published base encoder (Devlin et al., 2018)."""

from __future__ import annotations

import math
from typing import Any

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Function, Tuple

from .weights import Weights, function


def bert() -> Function:
    """Eight layers over (64, 1024), 16 heads, as in TASO's and TENSAT's benchmark.

    There the linear layer after attention takes the input of the attention, so that the results of all attentions
    are outputs; scores are neither scaled nor normalized, and there is no feed-forward part.
    """
    weight = Weights()
    x: Any = nn.relu(relay.var("x", shape=(64, 1024)))
    outputs = []
    for _ in range(8):
        q, k, v, after = (nn.dense(x, weight(1024, 1024)) for _ in range(4))
        q, k, v = (relay.transpose(relay.reshape(part, (64, 16, 64)), (1, 0, 2)) for part in (q, k, v))
        scores = nn.batch_matmul(q, k, transpose_b=False)
        mixed = nn.batch_matmul(scores, v, transpose_b=False)
        outputs.append(relay.reshape(relay.transpose(mixed, (1, 0, 2)), (64, 1024)))
        x = after
    return function(Tuple([*outputs, x]))


VOCABULARY, POSITIONS, SEGMENTS = 30522, 512, 2


def bert_base(length: int = 128, layers: int = 12, hidden: int = 768, heads: int = 12) -> Function:
    """Ids of tokens and segments, (length,), to the last layer and the pooled state; 109,482,240 parameters."""
    net = _Encoder(Weights(), length, hidden, heads)
    x = net.embed()
    for _ in range(layers):
        x = net.norm(x + net.attention(x))
        x = net.norm(x + net.linear(nn.gelu(net.linear(x, 4 * hidden)), hidden))
    first = relay.strided_slice(x, begin=[0, 0], end=[1, hidden])
    return function(Tuple([x, relay.tanh(net.linear(first, hidden))]))


class _Encoder:
    """Parts of the encoder; activations are (length, hidden)."""

    def __init__(self, weight: Weights, length: int, hidden: int, heads: int):
        self.weight = weight
        self.length, self.hidden, self.heads = length, hidden, heads

    def embed(self) -> Any:
        tokens = relay.var("tokens", shape=(self.length,), dtype="int32")
        segments = relay.var("segments", shape=(self.length,), dtype="int32")
        words = relay.take(self.weight(VOCABULARY, self.hidden), tokens, axis=0)
        kinds = relay.take(self.weight(SEGMENTS, self.hidden), segments, axis=0)
        table = self.weight(POSITIONS, self.hidden)
        places = relay.strided_slice(table, begin=[0, 0], end=[self.length, self.hidden])
        return self.norm(words + kinds + places)

    def linear(self, x: Any, units: int) -> Any:
        fan_in = 4 * self.hidden if x.op is relay.op.get("nn.gelu") else self.hidden
        return nn.bias_add(nn.dense(x, self.weight(units, fan_in)), self.weight(units), axis=-1)

    def norm(self, x: Any) -> Any:
        return nn.layer_norm(x, self.weight(self.hidden), self.weight(self.hidden), epsilon=1e-12)

    def attention(self, x: Any) -> Any:
        width = self.hidden // self.heads
        q, k, v = (
            relay.transpose(relay.reshape(self.linear(x, self.hidden), (self.length, self.heads, width)), (1, 0, 2))
            for _ in range(3)
        )
        scores = nn.softmax(nn.batch_matmul(q, k) / relay.const(math.sqrt(width), "float32"))
        mixed = relay.transpose(nn.batch_matmul(scores, v, transpose_b=False), (1, 0, 2))
        return self.linear(relay.reshape(mixed, (self.length, self.hidden)), self.hidden)
