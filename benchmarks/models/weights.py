"""Weights that take no memory until they are read."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from eqsat import relay
from eqsat.nd import NDArray
from eqsat.relay.expr import Constant, Expr, Function
from eqsat.relay.visitor import post_order


class Weight(NDArray):
    """A float32 array told apart from others by its number: random values, repeated along the first axis, made when
    first read. Repeated values take no memory."""

    def __init__(self, number: int, shape: tuple[int, ...]):
        super().__init__(shape, "float32", self._values)
        self.number = number

    def digest(self) -> bytes:
        return hashlib.blake2b(f"weight {self.number} {self.shape}".encode(), digest_size=16).digest()

    def _values(self) -> Any:
        repeated = self.shape[1:] or self.shape
        scale = np.float32(max(1, math.prod(repeated)) ** 0.5)
        values = np.random.default_rng(self.number).standard_normal(repeated, "float32") / scale
        return np.broadcast_to(values, self.shape)


class Weights:
    """The weights of one network, numbered in order of their making."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *shape: int) -> Constant:
        self.count += 1
        return Constant(Weight(self.count, shape))


def function(body: Expr) -> Function:
    """The function of a network's inputs."""
    return Function(relay.analysis.free_vars(body), body)


def parameter_count(network: Function) -> int:
    """Elements of all weights."""
    constants = [node for node in post_order(network) if isinstance(node, Constant)]
    return sum(node.data.size for node in constants if isinstance(node.data, Weight))
