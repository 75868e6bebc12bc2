"""Annotated regions: the parts of a graph between ``compiler_begin`` and ``compiler_end``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from eqsat.errors import PassError
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, GlobalVar, Op, Tuple, TupleGetItem, Var
from eqsat.relay.visitor import post_order


class AnnotatedRegion:
    """One region: its ``id``, its ``target``, its nodes, and the edges into and out of it."""

    __slots__ = ("_ins", "_outs", "_owner", "id", "nodes", "target")

    def __init__(self, owner: AnnotatedRegionSet, number: int, entry: Call):
        self._owner = owner
        self.id = number
        self.target = target_of(entry)
        self.nodes: list[Expr] = [entry]
        self._ins = deque([entry])
        self._outs: deque[Call] = deque()

    @property
    def args(self) -> list[Call]:
        """The ``compiler_begin`` calls through which values enter."""
        return [edge for edge in self._ins if edge not in self._owner._inner]

    @property
    def rets(self) -> list[Call]:
        """The ``compiler_end`` calls through which values leave."""
        return [edge for edge in self._outs if edge not in self._owner._inner]

    def __repr__(self) -> str:
        return f"<region {self.id} of target {self.target!r}, {len(self.nodes)} nodes>"


class AnnotatedRegionSet:
    """The regions of an expression, numbered from 0 in post-order of their first entry.

    Args:
        expr: the expression.
        region_begin_op: the operator of calls that enter a region, with an attribute ``compiler``.
        region_end_op: the operator of calls that leave one.

    Raises:
        PassError: an end outside of any region or of another target than its region; an operator in a region
            one of whose arguments does not enter the region.
    """

    def __init__(self, expr: Expr, region_begin_op: Op, region_end_op: Op):
        self._begin = region_begin_op
        self._end = region_end_op
        self._inner: set[Expr] = set()
        self._region_of: dict[Expr, AnnotatedRegion] = {}
        self._entered_from: dict[Expr, list[Call]] = {}
        self._count = 0
        for node in post_order(expr):
            self._add(node)

    def get_region(self, expr: Expr) -> AnnotatedRegion | None:
        """The region that ``expr`` is a node of."""
        return self._region_of.get(expr)

    def __len__(self) -> int:
        return len(set(self._region_of.values()))

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(sorted(set(self._region_of.values()), key=lambda region: region.id))

    def _leaves(self, node: Expr) -> bool:
        return isinstance(node, Call) and node.op is self._end

    def _add(self, node: Expr) -> None:
        if isinstance(node, Call):
            if node.op is self._begin:
                self._open(node)
            elif node.op is self._end:
                self._close(node)
            elif self._count:
                self._join(node, node.args)
        elif self._count and isinstance(node, (Tuple, TupleGetItem)):
            self._join(node, node.children())

    def _open(self, entry: Call) -> None:
        self._region_of[entry] = AnnotatedRegion(self, self._count, entry)
        self._count += 1
        self._entered_from.setdefault(entry.args[0], []).append(entry)

    def _close(self, exit: Call) -> None:
        region = self._region_of.get(exit.args[0])
        target = target_of(exit)
        if region is None:
            raise PassError(
                f"Cannot find the corresponding region for end annotation: compiler_end of target {target!r} "
                f"behind {describe(exit.args[0])}, which no compiler_begin leads to"
            )
        if region.target != target:
            raise PassError(
                f"compiler_end of target {target!r} behind {describe(exit.args[0])}, "
                f"which is in a region of target {region.target!r}"
            )
        self._enter(exit, region)
        region._outs.append(exit)

    def _enter(self, node: Expr, region: AnnotatedRegion) -> None:
        self._region_of[node] = region
        region.nodes.append(node)

    def _join(self, node: Expr, operands: Sequence[Expr]) -> None:
        """Put ``node`` into its operands' region, which become one."""
        dest: AnnotatedRegion | None = None
        for operand in operands:
            region = self._region_of.get(operand)
            if region is not None and not self._leaves(operand):
                dest = region if dest is None or dest is region else self.merge(region, dest)
        if dest is not None:
            self._check(node, operands, dest.target)
            self._enter(node, dest)

    def _check(self, node: Expr, operands: Sequence[Expr], target: str) -> None:
        """Raise PassError unless all operands enter the region of this target."""
        for index, operand in enumerate(operands):
            left = self._leaves(operand)
            # the default target's regions are no functions: what leaves another region may enter them freely
            if (left and target != "default") or (not left and operand not in self._region_of):
                raise PassError(
                    f"Arg regions are inconsistent: {_argument(node, index)} of {describe(node)} lacks "
                    f"compiler_begin for target {target!r}; it is {describe(operand.args[0] if left else operand)}"  # type: ignore[attr-defined]
                    f"{', left by compiler_end' if left else ''}"
                )

    def merge(self, src: AnnotatedRegion, dest: AnnotatedRegion) -> AnnotatedRegion:
        """Make one region of two; it has the id and target of ``dest``, and entries of ``dest`` that come
        from ``src`` are no longer edges. Costs as much as the smaller of the two is big."""
        for entry in self._entries(src, dest):
            self._inner.add(entry)
            self._inner.add(entry.args[0])
        large, small = (dest, src) if len(dest.nodes) >= len(src.nodes) else (src, dest)
        large.id, large.target = dest.id, dest.target
        large._ins = _concatenate(dest._ins, src._ins)
        large._outs = _concatenate(dest._outs, src._outs)
        large.nodes.extend(small.nodes)
        for node in small.nodes:
            self._region_of[node] = large
        return large

    def _entries(self, src: AnnotatedRegion, dest: AnnotatedRegion) -> list[Call]:
        if len(dest._ins) < len(src.nodes):
            return [entry for entry in dest._ins if self._region_of.get(entry.args[0]) is src]
        entries = (entry for node in src.nodes for entry in self._entered_from.get(node, ()))
        return [entry for entry in entries if self._region_of[entry] is dest]


def _concatenate(first: deque[Call], second: deque[Call]) -> deque[Call]:
    if len(first) >= len(second):
        first.extend(second)
        return first
    second.extendleft(reversed(first))
    return second


def target_of(annotation: Call) -> str:
    """The target of a ``compiler_begin`` or ``compiler_end``."""
    return str((annotation.attrs or Attrs())["compiler"])


def _argument(node: Expr, index: int) -> str:
    op = node.op if isinstance(node, Call) else None
    if isinstance(op, Op) and op.arguments is not None and index < len(op.arguments):
        return f"argument {index} ({op.arguments[index]})"
    return f"{'field' if isinstance(node, Tuple) else 'argument'} {index}"


def describe(expr: Expr) -> str:
    """What ``expr`` is, in a few words for a message."""
    if isinstance(expr, Call):
        return expr.op.name if isinstance(expr.op, Op) else f"a call of {describe(expr.op)}"
    if isinstance(expr, Var):
        return f"variable %{expr.name_hint}"
    if isinstance(expr, GlobalVar):
        return f"@{expr.name_hint}"
    if isinstance(expr, Constant):
        return f"a constant of shape {expr.data.shape}"
    return f"a {type(expr).__name__}"
