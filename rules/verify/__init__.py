"""The rule verifier: both sides of a rule, computed on random instances, must agree.

No rule imports it: optimizing a graph loads nothing of what is here.
"""

from eqsat.rules.verify.verifier import Verdict, example, table, verify, verify_equal

__all__ = ["Verdict", "example", "table", "verify", "verify_equal"]
