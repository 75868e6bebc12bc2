"""The extraction problem as arrays: choose one e-node for each needed e-class so that the total cost is least."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eqsat.errors import ExtractionError

from .costs import Cost, Costs, Term

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """The e-nodes of an e-graph with their classes, children and costs, and the classes to extract.

    An extraction chooses one node for every class it reaches from the roots, without a cycle. Its *DAG cost*
    counts each reached class once, its *tree cost* once for every path that leads to it. With several objectives,
    extractions are compared by the first objective; those whose costs agree within `tolerance` are compared by the
    next one.

    Shapes below are for N nodes, C classes and E child edges. Node and class numbers start at 0.

    Args:
        node_class: The class of each node; int (N,).
        child_offsets: Where each node's children begin: node ``n`` has the children
            ``child[child_offsets[n]:child_offsets[n + 1]]``; int (N + 1,).
        child: Class numbers; int (E,). A class may occur several times among one node's children.
        cost: Finite node costs, which may be negative; float (N,), or (N, K) for K objectives compared in order.
        roots: The classes to extract; int (R,). Duplicates count once.
        subsumed: Nodes that must not be chosen; bool (N,). None by default.
        num_classes: C; by default one more than the largest class number in use.
        node_ids: Names of the nodes for messages and files; their numbers by default.
        class_ids: Names of the classes for messages and files; their numbers by default.
        ops: The operator of each node, for messages and files.

    Raises:
        ExtractionError: The shapes do not fit, a class number is out of range, a cost is NaN or infinite, or a root
            has no finite extraction (the message names it and says what it lacks).
    """

    node_class: Ints
    child_offsets: Ints
    child: Ints
    cost: Floats
    roots: Ints
    subsumed: NDArray[np.bool_] | None = None
    num_classes: int = -1
    node_ids: Sequence[str] | None = field(default=None, repr=False)
    class_ids: Sequence[str] | None = field(default=None, repr=False)
    ops: Sequence[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("node_class", _integers("node_class", self.node_class))
        put("child_offsets", _integers("child_offsets", self.child_offsets))
        put("child", _integers("child", self.child))
        put("roots", np.asarray(sorted({*_integers("roots", self.roots).tolist()}), np.int64))
        put("cost", _cost_array(self.cost))
        if self.subsumed is not None:
            put("subsumed", _vector("subsumed", self.subsumed, np.bool_))
        if self.num_classes < 0:
            put("num_classes", 1 + max((int(a.max()) for a in self._class_arrays() if len(a)), default=-1))
        self._check_shapes()
        self._check_costs()
        self._check_roots()

    def __repr__(self) -> str:
        return f"Problem({len(self.node_class)} e-nodes in {self.num_classes} e-classes, {len(self.roots)} roots)"

    @classmethod
    def from_lists(cls, classes: Sequence[Iterable[tuple[Cost, Iterable[int]]]], roots: ArrayLike) -> Problem:
        """The problem whose class ``i`` holds the nodes ``classes[i]``, each a (cost, child classes) pair."""
        nodes = [(index, cost, [*children]) for index, of in enumerate(classes) for cost, children in of]
        return cls(
            np.array([index for index, _, _ in nodes], np.int64),
            np.cumsum([0, *[len(children) for _, _, children in nodes]]),
            np.array([child for _, _, children in nodes for child in children], np.int64),
            np.array([cost for _, cost, _ in nodes], np.float64),
            np.asarray(roots, np.int64),
            num_classes=len(classes),
        )

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes."""
        return len(self.cost)

    @cached_property
    def owner(self) -> list[int]:
        """The class of every node, as a list."""
        owner: list[int] = self.node_class.tolist()
        return owner

    @cached_property
    def fan(self) -> list[int]:
        """The number of children of every node, -1 for those that must not be chosen."""
        fan: list[int] = np.where(self.excluded, -1, np.diff(self.child_offsets)).tolist()
        return fan

    @cached_property
    def children(self) -> list[list[int]]:
        """Child classes of every node, as lists."""
        flat, offsets = self.child.tolist(), self.child_offsets.tolist()
        return [flat[a:b] for a, b in pairwise(offsets)]

    @cached_property
    def class_nodes(self) -> list[list[int]]:
        """Nodes of every class that may be chosen, as lists in ascending order."""
        allowed = np.flatnonzero(~self.excluded)
        return group(self.node_class[allowed], allowed, self.num_classes)

    @cached_property
    def parents(self) -> list[list[int]]:
        """Nodes that have the class as a child, once for every occurrence."""
        owner = np.repeat(np.arange(self.num_nodes), np.diff(self.child_offsets))
        return group(self.child, owner, self.num_classes)

    @cached_property
    def objectives(self) -> list[Floats]:
        """The node costs under each objective, each float (N,)."""
        return [self.cost] if self.cost.ndim == 1 else [*np.ascontiguousarray(self.cost.T)]

    @cached_property
    def signed(self) -> bool:
        """Whether some cost is negative."""
        return bool(self.cost.min(initial=0.0) < 0)

    @cached_property
    def costs(self) -> list[Term]:
        """The costs as a list: single items of a list are read several times faster than those of an array."""
        costs: list[Term] = self.cost.tolist()
        return costs if self.cost.ndim == 1 else [Costs(each) for each in costs]

    @property
    def zero(self) -> Term:
        """The cost of nothing, as an item of `costs`."""
        return 0.0 if self.cost.ndim == 1 else Costs([0.0] * len(self.objectives))

    @cached_property
    def scalars(self) -> list[float]:
        """One number for each node; sums of these numbers over classes compare as sums of the costs do.

        With one objective they are the costs. With several they are integers whose higher digits hold the earlier
        objectives; each cost is rounded to 2**-48 of the largest cost under its objective.
        """
        if self.cost.ndim == 1:
            return self.costs
        scalars: list[int] = [0] * self.num_nodes
        for column in self.objectives:
            unit = math.ldexp(1.0, math.frexp(float(np.abs(column).max(initial=0.0)))[1] - 48)
            digits = [round(cost / unit) for cost in column.tolist()]
            shift = 1 + sum(map(abs, digits)).bit_length()
            scalars = [(high << shift) + low for high, low in zip(scalars, digits, strict=True)]
        return scalars  # type: ignore[return-value]

    @property
    def scalar_tolerance(self) -> float:
        """Sums of `scalars` closer than this are taken as equal."""
        return self.tolerance() if self.cost.ndim == 1 else 0

    @property
    def excluded(self) -> NDArray[np.bool_]:
        """Nodes that must not be chosen; bool (N,)."""
        return self.subsumed if self.subsumed is not None else np.zeros(self.num_nodes, bool)

    @cached_property
    def tolerances(self) -> list[float]:
        """The tolerance of small costs under each objective."""
        return [self.tolerance(objective=objective) for objective in range(len(self.objectives))]

    def tolerance(self, cost: float = 0.0, objective: int = 0) -> float:
        """The difference up to which two costs under an objective count as equal.

        It is 1e-9 of the largest node cost, or of `cost` where that is larger: more than the rounding errors of sums
        that are formed in different orders.
        """
        return 1e-9 * max(abs(cost), float(np.abs(self.objectives[objective]).max()))

    def is_less(self, left: Sequence[float], right: Sequence[float]) -> bool:
        """Whether an extraction with the costs `left` is better than one with the costs `right`.

        Both hold one number for each objective.
        """
        for objective, (mine, theirs) in enumerate(zip(left[:-1], right[:-1], strict=True)):
            if abs(mine - theirs) > self.tolerance(theirs, objective):
                return mine < theirs
        return left[-1] < right[-1]

    def node_name(self, node: int) -> str:
        """The node's id (or number) and, where known, its operator."""
        name = self.node_ids[node] if self.node_ids is not None else str(node)
        return f"node {name!s} ({self.ops[node]})" if self.ops is not None else f"node {name!s}"

    def class_name(self, index: int) -> str:
        """The class's id, or its number where it has none."""
        return f"class {self.class_ids[index] if self.class_ids is not None else index}"

    def _class_arrays(self) -> tuple[Ints, Ints, Ints]:
        return self.node_class, self.child, self.roots

    def _check_shapes(self) -> None:
        n = self.num_nodes
        if len(self.node_class) != n or len(self.excluded) != n or len(self.child_offsets) != n + 1:
            raise ExtractionError(
                f"{n} costs need {n} entries in node_class and subsumed and {n + 1} in child_offsets; "
                f"got {len(self.node_class)}, {len(self.excluded)} and {len(self.child_offsets)}"
            )
        offsets = self.child_offsets
        if offsets[0] != 0 or offsets[-1] != len(self.child) or (np.diff(offsets) < 0).any():
            raise ExtractionError(f"child_offsets must rise from 0 to the length of child, {len(self.child)}")
        for name, array in zip(("node_class", "child", "roots"), self._class_arrays(), strict=True):
            bad = np.flatnonzero((array < 0) | (array >= self.num_classes))
            if len(bad):
                raise ExtractionError(
                    f"{name}[{bad[0]}] is {array[bad[0]]}: there are the classes 0 to {self.num_classes - 1}"
                )
        for name, ids, size in (
            ("node_ids", self.node_ids, n),
            ("ops", self.ops, n),
            ("class_ids", self.class_ids, self.num_classes),
        ):
            if ids is not None and len(ids) != size:
                raise ExtractionError(f"{name} has {len(ids)} entries, {size} are needed")

    def _check_costs(self) -> None:
        bad = np.nonzero(~np.isfinite(self.cost))[0]
        if len(bad):
            raise ExtractionError(
                f"{self.node_name(int(bad[0]))} costs {self.cost[bad[0]]}: costs must be finite; "
                "leave out a node that must not be chosen, or mark it subsumed"
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(np.abs(self.cost).sum(axis=0)).all():
                raise ExtractionError("the costs add up to more than a float can hold: scale them down")

    def _check_roots(self) -> None:
        if not len(self.roots):
            raise ExtractionError("there is no root class: nothing to extract")
        derivable = self.derivable
        for root in self.roots.tolist():
            if not derivable[root]:
                raise ExtractionError(f"root {self.class_name(root)} has no finite extraction: {self._lack(root)}")

    @cached_property
    def derivable(self) -> NDArray[np.bool_]:
        """Which classes have a finite extraction; bool (C,)."""
        known = np.zeros(self.num_classes, bool)
        known[derive([*self.fan], self.parents, self.owner)] = True
        return known

    def _lack(self, index: int) -> str:
        """Say why a class cannot be extracted: a class below it is empty, or every way down runs in a cycle."""
        seen: dict[int, None] = {}
        while index not in seen:
            seen[index] = None
            nodes = self.class_nodes[index]
            if not nodes:
                subsumed = bool((self.node_class == index).any())
                return f"{self.class_name(index)} has " + ("only subsumed nodes" if subsumed else "no node")
            index = next(c for c in self.children[nodes[0]] if not self.derivable[c])
        ring = [*seen][[*seen].index(index) :]
        shown = " -> ".join(self.class_name(c) for c in [*ring[:5], index])
        return f"every way down returns to where it was ({shown})"


def derive(missing: list[int], users: Sequence[Iterable[int]], owner: Sequence[int]) -> list[int]:
    """The classes that can be derived, children before parents.

    Args:
        missing: The number of children of each node, negative for nodes to leave out. Each child that is derived is
            subtracted: 0 remains for the nodes that can be derived.
        users: The nodes that need each class, as often as they are to be subtracted from.
        owner: The class of each node.
    """
    ready = [node for node, count in enumerate(missing) if not count]
    known = bytearray(len(users))
    order = []
    for node in ready:  # grows while it is read: breadth first
        index = owner[node]
        if known[index]:
            continue
        known[index] = 1
        order.append(index)
        for user in users[index]:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return order


def group(keys: Ints, values: Ints, size: int) -> list[list[int]]:
    """Lists of the values by key (0 to size - 1), in the order given."""
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=size)).tolist()
    flat = values[order].tolist()
    return [flat[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def _cost_array(value: ArrayLike) -> Floats:
    """The costs, without the axis of objectives where there is one only."""
    array = np.asarray(value)
    if array.ndim != 2:
        return _vector("cost", array, np.float64)
    if not array.shape[1]:
        raise ExtractionError("cost has no objective: its second axis is empty")
    flat = _vector("cost", array.reshape(-1), np.float64)
    return flat if array.shape[1] == 1 else flat.reshape(array.shape)


def _vector(name: str, value: ArrayLike, dtype: Any) -> NDArray[Any]:
    try:
        array = np.ascontiguousarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise ExtractionError(f"{name} is not an array of {np.dtype(dtype)}: {error}") from None
    if array.ndim != 1:
        raise ExtractionError(f"{name} must have one dimension, not {array.ndim}")
    return array


def _integers(name: str, value: ArrayLike) -> Ints:
    array = np.asarray(value)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ExtractionError(f"{name} must hold integers, not {array.dtype}")
    return _vector(name, array, np.int64)
