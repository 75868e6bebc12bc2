"""Proofs of rules: both sides are equal for all values of their inputs.

No rule imports it: optimizing a graph loads nothing of what is here.
"""

from eqsat.rules.prove.proof import Proof, Status, summary, table
from eqsat.rules.prove.prover import prove
from eqsat.rules.prove.store import Store, told

__all__ = ["Proof", "Status", "Store", "prove", "summary", "table", "told"]
