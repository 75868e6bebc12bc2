"""Partition VGG-19 for an accelerator of your own, by the cheapest cover with its kernels.

python examples/serve_an_accelerator.py
"""

import sys
from collections import Counter
from pathlib import Path

import eqsat
from eqsat import rules
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.expr import Call, Function
from eqsat.relay.visitor import post_order

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from models import MODELS

convolution = is_op("nn.conv2d")(wildcard(), wildcard())
biased = is_op("nn.bias_add")(convolution, wildcard())
TABLE = [
    ("mine.conv2d_bias_relu", is_op("nn.relu")(biased)),
    ("mine.conv2d_bias", biased),
    ("mine.conv2d", convolution),
]
"""The kernels of the accelerator."""


def main() -> None:
    """Print how many kernels of each name cover the network."""
    covered = eqsat.optimize(MODELS["VGG-19"](), rules=[rules.default, eqsat.composite_rules(TABLE)])
    called = [node.op for node in post_order(covered.body) if isinstance(node, Call)]
    kernels = Counter(op.attrs["Composite"] for op in called if isinstance(op, Function))
    print(", ".join(f"{count} x {name}" for name, count in sorted(kernels.items())))


if __name__ == "__main__":
    main()
