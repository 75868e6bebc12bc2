"""What e-nodes are made of: symbols and atoms.

The engine holds integers only. It has a table for each symbol, which is a kind of node with its operator and its
number of children. What an e-node says beside that, such as attributes or the value of a constant, is its atom; the
table holds the id of the atom and the classes of the children.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from eqsat.nd import NDArray
from eqsat.relay.expr import Constant, Op
from eqsat.relay.fold import is_folded

T = TypeVar("T")

CONTENT_LIMIT = 64 << 20
"""Bytes up to which constants are interned by content; larger ones by identity of their data."""


SAMPLED = 1 << 14
"""Bytes from which on a constant's content is read as a whole only where a sample of it has been seen before."""


SymbolHead: TypeAlias = tuple[str, Op | None]
"""Kind and operator of a symbol."""


class Symbol(NamedTuple):
    """The head of an e-node.

    Attributes:
        kind: ``call`` for a call of an operator, ``function`` for a node that is opaque (its children are what it
            captures), ``joined`` for the tuple of the fields of all its children, which rules do not look into, else
            the ``kind`` of the node's class: the first child of ``apply`` is what is called.
        op: The operator that is called.
        arity: The number of children.
    """

    kind: str
    op: Op | None
    arity: int

    @property
    def name(self) -> str:
        """The name in messages and reports."""
        return self.op.name if self.op is not None else self.kind


def is_foldable(symbol: Symbol) -> bool:
    """Whether an e-node of this symbol whose children are constants is a constant."""
    if symbol.kind == "call" and symbol.op is not None:
        return is_folded(symbol.op)
    return symbol.kind in ("tuple", "joined", "project")


class Interner(Generic[T]):
    """Gives objects small integers as ids: equal ones to equal keys, in the order in which they first appear."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}
        self._objects: list[T] = []

    def intern(self, key: Hashable, obj: T) -> int:
        """Return the id of ``key``. If the key is new, ``obj`` becomes its object."""
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
    """What an e-node says beside its symbol and its children.

    Attributes:
        kind: The kind of the symbol, or ``tuple value`` for a tuple of constants.
        value: The attributes of a call, the index of a projection, the ids of the constants in a tuple value, or else
            an expression that is an example of the node.
    """

    kind: str
    value: Any


class ConstantKeys:
    """Keys of constants, which are equal for constants of equal content.

    They are found without reading all of a large constant, unless another one looks like it. Constants of more than
    :data:`CONTENT_LIMIT` bytes have equal keys only if they have the same array.
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, NDArray] = {}

    def __getitem__(self, constant: Constant) -> Hashable:
        data = constant.data
        if not SAMPLED <= data.nbytes <= CONTENT_LIMIT:
            return constant_key(constant)
        sample = (data.dtype, data.shape, data.few.tobytes())
        first = self._first.setdefault(sample, data)
        return sample if data.has_data_of(first) else constant_key(constant)


def constant_key(constant: Constant) -> Hashable:
    """Return a key that is equal for constants of equal dtype, shape and bytes, up to :data:`CONTENT_LIMIT` bytes."""
    data = constant.data
    if data.nbytes > CONTENT_LIMIT:
        return ("constant", id(data))
    return ("constant", data.digest())
