"""Terms: the different nodes of graphs, by number, and which of them are known to be equal.

The checker of certificates depends only on this module and on Relay. It shares nothing with the e-graph, whose steps it
checks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eqsat.errors import CertificateError, EqsatError
from eqsat.nd import NDArray
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem, Var
from eqsat.relay.relations import call_type
from eqsat.relay.ty import IncompleteType, TensorType, TupleType, Type, is_exact
from eqsat.relay.visitor import post_order

_HASHED = 1 << 16
"""Largest constant, in bytes, whose digest is computed."""


class Body(NamedTuple):
    """A function inside a call, with captured values from outside and inputs of its own.

    Attributes:
        key: What it is found by in :attr:`Terms.inside`.
        function: The function; its first parameters are values from outside, which they are named after.
        captured: How many of them.
        types: The types of its nodes, as far as they are known.
    """

    key: Hashable
    function: Function
    captured: int
    types: Mapping[Expr, Type]


class Opened(NamedTuple):
    """A call that contains bodies.

    Attributes:
        taken: How many arguments the call itself takes.
        captured: The names of those after them, which the bodies take.
        bodies: The bodies.
    """

    taken: int
    captured: Sequence[str]
    bodies: Sequence[Body]


class Inside(NamedTuple):
    """The terms of a body's nodes, and the number of bodies around them."""

    terms: dict[Expr, int]
    depth: int


class Calls:
    """Data of calls other than their operator; a subclass knows more about nodes that the IR does not have."""

    def key(self, attrs: Attrs) -> Hashable:
        """Return a key that is equal for two calls that compute the same values from the same operands."""
        return attrs.key

    def opened(self, attrs: Attrs) -> Opened | None:
        """Return the bodies in the attributes of a call; None if there are none, or if the call is opaque."""
        return None


class Head(NamedTuple):
    """All data of a term except its children.

    Attributes:
        kind: ``call``, ``var``, ``constant``, ``tuple`` or ``project``.
        op: The operator of a call.
        value: The attributes of a call, the index of a projection, a constant, or the variable of an input.
        key: Equal for equal heads.
    """

    kind: str
    op: Op | None
    value: Any
    key: Hashable


class Terms:
    """Terms by number, children first, and a congruence closure of them.

    Args:
        calls: Tells calls of one operator apart by their attributes.

    Attributes:
        inside: The terms of each body by its key, as it was met last.
        heads, children: Of each term.
        types: Term that stands for a class -> the types that its terms were found to have, those that say most first.
        users: Term that stands for a class -> the terms with a child in the class.
        members: Term that stands for a class -> the terms in it.
    """

    def __init__(self, calls: Calls | None = None):
        self.calls = calls or Calls()
        self.inside: dict[Hashable, Inside] = {}
        self.heads: list[Head] = []
        self.children: list[tuple[int, ...]] = []
        self.types: list[tuple[Type, ...]] = []
        self.users: list[list[int]] = []
        self.members: list[list[int]] = []
        self._numbers: dict[Hashable, int] = {}
        self._parents: list[int] = []
        self._signatures: dict[Hashable, int] = {}
        self._constants: dict[int, int] = {}  # class -> a constant in it
        self._alike: dict[Hashable, list[int]] = {}  # different constants of which the same is told

    def __len__(self) -> int:
        return len(self.heads)

    # ---- making terms

    def make(self, head: Head, children: Sequence[int] = (), ty: Type | None = None) -> int:
        """The number of a term.

        Args:
            ty: Its type; where it is not given it is found from those of the children.
        """
        key = (head.kind, head.op, head.key, *children)
        number = self._numbers.setdefault(key, len(self.heads))
        if number == len(self.heads):
            self.heads.append(head)
            self.children.append(tuple(children))
            found = ty if ty is not None else self._infer(head, children)
            self.types.append(() if found is None else (found,))
            self.users.append([])
            self.members.append([number])
            self._parents.append(number)
            if head.kind == "constant":
                self._constants[number] = number
            for child in set(map(self.find, children)):
                self.users[child].append(number)
            for pair in self._sign([number]):
                self.equate(*pair)
        return number

    def call(self, op: Op, attrs: Attrs | None, children: Sequence[int], ty: Type | None = None) -> int:
        """The number of a call."""
        return self.make(Head("call", op, attrs, None if attrs is None else self.calls.key(attrs)), children, ty)

    def computed(
        self, op: Op, attrs: Attrs | None, arguments: Sequence[int], ty: Type | None = None, depth: int = 0
    ) -> int:
        """The number of a call of an operator that may compute with bodies.

        What a body gives is a child of the call, over terms for what it takes from outside. So calls are equal by
        congruence where all their bodies are, for any inputs of theirs: ``depth`` tells these from those of bodies
        around it.
        """
        opened = None if attrs is None else self.calls.opened(attrs)
        if opened is None:
            return self.call(op, attrs, arguments, ty)
        if len(arguments) == 1 < opened.taken + len(opened.captured):
            arguments = self.children[arguments[0]]  # they are in one tuple
        children = list(arguments[: opened.taken])
        outside = dict(zip(opened.captured, arguments[opened.taken :], strict=True))
        for body in opened.bodies:
            params = body.function.params
            known: dict[Expr, int] = {param: outside[param.name_hint] for param in params[: body.captured]}
            for place, param in enumerate(params[body.captured :]):
                key = (depth, place, str(param.type_annotation))
                known[param] = self.make(Head("bound", None, param, key), (), param.type_annotation)
            found = self.add(body.function.body, body.types, known, depth + 1)
            self.inside[body.key] = Inside(found, depth + 1)
            children.append(found[body.function.body])
        return self.call(op, attrs, children, ty)

    def constant(self, constant: Constant) -> int:
        """The number of a constant."""
        data = constant.data
        alike = self._alike.setdefault(told_of(data), [])
        known = next((number for number in alike if self.heads[number].value.data.has_data_of(data)), None)
        if known is not None:
            return known
        alike.append(len(self))
        return self.make(Head("constant", None, constant, len(self)), (), TensorType(data.shape, data.dtype))

    def variable(self, var: Var, key: Hashable, ty: Type | None) -> int:
        """The number of an input, which ``key`` tells from the others."""
        return self.make(Head("var", None, var, key), (), ty)

    def tuple_of(self, fields: Sequence[int], ty: Type | None = None) -> int:
        """The number of a tuple."""
        return self.make(Head("tuple", None, None, None), fields, ty)

    def field_of(self, whole: int, index: int, ty: Type | None = None) -> int:
        """The number of a field of a tuple."""
        return self.make(Head("project", None, index, int(index)), [whole], ty)

    def add(
        self, root: Expr, types: Mapping[Expr, Type], known: Mapping[Expr, int] | None = None, depth: int = 0
    ) -> dict[Expr, int]:
        """The numbers of a graph's nodes, in an order that follows from the graph alone.

        Args:
            root: The graph.
            types: The types of its nodes, as far as they are known.
            known: The numbers of some nodes, which are not looked into.
            depth: How many bodies it is in.

        Raises:
            CertificateError: It has a node that terms are not made of.
        """
        found: dict[Expr, int] = dict(known or {})
        for node in post_order(root, children=lambda node: () if node in found else operands(node)):
            if node in found:
                continue
            below, ty = [found[child] for child in operands(node)], types.get(node)
            if isinstance(node, Call) and isinstance(node.op, Op):
                found[node] = self.computed(node.op, node.attrs, below, ty, depth)
            elif isinstance(node, Constant):
                found[node] = self.constant(node)
            elif isinstance(node, Var):
                raise CertificateError(f"%{node.name_hint} is not a parameter: such a graph has no certificate")
            elif isinstance(node, Tuple):
                found[node] = self.tuple_of(below, ty)
            elif isinstance(node, TupleGetItem):
                found[node] = self.field_of(below[0], node.index, ty)
            else:
                raise CertificateError(f"a graph with a {type(node).__name__} node has no certificate")
        return found

    def _infer(self, head: Head, children: Sequence[int]) -> Type | None:
        types = [self.type_of(child) for child in children]
        known = [ty for ty in types if ty is not None]
        if len(known) < len(types):
            return None
        if head.kind == "tuple":
            return TupleType(known)
        if head.kind == "project":
            fields = known[0].fields if isinstance(known[0], TupleType) else ()
            return fields[head.value] if head.value < len(fields) else None
        if head.op is None:
            return None
        try:
            found = call_type(head.op, head.value, known)
        except EqsatError:
            return None
        return None if isinstance(found, IncompleteType) else found

    # ---- what is equal

    def find(self, term: int) -> int:
        """The term that stands for the class of a term."""
        parents = self._parents
        while parents[term] != term:
            parents[term] = term = parents[parents[term]]
        return term

    def same(self, one: int, other: int) -> bool:
        """Return whether two terms are known to be equal."""
        return self.find(one) == self.find(other)

    def equate(self, one: int, other: int) -> None:
        """Record that two terms are equal, with all equalities that follow by congruence."""
        pending = [(one, other)]
        while pending:
            small, large = map(self.find, pending.pop())
            if small == large:
                continue
            sizes = [len(self.users[each]) + len(self.members[each]) for each in (small, large)]
            if sizes[0] > sizes[1]:
                small, large = large, small
            self._parents[small] = large
            known = dict.fromkeys(self.types[large] + self.types[small])
            self.types[large] = tuple(sorted(known, key=lambda ty: not is_exact(ty)))
            if small in self._constants:
                self._constants.setdefault(large, self._constants.pop(small))
            self.members[large] += self.members[small]
            self.members[small] = []
            moved, self.users[small] = self.users[small], []
            self.users[large] += moved
            pending += self._sign(moved)

    def _sign(self, terms: Sequence[int]) -> list[tuple[int, int]]:
        """Note what terms are over classes; the pairs that are equal by that."""
        equal = []
        for term in terms:
            head = self.heads[term]
            key = (head.kind, head.op, head.key, *map(self.find, self.children[term]))
            known = self._signatures.setdefault(key, term)
            if known != term and not self.same(known, term):
                equal.append((known, term))
        return equal

    def type_of(self, term: int) -> Type | None:
        """Return the type of a term's class, as far as it is known."""
        return next(iter(self.types[self.find(term)]), None)

    def have_one_type(self, one: int, other: int) -> bool:
        """Whether two terms are known to have the same type, with all sizes."""
        return any(ty in self.types[self.find(other)] and is_exact(ty) for ty in self.types[self.find(one)])

    def constant_of(self, term: int) -> int | None:
        """A constant that a term is known to equal: itself if it is one, as those of a class may be rounded apart."""
        return term if self.heads[term].kind == "constant" else self._constants.get(self.find(term))

    def array_of(self, term: int) -> np.ndarray[Any, Any] | None:
        """The array of a constant that a term is known to equal."""
        constant = self.constant_of(term)
        return None if constant is None else self.heads[constant].value.data.numpy()

    def told(self, term: int) -> str:
        """Return a short text of a term, for messages."""
        head, ty = self.heads[term], self.type_of(term)
        name = head.op.name if head.op is not None else f"%{head.value.name_hint}" if head.kind == "var" else head.kind
        return name if ty is None else f"{name} of type {ty}"


def told_of(data: NDArray) -> Hashable:
    """What the digest of a graph says of a constant: all of a small one, and some elements of a large one.

    Large weights are so compared between two graphs, once, and not hashed in each.
    """
    return data.digest() if data.nbytes <= _HASHED else (data.dtype, data.shape, data.few.tobytes())


def operands(node: Expr) -> Sequence[Expr]:
    """Return the operands of a node: the arguments of a call, or the fields of a tuple."""
    return node.args if isinstance(node, Call) and isinstance(node.op, Op) else node.children()
