"""How instances are drawn of which all values are proved."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.relay.op.draw import Draw
from eqsat.relay.ty import TensorType


class SmallDraw(Draw):
    """Draws small tensors; floats are powers of two, with which constants are computed without rounding."""

    def __init__(self, rng: random.Random):
        super().__init__(rng, finite=True)
        self.dims = rng.choices((1, 2, 3), k=3)

    def array(self, ty: TensorType, special: bool = False) -> NDArray[Any]:
        if np.dtype(ty.dtype).kind in "biu":
            return super().array(ty)
        source = np.random.default_rng(self.rng.getrandbits(63))
        values = source.choice((0.25, 0.5, 1.0, 2.0, 4.0), ty.concrete_shape)
        if not self.positive:
            values = values * source.choice((-1.0, 1.0), ty.concrete_shape)
        return np.asarray(values, ty.dtype)
