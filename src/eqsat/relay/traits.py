"""What holds of every call of an operator, said once by its registry entry."""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """A fact about an operator that rules, cost models and passes rely on.

    Attributes:
        NONE: nothing is said.
        ELEMENTWISE: the arguments broadcast, and each element of the result is computed from the elements at its
            place alone.
        COMMUTATIVE: ``f(a, b)`` equals ``f(b, a)``.
        INJECTIVE: of arguments of one type, equal attributes make equal results only where the arguments are equal.
        MOVES: every element of the result is an element of the first argument (of one of its fields where that is a
            tuple). Which one depends on attributes, shapes and the values of the other arguments.
        VIEW: the result has the elements of the first argument in the same order: only the shape is another.
            So it is injective, also where attributes differ.
        STATEFUL: calls with equal arguments may differ, as those for random numbers do (Relay's ``TOpIsStateful``).
        NON_COMPUTATIONAL: a mark on a value, or an operator that Relay spells out before it compiles
            (Relay's ``TNonComputational``).
        FOREIGN: stands for an operator of another system, whose attributes say the types of its results, also where
            types of the arguments are not known.
    """

    NONE = 0
    ELEMENTWISE = auto()
    COMMUTATIVE = auto()
    INJECTIVE = auto()
    MOVES = auto()
    SAME_ORDER = auto()
    VIEW = MOVES | SAME_ORDER | INJECTIVE
    STATEFUL = auto()
    NON_COMPUTATIONAL = auto()
    FOREIGN = auto()
