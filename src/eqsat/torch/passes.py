"""Passes over fx graphs, and rules that are written as two functions of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch.fx.experimental.proxy_tensor import make_fx

from eqsat.egraph.author import rewrite as make_rule
from eqsat.egraph.author import type_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.errors import ModelError, RuleError
from eqsat.layers.optimize import optimize_with_report
from eqsat.pipeline.options import OptimizeKeywords, Options, Rules
from eqsat.relay.dataflow_pattern import is_tuple, is_tuple_get_item
from eqsat.relay.expr import Call, Expr, Function, Op, Tuple, TupleGetItem, Var, build_foreign
from eqsat.relay.structural import structural_equal
from eqsat.relay.ty import Dim, TensorType, Type
from eqsat.relay.visitor import post_order
from eqsat.rules import default
from eqsat.torch.compiling import optimized
from eqsat.torch.importer import import_nodes
from eqsat.torch.opaque import mutates
from eqsat.torch.types import Sizes

Graph = TypeVar("Graph", fx.Graph, fx.GraphModule)


def graph_pass(rules: Rules | None = None, **keywords: Unpack[OptimizeKeywords]) -> Callable[[Graph], Graph]:
    """Return a pass for Inductor's ``post_grad_custom_pre_pass``, or for any fx graph of ATen operators.

    The pass changes the graph or module that it receives, and returns it. A graph that cannot be optimized stays
    unchanged, and one warning gives the reason.

    Args:
        rules: Rule sets or rules, by default ``eqsat.rules.default``; see :func:`rule` for rules that are written as
            two functions.
        keywords: Further options, or all of them as ``options``: see :class:`eqsat.Options`.
    """
    options = Options.of(keywords, rules=rules)

    def run(given: Graph) -> Graph:
        module = given.owning_module if isinstance(given, fx.Graph) else given
        if not isinstance(module, fx.GraphModule):
            raise ModelError("the graph belongs to no module: pass a torch.fx.GraphModule")
        found = optimized(module, options)
        if found is not None:
            _replace(module.graph, found.module.graph)
            for name, value in found.stored.items():
                module.register_buffer(name, value, persistent=False)
            module.recompile()
        return given

    return run


def _replace(graph: fx.Graph, by: fx.Graph) -> None:
    """Make a graph what another is."""
    for node in reversed(graph.nodes):
        graph.erase_node(node)
    copies: dict[fx.Node, fx.Node] = {}
    for node in by.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].name = node.name


def rule(
    name: str,
    search: Callable[..., Any],
    replacement: Callable[..., Any],
    examples: Sequence[torch.Tensor],
    soundness: Soundness = Soundness.ROUNDING,
) -> RuleSet:
    """Return a rule that equates the computations of two functions of PyTorch.

    Both functions are traced. Sizes that are written in the functions as arguments of operators, such as those of
    ``view``, must be those of the examples for the rule to match. Other sizes do not matter. The rule also matches
    every form of the searched computation that other rules derive. In addition, a second rule searches for the cheapest
    form that the default rules derive from ``search``, because other spellings have the same cheapest form. It matches
    only where sizes are equal, or 1, as those of the examples are.

    Args:
        name: The name of the rule.
        search, replacement: Functions that take as many tensors as there are examples, and return one tensor.
        examples: Tensors with the element types that the rule is for.
        soundness: Which values the rule keeps.

    Returns:
        The rule, and the rule for the cheapest form under the name ``NAME-in-short`` if that form is a different one.

    Raises:
        RuleError: A function cannot be traced, does not return exactly one tensor, or has other effects.
    """
    places = variables(" ".join(f"x{index}" for index in range(len(examples))))
    searched, replaced = (_traced(name, function, examples) for function in (search, replacement))
    right = replaced.pattern(places)
    rules = [make_rule(name, searched.pattern(places), right, soundness=soundness)]
    short = searched.in_short()
    if short is not None:
        guard = when(_sized_like([tuple(each.shape) for each in examples]), *map(type_of, places))
        rules.append(make_rule(f"{name}-in-short", short.pattern(places), right, guard, soundness=soundness))
    return RuleSet(name, rules)


def _sized_like(examples: Sequence[tuple[int, ...]]) -> Callable[..., bool]:
    """Whether types have the ranks of the examples, equal sizes where those have, and 1 where they have 1."""

    def sized_like(*types: Type) -> bool:
        sizes: dict[int, Dim] = {1: 1}
        for ty, shape in zip(types, examples, strict=True):
            if not isinstance(ty, TensorType) or len(ty.shape) != len(shape):
                return False
            for size, example in zip(ty.shape, shape, strict=True):
                if (size == 1) != (example == 1) or sizes.setdefault(example, size) != size:
                    return False
        return True

    return sized_like


@dataclass(frozen=True)
class _Traced:
    """What a function computes.

    Args:
        params: The parameter of the IR that stands for each of its own, None for those that it does not use.
        body: What it gives.
    """

    params: Sequence[Var | None]
    body: Expr

    def pattern(self, places: Sequence[Any]) -> Any:
        """What it computes of ``places``, as a pattern."""
        made: dict[Expr, Any] = {
            param: place for param, place in zip(self.params, places, strict=True) if param is not None
        }
        for expr in post_order(self.body):
            if expr not in made:
                made[expr] = _of_places(expr, [made[child] for child in expr.children() if not isinstance(child, Op)])
        return made[self.body]

    def in_short(self) -> _Traced | None:
        """The cheapest that is equal by the default rules; None if that is the same, or does not use all."""
        params = [param for param in self.params if param is not None]
        if len(params) < len(self.params) or not isinstance(self.body, Call):
            return None
        found = optimize_with_report(Function(params, self.body), default).expr
        if not isinstance(found, Function) or structural_equal(found, Function(params, self.body)):
            return None
        used = set(post_order(found.body))
        return _Traced(found.params, found.body) if used.issuperset(found.params) else None


def _traced(name: str, function: Callable[..., Any], examples: Sequence[torch.Tensor]) -> _Traced:
    """What a function computes.

    Raises:
        RuleError: As for :func:`rule`.
    """
    try:
        traced = make_fx(lambda *given: function(*given), tracing_mode="fake")(*examples)
        if any(map(mutates, traced.graph.nodes)):  # operators that PyTorch composes of such
            traced = aot_export_joint_simple(lambda *given: (function(*given),), tuple(examples), trace_joint=False)
    except Exception as error:  # the function is the user's
        raise RuleError(f"rule {name!r}: {function.__name__} cannot be traced: {error}") from error
    nodes = list(traced.graph.nodes)
    *inner, output = [node for node in nodes if node.op not in ("placeholder", "get_attr")]
    (result,) = output.args
    if isinstance(result, (tuple, list)) and len(result) == 1:
        (result,) = result
    if not isinstance(result, fx.Node) or any(node.op == "get_attr" for node in nodes):
        raise RuleError(f"rule {name!r}: {function.__name__} does not return exactly one tensor that it computes")
    given = [node for node in nodes if node.op == "placeholder"]
    imported = import_nodes(inner, [result], Sizes()) if inner else None
    if imported is None:
        only = Var(result.name, Sizes().type(result.meta["val"]))
        return _Traced([only if node is result else None for node in given], only)
    if len(imported.results) != 1:
        raise RuleError(f"rule {name!r}: {function.__name__} does more than compute a value")
    params = dict(zip(imported.inputs, imported.function.params, strict=True))
    return _Traced([params.get(node) for node in given], imported.function.body)


def _of_places(expr: Expr, children: list[Any]) -> Any:
    foreign = next((child for child in children if not isinstance(child, Expr)), None)
    if foreign is None:
        return expr
    if isinstance(expr, Tuple):
        return is_tuple(children)
    if isinstance(expr, TupleGetItem):
        return is_tuple_get_item(foreign, expr.index)
    assert isinstance(expr, Call)
    assert isinstance(expr.op, Op)
    return build_foreign(expr.op, children, dict(expr.attrs or {}), foreign)
