"""The registry says of each operator the traits that its kernel has, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat import relay
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.op.op import make_attrs, operators
from eqsat.relay.traits import Trait

from .op_cases import CASES


def named(test: Callable[[str], bool]) -> list[str]:
    return list(filter(test, CASES))


NOT_SAID = {
    # passes read marks: they are no computation at all
    **dict.fromkeys(named(lambda name: name.startswith("annotation.")), Trait.ELEMENTWISE | Trait.VIEW),
    # the second argument only lends its shape or dtype
    **dict.fromkeys(named(lambda name: name.endswith("_like")), Trait.ELEMENTWISE),
    # scales and zero points are no elements of a tensor, and may run along an axis
    **dict.fromkeys(named(lambda name: name.startswith("qnn.")), Trait.ELEMENTWISE),
    **dict.fromkeys(["device_copy", "on_device"], Trait.ELEMENTWISE | Trait.VIEW),
    "copy": Trait.VIEW,  # it is asked for in order to have the elements twice
    "reinterpret": Trait.ELEMENTWISE,  # it reads bits, not numbers
}
"""What holds of operators without being said."""


def same(left: Any, right: Any) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


def is_elementwise(f: Callable[..., Any], arguments: list[Any]) -> bool:
    """f of the elements at some places is what f has at these places."""
    places = np.random.default_rng(0).permutation(f(*arguments).size)
    spread = [array.reshape(-1)[places] for array in np.broadcast_arrays(*arguments)]
    return same(f(*spread), f(*arguments).reshape(-1)[places])


def moved_places(f: Callable[..., Any], arguments: list[Any]) -> tuple[Any, list[Any], list[Any]]:
    """The elements of the first argument, the places from which results are taken, and the results."""
    data, *others = arguments
    fields = data if isinstance(data, tuple) else (data,)
    ends = np.cumsum([0, *(field.size for field in fields)])
    places = tuple(
        np.arange(start, end).reshape(field.shape) for start, end, field in zip(ends, ends[1:], fields, strict=False)
    )
    moved = f(places if isinstance(data, tuple) else places[0], *others)
    results = f(*arguments)
    as_list = (list(each) if isinstance(each, tuple) else [each] for each in (moved, results))
    return np.concatenate([field.reshape(-1) for field in fields]), *as_list


def moves(f: Callable[..., Any], arguments: list[Any]) -> bool:
    """f of the numbers of places says which elements f takes."""
    elements, places, results = moved_places(f, arguments)
    return all(same(elements[one], result) for one, result in zip(places, results, strict=True))


def is_view(f: Callable[..., Any], arguments: list[Any]) -> bool:
    elements, places, _ = moved_places(f, arguments)
    return moves(f, arguments) and np.array_equal(np.concatenate(places, axis=None), np.arange(elements.size))


def commutes(f: Callable[..., Any], arguments: list[Any]) -> bool:
    a, b = arguments
    return same(f(a, b), f(b, a))


LAWS = {
    Trait.ELEMENTWISE: is_elementwise,
    Trait.MOVES: moves,
    Trait.VIEW: is_view,
    Trait.COMMUTATIVE: commutes,
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_operator_has_the_traits_it_says_and_says_those_it_has(name: str) -> None:
    op = Op.get(name)
    refuted = Trait.NONE

    @given(st.data())
    @settings(max_examples=25, deadline=None, derandomize=True)
    def law(data: st.DataObject) -> None:
        nonlocal refuted
        arguments, given_attrs = CASES[name](data.draw)
        attrs: Attrs | None = make_attrs(op, given_attrs)
        for trait, holds in LAWS.items():
            try:
                held = holds(lambda *arrays: evaluate_op(op, attrs, list(arrays)), arguments)
            except Exception:  # it cannot be called in this way
                held = False
            assert held or not op.has(trait), f"{name} says {trait}"
            refuted |= Trait.NONE if held else trait

    law()
    found = [trait for trait in LAWS if trait not in refuted and not op.has(trait)]
    assert [trait for trait in found if trait not in NOT_SAID.get(name, Trait.NONE)] == []


def test_traits_are_asked_of_an_operator() -> None:
    assert relay.op.get("add").has(Trait.COMMUTATIVE)
    assert not relay.op.get("subtract").has(Trait.COMMUTATIVE)
    assert relay.op.get("reshape").has(Trait.MOVES), "a view moves elements to their own places"
    assert not relay.op.get("transpose").has(Trait.VIEW)


def test_operators_are_found_by_trait() -> None:
    views = [op.name for op in operators(Trait.VIEW, arguments=1)]
    assert views == ["contrib_reverse_reshape", "expand_dims", "nn.batch_flatten", "reshape", "squeeze"]
    assert all(op.has(Trait.VIEW) for op in operators(Trait.VIEW))
    assert "concatenate" in [op.name for op in operators(Trait.MOVES)]
    assert "concatenate" not in [op.name for op in operators(Trait.MOVES, arguments=1)], "it takes a tuple"


def test_relays_own_attributes_follow_from_traits() -> None:
    assert relay.op.get("qnn.dense").get_attr("TNonComputational") is True
    assert relay.op.get("nn.dense").get_attr("TNonComputational") is None
