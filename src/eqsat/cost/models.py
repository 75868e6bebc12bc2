"""Cost models: what one e-node costs, from its operator, attributes and types.

A model is any callable of a `CostNode` that returns a number. Those here are also added to each other and multiplied
by numbers or by each other: `Roofline("gpu") + 1e-12 * Storage()`.
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
"""Heads of e-nodes that compute nothing."""

PARTS = frozenset({"split"})
"""Operators that name parts of the same bytes: some devices copy them, those of the profiles here do not."""


@dataclass(frozen=True)
class CostNode:
    """What a cost model sees of an e-node.

    Attributes:
        op: The operator's name, that of a composite, or one of `var constant tuple project if function apply global`.
        attrs: The call's attributes, None where it has none.
        arg_types, type: Types of the children and of the result, None where unknown.
        constant: The value depends on constants alone, so it is computed before run time.
        body: What one kernel of several operators computes inside; empty for single operators.
        arg_constant: Which children's values depend on constants alone; empty where that is unknown.
        graph: What a kernel with a body computes, over variables and constants; it has no part in comparisons.
    """

    op: str
    attrs: Mapping[str, Any] | None
    arg_types: tuple[Type | None, ...]
    type: Type | None
    constant: bool = False
    body: tuple[CostNode, ...] = ()
    arg_constant: tuple[bool, ...] = ()
    graph: Expr | None = field(default=None, compare=False, repr=False)

    @property
    def runs(self) -> bool:
        """Whether anything is computed at run time."""
        return not self.constant and self.op not in FREE


NOTHING = CostNode("tuple", None, (), None)
"""What is seen of a node that computes nothing."""

CostFunction: TypeAlias = Callable[[CostNode], float]
"""Any cost model: what one node costs."""


class CostModel:
    """Base class that lets models be combined; a subclass says what one node costs."""

    unit: ClassVar[str] = ""
    """What a cost of 1 is, in the plural."""

    as_it_runs: ClassVar[bool] = False
    """Whether a given graph is priced with all kernels that the runtime makes of it, those too that cost more than
    their nodes one by one; else with those that cost least."""

    @property
    def ties(self) -> CostFunction | None:
        """What decides between graphs that cost the same."""
        return None

    def __call__(self, node: CostNode) -> float:
        raise NotImplementedError

    def settle(self) -> bool:
        """Find out what was asked for and only estimated so far; say whether anything costs something else now."""
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
    """1 for each operator that runs; a kernel of several counts as its dearest. What takes less time decides ties."""

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
    """What decides between graphs that cost the same under a model."""
    return model.ties if isinstance(model, CostModel) else None


def unit_of(model: CostFunction) -> str:
    """What a model counts, as far as it says."""
    return model.unit if isinstance(model, CostModel) else ""


@dataclass(frozen=True)
class Bytes(CostModel):
    """Bytes read and written by each operator that runs, 0 for those that only reshape; unknown sizes count as 1."""

    unit = "bytes read and written"

    def __call__(self, node: CostNode) -> float:
        return moved_bytes(node) if node.runs else 0.0


@dataclass(frozen=True)
class Flops(CostModel):
    """Floating-point operations of each operator that runs, by its registry entry; unknown sizes count as 1."""

    unit = "floating-point operations"

    def __call__(self, node: CostNode) -> float:
        return flops(node) if node.runs else 0.0


@dataclass(frozen=True)
class Storage(CostModel):
    """Bytes of constants in the model file, so that weights folded at no run time are still charged for.

    A constant is charged with its bytes; a node computed from constants with what its result has beyond its arguments.
    """

    unit = "bytes of constants"

    def __call__(self, node: CostNode) -> float:
        if node.op == "constant":
            return byte_count(node.type)
        if not node.constant or node.op in FREE:
            return 0.0
        return max(0.0, byte_count(node.type) - byte_count(*node.arg_types))


class Roofline(CostModel):
    """Seconds on a device: launch + max(operations / peak, bytes / bandwidth) for each operator that runs.

    `device` names a profile of `devices.toml`, or is a `Device`. Raises ExtractionError for an unknown name.
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
    """Floating-point operations of one evaluation: as the operator says, else one per element it handles."""
    if node.body:
        return math.fsum(flops(part) for part in node.body if part.runs)
    op = Op.find(node.op)
    types = (node.type, *node.arg_types)
    if op is None or any(ty is None or isinstance(ty, IncompleteType) for ty in types):
        return 0.0
    if op.flops is not None:
        return float(op.flops(node.attrs if node.attrs is not None else Attrs(), node.arg_types, node.type))
    kind = op.get_attr("TOpPattern")
    if kind in (OpPattern.ELEMWISE, OpPattern.BROADCAST):
        return element_count(node.type)
    return element_count(*node.arg_types) if kind == OpPattern.COMM_REDUCE else 0.0


def moved_bytes(node: CostNode) -> float:
    """Bytes of all arguments and the result; none for operators that only give another shape."""
    if _is_view(node.op):
        return 0.0
    inside = [part.type for part in node.body if part.op == "constant"]
    return byte_count(node.type, *node.arg_types, *inside)


def element_count(*types: Type | None) -> float:
    """Elements of all tensors of some types; unknown dimensions count as 1."""
    return math.fsum(map(size, _tensors(types)))


def byte_count(*types: Type | None) -> float:
    """Bytes of all tensors of some types; unknown dimensions count as 1."""
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
