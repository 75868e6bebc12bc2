"""Values of ONNX graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir


def copy_value(value: ir.Value, name: str | None = None) -> ir.Value:
    """A value of the same type and documentation, and the same name or ``name``, that belongs to no graph yet."""
    copy = ir.Value(
        name=value.name if name is None else name,
        type=value.type,
        shape=None if value.shape is None else value.shape.copy(),
        doc_string=value.doc_string,
        metadata_props=dict(value.metadata_props),
    )
    copy.meta.update(value.meta)
    return copy


def read_later(tensor: Any, name: str | None) -> ir.LazyTensor:
    """A tensor under a name, whose data are read when they are asked for."""
    said = {"doc_string": tensor.doc_string, "metadata_props": tensor.metadata_props}
    return ir.LazyTensor(lambda: tensor, tensor.dtype, ir.Shape(tensor.shape), name=name, **said)


@contextmanager
def data_replaced(tensors: Mapping[ir.Value, Any]) -> Iterator[None]:
    """Other tensors as the data of initializers, until the block ends."""
    kept = {value: value.const_value for value in tensors}
    try:
        for value, tensor in tensors.items():
            value.const_value = tensor
        yield
    finally:
        for value, tensor in kept.items():
            value.const_value = tensor
