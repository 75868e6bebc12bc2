"""Options that several commands share, and the records of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from eqsat.cli.named import Named, load
from eqsat.cli.terminal import read_standard_input
from eqsat.cost import Bytes, CostFunction, Flops, OpCount, Roofline, Storage
from eqsat.cost.runtimes import ALL_LEVELS, NO_RUNTIME, RUNTIMES
from eqsat.egraph.report import Limits
from eqsat.egraph.rule import flatten
from eqsat.errors import ArgumentError, FileError, ProfileError
from eqsat.extraction import EXTRACTORS
from eqsat.files import check_target
from eqsat.pipeline.options import DEFAULTS, ON_ERROR, Options

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
STREAM = Path("-")
"""The path that stands for standard input or output."""

COSTS: dict[str, Callable[[], CostFunction]] = {
    "opcount": OpCount,
    "bytes": Bytes,
    "flops": Flops,
    "roofline": Roofline,
    "storage": Storage,
}
"""Cost models that only need a name."""

MEASURED = "measured"
"""The cost model that measures kernels in onnxruntime."""

PROFILE = ".json"
"""Suffix of the files with earlier measurements."""


def _gathered(name: str, record: Any, *options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """A decorator that gives a command some options, and their values as one argument.

    Args:
        name: Name of the argument.
        record: A dataclass with a field for each option.
        options: Decorators of ``click``, in the order of the help text.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(*args: Any, **given: Any) -> Any:
            gathered = record(**{field.name: given.pop(field.name) for field in fields(record)})
            if isinstance(gathered, Settings):
                _check_effect(click.get_current_context(), gathered)
            return command(*args, **{name: gathered}, **given)

        return reduce(lambda decorated, option: option(decorated), reversed(options), cast(Command, call))

    return decorate


def _check_effect(context: click.Context, settings: Settings) -> None:
    """Check that options about measurements are given with some.

    Raises:
        ArgumentError: One of them has no effect.
    """
    given = {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    is_file = settings.cost.endswith(PROFILE)
    if settings.foreign and not is_file:
        raise ArgumentError("--foreign has no effect: it needs the file of measurements that --cost FILE.json names")
    if settings.cost == MEASURED or context.params.get("measure"):
        return
    for name in ("level", "threads"):
        if name in given:
            told = "the file says how it was measured" if is_file else "nothing is measured"
            asked = "--cost measured or --measure" if "measure" in context.params else "--cost measured"
            raise ArgumentError(f"--{name} has no effect: {told}; add {asked}, or leave it out")


def _limits(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not value > 0:
        raise click.BadParameter(f"{value} is not above 0", context, parameter)
    return value


def _tolerance(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not value >= 0:
        raise click.BadParameter(f"{value} is not 0 or above", context, parameter)
    return value


def sizes_told(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, int]:
    """Return the sizes that NAME=SIZE arguments define, by name."""
    found = {}
    for told in values:
        name, _, size = told.rpartition("=")
        if not name or not size.isdecimal():
            raise click.BadParameter(f"{told!r} is not NAME=SIZE, as in height=320", context, parameter)
        found[name] = int(size)
    return found


def _absolute(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return absolute paths, which are valid in processes with other working folders."""
    return tuple(str(Path(path).absolute()) for path in values)


def _set_names() -> list[str]:
    from eqsat.rules import sets

    return list(sets)


def _cost_model(found: Any) -> CostFunction:
    """Return a named cost model; a class is called without arguments."""
    if not callable(found):
        raise ArgumentError("it is not a cost model: give a function of a CostNode that returns a number")
    return cast(CostFunction, found() if isinstance(found, type) else found)


class _CostName(Named):
    """The type of --cost: a name, or a file of measured times of kernels."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or the absolute path of the file."""
        return str(Path(value).absolute()) if value.endswith(PROFILE) else super().convert(value, param, ctx)


def rules_named(names: Iterable[str]) -> list[Any] | None:
    """Return the rule sets with these names, of eqsat or as MODULE:NAME; None if there are no names."""
    from eqsat.rules import sets

    return [load(name) if ":" in name else sets[name] for name in names] or None


@dataclass(frozen=True)
class Settings:
    """The values of the shared options as plain data: names of rule sets (empty for the default), and so on.

    :class:`eqsat.Options` describes their meaning. A name with a colon is MODULE:NAME.
    """

    rules: Sequence[str]
    cost: str
    foreign: bool
    threads: int
    method: str
    iterations: int
    nodes: int
    seconds: float
    extract_seconds: float
    on_error: str
    explain: bool
    level: str | None
    runtime: str
    contrib: bool
    opset: int | None
    provenance: bool

    @property
    def cost_model(self) -> CostFunction:
        """The named cost model.

        Raises:
            ProfileError: A file of measured times cannot be read, or is from another machine.
            ModelError: Kernels cannot be measured.
        """
        if self.cost.endswith(PROFILE):
            from eqsat.calibration import Calibrated, Profile

            profile = Profile.load(self.cost, self.foreign)
            if not self.foreign:
                self._check_setup(profile.setup)
            return Calibrated(profile)
        if self.cost == MEASURED:
            from eqsat.calibration import Calibrated

            return Calibrated.here(self.setup)
        return _cost_model(load(self.cost) if ":" in self.cost else COSTS[self.cost])

    def _check_setup(self, measured: Any) -> None:
        """Check that times were measured in the runtime that models are written for, its optimizer on or off alike.

        Raises:
            ProfileError: They were not.
        """
        if measured.runtime != self.setup.runtime:
            raise ProfileError(
                f"{self.cost} is of {measured.runtime}, and models are written for {self.setup.runtime}: give "
                "--runtime, measure anew with eqsat calibrate --runtime, or say that it is meant (--foreign)"
            )
        if measured.kernels != self.runtime:
            advice = (
                "leave --runtime out, measure anew at another --level"
                if measured.level == "off"
                else f"add --runtime {measured.runtime}, measure anew with --level off"
            )
            raise ProfileError(
                f"{self.cost} was measured at level {measured.level} of {measured.runtime}'s own optimizer, which is "
                f"{'off' if self.runtime == NO_RUNTIME else 'on'} with --runtime {self.runtime}: {advice}, or say that "
                "it is meant (--foreign)"
            )

    @property
    def setup(self) -> Any:
        """How the runtime runs in measurements: its optimizer is off if its kernels do not count.

        Raises:
            ArgumentError: Its optimizer is on, but its kernels do not count.
        """
        from eqsat.calibration import Setup

        if self.level not in (None, "off") and self.runtime == NO_RUNTIME:
            raise ArgumentError(f"--level {self.level} needs a runtime: add --runtime onnxruntime")
        return Setup.of(self.runtime, self.threads, self.level)

    @property
    def options(self) -> Options:
        """The settings as options of saturation and extraction."""
        return Options(
            rules=rules_named(self.rules),
            limits=Limits(iterations=self.iterations, nodes=self.nodes, seconds=self.seconds),
            cost_model=self.cost_model,
            method=self.method,
            seconds=self.extract_seconds,
            on_error=self.on_error,
            explain=self.explain,
            runtime=self.runtime,
            opset=self.opset,
            contrib=self.contrib,
            provenance=self.provenance,
        )


RULES = Named("rule set", _set_names, flatten)

_option = partial(click.option, show_default=True)
_limit = partial(_option, callback=_limits)

rules_option = click.option(
    "--rules",
    multiple=True,
    metavar="SET",
    type=RULES,
    help="Rule set to apply (see `eqsat rules list`), or MODULE:NAME for one of your own. May be repeated.",
)

threads_option = _option(
    "--threads",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of threads for measurements; 0 lets onnxruntime choose.",
)

shared_options = _gathered(
    "settings",
    Settings,
    rules_option,
    _option(
        "--cost",
        type=_CostName("cost model", lambda: [*COSTS, MEASURED], _cost_model),
        metavar=f"[{'|'.join([*COSTS, MEASURED])}|FILE.json|MODULE:NAME]",
        default="opcount",
        help="Cost to minimize. opcount: number of operators; bytes: bytes read and written; flops: floating-point "
        "operations; roofline: estimated seconds on a device; storage: bytes of constants in the file; "
        "measured: seconds in the runtime (for none: onnxruntime), measured on this machine; FILE.json: measurements "
        "that `eqsat calibrate` wrote; MODULE:NAME: a function of your own that returns the cost of a CostNode.",
    ),
    click.option("--foreign", is_flag=True, help="Accept measurements in FILE.json from another machine or version."),
    threads_option,
    click.option(
        "--level",
        type=click.Choice(ALL_LEVELS),
        show_default="off with --runtime none, otherwise all",
        help="Optimization level of the runtime itself in measurements; OpenVINO has only one, all.",
    ),
    _option(
        "--runtime",
        type=click.Choice(list(RUNTIMES)),
        default=DEFAULTS.runtime,
        help="Runtime whose fused kernels count as one operator each.",
    ),
    click.option(
        "--contrib",
        is_flag=True,
        help="Also write the runtime's own operators (domain com.microsoft) if they cost less.",
    ),
    _option(
        "--extract",
        "method",
        type=click.Choice(list(EXTRACTORS)),
        default=DEFAULTS.method,
        help="Method that chooses the result.",
    ),
    _limit(
        "--iterations",
        default=DEFAULTS.limits.iterations,
        help="Maximum number of iterations; each applies every rule once.",
    ),
    _limit("--nodes", default=DEFAULTS.limits.nodes, help="Maximum number of e-nodes in an e-graph."),
    _limit(
        "--seconds", default=DEFAULTS.limits.seconds, help="Time limit of saturation of the whole model, in seconds."
    ),
    _limit(
        "--extract-seconds", default=DEFAULTS.seconds, help="Time limit of extraction for the whole model, in seconds."
    ),
    _option(
        "--on-error",
        type=click.Choice(ON_ERROR),
        default=DEFAULTS.on_error,
        help="If the Python part of a rule fails: stop with the error, or skip the match.",
    ),
    click.option("--explain", is_flag=True, help="Print the rule that created each node and the steps to the result."),
    click.option("--opset", type=int, metavar="N", help="Opset of the written model.  [default: the model's own]"),
    _option(
        "--provenance/--no-provenance",
        default=DEFAULTS.provenance,
        help="Store in each node which nodes and rules it comes from, for `eqsat why`.",
    ),
)


dim_option = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    callback=sizes_told,
    help="Size of a dynamic dimension in comparisons and measurements; x.1 is axis 1 of input x. May be repeated.",
)


@dataclass(frozen=True)
class Verification:
    """How a new model is compared with the given one, as plain data: see the options below."""

    runs: int
    tolerance: float | None
    keep_differing: bool
    dims: Mapping[str, int]
    inputs: Sequence[str]

    @property
    def wanted(self) -> bool:
        """Whether the models are compared."""
        return bool(self.runs or self.inputs)


verify_options = _gathered(
    "verification",
    Verification,
    click.option(
        "--verify",
        "runs",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Compare the outputs of both models on N random inputs of each kind. The exit code is 3 if the "
        "comparison proves nothing.",
    ),
    dim_option,
    click.option(
        "--inputs",
        multiple=True,
        metavar="FILE.npz",
        callback=_absolute,
        help="Use these arrays, one for each input, instead of random ones in comparisons and measurements. May be "
        "repeated.",
    ),
    click.option(
        "--tolerance",
        type=float,
        callback=_tolerance,
        show_default="derived from the effect of rounding",
        help="Largest relative difference of outputs; if it is exceeded, nothing is written.",
    ),
    click.option("--keep-differing", is_flag=True, help="Write the model even if its outputs differ by more."),
)
bench_option = click.option(
    "--bench",
    is_flag=True,
    help="Measure the latency of both models, with onnxruntime's own optimizer off and on.",
)
measure_option = click.option(
    "--measure",
    is_flag=True,
    help="Run a few candidates in onnxruntime and write the fastest, which is never slower than IN. onnxruntime's "
    "own optimizer is off with --runtime none and on otherwise.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
page_option = click.option("--report", "page", type=PATH, metavar="FILE.html", help="Also write an HTML report.")
certificate_option = click.option(
    "--certificate",
    type=PATH,
    metavar="FILE.json",
    help="Also write a certificate of the result, which `eqsat check` replays. No repeated layer is left out then.",
)
progress_option = click.option(
    "--progress/--no-progress", default=None, help="Show progress on standard error.  [default: only on a terminal]"
)


def check_outputs(written: Iterable[Path | None], models: Iterable[Path], made: Path | None = None) -> None:
    """Check that all files can be written, before the work starts that would be lost.

    Args:
        written: Files to write that are not models, such as pages and pictures.
        models: Models that are read.
        made: The new model, which may replace one that is read.

    Raises:
        ArgumentError: A page or picture would overwrite a model or another page or picture.
        FileError: A file cannot be written.
    """
    written = [*written]
    for path in (*written, made):
        if path is not None and path != STREAM:
            try:
                check_target(path)
            except OSError as error:
                raise FileError(f"cannot write {path}: {error.strerror or error}") from None
    models = [*models, *([] if made is None else [made])]
    taken = {path.resolve() for path in models if path != STREAM}
    for path in written:
        if path is not None:
            if path.resolve() in taken:
                raise ArgumentError(f"{path} would be overwritten: give each file its own name")
            taken.add(path.resolve())


def read_model(source: Path) -> Any:
    """Return the ONNX model in a file or on standard input."""
    from eqsat import onnx

    if source != STREAM:
        return onnx.load(source)
    return onnx.from_bytes(read_standard_input(), "standard input")
