"""Names and initializers of an exported graph. Names are unique over all scopes, and the same every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.nd import NDArray
from eqsat.onnx.graphs import copy_value, graphs_of
from eqsat.onnx.imported import origin_of
from eqsat.onnx.weights import read_later
from eqsat.relay.expr import Constant
from eqsat.relay.fold import LARGE


class Names:
    """Gives out names to one graph, each once.

    Args:
        known: how often each name is given in all graphs of a model (:func:`name_counts`). Those given once may
            be claimed; new names are never among them, and are added.
    """

    def __init__(self, known: Counter[str]):
        self._known = known
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def claim(self, name: str) -> bool:
        """Reserve ``name`` if it is free; return whether it was."""
        if not name or name in self._taken or self._known[name] > 1:  # else it might hide, or be hidden
            return False
        self._taken.add(name)
        return True

    def fresh(self, base: str) -> str:
        """Return an unused name: ``base``, or ``base`` with a number."""
        name = base
        while name in self._known or name in self._taken:
            count = self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self._known[name] = 1
        return name


def name_counts(model: ir.Model) -> Counter[str]:
    """Return the number of values of a model with each name; equal names occur in separate scopes."""
    values: list[ir.Value] = []
    for graph in graphs_of(model.graph):
        values += dict.fromkeys([*graph.inputs, *graph.initializers.values()])
        values += [value for node in graph for value in node.outputs]
    return Counter(value.name or "" for value in values)


class Initializers:
    """Initializers of constants and arrays, each created on first use.

    Args:
        names: of the graph's values.
        tensors: the ONNX tensor of each imported constant's data: it is written as it was read, or not read at all.
        outer: values that hold constants outside of the graph already.
    """

    def __init__(self, names: Names, tensors: Mapping[NDArray, Any], outer: Mapping[NDArray, ir.Value]):
        self.values: dict[str, ir.Value] = {}
        self._names = names
        self._tensors = tensors
        self._known: dict[object, ir.Value] = dict(outer.items())

    def __contains__(self, constant: Constant) -> bool:
        return constant.data in self._known

    def constant(self, constant: Constant, hint: str) -> ir.Value:
        """The initializer of a constant, under its old name or, for a new one, ``hint``."""
        data, origin = constant.data, origin_of(constant)
        if data not in self._known:
            source = origin.values[0] if origin is not None and origin.values else None
            name = "" if source is None else source.name
            if not self._names.claim(name):
                name = self._names.fresh(name or hint)
            as_read = source is not None and data in self._tensors
            value = self._known[data] = copy_value(source, name) if as_read else ir.Value(name=name)
            self.add(value, self.tensor(constant))
        return self._known[data]

    def stand_in(self, constant: Constant, value: ir.Value) -> None:
        """Use ``value``, which a node computes, in place of a constant."""
        self._known[constant.data] = value

    def tensor(self, constant: Constant) -> ir.TensorProtocol:
        """A constant's value as an ONNX tensor."""
        tensor = self._tensors.get(constant.data)
        return _tensor(constant.data) if tensor is None else tensor

    def array(self, array: np.ndarray[Any, Any], hint: str) -> ir.Value:
        """An initializer of ``array``; equal arrays are written once."""
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            value = self._known[key] = ir.Value(name=self._names.fresh(hint))
            self.add(value, ir.Tensor(array))
        return self._known[key]

    def add(self, value: ir.Value, tensor: ir.TensorProtocol) -> None:
        """Make ``value`` an initializer."""
        value.const_value = _named(tensor, value.name)
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape)
        self.values[value.name] = value


def _tensor(data: NDArray) -> ir.TensorProtocol:
    """Data as an ONNX tensor; what is large is read or computed when it is written."""
    if data.nbytes < LARGE:
        return ir.Tensor(data.numpy())
    dtype = ir.DataType.from_numpy(np.dtype(data.dtype))
    return ir.LazyTensor(lambda: ir.Tensor(data.numpy()), dtype, ir.Shape(data.shape))


def _named(tensor: Any, name: str | None) -> Any:
    """``tensor`` under a name. One of another name stays as it is: it belongs to the model that was given.

    One with metadata is written anew: onnx_ir adds them to what is written as it was read, which has them already.
    """
    if tensor.name == name and not tensor.metadata_props:
        return tensor
    if isinstance(tensor, ir.TensorProtoTensor):
        return read_later(tensor, name)
    renamed = copy(tensor)
    renamed.name = name
    return renamed
