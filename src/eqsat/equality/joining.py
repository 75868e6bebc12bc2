"""Two graphs as one over the same variables, in which equal expressions are one node."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.egraph.lower import is_opaque, over, region_children
from eqsat.egraph.symbols import ConstantKeys
from eqsat.errors import ArgumentError
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import callees_first, infer_types, unknown_sizes
from eqsat.relay.module import IRModule
from eqsat.relay.structural import structural_equal, structural_hash
from eqsat.relay.ty import Type, agree
from eqsat.relay.visitor import post_order, rewrite_post_order, substitute

SIDES = ("the first", "the second")
"""The names of the graphs in messages."""


@dataclass(frozen=True)
class Joined:
    """Two graphs over the same variables.

    Attributes:
        params: The variables: those of the first graph.
        roots: What each graph computes.
        nodes: All nodes, each after those that it is computed from.
        types: The type of each.
        origins: For each graph, the first of its own nodes that each node is.
    """

    params: tuple[Var, ...]
    roots: tuple[Expr, Expr]
    nodes: list[Expr]
    types: dict[Expr, Type]
    origins: tuple[dict[Expr, Expr], dict[Expr, Expr]]


def join(left: Expr | IRModule, right: Expr | IRModule, match: Mapping[str, str] | None = None) -> Joined:
    """Join two graphs.

    Args:
        left, right: Expressions, functions, or modules, of which the function ``main`` counts. Parameters correspond
            by order if the names of some differ, else by name; free variables of expressions by identity or by name.
        match: Name of a variable of the second graph -> that of the first which it corresponds to; the others
            correspond by name.

    Raises:
        ArgumentError: They are not graphs, or their variables or results differ in number or types. The message has the
            signatures of both.
        TypeCheckError: The types of one do not check.
    """
    graphs = [_Graph.of(given, side) for given, side in zip((left, right), SIDES, strict=True)]
    first, second = graphs
    pairs = _corresponding(first, second, match)
    sharing = Sharing()
    for param in first.params:
        sharing.new[param] = param
    sharing.new.update({theirs: ours for ours, theirs in pairs})
    roots, origins = [], []
    for graph in graphs:
        known = len(sharing.origin)
        roots.append(sharing.add(graph.body))
        origins.append(dict(list(sharing.origin.items())[known:]))
        sharing.origin = {}
    whole = Tuple(roots)
    types = infer_types(whole, names=unknown_sizes())
    for param in first.params:  # nothing may use it
        types.setdefault(param, first.types.get(param) or second.types[param])
    if not agree(types[roots[0]], types[roots[1]]):
        raise _different("results", first, second)
    nodes = [node for node in post_order(whole, children=region_children) if node is not whole]
    return Joined(tuple(first.params), (roots[0], roots[1]), nodes, types, (origins[0], origins[1]))


class Sharing:
    """Makes equal expressions one node.

    Attributes:
        new: Node that was given -> the node that it is.
        origin: Node -> the first node that was given of those that it is.
    """

    def __init__(self) -> None:
        self.new: dict[Expr, Expr] = {}
        self.origin: dict[Expr, Expr] = {}
        self._known: dict[Hashable, Expr] = {}
        self._constants = ConstantKeys()
        self._opaque: dict[int, list[Expr]] = {}

    def add(self, root: Expr) -> Expr:
        """The node that a graph is."""
        new = self.new
        bound: dict[Expr, Expr] = {}
        for node in post_order(root, children=region_children):
            if isinstance(node, Let) and not is_opaque(node):
                bound[node.var] = node.value
        for node in post_order(root, children=region_children):
            if node in new:
                made = new[node]
            elif isinstance(node, Var):
                made = new[bound[node]] if node in bound else node
            elif isinstance(node, Let) and not is_opaque(node):
                made = new[node.body]
            else:
                made = self._made(node)
            new[node] = made
            self.origin.setdefault(made, node)
        return new[root]

    def _made(self, node: Expr) -> Expr:
        if is_opaque(node):
            return self._known_opaque(substitute(node, {var: self.new[var] for var in free_vars(node)}))
        children = [self.new[child] for child in region_children(node)]
        key = self._key(node, children)
        if key not in self._known:
            self._known[key] = over(node, children)
        return self._known[key]

    def _key(self, node: Expr, children: Sequence[Expr]) -> Hashable:
        if isinstance(node, Constant):
            large = node.data.nbytes > LARGE
            return ("large", node.data.digest()) if large else ("constant", self._constants[node])
        attrs = None if not isinstance(node, Call) or node.attrs is None else node.attrs.key
        op = node.op if isinstance(node, Call) and isinstance(node.op, Op) else None
        index = node.index if isinstance(node, TupleGetItem) else None
        plain = isinstance(node, (Call, Tuple, TupleGetItem, If))
        return (node.kind, op, attrs, index, None if plain else node, *children)

    def _known_opaque(self, node: Expr) -> Expr:
        """The first of the nodes of other kinds that are equal to one."""
        alike = self._opaque.setdefault(structural_hash(node), [])
        for each in alike:
            if structural_equal(each, node):
                return each
        alike.append(node)
        return node


LARGE = 64 << 20
"""Size in bytes from which constants are compared by their whole content."""


# ---- what is given


@dataclass
class _Graph:
    """One of the graphs: its inputs and its results."""

    side: str
    params: list[Var]
    body: Expr
    has_order: bool
    types: dict[Expr, Type] = field(default_factory=dict)

    @staticmethod
    def of(given: Expr | IRModule, side: str) -> _Graph:
        if isinstance(given, IRModule):
            if "main" not in given:
                raise ArgumentError(f"{side} module has no function main: its functions are {_names(given)}")
            given = _without_calls(given)
        elif not isinstance(given, Expr):
            raise ArgumentError(f"{side} graph is an expression, function or IRModule, not {given!r}")
        types = infer_types(given)
        if isinstance(given, Function):
            return _Graph(side, [*given.params, *free_vars(given)], given.body, True, types)
        return _Graph(side, free_vars(given), given, False, types)

    def signature(self) -> str:
        """Return the types of its inputs and results as text."""
        params = ", ".join(f"%{each.name_hint}: {self.types[each]}" for each in self.params)
        return f"{self.side} takes ({params}) and gives {self.types[self.body]}"


def _names(module: IRModule) -> list[str]:
    return [variable.name_hint for variable in module.get_global_vars()]


def _without_calls(module: IRModule) -> Function:
    """The function ``main`` with the bodies of other functions in the place of their calls, but where these recur."""
    done: dict[str, Function] = {}

    def visit(old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call) and isinstance(new.op, GlobalVar) and new.op.name_hint in done:
            callee = done[new.op.name_hint]
            if len(callee.params) == len(new.args):
                return substitute(callee.body, dict(zip(callee.params, new.args, strict=True)))
        return new

    for variable in callees_first(module):
        function = rewrite_post_order(module[variable], visit)
        assert isinstance(function, Function)
        done[variable.name_hint] = function
    return done["main"]


# ---- variables


def _corresponding(first: _Graph, second: _Graph, match: Mapping[str, str] | None) -> list[tuple[Var, Var]]:
    """Pairs of variables of the two graphs."""
    ours = {each.name_hint: each for each in first.params}
    theirs = {each.name_hint: each for each in second.params}
    for name, known, side in [(n, theirs, second) for n in match or ()] + [
        (n, ours, first) for n in (match or {}).values()
    ]:
        if name not in known:
            raise ArgumentError(f"match names {name!r}, which is not a variable of {side.side}: {side.signature()}")
    if len(first.params) != len(second.params) and first.has_order and second.has_order:
        raise _different("variables", first, second)
    if match:
        names = {name: match.get(name, name) for name in theirs}
        if len({*names.values()}) < len(names) or not {*names.values()} <= {*ours}:
            raise _different("variables", first, second)
        pairs = [(ours[names[name]], variable) for name, variable in theirs.items()]
    elif {*ours} == {*theirs} and len(ours) == len(first.params) == len(second.params):
        pairs = [(ours[name], variable) for name, variable in theirs.items()]
    elif first.has_order and second.has_order:
        pairs = list(zip(first.params, second.params, strict=True))
    else:
        return _by_identity(first, second)
    for mine, other in pairs:
        if not agree(first.types[mine], second.types[other]):
            raise _different("variables", first, second)
    return pairs


def _by_identity(first: _Graph, second: _Graph) -> list[tuple[Var, Var]]:
    """Pairs of the free variables of expressions: the others of one graph are variables of both."""
    ours = {each.name_hint: each for each in first.params}
    pairs = []
    for variable in second.params:
        same = variable in first.params
        other = variable if same else ours.get(variable.name_hint, variable)
        if other is variable and not same:
            first.params.append(variable)
            first.types[variable] = second.types[variable]
        elif not same and not agree(first.types[other], second.types[variable]):
            raise _different("variables", first, second)
        pairs.append((other, variable))
    return pairs


def _different(what: str, first: _Graph, second: _Graph) -> ArgumentError:
    hint = "; match (in the shell: --match) says which corresponds to which" if what == "variables" else ""
    return ArgumentError(f"their {what} differ: {first.signature()}; {second.signature()}{hint}")
