"""Variants of ONNX models: equal models that are created by applying rules at random."""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable
from typing import TypeAlias, overload

import onnx
import onnx_ir as ir

from eqsat.cost import CostNode
from eqsat.cost.runtimes import computes
from eqsat.errors import ModelError
from eqsat.onnx.cost import OnnxTarget
from eqsat.onnx.exporter import export_model
from eqsat.onnx.files import Given, load, to_proto
from eqsat.onnx.graphs import attributes_of
from eqsat.onnx.imported import opset_of
from eqsat.onnx.importer import import_model
from eqsat.onnx.optimize import rules_for
from eqsat.pipeline.options import Rules
from eqsat.relay.expr import Call, Constant, Expr, Function, Op
from eqsat.relay.infer import infer_type
from eqsat.relay.visitor import post_order
from eqsat.spellings.walk import COUNT, STEPS, Variant, function_of, gather, walks


@overload
def variants(
    model: onnx.ModelProto, count: int = COUNT, seed: int = 0, rules: Rules | None = None, steps: int = STEPS
) -> list[Variant[onnx.ModelProto]]: ...
@overload
def variants(  # type: ignore[overload-cannot-match]  # the types of onnx are not read here
    model: ir.Model | str | os.PathLike[str],
    count: int = COUNT,
    seed: int = 0,
    rules: Rules | None = None,
    steps: int = STEPS,
) -> list[Variant[ir.Model]]: ...
def variants(
    model: Given, count: int = COUNT, seed: int = 0, rules: Rules | None = None, steps: int = STEPS
) -> list[Variant[ir.Model]] | list[Variant[onnx.ModelProto]]:
    """Return models that are equal to a given one, created by applying rules at random places.

    The rules are applied from left to right and from right to left.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed. The bodies of control flow
            stay unchanged. The variants are ``onnx.ModelProto`` objects if the model is one, and otherwise
            ``onnx_ir.Model`` objects.
        count, seed, steps: As for :func:`eqsat.variants`.
        rules: Rules and rule sets, by default those of :func:`eqsat.onnx.optimize.rules_for`.

    Raises:
        ModelError: The model cannot be read, or its graph is not well-formed.
        ArgumentError, RuleError: As for :func:`eqsat.variants`.
    """
    found = _variants(load(model), count, seed, rules, steps)
    if isinstance(model, onnx.ModelProto):
        return [Variant(to_proto(each.graph), each.rules) for each in found]
    return found


def _variants(model: ir.Model, count: int, seed: int, rules: Rules | None, steps: int) -> list[Variant[ir.Model]]:
    imported = import_model(model)
    function = infer_type(imported.function)
    assert isinstance(function, Function)
    target = OnnxTarget(opset_of(model))
    given = set(model.graph.initializers)
    known = {_signature(export_model(imported.function, imported), given)}

    def made(bodies: list[Expr]) -> ir.Model | None:
        try:
            written = export_model(function_of(function, *bodies), imported)
        except ModelError:  # an operator that can only be written together with another one
            return None
        signature = _signature(written, given)
        if signature in known:
            return None
        known.add(signature)
        return written

    walked = walks([function.body], seed, rules_for(model) if rules is None else rules, steps, _Writable(target))
    return gather(walked, count, made)


class _Writable:
    """Checks that a target can express all operators of a graph and onnxruntime has kernels for them."""

    def __init__(self, target: OnnxTarget):
        self.target = target
        self.seen: dict[Expr, bool] = {}

    def __call__(self, root: Expr) -> bool:
        fresh = post_order(root, stop=self.seen)
        for node in fresh:
            self.seen[node] = not isinstance(node, Call) or self._has_form(node)
        return all(self.seen[node] for node in fresh)

    def _has_form(self, call: Call) -> bool:
        if not isinstance(call.op, Op):
            return False
        types = tuple([arg._checked_type for arg in call.args])
        constant = tuple([isinstance(arg, Constant) for arg in call.args])
        seen = CostNode(call.op.name, call.attrs, types, call._checked_type, arg_constant=constant)
        return computes("onnxruntime", seen) and self.target.write(seen) is not None


Signature: TypeAlias = tuple[Hashable, ...]
"""A key that is equal for models that differ only in the names of values and nodes."""


def _signature(model: ir.Model, given: Collection[str]) -> Signature:
    """Return the key of a written model; ``given`` are the names of the initializers of the given model."""
    numbers: dict[ir.Value | None, Hashable] = {None: None}
    for name, value in model.graph.initializers.items():
        numbers[value] = name if name in given else _content(value.const_value)
    for number, value in enumerate(model.graph.inputs):
        numbers.setdefault(value, number)
    found: list[Hashable] = []
    for node in model.graph:
        attributes = sorted(attributes_of(node), key=lambda each: each.name)
        said = tuple([ir.to_proto(each).SerializeToString(deterministic=True) for each in attributes])
        found.append((node.domain, node.op_type, node.overload, tuple([numbers[each] for each in node.inputs]), said))
        for value in node.outputs:
            numbers[value] = len(numbers)
    return (*found, *[numbers[value] for value in model.graph.outputs])


def _content(tensor: ir.TensorProtocol | None) -> Hashable:
    return None if tensor is None else (tensor.dtype, tuple(tensor.shape), tensor.tobytes())
