"""Atoms in the place of others: whether all that is known of these holds of those too.

What rules know of an atom, beside that it is itself and not another, are the tests that it passes and what Python
answered when it was asked about it. So where both are the same for two atoms (and for what Python computed of them),
and each is found where the other is, rules do the same with them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from eqsat.egraph.egraph import EGraph


class Asked(NamedTuple):
    """A question that was asked, and the answer."""

    question: int
    keys: tuple[int, ...]
    answer: tuple[int, ...] | None


def asked_about(egraph: EGraph, atoms: Container[int], apart: Container[int] = ()) -> list[Asked] | None:
    """What Python was asked about atoms, None if some question was about one of them and one of ``apart``."""
    found = []
    for question, *keys in egraph.asked:
        kinds, _, answer = egraph.answers[question]
        named = [key for key, kind in zip(keys, kinds, strict=True) if kind == "atom"]
        if any(key in atoms for key in named):
            if any(key in apart for key in named):
                return None
            given = answer(*keys)
            found.append(Asked(question, tuple(keys), None if given is None else tuple(given)))
    return found


def renaming(egraph: EGraph, asked: Iterable[Asked], atoms: Mapping[int, int]) -> dict[int, int] | None:
    """``atoms`` with what Python computed of them, None where something else is known of one than of its like.

    Args:
        egraph: where they are.
        asked: what was asked about them.
        atoms: atom -> atom that is to take its place.
    """
    renamed, size = dict(atoms), 0
    answered: dict[tuple[int, ...], tuple[int, ...] | None] = {}
    while size < len(renamed):
        size = len(renamed)
        for question, keys, given in asked:
            kinds, kind, answer = egraph.answers[question]
            others = [renamed.get(key, key) if of == "atom" else key for key, of in zip(keys, kinds, strict=True)]
            row = (question, *others)
            if row not in answered:
                told = answer(*others)
                answered[row] = None if told is None else tuple(told)
            told = answered[row]
            if told is None or given is None or kind != "atom":
                if told != given:
                    return None
            elif any(renamed.setdefault(old, new) != new for old, new in zip(given, told, strict=True)):
                return None
    changed = {old: new for old, new in renamed.items() if old != new}
    return changed if egraph.pass_alike(changed) else None
