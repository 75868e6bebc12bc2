"""Arithmetic of dimensions says what arithmetic of the sizes says, whatever the sizes are."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from eqsat.relay.dims import (
    add_dims,
    floor_divide_dims,
    is_least_of,
    is_natural,
    least_dim,
    multiply_dims,
    quotient,
    subtract_dims,
    truncated,
)
from eqsat.relay.op.shape import moved_ones, pairwise_codes, resolve_reshape
from eqsat.relay.op.types import broadcast_shape
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim

NAMES = ("n", "m", "k")
SIZES = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})

n, m = AnyDim("n"), AnyDim("m")


def size_of(dim: Dim, sizes: dict[str, int]) -> int:
    """What a dimension is where names have these sizes: its name reads as Python."""
    return dim if isinstance(dim, int) else int(eval(str(dim.name), {"min": min}, sizes))


@st.composite
def dimensions(draw: st.DrawFn, depth: int = 3) -> Dim:
    """A dimension computed in a random way."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.one_of(st.integers(0, 6), st.sampled_from(NAMES).map(AnyDim)))
    one, other = draw(dimensions(depth=depth - 1)), draw(dimensions(depth=depth - 1))
    by = draw(st.integers(1, 4))
    return draw(
        st.sampled_from(
            [add_dims(one, other), multiply_dims(one, other), subtract_dims(one, other), floor_divide_dims(one, by)]
        )
    )


@given(dimensions(), dimensions(), st.integers(1, 5), SIZES)
def test_names_of_results_are_what_is_computed(a: Dim, b: Dim, by: int, sizes: dict[str, int]) -> None:
    if AnyDim() in (a, b):
        return
    x, y = size_of(a, sizes), size_of(b, sizes)
    for found, expected in (
        (add_dims(a, b), x + y),
        (subtract_dims(a, b), x - y),
        (multiply_dims(a, b), x * y),
        (floor_divide_dims(a, by), x // by),
    ):
        assert found == AnyDim() or size_of(found, sizes) == expected
    if is_natural(a):
        assert x >= 0


@given(st.lists(dimensions(depth=1), max_size=4), st.lists(dimensions(depth=1), max_size=3), SIZES)
def test_a_quotient_times_the_divisors_is_the_product(over: list[Dim], under: list[Dim], sizes: dict[str, int]) -> None:
    if AnyDim() in (*over, *under):
        return
    top, bottom = (math.prod(size_of(dim, sizes) for dim in dims) for dims in (over, under))
    found = quotient(over, under)
    if bottom and found not in (None, AnyDim()):
        assert size_of(found, sizes) * bottom == top
    if bottom and found is None:
        assert top % bottom


def test_one_size_has_one_name_however_it_is_computed() -> None:
    assert add_dims(n, n) == multiply_dims(2, n) == AnyDim("2*n")
    assert multiply_dims(add_dims(n, 1), m) == add_dims(multiply_dims(m, n), m)
    assert subtract_dims(add_dims(n, m, 3), add_dims(m, 1)) == add_dims(n, 2)
    assert floor_divide_dims(add_dims(multiply_dims(4, n), 6), 2) == add_dims(multiply_dims(2, n), 3)
    assert quotient([n, 12, m], [m, 4]) == multiply_dims(3, n)


def test_parts_of_what_may_be_negative_may_be_too() -> None:
    assert is_natural(floor_divide_dims(add_dims(n, 3), 2))
    assert not is_natural(floor_divide_dims(subtract_dims(n, 3), 2))
    assert not is_natural(floor_divide_dims(subtract_dims(0, n), 2))
    assert is_natural(add_dims(truncated(subtract_dims(n, 1), 2), 1))
    assert not is_natural(subtract_dims(truncated(subtract_dims(n, 1), 2), 1))


def test_of_an_unnamed_dimension_nothing_follows() -> None:
    unknown = AnyDim()
    assert add_dims(unknown, 0) is unknown
    assert multiply_dims(unknown, 1) is unknown
    assert multiply_dims(unknown, 0) == 0
    assert subtract_dims(unknown, unknown) == floor_divide_dims(unknown, 2) == quotient([unknown], [unknown]) == unknown


def test_long_sums_have_no_name() -> None:
    total: Dim = 0
    for index in range(9):
        total = add_dims(total, AnyDim(f"d{index}"))
    assert total == AnyDim()


def test_a_size_that_meets_the_smaller_of_it_and_another_is_no_larger() -> None:
    part = least_dim(n, 512)
    assert is_least_of(part, n)
    assert not is_least_of(part, m)
    assert broadcast_shape((n, 1), (part, 4)) == (n, 4)
    assert broadcast_shape((m,), (part,)) == (AnyDim(),)
    assert least_dim(add_dims(n, 2), n) == n


@given(st.lists(st.one_of(st.integers(1, 4), st.sampled_from((n, m))), min_size=1, max_size=4), st.data())
def test_codes_of_neighbours_merged_and_split_give_the_shape_that_they_are_for(
    shape: list[Dim], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(shape) - 1))
    joined = [*shape[:at], multiply_dims(*shape[at : at + 2]), *shape[at + 2 :]]
    for before, after in ((shape, joined), (joined, shape), (shape, [*shape[:at], 1, *shape[at:]])):
        codes = pairwise_codes(before, after)
        assert codes is None or list(resolve_reshape(before, codes)) == after


def test_neighbours_of_open_sizes_are_merged_and_split() -> None:
    joined = multiply_dims(n, 3)
    assert pairwise_codes((n, 3, m, 8), (joined, m, 8)) == (-3, 0, 0)
    assert pairwise_codes((joined, 1, m), (n, 3, 1, m)) == (-4, -1, 3, 0, 0)
    assert pairwise_codes((n, 3, m), (n, 3, 1, m)) == (0, 0, -4, 1, -1)
    assert pairwise_codes((n, m), (m, n)) is None
    assert pairwise_codes((multiply_dims(n, m),), (n, m)) is None


def test_codes_say_which_axes_of_one_element_come_and_go() -> None:
    assert moved_ones((n, 1, m), (0, -3)) == ([1], [])
    assert moved_ones((n, m), (0, -4, 1, -1)) == ([], [1])
    assert moved_ones((n, m), (0, -4, -1, 1)) == ([], [2])
    assert moved_ones((n, m), (-3,)) is None
