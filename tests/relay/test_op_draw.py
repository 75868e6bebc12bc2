"""Random calls of operators: most of what is drawn is a call of the operator, and suits what is known of it."""

from __future__ import annotations

import random

import pytest

from eqsat import relay
from eqsat.errors import EqsatError, RuleError
from eqsat.relay.expr import Call, Constant, Op
from eqsat.relay.infer import infer_type
from eqsat.relay.op.draw import Draw, can_complete, complete
from eqsat.relay.op.op import make_attrs, operators
from eqsat.relay.traits import Trait

DRAWN = [op.name for op in operators(Trait.NONE) if op.kernel is not None and can_complete(op)]


def drawn_call(op: Op, draw: Draw) -> Call | None:
    """A typed call of ``op``; None where what was drawn does not type-check."""
    try:
        types, attrs = complete(draw, op, [None] * len(op.arguments or ()), {})
        args = [ty if isinstance(ty, Constant) else relay.var("x", ty) for ty in types]
        call = Call(op, args, make_attrs(op, attrs))
        infer_type(call)
    except EqsatError:
        return None
    return call


@pytest.mark.parametrize("name", DRAWN)
def test_calls_of_every_operator_with_an_entry_are_drawn(name: str) -> None:
    rng = random.Random(name)
    calls = [drawn_call(Op.get(name), Draw(rng)) for _ in range(60)]
    assert sum(call is not None for call in calls) >= 12


@pytest.mark.parametrize("trait", [Trait.ELEMENTWISE, Trait.VIEW])
def test_an_operator_whose_traits_rules_ask_for_can_be_drawn(trait: Trait) -> None:
    assert [op.name for arity in (1, 2) for op in operators(trait, arity) if not can_complete(op)] == []


def test_a_draw_keeps_what_is_known() -> None:
    known = relay.TensorType((2, 3), "float32")
    types, _ = complete(Draw(random.Random(0)), Op.get("add"), [known, None], {})
    assert types[0] == known


def test_an_operator_without_an_entry_is_named() -> None:
    with pytest.raises(RuleError, match="no way is known to draw arguments of sort"):
        complete(Draw(random.Random(0)), Op.get("sort"), [None], {})
