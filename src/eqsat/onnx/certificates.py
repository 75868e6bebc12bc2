"""Certificates of optimized ONNX models: how one is made, and how one is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import onnx_ir as ir

from eqsat.brief import one_line
from eqsat.certificates import certificate as certificates
from eqsat.certificates.certificate import Certificate
from eqsat.certificates.checker import WEAKER, Checked, Pair, Replay
from eqsat.certificates.checker import check as check_steps
from eqsat.certificates.extent import kept_by_term
from eqsat.certificates.functions import with_shipped
from eqsat.certificates.literals import NotPlain
from eqsat.certificates.terms import Identify
from eqsat.certificates.writer import JournalWriter, Recorder, closure_of, finished, record_choice
from eqsat.collector import paused_gc
from eqsat.egraph.report import Limits
from eqsat.egraph.rule import FoldConstants, Rule, flatten
from eqsat.errors import ArgumentError, CertificateError
from eqsat.onnx.constants import constant_nodes
from eqsat.onnx.definition import definition_rules
from eqsat.onnx.exporter import export_with_values
from eqsat.onnx.files import Given, load
from eqsat.onnx.graphs import attributes_of, nodes_of, subgraphs
from eqsat.onnx.imported import Imported
from eqsat.onnx.importer import import_model, import_with_values
from eqsat.onnx.opaque import OpaqueNode
from eqsat.onnx.optimize import Optimization
from eqsat.onnx.upgrade import at_opset
from eqsat.pipeline.options import Rules
from eqsat.pipeline.saturate import saturate
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from eqsat.relay.ty import TupleType
from eqsat.relay.visitor import post_order, rebuild
from eqsat.rules import RuleSet, default, written

_SPELLED = Limits(iterations=6, nodes=20_000, seconds=20.0)
"""Limits within which a node is proved to be what it is written as."""
_KEPT_BYTES = 1 << 16
"""Bytes up to which constants are looked into where it is proved what a node is written as."""
_MOST_FOLDED = 1 << 30
"""Bytes up to which constants are computed there."""
_IMPORTING = Limits()


def certify(done: Optimization) -> Certificate:
    """A certificate that an optimized model computes the same as the given one.

    What no step shows is told in ``uncovered``.

    Args:
        done: The optimization, made with ``explain=True``.

    Raises:
        ArgumentError: It was made without ``explain=True``.
        CertificateError: The model has parts that no certificate speaks of.
    """
    with paused_gc():
        return _certify(done).certificate


@dataclass(frozen=True)
class Proved:
    """How much of an optimized model is proved, and how much can only be sampled.

    A node is proved if steps that were checked lead from the given model to what it computes. It counts by what those
    of these steps keep that concern no operand of it: so a node is ``exact`` if it computes, of the same operands, the
    same bits as the given model does in its place.

    Attributes:
        nodes: The number of nodes whose steps keep every bit (``exact``), all but ``rounding``, and all but rounding
            where values are ``finite``; and of those that no step leads to (``sampled``).
        sampled: Of the last, how many of each operator.
        uncovered: What no step shows, in words.
    """

    nodes: dict[str, int]
    sampled: dict[str, int]
    uncovered: tuple[str, ...]

    def __str__(self) -> str:
        total = sum(self.nodes.values())
        told = [f"{self.nodes[kept]} {words}" for kept, words in _KEPT.items() if self.nodes[kept]]
        proved = f"{total - self.nodes[_SAMPLED]} of {total} nodes follow from the given model by rules"
        how = f": {', '.join(told)}" if told else ""
        only = ", ".join([f"{count} {op_type}" for op_type, count in self.sampled.items()])
        return f"{proved}{how}{f'; only sampled: {only}' if only else ''}"


_SAMPLED = "sampled"
_KEPT = {
    "exact": "keep every bit of what they compute",
    "rounding": "all but rounding",
    "finite": "all but rounding where values are finite",
}


def proved(done: Optimization) -> Proved:
    """How much of an optimized model is proved to compute the same as the given one, node by node.

    Args:
        done: The optimization, made with ``explain=True``.

    Raises:
        ArgumentError: It was made without ``explain=True``.
    """
    counts = dict.fromkeys([*WEAKER, _SAMPLED], 0)
    sampled: Counter[str] = Counter()
    with paused_gc():
        try:
            found = _certify(done)
            uncovered = found.certificate.uncovered
            kept = found.kept_by_node()
        except CertificateError as error:
            uncovered, kept = [str(error)], {}
    for owner in done.after.graph:
        for node in (owner, *nodes_of(*subgraphs(attributes_of(owner)))):
            if node.op_type == "Constant":
                continue
            of = kept.get(owner)
            counts[_SAMPLED if of is None else WEAKER[of]] += 1
            if of is None:
                sampled[node.op_type] += 1
    return Proved(counts, dict(sampled.most_common()), tuple(uncovered))


def check(before: Given, after: Given, certificate: certificates.Given, rules: Rules | None = None) -> Checked:
    """Check a certificate that one model computes the same as another one.

    The models are read, and each step is checked to be an instance of its rule. No part of the optimizer is used.

    Args:
        before, after: The models, in any form that :func:`eqsat.onnx.load` takes.
        certificate: The certificate, what JSON holds of it, or the path of a file.
        rules: The rules that the model was optimized by, if they were others than those that are shipped.

    Returns:
        What was checked; ``proved`` tells whether the certificate covers all.

    Raises:
        CertificateError: The certificate cannot be read, is of other models or of other versions of rules, or a step
            does not hold; the message names the step.
        ModelError: A model cannot be read.
    """
    read = certificates.read(certificate)
    with paused_gc():
        given, _ = _imported(load(before), read.opset)
        written = import_model(load(after))
        _check_outputs(given, written)
        pair = _pair(given, written)
        return check_steps(pair, read, _known_rules(given.function, rules))


def _imported(model: ir.Model, opset: int | None) -> tuple[Imported, dict[str, Expr]]:
    """A model as a function."""
    with constant_nodes(model, _IMPORTING) as constants:
        raised = at_opset(model, opset, constants)
        constants.take(raised)
        return import_with_values(raised, constants)


def _pair(given: Imported, written: Imported) -> Pair:
    return Pair(given.function, written.function, _identify([given.model, written.model]), by_name=True)


def _check_outputs(given: Imported, written: Imported) -> None:
    """Check that both models have outputs of the same names."""
    names = [[value.name for value in each.graph.outputs] for each in (given, written)]
    if names[0] != names[1]:
        raise CertificateError(f"the models have different outputs: {', '.join(names[0])} and {', '.join(names[1])}")


def _known_rules(function: Function, rules: Rules | None) -> list[Rule]:
    """The rules by which steps may be: those given, those that are shipped, and what nodes are defined as."""
    given = [] if rules is None else flatten(rules)
    named = {rule.name for rule in given}
    return with_shipped([*[rule for rule in definition_rules(function) if rule.name not in named], *given])


# ---- making a certificate


@dataclass(frozen=True)
class _Certified:
    """A certificate of a written model, and all that its steps are over.

    Attributes:
        graph: The graph of the written model.
        expr_of: The expression of each value of it.
    """

    certificate: Certificate
    pair: Pair
    steps: Replay
    graph: ir.Graph
    expr_of: Mapping[str, Expr]

    def kept_by_node(self) -> dict[ir.Node, int | None]:
        """What is kept of each node's value, as of :func:`eqsat.certificates.extent.kept_by_term`."""
        kept, numbers = kept_by_term(self.pair, self.steps.equations), self.pair.numbers[1]
        values = set(self.expr_of.values())
        found: dict[ir.Node, int | None] = {}
        for node in self.graph:
            roots = [self.expr_of[value.name] for value in node.outputs if value.name in self.expr_of]
            inside = post_order(*roots, children=partial(_inner, values))
            terms = [numbers[expr] for expr in inside if expr in numbers and isinstance(expr, (Call, TupleGetItem))]
            each = [kept[term] for term in terms]
            found[node] = None if None in each else max([one for one in each if one is not None], default=0)
        return found


def _inner(values: Collection[Expr], expr: Expr) -> Sequence[Expr]:
    """The operands of an expression that are no values of the graph: of such its node consists."""
    return [child for child in expr.children() if child not in values or isinstance(expr, TupleGetItem)]


def _certify(done: Optimization) -> _Certified:
    given, _ = _imported(done.before, done.options.opset)
    written, expr_of = import_with_values(done.after)
    chosen = done.extraction.expr
    if not isinstance(chosen, Function):
        raise CertificateError("a graph that rules may not look into has no certificate")
    pair = _pair(given, written)
    by_name = {param.name_hint: pair.inputs[param] for param in given.function.params}
    recorder = Recorder(pair, _known_rules(given.function, done.options.rules))
    if done.bodies:
        recorder.uncovered.append("the bodies of conditions and loops")
    try:
        numbers = record_choice(recorder, done.extraction.explanation, chosen.body, partial(_leaf, by_name))
        values = export_with_values(chosen, done.imported)[1]
        _Spelling(recorder, numbers, recorder.pair.numbers[1], expr_of).prove(
            values, _results(chosen, written.function)
        )
    except NotPlain as why:
        recorder.uncovered.append(str(why))
    pair = _pair(given, written)
    certificate, steps = finished(recorder, pair, done.options.opset)
    return _Certified(certificate, pair, steps, done.after.graph, expr_of)


def _results(chosen: Function, read: Function) -> tuple[Sequence[Expr], Sequence[Expr]]:
    """The results of both functions; each function as a whole where they are not tuples alike."""
    fields = [each.body.fields if isinstance(each.body, Tuple) else () for each in (chosen, read)]
    return (fields[0], fields[1]) if fields[0] and len(fields[0]) == len(fields[1]) else ([chosen.body], [read.body])


@dataclass
class _Spelled:
    """An expression and what it was read back as, over variables for what both are computed from."""

    chosen: Expr
    read: Expr
    leaves: dict[str, int]


class _Spelling:
    """Proves that a written model, read again, is the function that was written.

    Args:
        recorder: Takes the steps.
        chosen: The terms of the function that was written.
        read: The terms of the model as it was read again.
        expr_of: The expression of each value as it was read again.
    """

    def __init__(
        self, recorder: Recorder, chosen: Mapping[Expr, int], read: Mapping[Expr, int], expr_of: Mapping[str, Expr]
    ):
        self.recorder = recorder
        self.terms = recorder.terms
        self.chosen = dict(chosen)
        self.read = dict(read)
        self.expr_of = expr_of

    def prove(self, values: Mapping[Expr, Sequence[str]], results: tuple[Sequence[Expr], Sequence[Expr]]) -> None:
        """Record the steps.

        Args:
            values: The names of the values that each expression was written as, in order.
            results: The results of both functions.
        """
        waiting: list[_Spelled] = []
        pairs: list[tuple[Expr, Expr]] = []
        for expr, names in values.items():
            if not isinstance(expr, Call) or expr not in self.chosen:
                continue
            is_one = not isinstance(self.terms.type_of(self.chosen[expr]), TupleType)
            parts: list[Expr] = [expr] if is_one else [TupleGetItem(expr, index) for index in range(len(names))]
            twins = [(part, self.expr_of.get(name)) for part, name in zip(parts, names, strict=True)]
            pairs += [(part, twin) for part, twin in twins if twin is not None and twin in self.read]
        for one, other in [*pairs, *zip(*results, strict=True)]:
            if isinstance(one, TupleGetItem) and one not in self.chosen:
                self.chosen[one] = self.terms.field_of(self.chosen[one.tuple_value], one.index)
            if not self.terms.same(self.chosen[one], self.read[other]):
                waiting.append(self._cut(one, other))
                self.terms.equate(self.chosen[one], self.read[other])
        if waiting:
            self._saturate(waiting)

    def _cut(self, expr: Expr, twin: Expr) -> _Spelled:
        """Two expressions down to where they have equal parts."""
        leaves: dict[int, Var] = {}
        mine = {self.terms.find(self.chosen[node]) for node in self._near(expr) if node in self.chosen}
        theirs = {self.terms.find(self.read[node]) for node in self._near(twin) if node in self.read}
        shared = mine & theirs
        chosen, read = (
            self._over(root, numbers, shared, leaves) for root, numbers in ((expr, self.chosen), (twin, self.read))
        )
        return _Spelled(chosen, read, {var.name_hint: term for term, var in leaves.items()})

    def _near(self, root: Expr) -> list[Expr]:
        """The nodes some levels below an expression."""
        found, level = dict.fromkeys([root]), [root]
        for _ in range(8):
            level = [child for node in level for child in node.children() if child not in found]
            found |= dict.fromkeys(level)
        return list(found)

    def _over(self, root: Expr, numbers: Mapping[Expr, int], shared: set[int], leaves: dict[int, Var]) -> Expr:
        """An expression over variables for the terms that are shared, small constants as they are."""

        def is_leaf(node: Expr) -> bool:
            term = numbers.get(node)
            return term is not None and self.terms.find(term) in shared

        def below(node: Expr) -> Sequence[Expr]:
            return () if is_leaf(node) else node.children()

        new: dict[Expr, Expr] = {}
        for node in post_order(root, children=below):
            if isinstance(node, Constant) and node.data.nbytes <= _KEPT_BYTES:
                new[node] = node
            elif is_leaf(node):
                term = self.terms.find(numbers[node])
                if term not in leaves:
                    leaves[term] = Var(f"leaf{len(leaves)}", self.terms.type_of(term))
                new[node] = leaves[term]
            else:
                new[node] = rebuild(node, new)
        return new[root]

    def _saturate(self, waiting: Sequence[_Spelled]) -> None:
        """Prove pairs of expressions equal, all in one e-graph."""
        rules = RuleSet("spelling", [FoldConstants(limit=_MOST_FOLDED), *written, *default.without("fold-constants")])
        for spelled in waiting:
            whole = Tuple([spelled.chosen, spelled.read])
            region = saturate(whole, rules, limits=_SPELLED, explain=True).regions[-1]
            journal = region.journal
            if journal is None:
                raise ArgumentError("nothing was kept to explain")
            pair = [journal.of_handle[region.lowered.handles[each]] for each in (spelled.chosen, spelled.read)]
            closed = closure_of(journal, pair)
            if not closed.same(*pair):
                self.recorder.uncovered.append(f"that {one_line(str(spelled.chosen), 80)} is written as it is read")
                continue
            leaf = partial(_leaf, spelled.leaves)
            JournalWriter(self.recorder, journal, closed, region.types, leaf).prove(*pair)


def _leaf(leaves: Mapping[str, int], var: Var) -> int:
    """The term that a variable stands for."""
    return leaves[var.name_hint]


# ---- nodes that are not understood


def _identify(models: Sequence[ir.Model]) -> Identify:
    """What is equal for calls of operators whose nodes compute the same of the same operands."""
    known: dict[OpaqueNode, Hashable] = {}

    def identify(attrs: Attrs) -> Hashable:
        node = attrs.get("node")
        if not isinstance(node, OpaqueNode):
            return attrs.key
        if node not in known:
            known[node] = _node_key(node, models)
        return (attrs.type_key, known[node])

    return identify


def _node_key(opaque: OpaqueNode, models: Sequence[ir.Model]) -> Hashable:
    """What a node says beside its inputs; nodes that may draw numbers are told apart by the names of their outputs."""
    node = opaque.node
    if opaque.is_pure:
        attributes = tuple((name, repr(node.attributes[name].value)) for name in sorted(node.attributes))
        definition = None if opaque.definition is None else repr(opaque.definition.key)
        return (node.domain, node.op_type, opaque.opset, attributes, opaque.given, definition)
    names = tuple(str(value.name) for value in node.outputs)
    attributes = tuple(sorted(ir.to_proto(attr).SerializeToString(deterministic=True) for attr in opaque.attributes))
    parts = (node, *nodes_of(*subgraphs(opaque.attributes)))
    called = dict.fromkeys(each.op_identifier() for each in parts)
    functions = [
        ir.to_proto(model.functions[each]).SerializeToString(deterministic=True)
        for model in models
        for each in called
        if each in model.functions
    ]
    return (
        node.domain,
        node.op_type,
        node.overload,
        opaque.opset,
        names,
        attributes,
        opaque.given,
        *sorted(set(functions)),
    )
