"""Options that several commands have, and what they mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from eqsat.cost import CostFunction, OpCount, Roofline
from eqsat.egraph.report import Limits
from eqsat.errors import ArgumentError
from eqsat.extraction import EXTRACTORS

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
STREAM = Path("-")
"""Standard input or output in the place of a file."""

COSTS: dict[str, Callable[[], CostFunction]] = {"opcount": OpCount, "roofline": Roofline}


def _options(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(decorators), command)


def _limits(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not value > 0:
        raise click.BadParameter(f"{value} is not above 0", context, parameter)
    return value


def _tolerance(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not value >= 0:
        raise click.BadParameter(f"{value} is not 0 or above", context, parameter)
    return value


def _rule_sets(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> list[Any] | None:
    from eqsat.rules import sets

    unknown = [name for name in names if name not in sets]
    if unknown:
        choices = ", ".join(sets)
        raise click.BadParameter(f"there is no rule set {unknown[0]!r}: choose from {choices}", context, parameter)
    return [sets[name] for name in names] or None


rules_option = click.option(
    "--rules",
    multiple=True,
    metavar="SET",
    callback=_rule_sets,
    help="A rule set; repeat for more. See `eqsat rules list`.",
)
cost_option = click.option(
    "--cost",
    type=click.Choice(list(COSTS)),
    default="opcount",
    show_default=True,
    help="What is minimized: the number of operators, or the time on a device by its roofline.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
limit_options = _options(
    click.option(
        "--iterations", type=int, default=30, show_default=True, callback=_limits, help="Most rounds of all rules."
    ),
    click.option("--nodes", type=int, default=200_000, show_default=True, callback=_limits, help="Most e-nodes."),
    click.option(
        "--seconds", type=float, default=30.0, show_default=True, callback=_limits, help="Longest saturation."
    ),
)


def limits(iterations: int, nodes: int, seconds: float) -> Limits:
    """The limits that :data:`limit_options` gave."""
    return Limits(iterations=iterations, nodes=nodes, seconds=seconds)


def keep_apart(written: Iterable[Path | None], models: Iterable[Path]) -> None:
    """Raise ArgumentError when a page or picture would be written over a model, or over another of them."""
    taken = {path.resolve() for path in models if path != STREAM}
    for path in written:
        if path is not None:
            if path.resolve() in taken:
                raise ArgumentError(f"{path} would be written over: give each file a name of its own")
            taken.add(path.resolve())


def read_model(source: Path) -> Any:
    """The ONNX model in a file or on standard input."""
    from eqsat import onnx

    if source != STREAM:
        return onnx.load(source)
    return onnx.from_bytes(sys.stdin.buffer.read(), "standard input")


optimization_options = _options(
    rules_option,
    cost_option,
    click.option(
        "--extract",
        "method",
        type=click.Choice(list(EXTRACTORS)),
        default="auto",
        show_default=True,
        help="How the result is chosen.",
    ),
    limit_options,
    click.option("--opset", type=int, metavar="N", help="Write operators of opset N; by default the model's own."),
    click.option(
        "--verify",
        "runs",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Compare outputs on N random inputs.",
    ),
    click.option(
        "--tolerance",
        type=float,
        callback=_tolerance,
        default=1e-3,
        show_default=True,
        help="Relative difference beyond which nothing is written.",
    ),
    click.option("--keep-differing", is_flag=True, help="Write a model that differs by more all the same."),
)


@dataclass(frozen=True)
class Settings:
    """What :data:`optimization_options` gave."""

    rules: list[Any] | None
    cost: str
    method: str
    iterations: int
    nodes: int
    seconds: float
    opset: int | None
    runs: int
    tolerance: float
    keep_differing: bool

    @property
    def limits(self) -> Limits:
        """When saturation stops."""
        return limits(self.iterations, self.nodes, self.seconds)

    @property
    def cost_model(self) -> CostFunction:
        """What is minimized."""
        return COSTS[self.cost]()

    def to_work_on(self, model: Any) -> Any:
        """``model`` over the operators that are asked for."""
        from eqsat import onnx

        return model if self.opset is None else onnx.at_opset(model, self.opset)

    def as_data(self) -> dict[str, Any]:
        """The settings as plain data: rule sets by name."""
        return {**vars(self), "rules": None if self.rules is None else [each.name for each in self.rules]}

    @staticmethod
    def of_data(data: Mapping[str, Any]) -> Settings:
        """The settings that :meth:`as_data` wrote."""
        from eqsat.rules import sets

        return Settings(**{**data, "rules": data["rules"] and [sets[name] for name in data["rules"]]})
