"""Creating and checking certificates of optimized ONNX models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.brief import one_line
from eqsat.certificates import certificate as certificates
from eqsat.certificates.certificate import Certificate
from eqsat.certificates.checker import WEAKER, Checked, Pair, Replay
from eqsat.certificates.checker import check as check_steps
from eqsat.certificates.extent import kept_by_term
from eqsat.certificates.functions import with_shipped
from eqsat.certificates.literals import NotPlain
from eqsat.certificates.terms import Body as TermsBody
from eqsat.certificates.terms import Calls, Opened
from eqsat.certificates.writer import JournalWriter, Recorder, closure_of, finished, record_choice
from eqsat.collector import paused_gc
from eqsat.egraph.report import Limits
from eqsat.egraph.rule import FoldConstants, Rule, flatten
from eqsat.errors import ArgumentError, CertificateError
from eqsat.onnx.constants import ConstantNodes, constant_nodes
from eqsat.onnx.definition import definition_rules
from eqsat.onnx.exporter import export_with_values
from eqsat.onnx.files import Given
from eqsat.onnx.graphs import attributes_of, nodes_of, subgraphs
from eqsat.onnx.imported import Imported
from eqsat.onnx.importer import import_with_bodies
from eqsat.onnx.mapped import load_mapped
from eqsat.onnx.opaque import PLAIN, OpaqueNode
from eqsat.onnx.optimize import Body, Optimization
from eqsat.onnx.upgrade import at_opset
from eqsat.pipeline.options import Rules
from eqsat.pipeline.saturate import saturate
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from eqsat.relay.infer import infer_types
from eqsat.relay.ty import TupleType
from eqsat.relay.visitor import post_order, rebuild
from eqsat.rules import RuleSet, default, in_sight, written

_SPELLED = Limits(iterations=6, nodes=20_000, seconds=20.0)
"""Limits of the proof that a node equals its written form."""
_KEPT_BYTES = 1 << 16
"""Largest size, in bytes, of constants whose values these proofs may use."""
_MOST_FOLDED = 1 << 30
"""Largest size, in bytes, of constants that are computed in these proofs."""
_IMPORTING = Limits()


def certify(done: Optimization) -> Certificate:
    """Return a certificate that the optimized model computes the same values as the given one.

    The attribute ``uncovered`` of the certificate lists the parts that its steps do not prove.

    Args:
        done: The optimization, made with ``explain=True``.

    Raises:
        ArgumentError: The optimization was made without ``explain=True``.
        CertificateError: The model has parts that certificates do not support.
    """
    return certified(done).certificate


@dataclass(frozen=True)
class Proved:
    """How many nodes of an optimized model are proved, and how many can only be sampled.

    A node is proved if checked steps lead from the given model to what it computes. It is classified by the soundness
    of those of these steps that do not concern its operands. A node is ``exact`` if it computes the same bits as the
    given model would in its place from the same operands.

    Attributes:
        nodes: Class -> number of nodes. The steps of the node keep every bit (``exact``), all but rounding
            (``rounding``), or all but rounding if all values are finite (``finite``); no step leads to the node
            (``sampled``).
        sampled: Operator -> number of its ``sampled`` nodes.
        uncovered: Descriptions of the parts that no step proves.
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


def proved(done: Optimization, found: Certified | None = None) -> Proved:
    """Return how many nodes of an optimized model are proved to compute the same values as the given one.

    Args:
        done: The optimization, made with ``explain=True``.
        found: The result of :func:`certified` for it, if there is one already.

    Raises:
        ArgumentError: The optimization was made without ``explain=True``.
    """
    counts = dict.fromkeys([*WEAKER, _SAMPLED], 0)
    sampled: Counter[str] = Counter()
    with paused_gc():
        try:
            found = found or certified(done)
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
    """Check a certificate that two models compute the same values.

    The models are read, and each step is checked to be an instance of its rule. The check uses no part of the
    optimizer.

    Args:
        before, after: The models, in any form that :func:`eqsat.onnx.load` takes.
        certificate: The certificate, its JSON data as a dictionary, or the path of a file.
        rules: The rules that the model was optimized with, in addition to those that eqsat ships.

    Returns:
        The result of the check; its attribute ``proved`` is true if the certificate covers the whole model.

    Raises:
        CertificateError: The certificate cannot be read, belongs to other models or to other versions of rules, or
            contains a step that does not hold. The message names the step.
        ModelError: A model cannot be read.
    """
    return Models(before, after).check(certificate, rules)


class Models:
    """Two models that are read once, to check several certificates of them.

    Args:
        before, after: As for :func:`check`.
    """

    def __init__(self, before: Given, after: Given):
        self.before, self.after = load_mapped(before), load_mapped(after)
        self._read: dict[int | None, tuple[_Read, _Read]] = {}

    def check(self, certificate: certificates.Given, rules: Rules | None = None) -> Checked:
        """Check a certificate, as :func:`check` does."""
        read = certificates.read(certificate)
        with paused_gc():
            if read.opset not in self._read:
                self._read[read.opset] = _raised(self.before, read.opset), _Read(self.after)
            given, written = self._read[read.opset]
            _check_alike(given.whole, written.whole)
            return check_steps(_pair(given, written), read, _known_rules(given, rules))


class _Read:
    """A model as functions: the function of its graph, and the functions of the bodies in it.

    Args:
        model: The model.
        constants: An object that computes nodes over constants that are not understood; optional.
    """

    def __init__(self, model: ir.Model, constants: ConstantNodes | None = None):
        self.whole, self.bodies = import_with_bodies(model, constants)


def _raised(model: ir.Model, opset: int | None) -> _Read:
    """Return a model, converted to an opset."""
    with constant_nodes(model, _IMPORTING) as constants:
        raised = at_opset(model, opset, constants)
        constants.take(raised)
        return _Read(raised, constants)


def _pair(given: _Read, written: _Read, improved: Iterable[Body] = ()) -> Pair:
    calls = NodeCalls([given.whole.model, written.whole.model])
    for read in (given, written):
        for graph, imported in read.bodies.items():
            calls.add(graph, imported, imported.function)
    for body in improved:
        calls.add(body.graph, body.imported, body.function)
    return Pair(given.whole.function, written.whole.function, calls, by_name=True)


def _check_alike(given: Imported, written: Imported) -> None:
    """Check that both models have outputs of the same names, and equal tensors of types that the IR does not have."""
    for name in [param.name_hint for param in given.function.params]:
        tensors = [
            each.graph.initializers[name].const_value for each in (given, written) if name in each.graph.initializers
        ]
        arrays = [tensor.numpy() for tensor in tensors if tensor is not None]
        if len(arrays) == 2 and not _is_same(*arrays):
            raise CertificateError(f"the models have different tensors {name!r}")
    names = [[value.name for value in each.graph.outputs] for each in (given, written)]
    if names[0] != names[1]:
        raise CertificateError(f"the models have different outputs: {', '.join(names[0])} and {', '.join(names[1])}")


def _is_same(one: Any, other: Any) -> bool:
    alike = one.dtype == other.dtype and one.shape == other.shape
    return bool(alike and (np.array_equal(one, other) if one.dtype == object else one.tobytes() == other.tobytes()))


def _known_rules(read: _Read, rules: Rules | None) -> list[Rule]:
    """Return the rules that steps may use: the given ones, the shipped ones, and the definitions of nodes."""
    given = [] if rules is None else flatten(rules)
    defined = [rule for each in (read.whole, *read.bodies.values()) for rule in definition_rules(each.function)]
    return with_shipped(list({rule.name: rule for rule in [*defined, *given]}.values()))


# ---- making a certificate


@dataclass(frozen=True)
class Certified:
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
        """Return the soundness of each node, as :func:`eqsat.certificates.extent.kept_by_term` defines it."""
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
    """Return the operands of an expression that are not values of the graph: they are parts of its node."""
    return [child for child in expr.children() if child not in values or isinstance(expr, TupleGetItem)]


@paused_gc()
def certified(done: Optimization) -> Certified:
    """Return the certificate that :func:`certify` returns, with the expressions that its steps are about.

    :func:`proved` uses it to count nodes.
    """
    given = _raised(done.imported.model, None)
    written = _Read(done.after)
    chosen = done.extraction.expr
    if not isinstance(chosen, Function):
        raise CertificateError("a function that a compiler or composite claims has no certificate")
    pair = _pair(given, written, done.written)
    by_name = {param.name_hint: pair.inputs[param] for param in given.whole.function.params}
    recorder = Recorder(pair, _known_rules(given, done.options.rules))
    try:
        for body in done.written:
            inside = pair.terms.inside.get(body.imported.graph)
            if inside is not None:
                leaves = {expr.name_hint: term for expr, term in inside.terms.items() if isinstance(expr, Var)}
                choice, leaf = body.extraction.explanation, partial(_leaf, leaves)
                record_choice(recorder, choice, body.function.body, leaf, inside.depth)
        numbers = record_choice(recorder, done.extraction.explanation, chosen.body, partial(_leaf, by_name))
        values = export_with_values(chosen, done.imported)[1]
        spelling = _Spelling(recorder, {body.graph: body for body in done.written}, written)
        spelling.take(_Written(chosen, numbers, values), _Again(written.whole, pair.numbers[1]))
        spelling.prove()
    except NotPlain as why:
        recorder.uncovered.append(str(why))
    pair = _pair(given, written)
    certificate, steps = finished(recorder, pair, done.options.opset)
    if certificate.uncovered and any(body.imported.graph not in pair.terms.inside for body in done.written):
        certificate.uncovered.append("bodies in which nodes may draw numbers, or nothing is known of them")
    return Certified(certificate, pair, steps, done.after.graph, written.whole.values)


def _results(chosen: Function, read: Function) -> Iterable[tuple[Expr, Expr]]:
    """The results of both functions; each function as a whole where they are not tuples alike."""
    fields = [each.body.fields if isinstance(each.body, Tuple) else () for each in (chosen, read)]
    return zip(*fields, strict=True) if fields[0] and len(fields[0]) == len(fields[1]) else [(chosen.body, read.body)]


@dataclass(frozen=True)
class _Written:
    """A function that was written, the terms of its nodes, and the names of the values that each was written as."""

    function: Function
    terms: dict[Expr, int]
    names: Mapping[Expr, Sequence[str]]


@dataclass(frozen=True)
class _Again:
    """A graph that was read again, and the terms of its nodes."""

    imported: Imported
    terms: Mapping[Expr, int]


@dataclass
class _Spelled:
    """An expression and what it was read back as, over variables for what both are computed from."""

    chosen: Expr
    read: Expr
    leaves: dict[str, int]
    depth: int


class _Spelling:
    """Proves that a written model, read again, is the function that was written.

    Args:
        recorder: Takes the steps.
        bodies: What was written for bodies, by the graphs that it was written as.
        again: The model as it was read again.
    """

    def __init__(self, recorder: Recorder, bodies: Mapping[ir.Graph, Body], again: _Read):
        self.recorder = recorder
        self.terms = recorder.terms
        self.bodies = bodies
        self.again = again
        self._waiting: list[_Spelled] = []

    def take(self, chosen: _Written, read: _Again, depth: int = 0) -> None:
        """Note what is to be proved, that of bodies before what is computed with them."""
        pairs: list[tuple[Expr, Expr]] = []
        for expr, names in chosen.names.items():
            if not isinstance(expr, Call) or expr not in chosen.terms:
                continue
            is_one = not isinstance(self.terms.type_of(chosen.terms[expr]), TupleType)
            parts: list[Expr] = [expr] if is_one else [TupleGetItem(expr, index) for index in range(len(names))]
            twins = [(part, read.imported.values.get(name)) for part, name in zip(parts, names, strict=True)]
            pairs += [(part, twin) for part, twin in twins if twin is not None and twin in read.terms]
        for one, other in [*pairs, *_results(chosen.function, read.imported.function)]:
            if isinstance(one, TupleGetItem) and one not in chosen.terms:
                chosen.terms[one] = self.terms.field_of(chosen.terms[one.tuple_value], one.index)
            for body, graph in zip(_graphs(one), _graphs(other), strict=False):
                self._take_body(body, graph)
            if not self.terms.same(chosen.terms[one], read.terms[other]):
                self._waiting.append(self._cut(one, other, chosen.terms, read.terms, depth))
                self.terms.equate(chosen.terms[one], read.terms[other])

    def _take_body(self, body: ir.Graph, graph: ir.Graph) -> None:
        mine, theirs = self.terms.inside.get(body), self.terms.inside.get(graph)
        if mine is not None and theirs is not None and body in self.bodies:
            written = self.bodies[body]
            read = _Again(self.again.bodies[graph], theirs.terms)
            self.take(_Written(written.function, mine.terms, written.names), read, theirs.depth)

    def _cut(
        self, expr: Expr, twin: Expr, chosen: Mapping[Expr, int], read: Mapping[Expr, int], depth: int
    ) -> _Spelled:
        """Two expressions down to where they have equal parts."""
        leaves: dict[int, Var] = {}
        mine = {self.terms.find(chosen[node]) for node in self._near(expr) if node in chosen}
        theirs = {self.terms.find(read[node]) for node in self._near(twin) if node in read}
        shared = mine & theirs
        cut = [self._over(root, numbers, shared, leaves) for root, numbers in ((expr, chosen), (twin, read))]
        return _Spelled(cut[0], cut[1], {var.name_hint: term for term, var in leaves.items()}, depth)

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

    def prove(self) -> None:
        """Record the steps."""
        rules = RuleSet(
            "spelling", [FoldConstants(limit=_MOST_FOLDED), *written, *in_sight(default.without("fold-constants"))]
        )
        for spelled in self._waiting:
            whole = Tuple([spelled.chosen, spelled.read])
            region = saturate(whole, rules, limits=_SPELLED, explain=True).regions[-1]
            journal = region.journal
            if journal is None:
                raise ArgumentError("nothing was recorded for an explanation: optimize with explain=True")
            pair = [journal.of_handle[region.lowered.handles[each]] for each in (spelled.chosen, spelled.read)]
            closed = closure_of(journal, pair)
            if not closed.same(*pair):
                self.recorder.uncovered.append(f"that {one_line(str(spelled.chosen), 80)} is written as it is read")
                continue
            leaf = partial(_leaf, spelled.leaves)
            JournalWriter(self.recorder, journal, closed, region.types, leaf, spelled.depth).prove(*pair)


def _leaf(leaves: Mapping[str, int], var: Var) -> int:
    """The term that a variable stands for."""
    return leaves[var.name_hint]


# ---- nodes that are not understood


def _graphs(expr: Expr) -> Iterable[ir.Graph]:
    """The bodies that a node is written with, or one of whose results an expression is."""
    call = expr.tuple_value if isinstance(expr, TupleGetItem) else expr
    node = call.attrs.get("node") if isinstance(call, Call) and call.attrs is not None else None
    return subgraphs(node.attributes) if isinstance(node, OpaqueNode) else ()


class NodeCalls(Calls):
    """Keys of nodes that the IR does not have.

    A node with bodies is one of the operator, the other attributes and what its bodies give, if no node in these may
    draw numbers or is otherwise unknown. Else it equals only nodes with bodies that are written alike.

    Args:
        models: The models that nodes are of.
    """

    def __init__(self, models: Sequence[ir.Model]):
        self.models = models
        self._bodies: dict[ir.Graph, TermsBody] = {}
        self._opened: dict[OpaqueNode, Opened | None] = {}
        self._keys: dict[OpaqueNode, Hashable] = {}

    def add(self, graph: ir.Graph, imported: Imported, function: Function) -> None:
        """Learn what a graph computes: ``function``, with the parameters of ``imported``."""
        captured = len(imported.captured)
        if len(function.params) == captured + len(imported.graph.inputs):  # no tensors of types that are not known
            names = map(f"#{len(self._bodies)}-{{}}".format, count())
            self._bodies[graph] = TermsBody(graph, function, captured, infer_types(function, names=names))

    def key(self, attrs: Attrs) -> Hashable:
        node = attrs.get("node")
        if not isinstance(node, OpaqueNode):
            return attrs.key
        if node not in self._keys:
            self._keys[node] = _node_key(node, self.models) if self.opened(attrs) is None else _opened_key(node)
        return (attrs.type_key, self._keys[node])

    def opened(self, attrs: Attrs) -> Opened | None:
        node = attrs.get("node")
        if not isinstance(node, OpaqueNode) or node.is_pure:
            return None
        if node not in self._opened:
            self._opened[node] = self._open(node)
        return self._opened[node]

    def _open(self, node: OpaqueNode) -> Opened | None:
        graphs = list(subgraphs(node.attributes))
        bodies = [self._bodies[graph] for graph in graphs if graph in self._bodies]
        names = [value.name or "" for value in node.captured]
        plain = all(each.type in PLAIN or any(True for _ in subgraphs([each])) for each in node.attributes)
        if not graphs or len(bodies) < len(graphs) or not plain or not node.is_known or node.node.device_configurations:
            return None
        if len(set(names)) < len(names):
            return None
        for body in bodies:
            for expr in post_order(body.function.body):
                inner = expr.attrs.get("node") if isinstance(expr, Call) and expr.attrs is not None else None
                is_unknown = isinstance(inner, OpaqueNode) and not inner.is_pure
                if is_unknown and isinstance(expr, Call) and expr.attrs is not None and self.opened(expr.attrs) is None:
                    return None
        return Opened(sum(node.given), names, bodies)


def _opened_key(opaque: OpaqueNode) -> Hashable:
    """Return the data of a node except its inputs and the computations of its bodies."""
    node = opaque.node
    attributes = [
        (attr.name, [(len(each.inputs), len(each.outputs)) for each in subgraphs([attr])] or repr(attr.value))
        for attr in opaque.attributes
    ]
    return (node.domain, node.op_type, opaque.opset, tuple(map(repr, sorted(attributes, key=str))), opaque.given)


def _node_key(opaque: OpaqueNode, models: Sequence[ir.Model]) -> Hashable:
    """Return the data of a node except its inputs; nodes that may draw numbers differ in the names of their outputs."""
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
