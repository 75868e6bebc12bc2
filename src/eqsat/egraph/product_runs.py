"""Shifts leave runs of products by constant matrices in one walk over the given graph, and become one bias.

A rule that moves a shift past one product, ``(x + c) w = x w + c w``, finds a form of each value for every place where
the run may begin. Here each e-node is told as ``core + shift``, where the core is a product of the core of its data.
Scales on the way go into the weights before them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from eqsat.egraph.given_graph import Composed, GivenGraph, Node
from eqsat.egraph.runs import Runs, is_static_float
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.ty import TensorType, Type

_PRODUCTS = ("nn.dense", "nn.matmul")


class _Run(NamedTuple):
    """A value as ``core + shift``.

    Attributes:
        core: The handle of an e-node of the given graph, or a draft.
        shift: A handle or draft of a constant of one axis, that of the channels; None: 0.
        product: The e-node, with draft or handle of its operands, that the core is if it is a product.
        shifts: The sums with constants since the run began.
        has_passed: Whether a shift has passed a product.
    """

    core: int
    shift: int | None = None
    product: Node | None = None
    shifts: int = 0
    has_passed: bool = False


def move_shifts(graph: GivenGraph) -> list[Composed]:
    """Move shifts out of the runs of products of a graph; what the runs became, in place of which they stand."""
    products = sum(getattr(graph.vocabulary.symbols[node.symbol].op, "name", "") in _PRODUCTS for node in graph.nodes)
    return ProductRuns(graph).make() if products > 1 else []


class ProductRuns(Runs[_Run]):
    """The runs of products by constant matrices, with sums and products with constants between them."""

    def is_worth(self, handle: int) -> bool:
        return self[handle].has_passed and self[handle].shifts > 1

    def written(self, run: _Run) -> int:
        return run.core if run.shift is None else self.draft_call("nn.bias_add", [run.core, run.shift], axis=-1)

    def follow(self, node: Node, name: str, op: Op | None, value: Any) -> None:
        ty, varying = self.graph.type(node.handle), self._varying(node)
        if op is None or varying is None or not _is_matrix(ty) or not _is_matrix(self.type(varying)):
            return
        assert isinstance(ty, TensorType)
        if name in _PRODUCTS:
            found = self._multiplied(node, value)
        elif self.type(varying) != ty:
            return
        elif name in ("add", "nn.bias_add") or (name == "subtract" and varying == node.children[0]):
            found = self._shifted(node, name, value, varying, ty)
        elif name == "multiply" or (name == "divide" and varying == node.children[0]):
            found = self._scaled(node, name, varying, ty)
        else:
            return
        if found is not None:
            self[node.handle] = found
            if self._run(varying) is not None and found.core != node.handle:
                self.within.add(node.handle)

    def _run(self, handle: int) -> _Run | None:
        """The run that goes on through an e-node: what several others read is computed with its shift in any case."""
        return self.get(handle) if self.reader_counts[handle] == 1 and handle != self.graph.root else None

    def _varying(self, node: Node) -> int | None:
        """The one of two operands that is no constant."""
        varying = [child for child in node.children if child not in self.graph.constants]
        return varying[0] if len(varying) == 1 and len(node.children) == 2 else None

    def _multiplied(self, node: Node, attrs: Attrs | None) -> _Run | None:
        data, weight = node.children
        types = [self.type(each) for each in (data, weight, node.handle)]
        if weight not in self.graph.constants or attrs is None or attrs.get("transpose_a", False):
            return None
        matrices = [ty for ty in types if _is_matrix(ty) and isinstance(ty, TensorType)]
        if len({ty.dtype for ty in matrices}) > 1 or len(matrices) < len(types):
            return None
        weight_shape, run = matrices[1].shape, self._run(data)
        if len(weight_shape) != 2 or 0 in weight_shape:
            return None
        if run is None or run.shift is None:
            return _Run(node.handle, None, node)
        row = self._computed("reshape", run.shift, newshape=(1, -1))
        shift = self._computed("reshape", self._computed(self._name(node), row, weight, **attrs), newshape=(-1,))
        if shift is None:
            return None
        core = self.draft(node.symbol, node.atom, [run.core, weight], matrices[2])
        return _Run(core, shift, node._replace(children=[run.core, weight]), run.shifts, True)

    def _shifted(self, node: Node, name: str, attrs: Attrs | None, varying: int, ty: TensorType) -> _Run | None:
        (constant,) = [child for child in node.children if child != varying]
        if name == "nn.bias_add" and (attrs is None or attrs.axis not in (-1, len(ty.shape) - 1)):
            return None
        run, row = self._run(varying) or _Run(varying), self._row(constant, ty)
        if row is not None and not self.graph.array(self.graph.constants[constant]).any():
            return run  # behind a product, the shift would be an expression that no rule sees to be 0
        if name == "subtract":
            row = self._computed("negative", row)
        shift = row if run.shift is None else self._computed("add", run.shift, row)
        return None if shift is None else run._replace(shift=shift, shifts=run.shifts + 1)

    def _scaled(self, node: Node, name: str, varying: int, ty: TensorType) -> _Run | None:
        (constant,) = [child for child in node.children if child != varying]
        run, row = self._run(varying), self._row(constant, ty)
        if run is None or run.product is None or row is None:
            return None
        data, weight = run.product.children
        beside = self._computed("reshape", row, newshape=(1, -1) if self._has_outputs_last(run.product) else (-1, 1))
        scaled, shift = self._computed(name, weight, beside), self._computed(name, run.shift, row)
        if scaled is None or (shift is None and run.shift is not None):
            return None
        core = self.draft(run.product.symbol, run.product.atom, [data, scaled], ty)
        return run._replace(core=core, shift=shift, product=run.product._replace(children=[data, scaled]))

    def _has_outputs_last(self, product: Node) -> bool:
        attrs = self.graph.vocabulary.atoms[product.atom].value
        return self._name(product) == "nn.matmul" and not attrs.transpose_b

    def _name(self, node: Node) -> str:
        return self.graph.vocabulary.symbols[node.symbol].name

    def _row(self, constant: int, of: TensorType) -> int | None:
        """A constant that varies along the channels only, with an element for each; None where it varies otherwise."""
        ty, width = self.type(constant), of.concrete_shape[-1]
        if not isinstance(ty, TensorType) or ty.dtype != of.dtype or len(ty.shape) > len(of.shape):
            return None
        *others, count = (1, *ty.concrete_shape)
        if any(dim != 1 for dim in others) or count not in (1, width):
            return None
        row = constant if len(ty.shape) == 1 else self._computed("reshape", constant, newshape=(count,))
        return row if count == width else self._computed("broadcast_to", row, shape=(width,))

    def _computed(self, name: str, *operands: int | None, **attrs: Any) -> int | None:
        """A constant: its value, or a call where that is too large to compute now.

        None where an operand is none, or it would overflow.
        """
        given = [each for each in operands if each is not None]
        if len(given) < len(operands):
            return None
        atoms = [atom for each in given if (atom := self.constant(each)) is not None]
        if len(atoms) < len(given) or self.graph.folded(name, *atoms, **attrs) is None:
            return self.draft_call(name, given, **attrs)
        found = self.graph.computed(name, *atoms, **attrs)
        return None if found is None else self.draft_constant(found)


def _is_matrix(ty: Type | None) -> bool:
    """Whether a value is a matrix, or more of them, of floats of known size."""
    return is_static_float(ty) and isinstance(ty, TensorType) and len(ty.shape) > 1
