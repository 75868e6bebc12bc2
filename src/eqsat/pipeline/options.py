"""What callers may ask of an optimization: one record for every function and command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from typing import Any, TypeAlias, TypedDict, TypeVar, cast

from eqsat.brief import one_line
from eqsat.cost import CostFunction, OpCount
from eqsat.cost.runtimes import CONTRIB, NO_RUNTIME, RUNTIMES
from eqsat.egraph.report import Limits
from eqsat.egraph.schedule import Schedule
from eqsat.errors import ArgumentError, LimitError
from eqsat.extraction import EXTRACTORS

Rules: TypeAlias = Iterable[Any] | Schedule
"""A rule set, any iterable of rules, rule sets and ``DFPatternCallback`` objects, or a schedule of them."""

ON_ERROR = ("raise", "skip")
"""What may be done about an exception in a rule's Python part."""

LEAST_SECONDS = 1e-9
"""Time for a step for which none is left, in seconds: it stops at its first look at the clock."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Options:
    """How to optimize. Functions take these as keyword arguments, or all at once as ``options=Options(...)``.

    Attributes:
        rules: The rules that act; None for ``eqsat.rules.default``.
        limits: When saturation stops. The time limit holds for the whole call: all functions, bodies and attempts
            together; the other limits hold for each function.
        cost_model: Cost of one node, in any unit: a number, or a tuple of numbers that are compared in order.
        method: How the result is chosen: ``tree``, ``dag``, ``local``, ``exact`` or ``auto``.
        seconds: Time that the choice may take in the whole call, in seconds.
        on_error: What to do about an exception in a rule's Python part. ``raise`` ends the run; ``skip`` leaves
            the match alone and puts the failure, with its traceback, into ``report.failures``.
        explain: Whether to find out how the result follows from the given graph; the run takes longer.
        runtime: The runtime whose kernels count; ``none``: each written node is a kernel.
        opset: Version of the ONNX operators that a model is written with; None for the model's own.
        contrib: Whether a model may be written with the runtime's own operators too, those of com.microsoft. The rules
            for that act beside those given; to a schedule, add ``eqsat.onnx.contrib_rules.contrib`` yourself.
        provenance: Whether the nodes of a written model say where they are from.

    Raises:
        ArgumentError: An option has the wrong type, is none of its choices, or does not go with another.
        LimitError: A number of seconds is not positive.
    """

    rules: Rules | None = None
    limits: Limits = field(default_factory=Limits)
    cost_model: CostFunction = field(default_factory=OpCount)
    method: str = "auto"
    seconds: float = 10.0
    on_error: str = "raise"
    explain: bool = False
    runtime: str = NO_RUNTIME
    opset: int | None = None
    contrib: bool = False
    provenance: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.rules, Iterator):
            object.__setattr__(self, "rules", tuple(self.rules))  # they are read more than once
        if not isinstance(self.limits, Limits):
            raise ArgumentError(f"limits={self.limits!r}: give eqsat.Limits(...)")
        if not callable(self.cost_model):
            raise ArgumentError(f"cost_model={self.cost_model!r}: give a function of a CostNode")
        for name, choices in (("method", EXTRACTORS), ("on_error", ON_ERROR), ("runtime", RUNTIMES)):
            value = getattr(self, name)
            if value not in tuple(choices):
                raise ArgumentError(f"{name} is {' or '.join(map(repr, choices))}, not {value!r}")
        if not isinstance(self.seconds, (int, float)) or isinstance(self.seconds, bool) or not self.seconds > 0:
            raise LimitError(f"seconds={self.seconds!r}: give a number above 0")
        for name in ("explain", "contrib", "provenance"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentError(f"{name}={getattr(self, name)!r}: give True or False")
        if self.contrib and self.runtime not in CONTRIB:
            known = " or ".join(map(repr, CONTRIB))
            raise ArgumentError(
                f"the runtime {self.runtime!r} has no operators of com.microsoft: contrib needs the runtime {known}"
            )
        if self.opset is not None and (not isinstance(self.opset, int) or isinstance(self.opset, bool)):
            raise ArgumentError(f"opset={self.opset!r}: give a number, or None for the model's own")

    def __repr__(self) -> str:
        said = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.name != "rules"]
        return one_line(f"Options(rules={one_line(repr(self.rules), 60)}, {', '.join(said)})", 400)

    @staticmethod
    def of(keywords: Mapping[str, Any], **more: Any) -> Options:
        """The options that a caller gave.

        Args:
            keywords: Options by name; ``options`` is the record that the others are changes of.
            more: More of these. None stands for an option that was not given.

        Raises:
            ArgumentError, LimitError: As for the record itself.
        """
        given = {name: value for name, value in {**keywords, **more}.items() if value is not None}
        options = given.pop("options", DEFAULTS)
        if not isinstance(options, Options):
            raise ArgumentError(f"options={options!r}: give eqsat.Options(...)")
        return replace(options, **given)

    @cached_property
    def schedule(self) -> Schedule:
        """The rules as a schedule.

        Raises:
            RuleError: A rule is ill-formed.
        """
        if self.rules is not None:
            return Schedule.of(self.rules)
        from eqsat.rules import default  # all the rules take a while to load

        return Schedule.of(default)

    def after(self, seconds: float, extracting: float = 0.0) -> Options:
        """The options for what is left of a call.

        Args:
            seconds: Time since the call began, in seconds.
            extracting: Time spent on choosing results, in seconds.
        """
        limits = replace(self.limits, seconds=max(self.limits.seconds - seconds, LEAST_SECONDS))
        return replace(self, limits=limits, seconds=max(self.seconds - extracting, LEAST_SECONDS))


DEFAULTS = Options()
"""The options of a caller who gives none."""


class SaturateKeywords(TypedDict, total=False):
    """Options of a saturation beside its rules and limits."""

    on_error: str
    explain: bool
    options: Options


class ExtractKeywords(TypedDict, total=False):
    """Options of an extraction beside its cost model and method."""

    seconds: float
    runtime: str
    options: Options


class CompareKeywords(SaturateKeywords, ExtractKeywords, total=False):
    """Options of both beside these."""

    method: str


class OptimizeKeywords(CompareKeywords, total=False):
    """Options of both in one call, beside the rules."""

    limits: Limits
    cost_model: CostFunction


class ModelKeywords(OptimizeKeywords, total=False):
    """Options of an optimization of an ONNX model."""

    opset: int | None
    contrib: bool
    provenance: bool


def takes(keywords: Any) -> Callable[[Function], Function]:
    """Let a function that takes some options as ``**keywords`` be called as if it listed each of them.

    They are in its signature, in the order of :class:`Options`, and can be given by place after its own parameters.

    Args:
        keywords: The typed dictionary of these options.
    """
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [
        inspect.Parameter(each.name, place, default=getattr(DEFAULTS, each.name), annotation=each.type)
        for each in fields(Options)
        if each.name in keywords.__annotations__
    ]
    shown.append(inspect.Parameter("options", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Options | None))

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        signature = signature.replace(parameters=sorted(own + shown, key=lambda each: each.kind))

        @wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            try:
                bound = signature.bind(*args, **given)
            except TypeError as error:
                raise ArgumentError(f"{function.__name__}: {error}") from None
            return function(**bound.arguments)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Function, call)

    return decorate
