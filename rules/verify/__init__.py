"""The rule verifier: both sides of a rule must agree on random instances.

No rule imports it, so optimizing a graph does not load it.
"""

from eqsat.rules.verify.verifier import Verdict, example, table, verify, verify_equal

__all__ = ["Verdict", "example", "table", "verify", "verify_equal"]
