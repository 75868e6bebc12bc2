"""A new class of expressions: what its definition says is enough for all but text, types and values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from eqsat import relay
from eqsat.egraph.build import build_expr, input_choice
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.lower import lower
from eqsat.egraph.snapshot import take_snapshot
from eqsat.ir import structural_equal, structural_hash
from eqsat.relay.expr import Expr, Scope, Var
from eqsat.relay.visitor import substitute


class Scan(Expr):
    """Applies ``body`` to ``start`` ``steps`` times: what ``state`` stands for is the last result."""

    __slots__ = ("body", "start", "state", "steps")
    kind = "scan"

    def __init__(self, start: Expr, steps: int, state: Var, body: Expr):
        self._init()
        self.start, self.steps, self.state, self.body = start, steps, state, body

    def children(self) -> tuple[Expr, ...]:
        return (self.start, self.state, self.body)

    def with_children(self, children: Sequence[Expr]) -> Scan:
        start, state, body = children
        return Scan(start, self.steps, state, body)._carry(self)

    @property
    def payload(self) -> Hashable:
        return self.steps

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (Scope((self.state,), self.body),)


X, W = relay.var("x", shape=(2, 3)), relay.var("w", shape=(2, 3))


def scan(start: Expr, steps: int = 3) -> Scan:
    state = relay.var("state", shape=(2, 3))
    return Scan(start, steps, state, relay.nn.relu(state + W))


def test_its_variables_are_bound_and_its_children_are_rebuilt() -> None:
    node = scan(X)
    assert relay.analysis.free_vars(node) == [X, W]
    assert relay.analysis.bound_vars(node) == [node.state]
    other = substitute(node, {X: W})
    assert isinstance(other, Scan)
    assert (other.start, other.steps, other.state, other.body) == (W, 3, node.state, node.body)


def test_graphs_are_equal_up_to_the_names_of_what_it_binds() -> None:
    assert structural_equal(scan(X), scan(X))
    assert structural_hash(scan(X)) == structural_hash(scan(X))
    assert not structural_equal(scan(X), scan(X, steps=4))
    assert not structural_equal(scan(X), scan(W))


def test_an_e_graph_holds_it_over_what_it_captures() -> None:
    node = scan(relay.tanh(X))
    egraph = EGraph()
    lowered = lower(egraph, node, {})
    egraph.flush()
    snapshot = take_snapshot(egraph)
    choice, root = input_choice(snapshot, lowered), int(snapshot.handle_class[lowered.root])
    assert structural_equal(build_expr(snapshot, choice, root), node)


def test_a_picture_shows_its_kind() -> None:
    assert 'label="scan"' in relay.viz(scan(X)).dot
