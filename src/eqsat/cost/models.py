"""Cost models: functions that return the cost of one e-node, computed from its operator, attributes and types.

A cost model is any callable that takes a `CostNode` and returns a number. The models in this module can also be added
to each other, and multiplied by numbers or by each other: `Roofline("gpu") + 1e-12 * Storage()`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from eqsat.cost.devices import Device, load_device
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Expr, Op
from eqsat.relay.fold import nbytes
from eqsat.relay.op.op import OpPattern
from eqsat.relay.op.types import size
from eqsat.relay.traits import Trait
from eqsat.relay.ty import IncompleteType, TensorType, TupleType, Type

FREE = frozenset({"var", "constant", "tuple", "joined", "project", "function", "global"})
"""Operators of e-nodes that compute nothing."""

PARTS = frozenset({"split"})
"""Operators whose result is a part of the same bytes. Some devices copy it; those of the profiles here do not."""


@dataclass(frozen=True)
class CostNode:
    """An e-node as a cost model receives it.

    Attributes:
        op: The name of the operator or of the composite, or one of `var constant tuple project if function apply
            global`.
        attrs: The attributes of the call; None if it has none.
        arg_types, type: The types of the children and of the result; None if a type is not known.
        constant: Whether the value depends only on constants, so that it is computed before run time.
        body: The operators inside a kernel of several operators; empty for a single operator.
        arg_constant: For each child, whether its value depends only on constants; empty if that is not known.
        graph: The computation of a kernel with a body, over variables and constants; it is ignored in comparisons.
        version: The version of the format in which the node is written, such as the ONNX opset; None if that is not
            known.
    """

    op: str
    attrs: Mapping[str, Any] | None
    arg_types: tuple[Type | None, ...]
    type: Type | None
    constant: bool = False
    body: tuple[CostNode, ...] = ()
    arg_constant: tuple[bool, ...] = ()
    graph: Expr | None = field(default=None, compare=False, repr=False)
    version: int | None = None

    @property
    def runs(self) -> bool:
        """Whether the node computes anything at run time."""
        return not self.constant and self.op not in FREE


NOTHING = CostNode("tuple", None, (), None)
"""A node that computes nothing."""

CostFunction: TypeAlias = Callable[[CostNode], float]
"""The type of cost models: functions that return the cost of a node."""


class CostModel:
    """Base class of cost models that can be combined; a subclass defines the cost of one node."""

    unit: ClassVar[str] = ""
    """The unit of the cost, in the plural, such as ``bytes read and written``; empty if unknown."""

    as_it_runs: ClassVar[bool] = False
    """Whether the cost of the given graph counts all kernels that the runtime forms.

    They count even if they cost more than their nodes do separately. Otherwise the kernels with the lowest cost count.
    """

    @property
    def ties(self) -> CostFunction | None:
        """The cost model that decides between graphs of equal cost; None if there is none."""
        return None

    def __call__(self, node: CostNode) -> float:
        raise NotImplementedError

    def settle(self) -> bool:
        """Replace estimates by exact costs for all nodes requested so far; return whether any cost changed."""
        return False

    def __add__(self, other: CostFunction) -> CostModel:
        return _Combined(operator.add, self, other)

    __radd__ = __add__

    def __mul__(self, other: float | CostFunction) -> CostModel:
        return _Combined(operator.mul, self, other)

    __rmul__ = __mul__


@dataclass(frozen=True)
class _Combined(CostModel):
    combine: Callable[[float, float], float]
    left: CostFunction
    right: float | CostFunction

    def __call__(self, node: CostNode) -> float:
        right = self.right(node) if callable(self.right) else self.right
        return self.combine(self.left(node), right)

    def settle(self) -> bool:
        settled = [each.settle() for each in (self.left, self.right) if isinstance(each, CostModel)]
        return any(settled)


@dataclass(frozen=True)
class OpCount(CostModel):
    """Number of operators that run. A kernel counts as its most expensive operator; `Roofline` decides ties."""

    unit = "operators that run"

    @property
    def ties(self) -> CostFunction:
        return Roofline()

    def __call__(self, node: CostNode) -> float:
        if not node.runs:
            return 0.0
        if node.body:
            return max(map(self, node.body))
        return 1.0


def ties_of(model: CostFunction) -> CostFunction | None:
    """Return the cost model that decides between graphs of equal cost under a model; None if there is none."""
    return model.ties if isinstance(model, CostModel) else None


def unit_of(model: CostFunction) -> str:
    """Return the unit of a cost model; an empty string if it does not declare one."""
    return model.unit if isinstance(model, CostModel) else ""


@dataclass(frozen=True)
class Bytes(CostModel):
    """Bytes read and written by operators that run; 0 for those that only reshape. Unknown sizes count as 1."""

    unit = "bytes read and written"

    def __call__(self, node: CostNode) -> float:
        return moved_bytes(node) if node.runs else 0.0


@dataclass(frozen=True)
class Flops(CostModel):
    """Floating-point operations of operators that run, by their registry entries. Unknown sizes count as 1."""

    unit = "floating-point operations"

    def __call__(self, node: CostNode) -> float:
        return flops(node) if node.runs else 0.0


@dataclass(frozen=True)
class Storage(CostModel):
    """Bytes of constants in the model file. Unlike in the other models, constants and folded expressions are not free.

    A constant costs its bytes. A node that is computed from constants costs the bytes by which its result exceeds its
    arguments.
    """

    unit = "bytes of constants"

    def __call__(self, node: CostNode) -> float:
        if node.op == "constant":
            return byte_count(node.type)
        if not node.constant or node.op in FREE:
            return 0.0
        return max(0.0, byte_count(node.type) - byte_count(*node.arg_types))


class Roofline(CostModel):
    """Estimated seconds on a device: for each operator that runs, launch + max(operations / peak, bytes / bandwidth).

    `device` is the name of a profile in :data:`eqsat.cost.devices.DEVICES`, or a `Device`. An unknown name raises
    ExtractionError.
    """

    unit = "seconds, estimated"

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = load_device(device) if isinstance(device, str) else device

    def __call__(self, node: CostNode) -> float:
        if not node.runs:
            return 0.0
        parts = [part for part in node.body or (node,) if part.runs]
        if all(_is_view(part.op) or part.op in PARTS for part in parts):
            return self.device.view
        busy = math.fsum(map(self._busy, parts))
        return self.device.launch + max(busy, moved_bytes(node) / self.device.bandwidth)

    def _busy(self, node: CostNode) -> float:
        """Seconds of arithmetic."""
        peak = self.device.peak if _is_dense(node.op) else self.device.vector
        return flops(node) / peak.get(_dtype(node), peak["default"])

    def __repr__(self) -> str:
        return f"Roofline({self.device.name!r})"


def flops(node: CostNode) -> float:
    """Return the floating-point operations of a node, as its operator defines, else one for each element it handles.

    Operators that only change the shape have none.
    """
    if node.body:
        return math.fsum(flops(part) for part in node.body if part.runs)
    op = Op.find(node.op)
    types = (node.type, *node.arg_types)
    if op is None or any(ty is None or isinstance(ty, IncompleteType) for ty in types):
        return 0.0
    if op.flops is not None:
        return float(op.flops(node.attrs if node.attrs is not None else Attrs(), node.arg_types, node.type))
    kind = op.get_attr("TOpPattern")
    if kind in (OpPattern.ELEMWISE, OpPattern.BROADCAST) and not _is_view(node.op):
        return element_count(node.type)
    return element_count(*node.arg_types) if kind == OpPattern.COMM_REDUCE else 0.0


def moved_bytes(node: CostNode) -> float:
    """Return the bytes of all arguments and the result; 0 for operators that only change the shape."""
    if _is_view(node.op):
        return 0.0
    inside = [part.type for part in node.body if part.op == "constant"]
    return byte_count(node.type, *node.arg_types, *inside)


def element_count(*types: Type | None) -> float:
    """Return the number of elements of all tensors of the types; unknown dimensions count as 1."""
    return math.fsum(map(size, _tensors(types)))


def byte_count(*types: Type | None) -> float:
    """Return the number of bytes of all tensors of the types; unknown dimensions count as 1."""
    return math.fsum(size(ty) * nbytes(TensorType((), ty.dtype)) for ty in _tensors(types))


def _tensors(types: Iterable[Type | None]) -> Iterator[TensorType]:
    """The tensors among types and in the tuples among them."""
    for ty in types:
        if isinstance(ty, TupleType):
            yield from _tensors(ty.fields)
        elif isinstance(ty, TensorType):
            yield ty


def _is_view(op: str) -> bool:
    entry = Op.find(op)
    return entry is not None and entry.has(Trait.VIEW)


def _is_dense(op: str) -> bool:
    entry = Op.find(op)
    return entry is not None and entry.get_attr("TOpPattern") == OpPattern.OUT_ELEMWISE_FUSABLE


def _dtype(node: CostNode) -> str:
    tensors = [ty for ty in (*node.arg_types, node.type) if isinstance(ty, TensorType)]
    return tensors[0].dtype if tensors else "default"
