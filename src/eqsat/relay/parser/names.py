"""Reading what gives names a meaning: definitions of types, variables where they are bound, and patterns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.adt import (
    Constructor,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from eqsat.relay.expr import Expr, Var
from eqsat.relay.parser.tokens import Span, Tokens
from eqsat.relay.parser.types import Reader
from eqsat.relay.ty import GlobalTypeVar, Type


class NameReader(Reader):
    """Knows what variables and constructors stand for.

    Args:
        tokens: What is read.
        source_name: What the spans of nodes name as their source, None for no spans.

    Attributes:
        variables: Name -> the variable that it stands for here.
        constructors: Name -> the constructor.
    """

    def __init__(self, tokens: Tokens, source_name: str | None):
        super().__init__(tokens)
        self.source_name = source_name
        self.variables: dict[str, Var] = {}
        self.constructors: dict[str, Constructor] = {}

    def type_definition(self) -> TypeData:
        """Read the definition of an algebraic type."""
        external = self.next_is("extern")
        self.at += 1
        if external:
            if not self.next_is("type"):
                raise self.unexpected("'type'")
            self.at += 1
        start = self.at
        header = GlobalTypeVar(self.expect("name", "the name of a type"))
        if header.name_hint in self.type_names:
            raise self.error(f"type {header} is defined twice", start)
        self.type_names[header.name_hint] = header
        variables, outside = self.type_params()
        constructors: list[Constructor] = []
        if not external and self.accept("{"):
            constructors = self.series("}", lambda: self._constructor(header))
        self.type_names = outside
        return TypeData(header, variables, constructors)

    def _constructor(self, header: GlobalTypeVar) -> Constructor:
        start = self.at
        name = self.expect("name", "the name of a constructor")
        if name in self.constructors:
            raise self.error(f"constructor {name} is defined twice", start)
        inputs = self.series(")", self.type) if self.accept("(") else []
        try:
            constructor = self.constructors[name] = Constructor(name, inputs, header)
        except ArgumentError as error:
            raise self.error(str(error), start) from None
        return constructor

    def spanned(self, node: Expr, at: int) -> Any:
        """Give ``node`` the place of the token at ``at`` as its span, if spans are wanted, and return it."""
        if self.source_name is not None:
            node.span = Span(self.source_name, *self.tokens.position(self.tokens.starts[at]))
        return node

    def parameter(self) -> Var:
        """Read a variable where it is bound: its name and, if it is declared, its type."""
        start = self.at
        name = self.expect("local", "a variable: %name")
        if self.kinds[self.at] == "{":
            raise self.error("virtual devices are not supported")
        ty: Type | None = self.type() if self.accept(":") else None
        variable: Var = self.spanned(Var(name, ty), start)
        return variable

    def bind(self, variable: Var) -> tuple[str, Var | None]:
        """Let the name of a variable stand for it; return the name and what it stood for before."""
        name = variable.name_hint
        before = self.variables.get(name)
        self.variables[name] = variable
        return name, before

    def restore(self, shadowed: Iterable[tuple[str, Var | None]]) -> None:
        """Undo bindings for which :meth:`bind` returned ``shadowed``."""
        for name, before in reversed(list(shadowed)):
            if before is None:
                del self.variables[name]
            else:
                self.variables[name] = before

    def pattern(self) -> Pattern:
        """Read the left side of a clause."""
        start = self.at
        if self.kinds[start] == "local":
            return PatternVar(self.parameter())
        if self.accept("("):
            return PatternTuple(self.series(")", lambda: self.nested(self.pattern)))
        if self.next_is("_"):
            self.at += 1
            return PatternWildcard()
        name = self.expect("name", "a pattern: _, %name, a constructor or a tuple of patterns")
        if name not in self.constructors:
            raise self.error(f"{name} is no constructor; known are {list(self.constructors)}", start)
        parts = self.series(")", lambda: self.nested(self.pattern)) if self.accept("(") else []
        try:
            return PatternConstructor(self.constructors[name], parts)
        except ArgumentError as error:
            raise self.error(str(error), start) from None
