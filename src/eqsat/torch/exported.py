"""Optimization of exported programs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Unpack

from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, TensorArgument

from eqsat.errors import ModelError
from eqsat.pipeline.options import OptimizeKeywords, Options, Rules, takes
from eqsat.torch.graphs import Rewritten, rewrite
from eqsat.torch.opaque import mutates


@dataclass(repr=False)
class Optimization(Rewritten):
    """An exported program before and after optimization, and how the result was found.

    Attributes:
        program: The optimized program.
    """

    program: ExportedProgram


@takes(OptimizeKeywords)
def optimize(
    program: ExportedProgram, rules: Rules | None = None, **keywords: Unpack[OptimizeKeywords]
) -> ExportedProgram:
    """Return a cheaper program that computes the same values.

    Parameters, buffers, signature, dynamic shapes and constraints are those of the given program.

    Args:
        program: The result of ``torch.export.export``; it is not changed.
        rules, keywords: As for :func:`run`.

    Raises:
        ModelError: The argument is not an exported program, or cannot be optimized; the message names the operator.
        EqsatError: As for :func:`eqsat.optimize`.
    """
    return run(program, options=Options.of(keywords, rules=rules)).program


@takes(OptimizeKeywords)
def run(program: ExportedProgram, rules: Rules | None = None, **keywords: Unpack[OptimizeKeywords]) -> Optimization:
    """Optimize an exported program, and return the result with all that is known about it.

    Args:
        program: The result of ``torch.export.export``; it is not changed.
        rules: Rule sets or rules, by default ``eqsat.rules.default``.
        keywords: Further options, or all of them as ``options``: see :class:`eqsat.Options`.

    Raises:
        ModelError: The argument is not an exported program, or cannot be optimized; the message names the operator.
        EqsatError: As for :func:`eqsat.optimize`.
    """
    if not isinstance(program, ExportedProgram):
        raise ModelError(f"pass the result of torch.export.export, not {type(program).__name__}")
    given = program
    if any(mutates(node) for node in program.graph.nodes):
        program = program.run_decompositions({})  # writes to tensors become results, operators stay as they are
        _name_outputs(program, given)
    found = rewrite(program.graph_module, Options.of(keywords, rules=rules))
    after = ExportedProgram(
        root=found.after,
        graph=found.after.graph,
        graph_signature=_lifted(found, program.graph_signature),
        state_dict=program.state_dict,
        range_constraints=dict(program.range_constraints),
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants={**program.constants, **found.stored},
        verifiers=program.verifiers,
    )
    return Optimization(
        given.graph_module, found.after, found.imported, found.extractions, found.seconds, found.stored, after
    )


def _name_outputs(program: ExportedProgram, given: ExportedProgram) -> None:
    """Give the outputs of a program the names that they have in another one."""
    outputs, wanted = (
        [spec.arg for spec in each.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
        for each in (program, given)
    )
    nodes = {node.name: node for node in program.graph.nodes}
    names = {
        have.name: want.name
        for have, want in zip(outputs, wanted, strict=True)
        if isinstance(have, TensorArgument) and isinstance(want, TensorArgument)
    }
    names = {have: want for have, want in names.items() if have != want and nodes[have].op == "call_function"}
    taken = {*nodes, *names.values()}
    for want in list(names.values()):  # what has the name of an output now gets another
        if want in nodes and want not in names:
            names[want] = next(f"{want}_{count}" for count in itertools.count(1) if f"{want}_{count}" not in taken)
    for have, want in names.items():  # in two steps, as names may change places
        program.graph_signature.replace_all_uses(have, f"{want} of another")
        nodes[have].name = want
    for want in names.values():
        program.graph_signature.replace_all_uses(f"{want} of another", want)
    program.graph_module.recompile()


def _lifted(found: Rewritten, signature: ExportGraphSignature) -> ExportGraphSignature:
    """The signature of a program whose graph takes the constants that were stored as inputs."""
    graph, specs = found.after.graph, list(signature.input_specs)
    first = next(iter(graph.nodes))
    for node in [node for node in graph.nodes if node.op == "get_attr" and node.target in found.stored]:
        with graph.inserting_before(first):
            made = graph.placeholder(f"c_{node.target}")
        made.meta = node.meta
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        specs.insert(0, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(made.name), str(node.target)))
        first = made
    found.after.recompile()
    return ExportGraphSignature(specs, list(signature.output_specs))
