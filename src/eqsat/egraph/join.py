"""Roots that are matched together are first matched each by itself.

The engine searches a rule once for each of its premises, for the matches in which that premise is new. Of three roots
with ten premises each that is thirty times a join of thirty tables; so each root has a relation of its own, and what is
joined are three of these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.query import Query

_WORD = re.compile(r"(\(?)([^\s()]+)")


def by_root(egraph: EGraph, query: Query, roots: Sequence[str], premises: Sequence[str], used: str) -> list[str]:
    """Premises that say the same, with a relation for each root in place of those about what is below it alone.

    Args:
        egraph: What the relations are declared in. Its rules for facts fill them.
        query: How the rule matches.
        roots: The variables of the roots.
        premises: All premises of the rule.
        used: The text of what is done with a match.
    """
    below = [_below(query, root) for root in roots]
    classes = set(query.class_variables)
    about = {premise: classes.intersection(_variables(premise)) for premise in premises}
    linked = {each for names in about.values() if not any(names <= own for own in below) for each in names}
    parts: list[list[str]] = [[] for _ in roots]
    rest: list[str] = []
    for premise, names in about.items():
        owner = next((part for part, own in zip(parts, below, strict=True) if names and names <= own), rest)
        (rest if names <= linked else owner).append(premise)
    outside = set(_variables(" ".join([*rest, used])))
    return [*[_relation(egraph, part, classes, outside) for part in parts if part], *rest]


def _variables(text: str) -> list[str]:
    """The variables in premises or actions, each as often as it is there."""
    return [word for head, word in _WORD.findall(text) if not head and not word.lstrip("-").isdigit()]


def _below(query: Query, root: str) -> set[str]:
    """The variables of the classes of what was matched at a root and below it."""
    heads, found = query.heads, [root]
    for variable in found:  # grows while it is read
        if variable in heads:
            found += heads[variable].children
    return set(found)


def _relation(egraph: EGraph, premises: Sequence[str], classes: set[str], outside: set[str]) -> str:
    """The premise that a relation holds, of the variables in use outside, where the premises do."""
    text = " ".join(premises)
    number = {name: f"v{index}" for index, name in enumerate(dict.fromkeys(_variables(text)))}
    columns = [name for name in number if name in outside]
    kinds = ["Expr" if name in classes else "i64" for name in columns]
    renamed = _WORD.sub(lambda word: word[1] + number.get(word[2], word[2]), text)
    table = egraph.part(renamed, [number[name] for name in columns], kinds)
    return f"({table} {' '.join(columns)})"
