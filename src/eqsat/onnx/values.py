"""Values of ONNX graphs."""

from __future__ import annotations

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
