"""Pickles of graphs, of any depth.

Pickle would call itself for each child of a node. A graph is pickled as the list of its nodes instead, children first:
where the turn of a node comes, pickle knows its children already, and refers to them. So what several graphs in one
pickle have in common stays common.
"""

from __future__ import annotations

import copyreg
import threading
import weakref
from collections.abc import Sequence
from typing import Any


class Listing:
    """The nodes of a graph, children first, as pickle is given them; a list of them is read back."""

    def __init__(self, nodes: Sequence[Any]):
        self.nodes = nodes
        self.members = set(nodes)

    def __reduce__(self) -> Any:
        _open.listings.append(weakref.ref(self))  # pickle keeps it as long as it needs it, also where it fails
        return list, (), None, iter([*self.nodes, _End(self)])


class _End:
    """Tells that all nodes of a listing are pickled."""

    def __init__(self, listing: Listing):
        self.listing = listing

    def __reduce__(self) -> Any:
        _open.listings = [each for each in _open.listings if each() not in (None, self.listing)]
        return _nothing, ()


class _Open(threading.local):
    """The listings that pickle is at in a thread."""

    def __init__(self) -> None:
        self.listings: list[weakref.ref[Listing]] = []


_open = _Open()


def is_listed(node: object) -> bool:
    """Whether pickle is at a list of nodes that has this one, so that it knows the node's children."""
    return any(listing is not None and node in listing.members for listing in [each() for each in _open.listings])


def with_slots(node: object) -> Any:
    """What pickle makes a node of by itself: its class and what it holds."""
    names = [name for kind in type(node).__mro__ for name in getattr(kind, "__slots__", ())]
    state = {name: getattr(node, name) for name in names if name != "__weakref__" and hasattr(node, name)}
    return copyreg.__newobj__, (type(node),), (None, state)  # type: ignore[attr-defined]


def last_node(nodes: list[Any]) -> Any:
    """The node of which the list was made."""
    return nodes[-2]


def _nothing() -> None:
    """What stands at the end of a list of nodes."""
