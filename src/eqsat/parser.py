"""Reading the text form, under the name TVM's users know: ``eqsat.parser.parse(text)``."""

from eqsat.relay.parser import Span, fromtext, parse, parse_expr

__all__ = ["Span", "fromtext", "parse", "parse_expr"]
