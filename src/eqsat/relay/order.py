"""The order in which graphs of any kind are walked: children first, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def children_first(roots: Sequence[T], children: Callable[[T], Sequence[T]], stop: Iterable[T] = ()) -> list[T]:
    """List everything below ``roots`` once, each after its children: nodes, terms, whatever can be hashed."""
    order: list[T] = []
    seen: set[T] = set(stop)
    stack: list[Any] = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node is _BELOW_DONE:
            order.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            below = children(node)
            if below:
                stack += (node, _BELOW_DONE)
                stack += [child for child in reversed(below) if child not in seen]
            else:
                order.append(node)
    return order


_BELOW_DONE = object()
"""On the stack of a walk: what is under it is a node whose children were listed."""
