"""Definitions of operators that stay one node, in operators of the IR.

A runtime's own operator often equals several standard ones. Such a node passes through unchanged, like a node that is
not understood, but its type and value are known, and a rule equates it with its definition, so extraction chooses how
to write it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import onnx_ir as ir

from eqsat.egraph.author import refuse
from eqsat.egraph.rule import PythonRule, Soundness
from eqsat.errors import EqsatError, EvaluationError
from eqsat.onnx.converters.source import Declined, Source, definer_of
from eqsat.onnx.converters.target import attributes
from eqsat.relay.dataflow_pattern import CallPattern, DFPattern, ExprPattern, TupleGetItemPattern, wildcard
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import extend_types
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.interpreter import evaluate
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order, substitute


@dataclass(frozen=True, eq=False)
class Definition:
    """The definition of the outputs of a node.

    Args:
        inputs: For each input: a variable, the constant that it must be, or None if it is left out.
        results: Each output as an expression over the inputs; None if it is not defined.
        types: The types of the results.
        soundness: How equal the node and its definition are.
        rewrites: Whether a rule may replace the node by the results.
    """

    inputs: Sequence[Expr | None]
    results: Sequence[Expr | None]
    types: Sequence[Type | None]
    soundness: Soundness
    rewrites: bool

    @property
    def key(self) -> Hashable:
        """The key of a definition among nodes with equal attributes: the types and constants of the inputs."""
        return tuple(map(_input_key, self.inputs))

    def over(self, arguments: Sequence[Expr | None]) -> list[Expr | None]:
        """Return the results with arguments in place of the inputs."""
        pairs = zip(self.inputs, arguments, strict=True)
        new = {var: argument for var, argument in pairs if isinstance(var, Var) and argument is not None}
        return [None if result is None else substitute(result, new) for result in self.results]

    def compute(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The values of all results.

        Raises:
            EvaluationError: Not all values are known.
        """
        if any(result is None for result in self.results):
            raise EvaluationError("the value of an output is not known")
        given = {var: array for var, array in zip(self.inputs, arrays, strict=True) if isinstance(var, Var)}
        found: tuple[Any, ...] = evaluate(Tuple([each for each in self.results if each is not None]), given)
        return found


def _input_key(expr: Expr | None) -> Hashable:
    if isinstance(expr, Constant):
        return expr.data.dtype, expr.data.shape, expr.data.numpy().tobytes()
    return expr.type_annotation if isinstance(expr, Var) else None


def defined(node: ir.Node, inputs: Sequence[Expr | None], typing: Inferencer, opset: int) -> Definition:
    """Return the definition of a node.

    Args:
        node: The node.
        inputs: The expressions of its inputs, see :class:`Definition`.
        typing: The object that knows their types.
        opset: The version of the standard operators.

    Raises Declined or EqsatError where the node has no definition.
    """
    found = definer_of(node.domain, node.op_type)
    if found is None:
        raise Declined("it is not standard")
    source = Source(node, inputs, typing.types, typing.elements, opset)
    made = found.definer(source)
    results: list[Expr | None] = [made] if isinstance(made, Expr) else list(made)
    source.require(source.used_outputs() <= len(results), "more of its outputs are used")
    source.check_read()
    results = [*results, *[None] * len(node.outputs)][: len(node.outputs)]
    for result in results:
        if result is not None:
            typing.run(result)
    types = [None if result is None else typing.types[result] for result in results]
    soundness = Soundness.ROUNDING if source.is_rounded else found.soundness
    return Definition(inputs, results, types, soundness, found.rewrites)


def definition_rules(function: Function) -> list[PythonRule]:
    """Return rules that equate nodes of ``function`` with their definitions."""
    found: dict[tuple[Op, int, bool, Soundness], PythonRule] = {}
    for node in post_order(function.body):
        definition = definition_of(node)
        if definition is None or not definition.rewrites or not isinstance(node, Call) or not isinstance(node.op, Op):
            continue
        several = len(definition.results) > 1
        key = node.op, len(node.args), several, definition.soundness
        if key not in found:
            call: DFPattern = CallPattern(ExprPattern(node.op), [wildcard() for _ in node.args])
            pattern = TupleGetItemPattern(call) if several else call
            name = f"definition-of-{node.op.name}-{len(node.args)}{'s' * several}-{definition.soundness.value}"
            found[key] = PythonRule(name, pattern, partial(_defined, definition.soundness), definition.soundness)
    return list(found.values())


def definition_of(expr: Expr) -> Definition | None:
    """Return the definition of a call; None if it has none."""
    if not isinstance(expr, Call) or expr.attrs is None or "node" not in expr.attrs:
        return None
    found = getattr(expr.attrs["node"], "definition", None)
    return found if isinstance(found, Definition) else None


def _defined(soundness: Soundness, root: Expr, node_map: dict[DFPattern, list[Expr]]) -> Any:
    call, index = (root.tuple_value, root.index) if isinstance(root, TupleGetItem) else (root, 0)
    definition = definition_of(call)
    if definition is None or definition.soundness is not soundness or not isinstance(call, Call):
        return refuse("it is not defined so")
    result = definition.over(attributes(call).node.placed(call.args))[index]
    if result is None:
        return refuse("nothing is said of this output")
    types: dict[Expr, Type] = {each: each._checked_type for each in call.args if each._checked_type is not None}
    try:
        extend_types(types, result)
    except EqsatError as error:
        return refuse(f"the definition does not fit: {error}")
    return result if types[result] == root._checked_type else refuse("its type is not that of the definition")
