"""Parsing expressions and modules; expressions may nest without bound.

The steps are procedures of :mod:`eqsat.relay.trampoline`: a yielded step is a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eqsat.errors import ArgumentError, OperatorError
from eqsat.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from eqsat.relay.attrs import Attrs, freeze
from eqsat.relay.expr import Call, Constant, Expr, Function, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.literal import read_number
from eqsat.relay.module import IRModule
from eqsat.relay.op.op import make_attrs
from eqsat.relay.parser.tokens import Span, Tokens
from eqsat.relay.parser.types import Reader
from eqsat.relay.references import RefCreate, RefRead, RefWrite
from eqsat.relay.trampoline import Step, run
from eqsat.relay.ty import GlobalTypeVar

_OPERATORS = {
    "*": (12, "multiply"),
    "/": (12, "divide"),
    "+": (10, "add"),
    "-": (10, "subtract"),
    "<": (8, "less"),
    "<=": (8, "less_equal"),
    ">": (8, "greater"),
    ">=": (8, "greater_equal"),
    "==": (7, "equal"),
    "!=": (7, "not_equal"),
}
"""Infix operator -> precedence and operator; all associate to the left."""

_REFS: dict[str, tuple[type[Expr], int]] = {"ref": (RefCreate, 1), "ref_read": (RefRead, 1), "ref_write": (RefWrite, 2)}
_ATTRIBUTE = "an attribute: key=value"
_VERSIONS = ("0.0.4", "0.0.5")


class Parser(Reader):
    """Reads one text.

    Args:
        text: The text.
        source_name: What the spans of nodes name as their source, None for no spans.

    Attributes:
        variables: Name -> the variable that it stands for here.
        constructors: Name -> the constructor.
        temporaries: Name, such as ``%0`` -> the expression that it stands for.
    """

    def __init__(self, text: str, source_name: str | None):
        super().__init__(Tokens(text))
        self.source_name = source_name
        self.variables: dict[str, Var] = {}
        self.constructors: dict[str, Constructor] = {}
        self.temporaries: dict[str, Expr] = {}
        self._attributes: dict[object, Attrs | None] = {}
        self._given = IRModule()

    def assume(self, module: IRModule, metadata: Mapping[str, Sequence[Any]]) -> None:
        """Let the text use functions and types of a module, of which its own is to be an extension, and metadata.

        Args:
            module: The module.
            metadata: Kind -> the values to which ``meta[kind][i]`` refers.
        """
        self._given = module
        self.globals.update({variable.name_hint: variable for variable in module.get_global_vars()})
        for header, definition in module.type_definitions.items():
            self.type_names[header.name_hint] = header
            self.constructors.update({each.name_hint: each for each in definition.constructors})
        self.decoded.update({(kind, at): value for kind, values in metadata.items() for at, value in enumerate(values)})

    def module(self) -> IRModule:
        """The whole text as a module."""
        module = self._given.copy()
        while self.kinds[self.at] != "end":
            start = self.at
            if self.next_is("type") or self.next_is("extern"):
                definition = self.type_definition()
                module[definition.header] = definition
                continue
            self.expect_word("def", "'def', a function's definition, or 'type', a type's")
            variable = self.global_var()
            function = run(self._function(self.at))
            if variable in module:
                raise self.error(f"@{variable.name_hint} is defined twice", start)
            module[variable] = function
        return module

    def whole_expression(self) -> Expr:
        """The whole text as one expression."""
        expr: Expr = run(self._block())
        self.expect("end", "the end of the text")
        return expr

    def version(self, required: bool) -> None:
        """Step over the version line."""
        if self.kinds[self.at] != "version" and required:
            raise self.unexpected('the version line of a module, #[version = "0.0.5"]')
        start = self.at
        if self.accept("version"):
            version = self.values[start].split('"')[1]
            if version not in _VERSIONS:
                raise self.error(f"version {version} of the text form is unknown; known are {_VERSIONS}", start)

    def type_definition(self) -> TypeData:
        """Read the definition of an algebraic type."""
        external = self.accept_word("extern")
        self.expect_word("type")
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
        variable: Var = self.spanned(Var(name, self.type() if self.accept(":") else None), start)
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
        if self.accept_word("_"):
            return PatternWildcard()
        name = self.expect("name", "a pattern: _, %name, a constructor or a tuple of patterns")
        if name not in self.constructors:
            raise self.error(f"{name} is no constructor; known are {list(self.constructors)}", start)
        parts = self.series(")", lambda: self.nested(self.pattern)) if self.accept("(") else []
        try:
            return PatternConstructor(self.constructors[name], parts)
        except ArgumentError as error:
            raise self.error(str(error), start) from None

    def _block(self) -> Step:
        """Read bindings and a last expression, up to the end of the block."""
        lets: list[tuple[int, Var, Expr]] = []
        shadowed: list[tuple[str, Var | None]] = []
        while True:
            start, kind = self.at, self.kinds[self.at]
            if kind == "temp" and self.kinds[start + 1] == "=":
                self.at += 2
                self.temporaries[self.values[start]] = yield self._infix()
                self.expect(";")
            elif self.accept_word("free_var"):
                self.bind(self.parameter())
                self.accept(";")
            elif self.accept_word("let"):
                variable = self.parameter()
                shadowed.append(self.bind(variable))
                self.expect("=")
                lets.append((start, variable, (yield self._infix())))
                self.expect(";")
            else:
                body: Expr = yield self._infix()
                if not self.accept(";"):
                    break
                lets.append((start, Var("_"), body))
        self.restore(shadowed)
        for start, variable, value in reversed(lets):
            body = self.spanned(Let(variable, value, body), start)
        return body

    def _infix(self) -> Step:
        """Read operands that are joined by infix operators."""
        operand = yield self._call()
        if self.kinds[self.at] not in _OPERATORS:
            return operand
        operands: list[Expr] = [operand]
        pending: list[tuple[int, str, int]] = []
        while True:
            level, name = _OPERATORS.get(self.kinds[self.at], (0, ""))
            while pending and pending[-1][0] >= level:
                _, op, at = pending.pop()
                right = operands.pop()
                operands[-1] = self.spanned(Call(Op.get(op), (operands[-1], right)), at)
            if not name:
                return operands[0]
            pending.append((level, name, self.at))
            self.at += 1
            operands.append((yield self._call()))

    def _call(self) -> Step:
        """Read an atom and what is applied to it."""
        start = self.at
        leaf = node = self._leaf()
        if node is None:
            node = yield self._compound()
        while True:
            if self.accept("."):
                index = self.expect("number", "the index of a tuple's field")
                if not index.isdigit():
                    raise self.error(f"{index!r} is no index; write (t.0).1 for a field of a field", self.at - 1)
                node = self.spanned(TupleGetItem(node, int(index)), start)
            elif self.accept("("):
                node = yield self._application(node, start)
            elif node is leaf and type(node) is Constructor and not node.inputs:
                return self.spanned(Call(node, ()), start)  # Nil is Nil()
            else:
                return node

    def _leaf(self) -> Any:
        """Read a variable, name or constant. If something else comes next, read nothing and return None."""
        at = self.at
        kind, word = self.kinds[at], self.values[at]
        if kind == "temp" or kind == "local":
            known: dict[str, Any] = self.temporaries if kind == "temp" else self.variables
            node = known.get(word)
            if node is None:
                raise self.error(self._undefined(kind, word))
            self.at += 1
            return node
        if kind == "number" or kind == "-":
            return self.spanned(Constant(self.number(read_number)), at)
        if kind == "global":
            return self.global_var()
        if kind != "name" or word in _COMPOUND:
            return None
        if word in ("True", "False"):
            self.at += 1
            return self.spanned(Constant(word == "True"), at)
        if word == "meta":
            return self.meta()
        if word in self.constructors:
            self.at += 1
            return self.constructors[word]
        try:
            op = Op.get(word)
        except OperatorError as error:
            raise self.error(str(error)) from None
        self.at += 1
        return op

    def _undefined(self, kind: str, word: str) -> str:
        if kind == "temp":
            return f"{word} is not defined; expected a line {word} = ...; before this one"
        return f"%{word} is not defined; expected a parameter or let of that name, or a line free_var %{word};"

    def _compound(self) -> Step:
        """Read an atom that holds expressions."""
        start, word = self.at, self.values[self.at]
        if self.accept("("):
            return self._parenthesised(start)
        if self.accept("{"):
            return self._braced()
        if self.kinds[start] != "name" or (word not in _FORMS and word not in _REFS):
            raise self.unexpected("an expression")
        self.at += 1
        return self._reference(start, *_REFS[word]) if word in _REFS else _FORMS[word](self, start)

    def _braced(self) -> Step:
        body = yield self._block()
        self.expect("}")
        return body

    def _parenthesised(self, start: int) -> Step:
        fields: list[Expr] = []
        while not self.accept(")"):
            fields.append((yield self._block()))
            if self.ends(")"):
                if len(fields) == 1:
                    return fields[0]
                break
        return self.spanned(Tuple(fields), start)

    def _if(self, start: int) -> Step:
        self.expect("(")
        cond = yield self._block()
        self.expect(")")
        self.expect("{")
        true = yield self._braced()
        self.expect_word("else")
        self.expect("{")
        false = yield self._braced()
        return self.spanned(If(cond, true, false), start)

    def _match(self, start: int) -> Step:
        complete = not (self.kinds[self.at] == "unknown" and self.values[self.at] == "?")
        self.at += not complete
        data = self._leaf()  # match %x is match (%x)
        if data is None:
            self.expect("(")
            data = yield self._parenthesised(self.at - 1)
        self.expect("{")
        clauses: list[Clause] = []
        while not self.accept("}"):
            pattern = self.nested(self.pattern)
            shadowed = [self.bind(variable) for variable in pattern.variables]
            self.expect("=>")
            clauses.append(Clause(pattern, (yield self._infix())))
            self.restore(shadowed)
            if self.ends("}"):
                break
        return self.spanned(Match(data, clauses, complete), start)

    def _reference(self, start: int, node: type[Expr], count: int) -> Step:
        self.expect("(")
        children: list[Expr] = []
        for index in range(count):
            if index:
                self.expect(",")
            children.append((yield self._block()))
        self.expect(")")
        return self.spanned(node(*children), start)

    def _function_value(self, start: int) -> Step:
        """Read the rest of ``fn (...) {...}``, or of ``fn Nil``: a constructor without fields that is not called."""
        name = self.values[self.at] if self.kinds[self.at] == "name" else None
        if name in self.constructors:
            self.at += 1
            return self.constructors[name]
        return (yield self._function(start))

    def _function(self, start: int) -> Step:
        type_params, outside = self.type_params()
        self.expect("(")
        params: list[Var] = []
        attrs: dict[str, Any] = {}
        self.series(")", lambda: self._parameter_or_attribute(params, attrs))
        ty = self.type() if self.accept("->") else None
        shadowed = [self.bind(param) for param in params]
        self.expect("{")
        body = yield self._braced()
        self.restore(shadowed)
        self.type_names = outside
        return self.spanned(Function(params, body, ty, type_params, attrs), start)

    def _parameter_or_attribute(self, params: list[Var], attrs: dict[str, Any]) -> None:
        if self.kinds[self.at] == "local" and not attrs:
            params.append(self.parameter())
        elif self.is_attribute():
            attrs.update([self.attribute()])
        else:
            raise self.unexpected(_ATTRIBUTE if attrs else f"a parameter: %name, or {_ATTRIBUTE}")

    def _application(self, callee: Expr, start: int) -> Step:
        """Read the rest of a call after its opening parenthesis."""
        args: list[Expr] = []
        attrs: Attrs | None = None
        written: dict[str, Any] = {}
        while not self.accept(")"):
            if self.is_attribute():
                written.update([self.attribute()])
            elif written or attrs is not None:
                raise self.unexpected(_ATTRIBUTE)
            else:
                arg = self._simple_argument()
                if arg is None:
                    arg = yield self._block()
                if isinstance(arg, Attrs):
                    attrs = arg
                else:
                    args.append(arg)
            if self.ends(")"):
                break
        if attrs is None:
            attrs = self._call_attributes(callee, written, start)
        return self.spanned(Call(callee, args, attrs), start)

    def _simple_argument(self) -> Expr | None:
        """Read an argument of one word, which is the usual case; return None if the next one is not."""
        if self.kinds[self.at + 1] in (",", ")") and self.kinds[self.at] in ("temp", "local"):
            leaf: Expr = self._leaf()
            return leaf
        return None

    def _call_attributes(self, callee: Expr, written: dict[str, Any], start: int) -> Attrs | None:
        schema: Any = callee if isinstance(callee, Op) else None
        if "attrs_type_key" in written:
            key = written.pop("attrs_type_key")
            if key is None:
                return None
            schema = Op.find(key)
            if schema is None:
                raise self.error(f"attrs_type_key={key!r} must name the operator whose attributes these are", start)
        if schema is None:
            if written:
                raise self.error(
                    f"attributes {list(written)} of a call whose callee is no operator: expected attrs_type_key too",
                    start,
                )
            return None
        try:
            key = (schema, *((name, freeze(value)) for name, value in written.items()))
            if key not in self._attributes:
                self._attributes[key] = make_attrs(schema, written)
            return self._attributes[key]
        except OperatorError as error:
            raise self.error(str(error), start) from None


_FORMS: dict[str, Callable[[Parser, int], Step]] = {
    "fn": Parser._function_value,
    "if": Parser._if,
    "match": Parser._match,
}
_COMPOUND = frozenset({"else", "def", "let", "free_var", *_FORMS, *_REFS})
