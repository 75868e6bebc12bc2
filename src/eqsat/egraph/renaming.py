"""Atoms in the place of others: whether all that is known of these holds of those too.

What rules know of an atom, beside that it is itself and not another, are the tests that it passes and what Python
answered when it was asked about it. So where both are the same for two atoms (and for what Python computed of them),
and each is found where the other is, rules do the same with them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from eqsat.egraph.vocabulary import Vocabulary


class Asked(NamedTuple):
    """A question that was asked, and the answer."""

    question: int
    keys: tuple[int, ...]
    answer: tuple[int, ...] | None


def all_asked(vocabulary: Vocabulary) -> list[Asked]:
    """Everything that Python was asked, in that order."""
    return [Asked(question, tuple(keys), answer) for (question, *keys), answer in vocabulary.asked.items()]


def asked_about(vocabulary: Vocabulary, atoms: Container[int], apart: Container[int] = ()) -> list[Asked] | None:
    """What Python was asked about atoms, None if some question was about one of them and one of ``apart``."""
    found = []
    for asked in all_asked(vocabulary):
        kinds = vocabulary.inquiries[asked.question].keys
        named = [key for key, kind in zip(asked.keys, kinds, strict=True) if kind == "atom"]
        if any(key in atoms for key in named):
            if any(key in apart for key in named):
                return None
            found.append(asked)
    return found


def renaming(vocabulary: Vocabulary, asked: Sequence[Asked], atoms: Mapping[int, int]) -> dict[int, int] | None:
    """``atoms`` with what Python computed of them, None where something else is known of one than of its like.

    Args:
        asked: what was asked about them and what was computed of them, in the order in which it was.
        atoms: atom -> atom that is to take its place.
    """
    renamed, size = dict(atoms), 0
    answered: dict[tuple[int, ...], tuple[int, ...] | None] = {}

    def answer_to(row: tuple[int, ...], given: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if row in vocabulary.asked:
            return vocabulary.asked[row]  # to compute the same again might round in another way
        if row not in answered:
            answered[row] = vocabulary.answer(row, given is not None)  # only of the given graph if it is large
        return answered[row]

    while size < len(renamed):
        size = len(renamed)
        for question, keys, given in asked:
            kinds, kind, *_ = vocabulary.inquiries[question]
            others = tuple(
                [renamed.get(key, key) if of == "atom" else key for key, of in zip(keys, kinds, strict=True)]
            )
            if others == keys:
                continue
            new = answer_to((question, *others), given)
            if new is None or given is None or kind != "atom":
                if new != given:
                    return None
            elif any(renamed.setdefault(*pair) != pair[1] for pair in zip(given, new, strict=True)):
                return None
    changed = {old: new for old, new in renamed.items() if old != new}
    return changed if vocabulary.predicates.hold_alike(changed) else None
