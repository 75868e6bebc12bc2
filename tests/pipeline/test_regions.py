"""Regions are plain data: what they hold outlives the engine, and holds no part of it."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import Engine
from eqsat.egraph.runner import Runner


def reachable(root: object) -> list[object]:
    """Everything that an object keeps alive, modules and classes left out."""
    found: dict[int, object] = {id(root): root}
    todo: list[Any] = [root]
    while todo:
        held = todo.pop()
        if isinstance(held, FunctionType):  # not all that its module holds
            below: list[object] = [held.__closure__, held.__defaults__, held.__kwdefaults__]
        else:
            below = gc.get_referents(held)
        new = {id(each): each for each in below if not isinstance(each, (type, ModuleType)) and id(each) not in found}
        found |= new
        todo += new.values()
    return list(found.values())


@pytest.mark.parametrize("explain", [False, True])
def test_no_engine_is_reachable_from_a_saturation(explain: bool) -> None:
    x = relay.var("x", shape=(4, 2))
    weight = relay.const(np.asarray([0.3, 0.7], "f4"))
    saturation = eqsat.saturate(relay.nn.relu(x * weight * weight), rules.default, explain=explain)
    held = reachable(saturation)
    assert any(each is weight for each in held)
    assert not [each for each in held if isinstance(each, (EGraph, Engine, Runner))]
    assert not [each for each in held if type(each).__module__.startswith("egglog")]
