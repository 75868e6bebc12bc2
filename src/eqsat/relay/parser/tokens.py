"""The words of the text form and where they stand."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, NamedTuple

from eqsat.errors import ParseError
from eqsat.relay.literal import KEY, NAME, NUMBER, read_string

_STRING = r'"(?:[^"\\]|\\.)*"'
_SKIP = r"(?:\s++|//[^\n]*+|/\*[^*/]*+(?:(?:\*(?!/)|/(?!\*))[^*/]*+)*+\*/)*+"  # comments without nested ones
_TOKEN = re.compile(
    rf"""{_SKIP}(?:
      (?P<temp>%\d+)
    | (?P<local>%(?:{NAME}|{_STRING}))
    | (?P<global>@(?:{NAME}|{_STRING}))
    | (?P<number>{NUMBER})
    | (?P<name>{KEY})
    | (?P<mark>->|=>|[=<>!]=|/(?![*/])|[-+*=<>()\[\]{{}},;:.])
    | (?P<string>{_STRING})
    | (?P<unknown>\?(?:[A-Za-z_]\w*|{_STRING})?)
    | (?P<version>\#\[version\s*=\s*"[^"\n]*"\])
    | (?P<metadata>\#\[metadata\])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


class Span(NamedTuple):
    """Where in which text a node was written; lines and columns count from 1."""

    source_name: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source_name}:{self.line}:{self.column}"


class Tokens:
    """The words of ``text``, three lists in parallel.

    Attributes:
        kinds: ``temp`` (%0), ``local`` (%x), ``global`` (@f), ``number``, ``name``, ``string``, ``unknown`` (a
            dimension ``?``), ``version``, ``end``, or the punctuation mark itself.
        values: the word; of variables the name, of strings the contents.
        starts: the offset of each in ``text``.
        metadata: the JSON of the metadata section, empty when there is none.
    """

    def __init__(self, text: str):
        self.text = text
        self.kinds: list[str] = []
        self.values: list[str] = []
        self.starts: list[int] = []
        self.metadata: dict[str, Any] = {}
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._read()

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, from 1."""
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def error(self, offset: int, message: str) -> ParseError:
        """An error at ``offset`` that shows the line."""
        line, column = self.position(offset)
        begin = self._lines[line - 1]
        shown = self.text[begin : begin + column + 60].split("\n")[0]
        cut = max(0, column - 80)
        return ParseError(f"line {line}, column {column}: {message}\n  {shown[cut:]}\n  {' ' * (column - 1 - cut)}^")

    def _read(self) -> None:
        text, offset = self.text, 0
        match_at, kinds, values, starts = _TOKEN.match, self.kinds, self.values, self.starts
        kind = ""
        while kind != "end":
            match = match_at(text, offset)
            if match is None:
                offset = self._after_comment(offset)
                continue
            kind = match.lastgroup or ""
            value = match[kind]
            offset = match.end()
            start = offset - len(value)
            if kind == "mark":
                kind = value
            elif kind == "local" or kind == "global":
                value = read_string(value[1:]) if value[1] == '"' else value[1:]
            elif kind == "string":
                value = read_string(value)
            elif kind == "metadata":
                self._read_metadata(offset)
                kind, offset = "end", len(text)
            kinds.append(kind)
            values.append(value)
            starts.append(start)
        # so that looking one word ahead is always possible
        kinds.append("end")
        values.append("")
        starts.append(len(text))

    def _after_comment(self, offset: int) -> int:
        """The offset after a comment that holds others, at the first word that is none."""
        skipped = re.compile(_SKIP).match(self.text, offset)
        start = offset if skipped is None else skipped.end()
        if not self.text.startswith("/*", start):
            raise self.error(start, f"{self.text[start]!r} begins no word of the text form")
        depth = 0
        for mark in _COMMENT_MARK.finditer(self.text, start):
            depth += 1 if mark[0] == "/*" else -1
            if depth == 0:
                return mark.end()
        raise self.error(start, "this comment is not closed: expected */")

    def _read_metadata(self, offset: int) -> None:
        try:
            self.metadata = json.loads(self.text[offset:])
        except json.JSONDecodeError as error:
            raise self.error(offset + error.pos, f"the metadata section is not JSON: {error.msg}") from None
        if not isinstance(self.metadata, dict):
            raise self.error(offset, "the metadata section must be a JSON object")
