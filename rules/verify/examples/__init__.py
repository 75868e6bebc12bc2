"""Hand-written instances of the rules of which none can be drawn from the pattern, or too few.

Each module has a table from names of rules to functions that draw an instance: an expression that the left side of
the rule matches, in most cases, or a tuple of them for a left side of several patterns.
"""

from __future__ import annotations

from functools import cache

from eqsat.egraph.rule import Examples, PythonRule, Rewrite
from eqsat.rules import sets
from eqsat.rules.verify.examples import arithmetic, attention, images, moves, ranges, recurrent, spreads

EXAMPLES: dict[str, Examples] = {
    name: example
    for module in (arithmetic, attention, images, moves, ranges, recurrent, spreads)
    for name, example in module.EXAMPLES.items()
}


def examples_of(rule: Rewrite | PythonRule) -> Examples | None:
    """What draws instances of ``rule``: its own ``examples``, for a shipped rule those that are kept here."""
    if rule.examples is not None:
        return rule.examples
    shipped = _shipped().get(rule.name)
    return EXAMPLES.get(rule.name) if shipped is not None and shipped.lhs is rule.lhs else None


@cache
def _shipped() -> dict[str, Rewrite | PythonRule]:
    """The shipped rules by name: a user's rule of the same name has nothing to do with them."""
    every = [rule for each in sets.values() for rule in each]
    return {rule.name: rule for rule in every if isinstance(rule, (Rewrite, PythonRule))}
