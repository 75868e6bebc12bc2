"""What becomes of a given graph before rules see it: the walks over it, one after the other."""

from __future__ import annotations

from eqsat.egraph.chains import compose_chains
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.given_graph import Composed, Fold, GivenGraph
from eqsat.egraph.nodes import Nodes
from eqsat.egraph.product_runs import move_shifts
from eqsat.egraph.slice_runs import join_parts
from eqsat.egraph.view_runs import move_views
from eqsat.egraph.weight_runs import scale_weights


def compose(egraph: EGraph, nodes: Nodes, root: int, fold: Fold) -> list[Composed]:
    """Compose the chains of a graph that is in an e-graph; what they became.

    Args:
        egraph: The e-graph, of which no rule has seen anything.
        nodes: The e-nodes of the graph.
        root: The handle of the whole graph.
        fold: Computes constants.
    """
    graph = GivenGraph(egraph, nodes, root, fold)
    return [*join_parts(graph), *move_views(graph), *move_shifts(graph), *scale_weights(graph), *compose_chains(graph)]
