"""Reading one ONNX node: what an importer sees of it, and the table of importers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnx_ir as ir

from eqsat.egraph.rule import Soundness
from eqsat.onnx.schemas import input_names, schema_of
from eqsat.relay.elements import Elements
from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.known_sizes import KnownSizes
from eqsat.relay.op.op import Field, make_attrs
from eqsat.relay.ty import Dim, TensorType, Type, is_static

OLDEST_OPSET = 7
"""The oldest opset that is read. Before it, broadcasting and batch normalization were defined differently."""


class Declined(Exception):
    """Raised by an importer when the IR has no exact equivalent of a node.

    Args:
        reason: Why there is none.
        types: The types of the node's outputs, if they are known better than from ONNX's own inference.
    """

    def __init__(self, reason: str, types: Sequence[Type] | None = None):
        super().__init__(reason)
        self.types = types


Result: TypeAlias = Expr | Sequence[Expr]
Importer: TypeAlias = Callable[["Source"], Result]
Definer: TypeAlias = Callable[["Source"], "Expr | Sequence[Expr | None]"]

_IMPORTERS: dict[str, Importer] = {}


@dataclass(frozen=True)
class DefinedOperator:
    """An operator that has a definition; the fields are the arguments of :func:`defines`."""

    definer: Definer
    soundness: Soundness
    rewrites: bool


_DEFINERS: dict[tuple[str, str], DefinedOperator] = {}


_Importer = TypeVar("_Importer", bound=Importer)


def imports(*op_types: str) -> Callable[[_Importer], _Importer]:
    """Return a decorator that registers the importer of some operators of ONNX's standard domain."""

    def register(importer: _Importer) -> _Importer:
        for op_type in op_types:
            _IMPORTERS[op_type] = importer
        return importer

    return register


def importer_of(op_type: str) -> Importer | None:
    """Return the importer of an ONNX operator of the standard domain, or None if it has none."""
    return _IMPORTERS.get(op_type)


def defines(
    *op_types: str, domain: str, soundness: Soundness = Soundness.ROUNDING, rewrites: bool = True
) -> Callable[[Definer], Definer]:
    """Return a decorator that registers what defines some operators that stay one node: what they compute, in the IR.

    Args:
        op_types: The operators.
        domain: Their domain.
        soundness: How equal the definition is to what runtimes compute, if the definer does not say otherwise.
        rewrites: Whether nodes may be replaced by the definition. If not, it only tells types and values.
    """

    def register(definer: Definer) -> Definer:
        for op_type in op_types:
            _DEFINERS[domain, op_type] = DefinedOperator(definer, soundness, rewrites)
        return definer

    return register


def definer_of(domain: str, op_type: str) -> DefinedOperator | None:
    """Return what defines an operator, or None where it has no definition."""
    return _DEFINERS.get((domain, op_type))


def build(name: str, *args: Expr, **attrs: Any) -> Call:
    """Return a call of the operator ``name``."""
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
    """One ONNX node, together with the expressions of its inputs.

    An import is exact or does not take place: the node is declined if it has an attribute or an input that the
    importer did not read, or an output that is used and that the importer did not return.

    Args:
        node: The node.
        inputs: The expression of each input, or None for an input that is left out.
        types: The type of each expression.
        elements: The elements of small integer tensors among the expressions, as far as they are known.
        opset: The version of the standard operators.
        known: What computes sizes that have names; None where nothing is to be computed beside the node.
    """

    def __init__(
        self,
        node: ir.Node,
        inputs: Sequence[Expr | None],
        types: Mapping[Expr, Type],
        elements: Elements,
        opset: int,
        known: KnownSizes | None = None,
    ):
        self.node = node
        self.inputs = inputs
        self.types = types
        self.elements = elements
        self.opset = opset
        self.known = known
        self._read: set[str] = set()
        self.is_rounded = False

    def rounds(self) -> None:
        """Note that what defines the node rounds otherwise than the node may."""
        self.is_rounded = True

    def over(self, inputs: Sequence[Expr | None]) -> Source:
        """Return the same node over other inputs; what is read of either counts for both."""
        other = Source(self.node, inputs, self.types, self.elements, self.opset, self.known)
        other._read = self._read
        return other

    @property
    def _input_names(self) -> tuple[str, ...]:
        return input_names(self.op_type, self.opset) if self.node.domain == "" else ()

    @property
    def op_type(self) -> str:
        return str(self.node.op_type)

    def require(self, condition: object, reason: str) -> None:
        """Decline unless ``condition`` holds."""
        if not condition:
            raise Declined(reason)

    # ---- inputs and outputs

    def arguments(self, count: int) -> list[Expr]:
        """Return the inputs; decline unless there are ``count`` of them and none is left out."""
        given = [expr for expr in self.inputs if expr is not None]
        self.require(len(given) == len(self.inputs) == count, f"it has other than {count} inputs")
        return given

    def optional(self, least: int, most: int) -> list[Any]:
        """Return ``most`` inputs, with None for those that are left out; decline if one of the first ``least`` is."""
        padded = [*self.inputs, *[None] * (most - len(self.inputs))]
        known = len(self._input_names) or most
        fits = len(self.inputs) <= known and len(padded) == most and None not in padded[:least]
        self.require(fits, f"it has not {least} to {most} inputs")
        return padded

    def used_outputs(self) -> int:
        """Return the number of outputs up to and including the last one that is used."""
        outputs = self.node.outputs
        if len(outputs) == 1:
            return 1
        used = [index for index, value in enumerate(outputs) if value.uses() or value.is_graph_output()]
        return used[-1] + 1 if used else 1

    # ---- types and values

    def type(self, expr: Expr) -> TensorType:
        """Return the type of a tensor; decline if it is not known."""
        ty = self.types[expr]
        if not isinstance(ty, TensorType):
            raise Declined("the type of an input is not known")
        return ty

    def rank(self, expr: Expr) -> int:
        """Return the number of dimensions; decline if it is not known."""
        return len(self.type(expr).shape)

    def static_shape(self, expr: Expr) -> tuple[int, ...]:
        """Return the shape; decline unless all dimensions are known."""
        ty = self.type(expr)
        if not is_static(ty):
            raise Declined("the shape of an input is not known")
        return ty.concrete_shape

    def array(self, expr: Expr) -> np.ndarray[Any, Any]:
        """Return the value of a constant; decline if the expression is not one."""
        if not isinstance(expr, Constant):
            raise Declined("an input is not constant")
        return expr.data.numpy()

    def scalar(self, expr: Expr) -> Any:
        """Return the value of a constant of one element as a Python number; decline other expressions."""
        values = self.array(expr)
        self.require(values.size == 1, "an input is not one number")
        return values.reshape(-1)[0].item()

    def integers(self, expr: Expr) -> tuple[int, ...]:
        """Return the elements of a constant list of integers; decline other expressions."""
        values = self.array(expr)
        self.require(values.dtype.kind in "iu" and values.ndim <= 1, "an input is not a list of integers")
        return tuple(values.reshape(-1).tolist())

    def sizes(self, expr: Expr) -> tuple[Dim, ...]:
        """Return the elements of a list of integers as far as they are known; decline if nothing is known."""
        found = self.elements.sizes(expr)
        if found is None:
            raise Declined("nothing is known of an input")
        return found

    def computed_sizes(self, dims: Sequence[Dim]) -> Expr | None:
        """Return what computes a list of sizes from the inputs of the graph; None where nothing does."""
        return None if self.known is None else self.known.computed(dims)

    # ---- attributes

    def _attribute(self, name: str, kind: ir.AttributeType, default: Any) -> Any:
        self._read.add(name)
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        self.require(not attr.is_ref() and attr.type == kind, f"attribute {name} is of an unusual kind")
        return attr.value

    def int(self, name: str, default: Any = None) -> Any:
        return self._attribute(name, ir.AttributeType.INT, default)

    def ints(self, name: str) -> Any:
        """Return a list: of an attribute, or of the constant input that it is in newer opsets."""
        return self._given(name, self.integers, ir.AttributeType.INTS, None)

    def float(self, name: str, default: Any = None) -> Any:
        """Return a number: an attribute, or the constant input that it is in newer opsets."""
        return self._given(name, self.scalar, ir.AttributeType.FLOAT, default)

    def _given(self, name: str, read: Callable[[Expr], Any], kind: ir.AttributeType, default: Any) -> Any:
        names = self._input_names
        if name not in names:
            return self._attribute(name, kind, default)
        expr = next(islice(self.inputs, names.index(name), None), None)
        return default if expr is None else read(expr)

    def floats(self, name: str) -> Any:
        return self._attribute(name, ir.AttributeType.FLOATS, None)

    def string(self, name: str, default: Any = None) -> Any:
        return self._attribute(name, ir.AttributeType.STRING, default)

    def strings(self, name: str) -> Any:
        return self._attribute(name, ir.AttributeType.STRINGS, None)

    def field(self, field: Field) -> Any:
        """Return the attribute that has the name and kind of an operator's field, or ONNX's default, or the field's."""
        schema = schema_of(self.op_type, self.opset)
        if schema is None or field.name not in schema.defaults:
            return field.default
        default = schema.defaults[field.name]
        return self._attribute(field.name, _KINDS[field.kind], field.default if default is None else default)

    def tensor(self, name: str) -> Any:
        """Return the value of a tensor attribute, or None if the node does not have it."""
        found = self._attribute(name, ir.AttributeType.TENSOR, None)
        return None if found is None else found.numpy()

    def ignore(self, *names: str) -> None:
        """Mark attributes as read that make no difference to the results."""
        self._read.update(names)

    def check_read(self) -> None:
        """Decline if there is an attribute that was not read."""
        for name in self.node.attributes.data:
            self.require(name in self._read, f"attribute {name} is not understood")
