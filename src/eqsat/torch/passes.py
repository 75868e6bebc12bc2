"""Rules as a pass over fx graphs, and rules that are written as two functions of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from eqsat.egraph.author import rewrite as make_rule
from eqsat.egraph.author import variables
from eqsat.egraph.rule import Rewrite, Soundness
from eqsat.errors import ModelError, RuleError
from eqsat.pipeline.options import OptimizeKeywords, Options, Rules
from eqsat.relay.expr import Call, Expr, Op, Tuple, TupleGetItem, build_foreign
from eqsat.relay.visitor import post_order
from eqsat.torch.compiling import optimized
from eqsat.torch.importer import import_nodes
from eqsat.torch.types import Sizes

Graph = TypeVar("Graph", fx.Graph, fx.GraphModule)


def graph_pass(rules: Rules | None = None, **keywords: Unpack[OptimizeKeywords]) -> Callable[[Graph], Graph]:
    """A pass for Inductor's ``post_grad_custom_pre_pass``, or for anything that takes an fx graph of ATen operators.

    The pass changes the graph, or module, that it is given, and returns it. Where the graph cannot be optimized it is
    left as it was, with one warning that says why.

    Args:
        rules: Rule sets or rules, by default ``eqsat.rules.default``; see :func:`rule` for those of two functions.
        keywords: Further options, or all of them as ``options``: see :class:`eqsat.Options`.
    """
    options = Options.of(keywords, rules=rules)

    def run(given: Graph) -> Graph:
        module = given.owning_module if isinstance(given, fx.Graph) else given
        if not isinstance(module, fx.GraphModule):
            raise ModelError("the graph belongs to no module: give a torch.fx.GraphModule")
        found = optimized(module, options)
        if found is not None:
            _replace(module.graph, found.after.graph)
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
) -> Rewrite:
    """A rule that two functions of PyTorch say: what one computes, the other does, too.

    Both are traced. Sizes that the operators of the functions name, such as those of ``view``, have to be those of the
    examples where the rule is to match; all else is matched whatever its sizes are, and in whatever order it is
    written that other rules know.

    Args:
        name: What the rule is called.
        search, replacement: Functions of as many tensors as there are examples, each of one tensor.
        examples: Tensors of the element types that the rule is for.
        soundness: How equal the two are.

    Raises:
        RuleError: A function cannot be traced, gives something else than one tensor, or does more than compute it.
    """
    names = [f"x{index}" for index in range(len(examples))]
    places = variables(" ".join(names))
    left, right = (_pattern(name, function, examples, places) for function in (search, replacement))
    return make_rule(name, left, right, soundness=soundness)


def _pattern(name: str, function: Callable[..., Any], examples: Sequence[torch.Tensor], places: Sequence[Any]) -> Any:
    """What a function computes of ``places``, as a pattern."""
    try:
        traced = make_fx(function, tracing_mode="fake", pre_dispatch=False)(*examples)
    except Exception as error:  # the function is the user's
        raise RuleError(f"rule {name!r}: {function.__name__} cannot be traced: {error}") from error
    nodes = list(traced.graph.nodes)
    *inner, output = [node for node in nodes if node.op not in ("placeholder", "get_attr")]
    (result,) = output.args
    if not isinstance(result, fx.Node) or any(node.op == "get_attr" for node in nodes):
        raise RuleError(f"rule {name!r}: {function.__name__} gives something else than one tensor that it computes")
    imported = import_nodes(inner, [result], Sizes()) if inner else None
    given = [node for node in nodes if node.op == "placeholder"]
    if imported is None:
        return places[given.index(result)]
    if len(imported.results) != 1:
        raise RuleError(f"rule {name!r}: {function.__name__} does more than compute a value")
    made: dict[Expr, Any] = {}
    for param, node in zip(imported.function.params, imported.inputs, strict=True):
        made[param] = places[given.index(node)]
    for expr in post_order(imported.function.body):
        if expr not in made:
            made[expr] = _of_places(expr, [made[child] for child in expr.children() if not isinstance(child, Op)])
    return made[imported.function.body]


def _of_places(expr: Expr, children: list[Any]) -> Any:
    foreign = next((child for child in children if not isinstance(child, Expr)), None)
    if foreign is None:
        return expr
    if isinstance(expr, Tuple):
        return foreign.build_tuple(children)
    if isinstance(expr, TupleGetItem):
        return children[0][expr.index]
    assert isinstance(expr, Call)
    assert isinstance(expr.op, Op)
    return build_foreign(expr.op, children, dict(expr.attrs or {}), foreign)
