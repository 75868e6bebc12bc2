"""Inline, DefuseOps and RemoveUnusedFunctions: calls of functions."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Expr, Function, GlobalVar
from eqsat.relay.infer import callees_first
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.visitor import children_first, post_order, rewrite_post_order, substitute


def DefuseOps() -> Pass:
    """Undo FuseOps: replace each call of a function literal by the function's body over the arguments."""

    def visit(old: Expr, new: Expr) -> Expr:
        return _inlined(new.op, new) if isinstance(new, Call) and isinstance(new.op, Function) else new

    return FunctionPass(lambda function, mod, context: rewrite_post_order(function, visit), PassInfo(0, "DefuseOps"))


def Inline() -> Pass:
    """Inline the functions that have attribute ``Inline`` and call no others that stay, and drop those.

    A call of a function becomes the function's body. Where a function is not called but used as a value, and where it
    is called but belongs to an external compiler, the function itself takes the place of its name. Functions that
    nothing refers to stay: they are entries of the module. Types are not inferred anew.
    """

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        order = [variable.name_hint for variable in callees_first(mod)]
        referred = {callee for name in order for callee in _called(mod[name])}
        inlined: dict[str, Function] = {}

        def visit(old: Expr, new: Expr) -> Expr:
            named = old.op if isinstance(old, Call) else old
            if not isinstance(named, GlobalVar) or named.name_hint not in inlined:
                return new
            callee = inlined[named.name_hint]
            if not isinstance(new, Call):
                return _copied(callee)
            if len(callee.params) != len(new.args):
                takes = f"@{named.name_hint} has {len(callee.params)} parameters"
                raise PassError(f"Inline: {takes} and is called with {len(new.args)} arguments")
            if "Compiler" in callee.attrs or callee.attrs.get("Extern"):
                return new.with_children([_copied(callee), *new.args])
            return _inlined(callee, new)

        for name in order:
            function = rewrite_post_order(mod[name], visit)
            assert isinstance(function, Function)
            mod[name] = function
            if function.attrs.get("Inline") and not _called(function):
                inlined[name] = function
        for name in inlined:
            if name in referred:
                del mod[name]
        return mod

    return Pass(transform, PassInfo(1, "InlineGlobals"))


def _copied(function: Function) -> Expr:
    return function.with_children(function.children())


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
