"""Writing ONNX nodes: what an exporter sees and returns, and the table of exporters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from eqsat.errors import ModelError
from eqsat.onnx.schemas import input_names, schema_of
from eqsat.onnx.types import element_type
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.op.types import axes_indices, axis_index
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, Type

Operand: TypeAlias = "Expr | np.ndarray[Any, Any] | OnnxNode | None"


@dataclass
class OnnxNode:
    """One ONNX node that is to be written.

    Attributes:
        op_type: its type.
        inputs: expressions, arrays (written as initializers), nodes of which to take the first output, or
            None for an input left out.
        attributes: Python values and arrays, of which those that are None are left out; or a function from the
            values of ``captured`` to ONNX attributes.
        domain: the operator's domain.
        overload: which overload of a local function.
        outputs: how many outputs it has.
        optional_outputs: whether outputs that nothing uses are left out.
        captured: expressions that its subgraphs use.
        same: outputs of the call that are not computed but equal to an expression, by index.
    """

    op_type: str
    inputs: Sequence[Operand]
    attributes: Mapping[str, Any] | Callable[[Sequence[ir.Value]], Sequence[ir.Attr]] = field(default_factory=dict)
    domain: str = ""
    overload: str = ""
    outputs: int = 1
    optional_outputs: bool = False
    captured: Sequence[Expr] = ()
    same: Mapping[int, Expr] = field(default_factory=dict)

    @property
    def plain_attributes(self) -> dict[str, Any]:
        """The attributes to write, where they do not depend on values."""
        given = {} if callable(self.attributes) else self.attributes
        return {name: value for name, value in given.items() if value is not None}

    @property
    def attribute_keys(self) -> Hashable:
        """What is equal for equal plain attributes."""
        return tuple([(name, _key(value)) for name, value in self.plain_attributes.items()])


def _key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tobytes()
    return tuple(value) if isinstance(value, list) else value


Exporter: TypeAlias = Callable[[Call, "Target"], OnnxNode | Expr]


_EXPORTERS: dict[str, Exporter] = {}


def exports(*names: str) -> Callable[[Exporter], Exporter]:
    """Return a decorator that registers the exporter of some operators of the IR.

    Raises:
        OperatorError: One of the names is not that of an operator.
    """

    def register(exporter: Exporter) -> Exporter:
        for name in names:
            _EXPORTERS[Op.get(name).name] = exporter
        return exporter

    return register


def exporter_of(op: Op) -> Exporter | None:
    """Return the exporter of an operator of the IR, or None if it has none."""
    return _EXPORTERS.get(op.name)


@dataclass
class Target:
    """What an exporter can ask about the graph that is written.

    Args:
        opset: The version of the standard operators.
        types: The type of each expression.
        uses: The number of uses of each expression.
    """

    opset: int
    types: Mapping[Expr, Type]
    uses: Mapping[Expr, int]

    def type(self, expr: Expr) -> TensorType:
        """Return the type of a tensor; raise ModelError if it is not known."""
        ty = self.types.get(expr)
        if not isinstance(ty, TensorType):
            raise ModelError(f"cannot write a {_name(expr)} to ONNX: its type is not known")
        return ty

    def rank(self, expr: Expr) -> int:
        """Return the number of dimensions; raise ModelError if it is not known."""
        return len(self.type(expr).shape)

    def known_rank(self, expr: Expr) -> int | None:
        """Return the number of dimensions, or None if it is not known."""
        ty = self.types.get(expr)
        return len(ty.shape) if isinstance(ty, TensorType) else None

    def made_by(self, expr: Expr, *names: str) -> Call | None:
        """Return ``expr`` if it is a call of one of the operators ``names``, else None."""
        return expr if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names else None

    def call(self, expr: Expr, *names: str) -> Call | None:
        """Return ``expr`` if it is a call of one of the operators ``names`` and used only once, else None."""
        call = self.made_by(expr, *names)
        return call if call is not None and self.uses[call] == 1 else None

    def axes(self, axes: Sequence[int], data: Expr) -> list[int]:
        """Return axes of ``data``, counted from the front if the opset, being older than 11, requires it."""
        return list(axes) if self.opset >= 11 else list(axes_indices(axes, self.rank(data)))

    def axis(self, axis: int, data: Expr) -> int:
        """Return an axis of ``data``, counted from the front if the opset, being older than 11, requires it."""
        return axis if self.opset >= 11 else axis_index(axis, self.rank(data))

    def fields(self, expr: Expr) -> Sequence[Expr]:
        """Return the fields of a tuple argument; raise ModelError if it is not written as a tuple."""
        if not isinstance(expr, Tuple):
            raise ModelError(f"cannot write to ONNX: a list of tensors is made by {_name(expr)}")
        return expr.fields

    def node(self, op_type: str, data: Operand, said: Mapping[str, Any], outputs: int = 1) -> OnnxNode:
        """Return a node over ``data`` whose other inputs, lists of integers, are attributes in older opsets.

        Args:
            op_type: its type.
            data: its first input.
            said: what it says beside that: values by name, in the order of the inputs.
            outputs: how many outputs it has.
        """
        names = input_names(op_type, self.opset)
        inputs = [said[name] for name in names if name in said]
        lists = [self.integers(each) if isinstance(each, (list, tuple)) else each for each in inputs]
        attributes = {name: value for name, value in said.items() if name not in names}
        return OnnxNode(op_type, [data, *lists], attributes, outputs=outputs)

    def along_axis(self, vector: Expr, axis: int, rank: int) -> Operand:
        """Return a vector in the shape that broadcasts along ``axis`` of a tensor of ``rank`` dimensions."""
        after = rank - 1 - axis
        if after == 0:
            return vector
        if isinstance(vector, Constant):
            return vector.data.numpy().reshape(-1, *(1,) * after)
        return self.unsqueezed(vector, range(1, 1 + after))

    def unsqueezed(self, data: Expr, axes: Sequence[int]) -> OnnxNode:
        """Return a node that inserts dimensions of 1 into ``data``, at ``axes`` of the result."""
        return self.node("Unsqueeze", data, {"axes": list(axes)})

    def transposed(self, data: Expr, order: Sequence[int]) -> Operand:
        """Return ``data`` with its dimensions in another order, as an array if it is a constant."""
        if isinstance(data, Constant):
            return np.asarray(data.data.numpy().transpose(order), order="C")
        return OnnxNode("Transpose", [data], {"perm": list(order)})

    def integers(self, values: Sequence[int]) -> np.ndarray[Any, Any]:
        """Return a list of integers as an int64 array; raise ModelError if one does not fit into 64 bits."""
        try:
            return np.asarray(list(values), np.int64)
        except OverflowError:
            raise ModelError(f"cannot write {list(values)} to ONNX: integers have 64 bits") from None

    def dims(self, shape: Sequence[Any]) -> list[int]:
        """Return a shape as ints; raise ModelError if a dimension is not known."""
        if any(isinstance(dim, AnyDim) for dim in shape):
            raise ModelError(f"cannot write shape {tuple(shape)} to ONNX: a dimension is not known")
        return [int(dim) for dim in shape]

    def has(self, op_type: str) -> bool:
        """Return whether the standard operators of this opset include ``op_type``."""
        return schema_of(op_type, self.opset) is not None

    def require(self, condition: object, call: Call, why: str) -> None:
        """Raise the error of :meth:`unwritable` unless ``condition`` holds."""
        if not condition:
            raise self.unwritable(call, why)

    def unwritable(self, call: Call, why: str) -> ModelError:
        """Return the error that says that ``call`` has no ONNX form, and why."""
        return ModelError(f"cannot write {_name(call)} to ONNX opset {self.opset}: {why}")


def expressions(node: OnnxNode) -> Iterator[Expr]:
    """Yield the expressions among the inputs of a node and of the nodes among its inputs."""
    operands: list[Operand] = [*reversed(node.captured), *reversed(node.inputs)]
    while operands:
        operand = operands.pop()
        if isinstance(operand, OnnxNode):
            operands += reversed(operand.inputs)
        elif isinstance(operand, Expr):
            yield operand


def cast(data: Operand, dtype: str) -> OnnxNode:
    """Return a node that converts the elements of ``data``."""
    return OnnxNode("Cast", [data], {"to": element_type(dtype).value})


def attributes(call: Call) -> Any:
    """Return the attributes of a call that has some."""
    return call.attrs


def op_name(call: Call) -> str:
    """Return the name of the operator that is called, or the class of a callee that is not an operator."""
    return call.op.name if isinstance(call.op, Op) else type(call.op).__name__


def constant_value(expr: Expr) -> np.ndarray[Any, Any] | None:
    """Return the value of a constant of one element, or None for any other expression."""
    if isinstance(expr, Constant) and expr.data.size == 1:
        return expr.data.numpy()
    return None


def _name(expr: Expr) -> str:
    if isinstance(expr, TupleGetItem):
        return f"output {expr.index} of {_name(expr.tuple_value)}"
    return op_name(expr) if isinstance(expr, Call) else type(expr).__name__


def as_attribute(name: str, value: Any) -> ir.Attr:
    """Return the ONNX attribute that holds a Python value or an array."""
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, ir.Tensor(value))
    kind = None
    if isinstance(value, (list, tuple)) and value:  # of other sequences the type is found out slowly
        kinds = {type(each) for each in value}
        kind = _kind_of(kinds.pop()) if len(kinds) == 1 else None
    attribute: ir.Attr = ir.convenience.convert_attribute(name, value, kind)
    return attribute


def _kind_of(element: type) -> ir.AttributeType | None:
    """The type of an attribute that is a sequence of such elements; None if they are no numbers and no text."""
    return next((kind for base, kind in _SEQUENCES.items() if issubclass(element, base)), None)


_SEQUENCES = {int: ir.AttributeType.INTS, float: ir.AttributeType.FLOATS, str: ir.AttributeType.STRINGS}
