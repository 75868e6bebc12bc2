"""Proofs of rules: both sides are equal for all values of their inputs.

No rule imports it: optimizing a graph loads nothing of what is here.
"""

from eqsat.rules.prove.prover import Proof, Status, prove, summary, table

__all__ = ["Proof", "Status", "prove", "summary", "table"]
