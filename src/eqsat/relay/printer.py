"""The text form of expressions and modules, as Relay prints it; :mod:`eqsat.relay.parser` reads it back.

A node has a line of its own, ``%N = ...;``, unless it is the last expression of a block and is used once.
:mod:`eqsat.relay.blocks` decides where the lines go. The text says all but the attributes of modules, the ends of
spans, the type arguments of calls, and whether constants that print as literals are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from eqsat.brief import visible
from eqsat.collector import paused_gc
from eqsat.errors import ArgumentError
from eqsat.relay import printable
from eqsat.relay.adt import Constructor, Match, TypeData
from eqsat.relay.blocks import Block, Layout, Rope
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.literal import comment_text, name_text, scalar_text
from eqsat.relay.metadata import MetadataWriter, call_attributes
from eqsat.relay.module import IRModule
from eqsat.relay.references import RefCreate, RefRead, RefWrite
from eqsat.relay.trampoline import Step, run
from eqsat.relay.ty import Type, tuple_text, type_params_text


@dataclass(frozen=True)
class Style:
    """What differs between the versions of the text form.

    Attributes:
        free_var_end: What ends the line of a free variable.
        typed: The classes of nodes that have a comment with their type.
        meta_comments: How often a constant in the metadata section has such a comment.
        sort_attributes: Whether the attributes of a function are sorted by name.
        omitted: The last line of a text whose metadata section is left out.
    """

    free_var_end: str
    typed: tuple[type[Expr], ...]
    meta_comments: int
    sort_attributes: bool
    omitted: str


VERSIONS = {
    "0.0.5": Style(";", (Constant, Call, Var, Function, Tuple, TupleGetItem), 1, False, ""),
    "0.0.4": Style(
        "",
        (Constant, Call),
        2,
        True,
        "// meta data omitted. you can use show_meta_data=True to include meta data\n",
    ),
}


@printable.astext.register(printable.Printable)
def astext(
    obj: Expr | IRModule,
    show_meta_data: bool = True,
    annotate: Callable[[Expr], str] | None = None,
    version: str = "0.0.5",
) -> str:
    """Return the text of an expression or a module with its version line.

    Args:
        obj: The expression or module.
        show_meta_data: Whether values that have no literal are added as a metadata section. A text that refers to any
            cannot be parsed without.
        annotate: Gives the comment, with its comment marks, that is put after each node instead of its type.
        version: The version of the form, ``"0.0.5"`` or the older ``"0.0.4"``.

    Raises:
        ArgumentError: There is no such version, or a node has no text form.
    """
    return f'#[version = "{version}"]\n{_text(obj, show_meta_data, annotate, version)}'


@printable.pretty.register(printable.Printable)
def pretty(obj: Expr | IRModule, version: str = "0.0.5") -> str:
    """Return the text of an expression or a module without version line and metadata; see :func:`astext`."""
    return _text(obj, False, None, version)


@paused_gc()
def _text(obj: Expr | IRModule, show_meta_data: bool, annotate: Callable[[Expr], str] | None, version: str) -> str:
    if version not in VERSIONS:
        raise ArgumentError(f"version {version!r} of the text form is unknown; known are {list(VERSIONS)}")
    printer = _Printer(VERSIONS[version], annotate)
    text = printer.module(obj) if isinstance(obj, IRModule) else printer.expression(obj)
    if not printer.metadata:
        return text
    return f"{text}\n" + (f"#[metadata]\n{printer.metadata.text()}" if show_meta_data else printer.style.omitted)


class _Printer:
    """The state of one text. Names, numbers and metadata are shared by all functions of a module."""

    def __init__(self, style: Style, annotate: Callable[[Expr], str] | None):
        self.style = style
        self.annotate = annotate
        self.metadata = MetadataWriter()
        self.numbers = count()
        self.taken: dict[str, int] = {}
        self.types: dict[Type, str] = {}
        self.attributes: dict[object, list[str]] = {}

    def module(self, module: IRModule) -> str:
        functions = sorted((variable.name_hint, function) for variable, function in module.functions.items())
        texts = [_type_definition(definition) for definition in module.type_definitions.values()]
        texts += [self.definition(name, function) for name, function in functions]
        return "\n".join(f"{text}\n" for text in texts)

    def definition(self, name: str, function: Function) -> str:
        self._start(function)
        run(self._function(function, f"def @{name_text(name)}"))
        return _flat(self.text[function])

    def expression(self, root: Expr) -> str:
        self._start(root)
        run(self._children((root,)))
        last = self._use(root, last=True)
        return _flat(_lines([*self.layout.top.lines, last], "\n"))

    def _start(self, root: Expr) -> None:
        self.layout = Layout(root)
        self.text: dict[Expr, Any] = {}
        self.free: dict[Var, str] = {}
        self.lined: set[Expr] = set()

    def _use(self, node: Expr, last: bool = False) -> Any:
        """Return what stands for a node where it is used, a string unless that is as the ``last`` of a block."""
        text = self.text[node]
        kind = type(node)
        if kind is Var:
            if node in self.free:
                line = f"free_var {self.free.pop(node)}{self.style.free_var_end}"
                self.layout.place[node].lines.append(line)
            return text
        if kind in _NAMED or node in self.lined:
            return text
        comment = self._comment(node)
        if kind is Constant:
            return text + comment
        if last and self.layout.is_unique(node):
            return [text, comment]
        name = self.text[node] = f"%{next(self.numbers)}"
        definition: Rope = f"{name} = {text}{comment};" if isinstance(text, str) else [f"{name} = ", text, comment, ";"]
        self.layout.place[node].lines.append(definition)
        self.lined.add(node)
        return name

    def _comment(self, node: Expr) -> str:
        if self.annotate is not None:
            return self.annotate(node)
        ty, span = node._checked_type, node.span
        if (ty is None and span is None) or not isinstance(node, self.style.typed):
            return ""
        told = [] if ty is None else [f"ty={self._type(ty)}"]
        told += [] if span is None else [f"span={comment_text(str(span))}"]
        return f" /* {' '.join(told)} */"

    def _type(self, ty: Type) -> str:
        if ty not in self.types:
            self.types[ty] = str(ty)
        return self.types[ty]

    def _define(self, variable: Var) -> str:
        """Give a variable its name; return the text of the place where it is bound."""
        name = self.text[variable] = f"%{name_text(self._unique(variable.name_hint))}"
        declared = "" if variable.type_annotation is None else f": {self._type(variable.type_annotation)}"
        return name + declared + self._comment(variable)

    def _unique(self, hint: str) -> str:
        name = base = hint if hint[:1].isalpha() else f"v{hint}"
        while name in self.taken:
            self.taken[base] += 1
            name = f"{base}{self.taken[base]}"
        self.taken[name] = 0
        return name

    def _children(self, nodes: Sequence[Expr]) -> Step:
        """Find what stands for each node at its first use, and put it into ``text``."""
        for node in nodes:
            if node in self.text:
                continue
            kind = type(node)
            if kind in _LEAVES:
                self.text[node] = _LEAVES[kind](self, node)
            elif kind in _RULES:
                yield _RULES[kind](self, node)
            else:
                raise ArgumentError(f"the text form has no {kind.__name__} nodes")

    def _var(self, node: Var) -> Any:
        self.free[node] = self._define(node)
        return self.text[node]

    def _constant(self, node: Constant) -> str:
        literal = scalar_text(node.data)
        if literal is not None:
            return literal
        return self.metadata.reference(node) + self._comment(node) * (self.style.meta_comments - 1)

    def _call(self, call: Call) -> Step:
        yield from self._children((call.op, *call.args))
        inside = [self._use(arg) for arg in call.args]
        inside += self._attributes(call)
        if type(call.op) is not Constructor:
            self.text[call] = f"{self._use(call.op)}({', '.join(inside)})"
        else:
            name = call.op.name_hint
            self.text[call] = f"{name}({', '.join(inside)})" if inside or call.op.inputs else name

    def _attributes(self, call: Call) -> list[str]:
        """Return the text of a call's attributes, which is made once for all calls that have the same."""
        if call.attrs is None:
            return call_attributes(call, self.metadata)
        key = (call.op, call.attrs.key)
        known = self.attributes.get(key)
        if known is None:
            known = call_attributes(call, self.metadata)
            if not any("meta[" in text for text in known):  # such a reference is to one object
                self.attributes[key] = known
        return known

    def _tuple(self, node: Tuple) -> Step:
        yield from self._children(node.fields)
        self.text[node] = tuple_text([self._use(field) for field in node.fields])

    def _tuple_get_item(self, node: TupleGetItem) -> Step:
        yield from self._children((node.tuple_value,))
        value = self._use(node.tuple_value)
        if isinstance(node.tuple_value, Constant):  # 1.0 would be a number
            value = f"({value})"
        self.text[node] = f"{value}.{node.index}"

    def _ref(self, node: Expr) -> Step:
        yield from self._children(node.children())
        self.text[node] = f"{node.kind}({', '.join([self._use(child) for child in node.children()])})"

    def _if(self, node: If) -> Step:
        yield from self._children((node.cond,))
        cond = self._use(node.cond)
        true, false = self.layout.inner[node]
        then = yield self._body(node.true_branch, true)
        otherwise = yield self._body(node.false_branch, false)
        self.text[node] = [f"if ({cond}) ", then, " else ", otherwise]

    def _function(self, function: Function, head: str = "fn ") -> Step:
        inside = [self._define(param) for param in function.params]
        names = sorted(function.attrs) if self.style.sort_attributes else function.attrs
        inside += [self.metadata.named(name, function.attrs[name]) for name in names]
        result = "" if function.ret_type is None else f"-> {self._type(function.ret_type)} "
        body = yield self._body(function.body, *self.layout.inner[function])
        generic = type_params_text(function.type_params)
        self.text[function] = [f"{head}{generic}({', '.join(inside)}) {result}", body]

    def _match(self, node: Match) -> Step:
        yield from self._children((node.data,))
        data = self._use(node.data)
        text: list[Rope] = [f"match{'' if node.complete else '?'} ({data}) {{"]
        for clause, block in zip(node.clauses, self.layout.inner.get(node, ()), strict=True):
            head = clause.lhs.text(self._define)
            newline = block.newline[:-2]
            text += [newline, f"{head} => ", (yield self._body(clause.rhs, block)), ","]
        self.text[node] = [*text, "\n" + " " * self.layout.place[node].indent, "}"]

    def _body(self, last: Expr, block: Block) -> Step:
        """Return a block in braces."""
        yield from self._children((last,))
        result = self._use(last, last=True)
        newline = block.newline
        return ["{", newline, *_lines([*block.lines, result], newline), newline[:-2], "}"]

    def _let(self, let: Let) -> Step:
        """Print a chain of lets, in parentheses unless it ends a block."""
        in_place = self.layout.is_last(let)
        outer = self.layout.inner[let][0]
        parts: list[list[Rope]] = [] if in_place else [outer.lines]
        node: Expr = let
        while isinstance(node, Let) and (node is let or self.layout.is_last(node)):
            variable = self._define(node.var)
            yield from self._children((node.value,))
            parts += [[[f"let {variable} = ", self._use(node.value, last=True), ";"]], self.layout.inner[node][1].lines]
            node = node.body
        yield from self._children((node,))
        result = self._use(node, last=True)
        newline = outer.newline
        text = _lines([*chain.from_iterable(parts), result], newline)
        self.text[let] = text if in_place else ["(", newline, *text, newline[:-2], ")"]


def _type_definition(definition: TypeData) -> str:
    head = f"type {definition.header}{type_params_text(definition.type_vars)}"
    if not definition.constructors:
        return f"extern {head}"
    lines = []
    for constructor in definition.constructors:
        fields = f"({', '.join(map(str, constructor.inputs))})" if constructor.inputs else ""
        lines.append(f"  {constructor.name_hint}{fields},\n")
    return f"{head} {{\n{''.join(lines)}}}"


def _lines(lines: list[Rope], newline: str) -> list[Rope]:
    """Return the lines with ``newline`` between them."""
    joined: list[Rope] = [newline] * (2 * len(lines) - 1)
    joined[::2] = lines
    return joined


def _flat(rope: Rope) -> str:
    parts: list[str] = []
    stack = [rope]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            parts.append(top)
        else:
            stack.extend(reversed(top))
    return "".join(parts)


_NAMED = frozenset({Constructor, GlobalVar, Op})
"""The classes of nodes whose name stands for them wherever they are used."""

_LEAVES: dict[type[Expr], Callable[[_Printer, Any], str]] = {
    Constant: _Printer._constant,
    Constructor: lambda printer, node: node.name_hint if node.inputs else f"fn {node.name_hint}",
    GlobalVar: lambda printer, node: f"@{name_text(node.name_hint)}",
    Op: lambda printer, node: visible(node.name),
    Var: _Printer._var,
}

_RULES: dict[type[Expr], Callable[[_Printer, Any], Step]] = {
    Call: _Printer._call,
    Function: _Printer._function,
    If: _Printer._if,
    Let: _Printer._let,
    Match: _Printer._match,
    RefCreate: _Printer._ref,
    RefRead: _Printer._ref,
    RefWrite: _Printer._ref,
    Tuple: _Printer._tuple,
    TupleGetItem: _Printer._tuple_get_item,
}
