"""How ``has_attr`` compares a value in a pattern with an attribute of a node.

The value in the pattern has a kind of its own (int, bool, float, string, sequence); which kinds a stored
attribute accepts follows from the kind that the operator's schema declares for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqsat.errors import PatternError
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Expr, Function, Op
from eqsat.relay.structural import values_equal


def has_attributes(expr: Expr, wanted: Attrs) -> bool:
    """Whether ``expr`` is an operator, call or function with all the attribute values ``wanted``.

    Raises:
        PatternError: a value cannot be compared with what the node holds: a sequence with a scalar, any
            value but a sequence with an attribute that is not set, a number with a dtype.
    """
    if isinstance(expr, Call):
        return _call_has(expr, wanted)
    if isinstance(expr, Op):
        held = [_op_has(expr, name, value) for name, value in wanted.items()]
        return all(held)
    if isinstance(expr, Function):
        return all(name in expr.attrs and _function_equal(value, expr.attrs[name]) for name, value in wanted.items())
    return False


def _op_has(op: Op, name: str, value: Any) -> bool:
    stored = op.attr_map.get(name)
    return stored is not None and _equal(value, stored, "int" if isinstance(stored, int) else "any", name, op)


def _call_has(call: Call, wanted: Attrs) -> bool:
    # an operator without attributes builds calls whose attributes are undefined
    held: Mapping[str, Any] = call.attrs or {}
    kinds = {field.name: field.kind for field in call.op.fields} if isinstance(call.op, Op) else {}
    return all(
        name in held and _equal(value, held[name], kinds.get(name, "any"), name, call) for name, value in wanted.items()
    )


def _function_equal(value: Any, stored: Any) -> bool:
    # Relay boxes floats stored on functions, but not those of patterns: they never compare equal
    return not isinstance(value, float) and values_equal(value, stored)


def _equal(value: Any, stored: Any, kind: str, name: str, owner: Expr) -> bool:
    if isinstance(stored, tuple):
        return (
            isinstance(value, tuple)
            and len(value) == len(stored)
            and all(_equal(v, s, "any", name, owner) for v, s in zip(value, stored, strict=True))
        )
    if isinstance(value, tuple):
        if stored is None:
            return False
        raise PatternError(f"has_attr: {name}={value!r} cannot be compared with {stored!r} of {_owner(owner)}")
    if stored is None:
        raise PatternError(f"has_attr: {_owner(owner)} does not set {name}, nothing to compare {value!r} with")
    if kind == "dtype":
        if not isinstance(value, str):
            raise PatternError(f"has_attr: {name} of {_owner(owner)} is a dtype: give its name, not {value!r}")
        return value == str(stored)
    if kind in ("int", "bool"):
        return isinstance(value, int) and int(value) == int(stored)
    if kind == "float":
        return isinstance(value, float) and value == float(stored)
    return values_equal(value, stored)


def _owner(owner: Expr) -> str:
    operator = owner.op if isinstance(owner, Call) else owner
    return operator.name if isinstance(operator, Op) else f"a {type(operator).__name__}"
