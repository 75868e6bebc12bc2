"""The command `eqsat equal`: decide whether two models compute the same values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from eqsat.cli.arrays import read_arrays, write_arrays
from eqsat.cli.console import line_on
from eqsat.cli.options import (
    PATH,
    STREAM,
    check_outputs,
    json_option,
    read_model,
    rules_named,
    rules_option,
    sizes_told,
)
from eqsat.cli.progress import activity
from eqsat.cli.schemas import print_json
from eqsat.egraph.report import Limits
from eqsat.errors import ArgumentError

EXIT_CODES = {"equal": 0, "different": 1, "unknown": 3}
"""Answer -> exit code. It is defined here because only this command loads the module of the answers."""


def _pairs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    found = {}
    for told in values:
        second, _, first = told.rpartition("=")
        if not second or not first:
            raise click.BadParameter(f"{told!r} is not NAME=NAME, as in input_ids=tokens", context, parameter)
        found[second] = first
    return found


def _seconds(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not value > 0:
        raise click.BadParameter(f"{value} is not above 0", context, parameter)
    return value


@click.command(short_help="Decide whether two models compute the same.")
@click.argument("first", metavar="A", type=PATH)
@click.argument("second", metavar="B", type=PATH)
@click.option(
    "--match",
    multiple=True,
    metavar="NAME=NAME",
    callback=_pairs,
    help="An input of B and the input of A that it corresponds to. By default, inputs correspond by name, otherwise "
    "by order.",
)
@rules_option
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    callback=sizes_told,
    help="Size of a dynamic dimension of A in generated inputs; x.1 is axis 1 of input x. May be repeated.",
)
@click.option(
    "--inputs",
    multiple=True,
    type=PATH,
    metavar="FILE.npz",
    help="Compare on these arrays, one for each input of A, instead of generated ones. May be repeated.",
)
@click.option(
    "--counterexample",
    type=PATH,
    metavar="FILE.npz",
    help="If the models differ, write inputs on which they differ. --inputs reads this file.",
)
@click.option(
    "--exact-constants",
    is_flag=True,
    help="Do not treat a constant as equal to an expression of constants of the other model unless all bits agree.",
)
@click.option(
    "--seconds", default=60.0, show_default=True, callback=_seconds, help="Time limit of the proof, in seconds."
)
@click.option(
    "--report",
    "page",
    type=PATH,
    metavar="FILE.html",
    help="Also write an HTML page with both graphs and the places where they differ.",
)
@json_option
@click.pass_context
def equal(
    context: click.Context,
    first: Path,
    second: Path,
    match: dict[str, str],
    rules: Sequence[str],
    dims: dict[str, int],
    inputs: Sequence[Path],
    counterexample: Path | None,
    exact_constants: bool,
    seconds: float,
    page: Path | None,
    as_json: bool,
) -> None:
    """Decide whether the ONNX models A and B compute the same values; - is standard input.

    The exit code is 0 if rules prove that they do, 1 if an input was found on which they differ by more than rounding
    explains, and 3 if neither is known.
    """
    from eqsat import onnx
    from eqsat.onnx.feeds import check_asked

    if first == second == STREAM:
        raise ArgumentError("both models are standard input: give a file for one of them")
    check_outputs([page, counterexample], [first, second, *inputs])
    one, other = read_model(first), read_model(second)
    check_asked(one.graph.inputs, dims)
    arrays = [read_arrays(path) for path in inputs]
    with activity("comparing the models"):
        found = onnx.equal(
            one,
            other,
            rules_named(rules),
            Limits(seconds=seconds),
            match=match,
            dims=dims,
            inputs=arrays,
            exact_constants=exact_constants,
        )
    if counterexample is not None and found.difference is not None:
        write_arrays(counterexample, found.difference.inputs)
    if page is not None:
        from eqsat import report_page

        report_page.write(page, report_page.render_equality(found, f"{first} and {second}"))
    if as_json:
        print_json(found.to_json())
    else:
        line = line_on()
        for text in str(found).split("\n"):
            line(text)
    context.exit(EXIT_CODES[found.answer])
