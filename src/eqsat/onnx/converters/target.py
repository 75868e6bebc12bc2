"""Writing ONNX nodes: what exporters see and give, and how the registry spells an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from onnx import defs

from eqsat.errors import ModelError
from eqsat.onnx.converters.source import is_standard
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.op.types import axes_indices, axis_index
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, Type

Operand: TypeAlias = "Expr | np.ndarray[Any, Any] | OnnxNode | None"


@dataclass
class OnnxNode:
    """One ONNX node to write.

    Args:
        op_type: its type.
        inputs: expressions, arrays (written as initializers), nodes of which to take the first output, or
            None for an input left out.
        attributes: Python values and arrays, of which those that are None are left out; or a function from the
            values of ``captured`` to ONNX attributes.
        domain: the operator's domain.
        overload: which overload of a local function.
        outputs: how many outputs it has.
        captured: expressions that its subgraphs use.
        same: outputs of the call that are not computed but equal to an expression, by index.
    """

    op_type: str
    inputs: Sequence[Operand]
    attributes: Mapping[str, Any] | Callable[[Sequence[ir.Value]], Sequence[ir.Attr]] = field(default_factory=dict)
    domain: str = ""
    overload: str = ""
    outputs: int = 1
    captured: Sequence[Expr] = ()
    same: Mapping[int, Expr] = field(default_factory=dict)


Exporter: TypeAlias = Callable[[Call, "Target"], OnnxNode | Expr]


_EXPORTERS: dict[str, Exporter] = {}


def exports(*names: str) -> Callable[[Exporter], Exporter]:
    """Register the exporter of operators of the IR.

    Raises:
        OperatorError: there is no operator of one of these names.
    """

    def register(exporter: Exporter) -> Exporter:
        for name in names:
            _EXPORTERS[Op.get(name).name] = exporter
        return exporter

    return register


def exporter_of(op: Op) -> Exporter | None:
    """The exporter of an operator of the IR, None when it has none."""
    return _EXPORTERS.get(op.name)


class Target:
    """What exporters may ask of the graph they write.

    Args:
        opset: version of the standard operators.
        types: type of each expression.
        uses: how often each expression is used.
    """

    def __init__(self, opset: int, types: Mapping[Expr, Type], uses: Mapping[Expr, int]):
        self.opset = opset
        self.types = types
        self.uses = uses

    def type(self, expr: Expr) -> TensorType:
        """The type of a tensor; raises ModelError when it is not known."""
        ty = self.types.get(expr)
        if not isinstance(ty, TensorType):
            raise ModelError(f"cannot write a {_name(expr)} to ONNX: its type is not known")
        return ty

    def rank(self, expr: Expr) -> int:
        """Number of dimensions."""
        return len(self.type(expr).shape)

    def known_rank(self, expr: Expr) -> int | None:
        """Number of dimensions, None when it is not known."""
        ty = self.types.get(expr)
        return len(ty.shape) if isinstance(ty, TensorType) else None

    def made_by(self, expr: Expr, *names: str) -> Call | None:
        """``expr`` as a call of one of the operators ``names``, else None."""
        return expr if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names else None

    def call(self, expr: Expr, *names: str) -> Call | None:
        """``expr`` as a call of one of the operators ``names`` that nothing else uses, else None."""
        call = self.made_by(expr, *names)
        return call if call is not None and self.uses[call] == 1 else None

    def axes(self, axes: Sequence[int], data: Expr) -> list[int]:
        """Axes counted from the front where opsets before 11 want them so."""
        return list(axes) if self.opset >= 11 else list(axes_indices(axes, self.rank(data)))

    def axis(self, axis: int, data: Expr) -> int:
        """An axis of ``data``, counted from the front where opsets before 11 want it so."""
        return axis if self.opset >= 11 else axis_index(axis, self.rank(data))

    def fields(self, expr: Expr) -> Sequence[Expr]:
        """The fields of a tuple argument."""
        if not isinstance(expr, Tuple):
            raise ModelError(f"cannot write to ONNX: a list of tensors is made by {_name(expr)}")
        return expr.fields

    def along_axis(self, vector: Expr, axis: int, rank: int) -> Operand:
        """A vector laid out to broadcast along ``axis`` of ``rank`` dimensions."""
        after = rank - 1 - axis
        if after == 0:
            return vector
        if isinstance(vector, Constant):
            return vector.data.numpy().reshape(-1, *(1,) * after)
        return self.unsqueezed(vector, range(1, 1 + after))

    def unsqueezed(self, data: Expr, axes: Sequence[int]) -> OnnxNode:
        """``data`` with dimensions of 1 at ``axes`` of the result."""
        if self.opset < 13:
            return OnnxNode("Unsqueeze", [data], {"axes": list(axes)})
        return OnnxNode("Unsqueeze", [data, self.integers(axes)])

    def transposed(self, data: Expr, order: Sequence[int]) -> Operand:
        """``data`` with its dimensions in another order; computed here when it is a constant."""
        if isinstance(data, Constant):
            return np.asarray(data.data.numpy().transpose(order), order="C")
        return OnnxNode("Transpose", [data], {"perm": list(order)})

    def integers(self, values: Sequence[int]) -> np.ndarray[Any, Any]:
        """A list of integers as an input; raises ModelError when one is larger than they can be there."""
        try:
            return np.asarray(list(values), np.int64)
        except OverflowError:
            raise ModelError(f"cannot write {list(values)} to ONNX: integers have 64 bits") from None

    def dims(self, shape: Sequence[Any]) -> list[int]:
        """A shape as ints; raises ModelError when a dimension is not known."""
        if any(isinstance(dim, AnyDim) for dim in shape):
            raise ModelError(f"cannot write shape {tuple(shape)} to ONNX: a dimension is not known")
        return [int(dim) for dim in shape]

    def has(self, op_type: str) -> bool:
        """Whether the standard operators of this opset include ``op_type``."""
        return is_standard(op_type, self.opset)

    def unwritable(self, call: Call, why: str) -> ModelError:
        """The error that ``call`` has no ONNX form."""
        return ModelError(f"cannot write {_name(call)} to ONNX opset {self.opset}: {why}")


@cache
def input_names(op_type: str, opset: int) -> tuple[str, ...]:
    """What an operator of an opset calls its inputs; none where there is no such operator."""
    if not is_standard(op_type, opset):
        return ()
    return tuple(each.name for each in defs.get_schema(op_type, opset).inputs)


def expressions(node: OnnxNode) -> Iterator[Expr]:
    """The expressions that a node, or a node it is made of, takes in."""
    operands: list[Operand] = [*reversed(node.captured), *reversed(node.inputs)]
    while operands:
        operand = operands.pop()
        if isinstance(operand, OnnxNode):
            operands += reversed(operand.inputs)
        elif isinstance(operand, Expr):
            yield operand


def attributes(call: Call) -> Any:
    """The attributes of a call that has some."""
    return call.attrs


def op_name(call: Call) -> str:
    """The name of the operator that ``call`` applies."""
    return call.op.name if isinstance(call.op, Op) else type(call.op).__name__


def constant_value(expr: Expr) -> np.ndarray[Any, Any] | None:
    """The value of a constant of at most one element, None of anything else."""
    if isinstance(expr, Constant) and expr.data.size == 1:
        return expr.data.numpy()
    return None


def _name(expr: Expr) -> str:
    if isinstance(expr, TupleGetItem):
        return f"output {expr.index} of {_name(expr.tuple_value)}"
    return op_name(expr) if isinstance(expr, Call) else type(expr).__name__


def as_attribute(name: str, value: Any) -> ir.Attr:
    """An ONNX attribute of a Python value or array."""
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, ir.Tensor(value))
    kind = None
    if isinstance(value, (list, tuple)) and value:  # of other sequences the type is found out slowly
        kinds = {type(each) for each in value}
        kind = _SEQUENCES.get(kinds.pop()) if len(kinds) == 1 else None
    attribute: ir.Attr = ir.convenience.convert_attribute(name, value, kind)
    return attribute


_SEQUENCES = {int: ir.AttributeType.INTS, float: ir.AttributeType.FLOATS, str: ir.AttributeType.STRINGS}
