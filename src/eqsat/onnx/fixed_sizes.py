"""Models whose dynamic dimensions get fixed sizes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from eqsat.errors import ArgumentError
from eqsat.onnx.files import Given, load
from eqsat.onnx.sizes import open_dims


def with_sizes(model: Given, sizes: Mapping[str, int]) -> ir.Model:
    """Return a model whose inputs have the given sizes, so that more of its shapes are known.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        sizes: Name of a dynamic dimension of inputs -> its size. A dimension without a name is called after its input
            and axis: ``x.1``.

    Raises:
        ArgumentError: No dynamic dimension has one of the names, or a size is not positive.
        ModelError: The model cannot be read.
    """
    given = load(model)
    known = dict.fromkeys(name for value in given.graph.inputs for name, _ in open_dims(value))
    for name, size in sizes.items():
        if name not in known:
            told = f"the dynamic ones are {', '.join(known)}" if known else "all sizes are fixed"
            raise ArgumentError(f"no input of the model has a dynamic dimension {name!r}: {told}")
        if size < 1:
            raise ArgumentError(f"dimension {name!r} of size {size}: give a number above 0")
    if not sizes:
        return given
    made = given.clone()
    for value in [*made.graph.inputs, *(value for node in made.graph.all_nodes() for value in node.outputs)]:
        for name, axis in [*open_dims(value)]:
            if name in sizes and value.shape is not None:
                value.shape = ir.Shape([sizes[name] if place == axis else dim for place, dim in enumerate(value.shape)])
    return made
