"""How integers stand for real numbers: real = scale * (integer - zero point)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.relay.expr import Constant, Expr
from eqsat.relay.fold import fold_constants
from eqsat.relay.infer import type_of
from eqsat.relay.op.types import tensor
from eqsat.relay.structural import structural_equal


@dataclass(frozen=True, eq=False)
class TensorAffineType:
    """How a tensor of integers stands for real numbers.

    Args:
        scale: a scalar, or one for each index along the axis.
        zero_point: likewise.
        dtype: of the integers.
        axis: of scales and zero points that are not scalars.
    """

    scale: Expr
    zero_point: Expr
    dtype: str
    axis: int = -1

    @property
    def is_scalar(self) -> bool:
        """Whether one scale and zero point hold for the whole tensor."""
        return all(set(tensor(type_of(each)).shape) <= {1} for each in (self.scale, self.zero_point))

    def is_like(self, other: TensorAffineType) -> bool:
        """Whether equal integers stand for equal numbers, up to rounding of the scales."""
        same = _close(self.scale, other.scale) and _close(self.zero_point, other.zero_point)
        return same and self.dtype == other.dtype and (self.axis == other.axis or self.is_scalar)


@dataclass(frozen=True, eq=False)
class TupleAffineType:
    """How the fields of a tuple stand for real numbers."""

    types: Sequence[TensorAffineType]


def _close(one: Expr, other: Expr) -> bool:
    one, other = fold_constants(one), fold_constants(other)
    if isinstance(one, Constant) and isinstance(other, Constant):
        left, right = one.data.numpy(), other.data.numpy()
        return (left.size == right.size or 1 in (left.size, right.size)) and bool(
            np.allclose(left.ravel(), right.ravel())
        )
    return structural_equal(one, other)
