"""Which e-class of one part of an e-graph is which of another part that is the same but for constants."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from eqsat.egraph.likeness import ClassGraph
from eqsat.egraph.snapshot import Snapshot

SUM, PRODUCT = range(2)
"""Symbols."""

Node = tuple[int, int, int, list[int]]
"""Its class, symbol, atom and children."""


def graph(nodes: list[Node], types: list[int]) -> ClassGraph:
    """E-nodes, and the type of each class."""
    of, symbol, atom, children = zip(*nodes, strict=True)
    return ClassGraph(
        Snapshot(
            node_class=np.array(of, "i4"),
            child_offsets=np.array([0, *accumulate(map(len, children))], "i4"),
            child=np.array([child for each in children for child in each], "i4"),
            node_symbol=np.array(symbol, "i4"),
            node_atom=np.array(atom, "i4"),
            hidden=np.zeros(len(nodes), bool),
            symbols=[],
            atoms=[],
            types=[],
            class_type_index=np.array(types, "i4"),
            constant=np.zeros(len(types), bool),
            handle_class=np.array([], "i4"),
        )
    )


def layers(types: list[int]) -> ClassGraph:
    """Two layers, classes 4 to 5 and 6 to 7. Each multiplies a value by a weight and adds another value."""
    below = [(value, SUM, value, []) for value in range(4)]
    layer = [(4, PRODUCT, 10, [0]), (5, SUM, 0, [4, 1]), (6, PRODUCT, 11, [2]), (7, SUM, 0, [6, 3])]
    return graph([*below, *layer], types)


def test_values_below_are_told_by_their_types() -> None:
    found = layers([1, 2, 1, 2, 1, 1, 1, 1]).likeness([4, 5], [6, 7], {}, {10: 11}, [0, 1], [2, 3])
    assert found == {0: 2, 1: 3, 4: 6, 5: 7}


@pytest.mark.parametrize("types", [[1, 1, 1, 1, 1, 1, 1, 1], [1, 2, 1, 3, 1, 1, 1, 1]])
def test_values_of_one_type_or_of_another_are_not(types: list[int]) -> None:
    assert layers(types).likeness([4, 5], [6, 7], {}, {10: 11}, [0, 1], [2, 3]) is None


def test_values_that_are_known_need_no_types() -> None:
    found = layers([1] * 8).likeness([4, 5], [6, 7], {0: 2, 1: 3}, {10: 11}, [0, 1], [2, 3])
    assert found == {0: 2, 1: 3, 4: 6, 5: 7}


def test_parts_with_other_constants_are_not_alike() -> None:
    assert layers([1, 2, 1, 2, 1, 1, 1, 1]).likeness([4, 5], [6, 7], {}, {}, [0, 1], [2, 3]) is None
