"""AnnotateTarget: mark which operators which external compiler takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.errors import ArgumentError, PassError
from eqsat.relay.expr import Call, Constant, Expr, Function, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.module import IRModule
from eqsat.relay.references import RefCreate, RefRead, RefWrite
from eqsat.relay.regions import target_of
from eqsat.relay.transform.annotation import DEFAULT_TARGET, begin, end, is_begin, is_end
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.transform.merge_composite import PatternTable, merge_composite
from eqsat.relay.visitor import post_order, rebuild, rewrite_post_order, substitute

MATCHED_FOR = "MatchedFor"
"""Attribute of a function that a pattern table made: the target. It does not outlive the pass."""


def AnnotateTarget(
    targets: str | Sequence[str],
    include_non_call_ops: bool | None = None,
    pattern_table: PatternTable | Mapping[str, PatternTable] | None = None,
) -> Pass:
    """Put ``compiler_begin`` before and ``compiler_end`` after every operator, for the target that accepts it.

    A target accepts an operator if the operator's attribute ``target.<name>`` is a function that returns true for the
    typed call. It also accepts composite functions named ``<name>.…``. All other operators get the target "default".

    Args:
        targets: Names of targets; the first one that accepts an operator gets it.
        include_non_call_ops: Whether tuples, projections and references join the target of their operands. By default
            they do, unless there is a ``pattern_table``, which lists everything to accept.
        pattern_table: A table of patterns whose matches become regions of the target, without operator attributes or
            composite functions. Entries are those of :func:`MergeComposite`, earlier ones first; with several targets,
            a mapping from target to its table.

    Raises:
        PassError: A target's predicate fails or does not return a bool.
    """
    names = [targets] if isinstance(targets, str) else [str(target) for target in targets]
    tables = _tables(names, pattern_table)
    include = pattern_table is None if include_non_call_ops is None else include_non_call_ops

    def transform(function: Function, mod: IRModule, context: PassContext) -> Expr:
        matched = function
        for target, table in tables.items():
            matched = merge_composite(matched, mod, table, {MATCHED_FOR: target})
        annotated = _Annotator(names, include).run(matched)
        return _inline_matches(annotated) if tables else annotated

    return FunctionPass(transform, PassInfo(0, "AnnotateTarget"), typed=True)


def _tables(targets: list[str], tables: PatternTable | Mapping[str, PatternTable] | None) -> dict[str, PatternTable]:
    if tables is None:
        return {}
    if isinstance(tables, Mapping):
        unknown = [target for target in tables if target not in targets]
        if unknown:
            raise ArgumentError(f"pattern_table names target {unknown[0]!r}; the targets are {targets}")
        return {target: tables[target] for target in targets if target in tables}
    if len(targets) != 1:
        raise ArgumentError(f"with several targets {targets}, pattern_table must map each to its table")
    return {targets[0]: tables}


class _Annotator:
    def __init__(self, targets: Sequence[str], include_non_call_ops: bool):
        self.targets = targets
        self.include_non_call_ops = include_non_call_ops
        self.target_by_node: dict[Expr, str] = {}

    def run(self, function: Function) -> Expr:
        new: dict[Expr, Expr] = {}
        for node in post_order(function, children=lambda node: () if _is_composite(node) else node.children()):
            new[node] = self._visit(node, rebuild(node, new))
        return new[function]

    def _visit(self, old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call) and isinstance(old, Call):
            return self._call(old, new)
        if isinstance(new, (Tuple, TupleGetItem, RefCreate, RefRead, RefWrite)):
            return self._non_call(new)
        if isinstance(new, (Function, If, Let)) and not _is_composite(new):
            return self._over_ended(new)
        return new

    def _call(self, old: Call, new: Call) -> Expr:
        if is_begin(new):
            return new
        if is_end(new):
            return self._existing_end(new)
        if old.args and is_begin(old.args[0]) and target_of(old.args[0]) != DEFAULT_TARGET:
            return new
        if isinstance(old.op, Var) and not self.include_non_call_ops:
            return self._over_ended(new)
        target = self._choose(old)
        annotated = Call(new.op, self._enter(new.args, target), new.attrs, span=new.span)
        annotated._checked_type = new._checked_type
        self.target_by_node[annotated] = target
        return annotated

    def _existing_end(self, new: Call) -> Expr:
        """An end that an earlier run made: kept, unless what was the default's has found a target."""
        (value,) = new.args
        target = self.target_by_node.setdefault(value, target_of(new))
        return new if target == target_of(new) else end(value, target)

    def _non_call(self, new: Expr) -> Expr:
        children = new.children()
        if not self.include_non_call_ops:
            return self._over_ended(new)
        if not children:
            return new
        # fields without a target of their own count as the default's
        found = dict.fromkeys(self._target_of_operand(child) for child in children)
        target = next(iter(found)) if len(found) == 1 else DEFAULT_TARGET
        annotated = new.with_children(self._enter(children, target))
        self.target_by_node[annotated] = target
        return annotated

    def _target_of_operand(self, operand: Expr) -> str:
        if is_begin(operand):
            return target_of(operand)
        return self.target_by_node.get(operand, DEFAULT_TARGET)

    def _enter(self, operands: Sequence[Expr], target: str) -> list[Expr]:
        entered: list[Expr] = []
        for operand in operands:
            if is_begin(operand):
                if target_of(operand) != DEFAULT_TARGET:
                    entered.append(operand)
                    continue
                operand = operand.args[0]
            entered.append(begin(self._ended(operand), target))
        return entered

    def _over_ended(self, node: Expr) -> Expr:
        return node.with_children([self._ended(child) for child in node.children()])

    def _ended(self, value: Expr) -> Expr:
        """``value``, behind an end when it has a target; a call without arguments counts as an input."""
        target = self.target_by_node.get(value)
        is_input = isinstance(value, (Call, Tuple)) and len(value.children()) == isinstance(value, Call)
        return value if target is None or is_input else end(value, target)

    def _choose(self, call: Call) -> str:
        op = call.op
        if isinstance(op, Op):
            return next((target for target in self.targets if _takes(target, op, call)), DEFAULT_TARGET)
        if not isinstance(op, Function):
            return DEFAULT_TARGET
        if MATCHED_FOR in op.attrs:
            return str(op.attrs[MATCHED_FOR])
        prefix, dot, _ = str(op.attrs.get("Composite", "")).partition(".")
        return prefix if dot and prefix in self.targets else DEFAULT_TARGET


def _is_composite(node: Expr) -> bool:
    return isinstance(node, Function) and "Composite" in node.attrs


def _takes(target: str, op: Op, call: Call) -> bool:
    predicate = op.get_attr(f"target.{target}")
    if predicate is None:
        return False
    answer = predicate(call) if callable(predicate) else predicate
    if not isinstance(answer, (bool, int)):
        raise PassError(f"the predicate target.{target} of {op.name} must give a bool, not {answer!r}")
    return bool(answer)


def _inline_matches(function: Expr) -> Expr:
    """Replace calls of the functions a pattern table made by their bodies, which enter the region anew."""

    def visit(old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call) and isinstance(new.op, Function) and MATCHED_FOR in new.op.attrs:
            return _inlined(new.op, new.args, str(new.op.attrs[MATCHED_FOR]))
        return new

    return rewrite_post_order(function, visit)


def _inlined(function: Function, args: Sequence[Expr], target: str) -> Expr:
    """The body over ``args``, which are begins; what else it reads enters the region too."""
    inputs: dict[Expr, Expr] = dict(zip(function.params, args, strict=True))
    for node in post_order(function.body, stop=function.params):
        is_source = isinstance(node, Call) and not node.args
        if is_source or isinstance(node, (Constant, Var)):
            inputs[node] = begin(node, target)
    return substitute(function.body, inputs)
