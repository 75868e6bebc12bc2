"""What never changes is its own copy."""

from __future__ import annotations

from typing import Any, Self


class Immutable:
    """Base class of things that are immutable, or known by their identity: a copy, deep or not, is the thing itself."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
