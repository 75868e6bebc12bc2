"""The matcher agrees with the plain model in every answer and every binding."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings

from eqsat.errors import PatternError
from eqsat.relay.dataflow_pattern.analysis import analyse
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.visitor import post_order

from .model import Ambiguous, Model
from .strategies import generators, random_graph, random_pattern


@settings(max_examples=400, deadline=None)
@given(generators)
def test_matches_and_bindings_are_those_of_the_model(rng: random.Random) -> None:
    root = random_graph(rng)
    pattern = random_pattern(rng, root)
    matcher = Matcher(pattern, DataflowGraph(root))
    model = Model(root)
    # one matcher for all nodes: what it remembers of failures must not change later answers
    for node in post_order(root)[::-1]:
        assert outcome(matcher, node) == model_outcome(model, pattern, node)


def outcome(matcher: Matcher, node: Any) -> Any:
    try:
        return written(matcher.pattern, matcher.bound) if matcher.match(node) else False
    except PatternError:
        return "error"


def model_outcome(model: Model, pattern: Any, node: Any) -> Any:
    try:
        if not model.match(pattern, node):
            return False
    except (Ambiguous, TypeError, IndexError):
        return "error"
    return written(pattern, model.memo)


def written(pattern: Any, bound: Any) -> Any:
    """The bindings of the patterns that were written: re-association makes others on the way."""
    return {p: nodes for p, nodes in bound.items() if p in analyse(pattern).order}
