"""Chains of operations, whose e-graphs grow with their length and not faster: e-nodes, seconds of CPU, memory and cost.

Each graph is saturated and extracted in a process of its own, by the default rules.

    python benchmarks/chains.py [--links 120] [--check] [NAME ...]

With ``--check`` the last columns are the errors of the given graph and of the result against an evaluation in double
precision, relative to the largest number of that, and the cost that the rules reach in the reverse order.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import eqsat
from eqsat import relay
from eqsat.memory import resident_bytes
from eqsat.relay import nn
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Constant, Expr, Var
from eqsat.relay.interpreter import evaluate
from eqsat.relay.visitor import post_order, rebuild

RNG = np.random.default_rng(0)
Link = Callable[[Any, int], Any]


def number(value: float) -> Any:
    return relay.const(np.float32(value))


def normal(*shape: int) -> Any:
    return relay.const(RNG.normal(size=shape).astype("float32"))


def whole(value: int, dtype: str = "int32") -> Any:
    return relay.const(np.asarray(value).astype(dtype), dtype)


def part(x: Any, *ranges: tuple[int, int]) -> Any:
    return relay.strided_slice(x, *map(list, zip(*ranges, strict=True)))


def positive(*shape: int) -> Any:
    return relay.const(abs(RNG.normal(size=shape)).astype("float32"))


def gelu(x: Any) -> Any:
    return number(0.5) * x * (number(1) + relay.erf(x * number(0.5**0.5)))


def conv(x: Any) -> Any:
    return nn.conv2d(x, normal(4, 4, 3, 3), padding=(1, 1))


def normalized(x: Any) -> Any:
    return nn.batch_norm(x, normal(4), normal(4), normal(4), positive(4))[0]


def max_pool(x: Any) -> Any:
    return nn.max_pool2d(x, pool_size=(3, 3), padding=(1, 1))


def layer_normalized(x: Any) -> Any:
    centered = x - relay.mean(x, axis=-1, keepdims=True)
    variance = relay.mean(centered * centered, axis=-1, keepdims=True)
    return centered / relay.sqrt(variance + number(1e-5)) * normal(8) + normal(8)


LINKS: dict[str, tuple[tuple[int, ...], Link]] = {
    "relu(x * 2 + 0)": ((4, 8), lambda x, i: nn.relu(x * number(2) + number(0))),
    "x + float": ((4, 8), lambda x, i: x + normal()),
    "x + whole": ((4, 8), lambda x, i: x + number(i + 1)),
    "x * a, x + b": ((4, 8), lambda x, i: x + normal() if i % 2 else x * number(1 + i / 1000)),
    "x * array, x + array": ((4, 8), lambda x, i: x + normal(8) if i % 2 else x * normal(8)),
    "(x + a) / 3": ((4, 8), lambda x, i: (x + number(0.7)) / number(3)),
    "a - x": ((4, 8), lambda x, i: normal() - x),
    "negative(x)": ((4, 8), lambda x, i: relay.negative(x)),
    "x + x": ((4, 8), lambda x, i: x + x),
    "x * a + x * b": ((4, 8), lambda x, i: x * number(0.5) + x * number(0.5 + i / 100)),
    "(x + a) + (x + b)": ((4, 8), lambda x, i: (x + number(0.3)) + (x + number(i / 10))),
    "halves of both": ((4, 8), lambda x, i: (x + number(0.3)) * number(0.5) + (x + number(i / 10)) * number(0.5)),
    "x * array + x * array": ((4, 8), lambda x, i: x * normal(8) + x * normal(8)),
    "relu(x) + relu(x)": ((4, 8), lambda x, i: nn.relu(x) + nn.relu(x)),
    "maximum(x, a)": ((4, 8), lambda x, i: relay.maximum(x, normal())),
    "maximum(x, array)": ((4, 8), lambda x, i: relay.maximum(x, normal(8))),
    "maximum(x, x * a)": ((4, 8), lambda x, i: relay.maximum(x, x * number(0.5))),
    "minimum(maximum(x))": ((4, 8), lambda x, i: relay.minimum(relay.maximum(x, number(-i)), number(i + 1))),
    "maximum(x, i)": ((4, 8), lambda x, i: relay.maximum(x, number(i))),
    "where(x > 0, x, a x)": ((4, 8), lambda x, i: relay.where(relay.greater(x, number(0)), x, number(i / 100) * x)),
    "leaky_relu(x * a)": ((4, 8), lambda x, i: nn.leaky_relu(x * number(1.1), alpha=0.1)),
    "relu(x * a + b)": ((4, 8), lambda x, i: nn.relu(x * number(1.1) + number(0.1))),
    "relu(bias) * array": (
        (4, 8),
        lambda x, i: nn.relu(nn.bias_add(x, normal(8))) * positive(8),
    ),
    "batch normalization": ((1, 4, 8, 8), lambda x, i: normalized(x)),
    "relu(batch norm)": ((1, 4, 8, 8), lambda x, i: nn.relu(normalized(x))),
    "(x + a) * b + x * c": ((4, 8), lambda x, i: (x + number(0.3)) * number(0.75) + x * number(0.5)),
    "(x + a) * 2 + x": ((4, 8), lambda x, i: (x + number(0.3)) * number(2) + x),
    "x + a (x - b)": ((4, 8), lambda x, i: x + number(0.1) * (x - number(i / 10))),
    "maximum(x, more)": (
        (4, 8),
        lambda x, i: relay.maximum(x, relay.const(np.arange(8, dtype="float32") + np.float32(i))),
    ),
    "maximum and minimum": ((4, 8), lambda x, i: relay.minimum(relay.maximum(x, normal(8)), normal(8) + number(i))),
    "clip(x * a + b)": ((4, 8), lambda x, i: relay.clip(x * number(1.1) + number(0.1), -1.0, 1.0)),
    "relu(x * a + b) * c": ((4, 8), lambda x, i: nn.relu(x * number(1.1) + number(0.1)) * number(0.5) + number(0.2)),
    "clip(x)": ((4, 8), lambda x, i: relay.clip(x, -1.0 - i, 1.0 + i)),
    "takes": ((4, 8), lambda x, i: relay.take(x, relay.const(np.roll(np.arange(8), 1)), axis=1)),
    "slices of paddings": (
        (1, 4, 8, 8),
        lambda x, i: relay.strided_slice(
            nn.pad(x, pad_width=((0, 0), (0, 0), (1, 1), (1, 1))), [0, 0, 1, 1], [1, 4, 9, 9]
        ),
    ),
    "casts": ((4, 8), lambda x, i: relay.cast(x, "float32" if i % 2 else "float64")),
    "sqrt(x * x)": ((4, 8), lambda x, i: relay.sqrt(x * x)),
    "transposes": ((2, 3, 4), lambda x, i: relay.transpose(x, axes=(1, 2, 0))),
    "reshapes": ((4, 6), lambda x, i: relay.reshape(x, ((2, 12), (3, 8), (24,), (4, 6))[i % 4])),
    "concat of 12 slices": (
        (4, 24),
        lambda x, i: relay.concatenate([relay.strided_slice(x, [0, 2 * j], [4, 2 * j + 2]) for j in range(12)], axis=1),
    ),
    "concat of slices with work": (
        (4, 24),
        lambda x, i: relay.concatenate(
            [nn.relu(relay.strided_slice(x, [0, 2 * j], [4, 2 * j + 2])) * number(1.1) for j in range(12)], axis=1
        ),
    ),
    "rotary embedding": (
        (4, 8),
        lambda x, i: (
            x * normal(8)
            + relay.concatenate(
                [-relay.strided_slice(x, [0, 4], [4, 8]), relay.strided_slice(x, [0, 0], [4, 4])], axis=1
            )
            * normal(8)
        ),
    ),
    "matmuls by weights": ((4, 8), lambda x, i: nn.dense(x, normal(8, 8))),
    "matmuls by inputs": ((4, 8), lambda x, i: nn.matmul(x, relay.var(f"w{i}", shape=(8, 8)))),
    "polynomial": ((4, 8), lambda x, i: x * relay.var("z", shape=(4, 8)) + normal()),
    "x * x * a": ((4, 8), lambda x, i: x * x * number(0.5)),
    "x * x * x * a": ((4, 8), lambda x, i: x * x * x * number(0.1)),
    "gelu": ((4, 8), lambda x, i: gelu(x)),
    "gelu of dense": ((4, 8), lambda x, i: gelu(nn.bias_add(nn.dense(x, normal(8, 8)), normal(8)))),
    "layer norm written out": ((4, 8), lambda x, i: layer_normalized(x)),
    "gelu, halved first": (
        (4, 8),
        lambda x, i: x * ((relay.erf(x * number(0.5**0.5)) + number(1)) * number(0.5)),
    ),
    "gelu by a quotient * array + array": (
        (4, 8),
        lambda x, i: x * number(0.5) * (number(1) + relay.erf(x / number(2**0.5))) * normal(8) + normal(8),
    ),
    "gelu by tanh": (
        (4, 8),
        lambda x, i: (
            number(0.5) * x * (number(1) + relay.tanh(number(0.79788456) * (x + number(0.044715) * x * x * x)))
        ),
    ),
    "hardswish": ((4, 8), lambda x, i: x * relay.clip(x + number(3), 0.0, 6.0) / number(6)),
    "transpose(x * a)": ((8, 8), lambda x, i: relay.transpose(x * number(1.01))),
    "x / z * a": ((4, 8), lambda x, i: x / relay.var("z", shape=(4, 8)) * number(1.5)),
    "transpose(x) * a + b": ((8, 8), lambda x, i: relay.transpose(x) * number(1.1) + number(0.3)),
    "transpose(x * array + array)": ((8, 8), lambda x, i: relay.transpose(x * normal(8) + normal(8))),
    "halves of transposes": (
        (8, 8),
        lambda x, i: relay.transpose(x) * number(0.5) + relay.transpose(x + number(0.1)) * number(0.5),
    ),
    "transpose(x) + array": ((8, 8), lambda x, i: relay.transpose(x) + normal(8)),
    "tanh(reshape(x))": (
        (4, 6),
        lambda x, i: relay.tanh(relay.reshape(x, ((2, 12), (3, 8), (24,), (4, 6))[i % 4])),
    ),
    "reshape(x * a + b)": (
        (4, 6),
        lambda x, i: relay.reshape(x * number(1.01) + number(0.1), ((2, 12), (3, 8), (24,), (4, 6))[i % 4]),
    ),
    "gelu of a transpose": ((8, 8), lambda x, i: gelu(relay.transpose(x))),
    "gelu of a reshape": (
        (4, 6),
        lambda x, i: gelu(relay.reshape(x, ((2, 12), (3, 8), (24,), (4, 6))[i % 4])),
    ),
    "x + z + a": ((4, 8), lambda x, i: x + relay.var(f"z{i}", shape=(4, 8)) + number(i / 10)),
    "x * z * a": ((4, 8), lambda x, i: x * relay.var(f"z{i}", shape=(4, 8)) * number(1.01)),
    "a x^3 + b x^2 + c x + d": (
        (4, 8),
        lambda x, i: x * x * x * number(0.1) + x * x * number(0.2) + x * number(0.5) + number(0.2),
    ),
    "(dense + b) * array": (
        (4, 8),
        lambda x, i: nn.bias_add(nn.dense(x, normal(8, 8)), normal(8)) * normal(8),
    ),
    "(dense + b) + array": (
        (4, 8),
        lambda x, i: nn.bias_add(nn.dense(x, normal(8, 8)), normal(8)) + normal(8),
    ),
    "(dense + array) * array": (
        (4, 8),
        lambda x, i: (nn.dense(x, normal(8, 8)) + normal(8)) * normal(8),
    ),
    "conv * array + array": (
        (1, 4, 8, 8),
        lambda x, i: conv(x) * normal(4, 1, 1) + normal(4, 1, 1),
    ),
    "(conv + array) * array": ((1, 4, 8, 8), lambda x, i: (conv(x) + normal(4, 1, 1)) * normal(4, 1, 1)),
    "conv(x * array)": ((1, 4, 8, 8), lambda x, i: conv(x * normal(4, 1, 1))),
    "conv bias bn": ((1, 4, 8, 8), lambda x, i: normalized(nn.bias_add(conv(x), normal(4)))),
    "conv bias bn relu": ((1, 4, 8, 8), lambda x, i: nn.relu(normalized(nn.bias_add(conv(x), normal(4))))),
    "conv bn": ((1, 4, 8, 8), lambda x, i: normalized(conv(x))),
    "conv bn relu": ((1, 4, 8, 8), lambda x, i: nn.relu(normalized(conv(x)))),
    "conv bn residual": ((1, 4, 8, 8), lambda x, i: nn.relu(normalized(conv(x)) + x)),
    "depthwise bn relu": (
        (1, 4, 8, 8),
        lambda x, i: nn.relu(normalized(nn.conv2d(x, normal(4, 1, 3, 3), padding=(1, 1), groups=4))),
    ),
    "max pool * a": ((1, 4, 8, 8), lambda x, i: max_pool(x) * number(1.1)),
    "max pool + a": ((1, 4, 8, 8), lambda x, i: max_pool(x) + number(1.1)),
    "max pool of relu": ((1, 4, 8, 8), lambda x, i: max_pool(nn.relu(x * number(1.1) + number(0.2)))),
    "average pool * a + b": (
        (1, 4, 8, 8),
        lambda x, i: nn.avg_pool2d(x, pool_size=(3, 3), padding=(1, 1)) * number(1.1) + number(0.3),
    ),
    "average pool of x * array": (
        (1, 4, 8, 8),
        lambda x, i: nn.avg_pool2d(x * normal(4, 1, 1), pool_size=(3, 3), padding=(1, 1)),
    ),
    "max pool of conv * a": ((1, 4, 8, 8), lambda x, i: max_pool(nn.relu(conv(x))) * number(1.1)),
    "a x^2 + b x + c": ((4, 8), lambda x, i: x * x * number(0.1) + x * number(0.5) + number(0.2)),
    "sum of three": ((4, 8), lambda x, i: x + x * number(0.2) + x * number(0.3)),
    "x * a + z * b": ((4, 8), lambda x, i: x * number(0.9) + relay.var(f"z{i}", shape=(4, 8)) * number(0.1)),
    "diamond of relus": ((4, 8), lambda x, i: nn.relu(x + number(0.1)) + nn.relu(x * number(0.5))),
    "diamond of gates": ((4, 8), lambda x, i: relay.tanh(x * number(0.5)) * relay.sigmoid(x + number(0.5))),
    "diamond of three": (
        (4, 8),
        lambda x, i: (x + number(1)) * number(0.2) + (x - number(3)) * number(0.4) + x / number(5),
    ),
    "residual dense": ((4, 8), lambda x, i: x + nn.bias_add(nn.dense(x, normal(8, 8)), normal(8))),
    "residual * a": ((4, 8), lambda x, i: x * number(0.5) + nn.dense(x, normal(8, 8)) * number(0.5)),
    "x + (dense + array) * array": ((4, 8), lambda x, i: x + (nn.dense(x, normal(8, 8)) + normal(8)) * normal(8)),
    "norm, relu, conv, + x": ((1, 4, 8, 8), lambda x, i: x + conv(nn.relu(normalized(x)))),
    "matmul + array": ((4, 8), lambda x, i: nn.matmul(x, normal(8, 8)) + normal(8)),
    "matmul of x * a + b": ((4, 8), lambda x, i: nn.matmul(x * number(0.5) + number(0.2), normal(8, 8))),
    "matmul of a transpose": ((8, 8), lambda x, i: nn.matmul(relay.transpose(x), normal(8, 8))),
    "dense, gelu, dense": (
        (4, 8),
        lambda x, i: nn.dense(gelu(nn.bias_add(nn.dense(x, normal(16, 8)), normal(16))), normal(8, 16)),
    ),
    "relu(dense) * array": (
        (4, 8),
        lambda x, i: nn.relu(nn.bias_add(nn.dense(x, normal(8, 8)), normal(8))) * positive(8),
    ),
    "gelu of x * array + array": ((4, 8), lambda x, i: gelu(x * normal(8) + normal(8))),
    "gelu of three axes turned": ((2, 3, 4), lambda x, i: gelu(relay.transpose(x, axes=(1, 2, 0)))),
    "silu of a transpose": ((8, 8), lambda x, i: relay.transpose(x) * relay.sigmoid(relay.transpose(x))),
    "conv, turned * array + array": (
        (1, 4, 8, 8),
        lambda x, i: relay.transpose(
            relay.transpose(conv(x), axes=(0, 2, 3, 1)) * normal(4) + normal(4), axes=(0, 3, 1, 2)
        ),
    ),
    "(conv * array + array) * array": (
        (1, 4, 8, 8),
        lambda x, i: (conv(x) * normal(4, 1, 1) + normal(4, 1, 1)) * normal(4, 1, 1),
    ),
    "a x + b in a x + b": ((4, 8), lambda x, i: ((x * number(0.1) + number(0.2)) * x + number(0.5)) * x + number(0.2)),
    "(x + a) (x - a)": ((4, 8), lambda x, i: (x + number(0.5)) * (x - number(0.5))),
    "a / x + b": ((4, 8), lambda x, i: number(2) / x + number(0.3)),
    "concat of slices + a": (
        (4, 24),
        lambda x, i: relay.concatenate(
            [relay.tanh(relay.strided_slice(x, [0, 6 * j], [4, 6 * j + 6])) + number(0.1) for j in range(4)], axis=1
        ),
    ),
    "concat of scaled slices": (
        (4, 24),
        lambda x, i: relay.concatenate(
            [relay.strided_slice(x, [0, 8 * j], [4, 8 * j + 8]) * number(1 + j / 10) for j in range(3)], axis=1
        ),
    ),
    "roll by parts * array": (
        (4, 24),
        lambda x, i: relay.concatenate([part(x, (0, 4), (7, 24)), part(x, (0, 4), (0, 7))], axis=1) * normal(24),
    ),
    "concat of a split": (
        (4, 24),
        lambda x, i: relay.concatenate([nn.relu(part) for part in relay.split(x, 4, axis=1)], axis=1),
    ),
    "gate of a split": (
        (4, 16),
        lambda x, i: (lambda parts: relay.concatenate([parts[0] * relay.sigmoid(parts[1]), parts[1]], axis=1))(
            relay.split(x, 2, axis=1)
        ),
    ),
    "root mean square norm, dense": (
        (4, 8),
        lambda x, i: nn.dense(
            x * relay.rsqrt(relay.mean(x * x, axis=-1, keepdims=True) + number(1e-5)) * normal(8), normal(8, 8)
        ),
    ),
    "cast and back * a": (
        (4, 8),
        lambda x, i: relay.cast(relay.cast(x, "float64") * relay.const(1.1, "float64"), "float32"),
    ),
    "relu, * array, + array": (
        (4, 8),
        lambda x, i: nn.relu(x) if i % 3 == 0 else x * normal(8) if i % 3 == 1 else x + normal(8),
    ),
    "conv, norm, pool": (
        (1, 4, 8, 8),
        lambda x, i: conv(x) if i % 3 == 0 else normalized(x) if i % 3 == 1 else max_pool(x),
    ),
    "dense, transpose, * a": (
        (8, 8),
        lambda x, i: nn.dense(x, normal(8, 8)) if i % 3 == 0 else relay.transpose(x) if i % 3 == 1 else x * number(0.5),
    ),
    "maximum of x + a, x + b": ((4, 8), lambda x, i: relay.maximum(x + normal(8), x + normal())),
    "where(known, x * a, x + b)": (
        (4, 8),
        lambda x, i: relay.where(relay.const(RNG.random((4, 8)) > 0.5), x * number(1.1), x + number(0.1)),
    ),
    "(x z a + x z b) y c": (
        (4, 8),
        lambda x, i: (lambda z, y: (x * z * number(0.5) + x * z * number(0.25)) * y * number(1.1))(
            *[relay.var(f"{name}{i}", shape=(4, 8)) for name in "zy"]
        ),
    ),
    "x - z - a": ((4, 8), lambda x, i: x - relay.var(f"z{i}", shape=(4, 8)) - number(0.1)),
    "x + (z * a + b)": ((4, 8), lambda x, i: x + (relay.var(f"z{i}", shape=(4, 8)) * number(0.5) + number(0.1))),
    "(x + z) * a + b": ((4, 8), lambda x, i: (x + relay.var(f"z{i}", shape=(4, 8))) * number(1.1) + number(0.1)),
    "a x z + b x + c z + d": (
        (4, 8),
        lambda x, i: (lambda z: x * z * number(0.3) + x * number(0.2) + z * number(0.1) + number(0.7))(
            relay.var(f"z{i}", shape=(4, 8))
        ),
    ),
    "y y + y a of y = x + b": ((4, 8), lambda x, i: (lambda y: y * y + y * number(0.3))(x + number(0.1))),
    "y gate(y) + y of y = x a + b": (
        (4, 8),
        lambda x, i: (lambda y: y * relay.sigmoid(y) + y)(x * number(1.1) + number(0.2)),
    ),
    "fan of x and relu(x)": (
        (4, 8),
        lambda x, i: (x * number(0.5) + number(0.1)) + (nn.relu(x) * number(0.5) + number(0.2)),
    ),
    "relu(dense(x / a) + b) * a": (
        (4, 8),
        lambda x, i: nn.relu(nn.dense(x * number(1 / 3), normal(8, 8)) + normal(8)) * number(3),
    ),
    "transpose(dense(x / a)) * a": (
        (8, 8),
        lambda x, i: relay.transpose(nn.dense(x * number(1 / 3), normal(8, 8)) + normal(8)) * number(3),
    ),
    "max pool(conv(x / a)) * a": (
        (1, 4, 8, 8),
        lambda x, i: max_pool(nn.bias_add(conv(x * number(1 / 3)), normal(4))) * number(3),
    ),
    "transposed conv bn relu": (
        (1, 4, 8, 8),
        lambda x, i: nn.relu(normalized(nn.conv2d_transpose(x, normal(4, 4, 3, 3), padding=(1, 1)))),
    ),
    "(conv - array) / array, scaled": (
        (1, 4, 8, 8),
        lambda x, i: nn.relu((conv(x) - normal(4, 1, 1)) / positive(4, 1, 1) * normal(4, 1, 1) + normal(4, 1, 1)),
    ),
    "concat of slices + arrays": (
        (4, 24),
        lambda x, i: relay.concatenate(
            [relay.strided_slice(x, [0, 8 * j], [4, 8 * j + 8]) + normal(8) for j in range(3)], axis=1
        ),
    ),
    "scaled convolution": (
        (1, 4, 8, 8),
        lambda x, i: nn.relu(conv(x) * normal(4, 1, 1) + normal(4, 1, 1)),
    ),
    "relu(reshape(transpose(x)) * a)": (
        (4, 6),
        lambda x, i: nn.relu(relay.transpose(relay.reshape(x, (6, 4))) * number(1.1)),
    ),
    "relu(take(x) * a + b)": (
        (4, 8),
        lambda x, i: nn.relu(relay.take(x, relay.const(np.roll(np.arange(8), 1)), axis=1) * number(1.1) + number(0.1)),
    ),
    "take(x) * array + array": (
        (4, 8),
        lambda x, i: relay.take(x, relay.const(np.roll(np.arange(8), i)), axis=1) * normal(8) + normal(8),
    ),
    "shuffled channels * array + array": (
        (1, 4, 4, 4),
        lambda x, i: (
            relay.reshape(relay.transpose(relay.reshape(x, (1, 2, 2, 4, 4)), axes=(0, 2, 1, 3, 4)), (1, 4, 4, 4))
            * normal(4, 1, 1)
            + normal(4, 1, 1)
        ),
    ),
    "reverse(x) * array": ((4, 8), lambda x, i: relay.reverse(x, axis=1) * normal(8)),
    "reverse(x * a + b)": ((4, 8), lambda x, i: relay.reverse(x * number(1.1) + number(0.2), axis=1)),
    "quadrants, scaled": (
        (8, 8),
        lambda x, i: relay.concatenate(
            [
                relay.concatenate(
                    [part(x, (4 * a, 4 * a + 4), (4 * b, 4 * b + 4)) * number(0.9 + a / 10 + b / 20) for b in range(2)],
                    axis=1,
                )
                for a in range(2)
            ],
            axis=0,
        ),
    ),
    "concat of relu(slice * array + array)": (
        (4, 24),
        lambda x, i: relay.concatenate(
            [nn.relu(part(x, (0, 4), (6 * j, 6 * j + 6)) * normal(6) + normal(6)) for j in range(4)], axis=1
        ),
    ),
    "concat of sums of slices": (
        (4, 24),
        lambda x, i: (
            lambda z: relay.concatenate(
                [part(x, (0, 4), (8 * j, 8 * j + 8)) + part(z, (0, 4), (8 * j, 8 * j + 8)) for j in range(3)], axis=1
            )
        )(relay.var(f"z{i}", shape=(4, 24))),
    ),
    "matmul by inputs * a": (
        (4, 8),
        lambda x, i: nn.matmul(x * number(1.01), relay.var(f"w{i}", shape=(8, 8))),
    ),
    "x z a + x w a": (
        (4, 8),
        lambda x, i: (
            x * relay.var(f"z{i}", shape=(4, 8)) * number(0.5) + x * relay.var(f"w{i}", shape=(4, 8)) * number(0.5)
        ),
    ),
    "x * array + z * array": (
        (4, 8),
        lambda x, i: (lambda a: x * a + relay.var(f"z{i}", shape=(4, 8)) * a)(normal(8)),
    ),
    "maximum(x * a, z * a)": (
        (4, 8),
        lambda x, i: relay.maximum(x * number(1.1), relay.var(f"z{i}", shape=(4, 8)) * number(1.1)),
    ),
    "maximum(x, -x)": ((4, 8), lambda x, i: relay.maximum(x, relay.negative(x))),
    "softmax(x - max x) * a": (
        (4, 8),
        lambda x, i: nn.softmax(x - relay.max(x, axis=-1, keepdims=True)) * number(2),
    ),
    "norm, conv, norm": ((1, 4, 8, 8), lambda x, i: normalized(conv(normalized(x)))),
    "conv, turned, relu": (
        (1, 4, 8, 8),
        lambda x, i: nn.relu(
            relay.transpose(relay.transpose(conv(x), axes=(0, 2, 3, 1)) + normal(4), axes=(0, 3, 1, 2))
        ),
    ),
    "bottleneck": (
        (1, 4, 8, 8),
        lambda x, i: nn.relu(normalized(nn.conv2d(nn.relu(normalized(conv(x))), normal(4, 4, 1, 1))) + x),
    ),
    "hardswish of depthwise bn": (
        (1, 4, 8, 8),
        lambda x, i: (lambda y: y * relay.clip(y + number(3), 0.0, 6.0) / number(6))(
            normalized(nn.conv2d(x, normal(4, 1, 3, 3), padding=(1, 1), groups=4))
        ),
    ),
    "leaky relu of scaled conv1d": (
        (1, 4, 8),
        lambda x, i: nn.leaky_relu(nn.conv1d(x, normal(4, 4, 3), padding=(1,)) * number(1.1) + normal(4, 1), alpha=0.1),
    ),
    "int64 (x + i) * a - b": (
        (4, 8),
        lambda x, i: (x + whole(i, "int64")) * whole(3, "int64") - whole(7, "int64"),
    ),
    "int32 maximum(x, i)": ((4, 8), lambda x, i: relay.maximum(x, whole(i))),
    "int8 x * a + b": ((4, 8), lambda x, i: x * whole(7, "int8") + whole(100, "int8")),
    "int32 minimum(maximum(x))": (
        (4, 8),
        lambda x, i: relay.minimum(relay.maximum(x, whole(-i)), whole(1000 - i)),
    ),
}


def dtype_of(name: str) -> str:
    """The dtype with which the name of a row begins; without one it is float32."""
    first = name.split()[0]
    return first if first.startswith("int") else "float32"


def measure(name: str, links: int, check: bool) -> str:
    """A line of the table."""
    shape, link = LINKS[name]
    expr: Any = relay.var("x", shape=shape, dtype=dtype_of(name))
    for place in range(links):
        expr = link(expr, place)
    start = time.process_time()
    saturation = eqsat.saturate(expr)
    result = eqsat.extract(saturation)
    seconds, nodes = time.process_time() - start, saturation.node_count
    megabytes = resident_bytes() >> 20
    figures = f"{nodes:8} {nodes / links:8.1f} {seconds:8.2f} {megabytes:6} {result.cost:8}"
    line = f"{name:38} {figures}  {saturation.stop_reason:10}"
    return f"{line} {checked(expr, result.expr)}" if check else line


def checked(given: Expr, result: Expr) -> str:
    """The last columns of a line."""
    wide: dict[Expr, Expr] = {}
    values: dict[Var, Any] = {}
    wide_values: dict[Var, Any] = {}
    for node in post_order(given):
        if isinstance(node, Var):
            ty = node.type_annotation
            values[node] = RNG.normal(scale=50 if "int" in ty.dtype else 1, size=ty.concrete_shape).astype(ty.dtype)
            wide[node] = relay.var(node.name_hint, shape=values[node].shape, dtype=widened(values[node]))
            wide_values[wide[node]] = values[node].astype(widened(values[node]))
        elif isinstance(node, Constant):
            wide[node] = relay.const(node.data.numpy(), widened(node.data.numpy()))
        else:
            wide[node] = rebuild(node, wide)
    with np.errstate(all="ignore"):
        exact = evaluate(wide[given], wide_values)
        errors = [
            error(evaluate(graph, {var: values[var] for var in free_vars(graph)}), exact) for graph in (given, result)
        ]
    cost = eqsat.extract(eqsat.saturate(given, list(eqsat.rules.default)[::-1])).cost
    return f"{errors[0]:9.1e} {errors[1]:9.1e} {cost:8}"


def widened(array: Any) -> str:
    """The dtype of double precision in place of that of floating-point numbers."""
    return "float64" if array.dtype.kind == "f" else str(array.dtype)


def error(value: Any, exact: Any) -> float:
    largest = np.max(np.abs(exact), initial=0, where=np.isfinite(exact)) or 1.0
    return float(np.max(np.where(value == exact, 0, np.abs(value - exact) / largest)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a row of the table")
    parser.add_argument("--links", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=60.0, help="after which a graph is given up")
    parser.add_argument(
        "--check", action="store_true", help="tell errors, and the cost with rules in the reverse order"
    )
    args = parser.parse_args()
    if len(args.names) == 1:
        print(measure(args.names[0], args.links, args.check))
        return
    checks = f"     {'given':>9} {'result':>9} {'reversed':>8}" if args.check else ""
    print(f"{'chain':38} {'e-nodes':>8} {'a link':>8} {'seconds':>8} {'MB':>6} {'cost':>8}  stopped by{checks}")
    for name in args.names or LINKS:
        command = [sys.executable, __file__, "--links", str(args.links), *["--check"] * args.check, name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=args.seconds, check=True)
            print(done.stdout, end="", flush=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            print(f"{name:38} {type(error).__name__}", flush=True)


if __name__ == "__main__":
    main()
