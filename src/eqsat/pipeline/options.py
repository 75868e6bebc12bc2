"""The options of an optimization, in one record for all functions and commands."""

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
"""What can be done about an exception in the Python part of a rule."""

LEAST_SECONDS = 1e-9
"""Time limit of a step if no time is left, in seconds: it stops at its first check of the clock."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Options:
    """Options of an optimization, passed as keyword arguments or together as ``options=Options(...)``.

    Attributes:
        rules: The rules to apply; None for ``eqsat.rules.default``.
        limits: The limits of saturation. The time limit applies to the whole call, with all functions, bodies and
            attempts; the other limits apply to each function.
        cost_model: The cost of one node, in any unit: a number, or a tuple of numbers that are compared in order.
        method: The extraction method: ``tree``, ``dag``, ``local``, ``exact`` or ``auto``.
        seconds: The time limit of extraction for the whole call, in seconds.
        on_error: What to do if the Python part of a rule raises an exception. ``raise`` ends the run; ``skip`` skips
            the match and adds the failure, with its traceback, to ``report.failures``.
        explain: Whether to record how the result follows from the given graph, which makes the run slower.
        runtime: The runtime whose fused kernels count as one operator; ``none`` counts each written node as a kernel.
        opset: The opset of the written model; None for the opset of the given model.
        contrib: Whether the model may contain the runtime's own operators (domain com.microsoft). The rules that
            introduce them are added to the given rules. If ``rules`` is a schedule, add
            ``eqsat.onnx.contrib_rules.contrib`` to it yourself.
        provenance: Whether the nodes of a written model store where they come from.

    Raises:
        ArgumentError: An option has the wrong type or an unknown value, or contradicts another option.
        LimitError: A time limit is not positive.
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
        """Return the options that a caller passed.

        Args:
            keywords: Options by name. ``options`` is a record; the other options replace its fields.
            more: Further options by name. None means that the option was not passed.

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
        """The rules as a schedule. Raises: RuleError: A rule is ill-formed."""
        if self.rules is not None:
            return Schedule.of(self.rules)
        from eqsat.rules import default  # all the rules take a while to load

        return Schedule.of(default)

    def after(self, seconds: float, extracting: float = 0.0) -> Options:
        """Return the options for the remaining time of a call.

        Args:
            seconds: Time since the call began, in seconds.
            extracting: Time spent on extraction, in seconds.
        """
        limits = replace(self.limits, seconds=max(self.limits.seconds - seconds, LEAST_SECONDS))
        return replace(self, limits=limits, seconds=max(self.seconds - extracting, LEAST_SECONDS))


DEFAULTS = Options()
"""The default options."""


class SaturateKeywords(TypedDict, total=False):
    """Options of a saturation, except its rules and limits."""

    on_error: str
    explain: bool
    options: Options


class ExtractKeywords(TypedDict, total=False):
    """Options of an extraction, except its cost model and method."""

    seconds: float
    runtime: str
    options: Options


class CompareKeywords(SaturateKeywords, ExtractKeywords, total=False):
    """Options of saturation and extraction, except the parameters of :func:`eqsat.compare_orders`."""

    method: str


class OptimizeKeywords(CompareKeywords, total=False):
    """Options of saturation and extraction in one call, except the rules."""

    limits: Limits
    cost_model: CostFunction


class ModelKeywords(OptimizeKeywords, total=False):
    """Options of an optimization of an ONNX model."""

    opset: int | None
    contrib: bool
    provenance: bool


def takes(keywords: Any) -> Callable[[Function], Function]:
    """Return a decorator for a function with ``**keywords``, which may then be called as if it listed each option.

    The options appear in the signature of the function, in the order of :class:`Options`, and can be passed by position
    after its own parameters.

    Args:
        keywords: The typed dictionary of the options.
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
