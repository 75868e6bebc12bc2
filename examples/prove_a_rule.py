"""Write a rule, test it, prove it, and use it to save memory traffic in VGG-19.

python examples/prove_a_rule.py
"""

import sys
from pathlib import Path

import eqsat
from eqsat.cost import Bytes
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op
from eqsat.rules import Soundness, attrs_of, like, rewrite, variables, when
from eqsat.rules.prove import prove
from eqsat.rules.verify import verify

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from models import MODELS


def has_no_padding(attrs: Attrs) -> bool:
    """Return whether all windows of a pooling operator lie inside its input."""
    return not any(attrs["padding"]) and not attrs["ceil_mode"]


def main() -> None:
    """Apply ReLU after max pooling instead of before it: the values are equal, and there are fewer of them."""
    (x,) = variables("x")
    pool = is_op("nn.max_pool2d")(nn.relu(x))
    inside = when(has_no_padding, attrs_of(pool))  # where padding takes part, verify finds that the sides differ
    # not to the last bit: of zeros of both signs, the two sides may choose different ones
    rule = rewrite("pool-before-relu", pool, nn.relu(like(pool, x)), inside, soundness=Soundness.ROUNDING)
    (verdict,), (proof,) = verify(rule), prove(rule)
    print(f"{rule.name}: {verdict.status} on {verdict.instances} instances, proved for {proof.status.value}")
    best = eqsat.extract(eqsat.saturate(MODELS["VGG-19"](), rules=[rule]), cost_model=Bytes())
    print(f"{best.input_cost:g} bytes before, {best.cost:g} after")


if __name__ == "__main__":
    main()
