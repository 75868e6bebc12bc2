"""What a whole model takes, by what its kernels take."""

from __future__ import annotations

import onnx_ir as ir

from eqsat.calibration.model import AsItRuns
from eqsat.calibration.sizes import Sizes, bound_type
from eqsat.cost import CostFunction, CostNode
from eqsat.cost.runtimes import NO_RUNTIME
from eqsat.extraction.costs import as_tuple
from eqsat.onnx.fixed_sizes import with_sizes
from eqsat.onnx.optimize import Optimization, run
from eqsat.pipeline.options import Options
from eqsat.relay.ty import TensorType, is_static


def predicted(model: ir.Model, priced: CostFunction, runtime: str = NO_RUNTIME, sizes: Sizes | None = None) -> float:
    """Return the seconds that a model takes.

    What only constants go into is taken to be computed before. Of an If either branch may run: it counts as half of
    both. The bodies of loops count once.

    Args:
        model: The model.
        priced: Seconds of kernels; it knows the sizes.
        runtime: The runtime whose kernels count.
        sizes: The sizes that open dimensions have, by name. Sizes that do not follow from these by types alone are
            found in a copy of the model that has them. This copy computes no sizes as it runs, so it counts only where
            it takes more.

    Raises:
        EqsatError: As for :func:`eqsat.onnx.run`.
    """
    asked = _Asked(priced, sizes or {})
    options = Options(rules=[], cost_model=asked, runtime=runtime)
    seconds = _seconds(run(model, options=options))
    if not asked.lacks_sizes or not sizes or not all(sizes.values()):
        return seconds
    return max(seconds, _seconds(run(with_sizes(model, sizes), options=options)))


class _Asked(AsItRuns):
    """Remembers whether it is asked for a node of unknown sizes."""

    def __init__(self, priced: CostFunction, sizes: Sizes):
        super().__init__(priced)
        self.sizes = sizes
        self.lacks_sizes = False

    def __call__(self, node: CostNode) -> float:
        if node.runs and not self.lacks_sizes:
            types = (bound_type(ty, self.sizes) for ty in (*node.arg_types, node.type))
            self.lacks_sizes = any(isinstance(ty, TensorType) and not is_static(ty) for ty in types)
        return super().__call__(node)


def _seconds(done: Optimization) -> float:
    owners = {
        graph: node
        for node in done.imported.model.graph.all_nodes()
        for attribute in node.attributes.values()
        if attribute.type == ir.AttributeType.GRAPH
        for graph in [attribute.as_graph()]
    }

    def share(graph: ir.Graph) -> float:
        """Of how many of its owner's runs a body is a part, on average."""
        found = 1.0
        while (node := owners.get(graph)) is not None and isinstance(node.graph, ir.Graph):
            found *= 0.5 if node.op_type == "If" else 1.0
            graph = node.graph
        return found

    bodies = [share(body.imported.graph) * as_tuple(body.extraction.input_cost)[0] for body in done.written]
    return as_tuple(done.extraction.input_cost)[0] + sum(bodies)
