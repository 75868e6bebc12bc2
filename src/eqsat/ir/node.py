"""Nodes made by the name of their kind, and nodes as JSON."""

from __future__ import annotations

import json
from typing import Any

from eqsat.errors import ArgumentError, ParseError
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Expr, Function, Op, Tuple
from eqsat.relay.module import IRModule
from eqsat.relay.op.op import make_attrs
from eqsat.relay.parser import parse, parse_expr
from eqsat.relay.ty import IntImm

_DICT = "DictAttrs"
_TVM_ATTRS = "relay.attrs."
_MODULE, _EXPR, _VALUE = "module", "expression", "value"


def make_node(type_key: str, **kwargs: Any) -> Any:
    """Return a node of a kind that is given by name.

    Args:
        type_key: ``"DictAttrs"`` for attributes of no operator; the name of an operator, such as ``"nn.conv2d"``, or
            TVM's name of the class of its attributes, such as ``"relay.attrs.Conv2DAttrs"``, for the attributes of a
            call of it; or ``"IntImm"``.
        kwargs: The fields. Attributes that are not given have their defaults.

    Raises:
        ArgumentError: There is no such kind of node.
        OperatorError: The attributes are not those of the operator.
    """
    if type_key == _DICT:
        return Attrs(kwargs)
    if type_key == "IntImm":
        return IntImm(**kwargs)
    op = Op.find(type_key) or _operator_of(type_key)
    if op is None:
        raise ArgumentError(
            f"make_node knows {_DICT!r}, 'IntImm', names of operators and TVM's names of their attributes, such as"
            f" 'relay.attrs.Conv2DAttrs', but no {type_key!r}"
        )
    return make_attrs(op, kwargs) or Attrs({}, op.name)


def _operator_of(type_key: str) -> Op | None:
    """The operator after which a class of attributes is named: Conv2DAttrs after nn.conv2d. None if it is not one."""
    if not type_key.startswith(_TVM_ATTRS):
        return None
    wanted = type_key.removeprefix(_TVM_ATTRS).removesuffix("Attrs").lower()
    found = [name for name in Op.list_op_names() if name.rpartition(".")[2].replace("_", "") == wanted]
    kept = [name for name in found if name.removeprefix("nn.").count(".") == 0]  # and not dyn.reshape
    return Op.get(kept[0]) if len(kept) == 1 else None


def save_json(node: Any) -> str:
    """Return a module, an expression, a type, attributes or an array as JSON, which holds its text form.

    Raises:
        ArgumentError: ``node`` is none of these.
    """
    if isinstance(node, IRModule):
        kind, text = _MODULE, node.astext()
    elif isinstance(node, Expr):
        kind, text = _EXPR, node.astext()
    else:
        kind, text = _VALUE, Function((), Tuple(()), attrs={_VALUE: node}).astext()
        try:
            parse_expr(text)
        except ParseError as error:
            raise ArgumentError(f"a {type(node).__name__} cannot be saved: {error}") from None
    return json.dumps({"eqsat": kind, "text": text}, ensure_ascii=False)


def load_json(json_str: str) -> Any:
    """Return what :func:`save_json` has made JSON of.

    Types are inferred in a module only. Spans, and which of several equal types or attributes are one object, are not
    kept.

    Raises:
        ParseError: The text is not what ``save_json`` gives.
    """
    try:
        saved = json.loads(json_str)
        kind, text = saved["eqsat"], saved["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"this is not JSON that save_json has made: {error}") from None
    if kind == _MODULE:
        return parse(text, source_name=None)
    expr: Any = parse_expr(text, source_name=None)
    return expr.attrs[_VALUE] if kind == _VALUE else expr
