"""Optimize magika's network with a cost model of your own: the bytes that operators write.

python examples/minimize_traffic.py
"""

import math
from importlib.resources import files

import eqsat.onnx
from eqsat.cost import CostNode
from eqsat.relay.ty import TensorType


def bytes_written(node: CostNode) -> float:
    """Return four bytes for each element of the result of an operator that runs; unknown sizes count as one."""
    if not node.runs or not isinstance(node.type, TensorType):
        return 0.0
    return 4.0 * math.prod(size if isinstance(size, int) else 1 for size in node.type.shape)


def main() -> None:
    """Optimize the network, and print how many bytes the given model and the result write."""
    model = eqsat.onnx.load(str(next(files("magika").joinpath("models").rglob("model.onnx"))))
    done = eqsat.onnx.run(model, cost_model=bytes_written)
    print(f"{done.input_cost:g} bytes written before, {done.cost:g} after")


if __name__ == "__main__":
    main()
