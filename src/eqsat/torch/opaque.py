"""Opaque operators: nodes of PyTorch that pass through the e-graph as they are.

Every call that is not understood becomes one of an operator of the IR named ``torch.<target>``. Its one attribute
holds the node; its arguments are the tensors that the node takes.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode

from eqsat.errors import EvaluationError, TypeCheckError
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.op.op import Field, OpPattern, define, make_attrs
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, TupleType, Type
from eqsat.torch.types import TORCH_DTYPES, Sizes

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


_UNBACKED = re.compile(r"\?u[0-9]")
"""A size that depends on the values of tensors."""


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
        operand_types: Their types.
    """

    node: fx.Node
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    type: Type
    is_pure: bool
    operands: tuple[fx.Node, ...]
    operand_types: tuple[Type, ...]

    @cached_property
    def _key(self) -> Hashable:
        if not self.is_pure:
            return id(self)
        # where sizes depend on values each node has names of its own for them; else operands decide the type
        ty = self.type if _UNBACKED.search(str(self.type)) else None
        return (self.node.target, _frozen(self.args), _frozen(self.kwargs), ty)

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
    """The arguments of a node with ``leaf`` of each that is not a list, tuple, dictionary or slice."""
    if isinstance(value, (list, tuple)):
        return tuple([mapped(each, leaf) for each in value])
    if isinstance(value, Mapping):
        return {name: mapped(each, leaf) for name, each in value.items()}
    if isinstance(value, slice):
        return slice(*[mapped(each, leaf) for each in (value.start, value.stop, value.step)])
    return leaf(value)


def opaque_call(node: fx.Node, operand: Callable[[Any], Any], type: Type, types: Mapping[Expr, Type]) -> Call:
    """The call that stands for a node.

    Args:
        node: The node.
        operand: What an argument is: an expression, a dimension, or itself.
        type: The type of its result.
        types: The types of expressions.
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
    opaque = OpaqueNode(
        node, args, kwargs, type, is_pure(node), tuple(sources), tuple([types[each] for each in operands])
    )
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
            infer=_type_over,
            kernel=_not_computed,
            kind=OpPattern.OPAQUE,
            traits=Trait.FOREIGN | (Trait.NONE if is_pure(node) else Trait.STATEFUL),
        )
    return Op.get(name)


def _type_over(attrs: Any, args: Sequence[Type]) -> Type:
    """The type of an opaque node over operands of types that may be others than those it was read with."""
    opaque: OpaqueNode = attrs.node
    if tuple(args) == opaque.operand_types or not opaque.is_pure:
        return opaque.type
    tensors = [ty for ty in args if isinstance(ty, TensorType)]
    dims = [dim for ty in tensors for dim in ty.shape]
    mapped((opaque.args, opaque.kwargs), lambda value: dims.append(value) if isinstance(value, AnyDim) else None)
    names = sorted({name for dim in dims if isinstance(dim, AnyDim) for name in _names(dim)})
    if len(tensors) < len(args) or any(isinstance(dim, AnyDim) and dim.name is None for dim in dims):
        raise TypeCheckError(f"{opaque.node.target}: the types of its operands are not known")
    found = []
    for primes in _PRIMES:  # sizes that no other is equal to by chance
        values = dict(zip(names, primes, strict=False))
        if len(values) < len(names):
            raise TypeCheckError(f"{opaque.node.target}: its operands have too many open sizes")
        given = [TensorType([_size(dim, values) for dim in ty.shape], ty.dtype) for ty in tensors]
        result = _tried(opaque, given, values)
        found.append((result, {dim: _size(dim, values) for dim in dims}))
    return _with_names(*found)


_PRIMES = (
    (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049),
    (2003, 2011, 2017, 2027, 2029, 2039, 2053, 2063),
)


def _names(dim: AnyDim) -> set[str]:
    return {str(dim.name)} if dim.terms is None else {name for names in dim.terms for name in names}


def _size(dim: Dim, values: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return int(dim)
    terms = dim.terms or {(str(dim.name),): 1}
    return sum(count * math.prod(values[name] for name in names) for names, count in terms.items())


def _tried(opaque: OpaqueNode, types: Sequence[TensorType], values: Mapping[str, int]) -> Type:
    """The type of the result where open sizes have some values, by what PyTorch says of the operator."""
    with FakeTensorMode(), _quiet():
        tensors = [torch.empty(ty.concrete_shape, dtype=TORCH_DTYPES[ty.dtype]) for ty in types]

        def leaf(value: Any) -> Any:
            if isinstance(value, AnyDim):
                return _size(value, values)
            return tensors[value.index] if isinstance(value, Slot) else value

        target: Any = opaque.node.target
        try:
            return Sizes().type(target(*mapped(opaque.args, leaf), **mapped(opaque.kwargs, leaf)))
        except Exception as error:  # whatever the operator raises on operands that it is not for
            raise TypeCheckError(f"{target} does not take such operands: {error}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No messages of PyTorch about operands that an operator is not for."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was


def _with_names(first: tuple[Type, Mapping[Dim, int]], second: tuple[Type, Mapping[Dim, int]]) -> Type:
    """A type whose sizes are those that explain what two trials gave."""
    (left, sizes), (right, others) = first, second
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        parts = zip(left.fields, right.fields, strict=True)
        return TupleType([_with_names((a, sizes), (b, others)) for a, b in parts])
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return left

    def dim(a: Dim, b: Dim) -> Dim:
        if a == b:
            return a
        return next((each for each in sizes if sizes[each] == a and others[each] == b), AnyDim())

    return TensorType([dim(a, b) for a, b in zip(left.shape, right.shape, strict=True)], left.dtype)


def _not_computed(attrs: Any, *arrays: Any) -> Any:
    raise EvaluationError(f"eqsat does not compute {attrs.node.node.target}: PyTorch does")
