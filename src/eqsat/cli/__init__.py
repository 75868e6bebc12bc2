"""The command line. Each command has a module, which parses the options, calls the library and prints the result."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from eqsat.brief import visible
from eqsat.cli.interrupt import Interrupted, ending_at_interrupts
from eqsat.cli.terminal import buffer_output, keep_libraries_quiet, write_no_more
from eqsat.collector import paused_gc
from eqsat.errors import EqsatError
from eqsat_command.memory import end_out_of_memory, is_out_of_memory

_COMMANDS = {
    "bisect": ("eqsat.cli.bisect:bisect", "Find the rule that makes a check of your own fail."),
    "calibrate": ("eqsat.cli.calibrate:calibrate", "Measure the time of kernels in a runtime."),
    "check": ("eqsat.cli.check:check", "Check the certificate of an optimized model."),
    "compare": ("eqsat.cli.compare:compare", "Compare orders of rewriting with saturation."),
    "equal": ("eqsat.cli.equal:equal", "Decide whether two models compute the same."),
    "extract": ("eqsat.extraction.__main__:main", "Solve files of the extraction-gym benchmark."),
    "optimize": ("eqsat.cli.optimize:optimize", "Write a cheaper model that computes the same values."),
    "optimize-all": ("eqsat.cli.optimize_all:optimize_all", "Optimize all models in a folder."),
    "partition": ("eqsat.cli.partition:partition", "Partition a model for a target."),
    "rules": ("eqsat.cli.rules:rules", "List, test or prove rewrite rules."),
    "show": ("eqsat.cli.show:show", "Print a graph as text or as a picture."),
    "variants": ("eqsat.cli.variants:variants", "Write random variants of a model that compute the same values."),
    "why": ("eqsat.cli.why:why", "Show the origin of a node of an optimized model."),
    "why-not": ("eqsat.cli.why_not:why_not", "Show why a rule did not contribute to the result."),
}
"""The module and attribute of each command, and its line in the list of commands, for which it is not loaded."""

EXIT_CODES = {
    0: "success",
    1: "some of several inputs failed, two models differ, a rule is not sound, or a pipe was closed",
    2: "bad input; one line on standard error describes it",
    3: "the comparison proves nothing, the certificate covers only a part, or the answer is unknown",
    130: "interrupted; nothing is written",
}
"""The exit codes of the commands."""

_NO_COMMAND = "NoArgsIsHelpError"
"""The error of a group without a command, which prints the help; old versions of click print it themselves."""

_LONGEST = 1000
"""Maximum number of characters of a printed error, because names in models may have any length."""


def main() -> None:
    """Run the command line. An error is one line on stderr and exit code 2; an interrupt is exit code 130."""
    keep_libraries_quiet()
    buffer_output()
    try:
        with ending_at_interrupts():
            code = cli(prog_name="eqsat", standalone_mode=False) or 0
            sys.stdout.flush()
        sys.exit(code)
    except click.ClickException as error:
        if type(error).__name__ == _NO_COMMAND:
            error.show()
            sys.exit(error.exit_code)
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "eqsat"
        _fail(f"{command}: {' '.join(error.format_message().split())}", error.exit_code)
    except (click.Abort, Interrupted, KeyboardInterrupt):
        _fail("eqsat: interrupted, nothing is written", 130)
    except EqsatError as error:
        if is_out_of_memory(error):  # not the fault of what was read or loaded then
            end_out_of_memory()
        _fail(f"eqsat: {' '.join(str(error).split())}", 2)
    except RecursionError:
        _fail("eqsat: the model nests too deeply", 2)
    except BrokenPipeError:  # whoever read our output has seen enough
        write_no_more()
        sys.exit(1)
    except OSError as error:  # those of files are told by who opens them
        if is_out_of_memory(error):
            raise
        write_no_more()
        _fail(f"eqsat: cannot write to {error.filename or 'standard output'}: {error.strerror or error}", 2)


def _fail(message: str, code: int) -> None:
    message = visible(message)
    click.echo(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…", err=True)
    sys.exit(code)


class _Commands(click.Group):
    """A group that loads its commands when they are called."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Load and return the command that the first argument names."""
        load_command(args[0])
        return super().resolve_command(ctx, args)


def load_command(name: str = "") -> None:
    """Load the command with a name, if there is one."""
    if name in _COMMANDS:
        from eqsat.cli.examples import show_examples
        from eqsat.cli.schemas import offer_schema

        module, _, attribute = _COMMANDS[name][0].partition(":")
        with paused_gc():  # what is loaded stays
            command = getattr(import_module(module), attribute)
        show_examples(command, name)
        offer_schema(command, name)
        cli.add_command(command, name)


_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:<4} {what}" for code, what in EXIT_CODES.items())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(package_name="eqsat")
def cli() -> None:
    """Equality saturation for tensor-compiler graphs.

    To enable completion in a shell, run: eval "$(_EQSAT_COMPLETE=bash_source eqsat)" (or zsh_source, fish_source).
    """


for _name, (_, _help) in _COMMANDS.items():
    cli.add_command(click.Command(_name, short_help=_help))
