"""Parsing types and attribute values: small, so plain recursion with a bound on the nesting."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any
from typing import TypeVar as Parameter

from eqsat.errors import ParseError
from eqsat.relay.expr import GlobalVar
from eqsat.relay.literal import read_string, read_value
from eqsat.relay.metadata import decode
from eqsat.relay.parser.tokens import Tokens
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import (
    Dim,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

MAX_NESTING = 100
"""How deep types and attribute values may nest; expressions nest without bound."""

_DTYPE = re.compile(r"(?:u?int|b?float|complex)\d+\w*|bool")
_CONSTANTS = {"None": None, "nullptr": None, "True": True, "False": False}
_T = Parameter("_T")


class Reader:
    """Reads words in order; ``at`` is the index of the next one.

    ``outer`` is the reader of the program, when ``tokens`` are a value inside its metadata section.
    """

    def __init__(self, tokens: Tokens, outer: Reader | None = None):
        self.tokens = tokens
        self.kinds, self.values = tokens.kinds, tokens.values
        self.at = 0
        self.type_names: dict[str, TypeVar | GlobalTypeVar] = {} if outer is None else outer.type_names
        self.globals: dict[str, GlobalVar] = {} if outer is None else outer.globals
        self._metadata: dict[str, Any] = tokens.metadata if outer is None else outer._metadata
        self.decoded: dict[tuple[str, int], Any] = {} if outer is None else outer.decoded
        self._nesting: int = 0 if outer is None else outer._nesting

    def error(self, message: str, at: int | None = None) -> ParseError:
        """An error at word ``at``, the next one by default."""
        return self.tokens.error(self.tokens.starts[self.at if at is None else at], message)

    def unexpected(self, expected: str) -> ParseError:
        """The error that the next word is not ``expected``."""
        kind, value = self.kinds[self.at], self.values[self.at]
        found = "the end of the text" if kind == "end" else f"%{value}" if kind == "local" else repr(value)
        return self.error(f"expected {expected}, found {found}")

    def accept(self, kind: str) -> bool:
        """Whether the next word is of that kind; if so, step over it."""
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def expect(self, kind: str, what: str = "") -> str:
        """Step over a word of that kind and give its value."""
        if self.kinds[self.at] != kind:
            raise self.unexpected(what or repr(kind))
        self.at += 1
        return self.values[self.at - 1]

    def next_is(self, word: str) -> bool:
        """Whether the next word is the name ``word``."""
        return self.kinds[self.at] == "name" and self.values[self.at] == word

    def accept_word(self, word: str) -> bool:
        """Whether the next word is the name ``word``; if so, step over it."""
        found = self.next_is(word)
        self.at += found
        return found

    def expect_word(self, word: str, what: str = "") -> None:
        """Step over the name ``word``."""
        if not self.accept_word(word):
            raise self.unexpected(what or repr(word))

    def series(self, close: str, item: Callable[[], _T]) -> list[_T]:
        """Items separated by commas, a last comma allowed, up to the word ``close``, which is stepped over."""
        items: list[_T] = []
        while not self.accept(close):
            items.append(item())
            if self.ends(close):
                break
        return items

    def ends(self, close: str) -> bool:
        """Step over what follows an item of a series: a comma, or the word ``close``, which ends it."""
        if self.accept(","):
            return False
        self.expect(close, f"',' or {close!r}")
        return True

    def nested(self, read: Callable[[], _T]) -> _T:
        """What ``read`` gives; counts the nesting."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self.error(f"types and attribute values may nest {MAX_NESTING} deep at most")
        result = read()
        self._nesting -= 1
        return result

    def number(self, read: Callable[[str], _T]) -> _T:
        """What ``read`` makes of a number with its signs, of which several cancel each other."""
        start = self.at
        while self.accept("-"):
            pass
        sign = "-" * ((self.at - start) % 2)
        text = sign + self.expect("number", "a number")
        try:
            return read(text)
        except ValueError as error:
            raise self.error(str(error), start) from None

    # types

    def type(self) -> Type:
        """A type."""
        return self.nested(self._type)

    def _type(self) -> Type:
        if self.accept("("):
            return TupleType(self.series(")", self.type))
        if self.accept_word("Tensor"):
            return self._tensor()
        if self.accept_word("fn"):
            return self._function_type()
        if self.accept_word("ref"):
            self.expect("(")
            value = self.type()
            self.expect(")")
            return RefType(value)
        if self.accept_word("_"):
            return IncompleteType()
        name = self.type_names.get(self.values[self.at]) if self.kinds[self.at] == "name" else None
        if name is None:
            return TensorType((), self._dtype())
        self.at += 1
        if isinstance(name, TypeVar):
            return name
        return TypeCall(name, self.series("]", self.type) if self.accept("[") else ())

    def _function_type(self) -> FuncType:
        variables, shadowed = self.type_params()
        self.expect("(")
        parameters = self.series(")", self.type)
        self.expect("->")
        result = FuncType(parameters, self.type(), variables)
        self.type_names = shadowed
        return result

    def type_params(self) -> tuple[list[TypeVar], dict[str, TypeVar | GlobalTypeVar]]:
        """Type parameters in brackets, if any follow; also the names that were known before, to go back to."""
        before = self.type_names
        variables: list[TypeVar] = []
        if self.accept("["):
            variables = self.series("]", lambda: TypeVar(self.expect("name", "the name of a type parameter")))
            self.type_names = {**before, **{variable.name_hint: variable for variable in variables}}
        return variables, before

    def _tensor(self) -> TensorType:
        self.expect("[")
        self.expect("(")
        shape = self.series(")", self._dim)
        self.expect(",")
        dtype = self._dtype()
        self.expect("]")
        return TensorType(shape, dtype)

    def _dtype(self) -> str:
        if self.kinds[self.at] != "name" or not _DTYPE.fullmatch(self.values[self.at]):
            raise self.unexpected("a type such as float32 or Tensor[(1, 2), float32]")
        self.at += 1
        return self.values[self.at - 1]

    def _dim(self) -> Dim:
        if self.kinds[self.at] == "unknown":
            name = self.expect("unknown")[1:]
            return AnyDim((read_string(name) if name.startswith('"') else name) or None)
        start = self.at
        value = self.number(read_value)
        if not isinstance(value, int) or value < 0:
            raise self.error("a dimension is an integer of at least 0, or ?", start)
        return value

    # attributes

    def is_attribute(self) -> bool:
        """Whether ``key =`` comes next."""
        return self.kinds[self.at + 1] == "=" and self.kinds[self.at] in ("name", "string")

    def attribute(self) -> tuple[str, Any]:
        """``key = value``."""
        if not self.is_attribute():
            raise self.unexpected("an attribute: key=value")
        key = self.values[self.at]
        self.at += 2
        return key, self.value()

    def value(self) -> Any:
        """An attribute's value."""
        return self.nested(self._value)

    def _value(self) -> Any:
        kind, word = self.kinds[self.at], self.values[self.at]
        if kind == "number" or kind == "-":
            return self.number(read_value)
        if kind == "string":
            self.at += 1
            return word
        if kind == "global":
            return self.global_var()
        if self.accept("["):
            return tuple(self.series("]", self.value))
        if self.accept("("):
            fields = self.series(")", self.value)
            return fields[0] if len(fields) == 1 and self.kinds[self.at - 2] != "," else tuple(fields)
        if kind == "name" and word in _CONSTANTS:
            self.at += 1
            return _CONSTANTS[word]
        if self.next_is("meta"):
            return self.meta()
        raise self.unexpected("a value: a number, string, True, False, None, [...], @name or meta[...]")

    def global_var(self) -> GlobalVar:
        """A reference to a function of the module: one object per name."""
        name = self.expect("global", "the name of a function: @name")
        return self.globals.setdefault(name, GlobalVar(name))

    def meta(self) -> Any:
        """``meta[kind][i]``: the value in the metadata section; the same object each time."""
        start = self.at
        self.at += 1
        self.expect("[")
        kind = self.expect("name", "the kind of a metadata entry")
        self.expect("]")
        self.expect("[")
        index = self.number(read_value)
        self.expect("]")
        if isinstance(index, int) and (kind, index) in self.decoded:
            return self.decoded[kind, index]
        entries = self._metadata.get(kind)
        if not isinstance(entries, list) or not isinstance(index, int) or not 0 <= index < len(entries):
            raise self.error(
                f"meta[{kind}][{index}] is not in the metadata section; print with astext(), not str(), to have one",
                start,
            )
        value = self.decoded[kind, index] = self._decode(kind, index, entries[index], start)
        return value

    def _decode(self, kind: str, index: int, entry: Any, start: int) -> Any:
        try:
            read_type = partial(self._whole, Reader.type)
            return self.nested(lambda: decode(kind, entry, partial(self._whole, Reader.value), read_type))
        except ValueError as error:
            raise self.error(f"metadata entry {kind}[{index}] {error}", start) from None

    def _whole(self, read: Callable[[Reader], _T], text: str) -> _T:
        reader = Reader(Tokens(text), self)
        result = read(reader)
        reader.expect("end", "the end of the entry")
        return result
