"""Instruments of passes: objects that a PassContext tells of each pass, with the names of ``tvm.ir.instrument``."""

from __future__ import annotations

import sys
from collections.abc import Container
from functools import update_wrapper
from time import perf_counter
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import Pass, PassContext, PassInfo, PassInstrument


def pass_instrument(pi_cls: type | None = None) -> Any:
    """Make a class of instruments of a class that has some of the methods of :class:`PassInstrument`; a decorator."""
    if pi_cls is None:
        return pass_instrument
    if not isinstance(pi_cls, type):
        raise ArgumentError(f"pass_instrument decorates classes, not {pi_cls!r}")
    if issubclass(pi_cls, PassInstrument):
        return pi_cls
    return update_wrapper(type(pi_cls.__name__, (pi_cls, PassInstrument), {}), pi_cls, updated=())


class PassTimingInstrument(PassInstrument):
    """Measures how long each pass takes; passes that a pass runs are part of it."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, float]] = []
        self._profiles: list[tuple[int, str, float]] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._profiles.append((len(self._begun), info.name, 0.0))
        self._begun.append((len(self._profiles) - 1, perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        index, begin = self._begun.pop()
        self._profiles[index] = (*self._profiles[index][:2], perf_counter() - begin)

    def enter_pass_ctx(self) -> None:
        self.exit_pass_ctx()

    def exit_pass_ctx(self) -> None:
        """Forget what was measured."""
        self._begun.clear()
        self._profiles.clear()

    def render(self) -> str:
        """A line for each pass that has run since the context was entered, with its microseconds."""
        return "".join([f"{'  ' * depth}{name}: {seconds * 1e6:.0f}us\n" for depth, name, seconds in self._profiles])


class _Printing(PassInstrument):
    def _print(self, when: str, mod: IRModule, info: PassInfo) -> None:
        print(f"{when} {info.name}\n{mod}")


class PassPrintingInstrument(_Printing):
    """Prints the module before and after passes of some names."""

    def __init__(self, print_before_pass_names: Container[str], print_after_pass_names: Container[str]):
        self._before, self._after = print_before_pass_names, print_after_pass_names

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self._before:
            self._print("Print IR before:", mod, info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self._after:
            self._print("Print IR after:", mod, info)


class PrintBeforeAll(_Printing):
    """Prints the module before every pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._print("Before Running Pass:", mod, info)


class PrintAfterAll(_Printing):
    """Prints the module after every pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._print("After Running Pass:", mod, info)


def PrintIR(header: str = "", show_meta_data: bool = False) -> Pass:
    """Print the module on the standard error stream, and leave it as it is.

    Args:
        header: what to print before it.
        show_meta_data: whether to print large constants and the like behind it.
    """

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        print(f"PrintIR({header}):\n{mod.astext(show_meta_data)}", file=sys.stderr)
        return mod

    return Pass(transform, PassInfo(0, "PrintIR"))
