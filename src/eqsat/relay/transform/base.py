"""Passes: functions from module to module, with the interface of ``tvm.transform``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, update_wrapper
from importlib import import_module
from typing import Any

from eqsat.errors import ArgumentError, PassError
from eqsat.relay.expr import Expr, Function
from eqsat.relay.infer import infer_module, infer_type_local
from eqsat.relay.module import IRModule
from eqsat.relay.ty import Type


@dataclass(frozen=True)
class PassInfo:
    """The description of a pass.

    Args:
        opt_level: The optimization level from which on a Sequential runs the pass.
        name: The name of the pass.
        required: Names of passes of :mod:`eqsat.relay.transform` that a Sequential runs before it.
    """

    opt_level: int
    name: str
    required: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = f"pass name: {self.name}, opt_level: {self.opt_level}, required passes: [{', '.join(self.required)}]"
        return f"The meta data of the pass - {told}"


class PassInstrument:
    """An observer of the passes in a :class:`PassContext`; subclasses override the methods that they need."""

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Return whether a pass may run; if an instrument returns false, the module stays unchanged."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """A pass is about to run on ``mod``."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """A pass has returned ``mod``."""


def checked_instruments(instruments: Iterable[PassInstrument] | None) -> tuple[PassInstrument, ...]:
    """Return the instruments as a tuple; raises ArgumentError for other objects."""
    found = tuple(instruments or ())
    for instrument in found:
        if not isinstance(instrument, PassInstrument):
            hint = (
                "; make it from its class"
                if isinstance(instrument, type)
                else "; decorate its class by pass_instrument"
            )
            raise ArgumentError(f"a PassContext takes pass instruments, not {instrument!r}{hint}")
    return found


_CONFIG_KINDS: dict[str, type] = {
    "relay.FuseOps.link_params": bool,
    "relay.FuseOps.max_depth": int,
    "relay.ToMixedPrecision.keep_orig_output_dtype": bool,
}
"""Options of passes -> the types of their values."""


class PassContext:
    """Settings for the passes that run inside a ``with`` block.

    Args:
        opt_level: A Sequential skips passes with a higher level.
        required_pass: Names of passes that a Sequential runs whatever their level.
        disabled_pass: Names of passes that a Sequential skips.
        instruments: Observers of each pass, called in order; see :mod:`eqsat.relay.transform.instrument`.
        config: Options of single passes, such as ``{"relay.FuseOps.max_depth": 16}``.

    Raises:
        ArgumentError: An object in ``instruments`` is not an instrument.
        PassError: No pass has an option of that name, or its value has the wrong type.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[PassInstrument] | None = None,
        config: Mapping[str, Any] | None = None,
    ):
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = checked_instruments(instruments)
        self.config = dict(config or {})
        for key, value in self.config.items():
            kind = _CONFIG_KINDS.get(key)
            if kind is None:
                raise PassError(f"no pass has the option {key!r}; known are {sorted(_CONFIG_KINDS)}")
            if not isinstance(value, kind):
                raise PassError(f"option {key!r} takes a value of type {kind.__name__}, not {value!r}")

    def enables(self, info: PassInfo) -> bool:
        """Whether a Sequential runs the pass."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def __enter__(self) -> PassContext:
        self._enter_instruments()
        _CONTEXTS.set((*_CONTEXTS.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        _CONTEXTS.set(_CONTEXTS.get()[:-1])
        self._leave_instruments()

    def override_instruments(self, instruments: Iterable[PassInstrument] | None) -> None:
        """Replace the instruments of this context, which must be entered, by others."""
        self._leave_instruments()
        self.instruments = checked_instruments(instruments)
        self._enter_instruments()

    def _enter_instruments(self) -> None:
        """Enter the instruments. If one raises, those before it are left, and the context has none."""
        for count, instrument in enumerate(self.instruments):
            try:
                instrument.enter_pass_ctx()
            except BaseException:
                entered, self.instruments = self.instruments[:count], ()
                for earlier in entered:
                    earlier.exit_pass_ctx()
                raise

    def _leave_instruments(self) -> None:
        try:
            for instrument in self.instruments:
                instrument.exit_pass_ctx()
        except BaseException:
            self.instruments = ()
            raise

    @staticmethod
    def list_configs() -> dict[str, type]:
        """Return every known option with the type of its values."""
        return dict(_CONFIG_KINDS)

    @staticmethod
    def current() -> PassContext:
        """Return the innermost context that is entered; if there is none, a context of level 2."""
        return _CONTEXTS.get()[-1]


_CONTEXTS: ContextVar[tuple[PassContext, ...]] = ContextVar("pass contexts", default=(PassContext(),))


ModuleTransform = Callable[[IRModule, PassContext], IRModule]
FunctionTransform = Callable[[Function, IRModule, PassContext], Expr]


class Pass:
    """A function from module to module; the given module is not changed.

    Args:
        transform: A function ``transform(module, context)`` that returns the new module.
        info: The description of the pass.
    """

    def __init__(self, transform: ModuleTransform, info: PassInfo):
        self._transform = transform
        self.info = info

    def __call__(self, mod: IRModule) -> IRModule:
        """Run the pass, unless an instrument of the current context prevents it.

        Raises:
            ArgumentError: The argument is not a module.
            PassError: The pass does not return a module.
        """
        if not isinstance(mod, IRModule):
            hint = "; wrap it by IRModule.from_expr" if hasattr(mod, "children") else ""
            raise ArgumentError(f"pass {self.info.name} takes an IRModule, not {mod!r}{hint}")
        context = PassContext.current()
        instruments = context.instruments
        answers = [instrument.should_run(mod, self.info) for instrument in instruments]
        if not all(answers):
            return mod
        for instrument in instruments:
            instrument.run_before_pass(mod, self.info)
        result = self._transform(mod.copy(), context)
        if not isinstance(result, IRModule):
            raise PassError(f"pass {self.info.name} gave {result!r} instead of an IRModule")
        for instrument in instruments:
            instrument.run_after_pass(result, self.info)
        return result

    def __repr__(self) -> str:
        return f"<pass {self.info.name}>"


class FunctionPass(Pass):
    """A pass that changes each function separately; types are inferred afterwards.

    Functions of external compilers (attribute ``Compiler`` or ``Extern``) and functions with the attribute
    ``SkipOptimization`` are not changed.

    Args:
        transform: A function ``transform(function, module, context)`` that returns the new function.
        info: As for :class:`Pass`.
        typed: Whether types are also inferred before the pass.
    """

    def __init__(self, transform: FunctionTransform, info: PassInfo, typed: bool = False):
        super().__init__(self._each_function, info)
        self._transform_function = transform
        self._typed = typed

    def _each_function(self, mod: IRModule, context: PassContext) -> IRModule:
        if self._typed:
            mod = infer_module(mod)
        result = mod.copy()
        for name, function in optimizable(mod):
            new = self._transform_function(function, mod, context)
            if not isinstance(new, Function):
                raise PassError(f"pass {self.info.name} made {new!r} of function {name!r} instead of a Function")
            result[name] = new
        return infer_module(result)


class ModulePass(Pass):
    """A pass over whole modules, created by :func:`module_pass`."""


def InferType() -> Pass:
    """Infer types: ``checked_type`` on every node, annotations on parameters, result types on functions."""
    return Pass(lambda mod, context: infer_module(mod), PassInfo(0, "InferType"))


def InferTypeLocal(expr: Expr) -> Type:
    """Infer the type of one node from the known types of the nodes below it; see :func:`infer_type_local`."""
    return infer_type_local(expr)


def optimizable(mod: IRModule) -> list[tuple[str, Function]]:
    """Return the functions of ``mod`` that passes may change, with their names."""
    return [
        (variable.name_hint, function)
        for variable, function in mod.functions.items()
        if not ("Compiler" in function.attrs or "Extern" in function.attrs or function.attrs.get("SkipOptimization"))
    ]


class Sequential(Pass):
    """Passes one after the other.

    The other arguments describe the sequence itself, as for :class:`PassInfo`.
    """

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
    ):
        super().__init__(self._each_pass, PassInfo(opt_level, name, tuple(required or ())))
        self.passes = list(passes or ())
        for item in self.passes:
            if not isinstance(item, Pass):
                hint = "; call it to make the pass" if callable(item) else ""
                raise ArgumentError(f"a Sequential takes passes, not {item!r}{hint}")

    def _each_pass(self, mod: IRModule, context: PassContext) -> IRModule:
        for item in self.passes:
            if not context.enables(item.info):
                continue
            for required in item.info.required:
                mod = _pass_named(required)(mod)
            mod = item(mod)
        return mod


def _pass_named(name: str) -> Pass:
    make = getattr(import_module("eqsat.relay.transform"), name, None)
    made = make() if callable(make) else None
    if not isinstance(made, Pass):
        raise PassError(f"a required pass is not known: {name!r}")
    return made


def _make_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    *,
    kind: type[Pass] | type[FunctionPass],
    method: str,
) -> Any:
    """Create a pass from a function or a class.

    Args:
        pass_func: the function or class; left out, the result is a decorator for it. Of a class it makes
            a class: its instances are the passes.
        opt_level: see :class:`PassInfo`; must be given.
        name: name of the pass, by default the function's.
        required: see :class:`PassInfo`.
        kind: what is made.
        method: the method of a class that does what the function does.
    """
    if opt_level is None:
        raise ArgumentError("a pass needs an opt_level")
    if pass_func is None:
        return partial(_make_pass, opt_level=opt_level, name=name, required=required, kind=kind, method=method)
    info = PassInfo(opt_level, name or pass_func.__name__, tuple(required or ()))
    if not isinstance(pass_func, type):
        return kind(pass_func, info)
    if not hasattr(pass_func, method):
        raise ArgumentError(f"pass class {pass_func.__name__} has no method {method}")
    return _pass_class(pass_func, info, kind, method)


module_pass = partial(_make_pass, kind=ModulePass, method="transform_module")
"""Make a pass of a function ``f(mod, context) -> mod``, or of a class with ``transform_module``."""

function_pass = partial(_make_pass, kind=FunctionPass, method="transform_function")
"""Like :func:`module_pass` for ``f(function, mod, context) -> function`` or ``transform_function``."""


def _pass_class(cls: type, info: PassInfo, kind: Any, method: str) -> type:
    """A class of passes whose instances do what an instance of ``cls`` does by ``method``."""

    class DecoratedPass(kind):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any):
            self._instance = cls(*args, **kwargs)
            super().__init__(getattr(self._instance, method), info)

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self.__dict__["_instance"], attribute)

    update_wrapper(DecoratedPass, cls, updated=())
    return DecoratedPass
