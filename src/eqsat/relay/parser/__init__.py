"""Reading the text form: the grammar is Relay's, forms 0.0.4 and 0.0.5.

Beyond it: names in quotes (``%"conv.weight"``, ``@"a b"``, ``"key"=1``), escapes in strings, ``%x: ref(T)``,
named dimensions ``?n``, attributes with a dotted name in any place, ``attrs_type_key=None`` for a call of an operator
without attributes, and ``fn Nil`` for a constructor without fields that is not called, since ``Nil`` is ``Nil()``. A
match may stand wherever an expression may. Not read: virtual devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.collector import paused_gc
from eqsat.errors import ArgumentError
from eqsat.relay.expr import Expr
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.parser.parser import Parser
from eqsat.relay.parser.tokens import Span

__all__ = ["Span", "fromtext", "parse", "parse_expr"]

SOURCE_NAME = "from_string"


@paused_gc()
def parse(
    source: str,
    source_name: str | None = SOURCE_NAME,
    init_module: IRModule | None = None,
    init_meta_table: Mapping[str, Sequence[Any]] | None = None,
) -> IRModule:
    """Read a module and infer its types.

    Args:
        source: The text, with its version line.
        source_name: The name of the source in the spans of the nodes, which print as comments; None for no spans.
        init_module: A module whose functions and types the text uses; the result contains them too.
        init_meta_table: Kind -> values, to which the text refers as ``meta[kind][i]``.

    Raises:
        ParseError: The text is malformed; the message says the line, the column, what was expected and what was found.
        TypeCheckError: The module is not well typed, or types cannot be inferred.
    """
    parser = _parser(source, source_name)
    parser.assume(init_module or IRModule(), init_meta_table or {})
    parser.version(required=True)
    return infer_module(parser.module())


@paused_gc()
def parse_expr(source: str, source_name: str | None = SOURCE_NAME) -> Expr:
    """Read one expression; types are not inferred and the version line may be missing. See :func:`parse`."""
    parser = _parser(source, source_name)
    parser.version(required=False)
    return parser.whole_expression()


def fromtext(source: str, source_name: str | None = SOURCE_NAME) -> Expr | IRModule:
    """Read a module, as :func:`parse` does, or an expression, whichever the text contains."""
    parser = _parser(source, source_name)
    parser.version(required=False)
    is_module = any(map(parser.next_is, ("def", "type", "extern")))
    return parse(source, source_name) if is_module else parse_expr(source, source_name)


def _parser(source: str, source_name: str | None) -> Parser:
    if not isinstance(source, str):
        raise ArgumentError(f"the text to parse must be a string, not {source!r}")
    return Parser(source, source_name)
