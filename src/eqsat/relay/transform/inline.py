"""Inline, DefuseOps and RemoveUnusedFunctions: calls of functions."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Expr, Function, GlobalVar
from eqsat.relay.infer import callees_first, infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.visitor import children_first, post_order, rewrite_post_order, substitute


def DefuseOps() -> Pass:
    """Undo FuseOps: replace each call of a function literal by the function's body over the arguments."""

    def visit(old: Expr, new: Expr) -> Expr:
        return _inlined(new.op, new) if isinstance(new, Call) and isinstance(new.op, Function) else new

    return FunctionPass(lambda function, mod, context: rewrite_post_order(function, visit), PassInfo(0, "DefuseOps"))


def Inline() -> Pass:
    """Inline the functions that have attribute ``Inline`` and do not call themselves, and drop them.

    A call of a function for an external compiler becomes a call of the function itself, without a name.
    """

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        inlined: dict[str, Function] = {}

        def visit(old: Expr, new: Expr) -> Expr:
            if not isinstance(new, Call) or not isinstance(new.op, GlobalVar) or new.op.name_hint not in inlined:
                return new
            callee = inlined[new.op.name_hint]
            return Call(callee, new.args) if "Compiler" in callee.attrs else _inlined(callee, new)

        for name in [variable.name_hint for variable in callees_first(mod)]:
            function = rewrite_post_order(mod[name], visit)
            assert isinstance(function, Function)
            mod[name] = function
            if function.attrs.get("Inline") and name not in _called(function):
                inlined[name] = function
        for name in inlined:
            del mod[name]
        return infer_module(mod)

    return Pass(transform, PassInfo(1, "Inline"))


def _inlined(callee: Function, call: Call) -> Expr:
    return substitute(callee.body, dict(zip(callee.params, call.args, strict=True)))


def _called(function: Function) -> list[str]:
    return [node.name_hint for node in post_order(function) if isinstance(node, GlobalVar)]


def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> Pass:
    """Drop the functions that no entry function calls, directly or through others.

    Args:
        entry_functions: names of functions to keep; ``["main"]`` by default.

    Raises:
        PassError: the module has no function of one of the names.
    """
    entries = ["main"] if entry_functions is None else list(entry_functions)

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        for name in entries:
            if name not in mod:
                raise PassError(f"RemoveUnusedFunctions: the module has no entry function {name!r}")
        used = set(children_first(entries, lambda name: [callee for callee in _called(mod[name]) if callee in mod]))
        for variable in mod.get_global_vars():
            if variable.name_hint not in used:
                del mod[variable]
        return mod

    return Pass(transform, PassInfo(1, "RemoveUnusedFunctions"))
