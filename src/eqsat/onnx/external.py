"""Tensors whose data is in other files, beside that of the model."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

import onnx_ir as ir

from eqsat.errors import ModelError
from eqsat.onnx.graphs import data_replaced, read_later


def check_external_files(model: ir.Model, where: str) -> None:
    """See that the data of initializers and of nodes' attributes is there.

    Args:
        model: the model, its tensors with the folder they are in.
        where: what to call the model in errors.

    Raises:
        ModelError: a file is missing, too short, no file or outside the model's folder.
    """
    tensors = [value.const_value for value in _external_values(model)]
    for tensor in (*tensors, *(attr.value for _, attr in _external_attributes(model))):
        problem = _problem_of(tensor)
        if problem:
            raise ModelError(f"{where} keeps tensor {tensor.name!r} in {str(tensor.location)!r:.200}, {problem}")


def has_external_tensors(model: ir.Model) -> bool:
    """Whether the data of an initializer is in another file."""
    return bool(_external_values(model))


def take_in_attributes(model: ir.Model) -> None:
    """Make the data of nodes' attributes part of the model, read when it is asked for.

    Only initializers have their data beside the file that is written.
    """
    for node, attr in _external_attributes(model):
        node.attributes[attr.name] = ir.AttrTensor(attr.name, read_later(attr.value, attr.value.name), attr.doc_string)


def taken_in(model: ir.Model, most: float = math.inf) -> AbstractContextManager[None]:
    """The data of initializers of up to so many bytes in the model itself, until the block ends.

    The files stay open, unlike with ``onnx_ir.external_data.load_to_model``: constants may show what is in them.
    """
    values = [value for value in _external_values(model) if value.const_value.nbytes <= most]
    return data_replaced({value: _in_memory(value.const_value) for value in values})


def _in_memory(tensor: ir.ExternalTensor) -> ir.Tensor:
    return ir.Tensor(
        tensor.numpy(),
        name=tensor.name,
        dtype=tensor.dtype,
        doc_string=tensor.doc_string,
        metadata_props=tensor.metadata_props,
    )


def _external_values(model: ir.Model) -> list[ir.Value]:
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    return [value for value in values if isinstance(value.const_value, ir.ExternalTensor)]


def _external_attributes(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Attr]]:
    """Attributes that hold such a tensor, of functions' nodes too."""
    for graph in (model.graph, *model.functions.values()):
        for node in graph.all_nodes():
            for attr in tuple(node.attributes.values()):
                if attr.type == ir.AttributeType.TENSOR and isinstance(attr.value, ir.ExternalTensor):
                    yield node, attr


def _problem_of(tensor: ir.ExternalTensor) -> str | None:
    """Why the data of a tensor cannot be read, as far as the file's name and size tell."""
    try:
        folder, path = os.path.realpath(tensor.base_dir), os.path.realpath(tensor.path)
        if os.path.commonpath((folder, path)) != folder:
            return "which is outside the model's folder"
        size = os.stat(path).st_size
    except (OSError, ValueError) as error:  # a name may hold what no path can
        return f"which cannot be read: {getattr(error, 'strerror', None) or error}"
    if not os.path.isfile(path):
        return "which is no file"
    if tensor.dtype == ir.DataType.STRING:
        return "where no text can be"
    length = tensor.nbytes if tensor.length is None else tensor.length
    if length < tensor.nbytes:
        return f"{length} bytes where its shape needs {tensor.nbytes}"
    needed = (tensor.offset or 0) + length
    return f"which has {size} bytes where {needed} are needed" if size < needed else None
