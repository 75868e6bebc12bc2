"""Finding the nodes of one graph that occur as intermediate values in a form of the other graph that rules derived.

Such a node may have no equal node in the other graph and still be correct. This separates errors in an optimized graph
from parts that are only written in another way.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from eqsat.egraph.snapshot import Snapshot
from eqsat.equality.region import Part
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Expr


def in_forms(region: Region, part: Part, own: Iterable[Expr], other: Iterable[Expr]) -> set[Expr]:
    """Those of some nodes that a form of other nodes computes.

    Args:
        region: What became of a part of two graphs.
        part: The part.
        own: Nodes of it.
        other: Nodes of it, all forms of which are looked through.
    """
    class_of = region.snapshot.handle_class.tolist()
    handles = region.lowered.handles
    classes = {node: class_of[handles[made]] for node, made in part.nodes.items() if made in handles}
    reached = _below({classes[node] for node in other if node in classes}, region.snapshot)
    return {node for node in own if classes.get(node) in reached}


def _below(roots: set[int], snapshot: Snapshot) -> set[int]:
    """Return some classes and all classes that they may be computed from."""
    order = np.argsort(snapshot.node_class, kind="stable").tolist()
    ends = np.cumsum([0, *np.bincount(snapshot.node_class, minlength=snapshot.class_count).tolist()]).tolist()
    found, agenda = set(roots), [*roots]
    while agenda:
        of = agenda.pop()
        for node in order[ends[of] : ends[of + 1]]:
            for child in snapshot.children(node):
                if child not in found:
                    found.add(child)
                    agenda.append(child)
    return found
