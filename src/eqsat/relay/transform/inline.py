"""Inline and RemoveUnusedFunctions: calls between functions of a module."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Expr, Function, GlobalVar
from eqsat.relay.infer import callees_first, infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import Pass, PassContext, PassInfo
from eqsat.relay.visitor import post_order, rewrite_post_order, substitute


def Inline() -> Pass:
    """Inline the functions that have attribute ``Inline`` and do not call themselves, and drop them.

    A call of a function for an external compiler becomes a call of the function itself, without a name.
    """

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        inlined: dict[str, Function] = {}
        for name in [variable.name_hint for variable in callees_first(mod)]:
            function = _inline_calls(mod[name], inlined)
            mod[name] = function
            if function.attrs.get("Inline") and name not in _called(function):
                inlined[name] = function
        for name in inlined:
            del mod[name]
        return infer_module(mod)

    return Pass(transform, PassInfo(1, "Inline"))


def _inline_calls(function: Function, inlined: dict[str, Function]) -> Function:
    def visit(old: Expr, new: Expr) -> Expr:
        callee = inlined.get(new.op.name_hint) if isinstance(new, Call) and isinstance(new.op, GlobalVar) else None
        if callee is None or not isinstance(new, Call):
            return new
        if "Compiler" in callee.attrs:
            return Call(callee, new.args)
        return substitute(callee.body, dict(zip(callee.params, new.args, strict=True)))

    result = rewrite_post_order(function, visit)
    return result if isinstance(result, Function) else function


def _called(function: Function) -> dict[str, None]:
    return {node.name_hint: None for node in post_order(function) if isinstance(node, GlobalVar)}


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
        used = dict.fromkeys(entries)
        work = list(used)
        for name in work:
            fresh = [callee for callee in _called(mod[name]) if callee in mod and callee not in used]
            used.update(dict.fromkeys(fresh))
            work.extend(fresh)
        for variable in mod.get_global_vars():
            if variable.name_hint not in used:
                del mod[variable]
        return mod

    return Pass(transform, PassInfo(1, "RemoveUnusedFunctions"))
