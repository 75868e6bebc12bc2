"""Patterns of constants of a given value, whatever their dtype and shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.relay.dataflow_pattern import is_constant


def _all_equal(value: int) -> Any:
    def holds(array: NDArray[Any]) -> bool:
        # the first element decides nearly always, without reading a large array
        return array.size > 0 and bool(array.flat[0] == value) and bool(np.all(array == value))

    return holds


zero = is_constant(label="zero", predicate=_all_equal(0))
"""A constant all of whose elements are 0."""

one = is_constant(label="one", predicate=_all_equal(1))
"""A constant all of whose elements are 1."""
