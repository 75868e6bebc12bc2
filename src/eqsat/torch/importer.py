"""From nodes of an fx graph to a function of the IR."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from eqsat.errors import EqsatError
from eqsat.relay.expr import Call, Expr, Function, Op, TupleGetItem, Var
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.results import body_of
from eqsat.relay.traits import Trait
from eqsat.relay.ty import UNKNOWN, TensorType, TupleType, Type
from eqsat.relay.visitor import post_order
from eqsat.torch.cost import Forms
from eqsat.torch.opaque import is_pure, opaque_call
from eqsat.torch.rows import Declined, Dialect, Source, reader_of, signature
from eqsat.torch.types import Sizes

_MALFORMED = (ValueError, ArithmeticError, IndexError, TypeError, AttributeError)
"""What Python raises on arguments that no valid node has."""


@dataclass(frozen=True)
class Origin:
    """Where an expression is from: the ``span`` of imported expressions."""

    node: Any

    def __str__(self) -> str:
        """The line of the program, and the node."""
        trace = self.node.meta.get("stack_trace") or ""
        lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
        return f"{self.node.name}, {lines[-1]}" if lines else str(self.node.name)

    def __reduce__(self) -> Any:
        return str, (str(self),)


@dataclass
class Imported:
    """Some nodes of a graph as a function of the IR.

    Attributes:
        function: What they compute. Parameters are what they take from outside, in the order of ``inputs``.
        inputs: The nodes that give it.
        results: The nodes that the results of the function stand for: what others use, then what has effects.
        opaque: Operator -> reasons why nodes of it are not understood, with their number.
        sizes: The sizes of the graph.
    """

    function: Function
    inputs: list[fx.Node]
    results: list[fx.Node]
    opaque: dict[str, dict[str, int]] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)


def gives_size(node: fx.Node) -> bool:
    """Whether a node gives a number, known or not, and no tensor."""
    return isinstance(node.meta.get("val"), (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool))


def import_nodes(
    nodes: Sequence[fx.Node], used: Iterable[fx.Node], sizes: Sizes, dialect: Dialect | None = None
) -> Imported | None:
    """What some nodes compute as a function; None if nothing that they give is needed.

    Args:
        nodes: Calls, each after what it takes.
        used: What others use of what they give.
        sizes: The sizes of the graph.
        dialect: Which operators may be written; what could not be written with them again is not understood. None
            where nothing is written.
    """
    return _Importer(nodes, sizes, dialect).run(used)


def _is_foreign(expr: Expr) -> bool:
    """Whether an expression is an operator that is not understood."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.has(Trait.FOREIGN)


class _Importer:
    def __init__(self, nodes: Sequence[fx.Node], sizes: Sizes, dialect: Dialect | None):
        self.nodes, self.sizes = nodes, sizes
        self.inside = set(nodes)
        self.inputs: dict[fx.Node, Var] = {}
        self.values: dict[fx.Node, Expr | Sequence[Expr | None]] = {}
        self.types: dict[Expr, Type] = {}
        self.typing = Inferencer(self.types)
        self.forms = None if dialect is None else Forms(self.types, dialect)
        self.checked: set[Expr] = set()  # those that can be written
        self.opaque: dict[str, dict[str, int]] = {}
        self.effects: list[fx.Node] = []

    def run(self, used: Iterable[fx.Node]) -> Imported | None:
        for node in self.nodes:
            self._bind(node)
        results = list(dict.fromkeys([*self.effects, *used]))
        if not results:
            return None
        exprs = [self._result(node) for node in results]
        function = Function(list(self.inputs.values()), body_of(exprs))
        return Imported(function, list(self.inputs), results, self.opaque, self.sizes)

    def _result(self, node: fx.Node) -> Expr:
        found = self.values[node]
        if not isinstance(found, Expr):
            raise Declined("the outputs of a node are used as one")
        if isinstance(self.types[found], TupleType):  # of what has effects: any of its outputs stands for it
            found = TupleGetItem(found, 0)
            self.typing.run(found)
        return found

    def _bind(self, node: fx.Node) -> None:
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
            self._bind_item(node)
            return
        try:
            self.values[node] = self._understood(node)
        except (Declined, EqsatError, *_MALFORMED) as why:
            self.values[node] = self._passed_through(node, str(why))

    def _bind_item(self, node: fx.Node) -> None:
        if not node.users:
            return
        of, index = node.args[0], node.args[1]
        found = self.values.get(of) if isinstance(of, fx.Node) else None
        if found is None:
            found = self._operand(of)
        part: Any = found[index] if not isinstance(found, Expr) else TupleGetItem(found, index)
        if part not in self.types:
            self.typing.run(part)
            part.span = part.span or Origin(node)
        self.values[node] = part

    # ---- calls that are understood

    def _understood(self, node: fx.Node) -> Expr | Sequence[Expr | None]:
        reader = reader_of(node.target)
        if reader is None:
            raise Declined("there is no such operator in the IR")
        if not is_pure(node):
            raise Declined("it does more than compute a value")
        found = reader(Source(node, self._values(node), self.types, self.sizes))
        outputs: list[Expr | None] = [found] if isinstance(found, Expr) else list(found)
        wanted = self.sizes.type(node.meta["val"])
        types = list(wanted.fields) if isinstance(wanted, TupleType) else [wanted]
        used = range(1) if isinstance(found, Expr) else self._used(node)
        for index in used:
            if index >= len(outputs) or outputs[index] is None:
                raise Declined("more of its outputs are used")
        for expr, ty in zip(outputs, types, strict=False):
            if expr is not None:
                self._place(node, expr, ty)
        return found if isinstance(found, Expr) else outputs

    def _place(self, node: fx.Node, expr: Expr, wanted: Type) -> None:
        if expr not in self.types:
            self.typing.run(expr)
            expr.span = expr.span or Origin(node)
            for below in expr.children():
                if isinstance(below, Call) and below.span is None:
                    below.span = Origin(node)
        if self.types[expr] != wanted or not isinstance(wanted, TensorType):
            raise Declined(f"it gives {wanted}, and the IR {self.types[expr]}")
        self._check_forms(expr)

    def _check_forms(self, expr: Expr) -> None:
        """Decline where an operator could not be written again."""
        if self.forms is None:
            return
        inside = (each for each in post_order(expr, children=self._unchecked) if isinstance(each, Call))
        for each in inside:
            if each not in self.checked and not _is_foreign(each) and self.forms.resolve(each) is None:
                raise Declined(f"{each.op} cannot be written with the operators of the graph")
            self.checked.add(each)

    def _unchecked(self, expr: Expr) -> Sequence[Expr]:
        return () if expr in self.checked or _is_foreign(expr) else list(expr.children())

    def _used(self, node: fx.Node) -> set[int]:
        users = [user for user in node.users if user.target is operator.getitem]
        if len(users) < len(node.users):
            raise Declined("its outputs are used as one")
        return {int(user.args[1]) for user in users if user.users}

    def _values(self, node: fx.Node) -> list[Any]:
        given = dict(zip([name for name, _, _ in signature(node.target)], node.args, strict=False)) | dict(node.kwargs)
        return [self._value(given.get(name, default)) for name, _, default in signature(node.target)]

    def _value(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._value(each) for each in value]
        return self._operand(value) if isinstance(value, fx.Node) else value

    def _operand(self, value: Any) -> Any:
        """An expression for a tensor, a dimension for a size, else the value."""
        if not isinstance(value, fx.Node):
            return value
        if value in self.values:
            found = self.values[value]
            if not isinstance(found, Expr):
                raise Declined("it takes several tensors as one")
            return found
        given = value.meta.get("val")
        if isinstance(given, (int, torch.SymInt)) and not isinstance(given, bool):
            return self.sizes.dim(given)
        if gives_size(value) or given is None:
            return value
        if value not in self.inputs:
            ty = self.sizes.type(given)
            variable = self.inputs[value] = Var(value.name, ty)
            variable.span = Origin(value)
            self.types[variable] = ty
        return self.inputs[value]

    # ---- calls that are not

    def _type(self, value: Any) -> Type:
        ty = self.sizes.type(value)
        return UNKNOWN if isinstance(ty, TupleType) and not ty.fields else ty

    def _passed_through(self, node: fx.Node, reason: str) -> Expr:
        value = node.meta.get("val")
        call = opaque_call(node, self._operand, self._type(value), self.types)
        call.span = Origin(node)
        self.typing.run(call)
        if not is_pure(node):
            self.effects.append(node)
        reasons = self.opaque.setdefault(str(node.target), {})
        reasons[reason] = reasons.get(reason, 0) + 1
        return call
