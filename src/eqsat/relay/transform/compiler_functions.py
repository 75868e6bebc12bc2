"""InlineCompilerFunctionsBoundTo and OutlineCompilerFunctionsWithExistingGlobalSymbols: functions of compilers."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Expr, Function, GlobalVar
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import Pass, PassContext, PassInfo, optimizable
from eqsat.relay.visitor import rewrite_post_order, substitute


def InlineCompilerFunctionsBoundTo(global_vars: Sequence[GlobalVar]) -> Pass:
    """Undo the partitioning of some functions: calls are replaced by their bodies, and the functions are removed.

    Args:
        global_vars: The names of functions for external compilers.

    Raises:
        PassError: The module has no such function, or it is not for an external compiler.
    """
    names = [variable.name_hint for variable in global_vars]

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        bodies = {name: rewrite_post_order(_for_compiler(mod, name), _without_composite) for name in names}

        def visit(old: Expr, new: Expr) -> Expr:
            if not isinstance(new, Call) or not isinstance(new.op, GlobalVar):
                return new
            function = bodies.get(new.op.name_hint)
            return _applied(function, new) if isinstance(function, Function) else new

        callers = [(name, function) for name, function in optimizable(mod) if name not in bodies]
        for name, function in callers:
            mod[name] = _function(rewrite_post_order(function, visit))
        for name in bodies:
            del mod[name]
        return infer_module(mod)

    return Pass(transform, PassInfo(0, "InlineCompilerFunctionsBoundTo"))


def OutlineCompilerFunctionsWithExistingGlobalSymbols(compiler_filter: str = "") -> Pass:
    """Turn function literals for external compilers into functions of the module.

    Each is named by its attribute ``global_symbol``; of several of one name, the first stands for all.

    Args:
        compiler_filter: The external compiler whose functions are moved; empty for all compilers.

    Raises:
        PassError: One of the functions has no attribute ``global_symbol``.
    """

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        outlined: dict[str, Function] = {}

        def visit(old: Expr, new: Expr) -> Expr:
            if not isinstance(new, Call) or not isinstance(new.op, Function) or "Compiler" not in new.op.attrs:
                return new
            if compiler_filter not in ("", new.op.attrs["Compiler"]):
                return new
            symbol = new.op.attrs.get("global_symbol")
            if symbol is None:
                raise PassError(
                    f"OutlineCompilerFunctionsWithExistingGlobalSymbols: a function for {new.op.attrs['Compiler']!r} "
                    "has no attribute 'global_symbol' to be named by"
                )
            outlined.setdefault(str(symbol), new.op)
            return Call(GlobalVar(str(symbol)), new.args, span=new.span)

        for name, function in optimizable(mod):
            mod[name] = _function(rewrite_post_order(function, visit))
        for symbol, function in outlined.items():
            mod[symbol] = function
        return infer_module(mod)

    return Pass(transform, PassInfo(0, "OutlineCompilerFunctionsWithExistingGlobalSymbols"))


def _for_compiler(mod: IRModule, name: str) -> Function:
    if name not in mod or "Compiler" not in mod[name].attrs:
        raise PassError(f"InlineCompilerFunctionsBoundTo: the module has no function {name!r} for an external compiler")
    return mod[name]


def _without_composite(old: Expr, new: Expr) -> Expr:
    return _applied(new.op, new) if isinstance(new, Call) and isinstance(new.op, Function) else new


def _applied(function: Function, call: Call) -> Expr:
    return substitute(function.body, dict(zip(function.params, call.args, strict=True)))


def _function(expr: Expr) -> Function:
    assert isinstance(expr, Function)
    return expr
