"""Algebraic data types: definitions, constructors and matching."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any

from eqsat.brief import DEPTH
from eqsat.errors import ArgumentError
from eqsat.relay.expr import Expr, Scope, Var
from eqsat.relay.ty import FuncType, GlobalTypeVar, Type, TypeCall, TypeVar, tuple_text


class Constructor(Expr):
    """One way to make a value of an algebraic type. It is a function, and is called like one.

    Args:
        name_hint: The name, an identifier.
        inputs: The types of the fields. Type variables of the definition may occur in them.
        belong_to: The type that it makes values of.

    Attributes:
        tag: The constructor's place in the definition of the type, -1 before there is one.
        type_vars: The type variables of the definition.
    """

    __slots__ = ("belong_to", "inputs", "name_hint", "tag", "type_vars")
    kind = "global"

    def __init__(self, name_hint: str, inputs: Sequence[Type], belong_to: GlobalTypeVar):
        self._init()
        if not name_hint.isidentifier():
            raise ArgumentError(f"the name of a constructor must be an identifier, not {name_hint!r}")
        self.name_hint = name_hint
        self.inputs = tuple(inputs)
        self.belong_to = belong_to
        self.tag = -1
        self.type_vars: tuple[TypeVar, ...] = ()

    @property
    def payload(self) -> Hashable:
        return (self.name_hint, self.belong_to)

    def brief(self, depth: int = DEPTH) -> str:
        return self.name_hint

    @property
    def type(self) -> FuncType:
        """The type of the constructor as a function."""
        return FuncType(self.inputs, TypeCall(self.belong_to, self.type_vars), self.type_vars)


class TypeData:
    """The definition of an algebraic type.

    Args:
        header: The name of the type.
        type_vars: The parameters of the type.
        constructors: All ways to make a value; none for a type that is defined elsewhere.

    Raises:
        ArgumentError: A constructor belongs to another type.
    """

    def __init__(self, header: GlobalTypeVar, type_vars: Sequence[TypeVar], constructors: Sequence[Constructor]):
        self.header = header
        self.type_vars = tuple(type_vars)
        self.constructors = tuple(constructors)
        for tag, constructor in enumerate(self.constructors):
            if constructor.belong_to != header:
                raise ArgumentError(f"{constructor.name_hint} belongs to {constructor.belong_to}, not to {header}")
            constructor.tag, constructor.type_vars = tag, self.type_vars


class Pattern:
    """The left side of a clause: the form that a value must have.

    Attributes:
        parts: The direct sub-patterns.
        variables: The variables that the pattern binds, in order.
    """

    parts: tuple[Pattern, ...] = ()

    @property
    def variables(self) -> tuple[Var, ...]:
        return tuple(variable for part in self.parts for variable in part.variables)

    def with_variables(self, new: Mapping[Var, Any]) -> Pattern:
        """Return the same pattern with other variables: those that ``new`` maps the present ones to."""
        clone = copy(self)
        clone.parts = tuple([part.with_variables(new) for part in self.parts])
        return clone

    def text(self, name: Callable[[Var], str]) -> str:
        """Return the text form, in which ``name(variable)`` stands for a variable that is bound here."""
        raise NotImplementedError


class PatternWildcard(Pattern):
    """Any value."""

    def text(self, name: Callable[[Var], str]) -> str:
        return "_"


class PatternVar(Pattern):
    """Any value; ``var`` stands for it in the clause."""

    def __init__(self, var: Var):
        if not isinstance(var, Var):
            raise ArgumentError(f"a pattern can only bind a Var, not {var!r}")
        self.var = var

    @property
    def variables(self) -> tuple[Var, ...]:
        return (self.var,)

    def with_variables(self, new: Mapping[Var, Any]) -> Pattern:
        return PatternVar(new[self.var])

    def text(self, name: Callable[[Var], str]) -> str:
        return name(self.var)


class PatternTuple(Pattern):
    """A tuple whose fields match ``patterns``."""

    def __init__(self, patterns: Sequence[Pattern]):
        self.parts = tuple(patterns)

    def text(self, name: Callable[[Var], str]) -> str:
        return tuple_text([part.text(name) for part in self.parts])


class PatternConstructor(Pattern):
    """A value of ``constructor`` whose fields match ``patterns``."""

    def __init__(self, constructor: Constructor, patterns: Sequence[Pattern] = ()):
        self.constructor = constructor
        self.parts = tuple(patterns)
        if len(self.parts) != len(constructor.inputs):
            wanted, given = len(constructor.inputs), len(self.parts)
            raise ArgumentError(f"a pattern of {constructor.name_hint} needs {wanted} sub-patterns, not {given}")

    def text(self, name: Callable[[Var], str]) -> str:
        inside = ", ".join(part.text(name) for part in self.parts)
        return f"{self.constructor.name_hint}({inside})" if self.parts else self.constructor.name_hint


class Clause:
    """``lhs => rhs``: if the value matches ``lhs``, the match evaluates to ``rhs``."""

    def __init__(self, lhs: Pattern, rhs: Expr):
        self.lhs = lhs
        self.rhs = rhs


class Match(Expr):
    """The right side of the first clause whose pattern matches ``data``.

    Args:
        data: The value.
        clauses: The clauses, which are tried in order.
        complete: Whether some clause always applies.

    The children are the data and then, for each clause, its variables and its right side.
    """

    __slots__ = ("clauses", "complete", "data")
    kind = "match"

    def __init__(self, data: Expr, clauses: Sequence[Clause], complete: bool = True):
        self.data = data
        self.clauses = tuple(clauses)
        self.complete = complete
        self._init((data, *chain.from_iterable((*clause.lhs.variables, clause.rhs) for clause in self.clauses)))

    @property
    def payload(self) -> Hashable:
        return (self.complete, tuple([clause.lhs.text(lambda variable: "%") for clause in self.clauses]))

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return tuple([Scope(clause.lhs.variables, clause.rhs) for clause in self.clauses])

    def with_children(self, children: Sequence[Expr]) -> Match:
        rest = iter(children)
        data = next(rest)
        clauses = [
            Clause(clause.lhs.with_variables({variable: next(rest) for variable in clause.lhs.variables}), next(rest))
            for clause in self.clauses
        ]
        return Match(data, clauses, self.complete)._carry(self)
