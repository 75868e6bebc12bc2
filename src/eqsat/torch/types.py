"""Types between PyTorch and the IR: element types, and sizes as polynomials of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch

from eqsat.relay.dims import add_dims, multiply_dims
from eqsat.relay.ty import UNKNOWN, Dim, TensorType, TupleType, Type
from eqsat.relay.ty import Any as AnyDim

DTYPES: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}
"""The element types that the IR computes with; tensors of others have no type there."""

TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


_MOST_POWER = 4
"""Powers up to which a size is multiplied out."""


class Sizes:
    """The names of sizes in one graph, and the expressions that they stand for.

    Attributes:
        atoms: Name -> expression, of those that are no sums or products.
    """

    def __init__(self) -> None:
        self.atoms: dict[str, sympy.Expr] = {}

    def dim(self, size: Any) -> Dim:
        """The dimension that a size of a tensor is: an int or ``torch.SymInt``."""
        return int(size) if isinstance(size, int) else self._dim(size.node.expr)

    def _dim(self, expr: sympy.Expr) -> Dim:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Add:
            return add_dims(*map(self._dim, expr.args))
        if expr.is_Mul:
            return multiply_dims(*map(self._dim, expr.args))
        if expr.func.__name__ in ("Pow", "PowByNatural") and expr.args[1].is_Integer:
            base, power = self._dim(expr.args[0]), int(expr.args[1])
            if 0 < power <= _MOST_POWER:
                return multiply_dims(*[base] * power)
        name = str(expr)
        self.atoms.setdefault(name, expr)
        return AnyDim(name)

    def type(self, value: Any) -> Type:
        """The type of what a node gives, by its ``val``."""
        if isinstance(value, (tuple, list)):
            return TupleType([self.type(each) for each in value])
        if not is_plain(value) or value.dtype not in DTYPES:
            return UNKNOWN
        return TensorType([self.dim(size) for size in value.shape], DTYPES[value.dtype])

    def expression(self, dim: Dim) -> sympy.Expr:
        """The expression that a dimension is."""
        if isinstance(dim, int):
            return sympy.Integer(int(dim))
        terms: Mapping[tuple[str, ...], int] = dim.terms or {(str(dim.name),): 1}
        return sympy.Add(*[sympy.Mul(count, *map(self.atoms.__getitem__, names)) for names, count in terms.items()])


def is_unbacked(value: Any) -> bool:
    """Whether a size depends on the elements of a tensor."""
    return isinstance(value, torch.SymInt) and any(str(each).startswith("u") for each in value.node.expr.free_symbols)


def is_plain(value: Any) -> bool:
    """Whether a value is a dense tensor, and no subclass that computes in a way of its own."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
        return False
    return isinstance(value, torch._subclasses.FakeTensor) or type(value) in (torch.Tensor, torch.nn.Parameter)
