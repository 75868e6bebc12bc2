"""What e-nodes are made of: symbols (kind, operator, arity) and interned atoms (attributes, leaves, types).

The engine holds integers only. Everything an e-node says beside its children is one integer, the id of an
atom; each symbol is a table of its own, each type an id.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from eqsat.nd import NDArray
from eqsat.relay.expr import Constant, Op
from eqsat.relay.fold import is_folded

T = TypeVar("T")

CONTENT_LIMIT = 64 << 20
"""Bytes up to which constants are interned by content; larger ones by identity of their data."""


SAMPLED = 1 << 14
"""Bytes from which on a constant's content is read as a whole only where a sample of it has been seen before."""


class Symbol(NamedTuple):
    """The head of an e-node.

    ``kind`` is one of ``call`` (of ``op``), ``tuple``, ``project``, ``if``, ``var``, ``constant``,
    ``function`` (children: what it captures), ``apply`` (first child: the callee) and ``global``.
    """

    kind: str
    op: Op | None
    arity: int

    @property
    def name(self) -> str:
        """For messages and reports."""
        return self.op.name if self.op is not None else self.kind


def is_foldable(symbol: Symbol) -> bool:
    """Whether an e-node of this symbol over constants is itself a constant."""
    if symbol.kind == "call" and symbol.op is not None:
        return is_folded(symbol.op)
    return symbol.kind in ("tuple", "project")


class Interner(Generic[T]):
    """Objects by small integers: equal keys, equal ids, in order of first appearance."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}
        self._objects: list[T] = []

    def intern(self, key: Hashable, obj: T) -> int:
        """The id of ``key``; ``obj`` becomes its object when it is new."""
        index = self._ids.setdefault(key, len(self._objects))
        if index == len(self._objects):
            self._objects.append(obj)
        return index

    def find(self, key: Hashable) -> int | None:
        """The id of ``key``, None where it has none."""
        return self._ids.get(key)

    def __getitem__(self, index: int) -> T:
        return self._objects[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


class Atom(NamedTuple):
    """What an e-node says beside its children; ``kind`` as in :class:`Symbol`, or ``tuple value``."""

    kind: str
    value: Any


class ConstantKeys:
    """Keys of constants, equal for those of equal content, found without reading all of a large one that stands alone.

    (What is above :data:`CONTENT_LIMIT` has one by identity of its data.)
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, NDArray] = {}

    def __getitem__(self, constant: Constant) -> Hashable:
        data = constant.data
        if not SAMPLED <= data.nbytes <= CONTENT_LIMIT:
            return constant_key(constant)
        sample = (data.dtype, data.shape, _sample(data))
        first = self._first.setdefault(sample, data)
        return sample if first is data or first.digest() == data.digest() else constant_key(constant)


def _sample(data: NDArray) -> bytes:
    """A few of the bytes of a constant."""
    flat = np.ascontiguousarray(data.numpy()).reshape(-1).view(np.uint8)
    return b"".join([flat[:64].tobytes(), flat[-64:].tobytes(), flat[:: len(flat) // 64].tobytes()])


def constant_key(constant: Constant) -> Hashable:
    """Equal for constants of equal dtype, shape and bytes (up to :data:`CONTENT_LIMIT`)."""
    data = constant.data
    if data.nbytes > CONTENT_LIMIT:
        return ("constant", id(data))
    return ("constant", data.digest())
