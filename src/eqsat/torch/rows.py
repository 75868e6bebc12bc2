"""ATen operators and operators of the IR: one table, read in both directions.

A row says which overload an operator of the IR is, and what each argument of the overload is there. What one row
cannot say is said by a function, of :mod:`eqsat.torch.reading` or :mod:`eqsat.torch.writing`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import fx

from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.op.shape import reshape_codes
from eqsat.relay.ty import Dim, TensorType, Type
from eqsat.torch.types import DTYPES, TORCH_DTYPES, Sizes


class Declined(Exception):
    """Raised where an ATen call has no exact equivalent in the IR; the text says why."""


def build(name: str, *args: Expr, **attrs: Any) -> Call:
    """Return a call of the operator ``name``."""
    op = Op.get(name)
    return Call(op, args, make_attrs(op, attrs))


def is_named(shape: Sequence[Dim]) -> bool:
    """Whether every size is known, or has a name, so that it can be written."""
    return all(isinstance(dim, int) or dim.name is not None for dim in shape)


def shape_codes(shape: Sequence[Dim], wanted: Sequence[Dim]) -> Sequence[Dim] | None:
    """How ``reshape`` makes a tensor of ``shape`` one of shape ``wanted``; None if it cannot be said."""
    codes = reshape_codes(shape, wanted)
    return wanted if codes is None and is_named(wanted) and 0 not in wanted else codes


@cache
def overload(name: str) -> Any:
    """The operator of PyTorch with a name such as ``aten.add.Tensor``."""
    return reduce(getattr, name.split("."), torch.ops)


# ---- one node, as it is read


class Source:
    """One call of an ATen operator, together with the expressions of its operands.

    Attributes:
        node: The node.
        values: The arguments in the order of the schema, defaults filled in: expressions for tensors, dimensions for
            sizes, and all else as it is.
        types: The type of each expression.
        sizes: The sizes of the graph.
        value: What the node gives, a tensor without data or a tuple of such.
    """

    def __init__(self, node: fx.Node, values: Sequence[Any], types: Mapping[Expr, Type], sizes: Sizes):
        self.node, self.values, self.types, self.sizes = node, values, types, sizes
        self.value = node.meta["val"]

    def require(self, condition: object, reason: str) -> None:
        """Decline unless ``condition`` holds."""
        if not condition:
            raise Declined(reason)

    def type(self, expr: Any) -> TensorType:
        """The type of an operand; decline if it is no tensor of the IR."""
        ty = self.types.get(expr) if isinstance(expr, Expr) else None
        if not isinstance(ty, TensorType):
            raise Declined("the type of an operand is not known to the IR")
        return ty

    def rank(self, expr: Expr) -> int:
        """The number of dimensions of an operand."""
        return len(self.type(expr).shape)

    def axis(self, axis: Any, expr: Expr) -> int:
        """An axis of an operand, counted from the front."""
        self.require(isinstance(axis, int), "an axis is not known")
        return int(axis) % max(self.rank(expr), 1)

    def result(self, index: int | None = None) -> torch.Tensor:
        """What the node gives, or one of the tensors it gives."""
        found: torch.Tensor = self.value if index is None else self.value[index]
        return found

    def result_type(self) -> TensorType:
        """The type of what the node gives; decline if it is no tensor of the IR."""
        ty = self.sizes.type(self.value)
        if not isinstance(ty, TensorType):
            raise Declined("its type is not known to the IR")
        return ty

    def given(self, argument: str) -> Any:
        """What stands for an argument in the node: a tensor without data, or a number."""
        for index, (name, _, _) in enumerate(signature(self.node.target)):
            if name == argument:
                given = self.node.args[index] if index < len(self.node.args) else self.node.kwargs.get(name)
                return given.meta["val"] if isinstance(given, fx.Node) else given
        raise Declined(f"it has no argument {argument}")

    def number(self, value: Any, dtype: torch.dtype) -> Constant:
        """A number that PyTorch computes with as one of a dtype."""
        self.require(isinstance(value, (bool, int, float)), "an operand is neither tensor nor number")
        exact = torch.tensor(value, dtype=dtype)
        if dtype in (torch.float16, torch.bfloat16):
            reason = f"{value} is no number of {DTYPES[dtype]}, and PyTorch computes with a more precise one"
            self.require(exact.item() == value or value != value, reason)
        return Constant(np.asarray(value).astype(DTYPES[dtype]))

    def promoted(self, *arguments: str) -> list[Expr]:
        """The operands of these names, each of the dtype that all are computed with."""
        given = [self.given(name) for name in arguments]
        self.require(all(isinstance(each, (torch.Tensor, bool, int, float)) for each in given), "it takes a size")
        dtype = reduce(torch.promote_types, _dtypes(given))
        self.require(dtype in DTYPES, f"the IR has no element type {dtype}")
        names = [name for name, _, _ in signature(self.node.target)]
        found = []
        for name, value in zip(arguments, given, strict=True):
            expr = self.values[names.index(name)]
            if isinstance(value, torch.Tensor):
                found.append(
                    expr if self.type(expr).dtype == DTYPES[dtype] else build("cast", expr, dtype=DTYPES[dtype])
                )
            else:
                found.append(self.number(value, dtype))
        return found


def _dtypes(given: Sequence[Any]) -> Iterator[torch.dtype]:
    if len(given) == 1:
        yield given[0].dtype
    for left, right in pairwise(given):
        yield torch.result_type(left, right)


Result: TypeAlias = "Expr | Sequence[Expr | None]"
Reader: TypeAlias = Callable[[Source], Result]
"""What an ATen call is in the IR: one expression, or one for each output, None for those that it has not."""


# ---- what is written


@dataclass(frozen=True, eq=False)
class Aten:
    """A call to be written: expressions stand for operands, dimensions for sizes.

    Args:
        target: What is called.
        args, kwargs: Its arguments.
        output: Which of its outputs is meant, None if it has one only.
        is_first: Whether what it gives is the first of the outputs that the operator has in the IR.
    """

    target: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    output: int | None = None
    is_first: bool = False


@dataclass(frozen=True)
class Dialect:
    """Which operators a graph may have.

    Args:
        composite: Whether those that PyTorch itself composes of others, such as ``linear``.
        without: Those that it may not.
    """

    composite: bool
    without: frozenset[Any] = field(default=frozenset(), repr=False)


class Written:
    """What writers see of the graph that is written.

    Args:
        types: The type of each expression.
        dialect: Which operators may be written.
    """

    def __init__(self, types: Mapping[Expr, Type], dialect: Dialect):
        self.types, self.dialect, self.composite = types, dialect, dialect.composite

    def allows(self, form: Aten | Expr | None) -> bool:
        """Whether a form may be written."""
        return form is not None and not (isinstance(form, Aten) and form.target in self.dialect.without)

    def type(self, expr: Expr) -> TensorType | None:
        """The type of an expression, None if it is not a tensor."""
        ty = self.types.get(expr)
        return ty if isinstance(ty, TensorType) else None

    def rank(self, expr: Expr) -> int:
        """The number of dimensions, -1 if it is not known."""
        ty = self.type(expr)
        return -1 if ty is None else len(ty.shape)

    def shape(self, expr: Expr) -> tuple[Dim, ...] | None:
        """The dimensions, None unless each can be written."""
        ty = self.type(expr)
        return ty.shape if ty is not None and is_named(ty.shape) else None


Writer: TypeAlias = Callable[[Call, Written], "Aten | Expr | None"]
"""How a call is written: as a node, as another expression over the same operands, or not at all."""

_READERS: dict[str, Reader] = {}
_WRITERS: dict[str, list[Writer]] = {}

_Reader = TypeVar("_Reader", bound=Reader)
_Writer = TypeVar("_Writer", bound=Writer)


def reads(*names: str) -> Callable[[_Reader], _Reader]:
    """Return a decorator that registers what reads some ATen operators."""

    def register(reader: _Reader) -> _Reader:
        _READERS.update(dict.fromkeys(names, reader))
        return reader

    return register


def writes(*names: str) -> Callable[[_Writer], _Writer]:
    """Return a decorator that registers what writes some operators of the IR that none before it writes."""

    def register(writer: _Writer) -> _Writer:
        for name in names:
            _WRITERS.setdefault(name, []).append(writer)
        return writer

    return register


def reader_of(target: Any) -> Reader | None:
    """Return what reads an operator, None if nothing does."""
    return _READERS.get(str(target))


def form_of(call: Call, written: Written) -> Aten | Expr | None:
    """Return how a call is written, None if there is no way."""
    name = call.op.name if isinstance(call.op, Op) else ""
    forms = (writer(call, written) for writer in _WRITERS.get(name, ()))
    return next((form for form in forms if written.allows(form)), None)


@cache
def signature(target: Any) -> tuple[tuple[str, bool, Any], ...]:
    """Name, whether it is given by name only, and default, of each argument of an overload."""
    return tuple(
        (each.name, each.kwarg_only, each.default_value if each.has_default_value() else None)
        for each in target._schema.arguments
    )


# ---- rows


@dataclass(frozen=True)
class Operand:
    """An argument of the overload that is one of the operator in the IR."""


@dataclass(frozen=True)
class Attribute:
    """An argument of the overload that is an attribute in the IR.

    Args:
        name: The attribute.
        read, write: Convert a value; the second argument is the rank of the first operand. None does not fit.
        otherwise: The attribute whose value this one has where the argument is an empty list.
    """

    name: str
    read: Callable[[Any, int], Any] = lambda value, rank: value
    write: Callable[[Any, int], Any] = lambda value, rank: value
    otherwise: str | None = None


@dataclass(frozen=True)
class Fixed:
    """An argument of the overload that has to have one value."""

    value: Any


Part: TypeAlias = Operand | Attribute | Fixed

_UNSEEN = ("units", "channels", "kernel_size")
"""Attributes that repeat what types say."""

_INDIFFERENT = ("memory_format", "padding_idx", "scale_grad_by_freq", "sparse", "sparse_grad")
"""Arguments that say nothing of values: how they are laid out in memory, and what becomes of gradients."""


@dataclass(frozen=True)
class Row:
    """One overload as an operator of the IR.

    Args:
        target: The name of the overload.
        op: The operator of the IR.
        parts: What each argument of the overload is, in order; those beyond have their defaults.
        given: Attributes that the operator has there.
        composite: Whether PyTorch composes the overload of others: it is written only among such.
        output: Which output of the overload the result is, None if it has one only.
        when: What has to hold of the operands to write it.
    """

    target: str
    op: str
    parts: tuple[Part, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    composite: bool = False
    output: int | None = None
    when: Callable[[Call, Written], object] = lambda call, written: True

    def read(self, source: Source) -> Result:
        """The call as one of the operator in the IR."""
        names = signature(overload(self.target))
        args: list[Expr] = []
        attrs: dict[str, Any] = dict(self.given)
        for part, value, (name, _, _) in zip(self.parts, source.values, names, strict=False):
            if isinstance(part, Operand):
                source.type(value)
                args.append(value)
            elif isinstance(part, Fixed):
                source.require(value == part.value, f"its {name} is {value}")
            else:
                found = (
                    attrs[part.otherwise] if part.otherwise and value == [] else part.read(value, source.rank(args[0]))
                )
                source.require(found is not None, f"its {name} is {value}")
                attrs[part.name] = found
        for value, (name, _, default) in list(zip(source.values, names, strict=True))[len(self.parts) :]:
            source.require(value == default or name in _INDIFFERENT, f"its {name} is {value}")
        result = build(self.op, *args, **attrs)
        return result if self.output is None else [*[None] * self.output, result]

    def write(self, call: Call, written: Written) -> Aten | None:
        """The call as one of the overload, None if it is none."""
        if (self.composite and not written.composite) or not self._fits(call, written):
            return None
        rank, operands = written.rank(call.args[0]), iter(call.args)
        attrs: Mapping[str, Any] = call.attrs or {}
        values: list[Any] = []
        for part in self.parts:
            if isinstance(part, Operand):
                values.append(next(operands))
            elif isinstance(part, Fixed):
                values.append(part.value)
            else:
                values.append(part.write(attrs[part.name], rank))
                if values[-1] is None:
                    return None
        return aten(self.target, *values, output=self.output)

    def _fits(self, call: Call, written: Written) -> bool:
        said = {part.name for part in self.parts if isinstance(part, Attribute)}
        for each in call.op.fields if isinstance(call.op, Op) else ():
            value = (call.attrs or {})[each.name]
            if each.name in said or each.name in _UNSEEN:
                continue
            if each.name == "out_dtype":
                ty = written.type(call.args[0])
                if value and (ty is None or value != ty.dtype):
                    return False
            elif each.name in self.given:
                if value != self.given[each.name]:
                    return False
            elif value != each.default and value != each(each.default):
                return False
        return bool(self.when(call, written))


def aten(name: str, *values: Any, output: int | None = None) -> Aten:
    """A call of an overload with the first values of its schema; defaults at the end are left out."""
    target = overload(name)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    names = signature(target)
    for value, (argument, by_name, default) in zip(values, names, strict=False):
        if not by_name:
            args.append(value)
        elif value != default:
            kwargs[argument] = value
    while args and not isinstance(args[-1], Expr) and _is_default(args[-1], names[len(args) - 1][2]):
        schema = target._schema.arguments[len(args) - 1]
        if not schema.has_default_value():
            break
        args.pop()
    return Aten(target, args, kwargs, output)


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(operator.eq(value, default))


def row(target: str, op: str, *parts: Part, **more: Any) -> None:
    """Add a row to the table."""
    made = Row(target, op, parts, **more)
    _READERS[target] = made.read
    _WRITERS.setdefault(op, []).append(made.write)


TENSOR = Operand()


def attribute(name: str) -> Attribute:
    """An argument that is an attribute as it is."""
    return Attribute(name)


def axis(name: str) -> Attribute:
    """An argument that is an axis."""
    return Attribute(name, lambda value, rank: value % max(rank, 1))


def axes(name: str) -> Attribute:
    """An argument that is a list of axes."""
    return Attribute(name, _axes, lambda value, rank: None if value is None else list(_axes(value, rank)))


def one_axis(name: str) -> Attribute:
    """An argument that is an axis, where the attribute is a list of axes."""

    def write(value: Any, rank: int) -> Any:
        listed = _axes(value, rank)
        return listed[0] if len(listed) == 1 else None

    return Attribute(name, _axes, write)


def _axes(value: Any, rank: int) -> tuple[int, ...]:
    if value is None or value == [] or value == ():
        return tuple(range(rank))
    return tuple(each % max(rank, 1) for each in ((value,) if isinstance(value, int) else value))


def numbers(name: str, count: int, otherwise: str | None = None) -> Attribute:
    """An argument that is a list of ``count`` numbers, one for all of them, or none for those of another attribute."""

    def read(value: Any, rank: int) -> Any:
        listed = [value] if isinstance(value, int) else list(value)
        listed = listed * count if len(listed) == 1 else listed
        return tuple(listed) if all(isinstance(each, int) for each in listed) and len(listed) == count else None

    def write(value: Any, rank: int) -> Any:
        listed = list(value) * count if len(value) == 1 else list(value)
        if len(listed) == 2 * count:  # before, then after
            return listed[:count] if listed[:count] == listed[count:] else None
        return listed if len(listed) == count else None

    return Attribute(name, read, write, otherwise)


def repeats(name: str) -> Attribute:
    """An argument that says how often each axis is repeated, new ones before those of the tensor."""

    def read(value: Any, rank: int) -> Any:
        return tuple(value) if len(value) >= rank and all(isinstance(each, int) for each in value) else None

    return Attribute(name, read, lambda value, rank: [*[1] * (rank - len(value)), *value])


# ---- elementwise

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh",
    "bitwise_not": "bitwise_not", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf", "exp": "exp",
    "floor": "floor", "hardswish": "hardswish", "isinf": "isinf", "isnan": "isnan", "log": "log", "log10": "log10",
    "log2": "log2", "logical_not": "logical_not", "mish": "nn.mish", "neg": "negative", "relu": "nn.relu",
    "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sign": "sign", "silu": "nn.swish", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
"""Operators of one tensor: the name in ATen, and in the IR."""

for _name, _op in _UNARY.items():
    row(f"aten.{_name}.default", _op, TENSOR)
row("aten.round.default", "round", TENSOR)
row("aten.gelu.default", "nn.gelu", TENSOR, attribute("approximate"))
row("aten.hardsigmoid.default", "nn.hard_sigmoid", TENSOR, given={"alpha": 1 / 6, "beta": 0.5})
row("aten.leaky_relu.default", "nn.leaky_relu", TENSOR, attribute("alpha"))
row("aten.elu.default", "nn.elu", TENSOR, attribute("alpha"), Fixed(1), Fixed(1))
row("aten.where.self", "where", TENSOR, TENSOR, TENSOR)


@dataclass(frozen=True)
class Binary:
    """An operator of two tensors, or of a tensor and a number, whose dtypes PyTorch makes one.

    Args:
        op: The operator of the IR.
        tensors: The overload for tensors.
        right: The overload whose second argument is a number.
        left: One whose first is, None if there is none. It takes the number last if it is ``swapped``.
    """

    op: str
    tensors: str
    right: str
    left: str | None = None
    swapped: bool = False

    def write(self, call: Call, written: Written) -> Aten:
        """The call, numbers in their places."""
        first, second = call.args
        number = number_of(second, first, written)
        if number is not None:
            return aten(self.right, first, number)
        number = number_of(first, second, written)
        if number is not None and self.left is not None:
            return aten(self.left, *((second, number) if self.swapped else (number, second)))
        return aten(self.tensors, *promoted_anyway(first, second, written))


def number_of(expr: Expr, beside: Expr, written: Written) -> Any:
    """The number that a constant is where it stands beside another operand; None if it is something else."""
    rank = written.rank(beside)
    if not isinstance(expr, Constant) or isinstance(beside, Constant) or expr.data.size != 1:
        return None
    if len(expr.data.shape) > rank or rank < 0:
        return None
    return expr.data.numpy().reshape(-1)[0].item()


def promoted_anyway(first: Expr, second: Expr, written: Written) -> tuple[Expr, Expr]:
    """Two operands without the casts that PyTorch does itself."""

    def source(expr: Expr, other: Expr) -> Expr:
        ty, beside = written.type(expr), written.type(other)
        if not isinstance(expr, Call) or expr.op != Op.get("cast") or ty is None or beside is None:
            return expr
        inner = written.type(expr.args[0])
        same_kind = bool(ty.shape) == bool(beside.shape)
        if inner is None or not same_kind or isinstance(expr.args[0], Constant):
            return expr
        both = torch.promote_types(TORCH_DTYPES[inner.dtype], TORCH_DTYPES[beside.dtype])
        return expr.args[0] if DTYPES.get(both) == ty.dtype else expr

    left = source(first, second)
    return left, source(second, left)


def binary(made: Binary) -> None:
    """Add a row of an operator of two operands."""

    def read(source: Source) -> Expr:
        names = [name for name, _, _ in signature(source.node.target)]
        for name, value in zip(names[2:], source.values[2:], strict=True):
            source.require((name == "alpha" and value == 1) or value is None, f"its {name} is {value}")
        first, second = source.promoted(*names[:2])
        swap = str(source.node.target) == made.left and made.swapped
        return build(made.op, *((second, first) if swap else (first, second)))

    for name in (made.tensors, made.right, made.left):
        if name is not None:
            _READERS[name] = read
    _WRITERS.setdefault(made.op, []).append(made.write)


def _both(op: str, name: str, left: str | None = None, swapped: bool = False, scalar: str = "Tensor") -> None:
    binary(Binary(op, f"aten.{name}.Tensor", f"aten.{name}.{scalar}", left, swapped))


_both("add", "add", "aten.add.Tensor", swapped=True)
_both("multiply", "mul", "aten.mul.Tensor", swapped=True)
_both("subtract", "sub", "aten.rsub.Scalar", swapped=True)
_both("divide", "div")
for _op, _name in (
    ("equal", "eq"), ("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"), ("greater", "gt"),
    ("greater_equal", "ge"), ("bitwise_and", "bitwise_and"), ("bitwise_or", "bitwise_or"),
    ("bitwise_xor", "bitwise_xor"), ("floor_mod", "remainder"),
):  # fmt: skip
    _both(_op, _name, scalar="Scalar")
binary(Binary("power", "aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar"))
for _op, _name in (
    ("maximum", "maximum"), ("minimum", "minimum"),
    ("logical_and", "logical_and"), ("logical_or", "logical_or"), ("logical_xor", "logical_xor"),
):  # fmt: skip
    row(f"aten.{_name}.default", _op, TENSOR, TENSOR)
for _name in ("add", "mul", "sub", "div"):
    _READERS[f"aten.{_name}.Scalar"] = _READERS[f"aten.{_name}.Tensor"]
for _name in ("max", "min"):
    _READERS[f"aten.{_name}.other"] = _READERS[f"aten.{_name}imum.default"]
_READERS["aten.__and__.Tensor"] = _READERS["aten.bitwise_and.Tensor"]
_READERS["aten.__or__.Tensor"] = _READERS["aten.bitwise_or.Tensor"]

# ---- products


def _of_ranks(*ranks: int) -> Callable[[Call, Written], bool]:
    return lambda call, written: [written.rank(arg) for arg in call.args] == list(ranks)


def _same_batch(call: Call, written: Written) -> bool:
    types = [written.type(arg) for arg in call.args]
    shapes = [ty.shape for ty in types if ty is not None]
    return len(shapes) == 2 and all(len(shape) == 3 for shape in shapes) and shapes[0][0] == shapes[1][0]


row("aten.mm.default", "nn.matmul", TENSOR, TENSOR, when=_of_ranks(2, 2))
row("aten.bmm.default", "nn.batch_matmul", TENSOR, TENSOR, given={"transpose_b": False}, when=_same_batch)
row("aten.matmul.default", "nn.matmul", TENSOR, TENSOR, composite=True)

# ---- shapes

row("aten.permute.default", "transpose", TENSOR, axes("axes"))
row("aten.unsqueeze.default", "expand_dims", TENSOR, Attribute("axis", lambda value, rank: value % (rank + 1)))
row("aten.squeeze.dims", "squeeze", TENSOR, axes("axis"))
row("aten.squeeze.dim", "squeeze", TENSOR, axes("axis"))
row("aten.repeat.default", "tile", TENSOR, repeats("reps"))
row("aten.gather.default", "gather", TENSOR, axis("axis"), TENSOR)
row(
    "aten.embedding.default", "take", TENSOR, TENSOR, given={"axis": 0, "mode": "fast"},
    when=lambda call, written: written.rank(call.args[0]) == 2,
)  # fmt: skip
row(
    "aten.index_select.default", "take", TENSOR, axis("axis"), TENSOR, given={"mode": "fast"},
    when=lambda call, written: written.rank(call.args[1]) == 1,
)  # fmt: skip

# ---- reductions and normalizations

for _name, _op in (("mean.dim", "mean"), ("sum.dim_IntList", "sum")):
    row(f"aten.{_name}", _op, TENSOR, axes("axis"), attribute("keepdims"))
for _name, _op in (("amax.default", "max"), ("amin.default", "min")):
    row(f"aten.{_name}", _op, TENSOR, axes("axis"), attribute("keepdims"))
for _name in ("any", "all"):
    for _overload, _read in (("dim", one_axis), ("dims", axes)):
        row(f"aten.{_name}.{_overload}", _name, TENSOR, _read("axis"), attribute("keepdims"))
row("aten._softmax.default", "nn.softmax", TENSOR, axis("axis"), Fixed(False))
row("aten._log_softmax.default", "nn.log_softmax", TENSOR, axis("axis"), Fixed(False))
row("aten.softmax.int", "nn.softmax", TENSOR, axis("axis"), composite=True)
row("aten.log_softmax.int", "nn.log_softmax", TENSOR, axis("axis"), composite=True)

# ---- windows

row(
    "aten.avg_pool2d.default", "nn.avg_pool2d", TENSOR, numbers("pool_size", 2), numbers("strides", 2, "pool_size"),
    numbers("padding", 2), attribute("ceil_mode"), attribute("count_include_pad"),
)  # fmt: skip
for _name, _more in (
    ("aten.max_pool2d.default", {"composite": True}),
    ("aten.max_pool2d_with_indices.default", {"output": 0}),
):
    row(
        _name, "nn.max_pool2d", TENSOR, numbers("pool_size", 2), numbers("strides", 2, "pool_size"),
        numbers("padding", 2), numbers("dilation", 2), attribute("ceil_mode"), **_more,
    )  # fmt: skip
row("aten.adaptive_avg_pool2d.default", "nn.adaptive_avg_pool2d", TENSOR, numbers("output_size", 2), composite=True)
row("aten._adaptive_avg_pool2d.default", "nn.adaptive_avg_pool2d", TENSOR, numbers("output_size", 2))
