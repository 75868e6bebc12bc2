"""Nodes that work on mutable cells. They have effects: the order of their evaluation counts."""

from __future__ import annotations

from eqsat.relay.expr import Expr, WithFields


class RefCreate(Expr):
    """A new mutable cell that holds ``value``."""

    __slots__ = ("value",)
    kind = "ref"
    has_effects = True

    def __init__(self, value: Expr):
        self._init((value,))
        self.value = value


class RefRead(Expr):
    """The value in the cell ``ref``."""

    __slots__ = ("ref",)
    kind = "ref_read"
    has_effects = True

    def __init__(self, ref: Expr):
        self._init((ref,))
        self.ref = ref


class RefWrite(Expr):
    """Puts ``value`` into the cell ``ref``. Its own value is the empty tuple."""

    __slots__ = ("ref", "value")
    kind = "ref_write"
    has_effects = True

    def __init__(self, ref: Expr, value: Expr):
        self._init((ref, value))
        self.ref = ref
        self.value = value


RefCreateWithFields = WithFields(RefCreate, "value")
RefReadWithFields = WithFields(RefRead, "ref")
RefWriteWithFields = WithFields(RefWrite, "ref", "value")
