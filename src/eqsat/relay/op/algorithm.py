"""Searching: places of values in sorted sequences, and the different values of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import check_dtype, ranked, tensor, unify
from eqsat.relay.ty import TensorType, TupleType, Type


def _search_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, values = map(tensor, args)
    check_dtype(data, values)
    if not data.shape or not values.shape:
        raise TypeCheckError("sorted_sequence and values must have at least one dimension")
    if len(data.shape) > 1:
        ranked(values, len(data.shape), "values, as sorted_sequence,")
        for a, b in zip(data.shape[:-1], values.shape, strict=False):
            unify(a, b, "all dimensions of sorted_sequence and values but the last,")
    return TensorType(values.shape, attrs.dtype)


def _search(attrs: Any, data: Any, values: Any) -> Any:
    side: Any = "right" if attrs.right else "left"
    if data.ndim == 1:
        return np.searchsorted(data, values, side).astype(attrs.dtype)
    result = np.zeros(values.shape, attrs.dtype)
    for index in np.ndindex(data.shape[:-1]):
        result[index] = np.searchsorted(data[index], values[index], side)
    return result


searchsorted = define(
    "searchsorted",
    "sorted_sequence values",
    Field("right", "bool", False),
    Field("dtype", "dtype", "int32"),
    infer=_search_type,
    kernel=_search,
    kind=OpPattern.OPAQUE,
)
"""Where values would be inserted to keep a sequence sorted: before those equal to them, or behind with ``right``."""


def _unique_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = ranked(args[0], 1, "data")
    places = TensorType(data.shape, "int32")
    counts = [places] if attrs.return_counts else []
    return TupleType([data, places, places, TensorType((1,), "int32"), *counts])


def _unique(attrs: Any, data: Any) -> Any:
    values, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
    if not attrs.sorted:
        order = np.argsort(first)
        values, first, counts = values[order], first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    number = np.array([len(values)], np.int32)
    padded = [np.pad(part, (0, len(data) - len(values))) for part in (values, first, counts)]
    found = (padded[0], padded[1].astype(np.int32), inverse.astype(np.int32), number)
    return (*found, padded[2].astype(np.int32)) if attrs.return_counts else found


_unique_builder = define(
    "unique",
    "data",
    Field("sorted", "bool", True),
    Field("return_counts", "bool", False),
    infer=_unique_type,
    kernel=_unique,
    kind=OpPattern.OPAQUE,
    outputs=lambda attrs: 5 if attrs.return_counts else 4,
)


def unique(data: Any, is_sorted: bool = True, return_counts: bool = False) -> Any:
    """The different values of a sequence, ascending or in the order in which they occur, padded to its length by 0.

    Returns:
        The values, where each occurs first, for each element the place of its value, how many values there are, and
        with ``return_counts`` how often each occurs.
    """
    return _unique_builder(data, is_sorted, return_counts)


__all__ = ["searchsorted", "unique"]
