"""Classes that every derivation of a class contains."""

from __future__ import annotations

from .deadline import Deadline

_LIMIT = 20_000  # classes, above which the sets take too much memory: it grows with the square


def necessary(needs: list[list[list[int]]], deadline: Deadline) -> list[int]:
    """The classes that every derivation of a class contains, the class itself included, as bits of an integer.

    This is the greatest solution of must(c) = {c} | (intersection over nodes of the union over children of must).

    Args:
        needs: The children of each node of each class. It is fast if children have smaller numbers than parents.
        deadline: When to give up.

    Returns:
        The set of each class; an empty list if there are too many classes or the time is over.
    """
    if len(needs) > _LIMIT:
        return []
    everything = (1 << len(needs)) - 1
    must = [everything] * len(needs)
    stale = True
    while stale:
        stale = False
        if deadline.passed():
            return []
        for i, nodes in enumerate(needs):
            common = everything
            for kids in nodes:
                closure = 0
                for k in kids:
                    closure |= must[k]
                common &= closure
                if not common:
                    break
            common |= 1 << i
            if common != must[i]:
                must[i] = common
                stale = True
    return must
