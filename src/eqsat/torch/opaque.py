"""Opaque operators: nodes of PyTorch that pass through the e-graph as they are.

Every call that is not understood becomes one of an operator of the IR named ``torch.<target>``. Its one attribute
holds the node; its arguments are the tensors that the node takes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx

from eqsat.errors import EvaluationError
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.op.op import Field, OpPattern, define, make_attrs
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Type

NATIVE_NAMESPACES = ("aten", "prims")
"""Operators that compute the same however their operands are laid out in memory, those that make views aside."""

_ORDERED_NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")
"""Collectives: all ranks have to call them in one order."""

_CHECKS = ("aten._assert", "aten.sym_constrain", "aten._functional_assert", "aten._functional_sym_constrain")


def is_pure(node: fx.Node) -> bool:
    """Whether what a node gives follows from its arguments alone, and it does nothing else."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target._schema.is_mutable or (torch.Tag.nondeterministic_seeded in target.tags and _draws(node)):
        return False
    return target.namespace not in _ORDERED_NAMESPACES and not str(target).startswith(_CHECKS)


def _draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers: one that drops with probability 0, or not at all, draws none."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    if "dropout_p" in names:
        return bool(given.get("dropout_p", 0.0) != 0.0)
    return "train" not in names or given.get("train") is not False


def mutates(node: fx.Node) -> bool:
    """Whether a node writes to its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target._schema.is_mutable)


@dataclass(frozen=True)
class Slot:
    """Stands for an argument of the call in the IR."""

    index: int


@dataclass(frozen=True, eq=False)
class OpaqueNode:
    """What a node says beside the tensors that it takes.

    Two are equal, and their nodes the same computation, when they call one pure operator with equal arguments.

    Args:
        node: The node as it was read.
        args, kwargs: Its arguments: slots for tensors, dimensions for sizes, nodes for what else nodes give.
        type: The type of its result.
        is_pure: Whether its result follows from its arguments alone.
        operands: The nodes that slots stand for.
    """

    node: fx.Node
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    type: Type
    is_pure: bool
    operands: tuple[fx.Node, ...]

    @cached_property
    def _key(self) -> Hashable:
        if not self.is_pure:
            return id(self)
        return (self.node.target, _frozen(self.args), _frozen(self.kwargs), self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueNode) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"OpaqueNode({self.node.name})"


def _frozen(value: Any) -> Hashable:
    """An argument as what can be compared: 1, 1.0 and True differ, and unnamed sizes equal nothing."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, Mapping):
        return tuple((name, _frozen(value[name])) for name in sorted(value))
    if isinstance(value, slice):
        return ("slice", _frozen((value.start, value.stop, value.step)))
    if isinstance(value, AnyDim) and value.name is None:
        return id(value)
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The arguments of a node with ``leaf`` of each that is no list, tuple, dictionary or slice."""
    if isinstance(value, (list, tuple)):
        return tuple([mapped(each, leaf) for each in value])
    if isinstance(value, Mapping):
        return {name: mapped(each, leaf) for name, each in value.items()}
    if isinstance(value, slice):
        return slice(*[mapped(each, leaf) for each in (value.start, value.stop, value.step)])
    return leaf(value)


def opaque_call(node: fx.Node, operand: Callable[[Any], Any], type: Type) -> Call:
    """The call that stands for a node.

    Args:
        node: The node.
        operand: What an argument is: an expression, a dimension, or itself.
        type: The type of its result.
    """
    operands: list[Expr] = []
    sources: list[fx.Node] = []

    def leaf(value: Any) -> Any:
        found = operand(value)
        if not isinstance(found, Expr):
            return found
        operands.append(found)
        sources.append(value)
        return Slot(len(operands) - 1)

    args, kwargs = mapped(node.args, leaf), mapped(node.kwargs, leaf)
    opaque = OpaqueNode(node, args, kwargs, type, is_pure(node), tuple(sources))
    op = _operator(node)
    return Call(op, operands, make_attrs(op, {"node": opaque}))


def _operator(node: fx.Node) -> Op:
    name = f"torch.{node.target if isinstance(node.target, torch._ops.OpOverload) else node.name}"
    if not isinstance(node.target, torch._ops.OpOverload):
        name = f"torch.{getattr(node.target, '__name__', None) or node.target}"
    if Op.find(name) is None:
        define(
            name,
            None,
            Field("node"),
            infer=lambda attrs, args: attrs.node.type,
            kernel=_not_computed,
            kind=OpPattern.OPAQUE,
            traits=Trait.FOREIGN | (Trait.NONE if is_pure(node) else Trait.STATEFUL),
        )
    return Op.get(name)


def _not_computed(attrs: Any, *arrays: Any) -> Any:
    raise EvaluationError(f"eqsat does not compute {attrs.node.node.target}: PyTorch does")
