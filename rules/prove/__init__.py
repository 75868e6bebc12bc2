"""Proofs of rules: both sides are equal for all values of their inputs.

No rule imports it: optimizing a graph loads nothing of what is here.
"""

from eqsat.rules.prove.proof import PROVED_BEFORE, Proof, Status, less, summary, table
from eqsat.rules.prove.prover import prove
from eqsat.rules.prove.store import Store, told

__all__ = ["PROVED_BEFORE", "Proof", "Status", "Store", "less", "prove", "summary", "table", "told"]
