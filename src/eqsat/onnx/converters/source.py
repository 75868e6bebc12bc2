"""Reading one ONNX node: what importers see of it, and the table of importers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeAlias

import numpy as np
import onnx_ir as ir
from onnx import defs

from eqsat.relay.elements import Elements
from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.op.op import Field, make_attrs
from eqsat.relay.ty import Dim, TensorType, Type, is_static

OLDEST_OPSET = 7
"""Before it, broadcasting and batch normalisation meant other things: nothing older is understood."""


class Declined(Exception):
    """The node cannot be said exactly in the IR; the text says why.

    Args:
        reason: the text.
        types: of its outputs, where they are known better than from ONNX's own inference.
    """

    def __init__(self, reason: str, types: Sequence[Type] | None = None):
        super().__init__(reason)
        self.types = types


Result: TypeAlias = Expr | Sequence[Expr]
Importer: TypeAlias = Callable[["Source"], Result]

_IMPORTERS: dict[str, Importer] = {}


def imports(*op_types: str) -> Callable[[Importer], Importer]:
    """Register the importer of ONNX operators of the standard domain."""

    def register(importer: Importer) -> Importer:
        for op_type in op_types:
            _IMPORTERS[op_type] = importer
        return importer

    return register


def importer_of(op_type: str) -> Importer | None:
    """The importer of an ONNX operator, None when it has none."""
    return _IMPORTERS.get(op_type)


@cache
def is_standard(op_type: str, opset: int) -> bool:
    """Whether the standard operators of an opset include ``op_type``."""
    return bool(defs.has(op_type, max_inclusive_version=opset))


def build(name: str, *args: Expr, **attrs: Any) -> Call:
    """A call of operator ``name``."""
    op = Op.get(name)
    return Call(op, args, make_attrs(op, attrs))


_KINDS = {
    "bool": ir.AttributeType.INT,
    "float": ir.AttributeType.FLOAT,
    "int": ir.AttributeType.INT,
    "ints": ir.AttributeType.INTS,
    "str": ir.AttributeType.STRING,
}


class Source:
    """One ONNX node with the expressions of its inputs.

    Reading is checked: an attribute that the importer did not ask for, an input that it did not take, or an
    output that it did not give, and that something uses, makes the node decline.

    Args:
        node: the node.
        inputs: the expression of each input, None for those left out.
        types: type of each expression.
        elements: what is known of integers among them.
        opset: version of the standard operators.
    """

    def __init__(
        self,
        node: ir.Node,
        inputs: Sequence[Expr | None],
        types: Mapping[Expr, Type],
        elements: Elements,
        opset: int,
    ):
        self.node = node
        self.inputs = inputs
        self.types = types
        self.elements = elements
        self.opset = opset
        self._read: set[str] = set()

    @property
    def op_type(self) -> str:
        return str(self.node.op_type)

    def decline(self, reason: str) -> NoReturn:
        """Leave the node as it is, for ``reason``."""
        raise Declined(reason)

    def require(self, condition: object, reason: str) -> None:
        """Decline unless ``condition`` holds."""
        if not condition:
            raise Declined(reason)

    # ---- inputs and outputs

    def arguments(self, count: int) -> list[Expr]:
        """All inputs, which must be ``count`` and there."""
        given = [expr for expr in self.inputs if expr is not None]
        self.require(len(given) == len(self.inputs) == count, f"it has other than {count} inputs")
        return given

    def optional(self, least: int, most: int) -> list[Any]:
        """The inputs, filled up with None to ``most``; the first ``least`` must be there."""
        padded = [*self.inputs, *[None] * (most - len(self.inputs))]
        self.require(len(padded) == most and None not in padded[:least], f"it has not {least} to {most} inputs")
        return padded

    def used_outputs(self) -> int:
        """How many outputs there are, up to the last one that something uses."""
        outputs = self.node.outputs
        if len(outputs) == 1:
            return 1
        used = [index for index, value in enumerate(outputs) if value.uses() or value.is_graph_output()]
        return used[-1] + 1 if used else 1

    # ---- types and values

    def type(self, expr: Expr) -> TensorType:
        """The type of a tensor; declines when it is not known."""
        ty = self.types[expr]
        if not isinstance(ty, TensorType):
            raise Declined("the type of an input is not known")
        return ty

    def rank(self, expr: Expr) -> int:
        """Number of dimensions; declines when it is not known."""
        return len(self.type(expr).shape)

    def static_shape(self, expr: Expr) -> tuple[int, ...]:
        """The shape; declines unless all of it is known."""
        ty = self.type(expr)
        if not is_static(ty):
            raise Declined("the shape of an input is not known")
        return ty.concrete_shape

    def array(self, expr: Expr) -> np.ndarray[Any, Any]:
        """The value of a constant; declines when it is none."""
        if not isinstance(expr, Constant):
            raise Declined("an input is not constant")
        return expr.data.numpy()

    def scalar(self, expr: Expr) -> Any:
        """The value of a constant of one element, as a Python number."""
        values = self.array(expr)
        self.require(values.size == 1, "an input is not one number")
        return values.reshape(-1)[0].item()

    def integers(self, expr: Expr) -> tuple[int, ...]:
        """The values of a constant list of integers."""
        values = self.array(expr)
        self.require(values.dtype.kind in "iu" and values.ndim <= 1, "an input is not a list of integers")
        return tuple(values.reshape(-1).tolist())

    def sizes(self, expr: Expr) -> tuple[Dim, ...]:
        """The elements of a list of integers, as far as they are known; declines when nothing is."""
        found = self.elements.sizes(expr)
        if found is None:
            raise Declined("nothing is known of an input")
        return found

    # ---- attributes

    def _attribute(self, name: str, kind: ir.AttributeType, default: Any) -> Any:
        self._read.add(name)
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        self.require(not attr.is_ref() and attr.type == kind, f"attribute {name} is of an unusual kind")
        return attr.value

    def ints_of(self, name: str, index: int, since: int) -> Any:
        """A list of integers that is attribute ``name`` before opset ``since`` and input ``index`` from then on."""
        if self.opset < since:
            return self.ints(name)
        expr = self.inputs[index] if index < len(self.inputs) else None
        return None if expr is None else self.integers(expr)

    def int(self, name: str, default: Any = None) -> Any:
        return self._attribute(name, ir.AttributeType.INT, default)

    def ints(self, name: str, default: Any = None) -> Any:
        return self._attribute(name, ir.AttributeType.INTS, default)

    def float(self, name: str, default: Any = None) -> Any:
        return self._attribute(name, ir.AttributeType.FLOAT, default)

    def floats(self, name: str) -> Any:
        return self._attribute(name, ir.AttributeType.FLOATS, None)

    def string(self, name: str, default: Any = None) -> Any:
        return self._attribute(name, ir.AttributeType.STRING, default)

    def field(self, field: Field) -> Any:
        """The attribute that an operator's field is, or its default."""
        return self._attribute(field.name, _KINDS[field.kind], field.default)

    def tensor(self, name: str) -> Any:
        """The value of a tensor attribute, None without it."""
        found = self._attribute(name, ir.AttributeType.TENSOR, None)
        return None if found is None else found.numpy()

    def ignore(self, *names: str) -> None:
        """Note that attributes say nothing that matters to inference."""
        self._read.update(names)

    def check_read(self) -> None:
        """Decline when an attribute was not read."""
        for name in self.node.attributes.data:
            self.require(name in self._read, f"attribute {name} is not understood")
