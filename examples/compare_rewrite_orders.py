"""Compare saturation with rewriting in place, one rule after another, on SqueezeNet.

python examples/compare_rewrite_orders.py
"""

import sys
from pathlib import Path

import eqsat
from eqsat import rules

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from models import MODELS


def main() -> None:
    """Apply three rule sets in several orders, and compare the costs of the results."""
    chosen = [rules.sets[name] for name in ("merge", "kernels", "shape")]
    comparison = eqsat.compare_orders(MODELS["SqueezeNet"](), chosen, orders=2, random_runs=0)
    print(str(comparison).splitlines()[0])


if __name__ == "__main__":
    main()
