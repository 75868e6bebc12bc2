"""What rules ask of the types of tensors: dtypes, shapes, and whether several are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from eqsat.egraph.author import compute, refuse, type_of, when
from eqsat.egraph.rule import Compute, Guard, Refusal
from eqsat.relay.dataflow_pattern import DFPattern, TypedPattern
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type, is_exact, is_static

Shape: TypeAlias = tuple[int, ...]


def rank_of(ty: Type) -> int:
    """The number of axes; 0 for what is no tensor."""
    return len(ty.shape) if isinstance(ty, TensorType) else 0


def static_shape(ty: Type) -> Shape | Refusal:
    """The dimensions of a tensor, where all are known."""
    return ty.concrete_shape if is_static(ty) else refuse("a dimension is not known")


def has_zero(ty: TensorType) -> bool:
    """Whether a dimension is 0."""
    return 0 in ty.shape


class EmptyPattern(TypedPattern):
    """Matches what ``pattern`` matches if it is a tensor without elements."""

    condition = ("empty",)

    def __init__(self, pattern: DFPattern):
        self.pattern = pattern

    def accepts(self, ty: Type) -> bool:
        return isinstance(ty, TensorType) and has_zero(ty)

    def fitted(self, ty: TensorType) -> Type:
        return TensorType((*ty.shape[:-1], 0), ty.dtype)


def is_float(*types: Type) -> bool:
    """Guard: all are tensors of floating-point numbers."""
    return all(isinstance(ty, TensorType) and ty.dtype.startswith(("float", "bfloat")) for ty in types)


def is_integer(ty: Type) -> bool:
    """Guard: a tensor of integers."""
    return isinstance(ty, TensorType) and ty.dtype.startswith(("int", "uint"))


def is_number(ty: Type) -> bool:
    """Guard: a tensor of integers or floating-point numbers."""
    return is_float(ty) or is_integer(ty)


def is_short_float(ty: Type) -> bool:
    """Guard: floating-point numbers other than float64, for which runtimes lack many operators."""
    return isinstance(ty, TensorType) and is_float(ty) and ty.dtype != "float64"


def is_scalar(ty: Type) -> bool:
    """Guard: one element, whatever the number of axes."""
    return isinstance(ty, TensorType) and all(dim == 1 for dim in ty.shape)


def same_dtype(*types: TensorType) -> bool:
    """Guard: tensors of one dtype."""
    return len({ty.dtype for ty in types}) == 1


def same_sizes(*shapes: Sequence[Dim]) -> bool:
    """Whether dimensions surely are of equal sizes: those without a name promise nothing of each other."""
    return AnyDim() not in shapes[0] and all(tuple(shape) == tuple(shapes[0]) for shape in shapes[1:])


def same_type(*types: Type) -> bool:
    """Guard: tensors that surely are of one shape, and of one dtype."""
    return isinstance(types[0], TensorType) and is_exact(types[0]) and all(ty == types[0] for ty in types[1:])


def floats_of_one_dtype(*types: TensorType) -> bool:
    """Guard: floating-point tensors of one dtype."""
    return is_float(*types) and same_dtype(*types)


def floats_of_one_type(*types: Type) -> bool:
    """Guard: floating-point tensors that surely are of one shape, and of one dtype."""
    return is_float(*types) and same_type(*types)


def is_wide(ty: TensorType) -> bool:
    """Guard: a tensor of another dtype than float16, in which products and squares of some hundreds overflow."""
    return ty.dtype != "float16"


def is_number_for(number: TensorType, *others: TensorType) -> bool:
    """Guard: one number of the dtype of other floating-point tensors, of no more axes than these."""
    known = floats_of_one_dtype(number, *others) and is_scalar(number)
    return known and all(rank_of(number) <= rank_of(ty) for ty in others)


def dtype_of(pattern: DFPattern) -> Compute:
    """The dtype of what ``pattern`` matched."""
    return compute(lambda ty: ty.dtype, type_of(pattern))


def floats(*patterns: DFPattern) -> Guard:
    """All of ``patterns`` matched tensors of floating-point numbers."""
    return when(is_float, *map(type_of, patterns))


def floats_alike(*patterns: DFPattern) -> Guard:
    """All of ``patterns`` matched floating-point tensors of one dtype."""
    return when(floats_of_one_dtype, *map(type_of, patterns))


def keeps(root: DFPattern, *parts: DFPattern) -> Guard:
    """``parts`` are numbers of the type of ``root``: nothing broadcasts, and no shape is lost on the way."""
    return when(_numbers_of_one_type, type_of(root), *map(type_of, parts))


def keeps_floats(root: DFPattern, *parts: DFPattern) -> Guard:
    """As :func:`keeps`, for floating-point numbers: laws that integers do not obey."""
    return when(floats_of_one_type, type_of(root), *map(type_of, parts))


def _numbers_of_one_type(*types: Type) -> bool:
    return is_number(types[0]) and same_type(*types)
